"""Keys as users have them (tensors, arrays, lists) to keys as a pull takes them."""
from __future__ import annotations

from typing import Any, Dict, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np
import torch

from .. import _core
from ..errors import BadInput

_CPU = torch.device("cpu")

FlatKeys = Union[np.ndarray, Sequence[Union[str, bytes]]]  # int64 and contiguous, or strings


class Ids(NamedTuple):
    """Ids as a layer was given them: `flat` in row-major order, and their shape."""

    flat: FlatKeys
    shape: Tuple[int, ...]
    device: Optional[torch.device] = None  # of a tensor
    lengths: Optional[np.ndarray] = None  # of the lists of a list, where they differ; then the shape is flat


class FeatureIds:
    """Ids of a feature of a job file, as a model's forward gets them (Batch.ids): any number of ids for each example.
    Layers take them as they are.

    values: the ids of all examples, one after the other: int64 tensor, or NumPy array or list of bytes.
    offsets: int64 tensor (N + 1,): example i has those from offsets[i] to offsets[i + 1].
    weights: float32 tensor, one for each id, or None. EmbeddingBag multiplies by them.
    """

    def __init__(self, values: Any, offsets: torch.Tensor, weights: Optional[torch.Tensor] = None, name: str = ""):
        self.values = values
        self.offsets = offsets
        self.weights = weights
        self.name = name
        bounds = offsets.numpy()
        self._lengths = bounds[1:] - bounds[:-1]
        self._normal: Dict[str, Ids] = {}  # by kind: several layers may ask

    @property
    def lengths(self) -> torch.Tensor:
        """int64 (N,): ids of each example."""
        return torch.from_numpy(self._lengths)

    def __len__(self) -> int:
        return len(self._lengths)

    def normal(self, kind: str, table: str) -> "Ids":
        if kind not in self._normal:
            self._normal[kind] = normalize(self.values, kind, table)._replace(lengths=self._lengths)
        return self._normal[kind]


def normalize(ids: Any, kind: str, table: str) -> Ids:
    """Ids of any shape, for a table of this key kind ("int64" or "bytes"). Copies only what is not int64 and
    contiguous. Raises BadInput for ids that cannot be keys of the table."""
    if type(ids) is torch.Tensor and kind == "int64" and ids.dtype is torch.int64 and ids.is_contiguous() and ids.device == _CPU:
        return Ids(ids.numpy().reshape(-1), tuple(ids.shape), _CPU)  # as most are: in half the time
    if isinstance(ids, FeatureIds):
        return ids.normal(kind, table)
    if isinstance(ids, (list, tuple)) and any(isinstance(bag, torch.Tensor) and bag.dim() == 1 for bag in ids):
        ids = [bag.tolist() if isinstance(bag, torch.Tensor) else bag for bag in ids]
    if isinstance(ids, (list, tuple)) and len(ids) > 0 and isinstance(ids[0], (list, tuple, np.ndarray)):
        try:
            lengths = np.fromiter((len(bag) for bag in ids), np.int64, len(ids))
        except TypeError as e:
            raise _wrong(table, kind, "lists of ids and single ones", "give each bag a list") from e
        if (lengths != lengths[0]).any():
            return normalize([key for bag in ids for key in bag], kind, table)._replace(lengths=lengths)
    if kind == "bytes":
        return _strings(ids, table)
    device = None
    if isinstance(ids, torch.Tensor):
        device = ids.device
        if ids.dtype.is_floating_point or ids.dtype.is_complex or ids.dtype == torch.bool:
            raise _wrong(table, kind, f"a tensor of {ids.dtype}", "convert it with .long()")
        array = ids.detach().to("cpu", torch.int64).numpy()
    else:
        try:
            array = np.asarray(ids)
        except ValueError as e:
            raise _wrong(table, kind, f"what is no array of ids ({e})", "give a tensor, an array, or a list of lists") from e
        if array.size == 0 and array.dtype == np.float64:
            array = array.astype(np.int64)  # an empty list
        if array.dtype == np.uint64 and array.size and int(array.max()) >= 2**63:
            raise _wrong(table, kind, "a key above 2^63 - 1", "keys are int64: array.view(numpy.int64) keeps all bits")
        if array.dtype.kind not in "iu":
            raise _wrong(table, kind, f"{_describe(ids, array)}",
                         'give it int64 ids, or define the table with keys="bytes"')
    return Ids(np.ascontiguousarray(array, dtype=np.int64).reshape(-1), tuple(array.shape), device)


def as_uint64(ids: Any) -> Optional[np.ndarray]:
    """Ids that NumPy has as uint64, as those above int64 are; None for all others."""
    if isinstance(ids, (torch.Tensor, FeatureIds)):
        return None
    try:
        array = np.asarray(ids)
    except ValueError:  # lists of different lengths
        return None
    return array if array.dtype == np.uint64 else None


def unique(flat: FlatKeys) -> Tuple[FlatKeys, torch.Tensor]:
    """Each key once, and for each of `flat` its place among them, int64."""
    if isinstance(flat, np.ndarray) and flat.dtype.kind == "i":
        keys, inverse = _core.unique(flat)
    else:
        keys, inverse = _core.unique_strings(flat)
    return keys, torch.from_numpy(inverse)


def concatenate(lists: Sequence[FlatKeys]) -> FlatKeys:
    if len(lists) == 1:
        return lists[0]
    kinds = {keys.dtype.kind if isinstance(keys, np.ndarray) else "" for keys in lists}
    if len(kinds) == 1 and kinds != {""}:
        return np.concatenate(lists)
    return [key for keys in lists for key in (keys.tolist() if isinstance(keys, np.ndarray) else keys)]


def take(flat: FlatKeys, chosen: np.ndarray) -> FlatKeys:
    """Those that `chosen`, of bool, marks."""
    if isinstance(flat, np.ndarray):
        return flat[chosen]
    return [flat[i] for i in np.flatnonzero(chosen)]


def differs_from(flat: FlatKeys, key: Union[int, str, bytes]) -> np.ndarray:
    """For each key, of bool, whether it is another one; a str is the same key as its UTF-8."""
    if isinstance(flat, np.ndarray) and flat.dtype.kind == "i":
        return np.asarray(flat != key)
    assert isinstance(key, (str, bytes))
    raw = key.encode() if isinstance(key, str) else key
    try:
        text: Optional[str] = raw.decode()
    except UnicodeDecodeError:
        text = None  # no str is this key
    if isinstance(flat, np.ndarray):
        same = raw if flat.dtype.kind == "S" else text
        return np.ones(len(flat), bool) if same is None else np.asarray(flat != same)
    return np.fromiter((k != (text if isinstance(k, str) else raw) for k in flat), dtype=bool, count=len(flat))


def _strings(ids: Any, table: str) -> Ids:
    if isinstance(ids, torch.Tensor):
        raise _wrong(table, "bytes", f"a tensor of {ids.dtype}",
                     'give it a list or NumPy array of strings, or define the table with keys="int64"')
    if isinstance(ids, (list, tuple)) and not (ids and isinstance(ids[0], (list, tuple, np.ndarray))):
        for key in ids:
            if not isinstance(key, (str, bytes)):
                raise _wrong(table, "bytes", f"{key!r} of type {type(key).__name__} in a list",
                             "give it str or bytes")
        return Ids(list(ids), (len(ids),))
    array = np.asarray(ids)
    if array.dtype.kind == "O":
        for key in array.reshape(-1):
            if not isinstance(key, (str, bytes)):
                raise _wrong(table, "bytes", f"{key!r} of type {type(key).__name__}",
                             "give it str or bytes, in a rectangular array or list")
        return Ids(array.reshape(-1).tolist(), tuple(array.shape))
    if array.dtype.kind not in "US" and array.size > 0:
        raise _wrong(table, "bytes", _describe(ids, array),
                     'give it a list or NumPy array of strings, or define the table with keys="int64"')
    if array.dtype.kind not in "US":
        return Ids([], tuple(array.shape))
    return Ids(np.ascontiguousarray(array).reshape(-1), tuple(array.shape))


def _describe(ids: Any, array: np.ndarray) -> str:
    if isinstance(ids, np.ndarray):
        return f"an array of {array.dtype}"
    return f"a {type(ids).__name__} that NumPy reads as {array.dtype}"


def _wrong(table: str, kind: str, given: str, remedy: str) -> BadInput:
    return BadInput(f"table '{table}' has {kind} keys, but was given {given}: {remedy}")
