"""Replicas over host embeddings: processes of one job."""
import pytest

import host_worker
from test_torch_jobs import Server, Workers

STRATEGIES = ["TOKEN", "ENCODING"]


def trained(*workers, mode="sync", shards=2, **server):
    training = {"grads_to_wait": 2} if mode == "sync" else {}
    with Server(mode=mode, shards=shards, workers=len(workers), training=training, **server) as server:
        with Workers(server.address, *workers, work=host_worker.train) as processes:
            results = processes.results()
        return results, server.report()


@pytest.fixture(scope="module")
def expected():
    """What one replica with one shard ends with, by update rule."""
    found = {}

    def of(spec):
        key = repr(spec)
        if key not in found:
            found[key] = trained(dict(spec=spec), shards=1)[0][0]["digest"]
        return found[key]
    return of


@pytest.mark.parametrize("shards", [1, 2, 3, 5])
@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_sync_ends_with_the_same_bits(expected, strategy, replicas, shards):
    spec = ("Adam", 0.01, {})
    results, report = trained(*[dict(strategy=strategy, spec=spec)] * replicas, shards=shards)
    assert [r["digest"] for r in results] == [expected(spec)] * replicas
    assert sum(r["steps"] for r in results) == 30 and report["examples"] == 2 * host_worker.RECORDS


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("options", [dict(lookahead=2), dict(known=False)], ids=["looks ahead", "unknown ids"])
def test_how_rows_are_pulled_does_not_matter(expected, strategy, options):
    spec = ("SGD", 0.1, {"momentum": 0.9})
    results, _ = trained(*[dict(options, strategy=strategy, spec=spec)] * 2)
    assert [r["digest"] for r in results] == [expected(spec)] * 2


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_replica_that_dies_does_not_matter(expected, strategy, tmp_path):
    spec = ("Adagrad", 0.1, {})
    common = dict(strategy=strategy, spec=spec, deaths=[(3, str(tmp_path / "died"))])
    results, _ = trained(common, common)
    assert [r["digest"] for r in results if r] == [expected(spec)]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_async_applies_the_gradient_of_each_replica(strategy):
    results, report = trained(*[dict(strategy=strategy)] * 2, mode="async")
    assert sum(r["steps"] for r in results) == 30 and report["examples"] == 2 * host_worker.RECORDS
