"""Tables whose columns are spread over shards, in programs on NumPy: the same bits as with whole rows."""
import embers
import numpy as np
import pytest
from jobs import BATCH, KEYS, RECORDS


def run(partition, shards, dim, epochs=1, **options):
    """Trains; returns the rows of KEYS, and the table as it is exported."""
    with embers.local(mode="sync", shards=shards, optimizer=embers.Adam(0.1), **options) as job:
        table = job.table("wide", dim=dim, partition=partition)
        for batch in job.minibatches(RECORDS, BATCH, epochs=epochs):
            keys = KEYS[batch.records]
            table.push(keys, table.lookup(keys) + batch.records[:, None].astype(np.float32) / 7)
        rows = table.lookup(KEYS)
        keys, exported = table.export()
        order = np.argsort(keys)
        assert (table.lookup(keys) == exported).all()
        return rows, keys[order], exported[order]


@pytest.mark.parametrize("shards, dim", [(2, 1), (5, 3), (3, 7), (4, 10)])
def test_columns_end_in_the_bits_of_rows(shards, dim):
    for one, other in zip(run("token", 1, dim), run("encoding", shards, dim)):
        assert (one == other).all()


def test_a_partition_that_the_master_chooses_ends_in_the_same_bits():
    for one, other in zip(run("token", 1, 6), run("auto", 3, 6)):
        assert (one == other).all()


def test_a_checkpoint_of_columns_is_gone_on_from_with_rows_and_the_other_way_round(tmp_path):
    whole = run("token", 1, 7, epochs=2)
    for i, (first, then) in enumerate([(("encoding", 3), ("token", 2)), (("token", 2), ("encoding", 4)),
                                       (("encoding", 2), ("encoding", 5))]):
        saved = str(tmp_path / str(i))
        run(*first, 7, output=saved)
        for one, other in zip(whole, run(*then, 7, epochs=2, resume=saved)):
            assert (one == other).all()


def test_imported_rows_are_read_back(tmp_path):
    with embers.local(shards=3, optimizer=embers.SGD(0.5)) as job:
        table = job.table("wide", dim=5, partition="encoding")
        rows = np.arange(5 * RECORDS, dtype=np.float32).reshape(-1, 5)
        for batch in job.minibatches(1, 1):
            table.import_(KEYS, rows)
            assert (table.lookup(KEYS) == rows).all()
            batch.skip()


@pytest.mark.parametrize("partition, error", [
    ("rows", "table 'wide': partition must be token, encoding or auto, not 'rows'"),
    ("Encoding", "partition must be token, encoding or auto, not 'Encoding'"),
])
def test_an_unknown_partition_is_refused(partition, error):
    with embers.local(shards=2, optimizer=embers.SGD(0.5)) as job:
        job.table("wide", dim=4, partition=partition)
        with pytest.raises(embers.BadInput, match=error):
            next(job.minibatches(1, 1))


@pytest.mark.parametrize("given, why", [
    ({"optimizer": '{ name = "group_ftrl" }'}, "optimizer 'group_ftrl' needs whole rows"),
    ({"constraint": "max_norm"}, "constraint 'max_norm' needs whole rows"),
])
def test_what_needs_whole_rows_is_refused(given, why):
    error = (f"table 'wide' cannot have partition = \"encoding\", by which each shard has some columns of every row: {why}; "
             "use partition = \"token\"")
    with embers.local(shards=2, mode="sync", optimizer=embers.SGD(0.5)) as job:
        job.table("wide", dim=4, partition="encoding", **given)
        with pytest.raises(embers.BadInput, match=error):
            next(job.minibatches(1, 1))


def test_a_table_defined_twice_has_one_partition():
    with embers.local(optimizer=embers.SGD(0.5)) as job:
        job.table("wide", dim=4, partition="encoding")
        with pytest.raises(embers.BadInput, match="defined twice: partition 'encoding', then 'token'"):
            job.table("wide", dim=4, partition="token")
        with pytest.raises(embers.BadInput, match="is given partition, but no dim"):
            job.table("other", partition="token")


def test_a_step_that_would_make_some_columns_infinite_ends_the_job():
    """Other shards have changed their columns, so the row cannot be left out as a whole one is."""
    def push(partition):
        with embers.local(shards=2, mode="sync", optimizer=embers.SGD(1e38), training={"on_bad_gradient": "skip"}) as job:
            table = job.table("wide", dim=4, partition=partition, initializer="ones")
            for _ in job.minibatches(2, 1):
                table.lookup([5])
                table.push([5], np.array([[1e10, 0, 0, 0]], np.float32))
            return table.lookup([5])

    assert (push("token") == 1).all()
    with pytest.raises(embers.Error, match="step 1 would make the row of key '5' of table 'wide' infinite or NaN, and a row whose "
                                           "columns are spread over shards cannot be left out"):
        push("encoding")


def test_a_gradient_that_is_bad_in_one_column_is_left_out_for_the_whole_row():
    rows = []
    for partition in ("token", "encoding"):
        with embers.local(shards=3, mode="sync", optimizer=embers.SGD(0.5), training={"on_bad_gradient": "skip"}) as job:
            table = job.table("wide", dim=4, partition=partition, initializer="ones")
            for batch in job.minibatches(2, 1):
                table.lookup([5, 6])
                grads = np.ones((2, 4), np.float32)
                grads[0, 3 * batch.number] = [np.nan, np.inf][batch.number]
                table.push([5, 6], grads)
            rows.append(table.lookup([5, 6]))
        assert job.report()["bad_gradients"] == 2
    assert (rows[0] == rows[1]).all() and (rows[0] == [[1] * 4, [0] * 4]).all()
