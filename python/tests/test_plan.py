"""embers.plan(): real processes of the program, a moment each."""
import os

import embers
import numpy as np
import pytest

PROGRAM = os.environ.get("EMBERS_PROGRAM")
processes = pytest.mark.skipif(not PROGRAM, reason="EMBERS_PROGRAM says where embers is")


@processes
def test_each_table_gets_both_strategies_measured():
    plan = embers.plan(tables={"actions": dict(dim=64, rows=512, optimizer=embers.Adam(1e-3)), "word": dict(dim=8, keys="bytes")},
                       batches=[{"actions": np.array([[1, 2], [2, 3]]), "word": ["a", b"b", "a"]}, {"actions": [7]}],
                       shards=[2], seconds=0.1)
    assert [s["shards"] for s in plan["shards"]] == [2] and plan["minibatches"] == 2
    actions, word = plan["shards"][0]["tables"]
    assert (actions["name"], actions["rows"], actions["dim"], actions["keys"]) == ("actions", 512, 64, 2)
    assert (word["rows"], word["keys"]) == (None, 1)
    for strategy in ("token", "encoding"):
        assert actions[strategy]["seconds_least"] <= actions[strategy]["seconds"] <= actions[strategy]["seconds_most"]
        assert actions[strategy]["bytes"] > 2 * 2 * 64 * 4  # rows there, gradients back
    recommended = plan["recommended"]
    assert recommended["shards"] == 2 and set(recommended["partitions"]) == {"actions", "word"}
    assert set(recommended["partitions"].values()) <= {"token", "encoding"}


@processes
def test_batches_may_be_endless():
    def batches():
        while True:
            yield {"t": [1]}

    plan = embers.plan(tables={"t": 4}, batches=batches(), minibatches=3, shards=[1], seconds=0.1, mode="sync",
                       optimizer=embers.SGD(0.1))
    assert plan["minibatches"] == 3
    table = plan["shards"][0]["tables"][0]
    assert table["encoding"] is None and "one shard" in table["token_only"]


@processes
@pytest.mark.parametrize("arguments, said", [
    (dict(shards=[0]), "--shards"),
    (dict(tables={"t": 0}), "dim"),
    (dict(tables={"t": dict(dim=4, optimizer="sgdd")}), "sgdd"),
    (dict(tables={"t": dict(dim=4, size=3)}), "size"),
    (dict(tables={}), "at least one table"),
    (dict(batches=[]), "at least one table"),
    (dict(batches=[{"u": [1]}]), "table 'u'"),
    (dict(batches=[{"t": [0.5]}]), "integers"),
    (dict(batches=[{"t": ["a"]}]), "int64"),
    (dict(mode="now"), "now"),
    (dict(data={}), "section"),
    (dict(shards=2), "a list of numbers"),
    (dict(minibatches=-1), "minibatches is -1"),
    (dict(seconds="x"), "seconds is 'x'"),
    (dict(tables=["t"]), "tables is a list"),
    (dict(batches=[[1]]), "a batch is a list"),
    (dict(batches=[{"t": [[1], [1, 2]]}]), "lists of different lengths|must be integers"),
])
def test_bad_input_says_what(arguments, said):
    with pytest.raises(embers.BadInput, match=said):
        embers.plan(**{"tables": {"t": 4}, "batches": [{"t": [1]}], "shards": [1], "seconds": 0.1, **arguments})


def test_a_missing_program_is_said():
    with pytest.raises(embers.BadInput, match="EMBERS_PROGRAM"):
        embers.plan(tables={"t": 4}, batches=[{"t": [1]}], program="/nowhere/embers")
