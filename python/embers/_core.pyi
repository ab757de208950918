"""embers::client for Python, and jobs within a process. Waits let other threads run, and end on Ctrl-C. Arrays of float32 are
C-contiguous and are not copied on their way in; rows and parameters are views. Errors are those of embers.errors."""
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]
Keys = Union[npt.NDArray[Any], Sequence[int], Sequence[Union[str, bytes]]]

__version__: str

def fork_generation() -> int:
    """How many forks are between the process that imported embers and this one."""

def drain_log() -> None:
    """Gives what the library has logged to Python's logging."""

def end_all(timeout: float) -> bool:
    """Leaves all jobs, and ends those of this process, also such that are nobody's any more. Whether that is done within this
    many seconds."""

def unique(keys: Keys) -> Tuple[Ints, Ints]:
    """Unique integers in the order in which they first occur, and the place of each key among them, in the shape of keys."""

def unique_strings(keys: Keys) -> Tuple[Any, Ints]:
    """The same for str and bytes; the first is a list, or an array if keys are one."""

def sum_rows(rows: Floats, places: Ints, size: int) -> Floats:
    """(size, dim): each row of (..., dim) is added to the row at its place, in order."""

def add_rows(sums: Floats, places: Ints, rows: Floats) -> None:
    """The same, onto what `sums` has."""

def permuted(positions: Ints, n: int, keys: Sequence[int]) -> Ints:
    """The elements at these positions of the random order of 0..n-1 that the keys decide."""

class UniqueColumns:
    """unique() or unique_strings() of each of many lists of n keys, found by another thread while this one goes on. The lists
    must not change before keys() has returned."""

    def __init__(self, columns: Sequence[Keys]): ...
    def keys(self) -> List[Any]:
        """Of each list. Waits."""
    @property
    def places(self) -> npt.NDArray[np.int32]:
        """(columns, n): of each key among the unique ones of its list. There when keys() has returned."""

def gather_columns(tables: List[Floats], places: npt.NDArray[np.int32], out: Floats) -> None:
    """tables: (keys, dim); out: (n, columns * dim). Copies the row at each place of the column's table."""

def add_columns(tables: List[Floats], places: npt.NDArray[np.int32], gradient: Floats) -> None:
    """The other way: adds to the row at each place, in order."""

def pair_products(fields: Sequence[Floats], out: Floats, threads: int = 1) -> None:
    """Parts of the fields, (n, fields of the part, dim) each -> the last columns of out (n, any + fields * (fields - 1) / 2):
    inner products of all pairs (1, 0), (2, 0), (2, 1), ..."""

def pair_products_gradient(fields: Sequence[Floats], gradient: Floats, out: Sequence[Floats], threads: int = 1) -> None:
    """Gradient of the products, in the last columns of `gradient` -> out, parts in the shapes of those of fields."""

def second_order(fields: Sequence[Floats], numbers: Floats, factors: Floats, out: Floats, sums: Floats, second: Floats,
                 threads: int = 1) -> None:
    """Parts of the fields, (n, fields of the part, dim) each; numbers (n, k) and factors (k, dim) -> out (n, all fields, dim),
    those of numbers last; sums (n, dim) of them; second (n, 1), the inner products of all pairs, added up."""

def second_order_gradient(of_fields: Floats, of_second: Floats, fields: Floats, sums: Floats, numbers: Floats, out: Floats,
                          of_factors: Floats, threads: int = 1) -> None:
    """What second_order() has written, and gradients of `out` and `second` -> out, those of all fields; of_factors, which are overwritten."""

def tune_malloc() -> None:
    """Makes malloc keep large blocks, which otherwise cost page faults each time."""

class TableSpec:
    """An embedding table: keys are "int64" or "bytes", and below `rows` unless that is 0; the others are values of a job file, ""
    for the job's. Those of a session are what the job has."""

    name: str
    dim: int
    keys: str
    initializer: str
    optimizer: str
    constraint: str
    partition: str
    rows: int
    dtype: str
    def __init__(self, name: str, dim: int, keys: str = "int64", initializer: str = "", optimizer: str = "",
                 constraint: str = "", partition: str = "", rows: int = 0, dtype: str = "") -> None: ...

class ParameterSpec:
    """A dense parameter, or a buffer. The first worker's `initial` starts the job; None: zeros."""

    name: str
    shape: Tuple[int, ...]
    buffer: bool
    initial: Optional[Floats]
    def __init__(self, name: str, shape: Sequence[int], buffer: bool = False, initial: Optional[Floats] = None) -> None: ...

class Work:
    """How much there is to do."""

    records: int
    batch_size: int
    epochs: int
    drop_last: bool
    def __init__(self, records: int, batch_size: int, epochs: int, drop_last: bool = False) -> None: ...

class Minibatch:
    """A leased minibatch, for one thread at a time: begun, pulled, waited for, and pushed, or finished when it is evaluated. One
    that is dropped before is given back, and leased again."""

    epoch: int
    number: int
    version: int
    evaluate: bool
    def ask_to_begin(self) -> None:
        """Asks what begin() asks, and returns at once: begin() gives the answer."""
    def begin(self, timeout: Optional[float] = None) -> Optional[bool]:
        """The work begins: its deadline counts from here. Waits in sync mode until the version is there. False: give it back,
        and draw again, lowest first. None: it has not begun in so many seconds; ask again."""
    def pull(self, lists: Sequence[Tuple[str, Keys]],
             columns: Sequence[Tuple[Sequence[str], UniqueColumns]] = ()) -> None:
        """Asks for rows of keys that are unique in each list, and for the parameters. Columns are more lists, those of the
        tables: another thread waits for them, and what fails there is raised by wait(). Returns at once."""
    def pull_more(self, lists: Sequence[Tuple[str, Keys]]) -> bool:
        """More rows, once those of the pull are there; waits. Their lists come after those before; a table may be listed again,
        with keys that it has not had yet. False: as wait()."""
    def wait(self) -> bool:
        """Waits until they are there. False: it was refused as stale, and is over."""
    def rows(self, first: int) -> List[Floats]:
        """Of each list from the first-th on: (keys, dim), a read-only view."""
    def parameter(self, i: int) -> Floats:
        """In its shape, a read-only view."""
    def push(self, rows: Sequence[Optional[Floats]], parameters: Sequence[Optional[Floats]], *, examples: int, loss_sum: float,
             scores: Any = None, labels: Any = None, skipped: int = 0) -> None:
        """Hands over gradients and returns at once: of each list (keys, dim), of each parameter in its shape; None for none. Of
        a buffer, its new value. Then it is over."""
    def finish(self, *, examples: int, loss_sum: float, scores: Any, labels: Any = None, records: Any, skipped: int = 0) -> None:
        """Of one that is evaluated."""
    def give_back(self) -> None:
        """The master leases it again. Nothing if it is over."""

class OwnerPlace:
    """Where others reach a worker that is an owner, too: without anything, at the address that reaches the master."""

    def __init__(self, listen: Sequence[str] = (), advertise: str = "", port_range: str = ""): ...

class Session:
    """A program's part in a running job. Threads may share it."""

    job: str
    tables: List[TableSpec]
    begins_ahead: bool  # whether ask_to_begin() may be called while other minibatches of this program are computed
    @staticmethod
    def join_as_reader(master: str = "", job_dir: str = "", secret_file: str = "", insecure: bool = False,
                       connect_timeout: float = 20, timeout: float = 60, version: str = ...) -> Session:
        """Joins to look rows up. Returns when the job has begun."""
    @staticmethod
    def join_as_worker(*, master: str = "", job_dir: str = "", secret_file: str = "", insecure: bool = False,
                       connect_timeout: float = 20, timeout: float = 60, version: str = ..., tables: Sequence[TableSpec],
                       parameters: Sequence[ParameterSpec], numeric: Sequence[str], data: Sequence[str],
                       work: Optional[Work], optimizer: str = "", window: int = 0,
                       owner: Optional[OwnerPlace] = None) -> Session:
        """Joins to compute gradients; with an OwnerPlace, also as a shard. Returns when all shards have joined."""
    def lookup(self, table: str, keys: Keys, out: Optional[Floats] = None) -> Floats:
        """The latest rows, in the shape of keys + (dim,); of a key without a row, what it will begin with. Creates nothing."""
    def parameters(self) -> List[Floats]:
        """Present values of this worker's parameters and buffers, in their shapes."""
    def export(self, table: str) -> Tuple[Any, Floats]:
        """All keys, int64 (n,) or a list of bytes, and their rows (n, dim)."""
    def import_(self, table: str, keys: Keys, rows: Floats) -> None:
        """Sets rows (n, dim) of keys that are there once each. Workers only."""
    def newest_version(self, table: str, keys: Keys) -> int:
        """Of the shards that hold these keys; 0 if they have applied no gradient yet."""
    def save(self, directory: str) -> None:
        """Saves the job, to a directory of the master's host, and returns when that is done. What is pulled and not pushed holds
        it up."""
    def lease(self, timeout: Optional[float] = None) -> Optional[Minibatch]:
        """The next minibatch, once there is one; None when the job has no more work. Raises Timeout: with a window also, and at
        once, if there is nothing more before what this program has drawn is pushed or given back."""
    def settle(self) -> None:
        """Waits until the shards have acknowledged what this program has pushed: what it pulls then is computed on it."""
    def fail_job(self, message: str) -> None:
        """Ends the job, which fails with this: its data or its model are wrong, and no other worker would get any further."""
    def stop_job(self) -> None:
        """Of an owner: asks the master to save and end the job, and returns at once."""
    def give_back_undrawn(self) -> None:
        """Gives back the minibatch that is asked for ahead of lease(), for when that will not be called for a while."""
    def close(self, timeout: Optional[float] = None) -> bool:
        """Leaves the job: what is leased is given back, what is pushed arrives. Whether that is done by then."""

class Records:
    """A decoded minibatch. Its arrays are views, without a copy."""

    examples: int
    skipped: int
    numeric: Floats
    labels: Optional[Floats]
    records: npt.NDArray[np.uint64]
    def ids(self, feature: int) -> Tuple[Any, Ints, Optional[Floats]]:
        """Of the i-th categorical feature: keys, int64 or an array or list of bytes; offsets (examples + 1,); weights."""

class Reading:
    """A minibatch that is being read."""

    def wait(self) -> Records:
        """Raises BadInput naming file and line of a bad record."""

class Reader:
    """Reads minibatches on another thread, in the order in which they are asked for."""

    def start(self, epoch: int, number: int) -> Reading: ...

class JobFile:
    """A job file whose model is a Python module."""

    path: str
    name: str
    seed: int
    evaluates: bool
    version: str
    run: int
    python: str
    python_path: str
    model: Dict[str, Any]
    numeric: List[str]
    categorical: List[Tuple[str, str, int, bool]]
    batch_size: int
    epochs: int
    threads: int
    prefetch: int
    signature: List[str]
    @staticmethod
    def read(path: str, set: Sequence[str] = ()) -> JobFile: ...
    @staticmethod
    def of_master(master: str = "", job_dir: str = "", secret_file: str = "", insecure: bool = False,
                  connect_timeout: float = 20, timeout: float = 60, set: Sequence[str] = ()) -> JobFile:
        """The one that a master runs; asks for it, and joins nothing."""
    def place(self, key: str) -> str:
        """Where a key of [model] stands, for messages."""
    def dim(self, table: str, otherwise: int) -> int:
        """What [storage.tables] says, else `otherwise`."""
    def open_data(self) -> Tuple[Optional[Reader], Optional[Reader], int]:
        """Readers of the training and the test data, and the number of records."""
    def settled(self, tables: Sequence[TableSpec], parameters: Sequence[Tuple[str, Sequence[int], bool]]) -> List[str]:
        """Tables and parameters (name, shape, whether a buffer) as the job has them, a line each."""

class LocalJob:
    """A job whose master and shards are threads of this process."""

    address: str
    def __init__(self, job: str, output: str = "", resume: str = "") -> None: ...
    def wait_for_end(self, timeout: Optional[float] = None) -> bool:
        """Whether it has ended by then."""
    def close(self) -> None:
        """Asks it to end, and waits. Raises what it has failed with."""
    def report(self) -> str:
        """The report of a job that has ended, as JSON."""
