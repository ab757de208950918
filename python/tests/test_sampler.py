"""Which records a minibatch has; indices that know their epoch."""
import pickle

import numpy as np
import pytest

import embers
from embers.errors import BadInput, UsageError
from embers.sampler import Batches, Indices, Permutation, mix


def test_a_permutation_has_each_record_once():
    for n in [1, 2, 3, 4, 5, 7, 16, 17, 100, 1000, 4097]:
        for seed in range(3):
            assert sorted(Permutation(n, seed)(np.arange(n))) == list(range(n))


def test_a_permutation_is_the_same_everywhere():
    """These numbers must never change: a job that is resumed by another version of embers goes on in the same order."""
    assert Permutation(1000, 7)(np.arange(5)).tolist() == GOLDEN
    assert Permutation(1 << 40, 9)(np.array([0, 5, (1 << 40) - 1])).tolist() == [1039488136738, 1044062399874, 796501777523]
    assert Permutation((1 << 63) - 1, 9)(np.array([0, 1 << 62])).tolist() == [5231687591874677005, 7900942075997613999]
    assert mix(1, 2, 3) == GOLDEN_MIX


GOLDEN = [719, 371, 336, 188, 131]
GOLDEN_MIX = 6087047714123848686


def test_permutations_of_seeds_and_epochs_differ_and_look_random():
    n = 10_000
    orders = [Permutation(n, mix(seed, epoch))(np.arange(n)) for seed in range(3) for epoch in range(3)]
    places = np.arange(n)
    for i, order in enumerate(orders):
        assert abs(np.corrcoef(places, order)[0, 1]) < 0.04
        for other in orders[:i]:
            assert (order == other).sum() < 10
    # how often a record of the first half is in the first half
    halves = [(order[: n // 2] < n // 2).mean() for order in orders]
    assert all(abs(h - 0.5) < 0.03 for h in halves)


@pytest.mark.parametrize("records, batch, drop, accumulate, minibatches, batches", [
    (10, 3, False, 1, 4, 4), (10, 3, True, 1, 3, 3), (9, 3, True, 1, 3, 3), (10, 3, False, 2, 2, 4),
    (10, 3, True, 2, 1, 2), (14, 3, False, 2, 3, 5),
])
def test_minibatches_of_an_epoch(records, batch, drop, accumulate, minibatches, batches):
    sampler = Batches(records, batch, drop_last=drop, accumulate=accumulate, seed=5)
    assert sampler.minibatches == minibatches and len(sampler) == batches
    seen = np.concatenate([sampler.of(2, number) for number in range(minibatches)])
    assert len(set(seen.tolist())) == len(seen) == (minibatches * batch * accumulate if drop else records)
    plain = Batches(records, batch, shuffle=False, drop_last=drop, accumulate=accumulate)
    assert plain.of(1, 0).tolist() == list(range(min(records, batch * accumulate)))


def test_minibatches_are_the_same_whether_or_not_the_order_is_kept(monkeypatch):
    kept = [Batches(100, 7, seed=1).of(epoch, 3).tolist() for epoch in (1, 2, 1)]
    monkeypatch.setattr("embers.sampler.WHOLE", 10)
    assert [Batches(100, 7, seed=1).of(epoch, 3).tolist() for epoch in (1, 2, 1)] == kept
    assert kept[0] == kept[2] != kept[1]


def test_arguments_that_make_no_sense_are_refused():
    for args in [(0, 1), (10, 0), (10, 2.5), ("x", 1), (10, 1, True, 0, False, 0)]:
        with pytest.raises(BadInput, match="must be an integer of at least"):
            Batches(*args)
    with pytest.raises(BadInput, match="do not fill one minibatch of 20"):
        Batches(10, 10, drop_last=True, accumulate=2)


def test_batches_are_drawn_within_the_loop():
    with pytest.raises(UsageError, match="iterate over that, not over the loader"):
        next(iter(Batches(10, 2)))


def test_a_record_has_a_seed_of_its_own_whichever_process_reads_it():
    indices = Indices(np.array([4, 9, 4]), seed=3, epoch=2)
    seeds = [embers.record_seed() for _ in indices]
    assert seeds[0] == seeds[2] != seeds[1]
    assert [embers.record_seed() for _ in pickle.loads(pickle.dumps(indices))] == seeds
    assert [embers.record_seed() for _ in Indices(np.array([9]), seed=3, epoch=3)] != seeds[1:2]
    assert list(indices) == [4, 9, 4] and indices == [4, 9, 4]
    with pytest.raises(UsageError, match="no record"):
        embers.record_seed()
