"""What users of embers.torch do wrong, or do that torch allows: each is right, or says what to do."""
import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

import embers
import embers.torch as et
from embers.errors import BadInput, UsageError


class Net(nn.Module):
    def __init__(self, **layer):
        super().__init__()
        self.user = et.Embedding(None, 2, initializer="zeros", **layer)
        self.top = nn.Linear(2, 1)


def trained(model, job, records=40, batch_size=10, rule=None):
    """(optimizer, loader over the records)"""
    opt = et.Optimizer(model, job, rule or embers.SGD(1.0))
    return opt, DataLoader(range(records), batch_sampler=job.batches(records, batch_size, shuffle=False))


def bias_after_skips(rule):
    with embers.local() as job:
        net = Net()
        opt, loader = trained(net, job, rule=rule)
        seen = []
        for i, batch in enumerate(job.train(loader)):
            seen.append(float(net.top.bias))
            if i == 0:
                net.top(net.user(batch)).sum().backward()
                opt.step()
            else:
                opt.skip()
        return seen


@pytest.mark.parametrize("rule", [embers.Adam(0.1), embers.SGD(0.1, momentum=0.9)])
def test_what_is_skipped_changes_nothing(rule):
    first, *rest = bias_after_skips(rule)
    assert first != rest[0] and rest == [rest[0]] * 3


def test_a_step_that_fails_gives_its_minibatch_back():
    with embers.local() as job:
        net = Net()
        opt, loader = trained(net, job)
        kept = None
        try:
            for batch in job.train(loader):
                opt.step(net.top(net.user(batch)))
        except BadInput as e:
            kept = e  # with the frame of the loop, as a notebook keeps it
        assert "not one number" in str(kept)
        seen = []
        for batch in job.train(loader):
            net.top(net.user(batch)).sum().backward()
            opt.step()
            seen += batch.tolist()
        assert sorted(seen) == list(range(40))


def summed(net, batch):
    """A loss whose gradient of the bias is the number of records."""
    return net.top(net.user(batch)).sum()


def test_gradients_of_what_was_given_back_or_comes_after_a_step_do_not_count():
    with embers.local() as job:
        net = Net()
        opt, loader = trained(net, job)
        for batch in job.train(loader):
            summed(net, batch).backward()
            break
        for batch in job.train(loader):
            assert net.top.bias.grad is None
            summed(net, batch).backward()
            assert float(net.top.bias.grad) == 10
            opt.step()
            net.top.bias.sum().backward()


@pytest.mark.parametrize("shards", [1, 2])
def test_evaluation_has_every_step_of_this_program(shards):
    with embers.local(shards=shards) as job:
        net = Net()
        opt, loader = trained(net, job, 400)
        first = None
        for i, batch in enumerate(job.train(loader, keys=lambda batch: {"user": batch}, ahead=2)):
            first = float(net.top.bias) if first is None else first
            (net.top.bias.sum() + net.user(batch).sum()).backward()
            opt.step()
            with job.reading(net):
                assert float(net.top.bias) == pytest.approx(first - (i + 1), abs=1e-4)
                assert (net.user(batch) == -1).all()


def test_after_the_loop_the_model_has_what_it_has_learnt():
    with embers.local() as job:
        net = Net()
        opt, loader = trained(net, job, 10)
        for batch in job.train(loader):
            first = float(net.top.bias)
            summed(net, batch).backward()
            opt.step()
        assert float(net.state_dict()["top.bias"]) == pytest.approx(first - 10, abs=1e-5)


def test_a_part_of_the_model_and_what_holds_it_are_read_with_present_parameters():
    with embers.local() as job:
        net = Net()
        opt, loader = trained(net, job)
        last = copy.deepcopy(net)
        for batch in job.train(loader):
            summed(net, batch).backward()
            opt.step()
            before = float(net.top.bias)
            for model in (net.top, nn.Sequential(nn.Identity(), net)):
                with torch.no_grad():
                    net.top.bias.fill_(1e9)
                with job.reading(model):
                    assert float(net.top.bias) == pytest.approx(before - 10, abs=1e-4)
            with torch.no_grad():
                last.top.bias.fill_(1e9)
            with job.reading(last):
                assert float(last.top.bias) == 1e9, "a copy is the user's own"


@pytest.mark.parametrize("bag", [False, True])
def test_a_table_is_frozen_as_torchs_layer_is(bag):
    with embers.local() as job:
        net = Net()
        net.user = et.EmbeddingBag(None, 2, mode="sum", initializer="zeros") if bag else net.user
        assert net.user.requires_grad_(False) is net.user
        opt, loader = trained(net, job)
        weights = torch.ones(10, 1, requires_grad=True)
        for i, batch in enumerate(job.train(loader)):
            net.user.requires_grad_(i == 3)
            out = net.user(batch.unsqueeze(1), per_sample_weights=weights) if bag else net.user(batch)
            assert bag or out.requires_grad == (i == 3)
            net.top(out).sum().backward()
            opt.step()
        keys, rows = job.table("user").export()
        changed = np.abs(rows).max(1) > 0
        assert sorted(np.array(keys)[changed]) == list(range(30, 40))
        assert not bag or weights.grad is not None


def test_a_parameter_that_is_thawed_too_late_is_named(caplog):
    with embers.local() as job:
        net = Net()
        net.top.weight.requires_grad_(False)
        opt, loader = trained(net, job)
        net.top.weight.requires_grad_(True)
        for batch in job.train(loader):
            summed(net, batch).backward()
            opt.step()
    assert [r.getMessage() for r in caplog.records if "top.weight" in r.getMessage()] == [
        "parameter 'top.weight' has a gradient, but was frozen when et.Optimizer was made, so the job does not train it: leave it "
        "trainable then, and clear its .grad before opt.step() for as long as it is to stay"]


def test_a_parameter_of_the_users_own_optimizer_may_thaw_at_any_time(caplog):
    with embers.local() as job:
        net = Net()
        net.top.weight.requires_grad_(False)
        opt = et.Optimizer(net, job, embers.SGD(1.0), dense=torch.optim.SGD(net.parameters(), lr=0.1))
        net.top.weight.requires_grad_(True)
        for batch in job.train(DataLoader(range(10), batch_sampler=job.batches(10, 10))):
            summed(net, batch).backward()
            opt.step()
    assert not [r for r in caplog.records if "top.weight" in r.getMessage()]


def test_reading_of_a_closed_job_says_so():
    with embers.local() as job:
        net = nn.ModuleDict(dict(user=et.Embedding(None, 2, initializer="zeros")))
        opt, loader = trained(net, job)
        for batch in job.train(loader):
            net["user"](batch).sum().backward()
            opt.step()
    with pytest.raises(UsageError, match="closed"):
        with job.reading(net):
            pass


@pytest.mark.filterwarnings("ignore:Using backward")
def test_a_graph_may_be_made_of_the_backward_pass():
    with embers.local() as job:
        net = Net()
        opt, loader = trained(net, job)
        for batch in job.train(loader):
            (net.user(batch) * 3 + net.top.bias.pow(2)).sum().backward(create_graph=True)
            opt.step()
        assert (job.table("user").export()[1] == -3).all()


@pytest.mark.parametrize("setting", ["clipvalue", "clipnorm", "global_clipnorm"])
def test_torchs_optimizer_for_a_rule_that_clips_is_the_users_to_make(setting):
    with embers.local() as job:
        with pytest.raises(BadInput, match=f"has no optimizer of torch for .* with its {setting}: give one"):
            et.Optimizer(Net(), job, embers.SGD(1.0, **{setting: 0.1}), dense="local")


def test_ids_may_be_filled_anew_between_two_lookups():
    with embers.local() as job:
        net = Net()
        opt, loader = trained(net, job)
        job.table("user").import_(np.arange(40), np.arange(80, dtype=np.float32).reshape(-1, 2))
        array, plain, tensor = np.array([1, 2, 3]), [1, 2, 3], torch.from_numpy(np.array([1, 2, 3]))
        for _ in job.train(loader):
            for ids in (array, plain, tensor):
                net.user(ids)
            array[:], plain[:] = [7, 8, 9], [7, 8, 9, 10]
            tensor.numpy()[:] = [7, 8, 9]
            for ids in (array, plain, tensor):
                assert net.user(ids)[:, 0].tolist() == [14.0, 16.0, 18.0, 20.0][:len(ids)]
            opt.skip()


def test_buffers_that_the_model_replaces_are_the_jobs():
    class Counting(Net):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(()))

    with embers.local() as job:
        net = Counting()
        opt, loader = trained(net, job)
        for i, batch in enumerate(job.train(loader)):
            assert float(net.count) == i
            net.count = net.count + 1
            net.top(net.user(batch)).sum().backward()
            opt.step()


def test_integers_that_float32_does_not_have_are_refused():
    class Offsets(Net):
        def __init__(self):
            super().__init__()
            self.register_buffer("offsets", torch.tensor([0, 16777217]))

    with embers.local() as job:
        with pytest.raises(BadInput, match="16777217"):
            trained(Offsets(), job)


def test_parameters_are_not_made_up_by_a_program_that_has_not_joined():
    with embers.local() as job:
        net = Net()
        opt, loader = trained(net, job)
        with pytest.raises(UsageError, match="has not joined"):
            job.evaluate(net, [(torch.arange(3), torch.ones(3))], predict=lambda m, b: (m.top(m.user(b[0])), b[1]))


def test_evaluation_after_a_step_and_within_another_reading():
    test = [(torch.arange(4), torch.tensor([0.0, 1.0, 0.0, 1.0]))]

    def predict(net, batch):
        return net.top(net.user(batch[0])), batch[1]

    with embers.local() as job:
        net = Net()
        opt, loader = trained(net, job)
        for batch in job.train(loader):
            with pytest.raises(UsageError, match="after its step"):
                job.evaluate(net, test, predict=predict)
            net.top(net.user(batch)).sum().backward()
            opt.step()
            found = job.evaluate(net, test, predict=predict)
            assert set(found) == {"loss", "accuracy", "auc"}
        with job.reading(net):
            job.evaluate(net, test, predict=predict)
            net.user(torch.arange(3))


def test_one_optimizer_for_a_job():
    with embers.local() as job:
        one, two = Net(), Net()
        old, _ = trained(one, job)
        new, loader = trained(two, job)
        for batch in job.train(loader):
            with pytest.raises(UsageError, match="another et.Optimizer"):
                old.step()
            new.skip()


def test_other_work_than_the_jobs_comes_too_late():
    with embers.local() as job:
        opt, loader = trained(Net(), job)
        for _ in job.train(loader):
            opt.skip()
        with pytest.raises(UsageError, match=r"job.batches\(40, 10, shuffle=False\), so job.batches\(400, 20\)"):
            job.batches(400, 20)
        with pytest.raises(UsageError, match="1 epoch.*job.epochs"):
            job.train(loader)


@pytest.mark.parametrize("padding, ids", [
    ("pad", [b"pad", b"x"]), ("pad", np.array([b"pad", b"x"])), (b"pad", ["pad", "x"]), (b"pad", np.array(["pad", "x"])),
    ("pad", np.array(["pad", "x"], object)), (b"\xff", [b"\xff", "x"]),
])
def test_padding_is_a_key_as_str_and_as_bytes(padding, ids):
    with embers.local() as job:
        net = Net(keys="bytes", padding_idx=padding)
        net.user._rules = ("{ name = \"constant\", value = 1 }", *net.user._rules[1:])
        opt, loader = trained(net, job)
        for _ in job.train(loader):
            assert net.user(ids).tolist() == [[0, 0], [1, 1]]
            opt.skip()


def test_strings_of_different_kinds_in_one_table():
    with embers.local() as job:
        net = Net(keys="bytes")
        opt, loader = trained(net, job)
        for _ in job.train(loader):
            assert net.user(np.array(["ä".encode()])).shape == (1, 2)
            assert net.user(np.array(["ä", "b"])).shape == (2, 2)
            opt.skip()
        assert sorted(job.table("user").export()[0]) == ["b".encode(), "ä".encode()]


def test_a_gradient_that_is_one_row_for_all_examples():
    """As that of a sum over the batch is."""
    net = nn.Module()
    net.bags = et.EmbeddingBagCollection([et.BagConfig(name, 2, feature_names=[name], initializer="zeros") for name in "ab"])

    def ids(batch):
        return {"a": batch, "b": batch + 100}

    with embers.local(training={"reduction": "sum"}) as job:
        opt = et.Optimizer(net, job, embers.SGD(1.0))
        loader = DataLoader(range(40), batch_sampler=job.batches(40, 10, shuffle=False), collate_fn=lambda b: ids(torch.tensor(b)))
        for batch in job.train(loader, keys=net.bags.keys):
            net.bags(batch).values().sum(0).sum().backward()
            opt.step()
        assert (job.table("a").lookup(np.arange(40)) == -1).all()


@pytest.mark.parametrize("arguments, said", [
    (lambda m, job: (m, job, embers.Adam), "class Adam"), (lambda m, job: (m, job, 1e-3), "0.001"),
    (lambda m, job: (job, m), "takes a torch.nn.Module and a job"),
    (lambda m, job: (m, job, torch.optim.Adam(m.parameters())), "update rule"),
])
def test_arguments_of_an_optimizer(arguments, said):
    with embers.local() as job:
        with pytest.raises(BadInput, match=said):
            et.Optimizer(*arguments(Net(), job))


def test_initializers_and_padding_as_numpy_and_job_files_have_them():
    layer = et.Embedding(None, 2, padding_idx=np.int64(0), initializer={"name": "constant", "value": 2.0})
    assert layer.padding_idx == 0 and "constant" in layer.definitions()[0].initializer


def test_a_job_closed_in_its_loop_says_so():
    with embers.local() as job:
        opt, loader = trained(Net(), job)
        with pytest.raises(UsageError, match="was closed"):
            for _ in job.train(loader):
                opt.skip()
                job.close()
