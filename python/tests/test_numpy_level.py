"""Tables, minibatches and parameters for programs that compute with NumPy, over a job in this process."""
import concurrent.futures
import threading

import embers
import numpy as np
import pytest
from embers import initializers
from embers.errors import BadInput, UsageError
from jobs import BATCH, KEYS, RECORDS, SUM, job, program, rule, server, train  # noqa: F401


def test_every_record_counts_once_in_every_epoch(job):
    table = job.table("user", dim=3)
    first = {}
    seen = np.zeros(RECORDS, int)
    for batch in job.minibatches(RECORDS, BATCH, epochs=3):
        keys = KEYS[batch.records]
        rows = table.lookup(keys)
        assert rows.shape == (len(keys), 3) and rows.dtype == np.float32
        for key, row in zip(keys, rows):
            first.setdefault(key, row)
        table.push(keys, np.ones_like(rows))
        batch.report(loss=0.5, scores=np.full(len(keys), 0.5), labels=np.arange(len(keys)) % 2)
        seen[batch.records] += 1
    assert (seen == 3).all()
    last = table.lookup(KEYS)
    assert np.allclose(last, np.array([first[k] for k in KEYS]) - 3, atol=1e-5)
    job.close()
    report = job.report()
    assert report["examples"] == 3 * RECORDS and report["rows"] == RECORDS
    assert report["epochs"][0]["loss"] == pytest.approx(0.5) if isinstance(report.get("epochs"), list) else True


def test_a_program_may_not_contradict_the_optimizer_of_its_job():
    """Neither wins silently."""
    with embers.local(optimizer=embers.SGD(0.5)) as job:
        job.table("user", dim=1)
        with pytest.raises(embers.Mismatch, match="job 'local' is sgd .*learning_rate = 0.5.*this program's optimizer is adam"):
            next(job.minibatches(8, 4, optimizer=embers.Adam(0.5)))
    for jobs, programs in ((None, embers.SGD(0.5)), (embers.SGD(0.5), None), (embers.SGD(0.5), embers.SGD(0.5))):
        with embers.local(optimizer=jobs) as job:
            table = job.table("user", dim=1, initializer=initializers.Zeros())
            for _ in job.minibatches(4, 4, optimizer=programs):
                table.lookup([1])
                table.push([1], np.ones((1, 1), np.float32))
            assert table.lookup([1]).tolist() == [[-0.5]]


def test_lists_that_are_no_integers_are_not_rounded_to_them(job):
    table = job.table("user", dim=2)
    batch = next(job.minibatches(8, 4))
    for keys in ([1.5], [1, 2.0], [True], [None], [2**64], [[1], [2, 3]], [1, "a"]):
        with pytest.raises(embers.BadInput):
            table.lookup(keys)
    with pytest.raises(embers.UsageError, match="was not looked up"):
        table.push([2], np.ones((1, 2), np.float32))
    assert table.lookup([[1, 2], [3, 4]]).shape == (2, 2, 2)
    batch.skip()


def test_keys_that_were_refused_are_not_taken_for_pulled(job):
    table = job.table("user", dim=2)
    batch = next(job.minibatches(8, 4))
    keys = ["a"]
    for _ in range(2):
        with pytest.raises(embers.BadInput, match="integer keys, but strings"):
            table.lookup(keys)
    with pytest.raises(embers.UsageError, match="was not looked up"):
        table.push(keys, np.ones((1, 2), np.float32))
    batch.skip()


def test_an_array_of_keys_may_be_filled_anew(job):
    table = job.table("user", dim=1, initializer=initializers.Zeros())
    keys = np.array([1, 2])
    for batch in job.minibatches(4, 4):
        table.lookup(keys)
        table.push(keys, np.ones((2, 1), np.float32))
        keys[:] = [3, 4]
        table.lookup(keys)
        table.push(keys, np.full((2, 1), 2, np.float32))
    assert table.lookup([1, 2, 3, 4]).ravel().tolist() == [-1, -1, -2, -2]


def test_numbers_out_of_range_are_refused(job):
    for given in (dict(epochs=-1), dict(epochs=2**40), dict(epochs="x"), dict(batch_size=2**40), dict(records=2**70),
                  dict(seed="x")):
        with pytest.raises(embers.BadInput, match=next(iter(given))):
            next(job.minibatches(**{"records": 8, "batch_size": 4, **given}))
    for name, dim in (("user", 2**40), (3, 2)):
        with pytest.raises(embers.BadInput, match="user|name"):
            job.table(name, dim)


@pytest.fixture
def sync_job():
    """A job in which a minibatch sees what the one before it has pushed."""
    with embers.local(shards=2, mode="sync", optimizer=rule(), training=SUM) as job:
        yield job


@pytest.mark.parametrize("mode", ["async", "bounded", "sync"])
def test_all_modes_train(mode):
    with embers.local(shards=2, mode=mode, optimizer=rule(), training=SUM) as job:
        table = job.table("user", dim=2, initializer=initializers.Zeros())
        assert (train(job, table, epochs=2) == 2).all()
        assert (table.lookup(KEYS) == -2).all()


def test_several_workers_share_the_records():
    with embers.local(shards=2, workers=3, optimizer=rule(), training=SUM) as job:
        seen = np.zeros(400, int)
        errors = []
        keys = np.arange(400)

        def work(mine):
            try:
                table = mine.table("user", dim=2, initializer=initializers.Zeros())
                for batch in mine.minibatches(400, 4):
                    table.lookup(keys[batch.records])
                    table.push(keys[batch.records], np.ones((len(batch.records), 2), np.float32))
                    seen[batch.records] += 1
                mine.close()
            except Exception as e:  # noqa: BLE001
                errors.append(e)

        threads = [threading.Thread(target=work, args=(embers.connect(job.address),)) for _ in range(2)]
        for thread in threads:
            thread.start()
        table = job.table("user", dim=2, initializer=initializers.Zeros())
        for batch in job.minibatches(400, 4):
            table.lookup(keys[batch.records])
            table.push(keys[batch.records], np.ones((len(batch.records), 2), np.float32))
            seen[batch.records] += 1
        for thread in threads:
            thread.join()
        assert not errors and (seen == 1).all()
        assert (table.lookup(keys) == -1).all()


def test_what_is_left_by_break_or_an_error_is_leased_again(job):
    table = job.table("user", dim=1, initializer=initializers.Zeros())
    for batch in job.minibatches(RECORDS, BATCH):
        table.lookup(KEYS[batch.records])
        break
    with pytest.raises(ZeroDivisionError):
        for batch in job.minibatches(RECORDS, BATCH):
            1 / 0
    assert (train(job, table) == 1).all()
    assert (table.lookup(KEYS) == -1).all()


def test_repeated_keys_and_several_pushes_add_up(job):
    table = job.table("user", dim=2, initializer=initializers.Zeros())
    for batch in job.minibatches(1, 1):
        keys = np.array([[4, 9], [4, 4]])
        assert table.lookup(keys).shape == (2, 2, 2)
        table.push(keys, np.ones((2, 2, 2), np.float32))
        table.push(np.array([9]), np.ones((1, 2), np.float32))
    assert table.lookup(np.array([4, 9])).tolist() == [[-3, -3], [-2, -2]]


def test_string_keys_in_lists_and_arrays(job):
    table = job.table("word", dim=1, keys="bytes", initializer=initializers.Zeros())
    words = np.array(["a", "bc", "ä", "", "a"])
    for batch in job.minibatches(2, 1, shuffle=False):
        given = words if batch.number == 0 else list(words)
        table.lookup(given)
        table.push(given, np.ones((5, 1), np.float32))
    assert table.lookup([b"a", "bc", "ä".encode(), "", "never"]).ravel().tolist() == [-4, -2, -2, -2, 0]
    keys, rows = table.export()
    assert dict(zip(keys, rows.ravel().tolist())) == {b"a": -4, b"bc": -2, "ä".encode(): -2, b"": -2}


def test_tables_and_parameters_of_a_minibatch_come_together(sync_job):
    job = sync_job
    user = job.table("user", dim=2, initializer=initializers.Zeros())
    item = job.table("item", dim=1, initializer=initializers.Ones(), optimizer=embers.SGD(0.5))
    w = job.parameter("w", [[1, 2], [3, 4]])
    mean = job.parameter("mean", 0.0, buffer=True)
    for batch in job.minibatches(2, 1):
        rows = batch.pull(user=[1, 2], item=np.array([7]))
        assert rows["user"].shape == (2, 2) and rows["item"].shape == (1, 1)
        assert w.value.dtype == np.float32 and w.value.shape == (2, 2) and mean.value.shape == ()
        user.push([1], np.ones((1, 2), np.float32))
        item.push([7], np.ones((1, 1), np.float32))
        w.push(np.ones((2, 2), np.float32))
        mean.push(np.array(batch.number + 1, np.float32))
        last = w.value.copy()
    assert user.lookup([1, 2]).tolist() == [[-2, -2], [0, 0]] and item.lookup([7]).tolist() == [[0]]
    assert last.tolist() == [[0, 1], [2, 3]]
    assert list(job.tables) == ["user", "item"] and job.table("item").dim == 1


def test_rows_go_out_and_in():
    with embers.local(optimizer=embers.Adagrad(0.1)) as job:
        table = job.table("user", dim=2)
        table.import_(KEYS, np.arange(2 * RECORDS, dtype=np.float32).reshape(-1, 2))
        for batch in job.minibatches(1, 1):
            assert table.lookup(KEYS).tolist() == np.arange(2 * RECORDS).reshape(-1, 2).tolist()
            batch.skip()
        keys, rows = table.export()
        assert sorted(keys) == sorted(KEYS)
        assert (table.lookup(keys) == rows).all()
        table.import_(keys[:3], np.zeros((3, 2), np.float32))
        assert (table.lookup(keys[:3]) == 0).all() and (table.lookup(keys[3:]) == rows[3:]).all()


def test_a_checkpoint_is_gone_on_from(tmp_path):
    saved = str(tmp_path / "saved")
    for epochs in (1, 3):
        with embers.local(shards=epochs, optimizer=rule(), training=SUM, output=saved,
                          resume=saved if epochs > 1 else None) as job:
            table = job.table("user", dim=1, initializer=initializers.Zeros())
            seen = train(job, table, epochs=epochs)
            assert (seen == (1 if epochs == 1 else 2)).all()
            assert (table.lookup(KEYS) == -epochs).all()


# --- buffers -----------------------------------------------------------------------------------------


def test_out_is_written_to_without_a_copy(job):
    table = job.table("user", dim=4)
    train(job, table)
    place = np.zeros((RECORDS, 4), np.float32)
    assert table.lookup(KEYS, out=place) is place
    assert (place == table.lookup(KEYS)).all() and place.any()
    inner = np.zeros((2 * RECORDS, 4), np.float32)
    table.lookup(KEYS, out=inner[RECORDS:])
    assert (inner[RECORDS:] == place).all() and not inner[:RECORDS].any()


@pytest.mark.parametrize("out, error", [
    (np.zeros((RECORDS, 4)), "float64"), (np.zeros((RECORDS, 3), np.float32), r"\(40, 3\).*\(40, 4\)"),
    (np.zeros((4, RECORDS), np.float32).T, "contiguous"), ([0.0], "list"),
    (np.frombuffer(bytes(RECORDS * 16), np.float32).reshape(-1, 4), "read-only")])
def test_a_place_that_does_not_fit_is_refused(job, out, error):
    table = job.table("user", dim=4)
    train(job, table)
    with pytest.raises(embers.BadInput, match=error):
        table.lookup(KEYS, out=out)


def test_rows_and_parameters_are_views_that_outlive_their_minibatch(job):
    job.table("user", dim=2, initializer=initializers.Ones())
    w = job.parameter("w", [1.0, 2.0])
    kept = []
    for batch in job.minibatches(3, 1):
        batch.pull(user=KEYS)
        (one,), (two,) = batch._minibatch.rows(0), batch._minibatch.rows(0)
        assert one.ctypes.data == two.ctypes.data and not one.flags.writeable
        assert w.value.ctypes.data == w.value.ctypes.data and not w.value.flags.writeable
        kept.append((one, w.value))
        batch.skip()
    job.close()
    assert all((rows == 1).all() and w.tolist() == [1, 2] for rows, w in kept)


# --- bad input ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("keys, error", [
    (["a"], "integer keys, but strings were given|int64 keys"), ([1.5], "float64"), ([None], "object|NoneType"), ("user", "one str")])
def test_keys_of_the_wrong_type_are_refused(job, keys, error):
    table = job.table("user", dim=2)
    train(job, table)
    with pytest.raises(embers.BadInput, match=error):
        table.lookup(keys)


def test_gradients_of_the_wrong_kind_are_refused(job):
    table = job.table("user", dim=2)
    w = job.parameter("w", np.zeros(3))
    for batch in job.minibatches(1, 1):
        table.lookup(KEYS)
        for grads, error in ((np.ones((RECORDS, 3), np.float32), r"\(40, 3\), but \(40, 2\)"), (np.ones((RECORDS, 2)), "float64"),
                             ([[1, 2]], "list")):
            with pytest.raises(embers.BadInput, match=error):
                table.push(KEYS, grads)
        with pytest.raises(embers.UsageError, match="a key of table 'user' was not looked up.*: 5"):
            table.push([5], np.ones((1, 2), np.float32))
        with pytest.raises(embers.BadInput, match=r"'w' has the shape \(2,\)"):
            w.push(np.ones(2, np.float32))
        batch.skip()


def test_a_table_defined_twice_must_be_the_same(job):
    job.table("user", dim=2, optimizer=embers.Adam(0.1))
    assert job.table("user", dim=2, optimizer=embers.Adam(0.1)).name == "user"
    with pytest.raises(embers.BadInput, match="defined twice: dim 2, then 3"):
        job.table("user", dim=3, optimizer=embers.Adam(0.1))
    with pytest.raises(embers.BadInput, match="defined twice: optimizer"):
        job.table("user", dim=2)
    with pytest.raises(embers.BadInput, match="at least 1"):
        job.table("item", dim=0)
    with pytest.raises(embers.BadInput, match="'float'"):
        job.table("item", dim=1, keys="float")


def test_calls_at_the_wrong_time_say_so(job):
    table = job.table("user", dim=2)
    with pytest.raises(embers.UsageError, match="no rows yet"):
        table.lookup([1])
    with pytest.raises(embers.UsageError, match="body of a loop"):
        table.push([1], np.ones((1, 2), np.float32))
    with pytest.raises(embers.UsageError, match="nothing was pushed for minibatch 0 of epoch 1"):
        for batch in job.minibatches(2, 1):
            table.lookup([1])
    for batch in job.minibatches(2, 1):
        table.lookup([1])
        with pytest.raises(embers.UsageError, match="too late"):
            job.table("more", dim=1)
        batch.skip()
    job.close()
    with pytest.raises(embers.UsageError, match="closed"):
        table.lookup([1])


def test_rows_may_be_looked_up_one_after_another(sync_job):
    job = sync_job
    user = job.table("user", dim=1, initializer=initializers.Zeros())
    item = job.table("item", dim=1, keys="bytes", initializer=initializers.Zeros())
    for batch in job.minibatches(2, 1):
        with pytest.raises(embers.UsageError, match="was not looked up"):
            user.push([1], np.ones((1, 1), np.float32))
        assert user.lookup([1, 2]).tolist() == [[-batch.number], [-batch.number]]
        user.push([1, 2], np.ones((2, 1), np.float32))
        item.lookup(["a"])
        more = user.lookup([2, 3, 3])
        assert more.tolist() == [[-batch.number], [-2 * batch.number], [-2 * batch.number]]
        user.push([3, 3], np.ones((2, 1), np.float32))
        item.push(["a"], np.ones((1, 1), np.float32))
        assert user.lookup([4]).tolist() == [[0]]
    assert user.lookup([1, 2, 3, 4]).ravel().tolist() == [-2, -2, -4, 0] and item.lookup(["a"]).tolist() == [[-2]]


def test_unknown_tables_are_named_with_the_nearest_one(job):
    train(job, job.table("user", dim=2))
    with pytest.raises(embers.UnknownTable, match="user") as caught:
        job.table("usr").lookup([1])
    assert caught.value.code == "unknownTable" and isinstance(caught.value, ValueError)


def test_values_that_a_job_file_may_not_have_are_refused():
    for options, error in ((dict(mode="fast"), "mode"), (dict(training={"wrong": 1}), "wrong"), (dict(model={}), "section 'model'"),
                           (dict(optimizer="no such rule"), "no such rule"), (dict(storage={"backend": "redis"}), "servers")):
        with pytest.raises(embers.BadInput, match=error):
            embers.local(**options)


def test_workers_must_agree(job):
    train(job, job.table("user", dim=2))
    other = embers.connect(job.address)
    with pytest.raises(embers.Mismatch, match="dim 2,.*dim 3"):
        train(other, other.table("user", dim=3))


def test_nobody_listens():
    with pytest.raises(embers.Unreachable, match="unix:@nobody-is-here"):
        embers.connect("unix:@nobody-is-here", connect_timeout=0.1).table("user").lookup([1])
    with pytest.raises(embers.BadInput, match="EMBERS_MASTER"):
        embers.connect().table("user").lookup([1])
    with pytest.raises(embers.BadInput, match="not both"):
        embers.connect("unix:@x", job_dir="d")


def test_readers_and_the_end_of_a_job():
    with server() as (process, address):
        worker = embers.connect(address)
        table = worker.table("user", dim=2, initializer=initializers.Zeros())
        train(worker, table)
        reader = embers.connect(address)
        assert (reader.table("user").lookup(KEYS) == -1).all() and reader.table("user").dim == 2
        with pytest.raises(embers.BadInput, match="reader"):
            reader._reading_session().import_("user", KEYS, np.zeros((RECORDS, 2), np.float32))
        worker.close()
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline().strip() == str(RECORDS)
        with pytest.raises((embers.Ended, embers.Lost)):
            for _ in range(1000):
                reader.table("user").lookup(KEYS)


def test_rows_that_are_imported_before_the_job_begins():
    with embers.local(optimizer=embers.SGD(1.0)) as job:
        table = job.table("user", dim=1)
        keys = np.empty(10, np.int64)
        for begin in (0, 10, 20):  # a buffer that is filled anew
            keys[:] = np.arange(begin, begin + 10)
            table.import_(keys, np.full((10, 1), begin, np.float32))
        for wrong, said in ((np.ones(1, np.float32), "float32"), (["a"], "int64 keys, but strings"), ([1, 1], "only 1 different")):
            with pytest.raises(BadInput, match=said):
                table.import_(wrong, np.zeros((len(wrong), 1), np.float32))
        for batch in job.minibatches(1, 1):
            assert table.lookup(np.arange(30))[:, 0].tolist() == np.repeat([0, 10, 20], 10).tolist()
            batch.skip()


def test_a_worker_that_comes_later_does_not_undo_what_was_trained(caplog):
    """It runs the same program as those before."""
    def begin(job):
        table = job.table("user", dim=1)
        table.import_([1, 2], np.full((2, 1), 7, np.float32))
        return table, job.minibatches(40, 1, shuffle=False)

    with server() as (_, address), embers.connect(address) as first, embers.connect(address) as late:
        table, batches = begin(first)
        next(batches)
        table.push([1], np.ones_like(table.lookup([1])))
        next(batches, None)  # what the first minibatch pushes has left
        batches.close()
        assert not caplog.records
        table, batches = begin(late)
        next(batches)
        assert table.lookup([1, 2])[:, 0].tolist() == [6, 7]
        batches.close()
    assert any("has trained already" in r.getMessage() for r in caplog.records)


def test_other_threads_read_while_this_one_computes():
    with embers.local(optimizer=embers.SGD(1.0)) as job:
        table = job.table("user", dim=1, initializer="zeros")
        for batch in job.minibatches(1, 1):
            table.lookup([1])
            with concurrent.futures.ThreadPoolExecutor() as pool:
                found = pool.submit(table.lookup, np.arange(100)).result()
            assert found.shape == (100, 1)
            batch.skip()
        assert sorted(table.export()[0]) == [1]


def test_a_scalar_parameter_may_be_pushed_twice():
    with embers.local(optimizer=embers.SGD(1.0), training={**SUM, "mode": "sync"}) as job:
        w = job.parameter("w", 0.0)
        for batch in job.minibatches(2, 1, shuffle=False):
            last = float(w.value)
            w.push(np.array(1, np.float32))
            w.push(np.array(2, np.float32))
    assert last == -3


def test_an_empty_loop_after_the_end_says_why():
    with embers.local() as job:
        table = job.table("user", dim=1)
        for batch in job.minibatches(2, 1):
            batch.skip()
        with pytest.raises(UsageError, match="epochs=n"):
            next(job.minibatches(2, 1))
        with pytest.raises(UsageError, match="batch_size = 1, so 3"):
            next(job.minibatches(2, 3))


def test_wrong_keys_in_a_minibatch_name_the_table():
    with embers.local() as job:
        table = job.table("user", dim=1)
        for batch in job.minibatches(1, 1):
            with pytest.raises(BadInput, match="table 'user': keys are given as an array of float64"):
                table.lookup(np.ones(2))
            batch.skip()


def test_a_job_that_cannot_be_saved_at_the_end_of_the_program_says_so(tmp_path):
    text = """
        import sys, embers, os
        job = embers.local(output=sys.argv[1])
        table = job.table("user", dim=1)
        for batch in job.minibatches(4, 1):
            table.lookup([1]); batch.skip()
            break
        os.rename(sys.argv[1], sys.argv[1] + ".moved") if os.path.exists(sys.argv[1]) else None
        open(sys.argv[1], "w").close()
    """
    with program(text, str(tmp_path / "out")) as process:
        _, said = process.communicate(timeout=60)
    assert "closing the job at the end of the program" in said, said
