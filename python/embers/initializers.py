"""First values of rows. A row's depends on the job's seed, the table and the key, and on nothing else: whoever meets a key
first, and wherever, it begins with the same bits."""
from __future__ import annotations

from dataclasses import dataclass

from .toml import Named


class Initializer(Named):
    """Base of all initializers."""


@dataclass(frozen=True)
class Zeros(Initializer):
    """0."""

    toml_name = "zeros"


@dataclass(frozen=True)
class Ones(Initializer):
    """1."""

    toml_name = "ones"


@dataclass(frozen=True)
class ConstantValue(Initializer):
    """The same number everywhere."""

    value: float = 0.0
    toml_name = "constant"


@dataclass(frozen=True)
class Uniform(Initializer):
    """Between minval and maxval."""

    minval: float = -0.05
    maxval: float = 0.05
    toml_name = "uniform"


@dataclass(frozen=True)
class Normal(Initializer):
    """A normal distribution."""

    mean: float = 0.0
    stddev: float = 0.05
    toml_name = "normal"


@dataclass(frozen=True)
class TruncatedNormal(Initializer):
    """The same within two standard deviations."""

    mean: float = 0.0
    stddev: float = 0.05
    toml_name = "truncated_normal"


@dataclass(frozen=True)
class GlorotUniform(Initializer):
    """As Keras's, as are the following."""

    toml_name = "glorot_uniform"


@dataclass(frozen=True)
class GlorotNormal(Initializer):
    """See GlorotUniform."""

    toml_name = "glorot_normal"


@dataclass(frozen=True)
class HeUniform(Initializer):
    """See GlorotUniform."""

    toml_name = "he_uniform"


@dataclass(frozen=True)
class HeNormal(Initializer):
    """See GlorotUniform."""

    toml_name = "he_normal"


@dataclass(frozen=True)
class LecunUniform(Initializer):
    """See GlorotUniform."""

    toml_name = "lecun_uniform"


@dataclass(frozen=True)
class LecunNormal(Initializer):
    """See GlorotUniform."""

    toml_name = "lecun_normal"
