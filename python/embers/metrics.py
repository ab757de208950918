"""Metrics of job.evaluate(), over all records at once. Outputs are logits: (n,) of the positive class, for targets 0 and 1;
or (n, classes), for targets that are numbers of classes."""
from __future__ import annotations

import contextlib
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Sequence, Tuple, Union

import numpy as np

from .errors import BadInput

Metric = Callable[[np.ndarray, np.ndarray], float]
Metrics = Union[str, Sequence[str], Mapping[str, Metric]]
Predict = Callable[[Any, Any], Tuple[Any, Any]]

_TARGETS = ("y", "label", "labels", "target", "targets")


def auc(outputs: np.ndarray, targets: np.ndarray) -> float:
    """The area under the ROC curve, exactly: equal outputs count half. NaN if there is one class only, or more than two."""
    _check_shapes("auc", outputs, targets, (1, 2))
    if outputs.ndim == 2:
        if outputs.shape[1] != 2:
            return float("nan")
        outputs = outputs[:, 1] - outputs[:, 0]
    positive = np.asarray(targets) > 0.5
    positives, negatives = int(positive.sum()), int((~positive).sum())
    if positives == 0 or negatives == 0:
        return float("nan")
    _, inverse, counts = np.unique(outputs, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    twice_rank = (2 * ends - counts + 1)[inverse]  # twice the mean of the ranks of equal outputs
    return (int(twice_rank[positive].sum()) - positives * (positives + 1)) / (2 * positives * negatives)


def accuracy(outputs: np.ndarray, targets: np.ndarray) -> float:
    """The share of records whose class is the one with the largest logit."""
    _check_shapes("accuracy", outputs, targets, (1, 2))
    if outputs.ndim == 1:
        return float(((outputs > 0) == (targets > 0.5)).mean())
    return float((outputs.argmax(axis=1) == targets).mean())


def loss(outputs: np.ndarray, targets: np.ndarray) -> float:
    """The mean cross entropy."""
    _check_shapes("loss", outputs, targets, (1, 2))
    x = outputs.astype(np.float64)
    if outputs.ndim == 1:
        return float((np.logaddexp(0, x) - x * targets).mean())
    largest = x.max(axis=1, keepdims=True)
    log_sum = largest[:, 0] + np.log(np.exp(x - largest).sum(axis=1))
    return float((log_sum - x[np.arange(len(x)), targets.astype(np.int64)]).mean())


def mean_squared_error(outputs: np.ndarray, targets: np.ndarray) -> float:
    _check_shapes("mean_squared_error", outputs, targets, (1, 2, 3, 4))
    return float(((outputs.astype(np.float64) - targets) ** 2).mean())


NAMED: Dict[str, Metric] = {"auc": auc, "accuracy": accuracy, "loss": loss, "mean_squared_error": mean_squared_error}


def default_predict(model: Any, batch: Any) -> Tuple[Any, Any]:
    if isinstance(batch, (tuple, list)):
        if len(batch) < 2:
            raise BadInput("a batch of one element has no targets: give predict=lambda model, batch: (outputs, targets)")
        return model(*batch[:-1]), batch[-1]
    for name in _TARGETS:
        if isinstance(batch, Mapping) and name in batch:
            return model(batch), batch[name]
        if not isinstance(batch, Mapping) and hasattr(batch, name):
            return model(batch), getattr(batch, name)
    raise BadInput(f"a batch has no targets among {', '.join(_TARGETS)}: give predict=lambda model, batch: (outputs, targets)")


@contextlib.contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """model.eval(), and back to what each of its modules was."""
    modules = list(model.modules()) if hasattr(model, "modules") else []
    modes = [m.training for m in modules]
    if modules:
        model.eval()
    try:
        yield
    finally:
        for module, mode in zip(modules, modes):
            module.training = mode


def measure(model: Any, loader: Iterable[Any], metrics: Metrics, predict: Predict) -> Dict[str, float]:
    chosen = _chosen(metrics)
    outputs: List[np.ndarray] = []
    targets: List[np.ndarray] = []
    for batch in loader:
        output, target = (_array(part) for part in predict(model, batch))
        if output.ndim == 0 or output.shape[:1] != target.shape[:1]:
            raise BadInput(f"a batch has targets of shape {target.shape}, but the model gives outputs of shape {output.shape}: the "
                           "first dimension is that of the records")
        outputs.append(output)
        targets.append(target)
    if not outputs:
        raise BadInput("the loader has no batch to evaluate")
    together = np.concatenate(outputs), np.concatenate(targets)
    # (n, 1), as a layer with one output gives it, is (n,) to metrics that are named.
    plain = [_without_one(part) for part in together]
    return {name: float(f(*plain if f in NAMED.values() else together)) for name, f in chosen.items()}


def _array(part: Any) -> np.ndarray:
    """Tensors of torch on any device, and of a dtype that NumPy does not have, too."""
    if hasattr(part, "detach"):
        part = part.detach().cpu()
        try:
            return np.asarray(part)
        except TypeError:  # bfloat16
            part = part.float()
    return np.asarray(part)


def _without_one(part: np.ndarray) -> np.ndarray:
    return part[:, 0] if part.ndim == 2 and part.shape[1] == 1 else part


def _check_shapes(metric: str, outputs: np.ndarray, targets: np.ndarray, ndims: Sequence[int]) -> None:
    fits = outputs.ndim in ndims and (targets.shape == outputs.shape if metric == "mean_squared_error" else targets.ndim == 1)
    if not fits:
        raise BadInput(f"metric '{metric}' has no meaning for outputs of shape {outputs.shape} and targets of shape "
                       f"{targets.shape}: give a function of your own, metrics={{'mine': lambda outputs, targets: ...}}")


def _chosen(metrics: Metrics) -> Mapping[str, Metric]:
    if isinstance(metrics, Mapping):
        return metrics
    names = (metrics,) if isinstance(metrics, str) else metrics
    for name in names:
        if name not in NAMED:
            raise BadInput(f"there is no metric '{name}': there are {', '.join(NAMED)}, or give a function by name, "
                           "metrics={'mine': lambda outputs, targets: ...}")
    return {name: NAMED[name] for name in names}
