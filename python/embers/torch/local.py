"""torch's optimizers for the update rules of this package, for dense="local"."""
from __future__ import annotations

from typing import Any, Callable, Dict, List

import torch

from ..errors import BadInput


def _adam(kind: Any) -> Callable[[Any, List[torch.Tensor]], torch.optim.Optimizer]:
    return lambda r, p: kind(p, lr=r.learning_rate, betas=(r.beta_1, r.beta_2), eps=r.epsilon, weight_decay=r.weight_decay,
                             amsgrad=r.amsgrad)


_RULES: Dict[str, Callable[[Any, List[torch.Tensor]], torch.optim.Optimizer]] = {
    "sgd": lambda r, p: torch.optim.SGD(p, lr=r.learning_rate, momentum=r.momentum, nesterov=r.nesterov,
                                        weight_decay=r.weight_decay),
    "adagrad": lambda r, p: torch.optim.Adagrad(p, lr=r.learning_rate, eps=r.epsilon, weight_decay=r.weight_decay,
                                                initial_accumulator_value=r.initial_accumulator_value),
    "rmsprop": lambda r, p: torch.optim.RMSprop(p, lr=r.learning_rate, alpha=r.rho, eps=r.epsilon, momentum=r.momentum,
                                                centered=r.centered, weight_decay=r.weight_decay),
    "adadelta": lambda r, p: torch.optim.Adadelta(p, lr=r.learning_rate, rho=r.rho, eps=r.epsilon,
                                                  weight_decay=r.weight_decay),
    "adam": _adam(torch.optim.Adam),
    "adamw": _adam(torch.optim.AdamW),
}


def local_optimizer(rule: Any, parameters: List[torch.Tensor]) -> torch.optim.Optimizer:
    """torch's optimizer with the parameters of `rule`, an object such as embers.Adam(1e-3)."""
    name = getattr(rule, "toml_name", "")
    make = _RULES.get(name)
    has_more = next((setting for setting in ("schedule", "clipvalue", "clipnorm", "global_clipnorm")
                     if getattr(rule, setting, None) is not None), None)
    if make is None or has_more is not None:
        raise BadInput(f'dense="local" has no optimizer of torch for {rule!r}{f" with its {has_more}" if make else ""}: give one, '
                       "dense=torch.optim.Adam(model.parameters())")
    if not parameters:
        parameters = [torch.zeros(0)]  # torch wants one
    return make(rule, parameters)
