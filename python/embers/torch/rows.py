"""Rows of the tables that a step uses: pulled ahead or at the forward, and what backward adds to them."""
from __future__ import annotations

import warnings
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np
import torch

from .. import _core
from ..errors import UsageError
from . import keys as K

# Pulled rows are read-only arrays. They are only read here, and copied where they are not.
warnings.filterwarnings("ignore", message="The given NumPy array is not writ", module=r"embers\.torch")


_NO_ROWS = np.zeros((0, 0), np.float32)


class TableUse:
    """A table as the layers of a model use it."""

    def __init__(self, name: str, dim: int, kind: str, padding: Sequence[Optional[Union[int, str]]],
                 tokens: Optional[int] = None):
        self.name = name
        self.dim = dim
        self.kind = kind
        self.tokens = tokens  # of a host embedding: keys are below
        # Not pulled ahead, if all layers on the table agree on it.
        self.padding = padding[0] if len(set(padding)) == 1 else None


class Lookup(NamedTuple):
    """A layer's question for rows."""

    table: TableUse
    ids: Any  # as the layer was given them
    normal: K.Ids
    padding: Any


class Given(NamedTuple):
    """Ids that were normalized already, for StepRows.announce()."""

    ids: Any
    normal: K.Ids
    columns: Optional["Columns"] = None  # that they are one of


class Columns:
    """One id of each of several tables of the same dim in every example, as most click logs have them: looked up by a few
    calls for all tables, where the general way takes several for each table."""

    def __init__(self, tables: Sequence[str], dim: int, ids: List[K.FlatKeys]):
        self.tables = tables
        self.dim = dim
        self.ids = ids


class ColumnRows:
    """Where the rows of Columns are: places[c, i] in tables[c].rows."""

    def __init__(self, tables: List["TableRows"], places: np.ndarray):
        self.tables = tables
        self.places = places

    def gather(self) -> torch.Tensor:
        """(n, columns * dim)"""
        out = torch.empty((self.places.shape[1], len(self.tables) * self.tables[0].table.dim))
        _core.gather_columns([t.array for t in self.tables], self.places, out.numpy())
        return out

    def add(self, gradient: torch.Tensor) -> None:
        has_rows = gradient.stride(1) == 1 and gradient.stride(0) >= gradient.shape[1]  # what is expanded has none
        _core.add_columns(self._gradients(), self.places, (gradient if has_rows else gradient.contiguous()).numpy())

    def _gradients(self) -> List[np.ndarray]:
        """Of each table. Those that are not there yet are made in one piece of memory."""
        new = [t for t in self.tables if t.gradient_array is None]
        if new:
            zeros, begin = np.zeros((sum(len(t.array) for t in new), new[0].table.dim), np.float32), 0
            for table in new:
                end = begin + len(table.array)
                table.gradient_array, begin = zeros[begin:end], end
        return [t.gradient_array for t in self.tables if t.gradient_array is not None]


class TableRows:
    """Unique keys of one table, their rows, and the gradient that backward adds up. Grows when a later lookup has other
    keys; places of earlier keys stay."""

    def __init__(self, table: TableUse, is_of_columns: bool = False):
        self.table = table
        self.is_of_columns = is_of_columns
        self.keys: K.FlatKeys = []
        self.array: np.ndarray = _NO_ROWS  # float32, (keys, dim); shorter until they are pulled
        self.gradient_array: Optional[np.ndarray] = None  # of them; made when it is first added to
        self._is_own = False
        self._index: Any = None  # to find keys by; made when it is needed

    def places(self, keys: K.FlatKeys) -> torch.Tensor:
        """Of these unique keys, int64. Keys that were not there are added."""
        if len(self.keys) == 0:
            self.keys = keys
            return torch.arange(len(keys))
        places = self._find(keys)
        new = places < 0
        if new.any():
            places[new] = np.arange(len(self.keys), len(self.keys) + int(new.sum()))
            self.keys = K.concatenate([self.keys, K.take(keys, new)])
            self._index = None
        return torch.from_numpy(places)

    def _find(self, keys: K.FlatKeys) -> np.ndarray:
        """The place of each key, -1 for those that are not there."""
        if isinstance(self.keys, np.ndarray) and self.keys.dtype.kind == "i":
            if self._index is None:
                self._index = np.argsort(self.keys)
            places = self._index[np.searchsorted(self.keys, keys, sorter=self._index).clip(max=len(self.keys) - 1)]
            return np.where(self.keys[places] == keys, places, -1)
        if self._index is None:
            self._index = {_bytes(key): i for i, key in enumerate(self.keys)}
        return np.fromiter((self._index.get(_bytes(key), -1) for key in keys), np.int64, len(keys))

    @property
    def rows(self) -> torch.Tensor:
        """The rows, as torch has them."""
        return torch.from_numpy(self.array if len(self.array) else np.zeros((0, self.table.dim), np.float32))

    def append(self, rows: np.ndarray) -> None:
        """Rows of the keys that have none yet."""
        if len(self.array) == 0:
            self.array, self._is_own = rows, rows.flags.writeable
        elif len(rows) > 0:
            self.array, self._is_own = np.concatenate([self.array, rows]), True
        if self.gradient_array is not None:
            self.gradient_array = np.concatenate([self.gradient_array, np.zeros_like(rows)])

    def renorm(self, places: torch.Tensor, max_norm: float, norm_type: float) -> None:
        """Scales rows down to that norm, as torch does with those of its table that are looked up."""
        if not self._is_own:
            self.array, self._is_own = self.array.copy(), True
        torch.embedding_renorm_(self.rows, places, max_norm, norm_type)

    def gradient(self) -> torch.Tensor:
        if self.gradient_array is None:
            self.gradient_array = np.zeros((len(self.array), self.table.dim), np.float32)
        return torch.from_numpy(self.gradient_array)


def _given(ids: Any, table: TableUse) -> Given:
    if isinstance(ids, Given):
        return ids
    given = ids
    if table.tokens is not None and (unsigned := K.as_uint64(ids)) is not None:
        given = unsigned.clip(max=table.tokens - 1).astype(np.int64)
    normal = K.normalize(given, table.kind, table.name)
    if table.tokens is not None:  # an id outside is none to pull: the lookup says so, or takes the nearest
        normal = normal._replace(flat=np.clip(normal.flat, 0, table.tokens - 1))  # type: ignore[arg-type]
    return Given(ids, normal)


def _columns_of(given: Any) -> Optional[Columns]:
    """If it is one of these, and nothing else."""
    if isinstance(given, tuple) and not isinstance(given, Given):
        given = given[0] if len(given) == 1 else None
    return given.columns if isinstance(given, Given) else None


def _bytes(key: Union[str, bytes]) -> bytes:
    return key.encode() if isinstance(key, str) else bytes(key)


class Located:
    """Where a lookup finds its rows: place i of `positions` in pulled.rows, -1 for the padding id (if `padded`)."""

    __slots__ = ("pulled", "positions", "padded")

    def __init__(self, pulled: TableRows, positions: torch.Tensor, padded: bool):
        self.pulled = pulled
        self.positions = positions
        self.padded = padded


def _locate(pulled: TableRows, flat: K.FlatKeys, padding: Any) -> Located:
    """Finds or adds these keys, which may repeat."""
    wanted = None if padding is None else K.differs_from(flat, padding)
    if wanted is None or wanted.all():
        keys, inverse = K.unique(flat)
        return Located(pulled, _compose(pulled, keys, inverse), False)
    keys, inverse = K.unique(K.take(flat, wanted))
    positions = torch.full((len(wanted),), -1, dtype=torch.int64)
    positions[torch.from_numpy(wanted)] = _compose(pulled, keys, inverse)
    return Located(pulled, positions, True)


def _compose(pulled: TableRows, keys: K.FlatKeys, inverse: torch.Tensor) -> torch.Tensor:
    is_first = len(pulled.keys) == 0
    places = pulled.places(keys)
    return inverse if is_first else places[inverse]


class _Known:
    """A lookup whose rows are known: the keys that it asked for, and where their rows are."""

    def __init__(self, keys: K.FlatKeys, located: Located):
        self.keys = keys.copy() if isinstance(keys, np.ndarray) else list(keys)  # whoever gave them may fill them anew
        self.located = located

    def is_for(self, keys: K.FlatKeys) -> bool:
        if isinstance(keys, np.ndarray) and isinstance(self.keys, np.ndarray):
            return bool(np.array_equal(keys, self.keys))
        return isinstance(keys, list) and isinstance(self.keys, list) and self.keys == keys


class RowSource:
    """What layers ask for rows."""

    def locate(self, lookups: Sequence[Lookup]) -> List[Located]:
        raise NotImplementedError

    def locate_columns(self, columns: Columns) -> Optional[ColumnRows]:
        """None where only locate() will do."""
        return None


class StepRows(RowSource):
    """Rows of one minibatch in training. Keys that were announced come with the pull; others are pulled when a
    layer first asks for them."""

    def __init__(self, minibatch: Any, tables: Dict[str, TableUse]):
        self._minibatch = minibatch
        self._uses = tables
        self._tables: Dict[str, TableRows] = {}
        self._lists: List[Tuple[TableRows, int, int]] = []  # of the pull: keys [begin, end) of a table
        self._known: Dict[str, List[_Known]] = {}
        self._columns: List[Tuple[Columns, ColumnRows, _core.UniqueColumns]] = []
        self.is_stale = False  # an owner refused: the rest of the step counts for nothing

    def announce(self, keys: Dict[str, Any]) -> None:
        """Keys by table; several lookups of a table are a tuple of ids."""
        self._announce_columns(keys)
        for name, given in keys.items():
            if name in self._tables and self._tables[name].is_of_columns:
                continue
            table = self._uses.get(name)
            if table is None:
                raise UsageError(f"keys= names table '{name}', but the model has "
                                 f"{', '.join(sorted(self._uses)) or 'no table'}")
            lookups = given if isinstance(given, tuple) and not isinstance(given, Given) else (given,)
            self._add([Lookup(table, *_given(ids, table)[:2], table.padding) for ids in lookups])

    def pull(self) -> None:
        """Asks for what was announced, and for the dense parameters. Returns at once."""
        self._minibatch.pull(self._new_lists(), [(columns.tables, found) for columns, _, found in self._columns])

    def arrived(self) -> None:
        for _, rows, found in self._columns:
            for table, keys in zip(rows.tables, found.keys()):
                table.keys = keys
                self._lists.append((table, 0, len(keys)))
        self._append_rows(0)

    def locate(self, lookups: Sequence[Lookup]) -> List[Located]:
        found = [self._find(lookup) for lookup in lookups]
        missing: Dict[Tuple[str, Any], List[int]] = {}
        for i, located in enumerate(found):
            if located is None:
                missing.setdefault((lookups[i].table.name, lookups[i].padding), []).append(i)
        for which in missing.values():
            for i, located in zip(which, self._add([lookups[i] for i in which])):
                found[i] = located
        first = len(self._lists)
        lists = self._new_lists()
        if lists:
            if not self.is_stale and not self._minibatch.pull_more(lists):
                self.is_stale = True
            self._append_rows(first)
        return found  # type: ignore[return-value]

    def locate_columns(self, columns: Columns) -> Optional[ColumnRows]:
        for known, rows, _ in self._columns:
            if known is columns:
                return rows
        return None

    def gradients(self) -> List[Optional[np.ndarray]]:
        """Of each list of the pull, in order; None where backward reached none of the table."""
        return [None if pulled.gradient_array is None else pulled.gradient_array[begin:end]
                for pulled, begin, end in self._lists]

    def clear_gradients(self) -> None:
        for pulled in self._tables.values():
            pulled.gradient_array = None

    def _announce_columns(self, keys: Dict[str, Any]) -> None:
        """Those whose tables have no other lookup."""
        for columns in {id(c): c for c in map(_columns_of, keys.values()) if c is not None}.values():
            if any(_columns_of(keys.get(name)) is not columns or name in self._tables for name in columns.tables):
                continue
            found = _core.UniqueColumns(columns.ids)
            tables = [TableRows(self._uses[name], True) for name in columns.tables]
            self._tables.update(zip(columns.tables, tables))
            self._columns.append((columns, ColumnRows(tables, found.places), found))

    def _find(self, lookup: Lookup) -> Optional[Located]:
        if lookup.padding == lookup.table.padding:
            for known in self._known.get(lookup.table.name, ()):
                if known.is_for(lookup.normal.flat):
                    return known.located
        return None

    def _add(self, lookups: Sequence[Lookup]) -> List[Located]:
        """Lookups of one table, with one padding: one deduplication for all of them."""
        table, padding = lookups[0].table, lookups[0].padding
        pulled = self._tables.setdefault(table.name, TableRows(table))
        located = _locate(pulled, K.concatenate([l.normal.flat for l in lookups]), padding)
        parts = located.positions.split([len(l.normal.flat) for l in lookups])
        found = [Located(pulled, part, located.padded) for part in parts]
        if padding == table.padding:
            self._known.setdefault(table.name, []).extend(_Known(l.normal.flat, part) for l, part in zip(lookups, found))
        return found

    def _new_lists(self) -> List[Tuple[str, K.FlatKeys]]:
        """Keys that were added and not asked for yet."""
        lists = []
        ends = {id(pulled): end for pulled, _, end in self._lists}
        for name, pulled in self._tables.items():
            begin, end = ends.get(id(pulled), 0), len(pulled.keys)
            if begin < end:
                self._lists.append((pulled, begin, end))
                lists.append((name, pulled.keys[begin:end]))
        return lists

    def _append_rows(self, first: int) -> None:
        lists = self._lists[first:]
        # Of a stale minibatch nothing will count; the user's code goes on to its end, with zeros.
        rows = ([np.zeros((end - begin, pulled.table.dim), np.float32) for pulled, begin, end in lists] if self.is_stale
                else self._minibatch.rows(first))
        if len(rows) != len(lists):
            raise UsageError("an earlier lookup of this minibatch was interrupted, and its rows are not there: leave the loop, and begin "
                             "another one")
        for (pulled, _, _), its_rows in zip(lists, rows):
            pulled.append(its_rows)


class ReadRows(RowSource):
    """Rows as they are now; none is created. Nothing has gradients."""

    def __init__(self, lookup: Any):
        self._lookup = lookup  # (table, keys) -> rows

    def locate(self, lookups: Sequence[Lookup]) -> List[Located]:
        found = []
        for lookup in lookups:
            pulled = TableRows(lookup.table)
            found.append(_locate(pulled, lookup.normal.flat, lookup.padding))
            if len(pulled.keys):
                pulled.append(self._lookup(lookup.table.name, pulled.keys))
        return found
