"""What the model of a job file gets: its configuration, and batches. `[model] python = "my_model:Net"` names a class whose
constructor takes a ModelConfig, and whose forward takes a Batch."""
from __future__ import annotations

import difflib
import importlib
import os
import sys
import traceback
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import torch
from torch import nn

from ..errors import BadInput, Error
from .keys import FeatureIds

_KINDS = ((bool, "true or false"), (int, "a whole number"), (float, "a number"), (str, "a string"), (list, "a list"))


class Feature(NamedTuple):
    """A categorical feature of the job file."""

    name: str
    keys: str = "int64"  # or "bytes"
    buckets: int = 0  # ids are 0 .. buckets - 1; 0: any keys
    weighted: bool = False  # each id has a weight


class ModelConfig(Mapping[str, Any]):
    """What a model is built from: the features of the data, and the keys of the job file's [model] besides `python`.

        def __init__(self, config):
            super().__init__()
            dim = config.get("dim", 8)
            self.tables = torch.nn.ModuleDict({f.name: et.EmbeddingBag(None, dim, table=f.name, keys=f.keys)
                                               for f in config.categorical})

    A key of [model] that the constructor does not read is an error, with the nearest one that it did."""

    def __init__(self, values: Optional[Mapping[str, Any]] = None, *, numeric: Sequence[str] = (),
                 categorical: Sequence[Feature] = (), seed: int = 1, job: Any = None):
        self.numeric = list(numeric)  # names of the columns of Batch.numeric
        self.categorical = [Feature(*feature) for feature in categorical]
        self.seed = seed
        self._values = dict(values or {})
        self._job = job
        self._read: List[str] = []

    def __getitem__(self, key: str) -> Any:
        self._read.append(key)
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: object) -> bool:
        self._read.append(str(key))
        return key in self._values

    def get(self, key: str, default: Any = None) -> Any:
        """The key's value, of the type of `default`. Raises BadInput, naming file and line, for another type."""
        self._read.append(key)
        if key not in self._values:
            return default
        value = self._values[key]
        for kind, text in _KINDS:
            if isinstance(default, kind) or (kind is list and isinstance(default, tuple)):
                fits = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
                if not fits and not (kind is float and isinstance(value, int) and not isinstance(value, bool)):
                    raise BadInput(f"{self.place(key)}: [model] {key} = {value!r} is not {text}")
                return kind(value)
        return value

    def dim(self, table: str, otherwise: int) -> int:
        """The dim of a table: what the job file's [storage.tables] says, else `otherwise`."""
        return otherwise if self._job is None else int(self._job.dim(table, otherwise))

    def place(self, key: str) -> str:
        """Where a key of [model] stands, for messages: "job.toml:12"."""
        return "[model]" if self._job is None else str(self._job.place(key))

    def check_all_read(self, model: str) -> None:
        for key in self._values:
            if key not in self._read:
                raise BadInput(f"{self.place(key)}: model {model} has no setting '{key}'{_suggestion(key, self._read)}")


class _IdsByFeature(Mapping[str, FeatureIds]):
    """Made when they are asked for, and then always the same objects."""

    def __init__(self, records: Any, features: Mapping[str, int]):
        self._records = records
        self._features = features
        self._made: Dict[str, FeatureIds] = {}

    def __getitem__(self, name: str) -> FeatureIds:
        if name not in self._made:
            if name not in self._features:
                raise BadInput(f"the data have no categorical feature '{name}'{_suggestion(name, self._features)}")
            keys, offsets, weights = self._records.ids(self._features[name])
            self._made[name] = FeatureIds(_tensor(keys), torch.from_numpy(offsets),
                                          None if weights is None else torch.from_numpy(weights), name)
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in self._features

    def __iter__(self) -> Iterator[str]:
        return iter(self._features)

    def __len__(self) -> int:
        return len(self._features)


class Batch:
    """A minibatch as a model's forward gets it. len() is its number of examples, N. Arrays are views of what was read.

    numeric: float32 (N, numeric features), in the order of ModelConfig.numeric.
    labels: float32 (N,), or None if the data have none.
    ids: of each categorical feature, by name: et.Embedding, et.EmbeddingBag and et.EmbeddingBagCollection take them.
    epoch, number: which minibatch it is. They do not depend on the worker.
    """

    def __init__(self, records: Any, config: ModelConfig, epoch: int, number: int):
        self.epoch = epoch
        self.number = number
        self.numeric = torch.from_numpy(records.numeric)
        self.labels = None if records.labels is None else torch.from_numpy(records.labels)
        self.ids: Mapping[str, FeatureIds] = _IdsByFeature(records, {f.name: i for i, f in enumerate(config.categorical)})
        self.records = records.records  # uint64 (N,): which records of the data files
        self._config = config
        self._examples = int(records.examples)

    def __len__(self) -> int:
        return self._examples

    def number_of(self, feature: str) -> torch.Tensor:
        """A numeric feature, float32 (N,)."""
        names = self._config.numeric
        if feature not in names:
            raise BadInput(f"the data have no numeric feature '{feature}'{_suggestion(feature, names)}")
        return self.numeric[:, names.index(feature)]


def make_config(job: Any) -> ModelConfig:
    """Of a _core.JobFile."""
    return ModelConfig(job.model, numeric=job.numeric, categorical=job.categorical, seed=job.seed, job=job)


def load_model(job: Any, config: ModelConfig) -> nn.Module:
    """The model that a job file names. Raises BadInput, naming file and line, for one that is not there or cannot be built;
    what its own code raises is shown on standard error first."""
    module, name = job.python.split(":")
    place = job.place("python")
    folders = [folder for folder in (job.python_path, os.getcwd()) if folder and folder not in sys.path]
    sys.path[:0] = folders
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as e:
        if e.name is None or not (module + ".").startswith(e.name + "."):
            raise _user_error(f"{place}: cannot import '{module}'", e) from e
        raise BadInput(f"{place}: there is no Python module '{module}' in {job.python_path or '.'} (model.python_path), in "
                       f"{os.getcwd()} or in PYTHONPATH") from e
    except Exception as e:
        raise _user_error(f"{place}: cannot import '{module}'", e) from e
    make: Any = found
    for part in name.split("."):
        if not hasattr(make, part):
            raise BadInput(f"{place}: {getattr(found, '__file__', module)} has no '{name}'{_suggestion(part, vars(make))}")
        make = getattr(make, part)
    torch.manual_seed(job.seed)  # so that all workers build the same first values
    try:
        model = make(config)
    except Exception as e:
        raise _user_error(f"{place}: cannot build model {job.python}", e) from e
    if not isinstance(model, nn.Module):
        raise BadInput(f"{place}: {job.python} is no torch.nn.Module, but a {type(model).__name__}")
    config.check_all_read(job.python)
    return model


def loss_of(model: nn.Module, output: torch.Tensor, batch: Batch) -> torch.Tensor:
    """A scalar: model.loss(output, batch) of a class that defines it, or the mean binary cross entropy with logits."""
    if callable(getattr(type(model), "loss", None)):
        loss = model.loss(output, batch)
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
            raise BadInput("loss() must return a tensor of one number, the mean over the batch")
        return loss.reshape(())
    if batch.labels is None:
        raise BadInput("there are no labels: training needs a column of type label")
    if not isinstance(output, torch.Tensor) or tuple(output.shape) != (len(batch),):
        raise BadInput(f"forward must return logits of shape ({len(batch)},), or the model must have a loss(output, batch) "
                       f"of its own; not {_shape_of(output)}")
    return nn.functional.binary_cross_entropy_with_logits(output, batch.labels)


def scores_of(model: nn.Module, output: torch.Tensor, batch: Batch) -> np.ndarray:
    """float32 (N,): model.score(output) of a class that defines it, or the sigmoid."""
    with torch.no_grad():
        own = callable(getattr(type(model), "score", None))
        scores = model.score(output) if own else torch.sigmoid(output)
    if not isinstance(scores, torch.Tensor) or scores.numel() != len(batch):
        raise BadInput(f"score() must return one number for each of the {len(batch)} examples; not {_shape_of(scores)}")
    floats: np.ndarray = scores.detach().to("cpu", torch.float32).contiguous().reshape(-1).numpy()
    return floats


def describe(e: BaseException) -> str:
    """What a user's code has raised, in one line."""
    return str(e) if isinstance(e, Error) else f"{type(e).__name__}: {e}"


def _user_error(what: str, e: Exception) -> BadInput:
    if not isinstance(e, Error):
        traceback.print_exception(type(e), e, e.__traceback__)
    return BadInput(f"{what}: {describe(e)}")


def _shape_of(value: Any) -> str:
    return f"a tensor of shape {tuple(value.shape)}" if isinstance(value, torch.Tensor) else f"a {type(value).__name__}"


def _tensor(keys: Any) -> Any:
    return torch.from_numpy(keys) if isinstance(keys, np.ndarray) and keys.dtype.kind == "i" else keys


def _suggestion(wrong: str, known: Any) -> str:
    names = [name for name in known if not name.startswith("_")]
    near = difflib.get_close_matches(wrong, names, 1)
    if near:
        return f"; did you mean '{near[0]}'?"
    return f"; known: {', '.join(names)}" if 0 < len(names) <= 20 else ""
