"""Update rules: by which arithmetic a gradient changes a row. Owners apply them, so no state is in this process.

Updates are lazy: a row without a gradient does not change. Bias corrections and schedules count the steps of the model.
Each rule also takes a schedule (embers.schedules), and at most one of clipvalue, clipnorm and global_clipnorm, as in
Keras. Names and defaults are those of the job file."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from .schedules import Schedule
from .toml import Named


@dataclass(frozen=True, kw_only=True)
class UpdateRule(Named):
    """Base of all update rules, and what all of them take."""

    schedule: Optional[Schedule] = None
    clipvalue: Optional[float] = None
    clipnorm: Optional[float] = None
    global_clipnorm: Optional[float] = None


@dataclass(frozen=True)
class SGD(UpdateRule):
    """As torch.optim.SGD. State per row: the momentum, unless it is 0."""

    learning_rate: float = 0.01
    momentum: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0
    toml_name = "sgd"


@dataclass(frozen=True)
class Adagrad(UpdateRule):
    """As torch.optim.Adagrad. State per row: the accumulator."""

    learning_rate: float = 0.01
    initial_accumulator_value: float = 0.1
    epsilon: float = 1e-7
    weight_decay: float = 0.0
    toml_name = "adagrad"


@dataclass(frozen=True)
class RowwiseAdagrad(UpdateRule):
    """As TorchRec's RowWiseAdagrad. State per row: one number."""

    learning_rate: float = 0.01
    initial_accumulator_value: float = 0.0
    epsilon: float = 1e-10
    weight_decay: float = 0.0
    toml_name = "rowwise_adagrad"


@dataclass(frozen=True)
class RMSprop(UpdateRule):
    """As torch.optim.RMSprop, whose alpha is rho. State per row: the velocity; the average gradient if centered; the momentum
    unless it is 0."""

    learning_rate: float = 0.001
    rho: float = 0.9
    momentum: float = 0.0
    epsilon: float = 1e-7
    centered: bool = False
    weight_decay: float = 0.0
    toml_name = "rmsprop"


@dataclass(frozen=True)
class Adadelta(UpdateRule):
    """As torch.optim.Adadelta. State per row: two vectors."""

    learning_rate: float = 0.001
    rho: float = 0.95
    epsilon: float = 1e-7
    weight_decay: float = 0.0
    toml_name = "adadelta"


@dataclass(frozen=True)
class Adam(UpdateRule):
    """As torch.optim.SparseAdam; with amsgrad as torch.optim.Adam. State per row: m and v; v_hat with amsgrad."""

    learning_rate: float = 0.001
    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-7
    amsgrad: bool = False
    weight_decay: float = 0.0
    toml_name = "adam"


@dataclass(frozen=True)
class AdamW(UpdateRule):
    """As torch.optim.AdamW: weight decay apart from the gradient. State per row as Adam."""

    learning_rate: float = 0.001
    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-7
    amsgrad: bool = False
    weight_decay: float = 0.004
    toml_name = "adamw"


@dataclass(frozen=True)
class Adamax(UpdateRule):
    """As torch.optim.Adamax. State per row: m and u."""

    learning_rate: float = 0.001
    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-7
    weight_decay: float = 0.0
    toml_name = "adamax"


@dataclass(frozen=True)
class Nadam(UpdateRule):
    """As tf.keras.optimizers.Nadam. State per row: m and v."""

    learning_rate: float = 0.001
    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-7
    toml_name = "nadam"


@dataclass(frozen=True)
class Ftrl(UpdateRule):
    """As tf.keras.optimizers.Ftrl. State per row: two vectors."""

    learning_rate: float = 0.001
    learning_rate_power: float = -0.5
    initial_accumulator_value: float = 0.1
    l1_regularization_strength: float = 0.0
    l2_regularization_strength: float = 0.0
    l2_shrinkage_regularization_strength: float = 0.0
    beta: float = 0.0
    toml_name = "ftrl"


@dataclass(frozen=True)
class GroupFtrl(UpdateRule):
    """As DeepRec's FTRL for embedding variables: l1 on the row's norm, so that whole rows become zero. State per row: two
    vectors."""

    learning_rate: float = 0.001
    learning_rate_power: float = -0.5
    initial_accumulator_value: float = 0.1
    l1_regularization_strength: float = 0.0
    l2_regularization_strength: float = 0.0
    toml_name = "group_ftrl"


@dataclass(frozen=True)
class Lion(UpdateRule):
    """Chen et al. 2023. State per row: m."""

    learning_rate: float = 0.001
    beta_1: float = 0.9
    beta_2: float = 0.99
    weight_decay: float = 0.0
    toml_name = "lion"
