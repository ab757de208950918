"""Which tables are better split by rows and which by columns, and over how many shards: measured by `embers plan`."""
from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import tempfile
from typing import Any, Dict, Iterable, Mapping, Optional, Sequence, Union

import numpy as np

from .arguments import check_count, check_seconds
from .errors import BadInput, Internal
from .job import _toml
from .toml import text_of

_PARTS = ("dim", "keys", "rows", "initializer", "optimizer", "constraint")


def plan(*, tables: Mapping[str, Union[int, Mapping[str, Any]]], batches: Iterable[Mapping[str, Any]],
         shards: Sequence[int] = (1, 2), mode: str = "async", optimizer: Any = None, minibatches: int = 8, seconds: float = 20,
         program: Optional[str] = None, **sections: Dict[str, Any]) -> Dict[str, Any]:
    """Measures both strategies, "token" (shards have rows) and "encoding" (shards have columns), for each table and each of
    these numbers of shards, and says which to choose: a dict with the keys of docs/results.md, "Plans".

        plan = embers.plan(tables={"actions": dict(dim=4096, rows=512), "user": 16},
                           batches=({"actions": b.actions, "user": b.users} for b in loader))
        plan["recommended"]     # {"shards": 2, "partitions": {"actions": "encoding", "user": "token"}}

    tables: by name, the floats of a row, or a dict of what job.table() takes: dim, keys, initializer, optimizer, constraint;
    and rows, if their number is known. batches: the keys of each table in some minibatches, in any shape, repeated or not; the
    first `minibatches` of them are taken. mode, optimizer and sections (training={...}, storage={...}) are those of
    embers.local(). seconds: of measuring, about, for each number of shards.

    It runs the program `embers plan`, which starts shards and a master on this host; they end with it. program: where the
    program is; without it, EMBERS_PROGRAM in the environment or else PATH says so.

    Raises BadInput for what a job may not have, and if there is no such program."""
    found = program or os.environ.get("EMBERS_PROGRAM") or shutil.which("embers")
    if not found or shutil.which(found) is None:
        raise BadInput(f"embers.plan() runs the program embers, and there is no {found or 'embers in PATH'}: build or install "
                       "it, and name it in program= or EMBERS_PROGRAM")
    minibatches, seconds = check_count("minibatches", minibatches), check_seconds("seconds", seconds)
    if not isinstance(tables, Mapping):
        raise BadInput(f"tables is a {type(tables).__name__}: it must be a dict, of each table's floats of a row by its name")
    if isinstance(shards, (str, bytes)) or not isinstance(shards, Iterable):
        raise BadInput(f"shards is {shards!r}: it must be a list of numbers, such as [1, 2]")
    described = {"tables": [_table(name, spec) for name, spec in tables.items()],
                 "batches": [{name: _keys(name, keys) for name, keys in _by_table(batch)}
                             for batch in itertools.islice(batches, minibatches)]}
    if not described["tables"] or not described["batches"]:
        raise BadInput("embers.plan() needs at least one table, and the keys of at least one minibatch")
    for section in sections:
        if section not in ("job", "training", "storage"):
            raise BadInput(f"plan() has no section '{section}': there are job, training and storage")
    lines = []
    if optimizer is not None:
        lines.append(f"optimizer = {text_of({'name': optimizer} if isinstance(optimizer, str) else optimizer)}")
    defaults: Dict[str, Dict[str, Any]] = {"job": {}, "training": {"mode": mode}, "storage": {}}
    for section, given in defaults.items():
        lines.append(f"{section} = {text_of({**given, **sections.get(section, {})}, section)}")
    with tempfile.TemporaryDirectory(prefix="embers-plan-") as folder:
        job, keys = os.path.join(folder, "job.toml"), os.path.join(folder, "keys.json")
        with open(job, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
        with open(keys, "w", encoding="utf-8") as file:
            json.dump(described, file)
        done = subprocess.run([found, "plan", job, "--keys", keys, "--json", "--seconds", str(seconds),
                               "--shards", ",".join(str(n) for n in shards)],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        mark = "embers: error: "
        said = done.stderr.rpartition(mark)[2] if mark in done.stderr else done.stderr
        said = said.replace(folder + os.sep, "").strip()
        raise BadInput(said) if done.returncode == 2 else Internal(said)
    result: Dict[str, Any] = json.loads(done.stdout)
    return result


def _table(name: str, spec: Union[int, Mapping[str, Any]]) -> Dict[str, Any]:
    given = dict(spec) if isinstance(spec, Mapping) else {"dim": spec}
    for part in given:
        if part not in _PARTS:
            raise BadInput(f"table '{name}' has no '{part}': there are {', '.join(_PARTS)}")
    table: Dict[str, Any] = {"name": name}
    for part, value in given.items():
        if part in ("dim", "rows"):
            if not isinstance(value, (int, np.integer)) or isinstance(value, bool):
                raise BadInput(f"{part} of table '{name}' is {value!r}: it must be an int")
            table[part] = int(value)
        elif value is not None:
            table[part] = value if part == "keys" else _toml(value)
    return table


def _by_table(batch: Any) -> Any:
    if not isinstance(batch, Mapping):
        raise BadInput(f"a batch is a {type(batch).__name__}: it must be a dict, of the keys of each table by its name")
    return batch.items()


def _keys(name: str, keys: Any) -> Any:
    try:
        values = np.asarray(keys).reshape(-1)
    except ValueError as e:
        raise BadInput(f"keys of table '{name}' are lists of different lengths: {e}") from e
    if values.dtype.kind in "iu":
        return np.unique(values).tolist()
    listed = values.tolist()
    if values.dtype.kind in "SUO" and all(isinstance(key, (str, bytes)) for key in listed):
        return sorted({key if isinstance(key, str) else key.decode("utf-8", "replace") for key in listed})
    raise BadInput(f"keys of table '{name}' must be integers, or str and bytes, not {values.dtype}")
