"""The end of jobs: nothing waits for ever, and nothing is left, whatever the program still has of them."""
import signal
import textwrap
import time

import embers
import numpy as np
import pytest
from jobs import BATCH, KEYS, RECORDS, job, line, program, server, train  # noqa: F401


def test_a_batch_may_outlive_its_job():
    with embers.local() as job:
        table = job.table("user", dim=2)
        for batch in job.minibatches(2, 1):
            rows = batch.pull(user=[batch.number])["user"]
            batch.skip()
    with pytest.raises(embers.UsageError, match="minibatch 1 of epoch 1 is over: what it changes left when the body"):
        batch.pull(user=[1])
    with pytest.raises(embers.BadInput, match="cannot pull a minibatch that is over"):
        batch._minibatch.pull([("user", np.array([1]))])
    with pytest.raises(embers.UsageError, match="this job was closed: connect again"):
        table.lookup([1])
    assert rows.shape == (1, 2) and np.isfinite(rows).all()


def test_a_batch_whose_job_is_closed_under_it_says_so():
    job = embers.local()
    table = job.table("user", dim=2)
    for batch in job.minibatches(2, 1):
        minibatch = batch._minibatch
        batch.pull(user=[1])
        job.close()
        for call in (lambda: batch.pull(user=[2]), lambda: batch.push("user", [1], np.ones((1, 2), np.float32)), batch.skip):
            with pytest.raises(embers.UsageError, match="minibatch 0 of epoch 1 was given back when its job was closed: "
                                                        "connect again, and begin another loop"):
                call()
        with pytest.raises(embers.UsageError, match="this job was closed: connect again"):
            table.lookup([1])
        with pytest.raises(embers.BadInput, match="over"):
            minibatch.rows(0)
        break
    assert job.report()["examples"] == 0


def test_what_is_left_by_an_error_is_closed_and_the_error_goes_on():
    with pytest.raises(ZeroDivisionError) as left:
        with embers.local() as job:
            job.table("user", dim=2)
            for batch in job.minibatches(4, 1):
                batch.pull(user=[1])
                batch.skip()
                if batch.number == 1:
                    1 / 0
    with pytest.raises(embers.UsageError, match="minibatch 1 of epoch 1 was given back when its job was closed"):
        batch.pull(user=[2])
    assert job.report()["examples"] == 1
    assert left.value.__context__ is None


def test_a_batch_whose_loop_was_left_says_so():
    with embers.local() as job:
        job.table("user", dim=2)
        for left in job.minibatches(2, 1):
            break
        for batch in job.minibatches(2, 1):
            with pytest.raises(embers.UsageError, match="was given back, because its loop was left: begin another loop"):
                left.pull(user=[1])
            batch.skip()
    assert job.report()["examples"] == 2


def test_jobs_leave_no_threads_and_descriptors():
    with program("""
        import os, time, embers
        def held():
            return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))
        def settled(few):  # what no longer changes; the second time, what must come
            before, since, last = held(), time.monotonic(), time.monotonic() + 30
            while time.monotonic() < since + 0.5 or (few and before[0] > few[0] and time.monotonic() < last):
                time.sleep(0.02)
                now = held()
                if now != before:
                    before, since = now, time.monotonic()
            return before
        kept = []
        def use():
            with embers.local(shards=2) as job:
                users = job.table("user", dim=2)
                for batch in job.minibatches(2, 1):
                    users.lookup([batch.number])
                    users.lookup([7])
                    if batch.number == 0:
                        with embers.connect(job.address) as reader:
                            reader.table("user").lookup([1])
                    batch.skip()
                kept.append(batch)      # whoever lets go of a job last
        few = None
        for jobs in (5, 10):
            for _ in range(jobs):
                use()
            few = settled(few)
            print(*few, flush=True)
    """) as process:
        few, many = ([int(n) for n in line(process).split()] for _ in range(2))
        assert many[0] <= few[0], "descriptors"
        assert many[1] < few[1] + 5, "threads: a few more helpers at most, and none for each job"
        process.communicate(timeout=60)
        assert process.returncode == 0


# What a program may have in its hands when it ends.
HELD = {
    "a job that is not closed": """
        job = embers.local(shards=2)
        job.table("user", dim=2)
        batch = next(job.minibatches(8, 1))
    """,
    "a batch, of a job that is nobody's any more": """
        def batch():
            job = embers.local()
            job.table("user", dim=2)
            loop = job.minibatches(8, 1)
            return next(loop), loop
        batch = batch()
        batch[0].pull(user=[1])
    """,
    "a minibatch of the library's, without its session": """
        job = embers.local()
        job.table("user", dim=2)
        loop = job.minibatches(8, 1)
        next(loop)
        minibatch = job._worker_session.lease()
        del job, loop
    """,
    "a job with a batch in a cycle": """
        job = embers.local()
        job.table("user", dim=2)
        loop = job.minibatches(8, 1)
        cycle = [job, next(loop)]
        cycle.append(cycle)
        del job, loop, cycle
    """,
    "rows, and an iterator in the middle": """
        job = embers.local()
        users = job.table("user", dim=2)
        loop = job.minibatches(8, 1)
        next(loop)
        rows = users.lookup([1])
    """,
    "jobs in a thread that goes on": """
        import threading, time
        def use():
            job = embers.local()
            job.table("user", dim=2)
            batch = next(job.minibatches(8, 1))
            used.set()
            time.sleep(600)
        used = threading.Event()
        threading.Thread(target=use, daemon=True).start()
        used.wait()
    """,
}


@pytest.mark.parametrize("what", HELD)
def test_a_program_may_end_with(what):
    text = textwrap.dedent(HELD[what])
    with program(f"import embers\nprint('begins')\n{text}\nprint('ends')\n") as process:
        said, error = process.communicate(timeout=60)
        assert (process.returncode, said, error) == (0, "begins\nends\n", "")


# The owner is stopped: what is asked of it is not answered.
PULL = """
    import sys, embers
    job = embers.connect(sys.argv[1])
    users = job.table("user", dim=2)
    def use():
        for batch in job.minibatches(100, 1):
            if batch.number == 0:
                print("pulls", flush=True)
                sys.stdin.readline()
            batch.pull(user=[1])
            batch.skip()
    %s
"""


@pytest.mark.parametrize("way", ["use()", "with job: use()"])
def test_ctrl_c_ends_a_pull_from_an_owner_that_does_not_answer(way):
    tries = []
    while len(tries) < 3 and min(tries, default=5) >= 5:  # the machine may have others' work to do
        tries.append(_seconds_to_end(way))
    assert min(tries) < 5, f"from Ctrl-C to the end of the process: {tries} s"


def _seconds_to_end(way):
    with server(job={"heartbeat_timeout": 60}) as (owner, address), program(PULL % way, address) as process:
        assert line(process) == "pulls"
        owner.send_signal(signal.SIGSTOP)
        process.stdin.write("go on\n")
        process.stdin.flush()
        time.sleep(0.5)  # so that it waits
        assert process.poll() is None
        pressed = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=30)
        seconds = time.monotonic() - pressed
        assert process.returncode == -signal.SIGINT and error.rstrip().endswith("KeyboardInterrupt")
        return seconds
