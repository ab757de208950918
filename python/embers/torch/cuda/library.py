"""libembers_cuda.so by ctypes: the structs of cuda/embers_cuda.h, and its functions."""
from __future__ import annotations

import contextlib
import ctypes
import os
from typing import Any, List, Optional, Tuple

import torch

from ...errors import BadInput, UsageError

NUMBER_TYPES = {torch.float32: 0, torch.float16: 1}


class TableStruct(ctypes.Structure):
    _fields_ = [("rows", ctypes.c_void_p), ("slots", ctypes.c_void_p * 2), ("count", ctypes.c_int64),
                ("row_stride", ctypes.c_int64), ("slot_stride", ctypes.c_int64), ("dim", ctypes.c_int32),
                ("max_norm", ctypes.c_float), ("partitions", ctypes.c_int32), ("strategy", ctypes.c_int32),
                ("counted", ctypes.c_int32), ("grows", ctypes.c_int32), ("first", ctypes.c_void_p)]


class ColumnStruct(ctypes.Structure):
    _fields_ = [("table", ctypes.c_int32), ("combiner", ctypes.c_int32), ("prune_ids", ctypes.c_int32),
                ("prune_weights", ctypes.c_int32), ("has_default", ctypes.c_int32), ("out_column", ctypes.c_int32),
                ("default_id", ctypes.c_int64)]


class ModelStruct(ctypes.Structure):
    _fields_ = [("tables", ctypes.POINTER(TableStruct)), ("table_count", ctypes.c_int32),
                ("columns", ctypes.POINTER(ColumnStruct)), ("column_count", ctypes.c_int32), ("number_type", ctypes.c_int32)]


class BatchStruct(ctypes.Structure):
    _fields_ = [("ids", ctypes.c_void_p), ("offsets", ctypes.c_void_p), ("weights", ctypes.c_void_p),
                ("id_count", ctypes.c_int64), ("bags", ctypes.c_int64)]


class UpdateStruct(ctypes.Structure):
    _fields_ = [("rule", ctypes.c_int32), ("weight_decay", ctypes.c_float), ("learning_rate", ctypes.c_double),
                ("beta_1", ctypes.c_double), ("beta_2", ctypes.c_double), ("epsilon", ctypes.c_double),
                ("steps", ctypes.c_void_p)]


class ProblemsStruct(ctypes.Structure):
    _fields_ = [("bad_ids", ctypes.c_int64), ("position", ctypes.c_int64), ("bag", ctypes.c_int64),
                ("bad_gradients", ctypes.c_int64)]


class IndexOptionsStruct(ctypes.Structure):
    _fields_ = [("number_type", ctypes.c_int32), ("dim", ctypes.c_int32), ("slot_count", ctypes.c_int32),
                ("slot_dim", ctypes.c_int32), ("slot_values", ctypes.c_float * 2), ("low", ctypes.c_double),
                ("high", ctypes.c_double), ("stream", ctypes.c_uint64), ("capacity", ctypes.c_int64)]


class Library:
    """libembers_cuda.so; or, for tests, its kernels on the CPU (EMBERS_CUDA_LIBRARY)."""

    def __init__(self) -> None:
        package = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
        path = os.environ.get("EMBERS_CUDA_LIBRARY") or os.path.join(package, "libembers_cuda.so")
        try:
            self.calls = ctypes.CDLL(path)
        except OSError as e:
            raise UsageError(f"et.cuda needs {path}, which is built where CMake finds a CUDA compiler: {e}") from e
        self.calls.embers_cuda_error.restype = ctypes.c_char_p
        p, n, i = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32
        for name, arguments in {
                "lookup_create": [p, p], "lookup_destroy": [p], "lookup_memory": [p] * 5, "lookup_problems": [p] * 3,
                "lookup_has_problems": [p], "lookup_forward": [p, p, p, n, p, p, p, p],
                "lookup_update": [p, p, p, p, n, p, p, p, p],
                "lookup_gradients": [p, p, p, n, p, p, p, p, p, n, p, p], "lookup_weight_gradient": [p, p, p, n, p, p, p],
                "index_create": [p, p], "index_destroy": [p], "index_find": [p, p, n, i, p, p],
                "index_find_or_create": [p, p, n, i, p, p], "index_table": [p, p], "index_size": [p, p, p],
                "index_export": [p, n, n, p, p, p, p, p], "index_import": [p, p, n, p, p, p, p]}.items():
            getattr(self.calls, "embers_cuda_" + name).argtypes = arguments
        self.on_cpu = hasattr(self.calls, "embers_cuda_runs_on_the_cpu")

    def __call__(self, name: str, *arguments: Any) -> None:
        if getattr(self.calls, "embers_cuda_" + name)(*arguments) != 0:
            raise BadInput(self.calls.embers_cuda_error().decode())

    def check_device(self, device: torch.device) -> None:
        wanted = "cpu" if self.on_cpu else "cuda"
        if device.type != wanted:
            raise BadInput(f"et.cuda works on tensors on the device {wanted}, not on {device}")


_library: Optional[Library] = None


def library() -> Library:
    global _library
    if _library is None:
        _library = Library()
    return _library


_doomed: List[Tuple[str, Any]] = []


def destroy(name: str, handle: Any) -> None:
    """By the function `name`, now; or later where this thread's stream is being captured by a CUDA graph, which freeing memory
    would break."""
    _doomed.append((name, handle))
    destroy_doomed()


def destroy_doomed() -> None:
    while _doomed and (library().on_cpu or not torch.cuda.is_current_stream_capturing()):
        try:
            name, handle = _doomed.pop()
        except IndexError:  # another thread was faster
            return
        library()(name, handle)


def numbered(device: torch.device) -> torch.device:
    """With its number, which the devices of tensors always have: that of the current GPU, if it has none."""
    if device.type == "cuda" and device.index is None:
        return torch.device("cuda", torch.cuda.current_device())
    return device


def on_device(device: torch.device) -> Any:
    """Makes a GPU the current one, as the library expects."""
    return contextlib.nullcontext() if device.type == "cpu" else torch.cuda.device(device)


def capturing(device: torch.device) -> bool:
    """Whether a CUDA graph records what is launched now, instead of its being run."""
    return device.type != "cpu" and torch.cuda.is_current_stream_capturing()


def stream_of(device: torch.device) -> Optional[int]:
    return None if device.type == "cpu" else torch.cuda.current_stream(device).cuda_stream


def pointer(tensor: Optional[torch.Tensor]) -> Optional[int]:
    return None if tensor is None else tensor.data_ptr()
