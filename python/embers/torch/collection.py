"""Many EmbeddingBags at once, over jagged input."""
from __future__ import annotations

import collections
import copy
import dataclasses
from typing import Any, Deque, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import torch

from ..errors import BadInput
from ..initializers import Uniform
from . import keys as K
from .functions import MODES, Bags, GatherColumns, PoolAll, anchor
from .layers import to_bags
from .rows import Columns, Given
from .table import TableDefinition, TableLayer, TomlValue, check_keys, toml


@dataclasses.dataclass
class BagConfig:
    """A table of an EmbeddingBagCollection and the features that are looked up in it. The first five are those of
    TorchRec's EmbeddingBagConfig."""

    name: str
    embedding_dim: int
    num_embeddings: Optional[int] = None  # no bound
    feature_names: Sequence[str] = ()
    pooling: str = "sum"  # or "mean", "max"
    keys: str = "int64"  # or "bytes"
    initializer: TomlValue = None
    optimizer: TomlValue = None
    constraint: TomlValue = None


class Jagged:
    """Ids of several features, as TorchRec's KeyedJaggedTensor: `values` has the ids of the first feature's bags, one
    bag after the other, then those of the second; lengths[f * bags + b] is the number of ids in bag b of feature f.

    values: int64 tensor, or list or array of strings. lengths, or offsets: int64. weights: float32 for each id."""

    def __init__(self, keys: Sequence[str], values: Any, lengths: Any = None, *, offsets: Any = None,
                 weights: Optional[torch.Tensor] = None):
        if (lengths is None) == (offsets is None):
            raise BadInput("Jagged takes lengths or offsets")
        self._keys = list(keys)
        self._values = values
        if lengths is None:
            offsets = torch.as_tensor(offsets, dtype=torch.int64)
            lengths = offsets[1:] - offsets[:-1]
        self._lengths = torch.as_tensor(lengths, dtype=torch.int64)
        self._weights = weights
        if len(self._keys) == 0 or len(self._lengths) % len(self._keys) != 0:
            raise BadInput(f"{len(self._lengths)} lengths cannot be those of {len(self._keys)} features")
        if weights is not None and weights.numel() != len(values):
            raise BadInput(f"{weights.numel()} weights cannot be those of {len(values)} values")
        if (self._lengths < 0).any() or int(self._lengths.sum()) != len(values):
            raise BadInput(f"lengths must not be negative, and add up to the {len(values)} values")

    def keys(self) -> List[str]:
        return self._keys

    def values(self) -> Any:
        return self._values

    def lengths(self) -> torch.Tensor:
        return self._lengths

    def weights_or_none(self) -> Optional[torch.Tensor]:
        return self._weights

    def stride(self) -> int:
        """The number of bags of each feature."""
        return len(self._lengths) // len(self._keys)


class Pooled(Mapping[str, torch.Tensor]):
    """One vector for each feature and bag, as TorchRec's KeyedTensor: pooled["user"] is (bags, dim), values() is all of
    them side by side, (bags, sum of dims)."""

    def __init__(self, names: List[str], dims: List[int], values: torch.Tensor):
        self._names = names
        self._dims = dims
        self._values = values
        self._places = {name: (sum(dims[:i]), dims[i]) for i, name in enumerate(names)}

    def __getitem__(self, name: str) -> torch.Tensor:
        begin, dim = self._places[name]
        return self._values[:, begin:begin + dim]

    def __iter__(self) -> Any:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def keys(self) -> List[str]:  # type: ignore[override]
        return self._names

    def values(self) -> torch.Tensor:  # type: ignore[override]
        return self._values

    def to_dict(self) -> Dict[str, torch.Tensor]:
        return {name: self[name] for name in self._names}


class _Feature(NamedTuple):
    name: str
    output: str  # "feature", or "feature@table" where several tables look the feature up
    table: BagConfig


class _Ids:
    """Ids of a feature, in bags; `lengths` None: one in each."""

    __slots__ = ("given", "normal", "_lengths", "weights")

    def __init__(self, given: Any, normal: K.Ids, lengths: Optional[torch.Tensor], weights: Optional[torch.Tensor] = None):
        self.given = given
        self.normal = normal
        self._lengths = lengths
        self.weights = weights

    @property
    def is_single(self) -> bool:
        return self._lengths is None

    @property
    def bags(self) -> int:
        return len(self.normal.flat) if self._lengths is None else len(self._lengths)

    @property
    def lengths(self) -> torch.Tensor:
        return torch.ones(self.bags, dtype=torch.int64) if self._lengths is None else self._lengths


class _Input(Dict[str, _Ids]):
    """Ids of all features; `columns` if each has one id in each bag, and a table of its own."""

    columns: Optional[Columns] = None


class _Unchanged:
    """A part of an input, to tell whether it has been changed since: its memory may be somebody else's."""

    def __init__(self, part: Any):
        self._part = part
        self._copy: Any = None  # of what may be changed in place
        if isinstance(part, torch.Tensor):
            self._copy = part.clone()
        elif isinstance(part, np.ndarray):
            self._copy = part.copy()
        elif isinstance(part, (list, tuple)):
            self._copy = copy.deepcopy(part)

    def is_still(self, part: Any) -> bool:
        if part is not self._part:
            return False
        if isinstance(part, torch.Tensor):
            return torch.equal(part, self._copy)
        if isinstance(part, np.ndarray):
            return np.array_equal(part, self._copy)
        try:
            return self._copy is None or bool(part == self._copy)
        except (ValueError, RuntimeError):  # lists of arrays or tensors
            return False


class _UnchangedParts:
    """The same for all parts of an input: by one call for tensors of one shape."""

    def __init__(self, parts: List[Any]):
        self._parts = parts
        self._together = torch.cat(parts) if _are_alike(parts) else None
        self._each = [_Unchanged(part) for part in parts] if self._together is None else []

    def are_still(self, parts: List[Any]) -> bool:
        if len(parts) != len(self._parts):
            return False
        if self._together is None:
            return all(known.is_still(part) for known, part in zip(self._each, parts))
        return (all(part is known for part, known in zip(parts, self._parts)) and _are_alike(parts)
                and torch.equal(torch.cat(parts), self._together))


def _are_alike(parts: List[Any]) -> bool:
    """Whether these are tensors of one shape and type."""
    first = parts[0]
    if type(first) is not torch.Tensor or first.dim() == 0:
        return False
    shape, dtype, device = first.shape, first.dtype, first.device
    return all(type(p) is torch.Tensor and p.shape == shape and p.dtype is dtype and p.device == device for p in parts)


class _Announced(NamedTuple):
    """An input that keys() was given."""

    features: Any
    parts: _UnchangedParts
    found: _Input


class _Configs(List[BagConfig]):
    """A list, which TorchRec's models get by a property or by a call, depending on their age."""

    def __call__(self) -> "_Configs":
        return self


class EmbeddingBagCollection(TableLayer):
    """TorchRec's EmbeddingBagCollection over tables of the job, which have a row for every key.

    tables: BagConfig, or TorchRec's EmbeddingBagConfig. is_weighted: sums are weighted by the input's weights.

    forward(features): Jagged or TorchRec's KeyedJaggedTensor; or a dict with the ids of each feature: one-dimensional
    (one id in each bag), two-dimensional, or a list of lists. Or all ids of a job file's batch, batch.ids, which have weights
    where the job file says so. Returns Pooled. All its tables are looked up in one pull.

    Raises BadInput for weights of a table whose pooling is not "sum", and for weights of a job file without is_weighted.
    """

    def __init__(self, tables: Sequence[Any], is_weighted: bool = False):
        super().__init__()
        self._configs = [_config(table) for table in tables]
        self._is_weighted = is_weighted
        self._anchor = [anchor()]
        # What keys() has found and forward() will be asked for: the same objects, so that nothing is looked up twice.
        self._announced: Deque[_Announced] = collections.deque(maxlen=4)
        users: Dict[str, int] = {}
        for config in self._configs:
            for name in config.feature_names:
                users[name] = users.get(name, 0) + 1
        self._features = [
            _Feature(name, name if users[name] == 1 else f"{name}@{config.name}", config)
            for config in self._configs for name in config.feature_names
        ]
        if not self._features:
            raise BadInput("EmbeddingBagCollection needs tables with feature_names")
        self._can_have_columns = (len({f.table.name for f in self._features}) == len(self._features)
                                  and len({f.table.embedding_dim for f in self._features}) == 1)

    def definitions(self) -> List[TableDefinition]:
        return [TableDefinition(c.name, c.embedding_dim, c.keys, toml(c.initializer), toml(c.optimizer),
                                toml(c.constraint)) for c in self._configs]

    @property
    def embedding_bag_configs(self) -> List[BagConfig]:
        """Its tables, as TorchRec's models want to know them."""
        return _Configs(self._configs)

    def is_weighted(self) -> bool:
        return self._is_weighted

    def keys(self, features: Any) -> Dict[str, Any]:
        """The ids of each table, for job.train(loader, keys=...): lambda batch: model.bags.keys(batch.features)."""
        given = self._of_features(features)
        self._announced.append(_Announced(features, _UnchangedParts(self._parts(features)), given))
        ids: Dict[str, Any] = {}
        for feature in self._features:
            of = given[feature.name]
            ids[feature.table.name] = ids.get(feature.table.name, ()) + (Given(of.given, of.normal, given.columns),)
        return ids

    def forward(self, features: Any) -> Pooled:
        given = self._of_features(features)
        dims = [f.table.embedding_dim for f in self._features]
        out = self._of_columns(given)
        if out is None:
            out = self._pooled(given, dims)
        device = next((ids.normal.device for ids in given.values() if ids.normal.device is not None), None)
        return Pooled([f.output for f in self._features], dims, out if device is None else out.to(device))

    def _of_columns(self, given: _Input) -> Optional[torch.Tensor]:
        rows = None if given.columns is None else self.locate_columns(given.columns)
        return None if rows is None else GatherColumns.apply(self._anchor[0], rows)

    def _pooled(self, given: _Input, dims: List[int]) -> torch.Tensor:
        lists: List[Tuple[Bags, int]] = []
        weights: List[Optional[torch.Tensor]] = []
        lookups = [(f.table.name, given[f.name].given, given[f.name].normal, None) for f in self._features]
        for feature, located in zip(self._features, self.locate(*lookups)):
            ids = given[feature.name]
            if self._is_weighted and ids.weights is not None and feature.table.pooling != "sum":
                raise BadInput(f"feature '{feature.name}' has weights, which go with pooling=\"sum\", but table "
                               f"'{feature.table.name}' has pooling=\"{feature.table.pooling}\"")
            lengths = ids.lengths
            bags, weight = to_bags(located, torch.cumsum(lengths, 0) - lengths, lengths,
                                   ids.weights if self._is_weighted else None)
            lists.append((bags, MODES[feature.table.pooling]))
            weights.append(weight)
        return PoolAll.apply(self._anchor[0], lists, dims, *weights)

    def _parts(self, features: Any) -> List[Any]:
        """What of the input decides what is looked up."""
        if isinstance(features, Mapping):
            return [features.get(feature.name) for feature in self._features]
        names = ("values", "lengths", "weights_or_none")
        return [getattr(features, name)() for name in names if hasattr(features, name)]

    def _of_features(self, features: Any) -> _Input:
        for i, announced in enumerate(self._announced):
            if announced.features is features:
                del self._announced[i]
                if announced.parts.are_still(self._parts(features)):
                    return announced.found
                break
        kinds = {f.name: f.table for f in self._features}
        found = _of_dict(features, kinds) if isinstance(features, Mapping) else _of_jagged(features, kinds)
        for name, ids in found.items():
            if isinstance(ids.given, K.FeatureIds) and ids.weights is not None and not self._is_weighted:
                raise BadInput(f"feature '{name}' has weights in the job file: EmbeddingBagCollection(..., is_weighted=True) "
                               "uses them")
        missing = [f.name for f in self._features if f.name not in found]
        if missing:
            raise BadInput(f"the input has no feature '{missing[0]}', which table '{kinds[missing[0]].name}' looks up")
        if len({ids.bags for ids in found.values()}) > 1:
            raise BadInput("features differ in their number of bags: "
                           + ", ".join(f"{name} has {ids.bags}" for name, ids in found.items()))
        if (self._can_have_columns and found[self._features[0].name].bags > 0
                and all(ids.is_single and ids.weights is None for ids in found.values())):
            found.columns = Columns([f.table.name for f in self._features], self._features[0].table.embedding_dim,
                                    [found[f.name].normal.flat for f in self._features])
        return found


def _config(table: Any) -> BagConfig:
    if isinstance(table, BagConfig):
        config = table
    else:
        pooling = getattr(table.pooling, "name", table.pooling)  # TorchRec's is an enum
        low, high = getattr(table, "weight_init_min", None), getattr(table, "weight_init_max", None)
        if (low is None) != (high is None):
            raise BadInput(f"table '{table.name}': weight_init_min and weight_init_max go together, but one is not given")
        config = BagConfig(table.name, table.embedding_dim, table.num_embeddings, list(table.feature_names),
                           str(pooling).lower(), initializer=None if low is None or high is None else Uniform(low, high))
    if config.pooling not in MODES:
        raise BadInput(f'table \'{config.name}\': pooling="{config.pooling}" is none of "sum", "mean" and "max"')
    return dataclasses.replace(config, keys=check_keys(config.keys))


def _of_dict(features: Mapping[str, Any], kinds: Dict[str, BagConfig]) -> _Input:
    found = _Input()
    for name, table in kinds.items():
        if name not in features:
            continue
        ids = features[name]
        normal = K.normalize(ids, table.keys, table.name)
        lengths = None
        if normal.lengths is not None:
            lengths = None if (normal.lengths == 1).all() else torch.from_numpy(normal.lengths)
        elif len(normal.shape) == 2:
            lengths = None if normal.shape[1] == 1 else torch.full((normal.shape[0],), normal.shape[1])
        elif len(normal.shape) != 1:
            raise BadInput(f"feature '{name}' has shape {normal.shape}: it must have one or two dimensions")
        found[name] = _Ids(ids, normal, lengths, ids.weights if isinstance(ids, K.FeatureIds) else None)
    return found


def _of_jagged(features: Any, kinds: Dict[str, BagConfig]) -> _Input:
    if not all(hasattr(features, name) for name in ("keys", "values", "lengths")):
        raise BadInput(f"EmbeddingBagCollection takes Jagged, a KeyedJaggedTensor or a dict, not {type(features).__name__}")
    names = list(features.keys())
    values, lengths = features.values(), features.lengths().cpu().view(len(names), -1)
    weights = features.weights_or_none() if hasattr(features, "weights_or_none") else None
    ends = lengths.sum(1).cumsum(0).tolist()
    found = _Input()
    is_single = bool((lengths == 1).all())
    for name, begin, end, length in zip(names, [0, *ends], ends, lengths):
        if name not in kinds:
            continue
        ids = values[begin:end]
        table = kinds[name]
        found[name] = _Ids(ids, K.normalize(ids, table.keys, table.name), None if is_single else length,
                           None if weights is None else weights[begin:end].to("cpu", torch.float32))
    return found
