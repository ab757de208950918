"""Metrics over all records, and where outputs and targets come from."""
import types

import numpy as np
import pytest

from embers.errors import BadInput
from embers.metrics import accuracy, auc, default_predict, loss, measure


def test_auc_counts_pairs():
    random = np.random.default_rng(0)
    for _ in range(20):
        outputs, targets = random.integers(0, 8, 50).astype(np.float32), random.integers(0, 2, 50)
        positive, negative = outputs[targets == 1], outputs[targets == 0]
        pairs = (positive[:, None] > negative).mean() + (positive[:, None] == negative).mean() / 2
        assert auc(outputs, targets) == pytest.approx(pairs, abs=1e-12)
    assert np.isnan(auc(np.ones(3), np.ones(3)))


def test_loss_and_accuracy_of_two_and_of_many_classes():
    outputs, targets = np.array([2.0, -1.0, 0.5]), np.array([1.0, 0.0, 0.0])
    p = 1 / (1 + np.exp(-outputs))
    assert loss(outputs, targets) == pytest.approx(-np.log([p[0], 1 - p[1], 1 - p[2]]).mean())
    assert accuracy(outputs, targets) == pytest.approx(2 / 3)
    both = np.stack([np.zeros(3), outputs], axis=1)
    assert loss(both, targets) == pytest.approx(loss(outputs, targets))
    assert accuracy(both, targets) == accuracy(outputs, targets)
    assert loss(np.array([1e4, -1e4]), np.array([1, 0])) == 0


def test_batches_of_several_forms_have_targets():
    model = lambda *x: x  # noqa: E731
    assert default_predict(model, (1, 2, 3)) == ((1, 2), 3)
    assert default_predict(model, {"x": 1, "label": 2}) == (({"x": 1, "label": 2},), 2)
    batch = types.SimpleNamespace(y=5)
    assert default_predict(model, batch) == ((batch,), 5)
    with pytest.raises(BadInput, match="give predict="):
        default_predict(model, {"x": 1})


def test_what_cannot_be_measured_says_why():
    with pytest.raises(BadInput, match="no metric 'auk'"):
        measure(None, [], "auk", default_predict)
    with pytest.raises(BadInput, match="no batch"):
        measure(None, [], "auc", default_predict)
    with pytest.raises(BadInput, match="targets of shape \\(2,\\), but the model gives outputs of shape \\(3,\\)"):
        measure(lambda x: x, [([1, 2, 3], [1, 2])], "auc", default_predict)
    assert measure(lambda x: x, [([1], [1]), ([2], [3])], {"sum": lambda o, t: o.sum() + t.sum()}, default_predict) == {"sum": 7}
