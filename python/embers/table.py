"""Tables and parameters of a job, for programs that compute with NumPy."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional, Tuple

import numpy as np

if TYPE_CHECKING:
    from .job import Job

Rows = np.ndarray


class Table:
    """An embedding table of a job. Made by job.table()."""

    def __init__(self, job: "Job", name: str):
        self._job = job
        self.name = name

    @property
    def dim(self) -> int:
        """Floats of a row."""
        return int(self._job._spec_of(self.name).dim)

    @property
    def keys(self) -> str:
        """"int64", or "bytes": str (as UTF-8) and bytes."""
        return str(self._job._spec_of(self.name).keys)

    def lookup(self, keys: Any, out: Optional[Rows] = None) -> Rows:
        """Rows of these keys: float32, in the shape of `keys` + (dim,).

        keys: integers in an array of any shape, or str and bytes in a list or an array; they may repeat. out: an array of
        that shape to write to, float32 and contiguous, in the place of a new one.

        In the body of a loop over job.minibatches(): the rows that this minibatch is computed on, made where nobody has used
        a key before. Each look-up of keys that the minibatch does not have yet is a request to the shards: batch.pull() asks
        for several tables at once. Elsewhere: the latest rows; a key without a row reads as what it will begin with, and none is made.

        Raises BadInput for keys of the wrong type, UnknownTable, Timeout when the shards do not answer, and what has
        ended the job (JobFailed, Lost, Ended)."""
        return self._job._lookup_in(self.name, keys, out)

    def push(self, keys: Any, grads: Rows) -> None:
        """Gradients of these keys, for the minibatch that is under way: float32, in the shape of `keys` + (dim,).

        The keys must be among those that were looked up, or pulled, in this minibatch before. Gradients of a key that occurs more
        than once are added up, also over several calls. They leave when the loop's body is done.

        Raises BadInput for keys or gradients of the wrong type or shape, UsageError outside of a minibatch."""
        self._job._current_batch(f"table '{self.name}' has no minibatch to push to").push(self.name, keys, grads)

    def export(self) -> Tuple[Any, Rows]:
        """All keys that have a row, and the rows: (int64 (n,), float32 (n, dim)), or (list of bytes, ...) where keys are
        bytes. In no particular order.

        While others train, rows are of the moment in which they are read, not of one version."""
        return self._job._export(self.name)

    def import_(self, keys: Any, rows: Rows) -> None:
        """Sets the rows of these keys, as when they were trained elsewhere; made if they are not there. What the update
        rule keeps of such a row begins anew. Before this program has joined as a worker, they are kept until it does, and
        then left out, with a warning, if the job has trained already: a worker that comes later undoes nothing.

        keys: (n,) integers, or str and bytes, each once. rows: float32 (n, dim).

        Raises BadInput for keys of the wrong type, keys that repeat, and rows of the wrong type or shape."""
        self._job._import(self.name, keys, rows)

    def __repr__(self) -> str:
        return f"<embers table '{self.name}'>"


class Parameter:
    """A dense parameter of a job, or a buffer. Made by job.parameter()."""

    def __init__(self, job: "Job", name: str, number: int):
        self._job = job
        self.name = name
        self._number = number

    @property
    def value(self) -> np.ndarray:
        """float32 in its shape, read-only: what the minibatch that is under way is computed on."""
        return self._job._current_batch(f"the value of '{self.name}' is known within a minibatch only").parameter(self._number)

    def push(self, grad: np.ndarray) -> None:
        """Its gradient for the minibatch that is under way, or a buffer's new value: float32 in its shape."""
        batch = self._job._current_batch(f"the parameter '{self.name}' has no minibatch to push to")
        batch.push_parameter(self._number, grad)

    def __repr__(self) -> str:
        return f"<embers parameter '{self.name}'>"
