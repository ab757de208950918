"""job.save() and job.load(): jobs that are saved in the middle of their work, and such that go on from there."""
import shutil
import threading

import embers
import numpy as np
import pytest
from jobs import BATCH, KEYS, RECORDS, SUM, job, line, program, rule, server, train  # noqa: F401


def rows_of(job):
    return job.table("user").lookup(KEYS)[:, 0]


@pytest.mark.parametrize("mode", ["async", "bounded", "sync"])
def test_a_job_is_saved_after_a_minibatch_and_another_one_does_the_rest(tmp_path, mode):
    options = dict(shards=2, mode=mode, optimizer=rule(), training=SUM)
    seen = np.zeros(RECORDS, int)
    with embers.local(**options) as job:
        table = job.table("user", dim=2, initializer="zeros")
        for batch in job.minibatches(RECORDS, BATCH, epochs=2):
            table.push(KEYS[batch.records], -np.ones_like(table.lookup(KEYS[batch.records])))
            if (batch.epoch, batch.number) == (1, 2):
                with pytest.raises(embers.UsageError, match=r"minibatch 2 of epoch 1 is under way.* after batch.finish\(\)"):
                    job.save(tmp_path / "saved")
                batch.finish()
                seen[batch.records] += 1
                job.save(tmp_path / "saved")
            elif (batch.epoch, batch.number) < (1, 2):
                seen[batch.records] += 1
        assert (rows_of(job) == 2).all()
        job.save(tmp_path / "end")  # the job waits for this program
    with embers.local(**options, resume=str(tmp_path / "saved")) as job:
        seen = train(job, job.table("user", dim=2, initializer="zeros"), epochs=2, grad=-1, seen=seen)
        assert (rows_of(job) == 2).all()
    assert (seen == 2).all()
    assert job.report()["examples"] == 2 * RECORDS - 3 * BATCH
    with embers.local(**options) as job:
        job.table("user", dim=2, initializer="zeros")
        job.load(tmp_path / "end")
        assert not list(job.minibatches(RECORDS, BATCH, epochs=2))
        assert (rows_of(job) == 2).all()


def test_the_state_of_update_rules_is_saved(tmp_path):
    def run(**options):
        job = embers.local(mode="sync", optimizer=embers.Adam(0.1), **options)
        return job, job.table("user", dim=2, initializer="zeros"), job.parameter("w", np.zeros(3))

    def step(batch, table, w):
        table.push(KEYS[batch.records], table.lookup(KEYS[batch.records]) + batch.records[:, None].astype(np.float32) / 7)
        w.push(w.value + np.float32(batch.number))

    job, table, w = run()
    with job:
        for batch in job.minibatches(RECORDS, BATCH, epochs=2):
            step(batch, table, w)
            batch.finish()
            if batch.number == 1 and batch.epoch == 2:
                job.save(tmp_path)
        whole = table.lookup(KEYS)
    job, table, w = run()
    with job:
        address = job.address
        job.load(tmp_path)
        assert job.address != address
        for batch in job.minibatches(RECORDS, BATCH, epochs=2):
            assert (batch.epoch, batch.number) > (2, 1)
            step(batch, table, w)
        assert np.array_equal(table.lookup(KEYS), whole)


def test_a_reader_saves_a_job_while_workers_train(tmp_path):
    go = tmp_path / "go"
    with server(workers=2) as (_, address):
        worker = """
            import os, sys, time, embers, jobs
            with embers.connect(sys.argv[1]) as job:
                table = job.table("user", dim=2, initializer="zeros")
                for i, batch in enumerate(job.minibatches(400, 4, epochs=1, shuffle=False)):
                    time.sleep(0.01 if os.path.exists(sys.argv[2]) else 0.2)
                    table.push(batch.records, -table.lookup(batch.records) - 1)
                    print(batch.number, flush=True)
        """
        with program(worker, address, str(go)) as one, program(worker, address, str(go)) as other:
            for _ in range(5):
                line(one), line(other)
            with embers.connect(address) as job:
                job.save(tmp_path / "saved")
                assert 0 < len(job.table("user").export()[0]) <= 400
            go.touch()
            assert one.wait(30) == 0 and other.wait(30) == 0
    with embers.local(optimizer=rule(), training=SUM, resume=str(tmp_path / "saved")) as job:
        table = job.table("user", dim=2, initializer="zeros")
        for batch in job.minibatches(400, 4, epochs=1, shuffle=False):
            table.push(batch.records, -table.lookup(batch.records) - 1)
        assert (table.lookup(np.arange(400)) == 1).all()
    assert 0 < job.report()["examples"] < 400


def test_a_worker_that_is_in_a_minibatch_is_waited_for(tmp_path):
    with embers.local(workers=2, optimizer=rule(), training={**SUM, "minibatches_per_lease": 1}) as job:
        entered, leaves, saved = threading.Event(), threading.Event(), threading.Event()

        def work(mine, enters, may_leave):
            table = mine.table("user", dim=2)
            for batch in mine.minibatches(400, 4):
                table.push(batch.records, np.zeros_like(table.lookup(batch.records)))
                enters()
                assert may_leave.wait(30)

        def other():
            with embers.connect(job.address) as mine:
                work(mine, entered.set, leaves)

        def save():
            with embers.connect(job.address) as reader:
                reader.save(tmp_path / "saved")
            saved.set()

        def main():
            if not threads[1].ident:
                assert entered.wait(30)
                threads[1].start()
                assert not saved.wait(1.5)
                leaves.set()

        threads = [threading.Thread(target=other), threading.Thread(target=save)]
        threads[0].start()
        work(job, main, leaves)
        for thread in threads:
            thread.join(30)
        assert saved.is_set()


def test_what_cannot_be_saved_or_loaded(tmp_path):
    (tmp_path / "file").write_text("no directory")
    with embers.local(optimizer=rule(), training=SUM) as job:
        with pytest.raises(embers.UsageError, match="this job has no rows yet"):
            job.save(tmp_path / "saved")
        with pytest.raises(embers.BadInput, match="file"):
            job.load(tmp_path / "file")
        with pytest.raises(embers.BadInput, match="nothing"):
            job.load(tmp_path / "nothing")
        table = job.table("user", dim=2, initializer="zeros")
        for batch in job.minibatches(RECORDS, BATCH):
            table.push(KEYS[batch.records], -np.ones_like(table.lookup(KEYS[batch.records])))
            batch.finish()
            with pytest.raises(embers.BadInput, match="file"):
                job.save(tmp_path / "file" / "saved")
        with pytest.raises(embers.UsageError, match="before its first minibatch.*resume="):
            job.load(tmp_path / "saved")
        assert (table.lookup(KEYS) == 1).all()
        with embers.connect(job.address) as reader:
            with pytest.raises(embers.UsageError, match="embers master --resume"):
                reader.load(tmp_path / "saved")
    with pytest.raises(embers.UsageError, match="was closed"):
        job.save(tmp_path / "saved")


def test_checkpoints_that_are_damaged_or_of_another_model_are_named(tmp_path):
    good, bad = tmp_path / "good", tmp_path / "bad"
    options = dict(shards=2, optimizer=embers.Adam(0.1))
    with embers.local(**options, output=good) as job:
        train(job, job.table("user", dim=2))
    for path in [path for path in good.rglob("*") if path.is_file()]:
        for damage in (lambda damaged: damaged.write_bytes(b""), lambda damaged: damaged.unlink(),
                       lambda damaged: damaged.write_bytes(path.read_bytes()[:-9]),
                       lambda damaged: (damaged.unlink(), damaged.mkdir())):
            shutil.copytree(good, bad)
            damage(bad / path.relative_to(good))
            with pytest.raises((embers.Corrupt, embers.BadInput), match=str(bad)):
                with embers.local(**options, resume=bad) as job:
                    train(job, job.table("user", dim=2))
            shutil.rmtree(bad)
    for table, changes in (("user", dict(dim=3)), ("item", dict(dim=2)), ("user", dict(dim=2, keys="bytes"))):
        with embers.local(**options, resume=good) as job:
            with pytest.raises(embers.Mismatch, match=f"{good} was saved by another model"):
                train(job, job.table(table, **changes))
    with pytest.raises(embers.JobFailed, match="saved with the slots of optimizer adam"):
        with embers.local(shards=2, optimizer=rule(), resume=good) as job:
            train(job, job.table("user", dim=2))
