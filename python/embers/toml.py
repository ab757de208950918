"""Values of a job file, written from Python."""
from __future__ import annotations

import dataclasses
import json
import math
from typing import Any, Mapping

from .errors import BadInput


def text_of(value: Any, what: str = "the value") -> str:
    """A value as TOML has it: numbers, strings, lists, dicts (as inline tables), and whatever has toml()."""
    if isinstance(value, type):
        raise BadInput(f"{what} is the class {value.__name__}: give one of its objects, {value.__name__}(...)")
    if hasattr(value, "toml"):
        return str(value.toml())
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(text_of(v, what) for v in value) + "]"
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise BadInput(f"{what} has the key {key!r}: it must be a str")
        return "{ " + ", ".join(f"{_key(k)} = {text_of(v, f'{what}.{k}')}" for k, v in value.items()) + " }"
    if hasattr(value, "item"):  # a number of NumPy
        return text_of(value.item(), what)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise BadInput(f"{what} is {value}: it must be a finite number")
        return repr(value)
    raise BadInput(f"{what} is a {type(value).__name__}: it must be a number, a string, a list or a dict")


def _key(name: str) -> str:
    return name if name.replace("_", "a").replace("-", "a").isalnum() and name.isascii() else json.dumps(name)


class Named:
    """Base of the dataclasses that stand for { name = "...", parameters } in a job file. `toml_name` is that name. Fields
    that are None are left to the library."""

    toml_name = ""

    def toml(self) -> str:
        """The value as a job file has it, on one line."""
        parts = [f'name = "{self.toml_name}"']
        for field in sorted(dataclasses.fields(self), key=lambda field: bool(field.kw_only)):  # shared ones last
            value = getattr(self, field.name)
            if isinstance(value, bool) and "bool" not in str(field.type):
                raise BadInput(f"{type(self).__name__}({field.name}) is {value}: it must be a number")
            if value is not None:
                parts.append(f"{field.name} = {text_of(value, f'{type(self).__name__}({field.name})')}")
        return "{ " + ", ".join(parts) + " }"
