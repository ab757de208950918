"""et.cuda: on the CPU with the kernels that tests compile for it, or on a GPU where EMBERS_CUDA_LIBRARY is a library for one.

EMBERS_CUDA_RANDOM_CASES=[FIRST:]COUNT: which random lookups are compared with the published definitions (reference.py of
tests/conformance/)."""
import collections
import copy
import gc
import json
import math
import os
import pickle
import random
import sys

import pytest
import torch

import embers
from embers.errors import BadInput, UsageError
from embers.torch import cuda

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CASES = os.path.join(ROOT, "tests", "conformance")
sys.path.insert(0, CASES)
import reference  # noqa: E402

if not os.path.exists(os.environ.get("EMBERS_CUDA_LIBRARY", "")):
    pytest.skip("EMBERS_CUDA_LIBRARY names no library", allow_module_level=True)
DEVICE = "cpu" if cuda.library().on_cpu else "cuda"
TOLERANCE = 1e-5


def tensor(values, dtype=torch.float32):
    return torch.tensor(values, dtype=dtype, device=DEVICE)


# --- the operators' cases --------------------------------------------------------------------------------------------


def by_row_numbers(case):
    """The case with raw keys replaced by the numbers of their rows."""
    if case.get("keys") is None:
        return case
    numbers = {k: i for i, k in enumerate(k for part in case["keys"] for k in part)}
    number = lambda k: -1 if k == "" else numbers[k]
    case = dict(case, keys=None, partition_strategy="div", blocknums=[len(p) for p in case["params"]])
    if "ids" in case:
        case["ids"] = reference.reshape([number(k) for k in reference.flatten(case["ids"])], reference.shape_of(case["ids"]))
    else:
        case["values"] = [number(k) for k in case["values"]]
    if case.get("default_id") is not None:
        case["default_id"] = number(case["default_id"])
    return case


def look_up(case, dtype=torch.float32):
    """What the operator of a case gives, by et.cuda: {"output", "grads"}."""
    case = by_row_numbers(case)
    params, blocks = case["params"], case.get("blocknums")
    if blocks is not None:
        params = [p[:n] for p, n in zip(params, blocks)]
    dim = reference.dim_of(case["params"])
    sizes = [len(p) for p in params]
    sparse = case["op"] != "embedding_lookup"
    weights = case.get("weights")
    if "ids" in case:
        shape = reference.shape_of(case["ids"])
        ids = reference.flatten(case["ids"])
        width = shape[-1] if sparse else 1
        offsets = list(range(0, len(ids) + 1, max(width, 1)))
        out_shape = (shape[:-1] if sparse else shape) + [dim]
        weights = reference.flatten(weights) if weights is not None else None
    else:
        shape, ids = case["dense_shape"], case["values"]
        lengths = [0] * math.prod(shape[:-1])
        for index in case["indices"]:
            bag = 0
            for size, i in list(zip(shape, index))[:-1]:
                bag = bag * size + i
            lengths[bag] += 1
        offsets = [0]
        for n in lengths:
            offsets.append(offsets[-1] + n)
        out_shape = shape[:-1] + [dim]
    prune = case.get("prune_invalid_ids")
    if prune is None:
        prune = "safe" in case["op"]
    max_norm = case.get("max_norm")
    table = cuda.Table(sum(sizes), dim, None if max_norm is None else float(max_norm), sizes if len(sizes) > 1 else None,
                       case.get("partition_strategy") or "div", blocks is not None)
    bags = cuda.EmbeddingBagCollection([table], [cuda.Column(0, case["combiner"] if sparse else "sum",
                                                             case.get("default_id"), prune)],
                                       dtype=dtype, device=DEVICE, check="now")
    with torch.no_grad():
        bags.weight(0).copy_(tensor([[float(x) for x in row] for p in params for row in p]).reshape(-1, dim))
    out = bags(tensor(ids, torch.int64), tensor(offsets, torch.int64),
               None if weights is None else tensor([float(w) for w in weights]))
    grads = []
    if case.get("grad") is not None:
        out.backward(tensor([[float(x) for x in row] for row in reference.rows_of(case["grad"], dim)]).reshape(-1, dim))
        gradient = bags.weight(0).grad
        rows, values = gradient._indices()[0].tolist(), gradient._values().float().tolist()
        first = 0
        for p, size in enumerate(sizes):
            of_part = [(r - first, v) for r, v in zip(rows, values) if first <= r < first + size]
            if of_part:
                grads.append({"partition": p, "ids": [r for r, _ in of_part], "values": [v for _, v in of_part]})
            first += size
    return {"output": reference.reshape([x for row in out.tolist() for x in row], out_shape), "grads": grads}


def difference(got, want, place="result", tolerance=TOLERANCE):
    """"" when alike, else the first place that differs."""
    if isinstance(want, dict):
        return next((d for k in want for d in [difference(got[k], want[k], f"{place}.{k}", tolerance)] if d), "")
    if isinstance(want, list):
        if len(got) != len(want):
            return f"{place} has length {len(got)}, expected {len(want)}"
        return next((d for i, (g, w) in enumerate(zip(got, want)) for d in [difference(g, w, f"{place}[{i}]", tolerance)] if d), "")
    got, want = float(got), float(want)
    same = (math.isnan(got) and math.isnan(want)) or got == want or abs(got - want) <= tolerance * max(1, abs(want))
    return "" if same else f"{place} is {got}, expected {want}"


def cases_of(name):
    with open(os.path.join(CASES, name + ".json"), encoding="utf-8") as file:
        return json.load(file)


GOOD = ["embedding_lookup", "embedding_lookup_sparse", "safe_embedding_lookup_sparse", "fused_embedding_lookup_sparse",
        "fused_safe_embedding_lookup_sparse", "embedding_bag", "not_finite", "raw_keys"]


@pytest.mark.parametrize("file", GOOD)
def test_every_conformance_case(file):
    ran = 0
    for entry in cases_of(file):
        ran += 1
        assert difference(look_up(entry["case"]), entry["expect"]) == "", entry["name"]
    assert ran >= 6


# Cases of bad input that are the operators', not those of JSON.
BAD = ["id above the table", "id above the table, sparse", "id above the table, pruning", "id above all partitions, div",
       "id above all partitions, mod", "partitions that do not fit div", "id above the blocks", "the largest id",
       "the smallest id", "negative id", "negative id, sparse", "negative id, fused without pruning",
       "negative id, safe told not to prune", "unknown combiner", "too few weights", "too many weights",
       "default_id out of range", "default_id negative", "max_norm 0", "max_norm negative", "max_norm nan",
       "unknown partition_strategy"]


@pytest.mark.parametrize("name", BAD)
def test_bad_input(name):
    entry = next(e for e in cases_of("bad_input") if e["name"] == name)
    with pytest.raises(BadInput) as caught:
        look_up(entry["case"])
    for part in entry["expect"]["error"]:
        assert part.strip("'") in str(caught.value)


def random_case(rng):
    number = lambda: rng.randint(-16, 16) / 8
    dim = rng.choice([1, 2, 3, 4, 5, 8, 12, 16, 20, 32, 64, 100, 128, 130, 256, 260, 512, 1000, 1024])
    small = dim <= 64
    rows = rng.choice([1, 3, 7, 50, 300 if small else 20])
    prune = rng.random() < 0.5
    lengths = [rng.choice([0, 1, 2, 5, 20, rng.choice([30, 100, 700 if dim <= 16 else 40])])
               for _ in range(rng.randint(1, 30 if small else 10))]
    hot = rng.random()
    ids = [[rng.randint(-2 if prune else 0, rows - 1) if rng.random() > hot else 0 for _ in range(n)] for n in lengths]
    flat = [i for bag in ids for i in bag]
    parts, strategy = min(rng.choice([1, 1, 2, 3]), rows), rng.choice(["div", "mod"])
    table = [[number() for _ in range(dim)] for _ in range(rows)]
    if strategy == "mod":
        params = [table[p::parts] for p in range(parts)]
    else:
        sizes = [rows // parts + (p < rows % parts) for p in range(parts)]
        params = [table[sum(sizes[:p]):sum(sizes[:p + 1])] for p in range(parts)]
    return {"op": "fused_embedding_lookup_sparse", "params": params, "values": flat,
            "indices": [[b, k] for b, bag in enumerate(ids) for k in range(len(bag))],
            "dense_shape": [len(ids), max(lengths + [1])], "combiner": rng.choice(["sum", "mean", "sqrtn"]),
            "default_id": rng.choice([None, 0, rows - 1]), "max_norm": rng.choice([None, 0.5, 1.5, 3.0]),
            "prune_invalid_ids": prune, "partition_strategy": strategy,
            "weights": [number() for _ in flat] if rng.random() < 0.5 else None,
            "grad": [[number() for _ in range(dim)] for _ in ids]}


def tolerance_of(case):
    """1e-5, but for what float32 cannot hold: sums of hundreds of numbers of both signs, and weights that nearly cancel, so that
    a divisor is small beside what it is a sum of."""
    bags, rows = collections.Counter(b for b, _ in case["indices"]), collections.Counter(case["values"])
    tolerance = TOLERANCE * max(1, max([0, *bags.values(), *rows.values()]) / 256)
    if case["weights"] is None or case["combiner"] != "mean":
        return tolerance
    sums, sizes = {}, {}
    for (bag, _), w in zip(case["indices"], case["weights"]):
        sums[bag], sizes[bag] = sums.get(bag, 0) + w, sizes.get(bag, 0) + abs(w)
    return tolerance * max([1] + [sizes[b] / abs(s) for b, s in sums.items() if s != 0])


def test_random_cases():
    first, _, count = os.environ.get("EMBERS_CUDA_RANDOM_CASES", "0:40").rpartition(":")
    for seed in range(int(first or 0), int(first or 0) + int(count)):
        case = random_case(random.Random(seed))
        assert difference(look_up(case), reference.expected(case), tolerance=tolerance_of(case)) == "", f"seed {seed}"


def test_the_comparison_sees_what_differs():
    case = random_case(random.Random(3))
    want = reference.expected(case)
    want["output"][0][0] += 0.001
    assert difference(look_up(case), want, tolerance=tolerance_of(case)) != ""


# --- update rules ----------------------------------------------------------------------------------------------------

RULES = {"sgd": embers.SGD, "adagrad": embers.Adagrad, "adam": embers.Adam, "rowwise_adagrad": embers.RowwiseAdagrad}


def rule_cases():
    with open(os.path.join(CASES, "optimizers", "optimizers.json"), encoding="utf-8") as file:
        found = json.load(file)
    found["cases"] = [c for c in found["cases"] if c["optimizer"] in RULES
                      and not {"momentum", "amsgrad", "clipvalue", "clipnorm", "global_clipnorm"} & set(c["params"])]
    return found


def test_update_rules():
    cases = rule_cases()
    keys = list(cases["rows"])
    assert len(cases["cases"]) >= 9
    for case in cases["cases"]:
        bag = cuda.EmbeddingBag(len(keys), 5, mode="sum", optimizer=RULES[case["optimizer"]](**case["params"]), device=DEVICE)
        bag.weight(0).copy_(tensor([cases["rows"][k] for k in keys]))
        expected = {e["step"]: e["rows"] for e in case["expect"]}
        for number, step in enumerate(cases["steps"][:100 if DEVICE == "cuda" else 10], 1):
            bag.learning_rate = step["lr"]
            bag(tensor([[keys.index(k)] for k in step["keys"]], torch.int64)).backward(tensor(step["grads"]))
            if number in expected:
                got = dict(zip(keys, bag.weight(0).tolist()))
                assert difference(got, expected[number], tolerance=1e-5) == "", (case["optimizer"], case["params"], number)


def test_refuses_what_has_no_kernel():
    for rule in (embers.SGD(0.1, momentum=0.9), embers.Adam(amsgrad=True), embers.Ftrl(), embers.Adam(clipnorm=1.0)):
        with pytest.raises(BadInput, match="kernel"):
            cuda.EmbeddingBag(3, 4, optimizer=rule, device=DEVICE)


# --- several columns -------------------------------------------------------------------------------------------------


def bags_of(rng, rows, count, longest):
    lengths = [rng.choice([0, 1, 3, longest]) for _ in range(count)]
    return lengths, [rng.randrange(rows) if rng.random() < 0.5 else 0 for _ in range(sum(lengths))]


def collection(rule, dtype=torch.float32, **more):
    torch.manual_seed(5)
    return cuda.EmbeddingBagCollection(
        [cuda.Table(40, 16), cuda.Table(5, 4, max_norm=1.5), cuda.Table(9, 1)],
        [cuda.Column(0, "mean"), cuda.Column(0, "sum", default_id=3), cuda.Column(1, "sqrtn"), cuda.Column(2, "sum")],
        rule, dtype=dtype, device=DEVICE, **more)


def random_batch(rng, bags):
    offsets, ids = [0], []
    for rows, longest in ((40, 9), (40, 300), (5, 4), (9, 2)):
        lengths, found = bags_of(rng, rows, bags, longest)
        for n in lengths:
            offsets.append(offsets[-1] + n)
        ids += found
    return tensor(ids, torch.int64), tensor(offsets, torch.int64)


def by_definition(bags, ids, offsets, gradient):
    """Outputs and gradients of all columns, each by reference.py."""
    outputs, grads, count = [], [{} for _ in bags.tables], (len(offsets) - 1) // len(bags.columns)
    at = 0
    for c, column in enumerate(bags.columns):
        table, bounds = bags.tables[column.table], offsets[c * count:(c + 1) * count + 1].tolist()
        dim = table.embedding_dim
        rows = [list(range(a, b)) for a, b in zip(bounds, bounds[1:])]
        flat = ids.tolist()
        case = {"op": "fused_embedding_lookup_sparse", "params": [bags.weight(column.table).float().tolist()],
                "indices": [[b, k] for b, r in enumerate(rows) for k in range(len(r))],
                "values": [flat[i] for r in rows for i in r], "dense_shape": [count, max(map(len, rows)) or 1],
                "combiner": column.mode, "default_id": column.default_id, "max_norm": table.max_norm,
                "prune_invalid_ids": column.prune_invalid_ids, "grad": gradient[:, at:at + dim].tolist()}
        want = reference.expected(case)
        outputs.append(want["output"])
        for part in want["grads"]:
            for row, value in zip(part["ids"], part["values"]):
                reference.add_slices(grads[column.table], row, value)
        at += dim
    return [[x for out in outputs for x in out[b]] for b in range(count)], grads


def test_columns_of_several_tables_in_one_launch():
    rng = random.Random(1)
    for trial in range(4):
        bags = collection(None, sparse=trial % 2 == 0)
        ids, offsets = random_batch(rng, rng.choice([1, 3, 17]))
        out = bags(ids, offsets)
        gradient = tensor([[rng.randint(-16, 16) / 8 for _ in range(out.shape[1])] for _ in range(out.shape[0])])
        out.backward(gradient)
        want, grads = by_definition(bags, ids, offsets, gradient)
        assert difference(out.tolist(), want) == ""
        for n in range(3):
            got = bags.weight(n).grad
            if trial % 2 == 0:
                assert got._indices()[0].tolist() == sorted(grads[n])
                got = got.to_dense()
            dense = [grads[n].get(r, [0.0] * bags.tables[n].embedding_dim) for r in range(bags.tables[n].num_embeddings)]
            assert difference(got.tolist(), dense) == ""


def test_an_update_is_that_of_its_gradients():
    rng = random.Random(2)
    for rule in (embers.SGD(0.25), embers.Adam(0.01), embers.RowwiseAdagrad(0.1)):
        fused, plain = collection(rule), collection(None)
        ids, offsets = random_batch(rng, 7)
        for n in range(3):
            assert torch.equal(fused.weight(n), plain.weight(n))
        out, other = fused(ids, offsets), plain(ids, offsets)
        assert torch.equal(out, other)
        gradient = torch.randn_like(out)
        out.backward(gradient)
        other.backward(gradient)
        for n, table in enumerate(fused.tables):
            g = plain.weight(n).grad.to_dense().double()
            if isinstance(rule, embers.SGD):
                step = 0.25 * g
            elif isinstance(rule, embers.Adam):
                step = 0.01 * (0.1 * g) * math.sqrt(1 - 0.999) / (1 - 0.9) / ((0.001 * g * g).sqrt() + 1e-7)
            else:
                step = 0.1 * g / ((g * g).mean(1, keepdim=True).sqrt() + 1e-10)
            want = plain.weight(n).detach().double() - step
            assert difference(fused.weight(n).tolist(), want.tolist()) == ""


def check_steps(dim, dtype, lengths, rows, hot, rules, modes=("mean", "sum"), ids=None):
    """One step of a plain model of two tables against torch in double precision: results, slots and rows."""
    rng = random.Random(dim)
    torch.manual_seed(dim)
    for rule in rules:
        bags = cuda.EmbeddingBagCollection([cuda.Table(rows, dim)] * 2, [cuda.Column(n, mode) for n, mode in enumerate(modes)], rule,
                                           dtype=dtype, device=DEVICE)
        if ids is None:
            ids = torch.tensor([3 if rng.random() < hot else rng.randrange(rows) for _ in range(sum(lengths))])
        offsets = torch.tensor([0, *lengths]).cumsum(0)
        before = [bags.weight(n).double().cpu().requires_grad_() for n in range(2)]
        out = bags(ids.to(DEVICE), offsets.to(DEVICE))
        gradient = torch.randn_like(out)
        out.backward(gradient)
        want, half = [], len(lengths) // 2
        for n, mode in enumerate(modes):
            bounds = offsets[half * n:half * (n + 1) + 1]
            want.append(torch.nn.functional.embedding_bag(ids[bounds[0]:bounds[-1]], before[n], bounds - bounds[0], mode=mode,
                                                          include_last_offset=True))
        assert difference(out.tolist(), torch.cat(want, 1).tolist(), tolerance=1e-4) == ""
        torch.cat(want, 1).backward(gradient.double().cpu())
        for n, weight in enumerate(before):
            g, first = weight.grad, getattr(rule, "initial_accumulator_value", 0)
            slots = {embers.SGD: [], embers.Adagrad: [first + g * g], embers.Adam: [0.1 * g, 0.001 * g * g]}[type(rule)]
            for s, slot in enumerate(slots):
                assert torch.allclose(bags.slot(n, s).double().cpu(), slot, rtol=1e-4, atol=1e-5)
            if isinstance(rule, embers.SGD):
                step = 0.25 * g
            elif isinstance(rule, embers.Adagrad):
                step = 0.1 * g / (slots[0].sqrt() + rule.epsilon)
            else:
                step = 0.01 * slots[0] * math.sqrt(1 - 0.999) / (1 - 0.9) / (slots[1].sqrt() + rule.epsilon)
            assert torch.allclose(bags.weight(n).double().cpu(), (weight - step).detach(), rtol=1e-4 if dtype == torch.float32 else 1e-3, atol=1e-4)
        bags.check_errors()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("dim", [16, 20, 32, 64, 128])
@pytest.mark.parametrize("rows, hot", [(40, 0.9), (2000, 0.5), (2000, 0.01)])
def test_plain_models_whose_rows_all_have_one_dim(rows, hot, dim, dtype):
    """Kernels know some dims, and whether there are more rows than ids. Row 3 of 40 has more ids than make one larger piece of a
    run (cuda/pieces.h)."""
    rules = (embers.SGD(0.25), embers.Adagrad(0.1), embers.Adam(0.01)) if rows == 40 or dim in (16, 64) else (embers.Adam(0.01),)
    check_steps(dim, dtype, [700, 0, 1, 20, 3, 33, 1, 900, 0, 17], rows, hot, rules)


@pytest.mark.parametrize("dim", [16, 64])
@pytest.mark.parametrize("modes", [("sum", "sum"), ("mean", "mean")])
def test_runs_of_all_lengths(modes, dim):
    """Short ones, those that are followed into the next unit, and those that are just long enough to be cut."""
    rng = random.Random(dim)
    ids = [torch.tensor(rng.sample(runs := [row for row in range(150) for _ in range(rng.choice((1, 2, 5, 15, 16, 17, 33, 49, 80)))],
                                   len(runs))) for _ in range(2)]
    lengths = []
    for of in ids:
        each = [len(of) // 100] * 100
        each[50] += len(of) - sum(each)
        lengths += each
    for rows in (20000, 200):  # of which most have one id or none; that have many
        check_steps(dim, torch.float32, lengths, rows, 0, (embers.SGD(0.25), embers.Adam(0.01)), modes, torch.cat(ids))


@pytest.mark.parametrize("dtype, rule", [(torch.float32, embers.Adam(0.01)), (torch.float16, embers.Adagrad(0.1))])
def test_items_that_do_not_fit_into_32_bits(dtype, rule):
    rng = random.Random(1)
    lengths = [rng.choice((0, 1, 1, 2)) for _ in range(2 * 16385 - 1)] + [900]  # 15 bits, and 18 for a row
    check_steps(16, dtype, lengths, 2 ** 17, 0.1, [rule])


@pytest.mark.parametrize("rows, more", [(65535, 200), (65536, 200), (65535, 50000), (65536, 50000)])
def test_the_most_rows_and_bags_that_an_item_of_32_bits_has_room_for(rows, more):
    """With 200 ids more than bags most rows have one at most."""
    torch.manual_seed(rows)
    bags = cuda.EmbeddingBagCollection([cuda.Table(rows, 16)], [cuda.Column(0, "mean", prune_invalid_ids=True)], embers.SGD(0.25),
                                       device=DEVICE)
    before, count = bags.weight(0).clone().cpu(), 65536
    ids = torch.randint(0, rows, (count + more,))
    ids[:4], ids[-200::2], ids[-1] = tensor([rows - 1, -1, 0, -5]).cpu(), -1, rows - 1
    offsets = torch.cat([torch.arange(count), torch.tensor([len(ids)])])  # the rest are the last bag's
    out = bags(ids.to(DEVICE), offsets.to(DEVICE))
    gradient = torch.randn_like(out)
    out.backward(gradient)
    weight = before.double().requires_grad_()
    kept = ids >= 0
    of_bag = torch.repeat_interleave(torch.arange(count), offsets[1:] - offsets[:-1])[kept]
    ends = torch.bincount(of_bag, minlength=count).cumsum(0)
    want = torch.nn.functional.embedding_bag(ids[kept], weight, torch.cat([torch.zeros(1, dtype=torch.int64), ends]), mode="mean",
                                             include_last_offset=True)
    assert torch.allclose(out.double().cpu(), want.detach(), atol=1e-5)
    want.backward(gradient.double().cpu())
    assert torch.allclose(bags.weight(0).double().cpu(), (weight - 0.25 * weight.grad).detach(), atol=1e-5)
    bags.check_errors()


@pytest.mark.parametrize("bags", [2800, 5600])
def test_large_minibatches_have_large_units(bags):
    """On the CPU, of 128 and 256 places."""
    rng = random.Random(bags)
    check_steps(128, torch.float32, [rng.randint(0, 42) for _ in range(bags)], 300, 0.1, [embers.SGD(0.25)])


def test_gradients_of_a_large_minibatch_and_then_of_a_small_one():
    """They share workspace, and counters that must be zeros between launches."""
    rng = random.Random(8)
    bag = cuda.EmbeddingBag(300, 128, mode="sqrtn", device=DEVICE)
    for bags in (5600, 3, 2800):
        lengths = [rng.randint(0, 42) for _ in range(bags)]
        ids = torch.tensor([3 if rng.random() < 0.1 else rng.randrange(300) for _ in range(sum(lengths))])
        offsets, weights = torch.tensor([0, *lengths[:-1]]).cumsum(0), torch.rand(len(ids)) + 0.1
        given = weights.clone().to(DEVICE).requires_grad_()
        bag.weight(0).grad = None
        out = bag(ids.to(DEVICE), offsets.to(DEVICE), given)
        gradient = torch.randn_like(out)
        out.backward(gradient)
        rows, of = bag.weight(0).detach().double().cpu().requires_grad_(), weights.double().requires_grad_()
        sums = torch.nn.functional.embedding_bag(ids, rows, offsets, mode="sum", per_sample_weights=of)
        of_bag = torch.repeat_interleave(torch.arange(bags), torch.tensor(lengths))
        squares = torch.zeros(bags, dtype=torch.float64).index_add(0, of_bag, of * of)
        want = sums / squares.clamp(min=1e-30).sqrt().unsqueeze(1)
        want.backward(gradient.double().cpu())
        assert torch.allclose(out.double().cpu(), want.detach(), rtol=1e-4, atol=1e-4)
        assert torch.allclose(bag.weight(0).grad.to_dense().double().cpu(), rows.grad, rtol=1e-4, atol=1e-3)
        assert torch.allclose(given.grad.double().cpu(), of.grad, rtol=1e-4, atol=1e-3)


def test_the_same_bits_every_time():
    rng = random.Random(4)
    ids, offsets = random_batch(rng, 29)
    found = []
    for _ in range(3):
        bags = collection(embers.Adam(0.01))
        torch.manual_seed(6)
        for _ in range(2):
            out = bags(ids, offsets)
            out.backward(torch.randn(out.shape).to(DEVICE))
        found.append([bags.weight(n).clone() for n in range(3)])
    for again in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], again))


def test_float16_rows():
    rng = random.Random(8)
    bags, wide = collection(embers.SGD(0.5), torch.float16), collection(None)
    with torch.no_grad():
        for n in range(3):
            wide.weight(n).copy_(bags.weight(n).float())
    ids, offsets = random_batch(rng, 11)
    out, other = bags(ids, offsets), wide(ids, offsets)
    assert out.dtype == torch.float32 and torch.equal(out, other)
    gradient = torch.randn_like(out)
    out.backward(gradient)
    other.backward(gradient)
    for n in range(3):
        want = wide.weight(n).detach() - 0.5 * wide.weight(n).grad.to_dense()
        assert ((bags.weight(n).float() - want).abs() <= 2 ** -11 * want.abs() + 1e-6).all()


def test_weights_have_gradients():
    rng = random.Random(9)
    for mode in ("sum", "mean", "sqrtn"):
        for max_norm in (None, 1.0):
            bag = cuda.EmbeddingBag(12, 8, max_norm, mode=mode, prune_invalid_ids=True, device=DEVICE)
            lengths, ids = bags_of(rng, 12, 9, 30)
            offsets = tensor([sum(lengths[:b]) for b in range(len(lengths))], torch.int64)
            ids = tensor([-1 if i == 0 else i for i in ids], torch.int64)
            weights = (torch.rand(len(ids)) + 0.25).to(DEVICE).requires_grad_()
            out = bag(ids, offsets, weights)
            gradient = torch.randn_like(out)
            out.backward(gradient)
            # The same by torch's own operators.
            w = weights.detach().double().requires_grad_()
            rows = bag.weight(0).detach().double()[ids.clamp(min=0)]
            if max_norm is not None:
                rows = rows * (max_norm / rows.norm(dim=1, keepdim=True).clamp(min=max_norm))
            counted = torch.where(ids >= 0, w, torch.zeros_like(w))
            bag_of_id = torch.repeat_interleave(tensor(lengths, torch.int64))
            sums = torch.zeros(len(lengths), 8, dtype=torch.float64, device=DEVICE).index_add(0, bag_of_id, rows * counted.unsqueeze(1))
            if mode != "sum":
                parts = counted if mode == "mean" else counted * counted
                divisors = torch.zeros(len(lengths), dtype=torch.float64, device=DEVICE).index_add(0, bag_of_id, parts)
                kept = divisors > 0
                divisors = torch.where(kept, divisors if mode == "mean" else torch.where(kept, divisors, torch.ones_like(divisors)).sqrt(),
                                       torch.ones_like(divisors))
                sums = sums / divisors.unsqueeze(1)
            assert difference(out.tolist(), sums.tolist()) == ""
            sums.backward(gradient.double())
            assert difference(weights.grad.tolist(), w.grad.tolist()) == ""


# --- use and misuse --------------------------------------------------------------------------------------------------


def test_a_bag_as_torchs():
    ours = cuda.EmbeddingBag(30, 6, mode="mean", device=DEVICE)
    theirs = torch.nn.EmbeddingBag(30, 6, mode="mean", sparse=True).to(DEVICE)
    with torch.no_grad():
        ours.weight(0).copy_(theirs.weight)
    ids = torch.randint(0, 30, (5, 7)).to(DEVICE)
    flat, offsets = torch.randint(0, 30, (20,)).to(DEVICE), tensor([0, 4, 4, 19], torch.int64)
    for arguments in ((ids,), (flat, offsets)):
        a, b = ours(*arguments), theirs(*arguments)
        assert difference(a.tolist(), b.tolist()) == ""
        ours.zero_grad()
        theirs.zero_grad()
        gradient = torch.randn_like(a)
        a.backward(gradient)
        b.backward(gradient)
        assert difference(ours.weight(0).grad.to_dense().tolist(), theirs.weight.grad.to_dense().tolist()) == ""
    ours_adam, theirs_adam = torch.optim.SparseAdam(list(ours.parameters())), torch.optim.SparseAdam(list(theirs.parameters()))
    ours_adam.step()
    theirs_adam.step()
    assert difference(ours.weight(0).tolist(), theirs.weight.tolist()) == ""


@pytest.mark.parametrize("dim", [4, 16])
def test_a_gradient_with_strides(dim):
    bag = cuda.EmbeddingBag(9, dim, mode="sum", optimizer=embers.SGD(1.0), device=DEVICE)
    before = bag.weight(0).clone()
    ids = tensor([[1, 2], [2, 3]], torch.int64)
    out = bag(ids)
    wide = torch.randn(2, dim + 5).to(DEVICE)
    (torch.cat([out, torch.ones(2, 5).to(DEVICE)], 1) * wide).sum().backward()
    want = before.clone().index_add_(0, ids.reshape(-1), -wide[:, :dim].repeat_interleave(2, 0))
    assert difference(bag.weight(0).tolist(), want.tolist()) == ""


def test_nothing_at_all():
    for rule, dim in ((None, 4), (embers.Adam(), 4), (embers.Adam(), 16)):
        bag = cuda.EmbeddingBag(4, dim, mode="mean", optimizer=rule, device=DEVICE)
        before = bag.weight(0).clone()
        for ids, offsets in (([], []), ([], [0]), ([], [0, 0, 0])):
            out = bag(tensor(ids, torch.int64), tensor(offsets, torch.int64))
            assert out.shape == (len(offsets), dim) and (out == 0).all()
            out.sum().backward()
        assert torch.equal(bag.weight(0), before)


@pytest.mark.parametrize("dim", [4, 16])
def test_bad_ids_are_left_out_and_found_later(dim):
    bag = cuda.EmbeddingBag(4, dim, mode="sum", optimizer=embers.SGD(1.0), device=DEVICE)
    before = bag.weight(0).clone()
    out = bag(tensor([[1, 4], [-7, 2]], torch.int64))
    assert torch.equal(out, before[tensor([1, 2], torch.int64)])
    out.sum().backward()
    with pytest.raises(BadInput, match="2 ids .* number 1 "):
        bag.check_errors()
    bag.check_errors()
    want = before.clone()
    want[1:3] -= 1
    assert torch.equal(bag.weight(0), want)


@pytest.mark.parametrize("times, dim", [(2, 8), (2, 16), (8, 16)])
def test_a_gradient_that_is_not_finite_changes_nothing(times, dim):
    bag = cuda.EmbeddingBag(4, dim, mode="sum", optimizer=embers.Adam(), device=DEVICE)
    before = bag.weight(0).clone()
    for bad in (float("nan"), float("inf"), 2.0 ** 62):  # seen twice: 2^63
        ids = tensor([[1] * times, [2] * times], torch.int64)
        gradient = torch.ones(2, dim).to(DEVICE)
        gradient[0, 5] = bad
        bag(ids).backward(gradient)
        with pytest.raises(BadInput, match="1 rows"):
            bag.check_errors()
    assert torch.equal(bag.weight(0)[:2], before[:2]) and not torch.equal(bag.weight(0)[2], before[2])
    assert (bag.slot(0, 0)[1] == 0).all()


def test_a_second_backward_pass():
    bag = cuda.EmbeddingBag(4, 4, optimizer=embers.SGD(), device=DEVICE)
    out = bag(tensor([[1]], torch.int64)).sum()
    out.backward(retain_graph=True)
    with pytest.raises(UsageError, match="second"):
        out.backward()


def test_offsets_are_checked_now():
    bag = cuda.EmbeddingBagCollection([cuda.Table(4, 4)], [cuda.Column()], check="now", device=DEVICE)
    ids = tensor([1, 2, 3], torch.int64)
    for offsets in ([1, 3], [0, 2], [0, 2, 1, 3], [0, 4, 3], [-1, 3]):
        with pytest.raises(BadInput, match="offsets"):
            bag(ids, tensor(offsets, torch.int64))


def test_ids_beyond_the_last_offset_do_not_count():
    rng = random.Random(14)
    for rule, dim in ((embers.Adam(0.1), 16), (None, 16), (embers.Adam(0.1), 5)):
        bags, other = (twin(rule, dim) for _ in range(2))
        for length in (50, 0, 7):
            ids, offsets = plain_batch(rng, length)
            padded = torch.cat([ids, tensor([-7, 10**12, 3] * 40, torch.int64)])
            out, want = bags(padded, offsets), other(ids, offsets)
            assert torch.equal(out, want)
            gradient = torch.randn_like(out)
            out.backward(gradient)
            want.backward(gradient)
            for n in range(2):
                assert torch.equal(bags.weight(n), other.weight(n))
                if rule is None:
                    assert torch.equal(bags.weight(n).grad.to_dense(), other.weight(n).grad.to_dense())
        assert bags.step == other.step == (0 if rule is None else 3)
        bags.check_errors()
    ids, offsets = tensor([1, 2, 3], torch.int64), tensor([0, 1, 2], torch.int64)
    weights = tensor([2.0, 3.0, 4.0]).requires_grad_()
    cuda.EmbeddingBag(9, 4, mode="sum", include_last_offset=True, device=DEVICE)(ids, offsets, weights).sum().backward()
    assert weights.grad.tolist()[2] == 0 and weights.grad.tolist()[1] != 0


def test_tables_that_move_before_the_backward_pass():
    bags, other = twin(embers.Adam(0.1), 16), twin(embers.Adam(0.1), 16)
    ids, offsets = plain_batch(random.Random(16), 20)
    out, want = bags(ids, offsets), other(ids, offsets)
    for n in range(2):
        bags.weight(n).data = bags.weight(n).clone()
    for result in (out, want):
        result.sum().backward()
    for n in range(2):
        assert torch.equal(bags.weight(n), other.weight(n))
    out = bags(ids, offsets)
    bags.weight_0 = torch.cat([bags.weight(0), torch.zeros(3, 16, device=DEVICE)])
    for s in range(2):
        setattr(bags, f"slot_0_{s}", torch.cat([bags.slot(0, s), torch.zeros(3, 16, device=DEVICE)]))
    with pytest.raises(UsageError, match=r"had \[300, 40\] rows .* \[303, 40\]"):
        out.sum().backward()
    with pytest.raises(BadInput, match="-1 steps"):
        bags.step = -1


def twin(rule, dim):
    torch.manual_seed(6)
    return cuda.EmbeddingBagCollection([cuda.Table(300, dim), cuda.Table(40, dim)],
                                       [cuda.Column(0, "mean"), cuda.Column(1, "sum")], rule, device=DEVICE)


def plain_batch(rng, most, bags=9):
    lengths = [rng.randint(0, most) for _ in range(2 * bags)]
    ids = [rng.choice([0, rng.randrange(300)]) if k < sum(lengths[:bags]) else rng.randrange(40) for k in range(sum(lengths))]
    offsets = torch.tensor([0] + lengths).cumsum(0)
    return tensor(ids, torch.int64), offsets.to(DEVICE)


@pytest.mark.skipif(DEVICE == "cpu", reason="a CPU records no CUDA graph")
def test_a_cuda_graph_of_a_step():
    rng = random.Random(15)
    for rule in (embers.Adam(0.1), embers.SGD(0.1), embers.RowwiseAdagrad(0.1)):
        bags, other = twin(rule, 16), twin(rule, 16)
        most = 4000
        ids, offsets = torch.zeros(most, dtype=torch.int64, device=DEVICE), torch.zeros(19, dtype=torch.int64, device=DEVICE)
        gradient = torch.zeros(9, 32, device=DEVICE)
        graph = torch.cuda.CUDAGraph()
        with pytest.raises(UsageError, match="before the capture"):
            with torch.cuda.graph(torch.cuda.CUDAGraph()):
                bags(ids, offsets)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            bags(ids, offsets).backward(gradient)  # a step with a gradient of zero: the memory is there
        torch.cuda.current_stream().wait_stream(side)
        other(ids, offsets).backward(gradient)
        gone = cuda.EmbeddingBag(9, 4, device=DEVICE)
        gone(ids, offsets)
        gc.collect()  # what earlier tests left
        with torch.cuda.graph(graph):
            out = bags(ids, offsets)
            del gone  # whose memory is freed later
            out.backward(gradient)
        for length in (3, 200, 0, 60):
            its_ids, its_offsets = plain_batch(rng, length)
            ids[:len(its_ids)].copy_(its_ids)
            offsets.copy_(its_offsets)
            gradient.copy_(torch.randn_like(gradient))
            graph.replay()
            want = other(its_ids, its_offsets)
            want.backward(gradient)
            assert difference(out.tolist(), want.tolist()) == ""
            for n in range(2):
                assert difference(bags.weight(n).tolist(), other.weight(n).tolist()) == ""
        assert bags.step == other.step == 5
        more = torch.zeros(50000, dtype=torch.int64, device=DEVICE)
        for b in (bags, other):
            b(more, offsets).backward(gradient)  # needs more memory; the graph keeps its own
        taken = [torch.full((1 << 18,), 255, dtype=torch.uint8, device=DEVICE) for _ in range(16)]
        graph.replay()
        other(its_ids, its_offsets).backward(gradient)
        for n in range(2):
            assert difference(bags.weight(n).tolist(), other.weight(n).tolist()) == ""
        assert all(t.eq(255).all() for t in taken)
        kept = list(bags.buffers())  # what the graph changes
        bags.to(torch.float16).to(torch.float32)
        bags(ids, offsets)  # described anew: the graph reports to the description before
        ids[:3].fill_(10**9)
        offsets.fill_(3)
        offsets[0] = 0
        graph.replay()
        with pytest.raises(BadInput, match="3 ids are no rows"):
            bags.check_errors()
        del kept
        for wrong in (bags.check_errors, lambda: bags.step):
            with pytest.raises(UsageError, match="CUDA graph"):
                with torch.cuda.graph(torch.cuda.CUDAGraph()):
                    wrong()
    for waits in (cuda.EmbeddingBag(9, 4, check="now", device=DEVICE), keyed()):
        with pytest.raises(UsageError, match="CUDA graph"):
            with torch.cuda.graph(torch.cuda.CUDAGraph()):
                waits(ids, offsets)


def test_a_copy_looks_up_as_its_original():
    bag = cuda.EmbeddingBag(9, 4, optimizer=embers.Adam(0.1), device=DEVICE)
    ids = tensor([[1, 2], [2, 3]], torch.int64)
    bag(ids).sum().backward()
    for other in (copy.deepcopy(bag), pickle.loads(pickle.dumps(bag))):
        assert torch.equal(other(ids), bag(ids)) and other.step == 1
    with pytest.raises(UsageError, match="export"):
        copy.deepcopy(keyed())
    fresh = cuda.EmbeddingBag(9, 4, optimizer=embers.Adam(0.1), device=DEVICE)
    fresh.load_state_dict(bag.state_dict())
    for b in (bag, fresh):
        b(ids).sum().backward()
    assert torch.equal(fresh(ids), bag(ids))


def test_slots_that_were_converted_are_refused():
    bag = cuda.EmbeddingBag(8, 4, optimizer=embers.Adagrad(), dtype=torch.float16, device=DEVICE).half()
    with pytest.raises(BadInput, match="slots"):
        bag(tensor([[1]], torch.int64))


def test_gradients_again_from_one_lookup():
    rng = random.Random(12)
    bag = cuda.EmbeddingBag(1000, 4, mode="mean", device=DEVICE)
    ids = tensor([[rng.randrange(1000) for _ in range(5)] for _ in range(40)], torch.int64)
    weights = torch.rand(40, 5).to(DEVICE).requires_grad_()
    out = bag(ids, None, weights)
    gradient = torch.randn_like(out)
    out.backward(gradient, retain_graph=True)
    first = bag.weight(0).grad.to_dense().clone(), weights.grad.clone()
    bag.zero_grad()
    weights.grad = None
    out.backward(gradient)
    assert torch.equal(bag.weight(0).grad.to_dense(), first[0]) and torch.equal(weights.grad, first[1])


def test_mistakes():
    make = lambda *a, **k: cuda.EmbeddingBag(*a, device=DEVICE, **k)
    for wrong, part in ((lambda: make(4, 1025), "1024"), (lambda: make(4, 0), "dim 0"), (lambda: make(4, 4, dtype=torch.float64), "float64"),
                        (lambda: make(4, 4, mode="max"), "max"), (lambda: make(None, 4), "optimizer"),
                        (lambda: cuda.EmbeddingBagCollection([cuda.Table(4, 4)] * 2, [cuda.Column(1), cuda.Column(0)], device=DEVICE), "order"),
                        (lambda: cuda.EmbeddingBagCollection([cuda.Table(4, 4)], [cuda.Column(2)], device=DEVICE), "no table 2")):
        with pytest.raises(BadInput, match=part):
            wrong()
    bag = make(4, 4, check="now")
    ids = tensor([1, 2], torch.int64)
    for wrong, part in ((lambda: bag(ids), "offsets"), (lambda: bag(ids.reshape(1, 2), ids), "two dimensions"),
                        (lambda: bag(ids.float(), tensor([0], torch.int64)), "float32"),
                        (lambda: bag(ids, tensor([0], torch.int64), tensor([1.0])), "1 weights for 2 ids")):
        with pytest.raises(BadInput, match=part):
            wrong()


# --- keys ------------------------------------------------------------------------------------------------------------


def keyed(rule=None, **more):
    return cuda.EmbeddingBag(None, 8, mode="sum", optimizer=rule or embers.Adagrad(0.1), device=DEVICE, **more)


def test_rows_are_created_when_keys_are_seen():
    bag = keyed()
    keys = tensor([[5, -2 ** 63, 10 ** 12, 5, -1], [7, 8, 9, 10, 2 ** 63 - 1]], torch.int64)
    first = bag(keys)
    assert len(bag.index) == 9
    assert torch.equal(bag(keys), first)
    first.sum().backward()
    found, rows, slots = bag.index.export()
    assert sorted(found.tolist()) == sorted(set(keys.reshape(-1).tolist()))
    five = found.tolist().index(5)
    assert difference(slots[0][five].tolist(), [0.1 + 4] * 8) == ""  # seen twice: (1 + 1)^2
    assert difference(slots[0][found.tolist().index(7)].tolist(), [0.1 + 1] * 8) == ""
    with torch.no_grad():
        before = len(bag.index)
        assert bag(tensor([[123456]], torch.int64)).tolist() == [[0.0] * 8]
        assert len(bag.index) == before  # nothing is created without a gradient
    bag.check_errors()


def test_first_values_depend_on_seed_and_key_alone():
    def rows(order, seed, capacity):
        bag = cuda.EmbeddingBagCollection([cuda.Table(None, 8, seed=seed, capacity=capacity, initial=(-1, 1))], [cuda.Column()],
                                          embers.SGD(), device=DEVICE)
        keys = tensor(order, torch.int64)
        out = bag(keys, torch.arange(len(order) + 1, device=DEVICE))
        return {k: out[i].tolist() for i, k in enumerate(order)}

    some = rows([1, 2, 3, 4, 5, 6], 3, 1)
    assert some == rows([6, 4, 2, 1, 3, 5], 3, 1000)
    assert some != rows([1, 2, 3, 4, 5, 6], 4, 1)
    flat = [x for r in some.values() for x in r]
    assert len(set(flat)) == len(flat) and all(-1 <= x < 1 for x in flat)


def test_tables_without_a_seed_begin_differently_and_after_the_same_seed_of_torch_alike():
    def row():
        bag = cuda.EmbeddingBag(None, 8, optimizer=embers.SGD(), device=DEVICE, initial=(2, 3), capacity=4)
        return bag(tensor([[7]], torch.int64)).tolist()[0]

    torch.manual_seed(1)
    first, second = row(), row()
    assert first != second and all(2 <= x < 3 for x in first)
    torch.manual_seed(1)
    assert row() == first


@pytest.mark.parametrize("keys", [False, True])
def test_frozen_tables_do_not_change_but_weights_have_gradients(keys):
    bag = cuda.EmbeddingBag(None if keys else 10, 8, optimizer=embers.SGD(), device=DEVICE, mode="sum")
    ids, weights = tensor([[3, 4]], torch.int64), torch.ones(1, 2, device=DEVICE, requires_grad=True)
    before = bag(ids).detach().clone()
    bag.requires_grad_(False)
    bag(ids, per_sample_weights=weights).sum().backward()
    assert weights.grad.abs().sum() > 0
    assert bag(ids).tolist() == before.tolist() and not bag(ids).requires_grad
    if keys:
        bag(tensor([[5]], torch.int64), per_sample_weights=torch.ones(1, 1, device=DEVICE, requires_grad=True))
        assert len(bag.index) == 2
    bag.requires_grad_(True)
    bag(ids).sum().backward()
    assert bag(ids).tolist() != before.tolist()


def test_an_index_grows_and_keeps_what_it_has():
    bag = keyed()
    rng = random.Random(10)
    keys = [rng.randrange(-10 ** 15, 10 ** 15) for _ in range(3000)]
    small = cuda.Index(cuda.Table(None, 8, capacity=2), torch.float32, 1, 8, 0.1, torch.device(DEVICE))
    seen = {}
    for begin in range(0, len(keys), 500):
        some = tensor(keys[begin:begin + 500] + keys[:begin // 2], torch.int64)
        for key, row in zip(some.tolist(), small.rows_of(some, True, False).tolist()):
            assert seen.setdefault(key, row) == row
    assert sorted(seen.values()) == list(range(len(set(keys)))) and len(small) == len(seen)
    found, rows, slots = small.export()
    assert all(seen[k] == i for i, k in enumerate(found.tolist()))
    assert len(set(map(tuple, rows.tolist()))) == len(seen) and (slots[0] == 0.1).all()
    assert small.rows_of(tensor([keys[0], 1, -1], torch.int64), False, True).tolist()[1:] == [-1, -1]
    del bag


def test_an_index_that_grows_between_forward_and_backward():
    for mode, dim in (("sum", 8), ("mean", 8), ("mean", 16)):
        bag = cuda.EmbeddingBagCollection([cuda.Table(None, dim, capacity=4)], [cuda.Column(0, mode, prune_invalid_ids=True)],
                                          embers.SGD(1.0), device=DEVICE)
        first = bag(tensor([1, -5, 2], torch.int64), tensor([0, 3], torch.int64))
        bag(tensor(list(range(10, 40)), torch.int64), torch.arange(31, device=DEVICE))  # grows
        before = dict(zip(bag.index.export()[0].tolist(), bag.index.export()[1].tolist()))
        first.sum().backward()
        after = dict(zip(bag.index.export()[0].tolist(), bag.index.export()[1].tolist()))
        assert {k for k in after if after[k] != before[k]} == {1, 2}
        bag.check_errors()


def test_an_index_that_grows_by_itself_before_the_backward_pass():
    bag = cuda.EmbeddingBagCollection([cuda.Table(None, 4, capacity=2)], [cuda.Column()], embers.SGD(1.0), device=DEVICE)
    out = bag(tensor([5], torch.int64), tensor([0, 1], torch.int64))
    row = bag.index.export()[1][0].clone()
    keys = torch.arange(100, 5000, device=DEVICE)
    bag.index.import_(keys, torch.zeros(len(keys), 4, device=DEVICE))
    out.sum().backward()
    found, rows, _ = bag.index.export()
    assert torch.equal(rows[found.tolist().index(5)], row - 1) and (rows[found >= 100] == 0).all()


def test_ids_and_gradients_are_both_reported():
    bag = cuda.EmbeddingBag(10, 4, mode="sum", optimizer=embers.SGD(), device=DEVICE)
    bag(tensor([[50, 1]], torch.int64)).backward(torch.full((1, 4), math.inf, device=DEVICE))
    with pytest.raises(BadInput, match="1 ids .* gradients of 1 rows"):
        bag.check_errors()


def test_export_and_import():
    bag, other = keyed(embers.Adam(0.1)), keyed(embers.Adam(0.1))
    keys = tensor([[3, 1], [4, 1], [5, -9]], torch.int64)
    bag(keys).sum().backward()
    found, rows, slots = bag.index.export()
    other.index.import_(found.flip(0), rows.flip(0), [s.flip(0) for s in slots])
    other.step = bag.step
    for b in (bag, other):
        b(keys).sum().backward()
    assert torch.equal(bag(keys), other(keys))
    part = bag.index.export(1, 2)
    assert torch.equal(part[0], found[1:3])
    for wrong in (lambda: bag.index.export(0, 100), lambda: bag.index.import_(found, rows[:1]),
                  lambda: bag.index.import_(tensor([1, 1], torch.int64), rows[:2])):
        with pytest.raises(BadInput):
            wrong()


def test_a_default_key():
    bag = keyed(default_id=77, prune_invalid_ids=True)
    out = bag(tensor([1, -5], torch.int64), tensor([0, 1, 2], torch.int64))
    row = dict(zip(bag.index.export()[0].tolist(), bag.index.export()[1].tolist()))
    assert sorted(row) == [1, 77]
    assert out.tolist() == [row[1], row[77], row[77]]
