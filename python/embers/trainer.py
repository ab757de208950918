"""What stands between the training loop and a framework: steps, and who makes gradients of them."""
from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Callable, Iterator, List, NamedTuple, Optional

from .errors import UsageError
from .sampler import Part

if TYPE_CHECKING:
    from .host_embedding import HostEmbedding


class Step:
    """The minibatch that the user's code is in the middle of."""

    def __init__(self, minibatch: Any, rows: Any, batches: List[Any], parts: List[Part]):
        self.minibatch = minibatch
        self.rows = rows  # the trainer's
        self.batches = batches
        self.parts = parts
        self.part = 0  # that the user has
        self.is_taken = False
        self.loss: Optional[float] = None  # that the user gave with it
        self.name = f"minibatch {minibatch.number} of epoch {minibatch.epoch}"

    @property
    def records(self) -> int:
        return sum(part.records for part in self.parts)

    @property
    def is_due(self) -> bool:
        """Whether the user has its last batch, so that the step is to be taken."""
        return self.part == len(self.parts) - 1

    def check_due(self) -> None:
        """Raises UsageError if its step must not be taken now."""
        if self.is_taken:
            raise UsageError(f"the step of {self.name} was taken already: call opt.step() once for each minibatch, or say "
                             "job.batches(..., accumulate=k)")
        if not self.is_due:
            raise UsageError(f"{self.name} has {len(self.parts)} batches (accumulate), and this is number "
                             f"{self.part + 1}: call opt.step() after the last, when job.step_due is true")


class Trainer:
    """What turns minibatches into gradients: et.Optimizer. The loop calls it."""

    class Declaration(NamedTuple):
        """What the worker is, for join_as_worker."""

        tables: List[Any]
        parameters: List[Any]
        numeric: List[str]
        data: List[str]
        optimizer: str

    def tables(self) -> List[Any]:
        """Of the model's layers: name, dim and keys."""
        return []

    def declare(self) -> "Trainer.Declaration":
        raise NotImplementedError

    def open(self, minibatch: Any) -> Any:
        """Rows of a minibatch, with announce(keys by table), pull() and arrived()."""
        raise NotImplementedError

    def begin(self, step: Step) -> None:
        """Rows are there; user code begins."""

    def end(self, step: Step) -> None:
        """User code is done with it, or has failed."""

    def finish(self) -> None:
        """A loop has come to the end of its epoch: the model is to have the parameters that the job has then."""

    @property
    def has_rows(self) -> bool:
        """Whether look_up() with training=True has rows: of a minibatch, or in reading()."""
        return False

    def look_up(self, embedding: "HostEmbedding", ids: Any, clip_indices: bool, training: bool,
                lookup: Callable[[str, Any], Any]) -> Any:
        """Rows of a registered host embedding: of the minibatch that is under way, differentiable; or with training=False, those
        that `lookup` reads."""
        raise NotImplementedError

    @contextlib.contextmanager
    def reading(self, model: Any, lookup: Callable[[str, Any], Any]) -> Iterator[None]:
        yield
