"""Jobs for tests: in this process, and in processes of their own, which end with the test."""
import contextlib
import os
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import embers

RECORDS, BATCH = 40, 8
KEYS = np.arange(RECORDS, dtype=np.int64) * 1_000_003 - 7  # of record i


def train(job, table, epochs=1, grad=1.0, records=RECORDS, batch=BATCH, seen=None):
    """Every record's row gets a gradient of `grad`; returns how often each record was computed here."""
    seen = np.zeros(records, int) if seen is None else seen
    for minibatch in job.minibatches(records, batch, epochs=epochs):
        keys = KEYS[minibatch.records]
        rows = table.lookup(keys)
        table.push(keys, np.full_like(rows, grad))
        seen[minibatch.records] += 1
    return seen


def rule():
    """Rows change by minus the sum of gradients of a minibatch."""
    return embers.SGD(1.0)


SUM = {"reduction": "sum"}


def is_first(path):
    """Whether nobody, in whatever process, has asked for this path before. So whichever worker comes to something first can
    be the one that is killed there: a certain one might come too late."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


@pytest.fixture
def job():
    with embers.local(shards=2, optimizer=rule(), training=SUM) as job:
        yield job


@contextlib.contextmanager
def program(text, *args):
    """A Python program of its own; its standard output is a pipe. It is killed at the end."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path])}
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(text), *args], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.communicate()


def line(process):
    """The next line that it prints; fails with what it says on standard error if it ends before."""
    text = process.stdout.readline()
    if not text:
        process.kill()
        pytest.fail(f"the program ended: {process.communicate()[1]}")
    return text.strip()


# A job whose master and shards are in a process of their own; it prints the address.
SERVER = """
    import sys, embers, jobs
    job = embers.local(shards=2, optimizer=jobs.rule(), training=jobs.SUM, **{"job": {"heartbeat_timeout": 2}, **eval(sys.argv[1])})
    print(job.address, flush=True)
    sys.stdin.readline()
    job.close()
    print(job.report()["examples"], flush=True)
"""


@contextlib.contextmanager
def server(**options):
    """(process, address)"""
    with program(SERVER, repr(options)) as process:
        yield process, line(process)
