"""Tables whose rows are created when their keys are first seen."""
from __future__ import annotations

import ctypes
from typing import Any, List, Optional, Sequence, Tuple

import torch

from ...errors import BadInput, UsageError
from .library import NUMBER_TYPES, IndexOptionsStruct, TableStruct, destroy, library, numbered, on_device, pointer, stream_of
from .specs import Table


class Index:
    """Keys of a table with num_embeddings=None, with their rows and slots, in the device's memory."""

    def __init__(self, table: Table, dtype: torch.dtype, slots: int, slot_dim: int, slot_value: float,
                 device: torch.device):
        device = numbered(device)
        self.device, self.dim, self.slot_dim, self.slots = device, table.embedding_dim, slot_dim, slots
        seed = int(torch.randint(1 << 62, (), device="cpu")) if table.seed is None else table.seed
        options = IndexOptionsStruct(NUMBER_TYPES[dtype], table.embedding_dim, slots, slot_dim, (slot_value, slot_value),
                                table.initial[0], table.initial[1], seed & (1 << 64) - 1, table.capacity)
        self._handle: Optional[ctypes.c_void_p] = ctypes.c_void_p()
        with on_device(device):
            library()("index_create", ctypes.byref(options), ctypes.byref(self._handle))

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            destroy("index_destroy", self._handle)
            self._handle = None

    def __getstate__(self) -> Any:
        raise UsageError("a table of keys cannot be copied or pickled: use export() and import_()")

    def rows_of(self, keys: torch.Tensor, create: bool, skip_negative: bool) -> torch.Tensor:
        """The row of each key, int64 (keys,); -1 for keys that have none."""
        if keys.dtype != torch.int64 or keys.dim() != 1 or keys.device != self.device:
            raise BadInput(f"keys must be int64, of one dimension and on {self.device}")
        keys = keys.contiguous()
        found = torch.empty_like(keys)
        library()("index_find_or_create" if create else "index_find", self._handle, keys.data_ptr(),
                  len(keys), skip_negative, found.data_ptr(),
                  stream_of(self.device))
        return found

    def describe(self, to: TableStruct) -> None:
        library()("index_table", self._handle, ctypes.byref(to))

    def __len__(self) -> int:
        count = ctypes.c_int64()
        library()("index_size", self._handle, ctypes.byref(count), stream_of(self.device))
        return count.value

    def export(self, first: int = 0, count: Optional[int] = None) -> Tuple[torch.Tensor, torch.Tensor, List[torch.Tensor]]:
        """Keys int64 (rows,), rows float32 (rows, dim) and slots, each float32 (rows, dim); of `count` rows, all by default."""
        count = len(self) - first if count is None else count
        if count < 0:
            raise BadInput(f"rows from {first} on cannot be exported")
        keys = torch.empty(count, dtype=torch.int64, device=self.device)
        rows = torch.empty(count, self.dim, dtype=torch.float32, device=self.device)
        slots = [torch.empty(count, self.slot_dim, dtype=torch.float32, device=self.device) for _ in range(self.slots)]
        library()("index_export", self._handle, first, count,
                  *(t.data_ptr() for t in (keys, rows)),
                  *(pointer(slots[s]) if s < self.slots else None for s in range(2)), stream_of(self.device))
        return keys, rows, slots

    def import_(self, keys: torch.Tensor, rows: torch.Tensor, slots: Sequence[torch.Tensor] = ()) -> None:
        """Sets the rows of unique keys, and creates those that there are not. Slots that are not given stay."""
        if tuple(rows.shape) != (len(keys), self.dim):
            raise BadInput(f"rows of shape {tuple(rows.shape)} for {len(keys)} keys of dim {self.dim}")
        for slot in slots:
            if tuple(slot.shape) != (len(keys), self.slot_dim):
                raise BadInput(f"slots of shape {tuple(slot.shape)} for {len(keys)} keys: give {self.slot_dim} floats each")
        if len(slots) > self.slots:
            raise BadInput(f"{len(slots)} slots were given; the update rule keeps {self.slots}")
        if len(torch.unique(keys)) != len(keys):
            raise BadInput("keys to import must be unique")
        given = [keys.to(self.device, torch.int64).contiguous()]
        given += [t.to(self.device, torch.float32).contiguous() for t in (rows, *slots)]
        places = [t.data_ptr() for t in given] + [None] * (2 - len(slots))
        library()("index_import", self._handle, places[0], len(keys), *places[1:], stream_of(self.device))
