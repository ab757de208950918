"""et.EmbeddingBagCollection against one et.EmbeddingBag for each feature."""
import types

import numpy as np
import pytest
import torch

import embers
import embers.torch as et
from embers.errors import BadInput
from embers.torch.keys import FeatureIds
from test_torch_layers import RATE, one_minibatch


def tables():
    return [et.BagConfig("users", 4, feature_names=["user", "friend"], pooling="sum"),
            et.BagConfig("items", 3, feature_names=["item"], pooling="mean"),
            et.BagConfig("tags", 2, feature_names=["tag"], pooling="max", keys="bytes")]


class Both(torch.nn.Module):
    def __init__(self, **kw):
        super().__init__()
        self.all = et.EmbeddingBagCollection(tables(), **kw)
        self.users = et.EmbeddingBag(None, 4, mode="sum", table="their users")
        self.items = et.EmbeddingBag(None, 3, mode="mean", table="their items")
        self.tags = et.EmbeddingBag(None, 2, mode="max", table="their tags", keys="bytes")


def jagged(random, bags, names=("user", "friend", "item"), width=20):
    lengths = random.integers(0, 4, len(names) * bags)
    values = torch.tensor(random.integers(0, width, lengths.sum()))
    return et.Jagged(names, values, torch.tensor(lengths))


@pytest.mark.parametrize("known", [False, True])
def test_a_collection_is_its_bags(known):
    random = np.random.default_rng(7)
    for _ in range(20):
        model = Both()
        model.all = et.EmbeddingBagCollection(tables()[:2])
        cluster, job, opt, _ = one_minibatch(model)
        cluster.initial = lambda table, key: np.full(cluster.dims[table], (int(key) % 7 - 3) / 4, np.float32)
        features = jagged(random, int(random.integers(1, 6)))
        bags = len(features.lengths()) // 3
        ends = features.lengths().view(3, -1).sum(1).cumsum(0)
        keys = (lambda batch: model.all.keys(features)) if known else None
        for _ in job.train(job._sampler, keys=keys):
            out = model.all(features)
            assert out.keys() == ["user", "friend", "item"] and out.values().shape == (bags, 11)
            loss = 0
            for i, (name, layer) in enumerate([("user", model.users), ("friend", model.users), ("item", model.items)]):
                lengths = features.lengths().view(3, -1)[i]
                theirs = layer(features.values()[ends[i] - lengths.sum():ends[i]], torch.cumsum(lengths, 0) - lengths)
                assert torch.equal(out[name], theirs) and torch.equal(out.to_dict()[name], theirs)
                factor = torch.randn_like(theirs)
                loss = loss + (out[name] * factor).sum() + (theirs * factor).sum()
            loss.backward()
            opt.step()
        for ours, theirs in (("users", "their users"), ("items", "their items")):
            assert set(cluster.rows[ours]) == set(cluster.rows[theirs])
            for key in cluster.rows[ours]:
                np.testing.assert_allclose(cluster.rows[ours][key], cluster.rows[theirs][key], atol=1e-6)


def test_all_tables_come_in_one_pull():
    for known, pulls in ((False, 2), (True, 1)):
        model = et.EmbeddingBagCollection(tables())
        cluster, job, opt, _ = one_minibatch(model)
        features = {"user": torch.tensor([1, 2]), "friend": torch.tensor([[2, 3], [4, 4]]), "item": [[5], []],
                    "tag": ["a", "b"]}
        for _ in job.train(job._sampler, keys=(lambda batch: model.keys(features)) if known else None):
            out = model(features)
            out.values().sum().backward()
            opt.step()
        assert cluster.pulls == pulls
        assert set(cluster.rows["users"]) == {1, 2, 3, 4} and set(cluster.rows["tags"]) == {b"a", b"b"}
        np.testing.assert_allclose(cluster.rows["users"][4], cluster.initial("users", 4) - 2 * RATE, atol=1e-6)
        np.testing.assert_allclose(out["tag"][1].detach(), cluster.initial("tags", b"b"), atol=1e-6)
        assert (out["item"][1] == 0).all()


def test_weights_of_ids():
    model = et.EmbeddingBagCollection([et.BagConfig("t", 2, feature_names=["f"])], is_weighted=True)
    cluster, job, opt, loop = one_minibatch(model)
    weights = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    with loop:
        out = model(et.Jagged(["f"], torch.tensor([1, 2, 1]), [2, 1], weights=weights))["f"]
        rows = {key: torch.from_numpy(cluster.initial("t", key)) for key in (1, 2)}
        torch.testing.assert_close(out.detach(), torch.stack([rows[1] + 2 * rows[2], 3 * rows[1]]))
        out.sum().backward()
        torch.testing.assert_close(weights.grad, torch.stack([rows[1].sum(), rows[2].sum(), rows[1].sum()]))
        opt.step()


def test_weights_of_a_job_files_feature():
    config = et.BagConfig("t", 2, feature_names=["f"])
    ids = FeatureIds(torch.tensor([1, 2, 1]), torch.tensor([0, 2, 3]), torch.tensor([1.0, 2.0, 3.0]), "f")
    single = FeatureIds(torch.tensor([1, 2]), torch.tensor([0, 1, 2]), torch.tensor([2.0, 3.0]), "f")
    for given, sums in ((ids, lambda rows: [rows[1] + 2 * rows[2], 3 * rows[1]]),
                        (single, lambda rows: [2 * rows[1], 3 * rows[2]])):
        model = et.EmbeddingBagCollection([config], is_weighted=True)
        cluster, _, opt, loop = one_minibatch(model)
        with loop:
            rows = {key: torch.from_numpy(cluster.initial("t", key)) for key in (1, 2)}
            torch.testing.assert_close(model({"f": given})["f"].detach(), torch.stack(sums(rows)))
            opt.skip()
    for model, message in (
            (et.EmbeddingBagCollection([config]), "'f' has weights in the job file: .*is_weighted=True"),
            (et.EmbeddingBagCollection([et.BagConfig("t", 2, feature_names=["f"], pooling="mean")], is_weighted=True),
             "'f' has weights, which go with pooling=\"sum\", but table 't' has pooling=\"mean\"")):
        _, _, _, loop = one_minibatch(model)
        with pytest.raises(BadInput, match=message), loop:
            model({"f": ids})


def test_torchrecs_own_classes_will_do():
    """They are not installed here; these have the same members."""
    config = types.SimpleNamespace(name="t", embedding_dim=2, num_embeddings=10, feature_names=["f", "g"],
                                   pooling=types.SimpleNamespace(name="MEAN"))
    other = types.SimpleNamespace(name="u", embedding_dim=3, num_embeddings=10, feature_names=["f"], pooling="SUM")
    model = et.EmbeddingBagCollection([config, other])
    _, _, opt, loop = one_minibatch(model)

    class KeyedJaggedTensor:
        keys = lambda self: ["g", "f", "unused"]  # noqa: E731
        values = lambda self: torch.tensor([1, 2, 3, 4])  # noqa: E731
        lengths = lambda self: torch.tensor([1, 0, 1, 1, 0, 1])  # noqa: E731

    with loop:
        out = model(KeyedJaggedTensor())
        assert out.keys() == ["f@t", "g", "f@u"] and out.values().shape == (2, 7)
        opt.skip()
    # What its DLRM and SparseArch ask; the first of them was a property once.
    for configs in (model.embedding_bag_configs, model.embedding_bag_configs()):
        assert [(c.embedding_dim, c.feature_names) for c in configs] == [(2, ["f", "g"]), (3, ["f"])]
    assert not model.is_weighted() and et.Jagged(["a", "b"], torch.tensor([1]), [0, 1, 0, 0, 0, 0]).stride() == 3
    config.weight_init_min, config.weight_init_max = -0.5, 0.25
    assert et.EmbeddingBagCollection([config]).definitions()[0].initializer == embers.initializers.Uniform(-0.5, 0.25).toml()
    config.weight_init_max = None
    with pytest.raises(BadInput, match="weight_init_min and weight_init_max go together"):
        et.EmbeddingBagCollection([config])


def nested(ids):
    return [[i] for i in ids]


@pytest.mark.parametrize("make", [torch.tensor, np.array, list, nested])
@pytest.mark.parametrize("in_place", [False, True])
def test_input_may_change_after_its_keys_were_asked_for(make, in_place):
    """As it does where negatives are drawn, or ids masked."""
    model = et.EmbeddingBagCollection([et.BagConfig("t", 2, feature_names=["f"]), et.BagConfig("u", 2, feature_names=["g"])])
    cluster, job, opt, _ = one_minibatch(model)
    cluster.initial = lambda table, key: np.full(cluster.dims[table], key, np.float32)
    features = {"f": make([1, 2]), "g": make([3, 4])}
    for _ in job.train(job._sampler, keys=lambda batch: model.keys(features)):
        if in_place and make is nested:
            features["f"][0][0] = features["f"][1][0] = 7
        elif in_place:
            features["f"][:] = make([7, 7])
        else:
            features["f"] = make([7, 7])
        out = model(features)
        assert out["f"].tolist() == [[7, 7], [7, 7]] and out["g"].tolist() == [[3, 3], [4, 4]]
        opt.skip()


def test_tensors_of_other_memory_and_of_inference_mode_may_be_input():
    model = et.EmbeddingBagCollection([et.BagConfig("t", 2, feature_names=["f"])])
    cluster, job, opt, _ = one_minibatch(model)
    cluster.initial = lambda table, key: np.full(cluster.dims[table], key, np.float32)
    memory = np.array([1, 2])
    features = {"f": torch.from_numpy(memory)}
    with torch.inference_mode():
        model.keys({"f": torch.tensor([1, 2])})
    for _ in job.train(job._sampler, keys=lambda batch: model.keys(features)):
        memory[:] = 7
        assert model(features)["f"].tolist() == [[7, 7], [7, 7]]
        opt.skip()


def test_jagged_input_may_change_after_its_keys_were_asked_for():
    model = et.EmbeddingBagCollection([et.BagConfig("t", 2, feature_names=["f"])])
    cluster, job, opt, _ = one_minibatch(model)
    cluster.initial = lambda table, key: np.full(cluster.dims[table], key, np.float32)
    features = et.Jagged(["f"], torch.tensor([1, 2, 3]), torch.tensor([1, 2]))
    for _ in job.train(job._sampler, keys=lambda batch: model.keys(features)):
        features.values().fill_(4)
        features.lengths().copy_(torch.tensor([3, 0]))
        assert model(features)["f"].tolist() == [[12, 12], [0, 0]]
        opt.skip()


def test_input_that_does_not_fit_is_refused():
    with pytest.raises(BadInput, match="add up to the 2 values"):
        et.Jagged(["a"], torch.tensor([1, 2]), [1])
    with pytest.raises(BadInput, match="3 lengths cannot be those of 2 features"):
        et.Jagged(["a", "b"], torch.tensor([1, 2]), [1, 1, 0])
    with pytest.raises(BadInput, match="1 weights cannot be those of 2 values"):
        et.Jagged(["a"], torch.tensor([1, 2]), [2], weights=torch.ones(1))
    with pytest.raises(BadInput, match='pooling="max2"'):
        et.EmbeddingBagCollection([et.BagConfig("t", 2, feature_names=["f"], pooling="max2")])
    for features, message in [({}, "no feature 'f', which table 't'"),
                              ({"f": torch.tensor([1]), "g": torch.tensor([1, 2])}, "differ in their number of bags"),
                              (torch.tensor([1]), "takes Jagged"),
                              ({"f": torch.zeros(1, 1, 1, dtype=torch.int64), "g": [1]}, "one or two dimensions"),
                              ({"f": ["x"], "g": [1]}, "table 't' has int64 keys")]:
        model = et.EmbeddingBagCollection([et.BagConfig("t", 2, feature_names=["f", "g"])])
        _, _, _, loop = one_minibatch(model)
        with pytest.raises(BadInput, match=message), loop:
            model(features)


@pytest.mark.parametrize("count", [1, 7, 15, 16])
def test_short_strings_in_many_columns(count):
    rng = np.random.default_rng(count)
    columns = [rng.choice(np.array(list("abc")), count) for _ in range(26)]
    found = embers._core.UniqueColumns(columns)
    for column, keys, places in zip(columns, found.keys(), found.places):
        assert (np.asarray(keys)[places] == column).all() and len(set(keys)) == len(keys) == len(set(column))
