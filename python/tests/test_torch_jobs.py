"""Jobs of PyTorch models with real masters, shards and worker processes."""
import json
import multiprocessing.connection
import signal

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import embers
import embers.torch as et
import test_loop
import torch_worker
from embers.errors import Mismatch, UsageError
from jobs import line, program, server

# Forked from a process that has imported everything and does nothing else: importing torch is most of what a worker costs.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["pytest.__main__", "torch_worker", "host_worker"])

SERVER = """
    import sys, json, embers
    job = embers.local(job={"heartbeat_timeout": 5}, **json.loads(sys.argv[1]))
    print(job.address, flush=True)
    sys.stdin.readline()
    job.close()
    print(json.dumps(job.report()), flush=True)
"""


class Server:
    def __init__(self, **options):
        self._program = program(SERVER, json.dumps(options))

    def __enter__(self):
        self._process = self._program.__enter__()
        self.address = self._process.stdout.readline().strip()
        return self

    def report(self):
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def __exit__(self, *error):
        return self._program.__exit__(*error)


class Workers:
    """Worker processes of a job; those that are left at the end are killed."""

    def __init__(self, address, *options, work=None):
        self.address, self.options, self.work = address, options, work

    def __enter__(self):
        self.processes, self.answers = [], []
        for options in self.options:
            answer, theirs = PROCESSES.Pipe(duplex=False)
            process = PROCESSES.Process(target=torch_worker.main, args=(theirs, self.address, options, self.work))
            process.start()
            theirs.close()
            self.processes.append(process)
            self.answers.append(answer)
        return self

    def __exit__(self, *_):
        for process, answer in zip(self.processes, self.answers):
            process.kill()
            process.join()
            answer.close()

    def results(self):
        """What each worker found; None for those that were killed."""
        return [self._result(*worker) for worker in zip(self.processes, self.answers, self.options)]

    def _result(self, process, answer, options):
        ready = multiprocessing.connection.wait([process.sentinel, answer], timeout=120)
        assert ready, "a worker hangs"
        try:
            found, error = answer.recv() if answer.poll() else (None, None)
        except EOFError:  # it was killed, or has crashed
            found, error = None, None
        if error is not None:
            pytest.fail(error)
        process.join(120)
        assert process.exitcode == (0 if found else -signal.SIGKILL) and (found or options.get("deaths"))
        return found


def trained(mode, *workers, grads_to_wait=3, together=True, **more):
    """Trains with these workers; returns what they found, and the master's report."""
    training = {"grads_to_wait": grads_to_wait} if mode == "sync" else {}
    with Server(mode=mode, shards=2, workers=len(workers) if together else 1, training=training,
                **more) as server:
        with Workers(server.address, *workers) as processes:
            results = processes.results()
        return results, server.report()


@pytest.fixture(scope="module")
def expected():
    """What one worker ends with in sync mode."""
    (one,), report = trained("sync", {})
    assert one["steps"] == 46 and report["examples"] == 2 * test_loop.RECORDS
    return one["digest"]


@pytest.mark.parametrize("options", [dict(num_workers=2), dict(known=True), dict(num_workers=2, known=True)],
                         ids=["loader processes", "known keys", "both"])
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_sync_ends_with_the_same_bits(expected, workers, options):
    results, report = trained("sync", *[options] * workers)
    assert [r["digest"] for r in results] == [expected] * workers
    assert sum(r["steps"] for r in results) == 46 and report["examples"] == 2 * test_loop.RECORDS


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("die_after", [0, 3])
def test_sync_ends_with_the_same_bits_when_a_worker_is_killed(expected, num_workers, die_after, tmp_path):
    common = dict(num_workers=num_workers, known=True, deaths=[(die_after, str(tmp_path / "died"))])
    results, _ = trained("sync", common, common, common)
    assert [r["digest"] for r in results if r] == [expected] * 2


@pytest.mark.parametrize("options", [dict(), dict(num_workers=2, known=True)], ids=["plain", "loader processes, known keys"])
def test_sync_ends_with_the_same_bits_when_it_is_saved_and_when_it_goes_on_from_there(expected, options, tmp_path):
    saved = str(tmp_path / "saved")
    saving = dict(options, save=saved, save_at=8)
    results, _ = trained("sync", saving, saving)
    assert [r["digest"] for r in results] == [expected] * 2
    results, report = trained("sync", options, options, resume=saved)
    assert [r["digest"] for r in results] == [expected] * 2
    assert 8 <= 46 - sum(r["steps"] for r in results) <= 46 - 8 and 0 < report["examples"] < 2 * test_loop.RECORDS


@pytest.mark.parametrize("mode", ["async", "bounded"])
def test_each_record_counts_once_under_kills(mode, tmp_path):
    """In the first epoch each record's row gets a gradient of 1, at a learning rate of 1."""
    common = dict(num_workers=2, slow=0.002, deaths=[(n, str(tmp_path / f"died {n}")) for n in (2, 4)])
    results, report = trained(mode, common, common, common)
    assert report["examples"] == 2 * test_loop.RECORDS and sum(r is None for r in results) == 2


class Probe(torch.nn.Module):
    """Record i has key i, whose row says how often it counted."""

    def __init__(self):
        super().__init__()
        self.counts = et.Embedding(None, 1, initializer="zeros", optimizer=embers.SGD(1.0))

    def forward(self, records):
        return -self.counts(records).sum()


def probe_loader(job, records=100, batch=7, seed=0, num_workers=0):
    return DataLoader(torch.arange(records), batch_sampler=job.batches(records, batch, seed=seed), num_workers=num_workers)


def test_a_local_job_counts_each_record_once():
    with embers.local(shards=2) as job:
        net = Probe()
        opt = et.Optimizer(net, job)
        loader = probe_loader(job)
        for epoch in job.epochs(3):
            for records in job.train(loader, keys=lambda records: {"counts": records}):
                net(records).backward()
                opt.step()
            with job.reading(net):
                assert torch.equal(net.counts(torch.arange(101)).view(-1), torch.tensor([float(epoch)] * 100 + [0.0]))
        keys, rows = job.table("counts").export()
        assert sorted(keys) == list(range(100)) and (rows == 3).all()


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_job_is_saved_after_a_step_though_rows_are_pulled_ahead(tmp_path, num_workers):
    options = dict(shards=2, optimizer=embers.SGD(1.0))
    saved = []
    with embers.local(**options) as job:
        net = Probe()
        opt = et.Optimizer(net, job)
        loader = probe_loader(job, num_workers=num_workers)
        for epoch in job.epochs(2):
            for i, records in enumerate(job.train(loader, keys=lambda records: {"counts": records}, ahead=3)):
                with pytest.raises(UsageError, match="is under way.* after opt.step()"):
                    job.save(tmp_path / "early")
                net(records).backward()
                opt.step()
                if i % 4 == 0:
                    saved.append(str(tmp_path / f"{epoch}-{i}"))
                    job.save(saved[-1])
            saved.append(str(tmp_path / f"{epoch}"))
            job.save(saved[-1])
        assert (job.table("counts").export()[1] == 2).all()
    assert len(saved) == 10 and not (tmp_path / "early").exists()
    for resume in saved[::3]:
        with embers.local(**options, resume=resume) as job:
            net = Probe()
            opt = et.Optimizer(net, job)
            loader = probe_loader(job)
            for epoch in job.epochs(2):
                for records in job.train(loader):
                    net(records).backward()
                    opt.step()
            assert (job.table("counts").export()[1] == 2).all()


def test_rows_are_pulled_where_a_layer_asks_for_them():
    """The same as with known keys, also where several layers look one table up."""
    found = {}
    for known in (False, True):
        with embers.local(mode="sync", optimizer=embers.Adagrad(0.1)) as job:
            torch.manual_seed(0)
            net = torch.nn.ModuleDict(dict(a=et.Embedding(None, 3, table="t"), b=et.EmbeddingBag(None, 3, table="t"),
                                           words=et.Embedding(None, 2, keys="bytes")))
            opt = et.Optimizer(net, job)
            loader = DataLoader(torch.arange(20), batch_sampler=job.batches(20, 5))
            ids = lambda records: (records, torch.stack([records, 19 - records], 1))  # noqa: E731
            keys = lambda records: {"t": ids(records), "words": [f"w{r % 3}" for r in records]}  # noqa: E731
            for records in job.train(loader, keys=keys if known else None):
                one, two = ids(records)
                loss = (net["a"](one) * net["b"](two)).sum() + net["words"]([f"w{r % 3}" for r in records]).pow(2).sum()
                loss.backward()
                opt.step()
            exported = {name: job.table(name).export() for name in ("t", "words")}
            found[known] = {name: dict(zip(map(repr, keys), rows.tolist())) for name, (keys, rows) in exported.items()}
    assert found[False] == found[True] and len(found[True]["t"]) == 20 and len(found[True]["words"]) == 3


def test_rows_keep_to_max_norm_as_torchs_do():
    ids = torch.tensor([[0, 1], [1, 2]])
    theirs = torch.nn.EmbeddingBag(3, 4, mode="sum", max_norm=0.5)
    # Sync: in async mode a pull may overtake the push before it.
    with embers.local(mode="sync", training={"grads_to_wait": 1}, optimizer=embers.SGD(0.1)) as job:
        ours = et.EmbeddingBag(None, 4, mode="sum", max_norm=0.5, table="t", initializer=embers.initializers.Normal(0.0, 1.0))
        opt = et.Optimizer(ours, job)
        their_opt = torch.optim.SGD(theirs.parameters(), lr=0.1)
        loader = DataLoader(torch.arange(5), batch_sampler=job.batches(5, 1))
        for i, _ in enumerate(job.train(loader)):
            if i == 0:
                theirs.weight.data.copy_(torch.from_numpy(job._lookup("t", np.arange(3))))
            factor = torch.randn(2, 4)
            a, b = theirs(ids), ours(ids)
            torch.testing.assert_close(a, b, atol=1e-6, rtol=0)
            (a * factor).sum().backward()
            (b * factor).sum().backward()
            their_opt.step()
            their_opt.zero_grad()
            opt.step()
        with job.reading(ours):
            torch.testing.assert_close(theirs(ids), ours(ids), atol=1e-5, rtol=0)


def test_a_second_worker_that_differs_is_refused():
    with Server(workers=1) as server:
        first = embers.connect(server.address)
        et.Optimizer(Probe(), first)
        batches = iter(first.train(probe_loader(first)))
        next(batches)
        for different, message in ((dict(batch=8), "batch_size 7 at the master, 8 at the worker"), (dict(seed=1), "sampler.seed")):
            second = embers.connect(server.address)
            et.Optimizer(Probe(), second)
            with pytest.raises(Mismatch, match=message):
                next(second.train(probe_loader(second, **different)))
        batches.close()
        first.close()


def test_a_job_that_is_not_there_says_so():
    job = embers.connect("127.0.0.1:9", connect_timeout=0.2, timeout=1)
    et.Optimizer(Probe(), job)
    with pytest.raises(embers.Error, match="127.0.0.1:9"):
        next(job.train(probe_loader(job)))
    job.close()
    with pytest.raises(UsageError, match="closed"):
        next(job.train(probe_loader(job)))


# The master goes away at ready(), with processes of a loader at work. These hold the pipe to this test: were one left, it
# would not end.
LOADERS = """
    import sys, embers, embers.torch as et, torch
    from torch.utils.data import DataLoader, TensorDataset
    torch.set_num_threads(1)
    state = sys.argv[2]
    data = TensorDataset(torch.arange(400), torch.arange(400) % 2)
    plain = DataLoader(data, batch_size=20, num_workers=2)
    def ready():
        print("ready", flush=True)
        sys.stdin.readline()
    job = embers.connect(sys.argv[1], connect_timeout=3, timeout=5)
    net = torch.nn.Sequential(et.Embedding(None, 4, table="t"), torch.nn.Linear(4, 1), torch.nn.Flatten(0))
    opt = et.Optimizer(net, job)
    loader = DataLoader(data, batch_sampler=job.batches(400, 8), num_workers=2, persistent_workers=state == "persistent")
    try:
        if state == "before it joins":
            held = iter(plain)
            next(held)
            ready()
        for epoch in job.epochs(1000):
            for i, (ids, y) in enumerate(job.train(loader, keys=(lambda b: {"t": b[0]}) if state == "ahead" else None)):
                torch.nn.functional.binary_cross_entropy_with_logits(net(ids), y.float()).backward()
                if i == 5 and state in ("in a step", "ahead", "persistent"):
                    ready()
                opt.step()
            if state == "between epochs":
                ready()
            elif state == "while it evaluates":
                ready()
                while True:
                    job.evaluate(net, plain)
    except embers.Error as e:
        print(e, flush=True)
    job.close()
"""


@pytest.mark.parametrize("state", ["before it joins", "in a step", "ahead", "persistent", "between epochs", "while it evaluates"])
def test_a_master_that_goes_away_leaves_no_loader_process(state):
    with server() as (killed, one), server() as (silent, two):
        with program(LOADERS, one, state) as first, program(LOADERS, two, state) as second:
            assert line(first) == line(second) == "ready"
            killed.kill()
            killed.wait()
            silent.send_signal(signal.SIGSTOP)
            for process, master in ((first, one), (second, two)):
                said, error = process.communicate("go on\n", timeout=60)
                assert process.returncode == 0 and master in said, said + error
