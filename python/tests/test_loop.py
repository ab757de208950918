"""job.train() over a fake job: workers are threads, which come, go and are killed."""
import multiprocessing.popen_fork
import threading
import time

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset

import embers
import embers.torch as et
import fake_core

RECORDS, BATCH = 90, 4

# A process that one thread starts while another is starting one inherits the pipe by which the end of that one is noticed:
# both loaders then wait five seconds at their ends.
_forks = threading.Lock()
_launch = multiprocessing.popen_fork.Popen._launch


def _launch_alone(self, process):
    with _forks:
        _launch(self, process)


multiprocessing.popen_fork.Popen._launch = _launch_alone


class Records(Dataset):
    """Record i: three ids, a number, i itself, and noise that depends on (epoch, record)."""

    def __init__(self, slow=0.0, bad=None):
        random = np.random.default_rng(1)
        self.ids = random.integers(0, 40, (RECORDS, 3))
        self.slow, self.bad = slow, bad

    def __len__(self):
        return RECORDS

    def __getitem__(self, i):
        if i == self.bad:
            raise ValueError(f"record {i} is bad")
        time.sleep(self.slow)
        noise = np.random.default_rng(embers.record_seed()).normal()
        return dict(ids=torch.from_numpy(self.ids[i]), y=float(self.ids[i].sum() % 2), record=i, noise=np.float32(noise))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.bag = et.EmbeddingBag(None, 4, mode="sum")
        self.norm = torch.nn.BatchNorm1d(4)
        self.top = torch.nn.Linear(5, 1)

    def forward(self, batch):
        x = torch.nn.functional.dropout(self.norm(self.bag(batch["ids"])), 0.2, self.training)
        return self.top(torch.cat([x, batch["noise"].unsqueeze(1)], 1)).squeeze(1)


def model(seed=0):
    torch.manual_seed(seed)
    return Net()


KEYS = {"none": None, "known": lambda batch: {"bag": batch["ids"]}}


class Seeding(et.Optimizer):
    """torch's random numbers belong to the process, so steps of two threads must not mix."""

    lock = threading.Lock()

    def begin(self, step):
        with self.lock:
            super().begin(step)


class Kill:
    """Of all workers that have it, the first with so many steps is killed."""

    def __init__(self, after):
        self.after, self.victim = after, None

    def takes(self, worker):  # under Seeding.lock
        if self.victim is None and worker.steps >= self.after:
            self.victim = worker
        return self.victim is worker


class Worker(threading.Thread):
    """Trains as a user's script does."""

    def __init__(self, cluster, num_workers=0, epochs=2, keys=None, kill=None, slow=0.0, accumulate=1, delay=0.0):
        super().__init__(daemon=True)
        self.job = fake_core.FakeJob(cluster)
        self.model = model()
        self.opt = Seeding(self.model, self.job)
        self.loader = DataLoader(Records(slow), batch_sampler=self.job.batches(RECORDS, BATCH, seed=3, accumulate=accumulate),
                                 num_workers=num_workers, generator=torch.Generator())
        self.epochs, self.keys, self.kill, self.delay = epochs, keys, kill, delay
        self.steps, self.seen_epochs, self.error = 0, [], None

    def run(self):
        try:
            time.sleep(self.delay)
            for epoch in self.job.epochs(self.epochs):
                self.seen_epochs.append(epoch)
                batches = iter(self.job.train(self.loader, keys=self.keys))
                while True:
                    batch = next(batches, None)
                    if batch is None:
                        break
                    self.step(batch)
        except fake_core.Killed:
            pass
        except BaseException as e:  # for join()
            self.error = e

    def step(self, batch):
        with Seeding.lock:
            step = self.job._current_step()
            torch.manual_seed(embers.sampler.mix(3, step.minibatch.epoch, step.minibatch.number, step.part))
            loss = torch.nn.functional.binary_cross_entropy_with_logits(self.model(batch), batch["y"].float())
            loss.backward()
            is_killed = self.kill is not None and self.kill.takes(self)
        if is_killed:
            self.job._worker_session.kill()
        if self.job.step_due:
            self.opt.step(loss)
            self.steps += 1


def run(cluster, *workers):
    for w in workers:
        w.start()
    for w in workers:
        w.join(60)
        assert not w.is_alive(), "a worker hangs"
    for w in workers:
        if w.error is not None:
            raise w.error
    return result(cluster)


def result(cluster):
    """Everything that training leaves, as bytes."""
    rows = {key: row.tobytes() for key, row in sorted(cluster.rows["bag"].items())}
    return rows, [p.tobytes() for p in cluster.parameters]


def each_counted_once(cluster, epochs=2, minibatches=-(-RECORDS // BATCH)):
    assert sorted(cluster.counted) == [(e, n) for e in range(1, epochs + 1) for n in range(minibatches)]
    assert set(cluster.counted.values()) == {1}


@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("num_workers", [0, 2])
def test_sync_ends_with_the_same_bits(num_workers, keys):
    results = []
    for workers in (1, 2, 3):
        cluster = fake_core.Cluster("sync", grads_to_wait=3)
        results.append(run(cluster, *[Worker(cluster, num_workers, keys=KEYS[keys]) for _ in range(workers)]))
        each_counted_once(cluster)
    for other in results[1:]:
        assert other == results[0]
    if (num_workers, keys) != (0, "none"):
        cluster = fake_core.Cluster("sync", grads_to_wait=3)
        assert run(cluster, Worker(cluster)) == results[0]


@pytest.mark.parametrize("kill_after", [0, 1, 5])
@pytest.mark.parametrize("num_workers", [0, 2])
def test_sync_ends_with_the_same_bits_when_a_worker_is_killed(num_workers, kill_after):
    cluster = fake_core.Cluster("sync", grads_to_wait=3)
    expected = run(cluster, Worker(cluster))
    for keys in KEYS.values():
        cluster = fake_core.Cluster("sync", grads_to_wait=3)
        kill = Kill(kill_after)
        assert run(cluster, *(Worker(cluster, num_workers, keys=keys, kill=kill) for _ in range(3))) == expected
        each_counted_once(cluster)
        assert kill.victim.steps == kill_after


@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("num_workers", [0, 2])
def test_async_counts_each_record_once_whoever_comes_and_goes(num_workers, keys):
    cluster = fake_core.Cluster("async")
    run(cluster, Worker(cluster, num_workers, keys=KEYS[keys], kill=Kill(2), slow=0.002),
        Worker(cluster, num_workers, keys=KEYS[keys], slow=0.001),
        Worker(cluster, num_workers, keys=KEYS[keys], delay=0.2))
    each_counted_once(cluster)


def test_all_minibatches_of_a_version_are_shared_among_workers():
    least = 0
    for _ in range(5):  # one may come late
        cluster = fake_core.Cluster("sync", grads_to_wait=3)
        workers = [Worker(cluster, 2, slow=0.003) for _ in range(3)]
        run(cluster, *workers)
        least = max(least, min(w.steps for w in workers))
        if least >= 8:  # of 46; alone they could not have one of each version
            return
    pytest.fail(f"one of three workers had at most {least} of 46 minibatches")


@pytest.mark.parametrize("num_workers", [0, 2])
def test_known_keys_cost_one_pull(num_workers):
    cluster = fake_core.Cluster()
    run(cluster, Worker(cluster, num_workers, keys=KEYS["known"]))
    assert cluster.pulls == 46
    cluster = fake_core.Cluster()
    run(cluster, Worker(cluster, num_workers))
    assert cluster.pulls == 92  # dense parameters, then rows


def test_accumulated_batches_are_one_minibatch():
    cluster = fake_core.Cluster("sync")
    run(cluster, Worker(cluster, 2, accumulate=4))
    each_counted_once(cluster, minibatches=6)
    known = fake_core.Cluster("sync")
    run(known, Worker(known, 0, accumulate=4, keys=KEYS["known"]))
    assert result(known) == result(cluster)
    assert known.pulls == 12
