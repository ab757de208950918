"""Programs that hold a share of the job's rows: embers.connect(owner=True). The job has no shard processes then."""
import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess

import pytest

import embers
from embers.errors import BadInput, UsageError
from jobs import line, program

PROGRAM = os.environ.get("EMBERS_PROGRAM")
pytestmark = pytest.mark.skipif(not PROGRAM, reason="EMBERS_PROGRAM says where embers is")

JOB = """
[job]
heartbeat_timeout = 4
{optimizer}[training]
mode = "{mode}"
grads_to_wait = {grads}
reduction = "{reduction}"
workers = {workers}
minibatches_per_lease = 1
[storage]
shards = {shards}
"""

# Trains table "user", whose gradients depend on its rows, and counts in "count" how often each record was trained.
REPLICA = """
    import ctypes, os, sys, time, numpy as np, embers
    address, owner, options = sys.argv[1], eval(sys.argv[2]), eval(sys.argv[3])
    with embers.connect(address, owner=owner) as job:
        users = job.table("user", dim=3, initializer="uniform", optimizer=embers.Adam(0.1), partition=options.get("partition"))
        counts = job.table("count", dim=1, initializer="zeros", optimizer=embers.SGD(1.0))
        for i, batch in enumerate(job.minibatches(200, 5, epochs=options.get("epochs", 2))):
            keys = np.array(sorted({int(r) % 37 for r in batch.records}))
            rows = users.lookup(keys)
            counts.push(batch.records, -np.ones_like(counts.lookup(batch.records)))
            users.push(keys, 0.3 * rows + 1e-3 * float(batch.records[0]))
            if not os.path.exists(options.get("hurries", "")):
                time.sleep(options.get("sleep", 0))
            if options.get("says") == i:
                print("trains", flush=True)
                if options.get("fails"):
                    raise TypeError("no such thing")
                ctypes.PyDLL(None).sleep(options.pop("holds", 0))  # the GIL, too
        if options.get("looks"):
            print("counted", float(counts.lookup(np.arange(200)).sum()), flush=True)
    print("closed", flush=True)
"""

SGD = """[optimizer]
name = "sgd"
learning_rate = 1.0
"""


class Master:
    """A master that waits for members; the others are programs of the test."""

    def __init__(self, folder, shards, workers, *words, mode="sync", grads=2, optimizer=SGD, reduction="sum"):
        folder = pathlib.Path(folder)
        self.address, self.folder, self.members = f"unix:{folder}/master.sock", folder, []
        (folder / "job.toml").write_text(JOB.format(optimizer=optimizer, reduction=reduction, mode=mode, grads=grads,
                                                     workers=workers, shards=shards))
        self._command = [PROGRAM, "master", "job.toml", "--listen", self.address, "--dump-rows", "rows", "--report", "report.json",
                         *words]

    def __enter__(self):
        self._stack = contextlib.ExitStack()
        self.log = open(self.folder / "log", "w+")
        self.process = subprocess.Popen(self._command, cwd=self.folder, stdout=self.log, stderr=subprocess.STDOUT)
        return self

    def __exit__(self, *_):
        self._stack.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.log.close()

    def shard(self):
        process = subprocess.Popen([PROGRAM, "shard", "--master", self.address], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)

    def replica(self, owner=True, **options):
        member = self._stack.enter_context(program(REPLICA, self.address, repr(owner), repr(options)))
        self.members.append(member)
        return member

    def said(self):
        return (self.folder / "log").read_text()

    def end(self, status=0):
        """All have ended; the rows, as they were dumped, and the report."""
        for member in self.members:
            _, said = member.communicate(timeout=120)
            assert member.returncode == 0, said + self.said()
        assert self.process.wait(120) == status, self.said()
        return (self.folder / "rows").read_text(), json.loads((self.folder / "report.json").read_text())


def counts(rows):
    return {line.split("\t")[1]: float(re.split(r"\s+", line)[2]) for line in rows.splitlines() if line.startswith("count\t")}


@pytest.mark.parametrize("partition", ["token", "encoding"])
def test_sync_jobs_have_the_same_bits_wherever_the_rows_are(tmp_path, partition):
    with Master(tmp_path, 2, 1) as master:
        master.shard()
        master.shard()
        master.replica(owner=False)
        expected, _ = master.end()
    assert set(counts(expected).values()) == {2.0} and len(counts(expected)) == 200
    for replicas in (1, 2):
        with Master(tmp_path, replicas, replicas) as master:
            for _ in range(replicas):
                master.replica(partition=partition)
            rows, report = master.end()
            assert rows == expected and report["shards"] == report["workers_joined"] == replicas


@pytest.mark.parametrize("strategy", ["TOKEN", "ENCODING"])
def test_host_embeddings_have_the_same_bits(tmp_path, strategy):
    pytest.importorskip("torch")
    import host_worker
    from test_torch_jobs import Workers

    def digests(owner, replicas):
        with Master(tmp_path, replicas, replicas, optimizer="", reduction="mean") as master:
            if not owner:
                master.shard()
            with Workers(master.address, *[dict(strategy=strategy, owner=owner)] * replicas, work=host_worker.train) as workers:
                found = workers.results()
            master.end()
            return {result["digest"] for result in found}

    expected = digests(False, 1)
    assert digests(True, 1) == expected and digests(True, 2) == expected


def test_async_jobs_count_every_record_once_and_rows_are_there_until_all_have_left(tmp_path):
    with Master(tmp_path, 2, 2, mode="async") as master:
        looking = [master.replica(looks=True) for _ in range(2)]
        rows, report = master.end()
        assert report["examples"] == 400 and set(counts(rows).values()) == {2.0}
    assert all(member.returncode == 0 for member in looking)


def test_looked_up_after_the_last_minibatch(tmp_path):
    with Master(tmp_path, 1, 1) as master:
        member = master.replica(looks=True)
        assert line(member) == "counted 400.0"
        assert line(member) == "closed"
        master.end()


def test_ctrl_c_at_one_replica_saves_the_job_and_another_number_of_them_goes_on(tmp_path):
    with Master(tmp_path, 2, 2, "--output", "model", mode="async") as master:
        master.replica(epochs=40, sleep=0.01)
        interrupted = master.replica(epochs=40, sleep=0.01, says=3)
        assert line(interrupted) == "trains"
        interrupted.send_signal(signal.SIGINT)
        _, said = interrupted.communicate(timeout=60)
        assert interrupted.returncode != 0 and "KeyboardInterrupt" in said
        master.members.remove(interrupted)
        _, report = master.end()
        assert report["stopped"] and report["examples"] < 8000
        assert "was asked to stop" in master.said() and "saved to" in master.said()
    with Master(tmp_path, 1, 1, "--resume", "model", mode="async") as master:
        master.replica(epochs=40)
        rows, report = master.end()
        assert not report["stopped"] and set(counts(rows).values()) == {40.0}


def test_a_program_that_fails_takes_no_rows_with_it(tmp_path):
    with Master(tmp_path, 2, 2, "--output", "model", mode="async") as master:
        master.replica(epochs=1000)
        failing = master.replica(epochs=1000, says=3, fails=True)
        _, said = failing.communicate(timeout=60)
        assert failing.returncode == 1 and "TypeError" in said
        master.members.remove(failing)
        _, report = master.end()
        assert report["stopped"] and "saved to" in master.said()


def test_a_drained_replica_computes_no_more_and_keeps_its_rows(tmp_path):
    hurry = tmp_path / "hurry"
    with Master(tmp_path, 2, 2, mode="async") as master:
        replicas = [master.replica(epochs=8, sleep=0.2, hurries=str(hurry), says=3) for _ in range(2)]
        for replica in replicas:
            assert line(replica) == "trains"
        subprocess.run([PROGRAM, "drain", "worker-0", "--master", master.address], check=True)
        hurry.touch()
        rows, report = master.end()
        assert set(counts(rows).values()) == {8.0} and not report["stopped"] and report["workers_lost"] == 0
        assert "worker 0" in master.said() and "left" in master.said()


def test_a_killed_replica_ends_the_job_with_an_error_that_names_its_shard(tmp_path):
    with Master(tmp_path, 2, 2, mode="async") as master:
        other = master.replica(epochs=1000)
        killed = master.replica(epochs=1000, says=3)
        assert line(killed) == "trains"
        killed.kill()
        assert master.process.wait(60) == 1
        assert re.search(rf"lost shard [01] \(pid {killed.pid} ", master.said())
        _, said = other.communicate(timeout=60)
        assert other.returncode == 1 and "lost shard" in said


def test_rows_are_served_while_python_holds_its_lock(tmp_path):
    with Master(tmp_path, 2, 2, mode="async") as master:
        master.replica(epochs=3, sleep=0.01)
        master.replica(epochs=3, says=3, holds=7)  # longer than job.heartbeat_timeout
        rows, report = master.end()
        assert set(counts(rows).values()) == {3.0} and report["workers_lost"] == 0
        assert "lost" not in master.said()


def test_two_owners_in_one_process(tmp_path):
    with Master(tmp_path, 2, 2, mode="async") as master:
        with program("""
            import sys, threading, numpy as np, embers
            def work():
                with embers.connect(sys.argv[1], owner=True) as job:
                    counts = job.table("count", dim=1, initializer="zeros")
                    for batch in job.minibatches(200, 5, epochs=2):
                        counts.push(batch.records, -np.ones_like(counts.lookup(batch.records)))
            threads = [threading.Thread(target=work) for _ in range(2)]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
        """, master.address) as both:
            _, said = both.communicate(timeout=120)
            assert both.returncode == 0, said + master.said()
        rows, report = master.end()
        assert report["shards"] == 2 and set(counts(rows).values()) == {2.0}


def test_a_job_whose_shards_are_all_there_refuses_another_one_and_goes_on(tmp_path):
    with Master(tmp_path, 1, 1, mode="async") as master:
        hurry = tmp_path / "hurry"
        first = master.replica(epochs=3, sleep=0.5, hurries=str(hurry), says=0)  # the job lasts until the other has been refused
        assert line(first) == "trains"
        refused = master.replica(epochs=3)
        _, said = refused.communicate(timeout=60)
        hurry.touch()
        assert refused.returncode == 1 and "this job has 1 shards and all have joined" in said and "owner=True" in said
        master.members.remove(refused)
        rows, _ = master.end()
        assert set(counts(rows).values()) == {3.0}


@pytest.mark.parametrize("owner", [1, "yes", {"listens": []}, {"listen": 7700}, {"advertise": 1}])
def test_what_owner_may_not_be(owner):
    with pytest.raises(BadInput, match="owner"):
        embers.connect("127.0.0.1:1", owner=owner)


def test_addresses_are_checked_when_it_joins(tmp_path):
    with Master(tmp_path, 1, 1) as master:
        for place, said in (({"listen": "nowhere"}, "nowhere"), ({"port_range": "9-7"}, "9-7")):
            with pytest.raises(BadInput, match=said):
                job = embers.connect(master.address, owner=place)
                job.table("count", dim=1)
                next(job.minibatches(10, 1))


def test_rows_cannot_be_read_before_the_program_has_joined(tmp_path):
    job = embers.connect("127.0.0.1:1", owner=True)
    with pytest.raises(UsageError, match="this job has no rows yet"):
        job.table("user").lookup([1])


TORCH = """
    import sys, torch, embers, embers.torch as et
    torch.manual_seed(1); torch.set_num_threads(1)
    data = [(torch.tensor([i % 11, i % 7]), torch.tensor(float(i % 2))) for i in range(60)]
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.users = et.Embedding(None, 4, table="user", initializer="uniform")
            self.out = torch.nn.Linear(8, 1)
        def forward(self, x):
            return self.out(self.users(x).flatten(1)).squeeze(1)
    with embers.connect(sys.argv[1], owner=eval(sys.argv[2])) as job:
        model = Net()
        opt = et.Optimizer(model, job)
        loader = torch.utils.data.DataLoader(data, batch_sampler=job.batches(60, 6))
        for epoch in job.epochs(2):
            for x, y in job.train(loader):
                opt.zero_grad()
                torch.nn.functional.binary_cross_entropy_with_logits(model(x), y).backward()
                opt.step()
"""


def test_layers_of_torch_have_the_same_bits(tmp_path):
    pytest.importorskip("torch")

    def run(owner, replicas):
        with Master(tmp_path, max(replicas, 1), replicas) as master:
            job = (tmp_path / "job.toml").read_text()
            if not owner:
                master.shard()
            with contextlib.ExitStack() as stack:
                for member in [stack.enter_context(program(TORCH, master.address, repr(owner))) for _ in range(replicas)]:
                    _, said = member.communicate(timeout=120)
                    assert member.returncode == 0, said + master.said()
            assert "shards" in job
            return master.end()[0]

    expected = run(False, 1)
    assert run(True, 1) == expected and run(True, 2) == expected
