"""The training loop: batches of any loader, each paired with the minibatch that was leased for it.

A loader with worker processes draws ahead: A = prefetch_factor * num_workers batches within iter(loader), and from then
on batch j is returned only after draw A + j. So the loop

  - holds a window of leases, and pairs batches with them in the order in which they were drawn;
  - asks, while one minibatch trains and the next is pulled, whether the work on the one after that may begin, where the session
    says that this may be asked ahead (async);
  - never waits in the sampler for what may wait for the leases that it holds: session.lease() then says "later". The
    sampler says that it has no more, the loop finishes what it holds, waits for more, and iterates the loader again;
  - gives back what it has not begun when begin() says so (sync mode, after a worker was lost), and draws anew, lowest
    first;
  - gives back everything when the user's loop is left.

It uses of a job only what `Training` lists as its needs, and of sessions and minibatches only what the
fake of tests/fake_core.py has, too. It needs no torch."""
from __future__ import annotations

import collections
import contextlib
from typing import TYPE_CHECKING, Any, Callable, Deque, Dict, Iterator, List, Optional

from .arguments import is_integer
from .errors import BadInput, Ended, Error, UsageError
from .log import logger as log
from .progress import Progress
from .sampler import Batches, Part
from .trainer import Step

if TYPE_CHECKING:
    from .loop import Training


# Seconds for which a minibatch that has begun waits for the next one to begin.
_PATIENCE = 0.05


class EpochLoop:
    """One loop over job.train(loader)."""

    def __init__(self, job: Training, loader: Any, keys: Optional[Callable[[Any], Dict[str, Any]]], ahead: Optional[int],
                 progress: Optional[bool]):
        sampler = next((s for s in (loader, getattr(loader, "batch_sampler", None), getattr(loader, "sampler", None))
                        if isinstance(s, Batches)), None)
        if sampler is None:
            raise UsageError("the loader draws its batches by itself: make it with "
                             "DataLoader(dataset, batch_sampler=job.batches(len(dataset), batch_size))")
        if sampler is not job._sampler:
            raise UsageError("the loader's batch sampler is not the last one that this job made: the work of a job is one "
                             "job.batches(...)")
        self._job = job
        self._loader = loader
        self._sampler = sampler
        self._keys = keys
        self._given_ahead = ahead
        self._show = progress
        self._epoch = 0
        self._open: Deque[Step] = collections.deque()  # begun and pulled, in order
        self._unbegun: Optional[Step] = None  # taken from the loader
        self._is_announced = False  # and asked to begin
        self._asked: Any = None  # the minibatch after those, if it was asked to begin: drawn, or the job's next lease
        self._void: Any = None  # a minibatch that was drawn and given back since: its batches are left out
        self._is_closed = False
        workers = getattr(loader, "num_workers", 0)
        self._drawn_ahead = workers * (getattr(loader, "prefetch_factor", None) or 2) if workers else 0
        # Then what is drawn is what is begun next. Of other loaders nobody knows.
        self._begins_drawn = loader is sampler or getattr(loader, "num_workers", None) == 0
        self._settle_ahead()

    def _settle_ahead(self) -> None:
        """Of how many minibatches rows are pulled ahead, as host embeddings are registered now."""
        ahead = self._job._host_embeddings.ahead(self._given_ahead, self._keys is not None)
        if not is_integer(ahead) or ahead < 0:
            raise BadInput(f"ahead is {ahead!r}: it must be an integer of at least 0")
        self._ahead = ahead if self._keys is not None else 0
        # A lookup is to see every update of this program: nothing is pulled before the last push has arrived.
        self._settles = self._ahead == 0
        # One is with the user, one waits for its version, one's push is not acknowledged yet, one is asked for ahead.
        window = -(-self._drawn_ahead // self._sampler.accumulate) + self._ahead + 4
        if window > self._sampler.window:
            raise UsageError(f"the loader draws {self._drawn_ahead} batches ahead (prefetch_factor * num_workers), for which "
                             f"this worker must hold {window} leases: say job.batches(..., window={window})")

    def batches(self) -> Iterator[Any]:
        job = self._job
        if self._is_closed:
            return
        self._settle_ahead()  # job.train() may have been called outside of the scope, and the loop be within it
        first = job._peek()
        if first is None:
            return
        self._epoch = first.epoch
        self._sampler.start(self._draw)
        try:
            with Progress(self._show, self._epoch, self._sampler.minibatches) as bar:
                while self._has_more():
                    yield from self._pass(bar)
            try:
                job._settle()
                job._the_trainer().finish()
            except Ended:
                pass
            except Error as e:
                log.warning("the model has the parameters of its last minibatch, since the present ones could not be read: %s. "
                            "`with job.reading(model):` loads them", e)
        finally:
            self.give_back()

    def give_back(self) -> None:
        """Whatever is not stepped. Twice is as good as once."""
        if self._is_closed:
            return
        self._is_closed = True
        job = self._job
        step, job._step = job._step, None
        if step is not None:
            job._the_trainer().end(step)
        left = self._sampler.stop()
        left += [s.minibatch for s in (step, *self._open, self._unbegun) if s is not None and not s.is_taken]
        left += self._take_asked()
        self._open.clear()
        self._unbegun = None
        _give_back(left)
        if job._worker_session is not None:
            with contextlib.suppress(Error):
                job._worker_session.give_back_undrawn()

    def give_back_begun(self) -> None:
        """What was pulled ahead, or asked to begin: a checkpoint waits for what is begun. What was only drawn stays."""
        begun = [step.minibatch for step in self._open]
        self._open.clear()
        if self._unbegun is not None and (self._is_announced or self._begins_drawn):
            begun.append(self._unbegun.minibatch)
            self._unbegun = None
        if self._asked is not None and self._asked is not self._job._next:
            self._void = self._asked
        _give_back(begun + self._take_asked())

    def _draw(self) -> Any:
        job = self._job
        minibatch = job._peek()
        if minibatch is None or minibatch.epoch != self._epoch:
            return None
        job._next = None
        if self._begins_drawn and self._is_of_open_version(minibatch):
            minibatch.ask_to_begin()  # the answer is on its way while its batch is made
        return minibatch

    def _is_of_open_version(self, minibatch: Any) -> bool:
        return not self._open or minibatch.version == self._open[0].minibatch.version

    def _has_more(self) -> bool:
        minibatch = self._job._peek()
        return minibatch is not None and minibatch.epoch == self._epoch

    def _pass(self, bar: Progress) -> Iterator[Any]:
        """The loader, once: to the end of what was drawn, or until minibatches must be given back."""
        batches = iter(self._loader) if self._loader is not self._sampler else self._sampler
        is_end = False
        while True:
            is_end = is_end or self._fill(batches)
            if self._open:
                yield from self._train(self._open.popleft(), bar)
            elif is_end:
                return

    def _fill(self, batches: Iterator[Any]) -> bool:
        """Begins minibatches, as many as may be under way. True when the loader has no more, or shall begin anew."""
        while len(self._open) <= self._ahead:
            if self._unbegun is None:
                self._unbegun = self._take(batches)
                self._is_announced = False
            step = self._unbegun
            if step is None:
                return True
            if not self._is_of_open_version(step.minibatch):
                return False  # its version is not there before those that are open are stepped
            if not self._is_announced:
                step.minibatch.ask_to_begin()
                self._is_announced = True
                if self._keys is not None:  # while the answer is on its way
                    for batch in step.batches:
                        step.rows.announce(self._keys(batch))
            # Before a checkpoint the master lets nothing begin until all that has begun is done.
            begun = step.minibatch.begin(_PATIENCE if self._open else None)
            if begun is None:
                return False
            if not begun:
                self._unbegun = None
                _give_back([step.minibatch, *self._sampler.forget()])
                self._drop_next()
                self._asked = None
                return True
            self._unbegun = None
            if self._settles:
                self._job._worker_session.settle()
            step.rows.pull()
            self._open.append(step)
        self._ask_next()
        return False

    def _ask_next(self) -> None:
        """So that nobody waits for the master's answer when its turn comes."""
        job = self._job
        # Not with ahead=0: then nothing has begun between a step and the next batch, whatever the program does there.
        if self._ahead == 0 or not job._worker_session.begins_ahead:
            return
        drawn = self._sampler.drawn
        if drawn:
            self._asked = drawn[0].minibatch
        else:
            following = job._peek(0) if self._begins_drawn else None
            self._asked = None if following is None or following.epoch != self._epoch else following
        if self._asked is not None:
            self._asked.ask_to_begin()

    def _take_asked(self) -> List[Any]:
        asked, self._asked = self._asked, None
        if asked is self._job._next:
            self._job._next = None
        return [] if asked is None else [asked]

    def _drop_next(self) -> None:
        """What was drawn to look at it goes back, too: lower ones come first."""
        minibatch, self._job._next = self._job._next, None
        if minibatch is not None:
            _give_back([minibatch])

    def _take(self, batches: Iterator[Any]) -> Optional[Step]:
        """All batches of the next minibatch; None at the end of what was drawn."""
        taken: List[Any] = []
        parts: List[Part] = []
        while not parts or parts[-1].number + 1 < parts[-1].parts:
            try:
                batch = next(batches)
            except StopIteration:
                return None
            part = self._sampler.drawn.popleft()
            if part.minibatch is self._void:
                continue
            parts.append(part)
            taken.append(batch)
        minibatch = parts[0].minibatch
        self._asked = None
        return Step(minibatch, self._job._the_trainer().open(minibatch), taken, parts)

    def _train(self, step: Step, bar: Progress) -> Iterator[Any]:
        """Nothing is yielded if an owner found it stale: others compute it."""
        job = self._job
        if not step.minibatch.wait():
            return
        step.rows.arrived()
        job._step = step
        job._the_trainer().begin(step)
        for part, batch in enumerate(step.batches):
            step.part = part
            yield batch
            if self._is_closed:  # job.train(), job.epochs() or job.close() was called within the loop
                job._check_open()
                raise UsageError(f"{step.name} was given back: another job.train() began before this loop went on")
        if not step.is_taken:
            raise UsageError(f"{step.name} was not stepped: call opt.step() once for each minibatch, or opt.skip() to leave "
                             "its gradient out")
        job._step = None
        job._the_trainer().end(step)
        bar.done(step)


def _give_back(minibatches: List[Any]) -> None:
    seen = set()
    for minibatch in minibatches:
        if id(minibatch) not in seen:
            seen.add(id(minibatch))
            with contextlib.suppress(Error):  # the job may be over; whoever comes here knows why, or hears it next
                minibatch.give_back()
