"""A job in one process, in Python: what embers.loop and embers.torch use of embers._core, with rows in dicts and plain
SGD. Deterministic. Sessions may be used from several threads, and killed. Where embers._core is not built, it takes
its place (conftest.py)."""
import heapq
import re
import threading
import time
import zlib

import numpy as np

from embers.errors import Error, Timeout, UsageError
from embers.loop import Training


def unique(keys):
    """Unique keys in the order in which they first occur, and the place of each key among them."""
    found, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return found[order], place[inverse].astype(np.int64)


def unique_strings(keys):
    places, kept, inverse = {}, [], np.empty(len(keys), np.int64)
    for i, key in enumerate(keys):
        raw = key.encode() if isinstance(key, str) else bytes(key)
        if raw not in places:
            places[raw] = len(kept)
            kept.append(key)
        inverse[i] = places[raw]
    return (np.array(kept) if isinstance(keys, np.ndarray) else kept), inverse


class UniqueColumns:
    def __init__(self, columns):
        found = [unique(c) if isinstance(c, np.ndarray) and c.dtype.kind in "iu" else unique_strings(c) for c in columns]
        self._keys = [keys for keys, _ in found]
        self.places = np.stack([places for _, places in found]).astype(np.int32)

    def keys(self):
        return self._keys


def permuted(positions, n, keys):
    """As an array at a time; see embers.sampler.Permutation."""
    half = max(1, ((n - 1).bit_length() + 1) // 2)
    shift, mask = np.uint64(half), np.uint64((1 << half) - 1)

    def network(x):
        left, right = x >> shift, x & mask
        for key in keys:
            left, right = right, left ^ (_hash(right ^ np.uint64(key)) & mask)
        return left << shift | right

    out = network(positions.astype(np.uint64))
    while (outside := out >= n).any():
        out[outside] = network(out[outside])
    return out.astype(np.int64)


def _hash(x):
    x = (x ^ x >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ x >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return x ^ x >> np.uint64(31)


def gather_columns(tables, places, out):
    out[...] = np.concatenate([table[places[c]] for c, table in enumerate(tables)], 1)


def add_columns(tables, places, gradient):
    for c, part in enumerate(np.split(gradient, len(tables), 1)):
        np.add.at(tables[c], places[c], part)


def add_rows(sums, places, rows):
    np.add.at(sums, places.reshape(-1), rows.reshape(-1, rows.shape[-1]))


def tune_malloc():
    pass


def pair_products(fields, out, threads=1):
    together = np.concatenate(fields, 1)
    i, j = np.tril_indices(together.shape[1], -1)
    out[:, out.shape[1] - len(i):] = (together @ together.transpose(0, 2, 1))[:, i, j]


def pair_products_gradient(fields, gradient, out, threads=1):
    together = np.concatenate(fields, 1)
    i, j = np.tril_indices(together.shape[1], -1)
    half = np.zeros((len(together), together.shape[1], together.shape[1]), np.float32)
    half[:, i, j] = gradient[:, gradient.shape[1] - len(i):]
    of_all = (half + half.transpose(0, 2, 1)) @ together
    for part, of_part in zip(np.split(of_all, np.cumsum([f.shape[1] for f in fields])[:-1], 1), out):
        of_part[...] = part


def second_order(fields, numbers, factors, out, sums, second, threads=1):
    out[...] = np.concatenate([*fields, numbers[:, :, None] * factors], 1)
    sums[...] = out.sum(1)
    second[:, 0] = (np.square(sums) - np.square(out).sum(1)).sum(1) / 2


def second_order_gradient(of_fields, of_second, fields, sums, numbers, out, of_factors, threads=1):
    out[...] = of_fields + of_second[:, :, None] * (sums[:, None] - fields)
    of_factors[...] = (out[:, out.shape[1] - len(of_factors):] * numbers[:, :, None]).sum(0)


class TableSpec:
    def __init__(self, name, dim, keys="int64", initializer="", optimizer="", constraint="", partition="", rows=0, dtype=""):
        self.name, self.dim, self.keys = name, dim, keys
        self.initializer, self.optimizer, self.constraint = initializer, optimizer, constraint
        self.partition, self.rows, self.dtype = partition, rows, dtype


class ParameterSpec:
    def __init__(self, name, shape, buffer=False, initial=None):
        self.name, self.shape, self.buffer, self.initial = name, shape, buffer, initial


def line_of(spec):
    """What workers must agree on; also of the specs of embers._core."""
    if hasattr(spec, "dim"):
        return f"table {spec.name} {spec.dim} {spec.keys} {spec.initializer} {spec.optimizer} {spec.constraint}"
    return f"parameter {spec.name} {list(spec.shape)} {spec.buffer}"


class Mismatch(Error):
    pass


class Killed(BaseException):
    """What every call of a killed session raises, in the place of the process's end."""


class Cluster:
    """Master and owners. mode: "async", "bounded" (the same here) or "sync"; a version then takes grads_to_wait minibatches."""

    def __init__(self, mode="async", grads_to_wait=1, reduction="mean", learning_rate=0.1):
        self.mode, self.grads_to_wait, self.reduction, self.learning_rate = mode, grads_to_wait, reduction, learning_rate
        self.changed = threading.Condition()
        self.agreed = None  # the first worker's lines
        self.work = None
        self.rows, self.dims, self.parameters, self.specs, self.constraints = {}, {}, [], [], {}
        self.epoch, self.version, self.version_begin = 0, 0, 0
        self.free, self.leased, self.done, self.staged = [], {}, set(), {}
        self.counted = {}  # (epoch, number) -> how often it was applied
        self.sessions = []
        self.resets = 0
        self.pulls = 0  # requests
        self.unsettled_pulls = 0  # of these, that might overtake a push of the same program
        self.refuse = set()  # numbers whose begin() is refused, once
        self.alone = set()  # numbers that begin only when what has begun before them is done, as around a checkpoint

    def join(self, tables, parameters, data, work, window):
        with self.changed:
            lines = [line_of(spec) for spec in (*tables, *parameters)] + data + [str(sorted(work.items()))]
            if self.agreed is None:
                self.agreed, self.work = lines, work
                for t in tables:
                    self.dims[t.name] = t.dim
                    self.rows.setdefault(t.name, {})
                    self.constraints[t.name] = t.constraint
                self.specs = parameters
                self.parameters = [np.zeros(p.shape, np.float32) if p.initial is None else p.initial.copy().reshape(p.shape)
                                   for p in parameters]
                self._begin_epoch(max(1, self.epoch))
            elif lines != self.agreed:
                differs = [b for a, b in zip(self.agreed + [""] * len(lines), lines) if a != b]
                raise Mismatch(f"this worker differs from the others: {differs}")
            self.sessions.append(Session(self, window))
            return self.sessions[-1]

    def initial(self, table, key):
        raw = key if isinstance(key, (str, bytes)) else str(int(key))
        raw = raw.encode() if isinstance(raw, str) else raw
        random = np.random.default_rng(zlib.crc32(table.encode() + b"/" + raw))
        return random.uniform(-0.5, 0.5, self.dims[table]).astype(np.float32)

    def read(self, table, keys, create):
        rows = self.rows[table]
        out = np.empty((len(keys), self.dims[table]), np.float32)
        for i, key in enumerate(keys):
            key = _plain(key)
            row = rows.get(key)
            if row is None:
                row = self.initial(table, key)
                if create:
                    rows[key] = row
            out[i] = row
        out.flags.writeable = False
        return out

    # --- the master ------------------------------------------------------------------------------

    def _minibatches(self):
        whole, rest = divmod(self.work["records"], self.work["batch_size"])
        return whole + (rest > 0 and not self.work["drop_last"])

    def _begin_epoch(self, epoch):
        self.epoch = epoch
        self.done, self.staged = set(), {}
        self.free = list(range(self._minibatches())) if epoch <= self.work["epochs"] else []
        self.version_begin = self.version
        self.changed.notify_all()

    def is_over(self):
        return self.epoch > self.work["epochs"]

    def version_of(self, number):
        return self.version_begin + number // self.grads_to_wait if self.mode == "sync" else 0

    def choose(self, session):
        """The number that this session is leased next, or None."""
        mine = [n for n, s in self.leased.items() if s is session]
        if not self.free or len(mine) >= max(1, session.window):
            return None
        alive = [s for s in self.sessions if not s.is_closed]
        share = -(-self.grads_to_wait // len(alive))
        for number in sorted(self.free):
            version = self.version_of(number)
            if self.mode == "sync" and version > self.version:
                if session.window == 0 or sum(self.version_of(n) == version for n in mine) >= share:
                    continue
            return number
        return None

    def finish(self, number, push):
        """A push has arrived: the first one of a minibatch counts."""
        self.leased.pop(number, None)
        if number in self.done:
            return
        self.done.add(number)
        where = (self.epoch, number)
        self.counted[where] = self.counted.get(where, 0) + 1
        if self.mode == "sync":
            self.staged[number] = push
            while self._commit():
                pass
        else:
            self._apply([push])
        if len(self.done) == self._minibatches():
            self._begin_epoch(self.epoch + 1)
        self.changed.notify_all()

    def _commit(self):
        begin = (self.version - self.version_begin) * self.grads_to_wait
        members = range(begin, min(begin + self.grads_to_wait, self._minibatches()))
        if len(members) == 0 or not all(n in self.staged for n in members):
            return False
        self._apply([self.staged.pop(n) for n in members])
        self.version += 1
        return True

    def _apply(self, pushes):
        total = sum(p["examples"] for p in pushes)
        sums, dense = {}, [None] * len(self.specs)
        for p in pushes:
            weight = np.float32(p["examples"] / total if self.reduction == "mean" else 1)
            for (table, keys), grads in zip(p["lists"], p["rows"]):
                for key, grad in zip(keys, [] if grads is None else grads):
                    at = (table, _plain(key))
                    sums[at] = sums.get(at, np.float32(0)) + grad * weight
            for i, (spec, value) in enumerate(zip(self.specs, p["parameters"])):
                if value is None:
                    continue
                if spec.buffer:
                    dense[i] = value
                else:
                    dense[i] = (0 if dense[i] is None else dense[i]) + value * weight
        rate = np.float32(self.learning_rate)
        for (table, key), grad in sums.items():
            self.rows[table][key] = self._renormed(table, self.rows[table][key]) - rate * grad
        for i, (spec, value) in enumerate(zip(self.specs, dense)):
            if value is not None:
                self.parameters[i] = value if spec.buffer else self.parameters[i] - rate * value

    def _renormed(self, table, row):
        """The constraint "renorm": before an update a row is scaled down to a norm, as torch does at a lookup."""
        found = re.fullmatch(r'{ name = "renorm", max_norm = (\S+), norm_type = (\S+) }', self.constraints[table])
        if not found:
            return row
        limit, kind = float(found[1]), float(found[2])
        norm = np.linalg.norm(row, ord=kind)
        return row * np.float32(limit / (norm + 1e-7)) if norm > limit else row


class Session:
    def __init__(self, cluster, window):
        self.cluster, self.window = cluster, window
        self.is_closed = self.is_killed = False
        self.is_settled = True  # nothing was pushed since settle()
        self.begins_ahead = cluster.mode == "async"
        self.asked = set()  # numbers that it asked to begin, and has not stepped or given back: they hold up checkpoints

    def kill(self):
        """As SIGKILL: whoever is in a call of this session gets no answer, and what it holds is leased again."""
        self.is_killed = True
        self.close()

    def close(self):
        with self.cluster.changed:
            self.is_closed = True
            for number in [n for n, s in self.cluster.leased.items() if s is self]:
                del self.cluster.leased[number]
                heapq.heappush(self.cluster.free, number)
            self.cluster.changed.notify_all()

    def check(self):
        if self.is_killed:
            raise Killed()
        if self.is_closed:
            raise UsageError("the session is closed")

    def lease(self, timeout=None):
        c = self.cluster
        deadline = None if timeout is None else time.monotonic() + timeout
        with c.changed:
            while True:
                self.check()
                if c.is_over():
                    return None
                number = c.choose(self)
                if number is not None:
                    c.free.remove(number)
                    c.leased[number] = self
                    return Minibatch(self, number)
                if self in c.leased.values():
                    raise Timeout("there are no more before those that are drawn are pushed")
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    raise Timeout("no minibatch is free")
                c.changed.wait(left)

    def give_back_undrawn(self):
        pass

    def settle(self):
        self.is_settled = True

    def parameters(self):
        with self.cluster.changed:
            return [p.copy() for p in self.cluster.parameters]

    def lookup(self, table, keys):
        with self.cluster.changed:
            self.check()
            return self.cluster.read(table, keys, create=False)


class Minibatch:
    evaluate = False

    def __init__(self, session, number):
        self.session, self.number = session, number
        self.epoch, self.version = session.cluster.epoch, session.cluster.version_of(number)
        self.state = "leased"
        self.lists, self.arrays = [], []

    def _is_mine(self):
        c = self.session.cluster
        return c.epoch == self.epoch and c.leased.get(self.number) is self.session

    def _expect(self, *states):
        self.session.check()
        if self.state not in states:
            raise UsageError(f"minibatch {self.number} is {self.state}, not {' or '.join(states)}")

    def ask_to_begin(self):
        self._expect("leased")
        self.session.asked.add(self.number)

    def begin(self, timeout=None):
        c = self.session.cluster
        deadline = None if timeout is None else time.monotonic() + timeout
        with c.changed:
            self._expect("leased")
            if self.number in c.refuse:
                c.refuse.remove(self.number)
                return False
            while self.number in c.alone and any(n in c.leased for n in self.session.begun):
                if deadline is not None and time.monotonic() >= deadline:
                    return None
                c.changed.wait(timeout)
            while c.mode == "sync":
                self.session.check()
                if not self._is_mine():
                    return False
                if c.version == self.version:
                    break
                lower = [n for n in c.free if c.version_of(n) == c.version]
                behind = [m for m, s in c.leased.items() if s is self.session and m < self.number and m not in self.session.begun]
                if lower or behind:
                    c.resets += 1
                    return False
                if deadline is not None and time.monotonic() >= deadline:
                    return None
                c.changed.wait(timeout)
            self.state = "begun"
            self.session.begun.add(self.number)
            return True

    def pull(self, lists, columns=()):
        self._expect("begun")
        self.session.cluster.unsettled_pulls += not self.session.is_settled
        self.lists = [*lists, *(pair for tables, found in columns for pair in zip(tables, found.keys()))]
        self.state = "pulling"

    def wait(self):
        c = self.session.cluster
        with c.changed:
            self._expect("pulling")
            if not self._is_mine():
                return False
            c.pulls += 1
            self._read(self.lists)
            self.values = [p.copy() for p in c.parameters]
            self.state = "pulled"
            return True

    def pull_more(self, lists):
        c = self.session.cluster
        with c.changed:
            self._expect("pulled")
            if not self._is_mine() or (c.mode == "sync" and c.version != self.version):
                return False
            c.pulls += 1
            self._read(lists)
            self.lists += lists
            return True

    def _read(self, lists):
        for table, keys in lists:
            plain = [_plain(k) for k in keys]
            assert len(set(plain)) == len(plain), "keys of a pull must be unique"
            self.arrays.append(self.session.cluster.read(table, keys, create=True))

    def rows(self, first):
        self._expect("pulled")
        return self.arrays[first:]

    def parameter(self, i):
        self._expect("pulled")
        return self.values[i]

    def push(self, rows, parameters, *, examples, loss_sum=0.0, scores=None, labels=None, skipped=0):
        c = self.session.cluster
        with c.changed:
            self._expect("pulled")
            assert len(rows) == len(self.lists) and len(parameters) == len(c.specs)
            for (table, keys), grads in zip(self.lists, rows):
                assert grads is None or (grads.shape == (len(keys), c.dims[table]) and grads.dtype == np.float32)
            for spec, value in zip(c.specs, parameters):
                assert value is None or (value.shape == tuple(spec.shape) and value.dtype == np.float32)
            self.state = "over"
            self.session.asked.discard(self.number)
            self.session.is_settled = False
            if self._is_mine():
                c.finish(self.number, dict(rows=[None if r is None else r.copy() for r in rows], lists=self.lists,
                                           parameters=[None if v is None else v.copy() for v in parameters],
                                           examples=examples))

    def give_back(self):
        c = self.session.cluster
        with c.changed:
            if self.state == "over":
                return  # another one may have its number by now
            if self._is_mine():
                del c.leased[self.number]
                heapq.heappush(c.free, self.number)
                c.changed.notify_all()
            self.session.begun.discard(self.number)
            self.session.asked.discard(self.number)
            self.state = "over"


Session.begun = property(lambda self: self.__dict__.setdefault("_begun", set()))


def _plain(key):
    if isinstance(key, (bytes, np.bytes_)):
        return bytes(key)
    return str(key).encode() if isinstance(key, str) else int(key)


class FakeJob(Training):
    """A worker of the cluster."""

    def __init__(self, cluster):
        self.cluster = cluster

    def _join_worker(self, declaration, data, work, window):
        return self.cluster.join(declaration.tables, declaration.parameters, data, work, window)

    def _lookup(self, table, keys):
        if self._worker_session is not None:
            return self._worker_session.lookup(table, keys)
        return self.cluster.read(table, keys, create=False)
