"""What decides the bits of a gradient besides data and model."""
from __future__ import annotations

import ctypes
import os
from typing import List, Optional

import torch


def numeric_settings() -> List[str]:
    """Lines "name=value" in which all workers of a sync job must agree."""
    vector = [line.split(":", 1)[1].strip() for line in torch.__config__.show().splitlines() if "CPU capability" in line]
    return [f"threads={torch.get_num_threads()}", f"torch={torch.__version__}", f"vector={vector[0] if vector else 'unknown'}",
            f"blas={_openblas('openblas_get_config')}", f"blas_core={_openblas('openblas_get_corename')}"]


def match_blas_threads() -> None:
    """As many threads for OpenBLAS as torch.set_num_threads() has set for the rest: torch tells only OpenMP, and the number
    decides the bits of a product. On a busy host, threads that wait for each other cost most of the time."""
    library = _openblas_library()
    if library is not None:
        library.openblas_set_num_threads(torch.get_num_threads())


def _openblas(function: str) -> str:
    library = _openblas_library()
    if library is None:
        return "unknown"
    ask = getattr(library, function)
    ask.restype = ctypes.c_char_p
    return str(ask().decode())


def _openblas_library() -> Optional[ctypes.CDLL]:
    """If it is behind torch's BLAS."""
    try:
        return ctypes.CDLL("libopenblas.so.0", mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
    except (OSError, AttributeError):
        return None
