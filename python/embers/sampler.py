"""Which records a minibatch has, and the batch sampler whose minibatches are leased."""
from __future__ import annotations

import collections
import threading
from typing import Any, Callable, Deque, Iterator, List, NamedTuple, Optional, Tuple

import numpy as np

from . import _core
from .arguments import check_count, check_flag, is_integer
from .errors import BadInput, UsageError

WHOLE = 1 << 20  # records of an epoch whose order is kept in memory
_MASK = (1 << 64) - 1


def mix(*numbers: int) -> int:
    """A number of 63 bits that depends on all of these, and looks random: splitmix64's finalizer, chained."""
    state = 0x9E3779B97F4A7C15
    for number in numbers:
        state = (state ^ (number & _MASK)) * 0xBF58476D1CE4E5B9 & _MASK
        state = (state ^ state >> 27) * 0x94D049BB133111EB & _MASK
        state ^= state >> 31
    return state >> 1


class Permutation:
    """A random order of 0..n-1, computed element by element: a Feistel network of four rounds over the next power of
    four, walked until it is within n. Needs no memory."""

    def __init__(self, n: int, seed: int):
        self._n = n
        self._keys = [mix(seed, round) for round in range(4)]

    def __call__(self, positions: np.ndarray) -> np.ndarray:
        """The elements at these positions, int64."""
        return _core.permuted(positions, self._n, self._keys)


class _Reading(threading.local):
    """The record that this thread is reading; see record_seed()."""

    record: Optional[Tuple[int, int, int]] = None  # seed, epoch, number


_reading = _Reading()


class Indices(list):
    """The records of a batch, a list of int; np.asarray() of it is quick. Going through it says which record is being
    read."""

    def __init__(self, records: np.ndarray, seed: int, epoch: int):
        super().__init__(records.tolist())
        self._array = records
        self._origin = (seed, epoch)

    def __array__(self, dtype: Any = None) -> np.ndarray:
        return self._array if dtype is None else self._array.astype(dtype, copy=False)

    def __iter__(self) -> Iterator[int]:
        try:
            for record in super().__iter__():
                _reading.record = (*self._origin, record)
                yield record
        finally:
            _reading.record = None

    def __reduce__(self) -> Tuple[Any, ...]:
        return _restore, (self._array, *self._origin)


def _restore(records: np.ndarray, seed: int, epoch: int) -> Indices:
    return Indices(records, seed, epoch)


def record_seed() -> int:
    """A seed of 63 bits for what is random in the record that a Dataset reads, such as its augmentation: a function of
    the sampler's seed, the epoch and the record, whichever process reads it. Call it in Dataset.__getitem__.

    Raises UsageError where no record of a job's batch is being read."""
    if _reading.record is None:
        raise UsageError("record_seed() has no record: call it within __getitem__ of a dataset whose DataLoader has "
                         "batch_sampler=job.batches(...)")
    return mix(*_reading.record)


class Part(NamedTuple):
    """A batch that was drawn: the `number`-th of `parts` of a leased minibatch, with so many records of its own."""

    minibatch: Any
    number: int
    parts: int
    records: int


class Batches:
    """A batch sampler for torch's DataLoader: yields lists of records, each a batch of a leased minibatch. Made by
    job.batches(). It draws only within job.train(loader)."""

    def __init__(self, records: int, batch_size: int, shuffle: bool = True, seed: int = 0, drop_last: bool = False,
                 accumulate: int = 1, window: int = 16):
        check_count("the number of records", records, (1 << 63) - 1)
        for name, value in (("batch_size", batch_size), ("accumulate", accumulate), ("window", window)):
            check_count(name, value)
        if not is_integer(seed):
            raise BadInput(f"seed is {seed!r}: it must be an integer")
        self.records = int(records)
        self.batch_size = int(batch_size)
        self.shuffle = check_flag("shuffle", shuffle)
        self.seed = int(seed)
        self.drop_last = check_flag("drop_last", drop_last)
        self.accumulate = int(accumulate)
        self.window = int(window)  # leases that a worker may hold
        if self.minibatches == 0:
            raise BadInput(f"{records} records do not fill one minibatch of {self.lease_size}, and drop_last leaves "
                           "incomplete ones out: choose a smaller batch_size, or drop_last=False")
        self.drawn: Deque[Part] = collections.deque()  # not yet taken by the loop, in order
        self._draw: Optional[Callable[[], Any]] = None  # set while the loop runs
        self._rest: Deque[Indices] = collections.deque()  # parts of the last minibatch that were not asked for
        self._order: Any = (0, None, None)  # epoch, its permutation, and all of it at once

    @property
    def lease_size(self) -> int:
        """Records of a minibatch: what is leased at a time, and stepped once."""
        return self.batch_size * self.accumulate

    @property
    def minibatches(self) -> int:
        """Of an epoch."""
        whole, rest = divmod(self.records, self.lease_size)
        return whole + (rest > 0 and not self.drop_last)

    def __str__(self) -> str:
        """As job.batches() was called."""
        return f"{self.records}, {self.batch_size}" + "".join(
            f", {name}={getattr(self, name)}" for name, usual in (("shuffle", True), ("seed", 0), ("drop_last", False),
                                                                  ("accumulate", 1)) if getattr(self, name) != usual)

    def signature(self) -> List[str]:
        """What workers must agree on, so that (epoch, number) means the same records to all."""
        return [f"sampler.{name}={int(getattr(self, name))}"
                for name in ("records", "batch_size", "shuffle", "seed", "drop_last", "accumulate")]

    def of(self, epoch: int, number: int) -> np.ndarray:
        """The records of a minibatch, int64: a function of the sampler's arguments."""
        begin = number * self.lease_size
        end = min(begin + self.lease_size, self.records)
        if not self.shuffle:
            return np.arange(begin, end, dtype=np.int64)
        if self._order[0] != epoch:
            order = Permutation(self.records, mix(self.seed, epoch))
            # One call for all is quicker than one for each minibatch, where memory allows.
            self._order = (epoch, order, order(np.arange(self.records)) if self.records <= WHOLE else None)
        _, permutation, whole = self._order
        records: np.ndarray = permutation(np.arange(begin, end)) if whole is None else whole[begin:end]
        return records

    # --- the loop's side ---------------------------------------------------------------------------

    def start(self, draw: Callable[[], Any]) -> None:
        """From now on minibatches come from draw(), which returns None if there is none (now)."""
        self._draw = draw

    def stop(self) -> List[Any]:
        """Minibatches that were drawn and not taken; none is drawn from now on."""
        self._draw = None
        return self.forget()

    def forget(self) -> List[Any]:
        """The same, but drawing goes on."""
        left = {id(part.minibatch): part.minibatch for part in self.drawn}
        self.drawn.clear()
        self._rest.clear()
        return list(left.values())

    # --- DataLoader's side -------------------------------------------------------------------------

    def __len__(self) -> int:
        """Batches of an epoch, of all workers together."""
        return -(-min(self.records, self.minibatches * self.lease_size) // self.batch_size)

    def __iter__(self) -> "Batches":
        return self

    def __next__(self) -> Indices:
        if self._draw is None:
            raise UsageError("batches of a job are drawn within job.train(loader): iterate over that, not over the loader")
        if not self._rest:
            minibatch = self._draw()
            if minibatch is None:
                raise StopIteration
            records = self.of(minibatch.epoch, minibatch.number)
            parts = [records[i:i + self.batch_size] for i in range(0, len(records), self.batch_size)]
            for number, part in enumerate(parts):
                self._rest.append(Indices(part.copy(), self.seed, minibatch.epoch))
                self.drawn.append(Part(minibatch, number, len(parts), len(part)))
        return self._rest.popleft()
