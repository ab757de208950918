"""et.Optimizer: a model's part in a job."""
from __future__ import annotations

import contextlib
import os
import secrets
import zlib
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, Iterator, List, Optional, Union

import numpy as np
import torch
from torch import nn

from .. import _core
from ..errors import BadInput, UsageError
from ..host_embedding import no_minibatch
from ..log import logger as log
from ..loop import Training
from ..sampler import mix
from ..trainer import Step, Trainer
from . import host_embedding
from .local import local_optimizer
from .numeric import match_blas_threads, numeric_settings
from .rows import ReadRows, RowSource, StepRows
from .table import TableDefinition, bind_all, collect, toml

if TYPE_CHECKING:
    from ..host_embedding import HostEmbedding


class Optimizer(Trainer):
    """Trains a model whose tables, and dense parameters, a job keeps.

    model: holds et.Embedding, et.EmbeddingBag, et.EmbeddingBagCollection, or none of them. Its parameters that require
        gradients, and its buffers, are the job's; they are loaded before each minibatch. A fresh job begins with the
        values that the model of its first worker has. Parameters that are frozen stay as they are here.
    job: embers.connect() or embers.local().
    rule: the update rule, embers.Adam(1e-3), applied by the job's owners to rows and parameters; None is the job's own.
    dense: "owners"; or "local": parameters and buffers stay with this process, which must then be the job's only worker;
        they are trained by torch's optimizer for `rule`, or by the one that is given: dense=torch.optim.Adam(...).

    In sync mode the gradients of a version's minibatches are averaged, weighted by their records, or added up, as the
    job says (training.reduction); so the loss should be a mean over the batch for the first, a sum for the second.

    Raises BadInput for tables that are defined twice and differ, and for parameters that are not float32."""

    def __init__(self, model: nn.Module, job: Training, rule: Any = None, *,
                 dense: Union[str, torch.optim.Optimizer] = "owners"):
        if not isinstance(model, nn.Module) or not hasattr(job, "_attach"):
            raise BadInput(f"et.Optimizer(model, job, rule) takes a torch.nn.Module and a job, not a {type(model).__name__} and a "
                           f"{type(job).__name__}")
        self._model = model
        self._job = job
        self._rule = toml(rule)
        self._layers, self._tables, self._uses = collect(model)
        self._source: Optional[RowSource] = None  # of host embeddings
        self._local: Optional[torch.optim.Optimizer] = None
        trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self._frozen = {name: p for name, p in model.named_parameters() if not p.requires_grad}
        if isinstance(dense, torch.optim.Optimizer):
            self._local = dense
        elif dense == "local":
            self._local = local_optimizer(rule, list(trained.values()))
        elif dense != "owners":
            raise BadInput(f'dense={dense!r} is neither "owners" nor "local" nor an optimizer of torch')
        if self._local is not None:  # which may train what is frozen now
            its_own = {id(p) for group in self._local.param_groups for p in group["params"]}
            self._frozen = {name: p for name, p in self._frozen.items() if id(p) not in its_own}
        self._parameters: Dict[str, nn.Parameter] = {} if self._local else trained
        self._buffers: Dict[str, torch.Tensor] = {} if self._local else dict(model.named_buffers())
        for name, p in self._parameters.items():
            if p.dtype != torch.float32:
                raise BadInput(f"parameter '{name}' is {p.dtype}: the job keeps float32 (model.float())")
        for name, b in self._buffers.items():
            if b.dtype == torch.int64 and b.numel() > 0 and int(b.abs().max()) > _LARGEST:
                raise BadInput(f"buffer '{name}' has the value {int(b.abs().max())}: the job keeps buffers as float32, which has all "
                               f"integers up to {_LARGEST} only. Keep it as a plain attribute of the module")
            if b.dtype not in (torch.float32, torch.int64):
                raise BadInput(f"buffer '{name}' is {b.dtype}: the job keeps float32, and int64 up to 2^24")
        bind_all(self._layers, self._uses, None)
        job._attach(self)

    # --- for users ---------------------------------------------------------------------------------

    def step(self, loss: Union[None, float, torch.Tensor] = None) -> None:
        """Hands the gradients of this minibatch to the job, and returns at once: of its rows and parameters, and new
        values of buffers. Gradients are then cleared. `loss`, a mean over the batch, is shown and reported."""
        self._push(loss, True)

    def skip(self) -> None:
        """In place of step(): the minibatch's records count, but it changes nothing. For a loss that is NaN, say."""
        self._push(None, False)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clears gradients; step() has done so already."""
        self._clear_dense()
        if self._job._step is not None and not self._job._step.is_taken:
            self._job._step.rows.clear_gradients()

    # --- the loop's side ---------------------------------------------------------------------------

    def tables(self) -> List[TableDefinition]:
        return self._tables

    def declare(self) -> Trainer.Declaration:
        tables = [_core.TableSpec(d.name, d.dim, d.keys, d.initializer, d.optimizer, d.constraint, d.partition)
                  for d in self._tables]
        tables += self._job._host_embeddings.join(self._uses)
        parameters = [_core.ParameterSpec(name, list(p.shape), False, _floats(p))
                      for name, p in self._parameters.items()]
        parameters += [_core.ParameterSpec(name, list(b.shape), True, _floats(b)) for name, b in self._buffers.items()]
        match_blas_threads()
        if not any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ):
            _core.tune_malloc()
        numeric = numeric_settings()
        data = [f"frozen.{name}={zlib.crc32(_floats(p).tobytes()):08x}"
                for name, p in self._model.named_parameters() if not p.requires_grad]
        if self._local is not None:
            # Nobody else has this line, so a second worker is refused.
            data.append(f"dense=local to one worker, {secrets.token_hex(4)}")
        return Trainer.Declaration(tables, parameters, numeric, data, self._rule)

    def open(self, minibatch: Any) -> StepRows:
        uses = {e.name: host_embedding.use_of(e) for e in self._job._host_embeddings.now()}
        return StepRows(minibatch, {**self._uses, **uses})

    def begin(self, step: Step) -> None:
        self._clear_dense()  # of a minibatch that was given back, or what was added after its step
        self._look_at_buffers()
        self._load(step.minibatch.parameter(i) for i in range(len(self._parameters) + len(self._buffers)))
        bind_all(self._layers, self._uses, step.rows)
        self._source = step.rows
        sampler = self._job._sampler
        assert sampler is not None  # a minibatch is one of its
        seed = mix(sampler.seed, step.minibatch.epoch, step.minibatch.number)
        # As torch.manual_seed(), which without CUDA keeps a traceback of each call, for ever.
        torch.default_generator.manual_seed(seed)
        if torch.cuda.is_initialized():
            torch.cuda.manual_seed_all(seed)

    def end(self, step: Step) -> None:
        bind_all(self._layers, self._uses, None)
        self._source = None

    @property
    def has_rows(self) -> bool:
        return self._source is not None

    def look_up(self, embedding: "HostEmbedding", ids: Any, clip_indices: bool, training: bool,
                lookup: Callable[[str, Any], Any]) -> torch.Tensor:
        if not training:
            return host_embedding.read(embedding, ids, clip_indices, lookup)
        if self._source is None:
            raise no_minibatch(embedding.name)
        return host_embedding.look_up(embedding, ids, clip_indices, self._source)

    @contextlib.contextmanager
    def reading(self, model: nn.Module, lookup: Callable[[str, Any], Any]) -> Iterator[None]:
        layers, _, uses = collect(model)
        if self._has_a_part_in(model):
            self._load_present_parameters()
        before = self._source, [(layer, layer._uses, layer._source) for layer in layers]
        self._source = ReadRows(lookup)
        bind_all(layers, uses, self._source)
        try:
            with torch.no_grad():
                yield
        finally:
            self._source, bound = before
            for layer, its_uses, source in bound:
                layer.bind(its_uses or uses, source)

    def _has_a_part_in(self, model: nn.Module) -> bool:
        """Whether the job keeps any of its parameters or buffers: of a model that holds the optimizer's, or is a part of it, too."""
        self._look_at_buffers()
        kept = {id(t) for t in (*self._parameters.values(), *self._buffers.values())}
        return any(id(t) in kept for t in (*model.parameters(), *model.buffers()))

    def finish(self) -> None:
        if self._parameters or self._buffers:
            self._load_present_parameters()

    def _load_present_parameters(self) -> None:
        """As the job has them now."""
        if self._job._worker_session is None:
            raise UsageError("this program has not joined the job as a worker, so it does not know what the job has for the model's "
                             "dense parameters: evaluate, or read, after its first minibatch")
        values = self._job._parameters()
        self._look_at_buffers()
        if values is not None:
            self._load(values)

    def _load(self, values: Iterable[np.ndarray]) -> None:
        """Of parameters, then of buffers."""
        with torch.no_grad():
            for target, value in zip((*self._parameters.values(), *self._buffers.values()), values):
                target.copy_(torch.from_numpy(value).view(target.shape))

    # --- its own -----------------------------------------------------------------------------------

    def _look_at_buffers(self) -> None:
        """The model may have new tensors in their places."""
        if not self._buffers:
            return
        buffers = dict(self._model.named_buffers())
        changed = next((name for name, b in self._buffers.items()
                        if name not in buffers or buffers[name].shape != b.shape), None)
        if changed is not None:
            raise UsageError(f"buffer '{changed}' was {tuple(self._buffers[changed].shape)} when et.Optimizer was made, and is "
                             f"{'gone' if changed not in buffers else tuple(buffers[changed].shape)} now: a job's buffers keep their "
                             "names and shapes")
        self._buffers = {name: buffers[name] for name in self._buffers}

    def _clear_dense(self) -> None:
        for p in self._parameters.values():
            p.grad = None
        if self._local is not None:
            self._local.zero_grad(set_to_none=True)

    def _look_at_frozen(self) -> None:
        name = next((name for name, p in self._frozen.items() if p.grad is not None), None)
        if name is not None:
            log.warning("parameter '%s' has a gradient, but was frozen when et.Optimizer was made, so the job does not train it: "
                        "leave it trainable then, and clear its .grad before opt.step() for as long as it is to stay", name)
            self._frozen = {}

    def _push(self, loss: Union[None, float, torch.Tensor], counts: bool) -> None:
        if self._job._trainer is not self:
            raise UsageError("another et.Optimizer was made for this job later: call its step()")
        step = self._job._current_step()
        step.check_due()
        self._look_at_buffers()
        step.loss = None if loss is None else _number(loss)
        self._look_at_frozen()
        if step.rows.is_stale:
            step.minibatch.give_back()
            step.is_taken = True
        else:
            rows = step.rows.gradients()
            dense = [p.grad for p in self._parameters.values()]
            buffers = list(self._buffers.values())
            if not counts:
                rows, dense, buffers = [None] * len(rows), [None] * len(dense), [None] * len(buffers)
            step.minibatch.push(rows, [None if t is None else _floats(t) for t in (*dense, *buffers)],
                                examples=step.records, loss_sum=(step.loss or 0.0) * step.records)
            step.is_taken = True
            if self._local is not None and counts:
                self._local.step()
        self.zero_grad()


def _number(loss: Union[float, torch.Tensor]) -> float:
    try:
        return float(loss)
    except (TypeError, ValueError, RuntimeError) as e:
        raise BadInput(f"the loss is a {type(loss).__name__} that is not one number ({e}): give step() its mean over the batch") from e


_LARGEST = 1 << 24  # up to which float32 has all integers


def _floats(tensor: torch.Tensor) -> np.ndarray:
    """Its values as float32, contiguous; no copy where they are that already."""
    if tensor.is_sparse:
        raise UsageError("a dense parameter has a sparse gradient: use et.Embedding in place of torch.nn.Embedding, or "
                         "sparse=False")
    return tensor.detach().to("cpu", torch.float32).contiguous().numpy()
