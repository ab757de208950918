"""A minibatch in the hands of a program that computes with NumPy."""
from __future__ import annotations

import threading
from typing import Any, Dict, List, Mapping, Optional, Tuple

import numpy as np

from . import _core
from .errors import BadInput, OutOfRange, StaleVersion, UsageError


def unique(keys: Any) -> Any:
    """(unique keys, inverse) of integers, or of str and bytes."""
    if isinstance(keys, (list, tuple)) and not (keys and isinstance(keys[0], (str, bytes))):
        keys = _integers(keys)
    elif not isinstance(keys, (list, tuple)):
        keys = np.asarray(keys)
        if keys.dtype.kind not in "iuUSO":
            raise BadInput(f"keys are given as an array of {keys.dtype}: give integers, or str and bytes")
    is_int = isinstance(keys, np.ndarray) and keys.dtype.kind in "iu"
    return _core.unique(keys) if is_int else _core.unique_strings(keys)


def _integers(keys: Any) -> np.ndarray:
    """Of a list. Raises BadInput for what would have to be rounded, cut off or read as a number."""
    try:
        array = np.asarray(keys)
    except (ValueError, OverflowError) as e:
        raise BadInput(f"a list of keys is no array of integers: its lists must have one length, or be joined into one ({e})") from e
    if array.size == 0:
        return array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise BadInput(f"keys are given as a list that NumPy reads as {array.dtype}: give integers within int64, or a list of "
                       "str or bytes")
    return array


def _copy(keys: Any) -> Any:
    return keys.copy() if isinstance(keys, np.ndarray) else list(keys)


def _equal(keys: Any, copy: Any) -> bool:
    return bool(np.array_equal(keys, copy) if isinstance(keys, np.ndarray) else list(keys) == copy)


def integers(whose: str, ids: Any) -> np.ndarray:
    """Ids of any shape, as an array of some type of integers. Raises BadInput."""
    try:
        array = np.asarray(ids)
    except ValueError as e:
        raise BadInput(f"{whose}: ids are lists of different lengths: {e}") from e
    if array.size == 0 and not isinstance(ids, np.ndarray):
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise BadInput(f"{whose}: ids are {array.dtype}, but they must be integers")
    return array


def within(table: str, tokens: int, flat: np.ndarray, shape: Tuple[int, ...], clip: bool = False) -> np.ndarray:
    """Ids of this shape, given as a flat array, as keys of a table that has this many. Raises OutOfRange, naming the first that
    is none."""
    if flat.size == 0 or (flat.min() >= 0 and flat.max() < tokens):
        return flat
    if clip:
        return flat.clip(0, tokens - 1)
    first = int(np.flatnonzero((flat < 0) | (flat >= tokens))[0])
    place = f" at {[int(i) for i in np.unravel_index(first, shape)]}" if shape else ""
    raise OutOfRange(f"id {flat[first]}{place} is outside of host embedding '{table}', which has {tokens} tokens: give ids from 0 "
                     f"to {tokens - 1}; lookup(ids, clip_indices=True) takes the nearest")


class _Pulled:
    """A table's part in a minibatch: keys in the order in which they were pulled, and their rows."""

    def __init__(self, dim: int):
        self.dim = dim
        self.keys: Any = None  # unique: an int64 array, or a list (an array) of strings
        self.rows = np.empty((0, dim), np.float32)
        self.lists: List[Tuple[int, int]] = []  # of the pulls: number of the list, and how many keys it has
        self.gradient: Optional[np.ndarray] = None
        # The last keys that were asked for (the object, and what was in it), their places, and how many must be there.
        self._last: Any = None

    def __len__(self) -> int:
        return 0 if self.keys is None else len(self.keys)

    def missing(self, keys: Any) -> Any:
        """Those of these keys that have not been pulled, each once; None if there are none. Remembers places."""
        if self._last is not None and keys is self._last[0] and len(self) >= self._last[3] and _equal(keys, self._last[1]):
            return None
        some, inverse = unique(keys)
        if self.keys is None:
            self._last = keys, _copy(keys), inverse, len(some)
            return some
        both = _joined(self.keys, some)
        _, place = unique(both)
        place = place[len(self.keys):]
        self._last = keys, _copy(keys), place[inverse], int(place.max(initial=-1)) + 1
        new = np.flatnonzero(place >= len(self.keys))
        if len(new) == 0:
            return None
        return some[new] if isinstance(some, np.ndarray) else [some[i] for i in new]

    def places(self) -> np.ndarray:
        """Of the keys that were last given to missing(), once all are pulled."""
        places: np.ndarray = self._last[2]
        return places

    def add(self, number: int, keys: Any, rows: np.ndarray) -> None:
        self.lists.append((number, len(keys)))
        self.keys = keys if self.keys is None else _joined(self.keys, keys)
        self.rows = rows if len(self.rows) == 0 else np.concatenate([self.rows, rows])

    def add_gradient(self, grads: np.ndarray) -> None:
        gradient = _core.sum_rows(grads, self.places(), len(self.keys))
        if self.gradient is not None:
            gradient[:len(self.gradient)] += self.gradient
        self.gradient = gradient


def _joined(keys: Any, more: Any) -> Any:
    if isinstance(keys, np.ndarray) and isinstance(more, np.ndarray) and keys.dtype.kind == more.dtype.kind:
        return np.concatenate([keys, more])
    return [*keys, *more]


class Batch:
    """A minibatch that this program computes: the records that it has, and their rows. job.minibatches() makes them."""

    def __init__(self, minibatch: Any, records: np.ndarray, specs: Dict[str, Any], parameters: List[Any]):
        self._minibatch = minibatch
        self._specs = specs
        self._parameters = parameters
        self._pulled: Dict[str, _Pulled] = {}
        self._is_pulled = False
        self._lists = 0  # that were pulled
        self._parameter_gradients: List[Optional[np.ndarray]] = [None] * len(parameters)
        self._is_pushed = False
        self._over = ""  # why, once it is over
        self.thread = threading.get_ident()  # which computes it; look-ups of others are not its
        self._report: Dict[str, Any] = {"loss_sum": 0.0}
        self.records = records  # int64: which records of the data these are
        self.epoch: int = minibatch.epoch  # from 1 on
        self.number: int = minibatch.number  # in the epoch, from 0 on
        self.version: int = minibatch.version  # sync: of the model

    @property
    def name(self) -> str:
        return f"minibatch {self.number} of epoch {self.epoch}"

    @property
    def is_over(self) -> bool:
        """Whether nothing can be pulled or pushed any more."""
        return bool(self._over)

    def end(self, why: str) -> None:
        """It is over; the first reason counts."""
        self._over = self._over or why

    def _check_open(self) -> None:
        if self._over:
            raise UsageError(f"{self.name} {self._over}")

    def pull(self, keys: Optional[Dict[str, Any]] = None, **more: Any) -> Dict[str, np.ndarray]:
        """Rows of all tables that this minibatch needs, in one request to each shard: batch.pull(user=..., item=...), or a dict
        where names of tables are not Python's. Keys as table.lookup() takes them; so are the rows."""
        self._check_open()
        if not isinstance(keys or {}, Mapping):
            raise BadInput(f"pull() takes keys by table, batch.pull(user=...), or a dict, not a {type(keys).__name__}")
        keys = {**(keys or {}), **more}
        for table in keys:
            if table not in self._specs:
                raise BadInput(f"this program has not defined a table '{table}': job.table('{table}', dim=...) does")
            if self._specs[table].rows:
                given = integers(f"table '{table}'", keys[table])
                within(table, self._specs[table].rows, given.reshape(-1), given.shape)
        pulled = {table: self._pulled.setdefault(table, _Pulled(self._specs[table].dim)) for table in keys}
        lists = []
        for table, given in keys.items():
            try:
                missing = pulled[table].missing(given)
            except BadInput as e:
                raise BadInput(f"table '{table}': {e}") from e
            if missing is not None:
                lists.append((table, missing))
        if lists or not self._is_pulled:
            self._pull(lists)
        return {table: p.rows[p.places()] for table, p in pulled.items()}

    def _pull(self, lists: List[Tuple[str, Any]]) -> None:
        if self._is_pulled:
            is_there = self._minibatch.pull_more(lists)
        else:
            self._minibatch.pull(lists)
            is_there = self._minibatch.wait()
        if not is_there:
            self.end("was refused, and the master leases it again: go on with the next one")
            raise StaleVersion(f"{self.name} was refused, because it is stale or a shard has moved; the master leases it "
                               "again: go on with the next one (except embers.Refresh: continue)")
        self._is_pulled = True
        for (table, keys), rows in zip(lists, self._minibatch.rows(self._lists)):
            self._pulled[table].add(self._lists, keys, rows)
            self._lists += 1

    def lookup(self, table: str, keys: Any, out: Optional[np.ndarray]) -> np.ndarray:
        rows = self.pull({table: keys})[table]
        if out is None:
            return rows
        check_rows("out", out, rows.shape)
        out[...] = rows
        return out

    def push(self, table: str, keys: Any, grads: np.ndarray) -> None:
        self._check_open()
        pulled = self._pulled.get(table)
        missing = keys if pulled is None else pulled.missing(keys)
        if pulled is None or missing is not None:
            raise UsageError(f"a key of table '{table}' was not looked up in {self.name} before its gradient is pushed"
                             + ("" if pulled is None else f": {missing[0]!r}"))
        check_rows(f"the gradient of table '{table}'", grads, (*pulled.places().shape, pulled.dim))
        pulled.add_gradient(grads)
        self._is_pushed = True

    def parameter(self, number: int) -> np.ndarray:
        self._check_open()
        self._pull_nothing()
        value: np.ndarray = self._minibatch.parameter(number)
        return value

    def push_parameter(self, number: int, grad: np.ndarray) -> None:
        self._check_open()
        self._pull_nothing()
        spec = self._parameters[number]
        check_rows(f"the gradient of '{spec.name}'", grad, tuple(spec.shape))
        known = self._parameter_gradients[number]
        if known is None or spec.buffer:
            self._parameter_gradients[number] = grad.copy()
        else:
            known += grad
        self._is_pushed = True

    def report(self, loss: float, scores: Any = None, labels: Any = None) -> None:
        """What the job's progress and report say of this minibatch: its mean loss; and, for the AUC, a score and a label
        (0 or 1) of each record."""
        try:
            self._report = {"loss_sum": float(loss) * len(self.records), "scores": scores, "labels": labels}
        except (TypeError, ValueError) as e:
            raise BadInput(f"the loss is {loss!r}: it must be one number, the mean over the minibatch's records") from e

    def skip(self) -> None:
        """Its records count, but change nothing: no push will follow."""
        self._check_open()
        self._is_pushed = True

    def finish(self) -> None:
        """Hands its gradients over."""
        if not self._is_pushed:
            raise UsageError(f"nothing was pushed for {self.name}: call table.push() or parameter.push() for each minibatch, "
                             "or batch.skip()")
        self._pull_nothing()
        gradients: List[Optional[np.ndarray]] = [None] * self._lists
        for pulled in self._pulled.values():
            begin = 0
            for number, size in pulled.lists:
                if pulled.gradient is not None and begin < len(pulled.gradient):
                    part = pulled.gradient[begin:begin + size]
                    if len(part) < size:  # keys that were pulled after the last push
                        part = np.concatenate([part, np.zeros((size - len(part), pulled.dim), np.float32)])
                    gradients[number] = part
                begin += size
        self._minibatch.push(gradients, self._parameter_gradients, examples=len(self.records), **self._report)
        self.end("is over: what it changes left when the body of the loop ended. Pull and push within the body, or take the "
                 "next minibatch")

    def _pull_nothing(self) -> None:
        if not self._is_pulled:
            self._pull([])


def check_rows(what: str, rows: Any, shape: Any) -> None:
    if not isinstance(rows, np.ndarray) or rows.dtype != np.float32:
        found = f"an array of {rows.dtype}" if isinstance(rows, np.ndarray) else f"a {type(rows).__name__}"
        raise BadInput(f"{what} is {found}: give a NumPy array of float32")
    if rows.shape != tuple(shape):
        raise BadInput(f"{what} has the shape {rows.shape}, but {tuple(shape)} is needed")
