"""What users give that cannot be meant: refused where it is given, naming the argument, as BadInput."""
import pathlib

import numpy as np
import pytest

import embers
from jobs import job, rule, train  # noqa: F401

NOT_TEXT = [5, b"x", "", "a\0b", "\ud800:1"]
NOT_SECONDS = [-1, float("nan"), float("inf"), 1e300, "5", None, True]
NOT_COUNTS = [0, -1, 1.5, "2", None, True, np.bool_(True), 10**30]


@pytest.mark.parametrize("arguments", [
    *({"master": value} for value in NOT_TEXT), *({"job_dir": value} for value in (5, "", pathlib.Path("a\0b"))),
    *({"master": "unix:@x", "secret_file": value} for value in (5, "")),
    *({"master": "unix:@x", "insecure": value} for value in ("no", 1, None)),
    *({"master": "unix:@x", "connect_timeout": value} for value in NOT_SECONDS),
    *({"master": "unix:@x", "timeout": value} for value in NOT_SECONDS)])
def test_of_connect(arguments):
    with pytest.raises(embers.BadInput, match=list(arguments)[-1]):
        embers.connect(**arguments)


@pytest.mark.parametrize("arguments", [
    *({"shards": value} for value in NOT_COUNTS), *({"workers": value} for value in NOT_COUNTS),
    *({"seed": value} for value in (-1, 1.5, True, 2**70)), *({"name": value} for value in NOT_TEXT),
    *({"mode": value} for value in (5, None, "", "fast")), *({"timeout": value} for value in NOT_SECONDS),
    *({"output": value} for value in (5, "")), *({"resume": value} for value in (5, "", "/nowhere")),
    *({"optimizer": value} for value in (5, "", embers.SGD, embers.Adam("x"), embers.Adam(True))),
    *({section: value} for section in ("training", "storage", "job") for value in (5, None, [1], {5: 5}, {"": 5})),
    {"training": {"grads_to_wait": True}}, {"nonsense": {}}])
def test_of_local(arguments):
    with pytest.raises(embers.BadInput):
        embers.local(**arguments)


def test_of_paths(tmp_path):
    with embers.local(optimizer=rule(), output=tmp_path / "end") as job:
        train(job, job.table("user", dim=2))
    with embers.local(optimizer=rule(), resume=tmp_path / "end") as job:
        for value in (5, None, "", b"", "a\0b"):
            with pytest.raises(embers.BadInput, match="the directory to load"):
                job.load(value)
            with pytest.raises(embers.BadInput, match="the directory to save to"):
                job.save(value)
        assert not train(job, job.table("user", dim=2)).any(), "all was done before"


@pytest.mark.parametrize("value", [value for value in NOT_COUNTS if value is not None])
def test_of_work(job, value):  # noqa: F811
    for name, call in {"records": lambda: job.batches(value, 1), "batch_size": lambda: job.batches(1, value),
                       "accumulate": lambda: job.batches(1, 1, accumulate=value), "window": lambda: job.batches(1, 1, window=value),
                       "epochs": lambda: job.minibatches(1, 1, epochs=value), "dim": lambda: job.table("user", dim=value)}.items():
        if isinstance(value, int) and value > 1 << 63 or not isinstance(value, int) or value in (0, -1, True):
            with pytest.raises(embers.BadInput, match=name):
                call()
    with pytest.raises(embers.BadInput, match="epochs"):
        next(job.epochs(value))


def test_of_samplers(job):  # noqa: F811
    for name in ("shuffle", "drop_last"):
        with pytest.raises(embers.BadInput, match=f"{name} is 'no': it must be True or False"):
            job.batches(1, 1, **{name: "no"})
    for value in (True, 1.5, "x"):
        with pytest.raises(embers.BadInput, match="seed"):
            job.batches(1, 1, seed=value)


def test_of_tables_and_parameters(job):  # noqa: F811
    for value in NOT_TEXT:
        with pytest.raises(embers.BadInput, match="the name of a table"):
            job.table(value, dim=2)
        with pytest.raises(embers.BadInput, match="the name of a parameter"):
            job.parameter(value, [1.0])
    for keys in (5, "str", ""):
        with pytest.raises(embers.BadInput, match="keys"):
            job.table("user", dim=2, keys=keys)
    for initial in ("abc", [[1], [1, 2]], None, 1j, object()):
        with pytest.raises(embers.BadInput, match="the first value of 'w'"):
            job.parameter("w", initial)


# Lists that NumPy makes no array of, or one of something else.
RAGGED = [[[1], [2, 3]], (1, (2, 3)), [[], [1]], [["a"], ["b", "c"]]]


@pytest.mark.parametrize("keys", RAGGED)
def test_ragged_lists_of_keys(job, keys):  # noqa: F811
    table = job.table("user", dim=2)
    for batch in job.minibatches(1, 1):
        for call in (lambda: table.lookup(keys), lambda: batch.pull(user=keys),
                     lambda: table.push(keys, np.zeros((2, 2), np.float32))):
            with pytest.raises(embers.BadInput, match="one length"):
                call()
        batch.skip()
    for call in (lambda: table.lookup(keys), lambda: table.import_(keys, np.zeros((2, 2), np.float32)),
                 lambda: embers.unique(keys), lambda: embers.unique_strings(keys)):
        with pytest.raises(embers.BadInput, match="its lists must have one length, or be joined into one"):
            call()


def test_keys_and_reports_of_the_wrong_type(job):  # noqa: F811
    table = job.table("user", dim=2)
    for batch in job.minibatches(1, 1):
        with pytest.raises(embers.BadInput, match="pull.* takes keys by table"):
            batch.pull(5)
        with pytest.raises(embers.BadInput, match="the loss is 'x'"):
            batch.report("x")
        batch.skip()
    for keys, said in (([2**64], "int64"), ([None], "NoneType"), ([True], "bool"), ([1.5], "float64"), ({1: 2}, "dict")):
        with pytest.raises(embers.BadInput, match=said):
            table.lookup(keys)
    assert table.lookup([]).shape == (0, 2) and table.lookup([[]]).shape == (1, 0, 2)
