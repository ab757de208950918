"""Lookups of host embeddings by tensors."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Optional, Tuple

import numpy as np
import torch

from ..errors import BadInput
from . import keys as K
from .functions import Gather, anchor
from .rows import Lookup, ReadRows, RowSource, TableUse

if TYPE_CHECKING:
    from ..host_embedding import HostEmbedding

_anchor = anchor()


def use_of(embedding: "HostEmbedding") -> TableUse:
    return TableUse(embedding.name, embedding.shape[1], "int64", [None], embedding.shape[0])


def look_up(embedding: "HostEmbedding", ids: Any, clip_indices: bool, source: RowSource) -> torch.Tensor:
    """(*shape of ids, encoding), of the embedding's dtype, on the device of ids."""
    unsigned = K.as_uint64(ids)  # those above int64 are outside of the table, too
    if unsigned is not None:
        unsigned = embedding.within(unsigned.reshape(-1), unsigned.shape, clip_indices).astype(np.int64).reshape(unsigned.shape)
    normal = K.normalize(ids if unsigned is None else unsigned, "int64", embedding.name)
    if normal.lengths is not None:
        raise BadInput(f"host embedding '{embedding.name}': ids are lists of different lengths: pad them")
    flat = embedding.within(normal.flat, normal.shape, clip_indices)  # type: ignore[arg-type]
    located, = source.locate([Lookup(use_of(embedding), ids, normal._replace(flat=flat), None)])
    rows = Gather.apply(_anchor, located, False).view(*normal.shape, embedding.shape[1])
    return to_device(rows.to(getattr(torch, embedding.dtype)), normal.device)


def read(embedding: "HostEmbedding", ids: Any, clip_indices: bool, lookup: Callable[[str, Any], Any]) -> torch.Tensor:
    """The same, of rows as they are now, without gradients."""
    with torch.no_grad():
        return look_up(embedding, ids, clip_indices, ReadRows(lookup))


def to_device(rows: torch.Tensor, device: Optional[torch.device]) -> torch.Tensor:
    """Rows of the host where the ids came from, and their gradient back. To and from CUDA through pinned memory."""
    if device is None or device.type == "cpu":
        return rows
    return _Pinned.apply(rows, device) if device.type == "cuda" else rows.to(device)


class _Pinned(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: torch.Tensor, device: torch.device) -> torch.Tensor:
        return rows.pin_memory().to(device, non_blocking=True)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Tuple[Optional[torch.Tensor], ...]:
        host = torch.empty(gradient.shape, dtype=gradient.dtype, pin_memory=True)
        return host.copy_(gradient), None
