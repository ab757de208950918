"""Host embeddings under PyTorch: against torch.nn.Embedding, in replicas, and what they refuse."""
import numpy as np
import pytest
import torch

import embers
import embers.torch as et
import fake_core
from embers.errors import BadInput, Mismatch, NotRegistered, OutOfRange, UsageError
from embers.torch import host_embedding as implementation

TOLERANCE = 1e-6
SUM = {"reduction": "sum"}
STRATEGIES = ["TOKEN", "ENCODING"]


def create(name="t", shape=(10, 3), dtype="float32", strategy="TOKEN", spec=embers.HostEmbeddingOptimizerSpec(1.0), **more):
    return embers.create_host_embedding(name, shape, dtype, strategy, spec, **more)


class Nothing(torch.nn.Module):
    """A model whose tables are host embeddings."""

    def forward(self, *_):
        return torch.zeros(())


# --- against torch.nn.Embedding --------------------------------------------------------------------


class Case:
    """A host embedding and torch's with the same rows, and what is done to both."""

    def __init__(self, number, random, strategy):
        self.random = random
        tokens, dim = int(random.integers(1, 30)), int(random.integers(1, 12))
        name, make, parameters = [
            ("SGD", torch.optim.SGD, {}),
            ("sgd", torch.optim.SGD, dict(weight_decay=0.01)),
            ("Adagrad", torch.optim.Adagrad, dict(initial_accumulator_value=0.1)),
        ][int(random.integers(3))]
        rate = float(random.uniform(0.01, 0.5))
        self.name = f"t{number}"
        self.ours = embers.create_host_embedding(self.name, [tokens, dim], torch.float32, strategy,
                                                 embers.HostEmbeddingOptimizerSpec(rate, name, **parameters))
        first = torch.tensor(random.normal(0, 0.2, (tokens, dim)), dtype=torch.float32)
        self.theirs = torch.nn.Embedding.from_pretrained(first, freeze=False)
        self.lazy = "weight_decay" in parameters  # torch decays rows that are not used, too
        more = dict(eps=1e-7) if make is torch.optim.Adagrad else {}
        self.rule = make(self.theirs.parameters(), lr=rate, **parameters, **more)

    def ids(self, clips):
        shape = self.random.integers(0, 5, int(self.random.integers(0, 4)))
        low, high = (-3, self.ours.shape[0] + 3) if clips else (0, self.ours.shape[0])
        kind = [torch.int64, torch.int32, torch.int16][int(self.random.integers(3))]
        return torch.tensor(self.random.integers(low, high, shape), dtype=kind)

    def forward(self):
        """Losses of ours and theirs over a few lookups."""
        our_loss = their_loss = torch.zeros(())
        self.used = []
        for _ in range(int(self.random.integers(1, 4))):
            clips = bool(self.random.random() < 0.3)
            ids = self.ids(clips)
            inside = ids.long().clamp(0, self.ours.shape[0] - 1)
            a, b = self.ours.lookup(ids, clip_indices=clips), self.theirs(inside)
            assert a.shape == b.shape and a.dtype == torch.float32
            assert (a - b).abs().max() <= TOLERANCE if a.numel() else True
            factor = torch.tensor(self.random.normal(0, 0.2, a.shape), dtype=torch.float32)
            our_loss = our_loss + (a * factor).sum() + (a * a * factor).sum()
            their_loss = their_loss + (b * factor).sum() + (b * b * factor).sum()
            self.used += inside.reshape(-1).tolist()
        return our_loss, their_loss

    def step(self):
        before = self.theirs.weight.detach().clone()
        self.rule.step()
        if self.lazy:
            unused = [i for i in range(self.ours.shape[0]) if i not in self.used]
            self.theirs.weight.data[unused] = before[unused]
        self.rule.zero_grad()


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("seed", range(12))
def test_it_is_torch_nn_embedding(strategy, seed):
    """Outputs, and rows after each of a few steps, of 25 tables at once."""
    random = np.random.default_rng(seed)
    cases = [Case(i, random, strategy) for i in range(25)]
    with embers.local(shards=int(random.integers(1, 4)), training=SUM) as job:
        opt = et.Optimizer(Nothing(), job, embers.SGD(1.0))
        with embers.register(job, *[case.ours for case in cases]):
            for case in cases:
                job.table(case.name).import_(np.arange(case.ours.shape[0]), case.theirs.weight.detach().numpy())
            for _ in job.train(job.batches(4, 1)):
                losses = [case.forward() for case in cases]
                sum(ours for ours, _ in losses).backward()
                sum(theirs for _, theirs in losses).backward()
                opt.step()
                for case in cases:
                    case.step()
            for case in cases:
                ours = case.ours.lookup(torch.arange(case.ours.shape[0]), training=False)
                assert (ours - case.theirs.weight.detach()).abs().max() <= TOLERANCE
                assert not ours.requires_grad


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_halves_are_looked_up_and_differentiated(strategy):
    embedding = create(dtype=torch.float16, strategy=strategy)
    with embers.local(shards=2, training=SUM, storage={"rounding": "nearest"}) as job, embedding.register(job):
        opt = et.Optimizer(Nothing(), job, embers.SGD(1.0))
        ids = torch.tensor([[1, 2], [2, 3]])
        for _ in job.train(job.batches(1, 1)):
            rows = embedding.lookup(ids)
            assert rows.dtype == torch.float16 and rows.shape == (2, 2, 3)
            factor = torch.randn(2, 2, 3).half()
            (rows * factor).sum().backward()
            opt.step()
        first = rows.detach()
        after = embedding.lookup(ids, training=False)
        assert after.dtype == torch.float16
        expected = first[0, 0].float() - factor[0, 0].float()
        assert torch.equal(after[0, 0], expected.half())
        assert torch.equal(after[0, 1], (first[0, 1].float() - factor[0, 1].float() - factor[1, 0].float()).half())


# --- pulls -----------------------------------------------------------------------------------------


def fake(*embeddings, records=4, **cluster):
    cluster = fake_core.Cluster(learning_rate=1.0, **cluster)
    job = fake_core.FakeJob(cluster)
    opt = et.Optimizer(Nothing(), job)
    return cluster, job, opt, job.batches(records, 1, shuffle=False)


def test_all_tables_come_in_one_pull_where_their_ids_are_known():
    a, b = create("a"), create("b", (20, 4))
    ids = {"a": torch.tensor([[1, 2], [2, 12]]), "b": torch.tensor([3, 3, -1])}
    for keys, pulls in ((None, 3), (lambda _: ids, 1), (lambda _: {**ids, "a": (ids["a"], torch.tensor([7]))}, 1)):
        cluster, job, opt, batches = fake()
        with embers.register(job, a, b):
            for _ in job.train(batches, keys=keys):
                before = cluster.pulls
                rows = a.lookup(ids["a"], clip_indices=True), b.lookup(ids["b"], clip_indices=True)
                sum(r.sum() for r in rows).backward()
                opt.step()
                assert cluster.pulls - before == (0 if keys else 2)
        assert cluster.pulls == 4 * pulls
        announced = {7} if pulls == 1 and isinstance(keys(0)["a"], tuple) else set() if keys else set()
        assert set(cluster.rows["a"]) == {1, 2, 9} | announced and set(cluster.rows["b"]) == {3, 0}


def test_an_announced_id_outside_is_refused_where_it_is_looked_up():
    embedding = create()
    cluster, job, opt, batches = fake()
    ids = torch.tensor([[4, 10]])
    with embedding.register(job), pytest.raises(OutOfRange, match="id 10 at \\[0, 1\\] is outside of host embedding 't'"):
        for _ in job.train(batches, keys=lambda _: {"t": ids}):
            embedding.lookup(ids)
    assert all(0 <= key < 10 for key in cluster.rows["t"])


def test_keys_name_registered_embeddings():
    a, b = create("a"), create("b")
    _, job, _, batches = fake()
    with embers.register(job, a, b), pytest.raises(UsageError, match="keys= names table 'c', but the model has a, b"):
        next(job.train(batches, keys=lambda _: {"c": torch.tensor([1])}))


@pytest.mark.parametrize("is_within", [True, False])
@pytest.mark.parametrize("lookahead", [0, 1, 3])
def test_with_lookahead_rows_may_lack_the_last_updates(lookahead, is_within):
    """The scope goes around the loop; job.train() may have been called before."""
    embedding = create(initializer="zeros")
    ids = torch.arange(10)
    lacking = []
    with embers.local(shards=2, training=SUM) as job:
        opt = et.Optimizer(Nothing(), job, embers.SGD(1.0))
        batches = job.batches(60, 1)
        loop = None if is_within else job.train(batches, keys=lambda _: {"t": ids})
        with embedding.register(job, lookahead=lookahead):
            for step, _ in enumerate(loop or job.train(batches, keys=lambda _: {"t": ids})):
                rows = embedding.lookup(ids)
                lacking.append(step + float(rows.detach()[0, 0]))  # updates that these rows do not have
                rows.sum().backward()
                opt.step()
                if lookahead == 0:  # what is only read is as new
                    assert float(embedding.lookup(ids, training=False)[0, 0]) == -(step + 1)
    report = job.report()
    prefetch = 2  # training.prefetch: so many more than one are between pull and done
    assert min(lacking) >= 0 and max(lacking) <= report["max_staleness"] <= (prefetch if lookahead else 0)
    assert report["mean_staleness"] > 0 or lookahead == 0


def test_lookahead_needs_keys():
    embedding = create()
    with embers.local() as job:
        et.Optimizer(Nothing(), job)
        loop = job.train(job.batches(4, 1))
        with embedding.register(job, lookahead=2), pytest.raises(UsageError, match="lookahead=2 needs the ids"):
            next(loop)
    with embers.local() as job, embedding.register(job, lookahead=2):
        et.Optimizer(Nothing(), job)
        batches = job.batches(4, 1)
        with pytest.raises(UsageError, match="lookahead=2 needs the ids of a batch before it is trained on: say "
                                             "job.train\\(loader, keys=lambda batch: {\"t\": ...}\\)"):
            job.train(batches)
        with pytest.raises(UsageError, match="ahead=1, but host embeddings are registered with lookahead=2: leave out ahead"):
            job.train(batches, keys=lambda _: {}, ahead=1)


# --- scope and inference ---------------------------------------------------------------------------


def test_a_lookup_belongs_into_a_minibatch():
    embedding = create()
    ids = torch.tensor([1])
    with embers.local() as job:
        with embedding.register(job), pytest.raises(UsageError, match="looked up by a tensor, but no et.Optimizer"):
            embedding.lookup(ids)
        opt = et.Optimizer(Nothing(), job, embers.SGD(1.0))
        with embedding.register(job):
            with pytest.raises(UsageError, match="no minibatch is under way"):
                embedding.lookup(ids)
            for _ in job.train(job.batches(1, 1)):
                with pytest.raises(UsageError, match="no minibatch to push to: .* opt.step\\(\\) pushes"):
                    embedding.push([1], np.ones((1, 3), np.float32))
                embedding.lookup(ids).sum().backward()
                opt.step()
            with pytest.raises(UsageError, match="no minibatch is under way"):
                embedding.lookup(ids)
            assert embedding.lookup(ids, training=False).shape == (1, 3)
        with pytest.raises(NotRegistered, match="'t' is looked up outside of its scope: do it within `with embedding.register"):
            embedding.lookup(ids, training=False)


def test_the_last_scope_goes_with_the_loop():
    """A step after the scope has ended is told so."""
    embedding = create()
    with embers.local() as job:
        et.Optimizer(Nothing(), job, embers.SGD(1.0))
        loop = job.train(job.batches(2, 1))
        with embedding.register(job):
            next(loop)
        with pytest.raises(NotRegistered):
            embedding.lookup(torch.tensor([1]))


def test_a_stray_lookup_asks_no_master():
    embedding = create()
    with embers.connect("127.0.0.1:9", connect_timeout=600, timeout=600) as job, embedding.register(job):
        et.Optimizer(Nothing(), job, embers.SGD(1.0))
        with pytest.raises(UsageError, match="no minibatch is under way"):
            embedding.lookup(torch.tensor([1]))


@pytest.mark.parametrize("is_announced", [False, True])
@pytest.mark.parametrize("ids", [np.array([2**63 + 1, 3], np.uint64), [2**63 + 1, 2**63 + 3]])
def test_unsigned_ids_beyond_int64_are_outside(ids, is_announced):
    embedding = create()
    _, job, opt, batches = fake()
    with embedding.register(job):
        for _ in job.train(batches, keys=(lambda _: {"t": ids}) if is_announced else None):
            with pytest.raises(OutOfRange, match="id 9223372036854775809 at \\[0\\]"):
                embedding.lookup(ids)
            np.testing.assert_array_equal(embedding.lookup(ids, clip_indices=True).detach(),
                                          embedding.lookup([9, 3 if int(ids[1]) == 3 else 9]).detach())
            opt.skip()


def test_inference_makes_and_changes_no_rows():
    embedding = create(initializer="ones")
    ids = torch.tensor([[4, 9]])

    class Model(torch.nn.Module):
        def forward(self, x):
            return embedding.lookup(x).sum((1, 2))

    model = Model()
    with embers.local(training=SUM) as job, embedding.register(job):
        opt = et.Optimizer(model, job, embers.SGD(1.0))
        for _ in job.train(job.batches(1, 1)):
            rows = embedding.lookup(ids, training=False)
            assert not rows.requires_grad and torch.equal(rows, torch.ones(1, 2, 3))
            embedding.lookup(torch.tensor([4])).sum().backward()
            opt.step()
        data = [(ids, torch.tensor([3.0]))] * 2
        assert job.evaluate(model, data, metrics={"sum": lambda o, t: float(o.sum())}) == {"sum": 6.0}  # 0 + 1, thrice, twice
        with job.reading(model):
            rows = embedding.lookup(ids)
            assert not rows.requires_grad and rows[0, :, 0].tolist() == [0, 1]
        assert torch.equal(embedding.lookup(ids, training=False), rows)
        assert isinstance(embedding.lookup(ids.numpy(), training=False), torch.Tensor)  # a model of torch is trained
        assert job.table("t").export()[0].tolist() == [4]
        with embers.connect(job.address) as reader:
            other = create()
            with other.register(reader):
                assert torch.equal(other.lookup(ids, training=False), rows)
                with pytest.raises(OutOfRange):
                    other.lookup(ids + 1, training=False)
                assert other.lookup(ids + 1, clip_indices=True, training=False)[0, :, 0].tolist() == [1, 1]


def test_a_layer_of_the_same_name_is_refused():
    embedding = create("shared")
    with embers.local() as job, embedding.register(job):
        et.Optimizer(et.Embedding(None, 3, table="shared"), job)
        with pytest.raises(BadInput, match="table 'shared' is defined twice, by a host embedding and by a layer"):
            next(job.train(job.batches(1, 1)))


def test_layers_and_host_embeddings_train_together():
    embedding = create("host", initializer="zeros")
    layer = et.Embedding(None, 3, table="layer", initializer="zeros")
    ids = torch.tensor([1, 2])
    with embers.local(shards=2, training=SUM) as job, embedding.register(job):
        opt = et.Optimizer(layer, job, embers.SGD(1.0))
        for _ in job.train(job.batches(3, 1), keys=lambda _: {"host": ids, "layer": ids}):
            (embedding.lookup(ids) + layer(ids)).sum().backward()
            opt.step()
        with job.reading(layer):
            assert (embedding.lookup(ids) == -3).all() and (layer(ids) == -3).all()


@pytest.mark.parametrize("ids, message", [
    (torch.tensor([1.0]), "table 't' has int64 keys, but was given a tensor of torch.float32: convert it with .long\\(\\)"),
    (torch.tensor([True]), "a tensor of torch.bool"),
    ([[1], [2, 3]], "'t': ids are lists of different lengths: pad them"),
    (np.array(["a"]), "an array of <U1"),
])
def test_ids_that_are_no_integers_are_refused(ids, message):
    embedding = create()
    _, job, opt, batches = fake()
    with embedding.register(job), pytest.raises(BadInput, match=message):
        for _ in job.train(batches):
            embedding.lookup(ids)


@pytest.mark.parametrize("dtype, name", [(torch.float32, "float32"), (torch.float16, "float16"), (torch.half, "float16")])
def test_a_dtype_may_be_torchs(dtype, name):
    assert create(dtype=dtype).dtype == name
    with pytest.raises(BadInput, match="dtype is torch.bfloat16, but it must be float32 or float16"):
        create(dtype=torch.bfloat16)


# --- devices ---------------------------------------------------------------------------------------


def test_rows_come_to_the_device_of_ids():
    rows = torch.randn(2, 3, requires_grad=True)
    assert implementation.to_device(rows, None) is rows and implementation.to_device(rows, torch.device("cpu")) is rows
    assert implementation.to_device(rows, torch.device("meta")).device.type == "meta"


def test_rows_and_gradients_go_through_pinned_memory(monkeypatch):
    """What CUDA would do, with the CPU in its place: that memory is pinned both ways, and what it holds."""
    pinned = []
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self: pinned.append("rows") or self.clone())
    empty = torch.empty
    monkeypatch.setattr(implementation.torch, "empty",
                        lambda *a, pin_memory=False, **k: (pinned.append("gradient") if pin_memory else None) or empty(*a, **k))
    rows = torch.randn(2, 3, requires_grad=True)
    there = implementation._Pinned.apply(rows, torch.device("cpu"))
    factor = torch.randn(2, 3)
    (there * factor).sum().backward()
    assert pinned == ["rows", "gradient"] and torch.equal(there, rows) and torch.equal(rows.grad, factor)


def test_replicas_must_have_the_same_table():
    embedding = create()
    with embers.local() as job, embedding.register(job):
        opt = et.Optimizer(Nothing(), job, embers.SGD(1.0))
        for _ in job.train(job.batches(1, 1)):
            with embers.connect(job.address) as second:
                other = create(shape=(11, 3))
                et.Optimizer(Nothing(), second, embers.SGD(1.0))
                with other.register(second), pytest.raises(Mismatch, match="table 't': rows 10 at the master, 11 at the worker"):
                    next(second.train(second.batches(1, 1)))
            opt.skip()
