"""Host embeddings: tables of a known shape that stay in the memory of hosts, while a model computes where it likes.

    embedding = embers.create_host_embedding("char_embedding", shape=[256, 256], dtype="float32", partition_strategy="TOKEN",
                                             optimizer_spec=embers.HostEmbeddingOptimizerSpec(0.0001))
    with embedding.register(job):
        for batch in job.train(loader):
            rows = embedding.lookup(batch)                 # (*batch.shape, 256), differentiable
            ...

The terms are those of Graphcore's host embeddings: a table has *tokens*, its rows, each with an *encoding*, the floats of the
row. Needs no torch; what tensors need is in embers.torch.host_embedding."""
from __future__ import annotations

import dataclasses
import difflib
import math
import sys
from typing import Any, Dict, Optional, Sequence, Tuple, Type

import numpy as np

from . import _core, optimizers
from .arguments import check_count
from .batch import integers, within
from .errors import BadInput, Mismatch, NotRegistered, UsageError
from .loop import Training
from .toml import text_of

STRATEGIES = ("TOKEN", "ENCODING", "AUTO")
DTYPES = ("float32", "float16")
_MOST_TOKENS = (1 << 63) - 1

_RULES: Dict[str, Type[optimizers.UpdateRule]] = {
    rule.toml_name.replace("_", ""): rule for rule in vars(optimizers).values()
    if isinstance(rule, type) and issubclass(rule, optimizers.UpdateRule) and rule.toml_name
}


class HostEmbeddingOptimizerSpec:
    """How the rows of a host embedding are updated: by one of the update rules of embers.optimizers, at a constant learning
    rate.

    learning_rate: a number above 0. optimizer_name: "SGD", "Adagrad", "RowwiseAdagrad", "RMSprop", "Adadelta", "Adam", "AdamW",
    "Adamax", "Nadam", "Ftrl", "GroupFtrl" or "Lion", in any case. parameters: further ones of that rule, such as
    momentum=0.9 or clipvalue=1.0, with the names and defaults of its class; schedule=embers.schedules.Cosine(...) makes the
    rate a changing one.

    Raises BadInput for an unknown name or parameter, and for a learning rate that is none."""

    def __init__(self, learning_rate: float, optimizer_name: str = "SGD", **parameters: Any):
        if isinstance(learning_rate, bool) or not isinstance(learning_rate, (int, float, np.integer, np.floating)) \
                or not math.isfinite(learning_rate) or not learning_rate > 0:
            raise BadInput(f"learning_rate is {learning_rate!r}: it must be a number above 0; a rate that changes is "
                           "schedule=embers.schedules...")
        rule = _rule_named(optimizer_name)
        known = [field.name for field in dataclasses.fields(rule) if field.name != "learning_rate"]
        for name in parameters:
            if name not in known:
                raise BadInput(f"{rule.__name__} has no parameter '{name}'{_nearest(name, known)}: it has {', '.join(known)}")
        self.learning_rate = float(learning_rate)
        self.optimizer_name = rule.__name__
        self.parameters = parameters
        self.rule: optimizers.UpdateRule = rule(learning_rate=self.learning_rate, **parameters)  # type: ignore[call-arg]

    def toml(self) -> str:
        """The value as a job file has it, on one line."""
        return self.rule.toml()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HostEmbeddingOptimizerSpec) and self.rule == other.rule

    def __hash__(self) -> int:
        return hash(self.rule)

    def __repr__(self) -> str:
        more = "".join(f", {name}={value!r}" for name, value in self.parameters.items())
        return f'HostEmbeddingOptimizerSpec({self.learning_rate!r}, "{self.optimizer_name}"{more})'


def create_host_embedding(name: str, shape: Sequence[int], dtype: Any = "float32", partition_strategy: str = "TOKEN",
                          optimizer_spec: Any = None, initializer: Any = None) -> "HostEmbedding":
    """A table on the host. Nothing is made or connected yet: register() says of which job it is.

    name: of the table, which all programs of a job share. shape: [tokens, encoding], the number of rows and the floats of a
    row. dtype: what rows are kept as, and what lookups give: float32 or float16, of torch, of NumPy or as text.
    partition_strategy: how the shards of the job share the table, in any case: "TOKEN", each has whole rows; "ENCODING", each
    has ceil(encoding / shards) columns of all rows; "AUTO", the job chooses. optimizer_spec: a HostEmbeddingOptimizerSpec, or
    an update rule such as embers.Adam(1e-3); None: the job's. initializer: of embers.initializers, or what a job file
    would say; None: the job's.

    Raises BadInput for values that no table can have."""
    return HostEmbedding(name, shape, dtype, partition_strategy, optimizer_spec, initializer)


class HostEmbedding:
    """A table on the host, made by create_host_embedding().

    name, shape (tokens, encoding), dtype ("float32" or "float16"), partition_strategy ("TOKEN", "ENCODING" or "AUTO"),
    optimizer_spec and initializer are what it was made with."""

    def __init__(self, name: str, shape: Sequence[int], dtype: Any, partition_strategy: str, optimizer_spec: Any,
                 initializer: Any):
        if not isinstance(name, str) or not name:
            raise BadInput(f"the name of a host embedding is {name!r}: it must be a str of at least one character")
        self.name = name
        self.shape = _shape(name, shape)
        self.dtype = _dtype(name, dtype)
        self.partition_strategy = _strategy(name, partition_strategy)
        self.optimizer_spec = optimizer_spec
        self.initializer = initializer
        self._rules = tuple(_text(name, what, value)
                            for what, value in (("initializer", initializer), ("optimizer_spec", optimizer_spec)))
        self._job: Optional[Training] = None  # that it is registered with
        self._partition: Optional[str] = None  # that the job has settled on

    @property
    def partition(self) -> Optional[str]:
        """"TOKEN" or "ENCODING", as the job has settled it: of "AUTO" what it has chosen, and "TOKEN" with one shard. None before
        the first lookup in a job that has begun."""
        return self._partition

    # --- for users ---------------------------------------------------------------------------------

    def register(self, job: Training, *, lookahead: int = 0) -> "Registration":
        """The scope in which it is a table of this job, and lookups work: `with embedding.register(job):`. Enter it before the
        first minibatch. See embers.register(), which takes several."""
        return register(job, self, lookahead=lookahead)

    def lookup(self, ids: Any, clip_indices: bool = False, training: bool = True) -> Any:
        """The rows of these tokens, in the shape of `ids` + (encoding,) and the table's dtype; differentiable.

        ids: an integer tensor (int64, int32, ...) or array of any shape; they may repeat. Tensors give a tensor on the device of
        ids; arrays give an array, or a tensor where et.Optimizer trains a model of the job. clip_indices: ids below 0 and at or
        above `tokens` stand for the first and the last token; without it they are an error.

        training=True: within a minibatch, the rows that it is computed on, made where a token is first used. In
        job.train(), what backward() finds of their gradients is pushed by opt.step(); in job.minibatches(), push() takes it.
        In job.evaluate() and job.reading(), rows as they are now. training=False: rows as they are now, wherever the job has
        begun; nothing is made, changed, or differentiated, and a token without a row reads as what it will begin with.

        Raises NotRegistered outside of `with embedding.register(job):`, OutOfRange for an id outside of the table, BadInput
        for ids that are no integers, UsageError for training=True without a minibatch."""
        job = self._registered_job("looked up", training)
        if job._trainer is not None:
            return job._trainer.look_up(self, ids, clip_indices, training, job._lookup)
        if _is_tensor(ids):
            return self._look_up_tensor(job, ids, clip_indices, training)
        batch = getattr(job, "_batch", None)
        flat, shape = self._array(ids, clip_indices)
        if not training:
            rows = job._lookup(self.name, flat)
        elif batch is None:
            raise no_minibatch(self.name)
        else:
            rows = batch.lookup(self.name, flat, None)
        found: np.ndarray = rows.reshape(*shape, self.shape[1])
        return found.astype(self.dtype, copy=False)

    def push(self, ids: Any, grads: np.ndarray, clip_indices: bool = False) -> None:
        """Gradients for the minibatch of a loop over job.minibatches(): a float32 or float16 array in the shape of `ids` +
        (encoding,). The ids must have been looked up in this minibatch; gradients of one that repeats are added up. In
        job.train() backward() and opt.step() do this.

        Raises NotRegistered, OutOfRange and BadInput as lookup(), UsageError outside of a minibatch."""
        job = self._registered_job("pushed to", True)
        batch = getattr(job, "_batch", None)
        if batch is None:
            raise UsageError(f"host embedding '{self.name}' has no minibatch to push to: this belongs into the body of a loop "
                             "over job.minibatches(); in job.train(), opt.step() pushes what backward() has found")
        flat, shape = self._array(ids, clip_indices)
        if not isinstance(grads, np.ndarray) or grads.dtype.name not in DTYPES:
            raise BadInput(f"the gradient of host embedding '{self.name}' must be a NumPy array of float32 or float16")
        if grads.shape != (*shape, self.shape[1]):
            raise BadInput(f"the gradient of host embedding '{self.name}' has the shape {grads.shape}, but "
                           f"{(*shape, self.shape[1])} is needed")
        batch.push(self.name, flat, np.ascontiguousarray(grads, np.float32).reshape(-1, self.shape[1]))

    def __repr__(self) -> str:
        return (f"<embers host embedding '{self.name}': {self.shape[0]} tokens x {self.shape[1]}, {self.dtype}, "
                f"{self.partition_strategy}>")

    def __getstate__(self) -> Dict[str, Any]:  # a copy is registered with no job
        return {**self.__dict__, "_job": None}

    # --- for jobs ----------------------------------------------------------------------------------

    def table_spec(self) -> Any:
        """What a worker declares."""
        initializer, optimizer = self._rules
        return _core.TableSpec(self.name, self.shape[1], initializer=initializer, optimizer=optimizer,
                               partition=self.partition_strategy.lower(), rows=self.shape[0], dtype=self.dtype)

    def is_same(self, other: "HostEmbedding") -> bool:
        """Whether both were made with the same arguments."""
        return all(getattr(self, what) == getattr(other, what)
                   for what in ("name", "shape", "dtype", "partition_strategy", "_rules"))

    def check_table(self, table: Any) -> None:
        """Raises Mismatch if the job's table of this name is another one; else remembers how the job shares it."""
        whose = f"the table '{self.name}' of the job"
        if table.keys != "int64":
            raise Mismatch(f"{whose} has keys that are strings: use job.table('{self.name}'), or another name")
        if table.dim != self.shape[1] or (table.rows and table.rows != self.shape[0]):
            theirs = (table.rows or "any number of", table.dim)
            raise Mismatch(f"{whose} has the shape [{theirs[0]}, {theirs[1]}], but this host embedding "
                           f"{list(self.shape)}: create it with shape=[{table.rows or self.shape[0]}, {table.dim}], or with "
                           "another name")
        if table.dtype != self.dtype:
            raise Mismatch(f"{whose} keeps {table.dtype}, but this host embedding has dtype {self.dtype}: create it with "
                           f'dtype="{table.dtype}", or change what the job file says ([storage] dtype)')
        self._partition = table.partition.upper()

    def within(self, flat: np.ndarray, shape: Tuple[int, ...], clip_indices: bool) -> np.ndarray:
        """Ids of this shape, given as a flat array, as tokens of the table. Raises OutOfRange."""
        return within(self.name, self.shape[0], flat, shape, clip_indices)

    # --- its own -----------------------------------------------------------------------------------

    def _registered_job(self, what: str, training: bool) -> Training:
        if self._job is None:
            raise NotRegistered(f"host embedding '{self.name}' is {what} outside of its scope: do it within `with "
                                "embedding.register(job):`, which goes around the loop over job.train(loader)")
        self._job._check_open()
        trainer, batch = self._job._trainer, getattr(self._job, "_batch", None)
        has_rows = batch is not None if trainer is None else trainer.has_rows
        if has_rows or not training:  # else there is nothing to read, and no job yet that could be asked about the table
            self._job._check_host_embedding(self)
        return self._job

    def _array(self, ids: Any, clip_indices: bool) -> Tuple[np.ndarray, Tuple[int, ...]]:
        """Ids that are no tensor: flat int64, and their shape."""
        array = integers(f"host embedding '{self.name}'", ids)
        return self.within(array.reshape(-1), array.shape, clip_indices).astype(np.int64, copy=False), array.shape

    def _look_up_tensor(self, job: Training, ids: Any, clip_indices: bool, training: bool) -> Any:
        """Without et.Optimizer."""
        from .torch.host_embedding import read  # torch is there, since ids are one of its tensors

        if training:
            raise UsageError(f"host embedding '{self.name}' is looked up by a tensor, but no et.Optimizer(model, job, ...) pushes "
                             "its gradients: make one, and call lookup() within the loop over job.train(loader). "
                             "lookup(ids, training=False) only reads; job.minibatches() goes with arrays and push()")
        return read(self, ids, clip_indices, job._lookup)


class Registration:
    """The scope of register(): within it, lookups work. It may be entered again."""

    def __init__(self, job: Training, embeddings: Sequence[HostEmbedding], lookahead: int):
        self._job = job
        self._embeddings = embeddings
        self._lookahead = lookahead

    def __enter__(self) -> None:
        self._job._check_open()
        self._job._host_embeddings.add(self._embeddings, self._lookahead)
        for embedding in self._embeddings:
            embedding._job = self._job

    def __exit__(self, *_: Any) -> None:
        self._job._host_embeddings.remove(self._embeddings)
        for embedding in self._embeddings:
            embedding._job = None


def register(job: Training, *embeddings: HostEmbedding, lookahead: int = 0) -> Registration:
    """The scope in which host embeddings are tables of a job, and their lookups work:

        with embers.register(job, users, items, lookahead=1):
            for batch in job.train(loader, keys=lambda batch: {"users": batch.user, "items": batch.item}):

    Enter it before the job's first minibatch, in all its workers, with the same embeddings in the same order. It may be left
    and entered again. With `keys`, rows of all tables come in one pull.

    lookahead: of how many more minibatches the rows are pulled while one is trained. 0: lookups see every update that this
    program has made. With k, rows may lack this program's last k updates and what is on its way to the shards, which the job's
    report counts as staleness; in sync mode only rows of the present version are pulled ahead, so nothing is stale. Needs `keys`.

    Raises BadInput for what is no job or no host embedding. Entering it raises UsageError for an embedding that is registered
    already, for two of one name, for one that comes after this program has joined the job without it."""
    if not isinstance(job, Training):
        raise BadInput(f"a {type(job).__name__} is no job: embers.connect() or embers.local() gives one")
    if not embeddings:
        raise BadInput("register() has no host embedding: embers.register(job, embedding, ...)")
    for embedding in embeddings:
        if not isinstance(embedding, HostEmbedding):
            raise BadInput(f"a {type(embedding).__name__} is no host embedding: embers.create_host_embedding() makes one; layers "
                           "of embers.torch need no registration")
    if isinstance(lookahead, bool) or not isinstance(lookahead, (int, np.integer)) or lookahead < 0:
        raise BadInput(f"lookahead is {lookahead!r}: it must be an integer of at least 0")
    return Registration(job, embeddings, int(lookahead))


def no_minibatch(name: str) -> UsageError:
    return UsageError(f"host embedding '{name}' is looked up for training, but no minibatch is under way: do it in the loop over "
                      "job.train(loader) or job.minibatches(); lookup(ids, training=False) reads rows at any time")


def _is_tensor(ids: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(ids, torch.Tensor)


def _rule_named(name: Any) -> Type[optimizers.UpdateRule]:
    rule = _RULES.get(name.lower().replace("_", "")) if isinstance(name, str) else None
    if rule is None:
        names = [r.__name__ for r in _RULES.values()]
        raise BadInput(f"optimizer_name {name!r} is no update rule{_nearest(name, names)}: there are {', '.join(names)}")
    return rule


def _nearest(given: Any, names: Sequence[str]) -> str:
    near = {name.lower(): name for name in names}
    found = difflib.get_close_matches(str(given).lower(), list(near), 1)
    return f" (did you mean '{near[found[0]]}'?)" if found else ""


def _shape(name: str, shape: Any) -> Tuple[int, int]:
    try:
        sizes = tuple(shape)
    except TypeError:
        sizes = ()
    if len(sizes) != 2:
        raise BadInput(f"host embedding '{name}': shape is {shape!r}, but it must be [tokens, encoding]")
    return (check_count(f"host embedding '{name}': the number of tokens in shape", sizes[0], _MOST_TOKENS),
            check_count(f"host embedding '{name}': the encoding in shape", sizes[1]))


def _dtype(name: str, dtype: Any) -> str:
    text = str(dtype)
    if text.startswith("torch."):
        text = text[len("torch."):]
    elif not isinstance(dtype, str):
        try:
            text = np.dtype(dtype).name if dtype is not None else text
        except TypeError:
            pass
    text = text.lower()
    if text not in DTYPES:
        raise BadInput(f"host embedding '{name}': dtype is {dtype!r}, but it must be float32 or float16")
    return text


def _strategy(name: str, strategy: Any) -> str:
    if isinstance(strategy, str) and strategy.upper() in STRATEGIES:
        return strategy.upper()
    raise BadInput(f"host embedding '{name}': partition_strategy is {strategy!r}{_nearest(strategy, STRATEGIES)}, but it must be "
                   '"TOKEN" (each shard has whole rows), "ENCODING" (each has columns of all rows) or "AUTO"')


def _text(name: str, what: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", '"', "'", ""):
        return value
    if not isinstance(value, (str, dict)) and not hasattr(value, "toml"):
        raise BadInput(f"host embedding '{name}': {what} is a {type(value).__name__}: give "
                       + ("embers.HostEmbeddingOptimizerSpec(learning_rate, ...)" if what == "optimizer_spec" else
                          "one of embers.initializers, such as embers.initializers.Normal(0.0, 0.01)"))
    return text_of(value, f"{what} of host embedding '{name}'")
