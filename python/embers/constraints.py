"""What holds for each row around every step that changed it, as in Keras; Renorm as in torch. Norms are those of one row."""
from __future__ import annotations

from dataclasses import dataclass

from .toml import Named


class Constraint(Named):
    """Base of all constraints."""


@dataclass(frozen=True)
class MaxNorm(Constraint):
    """A norm above max_value becomes max_value."""

    max_value: float = 2.0
    toml_name = "max_norm"


@dataclass(frozen=True)
class NonNeg(Constraint):
    """Negative numbers become 0."""

    toml_name = "non_neg"


@dataclass(frozen=True)
class UnitNorm(Constraint):
    """The norm becomes 1."""

    toml_name = "unit_norm"


@dataclass(frozen=True)
class MinMaxNorm(Constraint):
    """The norm moves into [min_value, max_value]: at once with rate 1, part of the way with less."""

    min_value: float = 0.0
    max_value: float = 1.0
    rate: float = 1.0
    toml_name = "min_max_norm"


@dataclass(frozen=True)
class Renorm(Constraint):
    """torch's max_norm: a norm above max_norm becomes max_norm *before* a row is changed. The layers of embers.torch do the
    same at each lookup, and name this constraint for their max_norm."""

    max_norm: float = 1.0
    norm_type: float = 2.0
    toml_name = "renorm"
