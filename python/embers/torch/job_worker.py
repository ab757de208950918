"""A worker of a job file's Python model: leases minibatches, has the data pipeline read them, and trains or evaluates."""
from __future__ import annotations

import collections
import contextlib
import traceback
import warnings
from typing import Any, Deque, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set

import torch

from .. import _core
from ..errors import BadInput, Error, GiveUp, Retry, Timeout
from ..registry import HostEmbeddings
from ..trainer import Step
from .collection import EmbeddingBagCollection
from .job_model import Batch, describe, load_model, loss_of, make_config, scores_of
from .keys import FeatureIds
from .numeric import match_blas_threads, numeric_settings
from .optimizer import Optimizer, _floats
from .rows import Located, Lookup, RowSource, StepRows
from .table import TableLayer, bind_all

# Parameters of a minibatch are read-only arrays; they are only copied from.
warnings.filterwarnings("ignore", message="The given NumPy array is not writ", module=r"embers\.torch")

LOOK = 0.2  # seconds between looks whether this worker is to leave


def threads_of(count: int) -> List[str]:
    """Sets the number of threads; returns the numeric settings."""
    torch.set_num_threads(count)
    match_blas_threads()
    return numeric_settings()


class ModelError(BadInput):
    """The job's data or its model are wrong, for every worker."""


class _Recorder(RowSource):
    """Notes which features the layers look up in which tables."""

    def __init__(self, rows: StepRows):
        self._rows = rows
        self.seen: Dict[str, List[str]] = {}
        self.whole: List[EmbeddingBagCollection] = []  # those that are given all features

    def watch(self, model: torch.nn.Module, ids: Any) -> List[Any]:
        """Hooks that note them, to be removed."""
        def note(layer: Any, given: Any) -> None:
            if given and given[0] is ids and layer not in self.whole:
                self.whole.append(layer)

        return [layer.register_forward_pre_hook(note) for layer in model.modules()
                if isinstance(layer, EmbeddingBagCollection)]

    def plan(self, layers: Sequence[TableLayer]) -> "_Plan":
        tables = {id(layer): {d.name for d in layer.definitions()} for layer in layers}
        # Tables that others look up, too, are announced for all of them.
        alone = [layer for layer in self.whole
                 if not any(tables[id(layer)] & tables[id(other)] for other in layers if other is not layer)]
        named: Set[str] = set().union(*(tables[id(layer)] for layer in alone))
        return _Plan(alone, {table: features for table, features in self.seen.items() if table not in named})

    def locate(self, lookups: Sequence[Lookup]) -> List[Located]:
        for lookup in lookups:
            if isinstance(lookup.ids, FeatureIds) and lookup.padding == lookup.table.padding:
                features = self.seen.setdefault(lookup.table.name, [])
                if lookup.ids.name not in features:
                    features.append(lookup.ids.name)
        return self._rows.locate(lookups)


class _Plan(NamedTuple):
    """What is announced of each batch."""

    whole: List[EmbeddingBagCollection]  # are given all ids
    features: Dict[str, List[str]]  # by table, of other layers

    def keys(self, batch: Batch) -> Dict[str, Any]:
        keys: Dict[str, Any] = {table: tuple(batch.ids[name] for name in names) for table, names in self.features.items()}
        for layer in self.whole:
            keys.update(layer.keys(batch.ids))
        return keys


class _Open(NamedTuple):
    """A minibatch that is leased and being read."""

    minibatch: Any
    reading: Any


class _Pulled(NamedTuple):
    """One whose rows are on their way."""

    minibatch: Any
    records: Any
    batch: Batch
    rows: StepRows


class _Seed(NamedTuple):
    """What et.Optimizer needs of a sampler."""

    seed: int


class JobModel:
    """The model of a job file, and what et.Optimizer makes of it. Stands in for the job to it."""

    _step: Optional[Step] = None
    _host_embeddings = HostEmbeddings()  # none: its tables are its layers'

    def __init__(self, job: Any):
        self._sampler = _Seed(job.seed)
        self.job = job
        self.config = make_config(job)
        self.model = load_model(job, self.config)
        self.optimizer = Optimizer(self.model, self)  # type: ignore[arg-type]
        self.declaration = self.optimizer.declare()

    def _attach(self, trainer: Any) -> None:
        pass

    def lines(self) -> List[str]:
        """Its tables and parameters as the job has them. Raises BadInput where the job file does not go with them."""
        return list(self.job.settled(self.declaration.tables,
                                     [(p.name, p.shape, p.buffer) for p in self.declaration.parameters]))


class JobWorker:
    """One worker. run() returns when the job has no more work, or when leave() was called."""

    def __init__(self, job: Any, place: Dict[str, Any], owner: Any = None):
        numeric = threads_of(job.threads)
        self._job = job
        self._is_owner = owner is not None
        self._whole = JobModel(job)
        self._model = self._whole.model
        self._opt = self._whole.optimizer
        self._plan: Optional[_Plan] = None  # once a forward has shown it
        self._open: Deque[_Open] = collections.deque()
        self._pulled: Deque[_Pulled] = collections.deque()
        self._is_over = False
        self.leaves = False
        self.finished = 0  # minibatches
        self._train, self._test, records = job.open_data()
        declaration = self._whole.declaration
        # Frozen parameters are no data of the job's, but decide the bits of a gradient.
        self._session = _core.Session.join_as_worker(
            **place, tables=declaration.tables, parameters=declaration.parameters, numeric=numeric + declaration.data,
            data=job.signature, work=_core.Work(records, job.batch_size, job.epochs), owner=owner)

    def leave(self) -> None:
        """What is pulled is finished; then run() returns. A job whose rows are here is saved, and ends."""
        self.leaves = True
        if self._is_owner:
            self._session.stop_job()

    def close(self) -> None:
        """Leaves the job; an owner once it has ended."""
        self._session.close()

    def run(self) -> None:
        try:
            while self._lease() or self._open or self._pulled:
                self._pull()
                if self._pulled:
                    self._work(self._pulled.popleft())
        except ModelError as e:
            self._session.fail_job(str(e))
            raise
        self._session.close()

    # --- its own -----------------------------------------------------------------------------------

    def _lease(self) -> bool:
        """Leases as many as may be under way, and one more; waits if there are none. False if none will come."""
        while not self._is_over and not self.leaves and len(self._open) + len(self._pulled) < self._job.prefetch + 2:
            try:
                minibatch = self._session.lease(0.0 if self._open or self._pulled else LOOK)
            except Timeout:
                if self._open or self._pulled:
                    break
                continue
            if minibatch is None:
                self._is_over = True
                break
            reader = self._test if minibatch.evaluate else self._train
            self._open.append(_Open(minibatch, reader.start(minibatch.epoch, minibatch.number)))
        if self.leaves:
            for leased in self._open:
                leased.minibatch.give_back()
            self._open.clear()
        return not self._is_over and not self.leaves

    def _pull(self) -> None:
        """Asks for the rows of what is read."""
        while self._open and len(self._pulled) < self._job.prefetch + 1:
            minibatch, reading = self._open.popleft()
            try:
                records = reading.wait()
            except BadInput as e:
                raise ModelError(str(e)) from e
            batch = Batch(records, self._whole.config, minibatch.epoch, minibatch.number)
            rows = self._opt.open(minibatch)
            with self._user_code("look up the features of", minibatch):
                if self._plan is not None and len(batch) > 0:
                    rows.announce(self._plan.keys(batch))
            rows.pull()
            self._pulled.append(_Pulled(minibatch, records, batch, rows))

    def _work(self, pulled: _Pulled) -> None:
        minibatch = pulled.minibatch
        if not minibatch.wait():
            return  # stale: the master leases it again
        pulled.rows.arrived()
        step = Step(minibatch, pulled.rows, [pulled.batch], [])
        self._opt.begin(step)
        recorder, hooks = None, []
        if self._plan is None and len(pulled.batch) > 0:
            recorder = _Recorder(pulled.rows)
            hooks = recorder.watch(self._model, pulled.batch.ids)
            bind_all(self._opt._layers, self._opt._uses, recorder)
        try:
            self._evaluate(pulled) if minibatch.evaluate else self._step(pulled)
            self.finished += 1
        finally:
            self._opt.end(step)
            for hook in hooks:
                hook.remove()
        if recorder is not None:
            self._plan = recorder.plan(self._opt._layers)

    def _step(self, pulled: _Pulled) -> None:
        minibatch, records, batch, rows = pulled
        parameters, buffers = list(self._opt._parameters.values()), list(self._opt._buffers.values())
        loss_sum, scores = 0.0, None
        for p in parameters:
            p.grad = None
        if len(batch) > 0:
            self._model.train()
            with self._user_code("train on", minibatch):
                output = self._model(batch)
                loss = loss_of(self._model, output, batch)
                loss.backward()
                loss_sum = float(loss) * len(batch)
                scores = scores_of(self._model, output, batch)
        if rows.is_stale:
            minibatch.give_back()
            return
        gradients = rows.gradients() if len(batch) > 0 else []
        minibatch.push(gradients, [None if t is None else _floats(t) for t in (*(p.grad for p in parameters), *buffers)],
                       examples=len(batch), loss_sum=loss_sum, scores=scores, labels=records.labels,
                       skipped=records.skipped)

    def _evaluate(self, pulled: _Pulled) -> None:
        minibatch, records, batch, rows = pulled
        loss_sum, scores = 0.0, records.records[:0].astype("float32")
        if len(batch) > 0:
            self._model.eval()
            with self._user_code("evaluate", minibatch), torch.no_grad():
                output = self._model(batch)
                if batch.labels is not None:
                    loss_sum = float(loss_of(self._model, output, batch)) * len(batch)
                scores = scores_of(self._model, output, batch)
        if rows.is_stale:
            minibatch.give_back()
            return
        minibatch.finish(examples=len(batch), loss_sum=loss_sum, scores=scores, labels=records.labels,
                         records=records.records, skipped=records.skipped)

    @contextlib.contextmanager
    def _user_code(self, what: str, minibatch: Any) -> Iterator[None]:
        """What the model raises ends the job: another worker's would raise the same."""
        try:
            yield
        except (GiveUp, Retry):
            raise  # the job's
        except Exception as e:
            if not isinstance(e, Error):
                traceback.print_exc()
            name = f"minibatch {minibatch.number} of " + ("the test data" if minibatch.evaluate else f"epoch {minibatch.epoch}")
            raise ModelError(f"model {self._job.python} cannot {what} {name}: {describe(e)}") from e
