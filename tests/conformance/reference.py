"""The published definitions of the lookup operators, one step after another, in float64 and without regard to speed.

Forward and backward follow tf.nn.embedding_lookup, embedding_lookup_sparse and safe_embedding_lookup_sparse as
TensorFlow 2 documents and composes them, each step named after the TensorFlow operator whose documented result
(and registered gradient) it computes. DeepRec's fused operators are defined by its documentation to give the same.
Where TensorFlow leaves a case undefined, the choice of model/README.md is marked OURS. Independent of embers' code.
"""
import math


def partition_of(identity, sizes, strategy, blocknums):
    """(partition, row within it) of an id, as the documentation of tf.nn.embedding_lookup spreads ids."""
    count = len(sizes)
    if count == 1:
        return 0, identity
    if strategy == "mod":
        return identity % count, identity // count
    if blocknums is not None:  # DeepRec's name; OURS: contiguous blocks of these sizes
        for partition, size in enumerate(blocknums):
            if identity < size:
                return partition, identity
            identity -= size
        raise ValueError("out of range")
    total = sum(sizes)
    layout = []  # all ids in order, dealt out literally
    for partition in range(count):
        for row in range(total // count + (1 if partition < total % count else 0)):
            layout.append((partition, row))
    return layout[identity]


def gather(params, identity, strategy, blocknums):
    if identity < 0:
        raise ValueError("negative")
    partition, row = partition_of(identity, [len(p) for p in params], strategy, blocknums)
    return (partition, row), [float(x) for x in params[partition][row]]


def clip_by_norm(values, clip_norm):
    l2sum = sum(x * x for x in values)
    l2norm = math.sqrt(l2sum) if l2sum > 0 else l2sum
    return [x * clip_norm / max(l2norm, clip_norm) for x in values]


def clip_by_norm_grad(values, clip_norm, grad):
    """Reverse of intermediate / maximum(l2norm, clip_norm), where maximum sends a tie to its first argument."""
    l2sum = sum(x * x for x in values)
    l2norm = math.sqrt(l2sum) if l2sum > 0 else 0.0
    largest = max(l2norm, clip_norm)
    d_values = [g / largest * clip_norm for g in grad]
    d_largest = sum(-g * x * clip_norm / (largest * largest) for g, x in zip(grad, values))
    if l2norm >= clip_norm and l2sum > 0:
        d_l2sum = d_largest * 0.5 / l2norm
        d_values = [d + d_l2sum * 2 * x for d, x in zip(d_values, values)]
    return d_values


def div_no_nan(x, y):
    return 0.0 if y == 0 else x / y


def add_slices(slices, place, grad):
    if place not in slices:
        slices[place] = [0.0] * len(grad)
    slices[place] = [a + b for a, b in zip(slices[place], grad)]


def as_grads(slices):
    result = []
    for partition in sorted({p for p, _ in slices}):
        rows = sorted(r for p, r in slices if p == partition)
        result.append({"partition": partition, "ids": rows, "values": [slices[(partition, r)] for r in rows]})
    return result


def flatten(nested):
    return [x for part in nested for x in flatten(part)] if isinstance(nested, list) else [nested]


def shape_of(nested):
    return [len(nested)] + (shape_of(nested[0]) if nested else []) if isinstance(nested, list) else []


def reshape(values, shape):
    if not shape:
        return values[0]
    each = len(values) // shape[0] if shape[0] else 0
    return [reshape(values[i * each:(i + 1) * each], shape[1:]) for i in range(shape[0])]


def rows_of(nested, dim):
    flat = flatten(nested)
    return [flat[i:i + dim] for i in range(0, len(flat), dim)]


def dim_of(params):
    return next(len(p[0]) for p in params if p)


def embedding_lookup(case):
    params, dim = case["params"], dim_of(case["params"])
    strategy, blocknums, max_norm = case.get("partition_strategy") or "div", case.get("blocknums"), case.get("max_norm")
    found = [gather(params, i, strategy, blocknums) for i in flatten(case["ids"])]
    rows = [row if max_norm is None else clip_by_norm(row, max_norm) for _, row in found]
    shape = shape_of(case["ids"]) + [dim]
    result = {"output": reshape([x for row in rows for x in row], shape), "grads": []}
    if case.get("grad") is not None:
        slices = {}
        for (place, row), grad in zip(found, rows_of(case["grad"], dim)):
            add_slices(slices, place, grad if max_norm is None else clip_by_norm_grad(row, max_norm, grad))
        result["grads"] = as_grads(slices)
    return result


def lookup_sparse(case):
    params, dim, combiner = case["params"], dim_of(case["params"]), case["combiner"]
    strategy, blocknums, max_norm = case.get("partition_strategy") or "div", case.get("blocknums"), case.get("max_norm")
    weights, default_id = case.get("weights"), case.get("default_id")
    prune = case.get("prune_invalid_ids")
    if prune is None:
        prune = "safe" in case["op"]
    # sparse_reshape: all dimensions but the last become one.
    if "ids" in case:  # OURS: dense ids are a SparseTensor with every place set
        shape = shape_of(case["ids"])
        segments = [i // shape[-1] for i in range(len(flatten(case["ids"])))]
        values = flatten(case["ids"])
        weights = flatten(weights) if weights is not None else None
    else:
        shape, values, segments = case["dense_shape"], case["values"], []
        for index in case["indices"]:
            segment = 0
            for size, i in list(zip(shape, index))[:-1]:
                segment = segment * size + i
            segments.append(segment)
    batch = math.prod(shape[:-1])
    entries = [[s, v, 1.0 if weights is None else float(weights[i])] for i, (s, v) in enumerate(zip(segments, values))]
    # _prune_invalid_ids, _prune_invalid_weights: sparse_retain.
    if prune:
        entries = [e for e in entries if e[1] >= 0]
        if combiner != "sum" and weights is not None:
            entries = [e for e in entries if e[2] > 0]
    # sparse_fill_empty_rows with default_id or 0, weight 1; without default_id the row is made zeros afterwards.
    filled = {s for s in range(batch)} - {e[0] for e in entries}
    if default_id is not None:
        entries = sorted(entries + [[s, default_id, 1.0] for s in filled], key=lambda e: e[0])
    # embedding_lookup of the ids, clipped, then times weights.
    found = [gather(params, e[1], strategy, blocknums) for e in entries]
    rows = [row if max_norm is None else clip_by_norm(row, max_norm) for _, row in found]
    # segment_sum, and what it is divided by.
    sums, divisors = [[0.0] * dim for _ in range(batch)], [0.0] * batch
    for (segment, _, weight), row in zip(entries, rows):
        sums[segment] = [a + weight * b for a, b in zip(sums[segment], row)]
        divisors[segment] += weight if combiner == "mean" else weight * weight
    if combiner == "sum":
        out, divisors = sums, [1.0] * batch
    else:
        if combiner == "sqrtn":
            divisors = [math.sqrt(d) for d in divisors]
        out = [[div_no_nan(x, d) for x in s] for s, d in zip(sums, divisors)]
    result = {"output": reshape([x for row in out for x in row], shape[:-1] + [dim]), "grads": []}
    if case.get("grad") is not None:
        grads, slices = rows_of(case["grad"], dim), {}
        for (segment, _, weight), (place, row) in zip(entries, found):
            grad = [weight * div_no_nan(g, divisors[segment]) for g in grads[segment]]
            add_slices(slices, place, grad if max_norm is None else clip_by_norm_grad(row, max_norm, grad))
        result["grads"] = as_grads(slices)
    return result


def expected(case):
    if case.get("keys") is not None:  # OURS: raw keys name rows wherever they are; "" is padding
        numbers = {k: i for i, k in enumerate(k for part in case["keys"] for k in part)}
        number = lambda k: -1 if k == "" else numbers[k]
        case = dict(case, keys=None, partition_strategy="div", blocknums=[len(p) for p in case["params"]])
        if "ids" in case:
            case["ids"] = reshape([number(k) for k in flatten(case["ids"])], shape_of(case["ids"]))
        else:
            case["values"] = [number(k) for k in case["values"]]
        if case.get("default_id") is not None:
            case["default_id"] = number(case["default_id"])
    return embedding_lookup(case) if case["op"] == "embedding_lookup" else lookup_sparse(case)
