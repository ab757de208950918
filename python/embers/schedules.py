"""Learning rates that change with the model's step, which counts from 0. All are those of tf.keras.optimizers.schedules.

They start from the optimizer's learning_rate, or from an initial_learning_rate of their own. With warmup_steps, the rate
first rises linearly to warmup_target (without it: to the initial one), and only then the schedule begins."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Sequence

from .toml import Named


class Schedule(Named):
    """Base of all schedules."""


@dataclass(frozen=True, kw_only=True)
class _Warmed(Named):
    """What schedules take that may begin with a warm-up."""

    warmup_steps: Optional[int] = None
    warmup_target: Optional[float] = None
    initial_learning_rate: Optional[float] = None


@dataclass(frozen=True)
class Constant(_Warmed, Schedule):
    """Always the same, after a warm-up."""

    toml_name = "constant"


@dataclass(frozen=True)
class Exponential(_Warmed, Schedule):
    """initial * decay_rate ** (step / decay_steps); whole steps only if `staircase`."""

    decay_steps: float
    decay_rate: float
    staircase: bool = False
    toml_name = "exponential"


@dataclass(frozen=True)
class InverseTime(_Warmed, Schedule):
    """initial / (1 + decay_rate * step / decay_steps); whole steps only if `staircase`."""

    decay_steps: float
    decay_rate: float
    staircase: bool = False
    toml_name = "inverse_time"


@dataclass(frozen=True)
class Polynomial(_Warmed, Schedule):
    """Down to end_learning_rate in decay_steps; again and again, more slowly each time, if `cycle`."""

    decay_steps: float
    end_learning_rate: float = 0.0001
    power: float = 1.0
    cycle: bool = False
    toml_name = "polynomial"


@dataclass(frozen=True)
class Cosine(_Warmed, Schedule):
    """Down to alpha * initial in decay_steps, along a cosine."""

    decay_steps: float
    alpha: float = 0.0
    toml_name = "cosine"


@dataclass(frozen=True)
class CosineRestarts(_Warmed, Schedule):
    """A cosine that restarts after first_decay_steps; each further one takes t_mul times as long, and begins at m_mul times
    the rate."""

    first_decay_steps: float
    t_mul: float = 2.0
    m_mul: float = 1.0
    alpha: float = 0.0
    toml_name = "cosine_restarts"


@dataclass(frozen=True)
class Piecewise(Schedule):
    """values[0] up to and including the step boundaries[0], then values[1], and so on: one value more than boundaries."""

    boundaries: Sequence[float]
    values: Sequence[float]
    toml_name = "piecewise"


@dataclass(frozen=True)
class Warmup(Schedule):
    """Linearly up to warmup_target in warmup_steps, then constant."""

    warmup_steps: int
    warmup_target: float
    initial_learning_rate: Optional[float] = None
    toml_name = "warmup"
