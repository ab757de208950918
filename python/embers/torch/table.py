"""What layers say about their tables, and how a layer finds its rows."""
from __future__ import annotations

from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Tuple, Union

import torch
from torch import nn

from ..constraints import Renorm
from ..errors import BadInput, UsageError
from ..toml import text_of
from .rows import ColumnRows, Columns, Located, Lookup, RowSource, TableUse
from . import keys as K

TomlValue = Union[None, str, Any]  # TOML text, or an object with toml()


class TableDefinition(NamedTuple):
    """A table as a layer defines it; "" where the job decides."""

    name: str
    dim: int
    keys: str  # "int64" or "bytes"
    initializer: str = ""
    optimizer: str = ""
    constraint: str = ""
    partition: str = ""
    rows: int = 0  # a layer's table has any number


def toml(value: TomlValue) -> str:
    """An initializer, update rule or constraint as a job file would have it."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value if value == "" or value.lstrip()[:1] in '{"\'' else f'"{value}"'
    if not isinstance(value, Mapping) and not hasattr(value, "toml"):
        raise BadInput(f"{value!r} is no initializer, update rule or constraint: give one of this package, such as embers.Adam(1e-3), or "
                       "what a job file says")
    return text_of(value)


def check_keys(keys: str) -> str:
    if keys in ("int64", "bytes"):
        return keys
    if keys in ("string", "str"):
        return "bytes"
    raise BadInput(f'keys="{keys}" is no kind of keys: give "int64", or "bytes" for strings')


def max_norm_constraint(max_norm: Optional[float], norm_type: float, constraint: TomlValue, table: str) -> str:
    """torch's max_norm renormalizes the rows of its table that are looked up. Here a lookup renormalizes what was pulled,
    and owners do the same before they change a row."""
    if max_norm is None:
        return toml(constraint)
    if constraint is not None:
        raise BadInput(f"{table}: max_norm is a constraint of its own: give max_norm or constraint, not both")
    if not max_norm > 0 or not norm_type > 0:
        raise BadInput(f"{table}: max_norm={max_norm:g} and norm_type={norm_type:g} must be above 0")
    return Renorm(float(max_norm), float(norm_type)).toml()


class TableLayer(nn.Module):
    """A layer whose rows live in a job's tables. et.Optimizer names its tables and gives it rows."""

    _source: Optional[RowSource] = None
    _uses: Dict[str, TableUse] = {}
    _anchor: List[torch.Tensor]  # makes autograd call the lookup's backward(); in a list: no parameter of the module

    def definitions(self) -> List[TableDefinition]:
        """Of its tables; a name is "" until the layer has a place in a model."""
        raise NotImplementedError

    def paddings(self) -> Dict[str, Any]:
        """The padding id of each of its tables, or None."""
        return {d.name: None for d in self.definitions()}

    def name_tables(self, path: str) -> None:
        """`path` is the layer's in the model: the name of a table that has none."""

    def requires_grad_(self, requires_grad: bool = True) -> "TableLayer":
        """Whether its lookups have gradients, so that its rows change."""
        super().requires_grad_(requires_grad)
        self._anchor[0].requires_grad_(requires_grad)
        return self

    def bind(self, uses: Dict[str, TableUse], source: Optional[RowSource]) -> None:
        object.__setattr__(self, "_uses", uses)
        object.__setattr__(self, "_source", source)

    def __getstate__(self) -> Dict[str, Any]:  # a copy of a model belongs to no job
        state = dict(self.__dict__)
        state.pop("_source", None)
        state.pop("_uses", None)
        return state

    def locate(self, *lookups: Tuple[str, Any, K.Ids, Any]) -> List[Located]:
        """Of lookups (table, ids as they were given, the same normalized, padding id); all in one pull."""
        return self._rows(lookups[0][0]).locate([Lookup(self._uses[table], *rest) for table, *rest in lookups])

    def locate_columns(self, columns: Columns) -> Optional[ColumnRows]:
        """Their rows, if they were announced; None: locate() each of them."""
        return self._rows(columns.tables[0]).locate_columns(columns)

    def _rows(self, table: str) -> RowSource:
        if not self._uses:
            raise UsageError(f"{type(self).__name__} has no rows yet: give the model to et.Optimizer(model, job, ...)")
        if self._source is None:
            raise UsageError(
                f"table '{table}' is looked up outside a minibatch: rows are there within the loop over "
                "job.train(loader), in job.evaluate(model, loader), and within `with job.reading(model):`")
        return self._source


def collect(model: nn.Module) -> Tuple[List[TableLayer], List[TableDefinition], Dict[str, TableUse]]:
    """The table layers of a model, and its tables in the order of the model. Layers that name the same table
    share it, and must agree on it."""
    layers: List[TableLayer] = []
    tables: Dict[str, TableDefinition] = {}
    users: Dict[str, str] = {}
    paddings: Dict[str, List[Any]] = {}
    for path, module in model.named_modules():
        if not isinstance(module, TableLayer):
            continue
        layers.append(module)
        module.name_tables(path)
        for definition in module.definitions():
            other = tables.setdefault(definition.name, definition)
            user = users.setdefault(definition.name, path)
            tables[definition.name] = _merged(other, definition, user, path)
        for name, padding in module.paddings().items():
            paddings.setdefault(name, []).append(padding)
    uses = {d.name: TableUse(d.name, d.dim, d.keys, paddings[d.name]) for d in tables.values()}
    return layers, list(tables.values()), uses


def _merged(one: TableDefinition, two: TableDefinition, first: str, second: str) -> TableDefinition:
    merged = {}
    for field in TableDefinition._fields:
        a, b = getattr(one, field), getattr(two, field)
        if a != b and a != "" and b != "":
            raise BadInput(f"table '{one.name}' is defined twice: {field} is {a} in layer '{first}' and {b} in layer "
                           f"'{second}'. Layers that share a table must agree; others need a name of their own (table=)")
        merged[field] = a or b
    return TableDefinition(**merged)


def bind_all(layers: Iterable[TableLayer], uses: Dict[str, TableUse], source: Optional[RowSource]) -> None:
    for layer in layers:
        layer.bind(uses, source)
