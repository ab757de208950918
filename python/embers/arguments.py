"""What users give to this package, checked where it is given: each raises BadInput, which names the argument."""
from __future__ import annotations

import os
from typing import Any, Mapping

import numpy as np

from .errors import BadInput

_MOST_SECONDS = 1e9


def is_integer(value: Any) -> bool:
    """True and False are none, although Python counts with them."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def check_count(name: str, value: Any, most: int = (1 << 31) - 1) -> int:
    """The value, as an int: from 1 to `most`."""
    if not is_integer(value) or value < 1:
        raise BadInput(f"{name} is {value!r}: it must be an integer of at least 1")
    if value > most:
        raise BadInput(f"{name} is {value!r}: it must be at most {most}")
    return int(value)


def check_flag(name: str, value: Any) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise BadInput(f"{name} is {value!r}: it must be True or False")
    return bool(value)


def check_seconds(name: str, value: Any) -> float:
    """From 0 on; finite."""
    is_number = is_integer(value) or isinstance(value, (float, np.floating))
    if not is_number or not 0 <= value <= _MOST_SECONDS:
        raise BadInput(f"{name} is {value!r}: it must be a number of seconds, from 0 to {_MOST_SECONDS:.0e}")
    return float(value)


def check_text(name: str, value: Any) -> str:
    """A str that is not empty."""
    if not isinstance(value, str):
        raise BadInput(f"{name} is {value!r}: it must be a str")
    if not value:
        raise BadInput(f"{name} is an empty str")
    try:
        value.encode()
    except UnicodeEncodeError as e:
        raise BadInput(f"{name} is {value!r}, which has no UTF-8 encoding") from e
    if "\0" in value:
        raise BadInput(f"{name} is {value!r}: it must not have a NUL character")
    return value


def check_path(name: str, value: Any) -> str:
    """A str, or an object that stands for a path; not empty."""
    if not isinstance(value, (str, bytes, os.PathLike)):
        raise BadInput(f"{name} is {value!r}: it must be a path, as a str or a pathlib.Path")
    return check_text(name, os.fsdecode(value))


def check_section(name: str, value: Any) -> Mapping[str, Any]:
    """Keys and values of a section of a job file."""
    if not isinstance(value, Mapping):
        raise BadInput(f"{name} is {value!r}: it must be a dict, as a section of a job file is")
    for key in value:
        check_text(f"a key of {name}", key)
    return value
