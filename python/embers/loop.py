"""The part of a job that trains: batches, epochs, the training loop, evaluation. Needs no torch; epoch_loop.py has the loop
itself."""
from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, Iterator, List, Optional

from .arguments import check_count
from .epoch_loop import EpochLoop
from .errors import Timeout, UsageError
from .metrics import Metrics, Predict, default_predict, evaluating, measure
from .registry import HostEmbeddings
from .sampler import Batches
from .trainer import Step, Trainer

if TYPE_CHECKING:
    from .host_embedding import HostEmbedding


def over(epochs: int, remedy: str) -> str:
    """Why another loop would be empty."""
    return (f"the job's work is done ({epochs} epoch{'s' if epochs > 1 else ''}), so this loop would be empty: to train for more, "
            f"say {remedy}")


class Training:
    """The part of a Job that trains. It needs of the job

      _join_worker(declaration, data, work, window) -> session
      _lookup(table, keys) -> rows                                read-only, creates nothing
    """

    _trainer: Optional[Trainer] = None
    _worker_session: Any = None
    _sampler: Optional[Batches] = None
    _epochs = 1
    _next: Any = None  # a lease that was drawn to see its epoch
    _is_over = False
    _run: Optional[EpochLoop] = None
    _step: Optional[Step] = None

    # --- for users ---------------------------------------------------------------------------------

    def batches(self, records: int, batch_size: int, shuffle: bool = True, seed: int = 0, drop_last: bool = False,
                accumulate: int = 1, window: int = 16) -> Batches:
        """A batch sampler for a DataLoader, whose batches are leased: any number of workers share an epoch, and each
        record counts once.

        records: size of the dataset. batch_size: records of a batch. shuffle: anew each epoch, decided by `seed`.
        drop_last: leave out a last minibatch that is not full. accumulate: batches of a minibatch; then job.step_due
        says after which one to call opt.step(). window: leases that a worker may hold; a loader that draws far ahead
        (prefetch_factor * num_workers) needs more.

            loader = DataLoader(dataset, batch_sampler=job.batches(len(dataset), 256), num_workers=2)
        """
        sampler = Batches(records, batch_size, shuffle, seed, drop_last, accumulate, window)
        if self._worker_session is not None and self._sampler is not None and sampler.signature() != self._sampler.signature():
            raise UsageError(f"this program has joined the job with job.batches({self._sampler}), so job.batches({sampler}) comes too "
                             "late: a job has one dataset, one size of batches and one order")
        self._sampler = sampler
        return sampler

    def epochs(self, count: int) -> Iterator[int]:
        """The epochs that are to be trained, from 1 on; those that the job has behind it are left out. Each needs a loop
        over job.train(loader) in its body."""
        count = check_count("epochs", count)
        if self._worker_session is not None and count != self._epochs:
            raise UsageError(f"the job was begun with {self._epochs} epochs, so epochs({count}) comes too late: call it "
                             "before the first job.train()")
        self._epochs = count
        self._end_run()
        last = 0
        while True:
            minibatch = self._peek()
            if minibatch is None:
                return
            if minibatch.epoch == last:
                raise UsageError(f"epoch {last} has minibatches left: go through all of job.train(loader) in the body of "
                                 "the loop over job.epochs()")
            last = minibatch.epoch
            yield last
            self._end_run()

    def train(self, loader: Iterable[Any], keys: Optional[Callable[[Any], Dict[str, Any]]] = None, *,
              ahead: Optional[int] = None, progress: Optional[bool] = None) -> Iterator[Any]:
        """The batches of `loader`, whose batch_sampler is job.batches(...), for one epoch; each with its rows and dense
        parameters in place, and each to be followed by one opt.step(). A dataset that reads a whole batch at once, given a
        list of records, goes with DataLoader(dataset, sampler=job.batches(...), batch_size=None).

        keys: of a batch, the ids of each table: lambda batch: {"user": batch["user"]}; a tuple of ids where several
        layers look the table up. Then the rows of `ahead` more minibatches are on their way while one trains, and all
        tables come in one pull. Without it, or with ahead=0, layers pull what they need when they need it, and a minibatch sees
        all that this program has pushed before. ahead: 1 by default; where host embeddings are registered, their lookahead.

        progress: a bar by tqdm; by default if it is there and stderr is a terminal.

        Leaving the loop by break or an exception gives back what was not stepped. Raises UsageError if a step is left
        out or taken twice, or if an earlier loop has come to the end of the job."""
        self._end_run()
        if self._is_over and self._next is None:
            raise UsageError(over(self._epochs, "for epoch in job.epochs(n): for batch in job.train(loader)"))
        self._run = EpochLoop(self, loader, keys, ahead, progress)
        return self._run.batches()

    @property
    def step_due(self) -> bool:
        """Whether opt.step() is to be called for this batch: always, but for job.batches(accumulate=k)."""
        return self._current_step().is_due

    @contextlib.contextmanager
    def reading(self, model: Any) -> Iterator[None]:
        """Within it, the model's layers read rows as they are now, with all steps that this program has taken; in sync mode, of the
        versions that are complete. None is created, and nothing has gradients. The model's dense parameters and buffers are loaded
        from the job: what load_state_dict() had put there is gone."""
        if self._step is not None and not self._step.is_taken:
            raise UsageError(f"{self._step.name} is being trained: call evaluate() or reading() after its step, or after "
                             "the loop over job.train()")
        self._check_open()
        self._settle()
        with self._the_trainer().reading(model, self._lookup):
            yield

    def evaluate(self, model: Any, loader: Iterable[Any], metrics: Metrics = ("loss", "accuracy", "auc"), *,
                 predict: Optional[Predict] = None) -> Dict[str, float]:
        """Metrics of a model of torch over the batches of any loader, with rows and parameters as the job has them now. No
        row is created.

        metrics: names, of embers.metrics; or functions of (outputs, targets), NumPy arrays over all records, by name.
        predict: of (model, batch), outputs and targets of the batch. By default a batch (x, ..., y) gives model(x, ...) and
        y; any other one model(batch), and its attribute or key "y", "label", "labels", "target" or "targets"."""
        with self.reading(model), evaluating(model):
            return measure(model, loader, metrics, predict or default_predict)

    # --- for trainers ------------------------------------------------------------------------------

    def _attach(self, trainer: Trainer) -> None:
        if self._worker_session is not None:
            raise UsageError("the job has begun with another model: make one et.Optimizer for a job, before job.train()")
        self._trainer = trainer

    def _current_step(self) -> Step:
        if self._step is None:
            raise UsageError("there is no minibatch: this belongs into the loop over job.train(loader)")
        return self._step

    # --- for host embeddings -----------------------------------------------------------------------

    @functools.cached_property
    def _host_embeddings(self) -> HostEmbeddings:
        """Those that are registered."""
        return HostEmbeddings()

    def _check_host_embedding(self, embedding: "HostEmbedding") -> None:
        """Raises Mismatch if the job's table is another one."""

    def _check_open(self) -> None:
        """Raises what it is that keeps the job from being used."""

    # --- its own -----------------------------------------------------------------------------------

    def _join_worker(self, declaration: Trainer.Declaration, data: List[str], work: Dict[str, Any], window: int) -> Any:
        raise NotImplementedError

    def _lookup(self, table: str, keys: Any) -> Any:
        raise NotImplementedError

    def _parameters(self) -> Optional[List[Any]]:
        """Present values of the dense parameters and buffers, in the order of the declaration; None where they cannot be
        read but with a minibatch."""
        read = getattr(self._worker_session, "parameters", None)
        return None if read is None else read()

    def _settle(self) -> None:
        """Waits until owners have what this program has pushed."""
        if self._worker_session is not None:
            self._worker_session.settle()

    def _the_trainer(self) -> Trainer:
        if self._trainer is None:
            raise UsageError("the job has no model: make et.Optimizer(model, job, ...) before")
        return self._trainer

    def _joined(self) -> Any:
        if self._worker_session is None:
            declaration = self._the_trainer().declare()
            if self._sampler is None:
                raise UsageError("the job has no work: make a loader with batch_sampler=job.batches(...) before")
            sampler = self._sampler
            work = dict(records=sampler.records, batch_size=sampler.lease_size, epochs=self._epochs,
                        drop_last=sampler.drop_last)
            self._worker_session = self._join_worker(declaration, declaration.data + sampler.signature(), work,
                                                     sampler.window)
            self._host_embeddings.joined()
        return self._worker_session

    def _peek(self, timeout: Optional[float] = None) -> Any:
        """The next lease, which stays the next. None when the job has no more work; or if there is none before leases that
        this worker holds are stepped, or within so many seconds."""
        if self._next is None and not self._is_over:
            try:
                self._next = self._joined().lease(timeout)
                self._is_over = self._next is None and timeout is None  # else there may be a loop that goes on
            except Timeout:
                pass
        return self._next

    def _end_run(self) -> None:
        run, self._run = self._run, None
        if run is not None:
            run.give_back()
