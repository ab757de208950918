"""Ctrl-C, forks, threads, and processes that go away."""
import os
import pickle
import signal
import threading
import time

import embers
import numpy as np
import pytest
from embers import initializers
from jobs import BATCH, KEYS, RECORDS, job, line, program, server, train  # noqa: F401

# What waits for long, by name: the program prints a line, then does it.
WAITS = {
    "joining a master that says nothing": """
        import socket, embers
        s = socket.socket(socket.AF_UNIX); s.bind("\\0embers-test-%d" % __import__("os").getpid()); s.listen()
        job = embers.connect("unix:@" + s.getsockname()[1:].decode(), connect_timeout=100)
        print("waits", flush=True)
        job.table("user").lookup([1])
    """,
    "waiting for a job to begin": """
        import embers
        job = embers.local(workers=2)
        job.table("user", dim=1)
        print("waits", flush=True)
        next(job.minibatches(1, 1))
    """,
    "waiting for minibatches that another worker holds": """
        import embers
        job = embers.local()
        job.table("user", dim=1)
        loop = job.minibatches(1, 1)
        next(loop)
        print("waits", flush=True)
        job._worker_session.lease()
    """,
}


@pytest.mark.parametrize("what", WAITS)
def test_ctrl_c_ends(what):
    with program(WAITS[what]) as process:
        assert line(process) == "waits"
        time.sleep(0.3)  # so that it most likely waits; the outcome is the same if it does not yet
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=20)
        assert process.returncode in (-signal.SIGINT, 130, 1) and "KeyboardInterrupt" in said


def in_child(call):
    """What a forked child that leaves as Python does says; it must end by itself."""
    here, there = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            text = call()
        except BaseException as e:  # noqa: BLE001
            text = f"{type(e).__name__}: {e}"
        os.write(there, text.encode())
        os._exit(0)
    os.close(there)
    with os.fdopen(here) as pipe:
        text = pipe.read()
    assert os.waitpid(child, 0)[1] == 0
    return text


def test_a_forked_child_is_told_to_connect_again(job):
    table = job.table("user", dim=2, initializer=initializers.Zeros())
    train(job, table)
    assert "connected before fork: connect again here" in in_child(lambda: str(table.lookup(KEYS)))
    assert "connected before fork" in in_child(lambda: str(job._worker_session.lookup("user", KEYS)))
    assert in_child(lambda: str(job.close())) == "None"
    address = job.address
    assert in_child(lambda: str(embers.connect(address).table("user").lookup(KEYS[:2]).tolist())) == "[[-1.0, -1.0], [-1.0, -1.0]]"
    assert (table.lookup(KEYS) == -1).all(), "the parent's connections are as they were"


def test_a_child_that_leaves_through_python_does_no_harm():
    with program("""
        import os, sys, embers, jobs
        from jobs import *
        with embers.local(shards=2) as job:
            table = job.table("user", dim=2)
            for batch in job.minibatches(RECORDS, BATCH):
                table.lookup(KEYS)
                if batch.number == 0 and os.fork() == 0:
                    del batch
                    sys.exit(0)      # runs what was registered for the exit, and destructors
                if batch.number == 0:
                    assert os.wait()[1] == 0
                batch.skip()
        print(job.report()["examples"], flush=True)
    """) as process:
        assert line(process) == str(RECORDS)
        process.communicate(timeout=60)
        assert process.returncode == 0


def test_a_job_that_is_pickled_connects_anew():
    with server() as (_, address):
        worker = embers.connect(address)
        train(worker, worker.table("user", dim=2, initializer=initializers.Zeros()))
        copy = pickle.loads(pickle.dumps(worker))
        assert (copy.table("user").lookup(KEYS) == -1).all()
    with embers.local() as job:
        with pytest.raises(embers.UsageError, match="lives in this process"):
            pickle.dumps(job)


def test_a_killed_worker_is_noticed_although_its_children_live():
    with server() as (process, address):
        with program("""
            import os, sys, time, embers
            from jobs import *
            job = embers.connect(sys.argv[1])
            table = job.table("user", dim=2, initializer=embers.initializers.Zeros())
            loop = job.minibatches(RECORDS, BATCH)
            batch = next(loop)
            child = os.fork()
            if child == 0:
                time.sleep(600)
                os._exit(0)
            print(child, flush=True)
            time.sleep(600)
        """, address) as killed:
            child = int(line(killed))
            try:
                killed.send_signal(signal.SIGKILL)
                killed.wait()
                job = embers.connect(address)
                table = job.table("user", dim=2, initializer=initializers.Zeros())
                assert (train(job, table) == 1).all()
                os.kill(child, 0)  # it is still there, holding what it inherited
            finally:
                os.kill(child, signal.SIGKILL)
        job.close()


def test_a_master_that_is_killed_ends_what_waits():
    with server() as (process, address):
        job = embers.connect(address, timeout=20)
        table = job.table("user", dim=2)
        loop = job.minibatches(RECORDS, BATCH, epochs=1000)
        next(loop)
        table.lookup(KEYS)
        process.send_signal(signal.SIGKILL)
        process.wait()
        with pytest.raises(embers.Error) as caught:
            job._worker_session.lease()
            job._worker_session.lease()
            while True:
                job._worker_session.lease(30)
        assert isinstance(caught.value, (embers.GiveUp, embers.Retry)) and str(caught.value)
        with pytest.raises(embers.Error):
            job._worker_session.lookup("user", KEYS)
        job.close()


def test_threads_look_up_beside_each_other(job):
    table = job.table("user", dim=2, initializer=initializers.Zeros())
    train(job, table)
    wrong = []

    def look():
        for _ in range(50):
            if not (job._lookup("user", KEYS) == -1).all():
                wrong.append(1)

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_the_gil_is_free_while_a_call_waits(job):
    table = job.table("user", dim=1)
    loop = job.minibatches(1, 1)
    next(loop)
    raised = []

    def wait():
        try:
            job._worker_session.lease(2)
        except embers.Timeout as e:
            raised.append(str(e))

    thread = threading.Thread(target=wait)
    thread.start()
    steps = 0
    while thread.is_alive():
        steps += 1
    thread.join()
    assert raised == ["no minibatch was leased within 2 s: others hold what is left"] and steps > 1000
    loop.close()
    del table


def test_a_minibatch_is_one_thread_s_at_a_time(job):
    job.table("user", dim=1)
    loop = job.minibatches(1, 1)
    batch = next(loop)
    batch.pull(user=np.arange(1000))
    batch.skip()
    assert next(loop, None) is None
    with pytest.raises(embers.BadInput, match="over"):
        batch._minibatch.pull([])
