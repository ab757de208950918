"""A master that goes away, in whatever state a program is: killed, or there but silent, as behind a network that is cut."""
import signal
import textwrap

import pytest

from jobs import line, program, server

READY = """
    import sys, embers, numpy as np
    job = embers.connect(sys.argv[1], connect_timeout=3, timeout=5)
    users = job.table("user", dim=2)
    def ready():
        print("ready", flush=True)
        sys.stdin.readline()
    def step(batch):
        users.push([batch.number], np.ones_like(users.lookup([batch.number])))
        batch.finish()
    try:
"""
ENDS = """
        print("no exception", flush=True)
    except embers.Error as e:
        print(type(e).__name__ + ": " + str(e), flush=True)
    job.close()
    print("closed", flush=True)
"""
# What a program does: its master goes away at ready(), or some time after it.
STATES = {
    "before a worker joins": """
        ready()
        next(job.minibatches(8, 1))
    """,
    "before a reader joins": """
        ready()
        embers.connect(job.address, connect_timeout=3, timeout=5).table("user").lookup([1])
    """,
    "while it waits for the first version": """
        import threading
        threading.Timer(0.5, ready).start()
        next(job.minibatches(8, 1))
    """,
    "before a pull": """
        for batch in job.minibatches(10**6, 1):
            if batch.number == 3:
                ready()
            users.lookup([batch.number])
            batch.skip()
    """,
    "before a push": """
        for batch in job.minibatches(10**6, 1):
            rows = users.lookup([batch.number])
            if batch.number == 3:
                ready()
            users.push([batch.number], np.ones_like(rows))
    """,
    "before it saves": """
        for batch in job.minibatches(10**6, 1):
            step(batch)
            if batch.number == 3:
                ready()
                job.save(sys.argv[2])
    """,
    "while it evaluates": """
        for batch in job.minibatches(2, 1):
            step(batch)
        ready()
        while True:
            users.lookup(np.arange(100))
    """,
    "while it exports": """
        for batch in job.minibatches(2, 1):
            step(batch)
        ready()
        while True:
            users.export()
    """,
    "while it waits for the end of an epoch": """
        loop = job.minibatches(2, 1)
        next(loop)
        ready()
        while job._worker_session.lease() is not None:
            pass
    """,
}


@pytest.mark.parametrize("state", STATES)
def test_is_an_error_that_names_it_and_says_what_to_do(state, tmp_path):
    text = textwrap.dedent(READY) + textwrap.indent(textwrap.dedent(STATES[state]), " " * 4) + textwrap.dedent(ENDS)
    workers = 2 if state == "while it waits for the first version" else 1
    with server(workers=workers) as (killed, one), server(workers=workers) as (silent, two):
        with program(text, one, str(tmp_path)) as first, program(text, two, str(tmp_path)) as second:
            assert line(first) == line(second) == "ready"
            killed.send_signal(signal.SIGKILL)
            killed.wait()
            silent.send_signal(signal.SIGSTOP)
            for process, master in ((first, one), (second, two)):
                said, error = process.communicate("go on\n", timeout=60)
                what, _, closed = said.strip().rpartition("\n")
                assert closed == "closed" and process.returncode == 0, said + error
                assert master in what, what
                advice = ("join again", "Is it running", "is its process stopped", "Has the job ended", "start it", "--resume")
                assert any(text in what for text in advice), what
