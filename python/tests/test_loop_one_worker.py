"""job.train() of one worker over a fake job: what a user's script does, and does wrong."""
import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset

import embers.torch as et
import fake_core
from embers.errors import UsageError
from test_loop import BATCH, KEYS, RECORDS, Records, Worker, each_counted_once, model, result, run


def one_worker(accumulate=1, num_workers=0, mode="async", **records):
    cluster = fake_core.Cluster(mode)
    job = fake_core.FakeJob(cluster)
    net = model()
    opt = et.Optimizer(net, job)
    loader = DataLoader(Records(**records), batch_sampler=job.batches(RECORDS, BATCH, accumulate=accumulate),
                        num_workers=num_workers)
    return cluster, job, net, opt, loader


def train_one(net, opt, batch):
    net(batch).sum().backward()
    opt.step()


@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("num_workers", [0, 2])
def test_what_may_not_be_begun_is_given_back_and_drawn_again(num_workers, keys):
    cluster, job, net, opt, loader = one_worker(num_workers=num_workers)
    cluster.refuse = {0, 5, 6, 22}
    seen = []
    for batch in job.train(loader, keys=KEYS[keys]):
        numbers = set(job._sampler.of(1, job._current_step().minibatch.number).tolist())
        assert set(batch["record"].tolist()) == numbers  # each batch with its own lease
        seen += batch["record"].tolist()
        train_one(net, opt, batch)
    assert sorted(seen) == list(range(RECORDS)) and not cluster.refuse
    each_counted_once(cluster, epochs=1)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_what_has_begun_is_trained_though_the_next_may_not_begin_before_it_is_done(num_workers):
    cluster, job, net, opt, loader = one_worker(num_workers=num_workers)
    cluster.alone = {1, 6, 7, 22}
    for batch in job.train(loader, keys=KEYS["known"]):
        train_one(net, opt, batch)
    each_counted_once(cluster, epochs=1)


@pytest.mark.parametrize("keys, ahead, overtake", [("none", None, False), ("known", 0, False), ("known", None, True)])
def test_a_minibatch_sees_all_that_was_pushed_unless_it_is_pulled_ahead(keys, ahead, overtake):
    cluster, job, net, opt, loader = one_worker()
    for batch in job.train(loader, keys=KEYS[keys], ahead=ahead):
        train_one(net, opt, batch)
    assert (cluster.unsettled_pulls > 0) is overtake
    each_counted_once(cluster, epochs=1)


@pytest.mark.parametrize("mode, num_workers, ahead, known", [("async", 0, 1, 2), ("async", 0, 2, 3), ("async", 0, 0, 0),
                                                             ("async", 2, 1, 2), ("bounded", 0, 1, 1), ("sync", 0, 1, 0)])
def test_the_master_is_asked_ahead_whether_a_minibatch_may_begin(mode, num_workers, ahead, known):
    """`known`: how many later ones it was asked for while one trains."""
    cluster, job, net, opt, loader = one_worker(num_workers=num_workers, mode=mode)
    last = -(-RECORDS // BATCH) - 1
    for batch in job.train(loader, keys=KEYS["known"], ahead=ahead):
        number = job._current_step().minibatch.number
        assert job._worker_session.asked == set(range(number, min(number + known, last) + 1))
        train_one(net, opt, batch)
    each_counted_once(cluster, epochs=1)


@pytest.mark.parametrize("accumulate", [1, 3])
@pytest.mark.parametrize("num_workers", [0, 2])
def test_nothing_that_was_asked_to_begin_holds_up_a_checkpoint(num_workers, accumulate):
    cluster, job, net, opt, loader = one_worker(num_workers=num_workers, accumulate=accumulate)
    steps = 0
    for batch in job.train(loader, keys=KEYS["known"]):
        net(batch).sum().backward()
        if not job.step_due:
            continue
        opt.step()
        steps += 1
        if steps % 3 == 2:
            for _ in range(2):
                job._run.give_back_begun()  # as job.save() does
                assert not job._worker_session.asked
                drawn = {part.minibatch.number for part in job._sampler.drawn if part.minibatch.state != "over"}
                assert set(cluster.leased) == drawn
    each_counted_once(cluster, epochs=1, minibatches=-(-RECORDS // (BATCH * accumulate)))


@pytest.mark.parametrize("num_workers", [0, 2])
def test_break_gives_back_what_was_not_stepped_and_the_epoch_goes_on(num_workers):
    cluster, job, net, opt, loader = one_worker(num_workers=num_workers)
    for i, batch in enumerate(job.train(loader, keys=KEYS["known"])):
        if i == 5:
            break
        train_one(net, opt, batch)
    assert cluster.leased == {} and len(cluster.counted) == 5
    for batch in job.train(loader):
        train_one(net, opt, batch)
    each_counted_once(cluster, epochs=1)
    with pytest.raises(UsageError, match="work is done \\(1 epoch\\)"):
        job.train(loader)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_dataset_may_read_whole_batches(num_workers):
    cluster, job, net, opt, _ = one_worker()
    records = Records()

    class Whole(Dataset):
        def __getitem__(self, chosen):
            return torch.utils.data.default_collate([records[i] for i in chosen])

    loader = DataLoader(Whole(), sampler=job._sampler, batch_size=None, num_workers=num_workers)
    seen = []
    for batch in job.train(loader, keys=KEYS["known"]):
        seen += batch["record"].tolist()
        train_one(net, opt, batch)
    assert sorted(seen) == list(range(RECORDS))
    each_counted_once(cluster, epochs=1)


def test_an_exception_gives_back_too_even_while_its_traceback_lives():
    cluster, job, net, opt, loader = one_worker(num_workers=2)
    kept = None
    try:
        for batch in job.train(loader):
            raise KeyError("mine")
    except KeyError as e:
        kept = e
    for batch in job.train(loader):
        train_one(net, opt, batch)
    each_counted_once(cluster, epochs=1)
    assert kept is not None


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_record_that_cannot_be_read_gives_everything_back(num_workers):
    cluster, job, net, opt, loader = one_worker(num_workers=num_workers, bad=17)
    with pytest.raises(ValueError, match="record 17 is bad"):
        for batch in job.train(loader):
            train_one(net, opt, batch)
    assert cluster.leased == {} and 0 < len(cluster.counted) < 23
    loader.dataset.bad = None
    for batch in job.train(loader):
        train_one(net, opt, batch)
    each_counted_once(cluster, epochs=1)


def test_persistent_workers_go_on_after_break():
    cluster = fake_core.Cluster()
    job = fake_core.FakeJob(cluster)
    net = model()
    opt = et.Optimizer(net, job)
    loader = DataLoader(Records(), batch_sampler=job.batches(RECORDS, BATCH), num_workers=2, persistent_workers=True)
    for epoch in job.epochs(3):
        for i, batch in enumerate(job.train(loader)):
            if i == 3:
                break
            train_one(net, opt, batch)
        seen = set()
        for batch in job.train(loader):
            seen.update(batch["record"].tolist())
            train_one(net, opt, batch)
        assert len(seen) == RECORDS - 3 * BATCH
    each_counted_once(cluster, epochs=3)


def test_a_worker_that_joins_later_begins_with_the_present_epoch():
    cluster = fake_core.Cluster()
    cluster.epoch = 2  # as of a job that is resumed
    worker = Worker(cluster, epochs=3)
    run(cluster, worker)
    assert worker.seen_epochs == [2, 3]


def test_steps_that_are_left_out_or_taken_twice_are_errors():
    _, job, net, opt, loader = one_worker()
    with pytest.raises(UsageError, match="minibatch 0 of epoch 1 was not stepped"):
        for batch in job.train(loader):
            pass
    with pytest.raises(UsageError, match="the step of minibatch 0 of epoch 1 was taken already"):
        for batch in job.train(loader):
            train_one(net, opt, batch)
            opt.step()
    with pytest.raises(UsageError, match="no minibatch: this belongs into the loop"):
        opt.step()
    _, job, net, opt, loader = one_worker(accumulate=2)
    with pytest.raises(UsageError, match="has 2 batches .* this is number 1"):
        for batch in job.train(loader):
            train_one(net, opt, batch)


def test_what_is_called_at_the_wrong_time_says_so():
    _, job, net, opt, loader = one_worker()
    with pytest.raises(UsageError, match="draws its batches by itself"):
        job.train(DataLoader(Records(), batch_size=4))
    with pytest.raises(UsageError, match="iterate over that, not over the loader"):
        next(iter(loader))
    with pytest.raises(UsageError, match="draws 20 batches ahead .* say job.batches\\(..., window=24\\)"):
        job.train(DataLoader(Records(), batch_sampler=job._sampler, num_workers=2, prefetch_factor=10))
    for batch in job.train(loader):
        with pytest.raises(UsageError, match="is being trained: call evaluate"):
            with job.reading(net):
                pass
        opt.skip()
        break
    with pytest.raises(UsageError, match="begun with another model"):
        et.Optimizer(model(), job)
    with pytest.raises(UsageError, match="begun with 1 epochs"):
        next(job.epochs(7))
    bare = fake_core.FakeJob(fake_core.Cluster())
    with pytest.raises(UsageError, match="the job has no model"):
        next(bare.train(DataLoader(Records(), batch_sampler=bare.batches(9, 3))))
    with pytest.raises(UsageError, match="epoch 1 has minibatches left"):
        _, job, net, opt, loader = one_worker()
        for epoch in job.epochs(2):
            pass


def test_a_second_loop_ends_the_first():
    cluster, job, net, opt, loader = one_worker()
    first = iter(job.train(loader))
    train_one(net, opt, next(first))
    next(first)
    for batch in job.train(loader):
        train_one(net, opt, batch)
    each_counted_once(cluster, epochs=1)
    with pytest.raises(UsageError, match="another job.train"):
        next(first)


def test_a_skipped_minibatch_changes_nothing_and_counts():
    cluster, job, net, opt, loader = one_worker()
    before = None
    for i, batch in enumerate(job.train(loader)):
        net(batch).sum().backward()
        before = result(cluster)
        opt.skip()
        assert result(cluster) == before
    each_counted_once(cluster, epochs=1)


def test_workers_that_differ_are_refused():
    cluster, job, net, opt, loader = one_worker()
    job._peek()
    for batch_size, seed in ((BATCH + 1, 0), (BATCH, 1)):
        other = fake_core.FakeJob(cluster)
        et.Optimizer(model(), other)
        loader = DataLoader(Records(), batch_sampler=other.batches(RECORDS, batch_size, seed=seed))
        with pytest.raises(fake_core.Mismatch, match="sampler"):
            next(other.train(loader))


def test_parameters_and_buffers_are_the_jobs():
    cluster, job, net, opt, loader = one_worker()
    mine = {name: p.detach().clone() for name, p in net.named_parameters()}
    for i, batch in enumerate(job.train(loader)):
        if i == 0:  # the job begins with those of its first worker
            for name, p in net.named_parameters():
                assert torch.equal(p, mine[name])
        train_one(net, opt, batch)
    names = [spec.name for spec in cluster.specs]
    assert names == [*dict(net.named_parameters()), *dict(net.named_buffers())]
    assert cluster.parameters[names.index("norm.num_batches_tracked")] == 23
    with torch.no_grad():
        for p in net.parameters():
            p.fill_(7)
    with job.reading(net):
        for spec, value in zip(cluster.specs, cluster.parameters):
            if not spec.buffer:
                np.testing.assert_array_equal(dict(net.named_parameters())[spec.name].detach().numpy(), value)


def test_reading_creates_no_rows():
    cluster, job, net, opt, loader = one_worker()
    for batch in job.train(loader):
        train_one(net, opt, batch)
    rows = set(cluster.rows["bag"])
    with job.reading(net.eval()):
        out = net(dict(ids=torch.tensor([[1000, 1001, 1]]), noise=torch.zeros(1)))
    assert not out.requires_grad and set(cluster.rows["bag"]) == rows


def test_evaluation_reads_what_the_job_has_and_leaves_the_model_as_it_was():
    cluster, job, net, opt, loader = one_worker()
    for batch in job.train(loader):
        train_one(net, opt, batch)
    net.norm.eval()
    test = [dict(ids=torch.tensor([[i, 1, 100 + i]]), noise=torch.zeros(1), y=torch.tensor([float(i % 2)])) for i in range(9)]
    found = job.evaluate(net, test)
    assert set(found) == {"loss", "accuracy", "auc"} and net.training and not net.norm.training
    assert set(cluster.rows["bag"]) <= set(range(40))
    again = job.evaluate(net, test, {"sum": lambda outputs, targets: outputs.sum()})
    with job.reading(net):
        net.eval()
        assert again["sum"] == pytest.approx(sum(net(batch).item() for batch in test), rel=1e-5)


def test_dense_local_trains_with_torchs_optimizer():
    cluster = fake_core.Cluster()
    job = fake_core.FakeJob(cluster)
    net = model()
    opt = et.Optimizer(net, job, dense=torch.optim.SGD(net.parameters(), lr=0.1))
    loader = DataLoader(Records(), batch_sampler=job.batches(RECORDS, BATCH, seed=3))
    owners_cluster = fake_core.Cluster()
    owners_job = fake_core.FakeJob(owners_cluster)
    owners_net = model()
    owners_opt = et.Optimizer(owners_net, owners_job)
    owners_loader = DataLoader(Records(), batch_sampler=owners_job.batches(RECORDS, BATCH, seed=3))
    for n, o, j, l in ((net, opt, job, loader), (owners_net, owners_opt, owners_job, owners_loader)):
        for batch in j.train(l):
            torch.nn.functional.mse_loss(n(batch), batch["y"].float()).backward()
            o.step()
    assert cluster.parameters == []
    with owners_job.reading(owners_net):
        for a, b in zip(net.parameters(), owners_net.parameters()):
            torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-5)
    # Nobody else may join: parameters of two workers would drift apart.
    second = fake_core.FakeJob(cluster)
    other = model()
    et.Optimizer(other, second, dense=torch.optim.SGD(other.parameters(), lr=0.1))
    with pytest.raises(fake_core.Mismatch, match="dense=local"):
        next(second.train(DataLoader(Records(), batch_sampler=second.batches(RECORDS, BATCH, seed=3))))
