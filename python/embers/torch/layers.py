"""torch.nn.Embedding and EmbeddingBag over tables of a job."""
from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple, Union

import numpy as np
import torch

from ..arguments import is_integer
from ..errors import BadInput
from . import keys as K
from .functions import MODES, Bags, Gather, Pool, anchor
from .rows import Located
from .table import TableDefinition, TableLayer, TomlValue, check_keys, max_norm_constraint, toml

Key = Union[int, str, bytes]


class _OneTable(TableLayer):
    def __init__(self, num_embeddings: Optional[int], embedding_dim: int, padding_idx: Optional[Key],
                 max_norm: Optional[float], norm_type: float, scale_grad_by_freq: bool, table: Optional[str], keys: str,
                 initializer: TomlValue, optimizer: TomlValue, constraint: TomlValue):
        super().__init__()
        what = f"{type(self).__name__}({table or ''})"
        if not is_integer(embedding_dim) or embedding_dim < 1:
            raise BadInput(f"{what}: embedding_dim={embedding_dim!r} must be a number of floats, at least 1")
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.keys = check_keys(keys)
        if padding_idx is not None and is_integer(padding_idx) != (self.keys == "int64"):
            raise BadInput(f"{what}: padding_idx={padding_idx!r} is no key of a table with {self.keys} keys")
        if padding_idx is not None and not is_integer(padding_idx) and not isinstance(padding_idx, (str, bytes)):
            raise BadInput(f"{what}: padding_idx={padding_idx!r} must be a key: str or bytes")
        self.padding_idx: Optional[Key] = int(str(padding_idx)) if isinstance(padding_idx, np.integer) else padding_idx
        self.max_norm = None if max_norm is None else float(max_norm)
        self.norm_type = float(norm_type)
        self.scale_grad_by_freq = scale_grad_by_freq
        self.table = table or ""
        self._rules = (toml(initializer), toml(optimizer),
                       max_norm_constraint(self.max_norm, self.norm_type, constraint, what))
        self._anchor = [anchor()]

    def definitions(self) -> List[TableDefinition]:
        return [TableDefinition(self.table, self.embedding_dim, self.keys, *self._rules)]

    def paddings(self) -> Dict[str, Any]:
        return {self.table: self.padding_idx}

    def name_tables(self, path: str) -> None:
        self.table = self.table or path or "embedding"

    def _locate(self, ids: Any, normal: K.Ids) -> Located:
        located, = self.locate((self.table, ids, normal, self.padding_idx))
        if self.max_norm is not None:
            used = located.positions[located.positions >= 0] if located.padded else located.positions
            located.pulled.renorm(used, self.max_norm, self.norm_type)
        return located

    def extra_repr(self) -> str:
        shown = [f"{self.embedding_dim}", f"table={self.table!r}", f"keys={self.keys!r}"]
        for name in ("padding_idx", "max_norm", "mode"):
            if getattr(self, name, None) is not None:
                shown.append(f"{name}={getattr(self, name)!r}")
        return ", ".join(shown)


class Embedding(_OneTable):
    """torch.nn.Embedding over a table of the job, which has a row for every key.

    Arguments are torch's, and besides:

    table: name of the table; by default the layer's place in the model ("net.user"). Layers that name the same
        table share it.
    keys: "int64", or "bytes" for string keys.
    initializer, optimizer, constraint: as in a job file, or the objects of this package (embers.initializers.Normal(0.0, 0.01));
        by default the job's.

    num_embeddings is no bound, and may be None. `sparse` makes no difference: gradients are always by row. The row
    of padding_idx is zeros. max_norm keeps the rows of the table to that L2 norm.

    forward(ids): an integer tensor or array of any shape, or, with string keys, a list or array of strings.
    Returns float32, (*shape of ids, embedding_dim).
    Raises BadInput for keys of the wrong type, UsageError outside a minibatch.
    """

    def __init__(self, num_embeddings: Optional[int], embedding_dim: int, padding_idx: Optional[Key] = None,
                 max_norm: Optional[float] = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False,
                 sparse: bool = True, *, table: Optional[str] = None, keys: str = "int64",
                 initializer: TomlValue = None, optimizer: TomlValue = None, constraint: TomlValue = None):
        super().__init__(num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq, table, keys,
                         initializer, optimizer, constraint)

    def forward(self, ids: Any) -> torch.Tensor:
        normal = K.normalize(ids, self.keys, self.table)
        if normal.lengths is not None:
            normal = self._rectangle(normal)
        located = self._locate(ids, normal)
        out = Gather.apply(self._anchor[0], located, self.scale_grad_by_freq)
        out = out.view(*normal.shape, self.embedding_dim)
        return out if normal.device is None else out.to(normal.device)


    def _rectangle(self, normal: K.Ids) -> K.Ids:
        """(examples,) with one id in each, or (examples, ids)."""
        lengths = normal.lengths
        assert lengths is not None
        length = int(lengths[0]) if len(lengths) else 1
        if (lengths != length).any():
            raise BadInput(f"table '{self.table}': ids are lists of different lengths: pad them, or use EmbeddingBag")
        return normal._replace(shape=(len(lengths),) if length == 1 else (len(lengths), length), lengths=None)


class EmbeddingBag(_OneTable):
    """torch.nn.EmbeddingBag over a table of the job, which has a row for every key.

    Arguments are torch's and those of Embedding.

    forward(input, offsets=None, per_sample_weights=None): as torch's. `input` is two-dimensional, one bag a row, or
    one-dimensional with the first place of each bag in `offsets`. It is an integer tensor or array, or, with string
    keys, a list or array of strings; a list of lists is one bag each, of any length.
    Returns float32, (bags, embedding_dim); zeros for an empty bag.
    """

    def __init__(self, num_embeddings: Optional[int], embedding_dim: int, max_norm: Optional[float] = None,
                 norm_type: float = 2.0, scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = True,
                 include_last_offset: bool = False, padding_idx: Optional[Key] = None, *, table: Optional[str] = None,
                 keys: str = "int64", initializer: TomlValue = None, optimizer: TomlValue = None,
                 constraint: TomlValue = None):
        super().__init__(num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq, table, keys,
                         initializer, optimizer, constraint)
        if mode not in MODES:
            raise BadInput(f'EmbeddingBag({self.table}): mode="{mode}" is none of "sum", "mean" and "max"')
        if scale_grad_by_freq and mode == "max":
            raise BadInput(f'EmbeddingBag({self.table}): scale_grad_by_freq goes with "sum" and "mean", not with "max"')
        self.mode = mode
        self.include_last_offset = include_last_offset

    def forward(self, input: Any, offsets: Any = None,
                per_sample_weights: Optional[torch.Tensor] = None) -> torch.Tensor:
        normal = K.normalize(input, self.keys, self.table)
        begins, lengths = self._bags(normal, offsets)
        if per_sample_weights is None and isinstance(input, K.FeatureIds):
            per_sample_weights = input.weights
        weights = self._weights(normal, per_sample_weights)
        located = self._locate(input, normal)
        bags, weights = to_bags(located, begins, lengths, weights)
        out = Pool.apply(self._anchor[0], weights, bags, MODES[self.mode], self.scale_grad_by_freq)
        return out if normal.device is None else out.to(normal.device)

    def _bags(self, normal: K.Ids, offsets: Any) -> Tuple[torch.Tensor, torch.Tensor]:
        """The first place and the length of each bag."""
        ids = len(normal.flat)
        if offsets is not None and (len(normal.shape) == 2 or normal.lengths is not None):
            raise BadInput(f"table '{self.table}': input of two dimensions has a bag in each row: leave out offsets")
        if normal.lengths is not None:
            lengths = torch.from_numpy(normal.lengths)
            return torch.cumsum(lengths, 0) - lengths, lengths
        if len(normal.shape) == 2:
            bags, length = normal.shape
            return torch.arange(bags) * length, torch.full((bags,), length, dtype=torch.int64)
        if len(normal.shape) != 1:
            raise BadInput(f"table '{self.table}': input of shape {normal.shape} must have one or two dimensions")
        if offsets is None:
            raise BadInput(f"table '{self.table}': input of one dimension needs offsets, the first place of each bag")
        begins = torch.as_tensor(offsets).detach().cpu()
        if begins.numel() and (begins.is_floating_point() or begins.dtype == torch.bool):
            raise BadInput(f"table '{self.table}': offsets are {begins.dtype}: they must be integers")
        begins = begins.long()
        if begins.dim() != 1:
            raise BadInput(f"table '{self.table}': offsets of shape {tuple(begins.shape)} must have one dimension")
        ends = torch.tensor([ids])
        if self.include_last_offset:
            begins, ends = begins[:-1], begins[-1:]
        bounds = torch.cat([begins, ends])
        lengths = bounds[1:] - bounds[:-1]
        if len(begins) and (begins[0] != 0 or (lengths < 0).any() or ends[0] != ids):
            raise BadInput(f"table '{self.table}': offsets must begin with 0 and rise to at most {ids}, the number of ids")
        if len(begins) == 0 and ids:
            raise BadInput(f"table '{self.table}': {ids} ids were given, but offsets has no bag")
        return begins, lengths

    def _weights(self, normal: K.Ids, weights: Optional[torch.Tensor]) -> Optional[torch.Tensor]:
        if weights is None:
            return None
        weights = torch.as_tensor(weights)
        if self.mode != "sum":
            raise BadInput(f'table \'{self.table}\': per_sample_weights go with mode="sum", not with "{self.mode}"')
        if tuple(weights.shape) != normal.shape and weights.numel() != len(normal.flat):
            raise BadInput(f"table '{self.table}': per_sample_weights have shape {tuple(weights.shape)}, "
                           f"but input has {normal.shape}")
        return weights.reshape(-1).to("cpu", torch.float32)


def to_bags(located: Located, begins: torch.Tensor, lengths: torch.Tensor,
            weights: Optional[torch.Tensor]) -> Tuple[Bags, Optional[torch.Tensor]]:
    """Bags without the padding ids, and the weights of what is left."""
    positions = located.positions
    if located.padded:
        valid = positions >= 0
        bag_of_each = torch.repeat_interleave(lengths)
        lengths = torch.bincount(bag_of_each[valid], minlength=len(lengths))
        begins = torch.cumsum(lengths, 0) - lengths
        positions = positions[valid]
        weights = None if weights is None else weights[valid]
    single = len(positions) == len(lengths) and bool((lengths == 1).all())
    return Bags(located.pulled, positions, begins, lengths, single), weights
