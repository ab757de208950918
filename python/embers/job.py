"""A job, as a program that takes part in it sees it."""
from __future__ import annotations

import atexit
import json
import os
import sys
import threading
import weakref
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional, Tuple, Union

import numpy as np

from . import _core
from .arguments import check_count, check_path, check_text, is_integer
from .batch import Batch, check_rows, integers, unique, within
from .errors import BadInput, Error, Mismatch, UsageError
from .log import logger as log
from .loop import Training, over
from .sampler import Batches
from .table import Parameter, Table
from .toml import text_of

if TYPE_CHECKING:
    from .host_embedding import HostEmbedding

_open: "weakref.WeakSet[Job]" = weakref.WeakSet()
_PATIENCE = 0.3  # seconds: whoever has pressed Ctrl-C does not wait for a master or a shard that is gone


class Job(Training):
    """A program's part in a job. Made by embers.connect() or embers.local(); joins when it is first needed: to look rows up as
    a reader, to compute gradients as a worker.

    job.close() leaves it, as do the end of a `with` block and the end of the program."""

    def __init__(self, place: Dict[str, Any], make_cluster: Optional[Callable[[str], Any]] = None, resume: str = "",
                 owner: Any = None):
        self._place = place  # where the job is, and how to get in: arguments of _core.Session's joins
        self._owner = owner  # a _core.OwnerPlace if this program is to hold a share of the rows
        # Its master and shards, if they are within this process; and how they are made, of the checkpoint to go on from.
        self._cluster: Any = None
        self._make_cluster = make_cluster
        self._resume = resume
        if make_cluster is not None:
            self._begin_cluster(resume)
        self._generation = _core.fork_generation()
        self._lock = threading.RLock()
        self._reader: Any = None
        self._worker_session: Any = None
        self._joined_with: Dict[str, Any] = {}  # work, sampler and optimizer
        self._specs: Dict[str, Any] = {}  # of tables that this program defines
        self._parameter_specs: List[Any] = []
        self._imports: List[Tuple[str, Any, np.ndarray]] = []  # until it has joined as a worker
        self._checked: "weakref.WeakSet[HostEmbedding]" = weakref.WeakSet()  # that are the job's tables
        self._batch: Optional[Batch] = None
        self._loop: Optional[Iterator[Batch]] = None
        self._is_closed = False
        _open.add(self)

    # --- tables ------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The job's name."""
        return str(self._reading_session().job)

    @property
    def address(self) -> str:
        """Where the master is; "" if the job's directory, or the environment, says so."""
        return str(self._place["master"])

    def report(self) -> Dict[str, Any]:
        """The report of a job of embers.local() that has been closed: see docs/results.md."""
        if self._cluster is None:
            raise UsageError("the master of this job writes its report: embers master --report FILE")
        report: Dict[str, Any] = json.loads(self._cluster.report())
        return report

    @property
    def tables(self) -> Dict[str, Table]:
        """The job's embedding tables by their names."""
        specs = self._all_specs() if self._worker_session is None else {}
        specs = specs or {t.name: t for t in self._reading_session().tables}
        return {name: Table(self, name) for name in specs}

    def table(self, name: str, dim: Optional[int] = None, *, keys: Optional[str] = None, initializer: Any = None,
              optimizer: Any = None, constraint: Any = None, partition: Optional[str] = None) -> Table:
        """A table of the job.

        With `dim`, floats of a row, it is defined: this program is going to compute with it, and all workers of the job must
        define the same tables, in the same order. keys: "int64" (without it) or "bytes", for str and bytes. initializer
        (embers.initializers), optimizer (an update rule such as embers.Adagrad) and constraint (embers.constraints), or
        what a job file would say: without them the job's. partition: how owners share the table, "token" (rows), "encoding"
        (columns) or "auto"; the job file's, if it says one, stands.

        Raises BadInput for a table that is defined twice in different ways, UsageError for one that is defined when this
        program has already joined as a worker."""
        if dim is None:
            for what, value in (("keys", keys), ("initializer", initializer), ("optimizer", optimizer),
                                ("constraint", constraint), ("partition", partition)):
                if value is not None:
                    raise BadInput(f"table '{name}' is given {what}, but no dim: job.table('{name}', dim=...) defines it")
            return Table(self, name)
        check_text("the name of a table", name)
        if not is_integer(dim) or dim < 1:
            raise BadInput(f"dim of table '{name}' is {dim!r}: it is the floats of a row, at least 1")
        check_count(f"dim of table '{name}'", dim)
        for what, text in (("keys", keys), ("partition", partition)):
            if text is not None:
                check_text(f"{what} of table '{name}'", text)
        spec = _core.TableSpec(name, int(dim), keys or "int64", _toml(initializer), _toml(optimizer), _toml(constraint),
                                partition or "")
        known = self._specs.get(name)
        if known is not None:
            for what in ("dim", "keys", "initializer", "optimizer", "constraint", "partition"):
                if getattr(known, what) != getattr(spec, what):
                    raise BadInput(f"table '{name}' is defined twice: {what} {getattr(known, what)!r}, then "
                                   f"{getattr(spec, what)!r}")
            return Table(self, name)
        self._check_may_define(f"table '{name}'")
        self._specs[name] = spec
        return Table(self, name)

    def parameter(self, name: str, initial: Any, *, buffer: bool = False) -> Parameter:
        """Defines a dense parameter, or a buffer (whose last value wins, as a running mean's). `initial`: its first value,
        which is converted to float32; the first worker's starts the job."""
        check_text("the name of a parameter", name)
        self._check_may_define(f"parameter '{name}'")
        if any(spec.name == name for spec in self._parameter_specs):
            raise BadInput(f"parameter '{name}' is defined twice")
        try:
            first = np.array(initial, dtype=None if initial is None else np.float32, order="C")
        except (TypeError, ValueError) as e:
            raise BadInput(f"the first value of '{name}' is no array of float32: {e}") from e
        if first.dtype != np.float32:
            raise BadInput(f"the first value of '{name}' is {initial!r}: give numbers, such as numpy.zeros(shape)")
        if self._parameter_specs and self._parameter_specs[-1].buffer and not buffer:
            raise BadInput(f"parameter '{name}' comes after buffers: define all parameters before the first buffer")
        self._parameter_specs.append(_core.ParameterSpec(name, list(first.shape), buffer, first))
        return Parameter(self, name, len(self._parameter_specs) - 1)

    # --- minibatches -------------------------------------------------------------------------------

    def minibatches(self, records: int, batch_size: int, *, epochs: int = 1, shuffle: bool = True, seed: int = 0,
                    drop_last: bool = False, optimizer: Any = None) -> Iterator[Batch]:
        """The minibatches that this program is leased, of `epochs` epochs over data with so many records, until the job has no
        more work. Any number of workers share them, come, go and die: each record of each epoch counts once.

            for batch in job.minibatches(len(data), 256, epochs=5):
                x = data[batch.records]
                rows = users.lookup(x.user)
                ...
                users.push(x.user, grads)

        What the body pushes leaves when it is done. Leaving the loop by `break` or an exception gives the minibatch back, and
        the master leases it again. batch_size: records of a minibatch; the last one of an epoch may have fewer, and is left
        out with drop_last. shuffle: anew each epoch, decided by `seed`. optimizer: of parameters, and of tables that have none
        of their own; without it the job's.

        Raises UsageError if nothing is pushed for a minibatch (see Batch.skip), StaleVersion when one is refused: go on with
        the next one."""
        self._end_loop()
        epochs = check_count("epochs", epochs)
        self._loop = self._minibatches(Batches(records, batch_size, shuffle, seed, drop_last), epochs, _toml(optimizer))
        return self._loop

    def _minibatches(self, order: Batches, epochs: int, optimizer: str) -> Iterator[Batch]:
        hosts = self._host_embeddings
        work = dict(records=order.records, batch_size=order.batch_size, epochs=epochs, drop_last=order.drop_last)
        session = self._join_as_worker([*self._specs.values(), *hosts.join(self._specs)], self._parameter_specs, [],
                                       order.signature(), work, optimizer)
        hosts.joined()
        if self._is_over:
            raise UsageError(over(epochs, "job.minibatches(..., epochs=n)"))
        while True:
            minibatch = session.lease()
            if minibatch is None:
                self._is_over = True
                return
            if hosts and hosts.lookahead == 0:
                session.settle()
            if minibatch.evaluate or not minibatch.begin():
                minibatch.give_back()
                continue
            batch = self._batch = Batch(minibatch, order.of(minibatch.epoch, minibatch.number), self._all_specs(),
                                        self._parameter_specs)
            try:
                yield batch
                if not batch.is_over:
                    batch.finish()
            finally:
                batch.end("was given back, because its loop was left: begin another loop over job.minibatches()")
                self._batch = None
                if self._generation == _core.fork_generation():
                    minibatch.give_back()

    # --- files -------------------------------------------------------------------------------------

    def save(self, directory: Union[str, "os.PathLike[str]"]) -> None:
        """Saves the job now: rows, parameters, the state of update rules, and which records of the epoch are done. It goes
        on; one that is begun with this checkpoint (resume=, embers master --resume) does the rest. Returns when it is saved.

        directory: on the host of the job's master; relative to where this program runs. It may hold an earlier checkpoint,
        which counts until the new one is complete. Workers finish what they have begun and begin nothing until then.

        Any program of the job may call it, workers and readers; a worker between its minibatches: after opt.step(), after
        batch.finish(), or outside of the loop. What the loop has asked for ahead is given back.

        Raises UsageError in the middle of a minibatch, BadInput for a directory that cannot be written and while another
        program saves the job, DiskError when the disk is full, Ended when the job is over."""
        self._check_open()
        directory = check_path("the directory to save to", directory)
        where = "opt.step()"
        name = None if self._step is None or self._step.is_taken else self._step.name
        if self._batch is not None and not self._batch.is_over:
            where, name = "batch.finish()", self._batch.name
        if name is not None:
            raise UsageError(f"{name} is under way, and a checkpoint waits for what is: call job.save() after {where}, or "
                             "outside of the loop")
        if self._run is not None:
            self._run.give_back_begun()
        self._reading_session().save(directory)

    def load(self, directory: Union[str, "os.PathLike[str]"]) -> None:
        """Has a job of embers.local() go on from a checkpoint, as embers.local(resume=directory) does: with the state of
        update rules, and with the records of the epoch that are not done. Before its first minibatch; job.address changes.

        Raises BadInput for what is no checkpoint, UsageError for a job that has begun, or that runs elsewhere: its master is
        told where to begin (embers master --resume DIR, embers launch --resume DIR)."""
        self._check_open()
        checkpoint = check_path("the directory to load", directory)
        if self._cluster is None:
            raise UsageError(f"the master of this job runs elsewhere: begin the job with embers master --resume {checkpoint}, or "
                             "embers launch --resume; to set rows alone, there is table.import_()")
        if self._worker_session is not None:
            raise UsageError(f"this job has begun: load '{checkpoint}' before its first minibatch, or begin another one, with "
                             f"embers.local(resume={checkpoint!r})")
        self._cluster.close()
        try:
            self._begin_cluster(checkpoint)
        except Error:
            self._begin_cluster(self._resume)
            raise
        self._resume = checkpoint

    def _begin_cluster(self, resume: str) -> None:
        assert self._make_cluster is not None
        self._cluster = self._make_cluster(resume)
        self._place["master"] = self._cluster.address

    # --- the end -----------------------------------------------------------------------------------

    def close(self) -> None:
        """Leaves the job: what is leased is given back, and what is pushed arrives. A job within this process ends. With
        connect(owner=True) waits until the job has ended; if there is work left, the master is asked to save and end it. Later
        calls raise UsageError."""
        self._close(None)

    def _close(self, timeout: Optional[float], interrupted: bool = False) -> None:
        """Waits this many seconds at most for each session; for a job within this process, or whose rows it holds, until it has
        ended and is saved: then Ctrl-C asks for that, and only a second one does not wait."""
        if self._owner is not None:
            timeout = None
        if self._is_closed:
            return
        self._is_closed = True
        if self._generation != _core.fork_generation():
            return  # the parent's
        if self._batch is not None:
            self._batch.end("was given back when its job was closed: connect again, and begin another loop")
        self._end_loop()
        self._end_run()
        for session in (self._reader, self._worker_session):
            if session is not None:
                try:
                    session.close(timeout)
                except KeyboardInterrupt:
                    if self._owner is None or interrupted:
                        raise
                    session.stop_job()
                    session.close(timeout)
                    raise
        if self._cluster is not None:
            self._cluster.close()

    def __enter__(self) -> "Job":
        return self

    def __exit__(self, kind: Any, error: Any, _: Any) -> None:
        if error is None:
            return self.close()
        try:
            is_interrupted = isinstance(error, KeyboardInterrupt)
            self._close(_PATIENCE if is_interrupted else None, is_interrupted)
        except Error:
            pass  # what the block was left with is what its caller wants to know
        return None

    def __getstate__(self) -> Dict[str, Any]:
        """A job in an object that goes to another process, such as a DataLoader's worker, connects there anew, and is no owner
        there."""
        if self._cluster is not None:
            raise UsageError("a job of embers.local() lives in this process: it cannot be used in another one")
        return {"_place": self._place}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self.__init__(state["_place"])  # type: ignore[misc]

    # --- its own -----------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._generation != _core.fork_generation():
            raise BadInput("connected before fork: connect again here, with embers.connect()")
        if self._is_closed:
            raise UsageError("this job was closed: connect again")

    def _check_may_define(self, what: str) -> None:
        self._check_open()
        if self._worker_session is not None:
            raise UsageError(f"{what} comes too late: this program has joined the job with the tables that it had defined by "
                             "then. Define all of them before job.minibatches() or job.train()")

    def _join_worker(self, declaration: Any, data: List[str], work: Dict[str, Any], window: int) -> Any:
        """As loop.py joins: `declaration` is a Trainer's."""
        return self._join_as_worker(declaration.tables, declaration.parameters, declaration.numeric, data, work,
                                    declaration.optimizer, window)

    def _join_as_worker(self, tables: List[Any], parameters: List[Any], numeric: List[str], data: List[str],
                        work: Dict[str, Any], optimizer: str = "", window: int = 0) -> Any:
        """Joins as a worker, once."""
        self._check_open()
        wanted = {"optimizer": optimizer, **work, **dict(line.split("=", 1) for line in data)}
        with self._lock:
            for name, value in wanted.items():
                if self._joined_with and self._joined_with.get(name) != value:
                    raise UsageError(f"this program has joined the job with {name.replace('sampler.', '')} = "
                                     f"{self._joined_with.get(name)!r}, so {value!r} comes too late: a job's work stays what it is")
            if self._worker_session is None:
                self._worker_session = _core.Session.join_as_worker(**self._place, tables=tables, parameters=parameters,
                                                            numeric=numeric, data=data, work=_core.Work(**work),
                                                            optimizer=optimizer,
                                                            window=window, owner=self._owner)
                self._check_host_embeddings()
                self._joined_with = wanted
            while self._imports:
                self._import_before_training(*self._imports[0])
                del self._imports[0]
            return self._worker_session

    def _import_before_training(self, table: str, keys: Any, rows: np.ndarray) -> None:
        """What was given to import_() before this program joined. All workers run the same program: one that joins later, or
        is started again, must not undo what has been trained."""
        if self._worker_session.newest_version(table, keys) > 0:
            log.warning("table '%s': the %d rows that import_() was given before this program joined are left out, since the "
                        "job has trained already; call it in the loop to set them nevertheless", table, len(rows))
        else:
            self._worker_session.import_(table, keys, rows)

    def _reading_session(self) -> Any:
        """The one to look rows up with."""
        self._check_open()
        with self._lock:
            if self._worker_session is not None:
                return self._worker_session
            if self._reader is None:
                if self._cluster is not None or self._owner is not None:
                    raise UsageError("this job has no rows yet: it begins when this program computes its first minibatch, in "
                                     "job.minibatches() or job.train()")
                self._reader = _core.Session.join_as_reader(**self._place)
            return self._reader

    def _lookup_in(self, table: str, keys: Any, out: Optional[np.ndarray]) -> np.ndarray:
        self._check_open()
        if self._batch is not None and self._batch.thread == threading.get_ident():
            return self._batch.lookup(table, keys, out)
        return self._lookup(table, keys, out)

    def _lookup(self, table: str, keys: Any, out: Optional[np.ndarray] = None) -> np.ndarray:
        session = self._reading_session()
        if session is self._worker_session and self._host_embeddings.sees_every_update(table):
            session.settle()
        rows: np.ndarray = session.lookup(table, keys, out)
        return rows

    def _all_specs(self) -> Dict[str, Any]:
        """Of tables that this program defines, those of layers and host embeddings too."""
        of_layers = {} if self._trainer is None else {d.name: d for d in self._trainer.tables()}
        return {**of_layers, **self._specs, **self._host_embeddings.specs()}

    def _check_host_embeddings(self) -> None:
        """Raises Mismatch, and has not joined, if a table of the job is another one."""
        try:
            for embedding in self._host_embeddings.now():
                self._check_host_embedding(embedding)
        except Mismatch:
            session, self._worker_session = self._worker_session, None
            session.close()
            raise

    def _check_host_embedding(self, embedding: "HostEmbedding") -> None:
        if embedding in self._checked or self._worker_session is None and self._cluster is not None:
            return  # a job that has not begun has no tables yet
        for table in self._reading_session().tables:
            if table.name == embedding.name:
                embedding.check_table(table)
                self._checked.add(embedding)
                return
        self._reading_session().lookup(embedding.name, np.empty(0, np.int64))  # raises UnknownTable

    def _spec_of(self, table: str) -> Any:
        specs = self._all_specs()
        for spec in (*specs.values(), *(() if table in specs else self._reading_session().tables)):
            if spec.name == table:
                return spec
        self._reading_session().lookup(table, np.empty(0, np.int64))  # raises UnknownTable
        raise AssertionError(table)

    def _current_batch(self, what: str) -> Batch:
        self._check_open()
        if self._batch is None:
            raise UsageError(f"{what}: this belongs into the body of a loop over job.minibatches()")
        return self._batch

    def _export(self, table: str) -> Tuple[Any, np.ndarray]:
        return self._reading_session().export(table)  # type: ignore[no-any-return]

    def _import(self, table: str, keys: Any, rows: np.ndarray) -> None:
        self._check_open()
        specs = self._all_specs()
        if table in specs and specs[table].rows:
            ids = integers(f"table '{table}'", keys)
            within(table, specs[table].rows, ids.reshape(-1), ids.shape)
        if self._worker_session is not None:
            return self._worker_session.import_(table, keys, rows)  # type: ignore[no-any-return]
        if table not in specs:
            raise UsageError(f"table '{table}' cannot be imported yet: define it (job.table('{table}', dim=...), or a layer of "
                             "the model of et.Optimizer); a program that only looks rows up changes none")
        given, _ = unique(keys)
        is_int = isinstance(given, np.ndarray) and given.dtype.kind == "i"
        if len(given) > 0 and is_int != (specs[table].keys == "int64"):
            raise BadInput(f"table '{table}' has {specs[table].keys} keys, but {'integers' if is_int else 'strings'} were given")
        count = keys.size if isinstance(keys, np.ndarray) else len(keys)
        if len(given) < count:
            raise BadInput(f"{count} keys were given for table '{table}', but only {len(given)} different ones: each must be "
                           "there once")
        check_rows(f"the array of rows for table '{table}'", rows, (count, specs[table].dim))
        self._imports.append((table, given, rows.copy()))  # until this program joins as a worker
        return None

    def _end_loop(self) -> None:
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.close()  # type: ignore[attr-defined]


def _toml(value: Any) -> str:
    """A value as a job file has it; a str is one already, or a name."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value if value.lstrip()[:1] in ("{", '"', "'", "") else text_of(value)
    return text_of(value)


@atexit.register
def _close_all() -> None:
    is_interrupted = isinstance(getattr(sys, "last_value", None), KeyboardInterrupt)
    for job in list(_open):
        try:
            job._close(_PATIENCE if is_interrupted else None, is_interrupted)
        except Exception as e:  # noqa: BLE001  the program is ending, and there is nobody to raise it to
            if job._cluster is not None:
                log.error("closing the job at the end of the program: %s", e)
    _core.end_all(0 if is_interrupted else 5)  # what was let go of without being closed
    _core.drain_log()
