"""et.Embedding and et.EmbeddingBag against torch.nn's."""
import numpy as np
import pytest
import torch

import embers.torch as et
import fake_core
from embers.errors import BadInput, UsageError

RATE = 0.1
TOLERANCE = 1e-6


class Case:
    """A random layer of torch, one with the same rows here, and input for both."""

    def __init__(self, seed):
        random = self.random = np.random.default_rng(seed)
        self.dim = int(random.integers(1, 9))
        self.rows = int(random.integers(2, 20))
        self.strings = random.random() < 0.3
        self.keys = random.choice(2**62, self.rows, replace=False) - 2**61
        if self.strings:
            self.keys = np.array([f"key {k}" for k in self.keys])
        pad = int(random.integers(self.rows)) if random.random() < 0.4 else None
        self.pad = pad
        self.common = dict(max_norm=float(random.uniform(0.3, 3)) if random.random() < 0.3 else None,
                           norm_type=float(random.choice([1, 2, 3])))
        self.ours = dict(self.common, keys="bytes" if self.strings else "int64", table="t")
        if pad is not None:
            self.common["padding_idx"] = pad
            self.ours["padding_idx"] = str(self.keys[pad]) if self.strings else int(self.keys[pad])
        self.weight = torch.tensor(random.normal(size=(self.rows, self.dim)), dtype=torch.float32)
        if pad is not None:
            self.weight[pad] = 0

    def key_of(self, ids):
        """The ids of torch's layer as keys of ours, in one of the forms that users have."""
        keys = self.keys[ids.numpy()]
        if self.strings:
            return keys if self.random.random() < 0.5 else keys.tolist()
        return torch.from_numpy(keys) if self.random.random() < 0.7 else keys

    def ids(self, *shape):
        return torch.tensor(self.random.integers(0, self.rows, shape), dtype=torch.int64)

    def compare(self, theirs, ours, calls):
        """calls: lists of ((arguments of theirs, keywords), (arguments of ours, keywords))."""
        theirs.weight.data.copy_(self.weight)
        cluster, job, opt, loop = one_minibatch(ours)
        for i, row in enumerate(self.weight.numpy()):
            cluster.rows["t"][plain(self.keys[i])] = row.copy()
        with loop:
            their_loss = our_loss = 0
            grown = []
            for (their_args, their_kw), (our_args, our_kw) in calls:
                a, b = theirs(*their_args, **their_kw), ours(*our_args, **our_kw)
                assert a.shape == b.shape
                assert (a - b).abs().max() <= TOLERANCE if a.numel() else True
                factor = torch.tensor(self.random.normal(size=a.shape), dtype=torch.float32)
                their_loss = their_loss + (a * factor).sum()
                our_loss = our_loss + (b * factor).sum()
                grown.append((their_kw.get("per_sample_weights"), our_kw.get("per_sample_weights")))
            their_loss.backward()
            our_loss.backward()
            for a, b in grown:
                if a is not None:
                    assert a.grad.shape == b.grad.shape
                    assert (a.grad - b.grad).abs().max() <= TOLERANCE if a.numel() else True
            opt.step()
        torch.optim.SGD(theirs.parameters(), lr=RATE).step()
        for i, row in enumerate(theirs.weight.detach().numpy()):
            if i != self.pad:
                difference = np.abs(cluster.rows["t"][plain(self.keys[i])] - row).max()
                assert difference <= TOLERANCE


def plain(key):
    return str(key).encode() if isinstance(key, str) else int(key)


class one_minibatch_loop:
    def __init__(self, job):
        self.loop = iter(job.train(job.batches(1, 1)))

    def __enter__(self):
        next(self.loop)

    def __exit__(self, kind, *_):
        if kind is None:
            assert next(self.loop, None) is None
        self.loop.close()


def one_minibatch(model, **kw):
    cluster = fake_core.Cluster(learning_rate=RATE)
    job = fake_core.FakeJob(cluster)
    opt = et.Optimizer(model, job)
    loop = one_minibatch_loop(job)
    # Join now, so that tests can set rows.
    job._peek()
    return cluster, job, opt, loop


@pytest.mark.parametrize("block", range(10))
def test_embedding_is_torchs(block):
    for seed in range(block * 50, block * 50 + 50):
        case = Case(seed)
        by_frequency = bool(case.random.random() < 0.3)
        theirs = torch.nn.Embedding(case.rows, case.dim, scale_grad_by_freq=by_frequency, **case.common)
        ours = et.Embedding(None, case.dim, scale_grad_by_freq=by_frequency, **case.ours)
        calls = []
        # scale_grad_by_freq counts within one lookup; torch's renorm in place invalidates an earlier lookup's graph.
        for _ in range(1 if by_frequency or case.common["max_norm"] else int(case.random.integers(1, 3))):
            ids = case.ids(*case.random.integers(0 if case.random.random() < 0.1 else 1, 5, case.random.integers(1, 4)))
            calls.append((((ids,), {}), ((case.key_of(ids),), {})))
        case.compare(theirs, ours, calls)


@pytest.mark.parametrize("block", range(10))
def test_embedding_bag_is_torchs(block):
    for seed in range(10_000 + block * 50, 10_000 + block * 50 + 50):
        case = Case(seed)
        random = case.random
        mode = str(random.choice(["sum", "mean", "max"]))
        last = bool(random.random() < 0.3)
        kw = dict(mode=mode, include_last_offset=last)
        theirs = torch.nn.EmbeddingBag(case.rows, case.dim, **kw, **case.common)
        ours = et.EmbeddingBag(None, case.dim, **kw, **case.ours)
        calls = []
        for _ in range(1 if case.common["max_norm"] else int(random.integers(1, 3))):
            their_kw, our_kw = {}, {}
            if not last and random.random() < 0.4:  # torch drops the last row where both are asked for
                ids = case.ids(int(random.integers(1, 6)), int(random.integers(1, 5)))
                keys = case.key_of(ids)
            else:
                lengths = random.integers(0, 4, int(random.integers(1, 7))) * (random.random(1) < 0.9)
                ids = case.ids(int(lengths.sum()))
                offsets = torch.tensor(np.cumsum([0, *lengths]), dtype=torch.int64)
                keys = case.key_of(ids)
                their_kw["offsets"] = offsets if last else offsets[:-1]
                if case.strings and random.random() < 0.5:
                    keys = [list(keys[a:b]) for a, b in zip(offsets[:-1], offsets[1:])]
                    if len({len(bag) for bag in keys}) == 1:
                        keys = np.array(keys, dtype=str).reshape(len(keys), -1)
                else:
                    our_kw["offsets"] = their_kw["offsets"]
            if mode == "sum" and random.random() < 0.5:
                weights = torch.tensor(random.normal(size=ids.shape), dtype=torch.float32)
                their_kw["per_sample_weights"] = weights.clone().requires_grad_()
                our_kw["per_sample_weights"] = weights.clone().requires_grad_()
            calls.append((((ids,), their_kw), ((keys,), our_kw)))
        case.compare(theirs, ours, calls)


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_gradients_of_bags_are_scaled_by_frequency(mode):
    """As those of torch.nn.Embedding; torch.nn.EmbeddingBag's divide by counts of other ids (torch 1.13)."""
    ids = torch.tensor([[1, 2, 1], [2, 3, 1]])
    theirs = torch.nn.Embedding(5, 3, scale_grad_by_freq=True)
    ours = et.EmbeddingBag(None, 3, scale_grad_by_freq=True, mode=mode, table="t")
    cluster, _, opt, loop = one_minibatch(ours)
    for key, row in enumerate(theirs.weight.detach().numpy()):
        cluster.rows["t"][key] = row.copy()
    with loop:
        factor = torch.randn(2, 3)
        (getattr(theirs(ids), mode)(1) * factor).sum().backward()
        (ours(ids) * factor).sum().backward()
        opt.step()
    torch.optim.SGD(theirs.parameters(), lr=RATE).step()
    for key, row in enumerate(theirs.weight.detach().numpy()):
        np.testing.assert_allclose(cluster.rows["t"][key], row, atol=TOLERANCE)


def test_gradients_of_layers_that_share_a_table_add_up():
    class Two(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = et.Embedding(None, 3, table="shared")
            self.b = et.EmbeddingBag(None, 3, table="shared", mode="sum")

        def forward(self, x, y):
            return self.a(x).sum() + 2 * self.b(y).sum()

    for keys in (None, lambda batch: {"shared": (X, Y)}):
        model = Two()
        cluster, job, opt, _ = one_minibatch(model)
        before = {key: cluster.initial("shared", key) for key in (1, 2, 3, 4)}
        X, Y = torch.tensor([[1, 2], [2, 3]]), torch.tensor([[3, 3, 4]])
        for _ in job.train(job._sampler, keys=keys):
            model(X, Y).backward()
            opt.step()
        for key, times in {1: 1, 2: 2, 3: 1 + 2 * 2, 4: 2}.items():
            np.testing.assert_allclose(cluster.rows["shared"][key], before[key] - RATE * times, atol=1e-6)
        assert cluster.pulls == (3 if keys is None else 1)


def test_a_table_that_is_defined_twice_must_be_the_same():
    class Two(torch.nn.Module):
        def __init__(self, **second):
            super().__init__()
            self.a = et.Embedding(None, 3, table="t")
            self.b = et.EmbeddingBag(None, **{"embedding_dim": 3, "table": "t", **second})

    def optimizer(**second):
        return et.Optimizer(Two(**second), fake_core.FakeJob(fake_core.Cluster()))

    optimizer()
    with pytest.raises(BadInput, match="table 't' is defined twice: dim is 3 in layer 'a' and 4 in layer 'b'"):
        optimizer(embedding_dim=4)
    with pytest.raises(BadInput, match="keys is int64 in layer 'a' and bytes in layer 'b'"):
        optimizer(keys="bytes")


def test_tables_are_named_by_their_place_in_the_model():
    model = torch.nn.ModuleDict({"user": et.Embedding(None, 3), "item": et.EmbeddingBag(None, 3)})
    et.Optimizer(model, fake_core.FakeJob(fake_core.Cluster()))
    assert model["user"].table == "user" and model["item"].table == "item"


@pytest.mark.filterwarnings("ignore:The input object of type 'Tensor'")
@pytest.mark.parametrize("keys, ids, message", [
    ("int64", torch.tensor([1.0]), "table 't' has int64 keys, but was given a tensor of torch.float32"),
    ("int64", np.array(["a"]), "table 't' has int64 keys, but was given an array of <U1"),
    ("int64", ["a"], 'define the table with keys="bytes"'),
    ("int64", np.array([2**63], np.uint64), "above 2\\^63 - 1"),
    ("int64", [torch.zeros(2, 2), torch.zeros(3, 2)], "is no array of ids"),
    ("int64", [torch.tensor([1, 2]), 3], "lists of ids and single ones"),
    ("bytes", torch.tensor([1]), 'define the table with keys="int64"'),
    ("bytes", ["a", 1], "1 of type int in a list"),
    ("bytes", np.array(["a", None], object), "None of type NoneType"),
    ("bytes", np.array([1]), "an array of int64"),
])
def test_keys_of_the_wrong_type_are_refused(keys, ids, message):
    model = et.Embedding(None, 3, table="t", keys=keys)
    _, job, _, loop = one_minibatch(model)
    with pytest.raises(BadInput, match=message), loop:
        model(ids)


def test_bags_are_tensors_of_any_length_and_weights_an_array():
    model = et.EmbeddingBag(None, 3, table="t", mode="sum")
    cluster, job, opt, loop = one_minibatch(model)
    cluster.initial = lambda table, key: np.full(3, key, np.float32)
    with loop:
        out = model([torch.tensor([1, 2]), torch.tensor([3])], per_sample_weights=np.array([1.0, 10.0, 100.0]))
        assert out.tolist() == [[21] * 3, [300] * 3]
        opt.skip()


def test_input_that_has_no_bags_is_refused():
    model = et.EmbeddingBag(None, 3, table="t")
    for args, message in [((torch.tensor([1, 2]),), "needs offsets"),
                          ((torch.tensor([[1, 2]]), torch.tensor([0])), "leave out offsets"),
                          ((torch.tensor([1, 2]), torch.tensor([0.0, 1.5])), "offsets are torch.float32: they must be integers"),
                          ((torch.tensor([1, 2]), torch.tensor([1])), "begin with 0"),
                          ((torch.tensor([1, 2]), torch.tensor([0, 2, 1])), "begin with 0 and rise"),
                          ((torch.tensor([1, 2]), torch.tensor([0, 3])), "rise to at most 2"),
                          ((torch.tensor([[1]]), None, torch.ones(1, 1)), 'go with mode="sum"')]:
        _, _, _, loop = one_minibatch(model)
        with pytest.raises(BadInput, match=message), loop:
            model(*args)


def test_a_lookup_belongs_into_a_minibatch():
    model = et.Embedding(None, 3, table="t")
    with pytest.raises(UsageError, match="et.Optimizer"):
        model(torch.tensor([1]))
    _, job, opt, loop = one_minibatch(model)
    with pytest.raises(UsageError, match="outside a minibatch"):
        model(torch.tensor([1]))
    with pytest.raises(UsageError, match="no minibatch"):
        opt.step()


def test_pair_products_are_inner_products_of_all_pairs():
    fields = torch.randn(5, 4, 3, requires_grad=True)
    pairs = et.pair_products(fields)
    by_hand = torch.stack([(fields[:, i] * fields[:, j]).sum(1) for i in range(4) for j in range(i)], dim=1)
    torch.testing.assert_close(pairs, by_hand)
    factor = torch.randn_like(pairs)
    ours, = torch.autograd.grad((pairs * factor).sum(), fields)
    theirs, = torch.autograd.grad((by_hand * factor).sum(), fields)
    torch.testing.assert_close(ours, theirs)
    assert et.pair_products(torch.randn(2, 1, 3)).shape == (2, 0)


def test_pair_products_stand_beside_what_is_given():
    fields, beside = torch.randn(5, 4, 3, requires_grad=True), torch.randn(5, 2, requires_grad=True)
    both = et.pair_products(fields, beside)
    by_hand = torch.cat([beside, et.pair_products(fields)], dim=1)
    assert torch.equal(both, by_hand)
    factor = torch.randn_like(both)
    for ours, theirs in zip(torch.autograd.grad((both * factor).sum(), (fields, beside)),
                            torch.autograd.grad((by_hand * factor).sum(), (fields, beside))):
        torch.testing.assert_close(ours, theirs)
    with pytest.raises(ValueError, match=r"beside has the shape \(4, 2\), but \(5, k\) is needed"):
        et.pair_products(fields, torch.randn(4, 2))


def test_pair_products_read_parts_of_the_fields_where_they_are():
    one, some, none = (torch.randn(*shape, requires_grad=True) for shape in ((5, 3), (5, 4, 3), (5, 0, 3)))
    apart = et.pair_products([one, some, none, one], one)
    together = et.pair_products(torch.cat([one.unsqueeze(1), some, none, one.unsqueeze(1)], dim=1), one)
    assert torch.equal(apart, together)
    factor = torch.randn_like(apart)
    for ours, theirs in zip(torch.autograd.grad((apart * factor).sum(), (one, some)),
                            torch.autograd.grad((together * factor).sum(), (one, some))):
        torch.testing.assert_close(ours, theirs)
    strided = torch.randn(5, 3, 4).transpose(1, 2)
    assert torch.equal(et.pair_products((strided, one)), et.pair_products([strided.contiguous(), one]))
    for parts, message in (([], "at least one part"), ([one, torch.randn(5)], r"not \(5,\)"),
                           ([one, torch.randn(4, 3)], r"\(5, 3\) and \(4, 3\)"),
                           ([some, torch.randn(5, 2)], r"\(5, 4, 3\) and \(5, 2\)")):
        with pytest.raises(ValueError, match=message):
            et.pair_products(parts)


def by_hand_second_order(parts, numbers, factors):
    fields = torch.cat([*parts, numbers.unsqueeze(2) * factors], 1)
    pairs = fields @ fields.transpose(1, 2)
    return fields, torch.tril(pairs, -1).sum((1, 2)).unsqueeze(1)


@pytest.mark.parametrize("n, dim, k", [(300, 16, 13), (7, 5, 1), (1, 9, 0), (0, 8, 2)])
def test_second_order_is_the_sum_of_all_pairs(n, dim, k):
    one, some = (torch.randn(*shape, requires_grad=True) for shape in ((n, dim), (n, 4, dim)))
    numbers, factors = torch.randn(n, k), torch.randn(k, dim, requires_grad=True)
    ours = et.second_order([one, some], numbers, factors)
    theirs = by_hand_second_order([one.unsqueeze(1), some], numbers, factors)
    assert torch.equal(ours[0], theirs[0])
    torch.testing.assert_close(ours[1], theirs[1], rtol=1e-4, atol=1e-4)
    of_fields, of_second = torch.randn_like(ours[0]), torch.randn_like(ours[1])
    for loss in (lambda f, s: (f * of_fields).sum() + (s * of_second).sum(), lambda f, s: s.sum(),
                 lambda f, s: (f * of_fields).sum()):
        for a, b in zip(torch.autograd.grad(loss(*ours), (one, some, factors), retain_graph=True),
                        torch.autograd.grad(loss(*theirs), (one, some, factors), retain_graph=True)):
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3)


def test_second_order_does_without_numbers_and_refuses_what_does_not_fit():
    fields = torch.randn(3, 2, 4, dtype=torch.float64)
    all_fields, second = et.second_order(fields)
    assert all_fields.dtype == second.dtype == torch.float64
    torch.testing.assert_close(second[:, 0], (fields[:, 0] * fields[:, 1]).sum(1), rtol=1e-5, atol=1e-5)
    for arguments, message in (((fields, torch.randn(3, 2)), "together"), (([],), "at least one part"),
                               ((fields, torch.randn(2, 2), torch.randn(2, 4)), r"\(2, 2\) and \(2, 4\), but \(3, k\)"),
                               ((fields, torch.randn(3, 2), torch.randn(2, 5)), r"\(k, 4\)")):
        with pytest.raises(ValueError, match=message):
            et.second_order(*arguments)


def test_a_model_is_copied_without_its_job():
    import copy
    import pickle

    model = et.Embedding(None, 3, table="t")
    _, job, opt, loop = one_minibatch(model)
    with loop:
        for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            with pytest.raises(UsageError, match="et.Optimizer"):
                other(torch.tensor([1]))
        opt.skip()
