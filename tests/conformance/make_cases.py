#!/usr/bin/env python3
"""Writes the cases of this folder: make_cases.py [DIRECTORY]. Expected results come from reference.py; those of bad input
and of non-finite numbers are written here. Inputs are multiples of 1/8, which float32 holds exactly."""
import itertools
import json
import os
import random
import sys

import reference

TF_LOOKUP = "TensorFlow API: tf.nn.embedding_lookup"
TF_SPARSE = "TensorFlow API: tf.nn.embedding_lookup_sparse"
TF_SAFE = "TensorFlow API: tf.nn.safe_embedding_lookup_sparse"
TF_CLIP = "TensorFlow API: tf.clip_by_norm (axes: the row), gradient of its composition"
TF_DIV = "TensorFlow API: tf.math.divide_no_nan, by which tf.nn.embedding_lookup_sparse divides"
DEEPREC = "DeepRec documentation: Embedding Subgraph Fusion, fused_embedding_lookup_sparse"
DEEPREC_SAFE = "DeepRec documentation: Embedding Subgraph Fusion, fused_safe_embedding_lookup_sparse"
TORCH_BAG = "libtorch: torch.nn.functional.embedding_bag"
OURS = "model/README.md of embers, for what TensorFlow leaves undefined"

rng = random.Random(3)


def number():
    return rng.randint(-16, 16) / 8


def matrix(rows, dim):
    return [[number() for _ in range(dim)] for _ in range(rows)]


def nested(shape, make):
    return [nested(shape[1:], make) for _ in range(shape[0])] if shape else make()


def split(rows, sizes):
    parts, at = [], 0
    for size in sizes:
        parts.append(rows[at:at + size])
        at += size
    return parts


def deal(rows, count, strategy):
    """Rows as TensorFlow spreads them: as evenly as possible, the first partitions one larger."""
    if strategy == "mod":
        return [rows[p::count] for p in range(count)]
    sizes = [len(rows) // count + (p < len(rows) % count) for p in range(count)]
    return split(rows, sizes)


class File:
    def __init__(self):
        self.cases, self.names = [], set()

    def add(self, name, source, case, with_grad=True, expect=None):
        assert name not in self.names, name
        self.names.add(name)
        if expect is None:
            if with_grad and "grad" not in case:
                output = reference.expected(case)["output"]
                case = dict(case, grad=nested(reference.shape_of(output), number))
            expect = reference.expected(case)
        self.cases.append({"name": name, "source": source, "case": case, "expect": expect})


def sparse(op, params, rows, columns=None, **more):
    """A case from lists of ids, one list a row; None leaves a place of the row unset."""
    columns = columns or max([len(r) for r in rows] + [1])
    places = [(r, c) for r, ids in enumerate(rows) for c, i in enumerate(ids) if i is not None]
    return dict({"op": op, "params": params, "indices": [list(p) for p in places],
                 "values": [rows[r][c] for r, c in places], "dense_shape": [len(rows), columns]}, **more)


def embedding_lookup():
    f = File()
    table = matrix(13, 3)
    for strategy in ("div", "mod"):
        f.add(f"13 ids across 5 partitions, {strategy}", TF_LOOKUP,
              {"op": "embedding_lookup", "params": deal(table, 5, strategy), "partition_strategy": strategy,
               "ids": list(range(13))})
        for count in (2, 3, 4, 6, 13):
            f.add(f"{count} partitions, {strategy}, ids repeated", TF_LOOKUP,
                  {"op": "embedding_lookup", "params": deal(table, count, strategy), "partition_strategy": strategy,
                   "ids": [12, 0, 5, 5, 7, 12]})
        f.add(f"more partitions than rows, {strategy}", OURS,
              {"op": "embedding_lookup", "params": deal(matrix(2, 2), 3, strategy), "partition_strategy": strategy,
               "ids": [1, 0]})
    f.add("one partition has no strategy", TF_LOOKUP, {"op": "embedding_lookup", "params": [table], "ids": [3, 1]})
    f.add("a scalar id gives one row", TF_LOOKUP, {"op": "embedding_lookup", "params": [table], "ids": 4})
    f.add("no ids", TF_LOOKUP, {"op": "embedding_lookup", "params": [table], "ids": [], "grad": []})
    for shape in ([2, 3], [2, 1, 2], [1, 2, 2, 2]):
        f.add(f"ids of shape {shape}", TF_LOOKUP,
              {"op": "embedding_lookup", "params": [table], "ids": nested(shape, lambda: rng.randrange(13))})
    f.add("the gradient of a repeated id is added up", TF_LOOKUP,
          {"op": "embedding_lookup", "params": [[[1, 2], [3, 4]]], "ids": [1, 1, 1],
           "grad": [[1, 0.5], [2, 0.25], [4, 0.125]]})
    clipped = [[3, 4], [0.375, 0.5], [0, 0], [-6, 8], [0, 5]]
    f.add("max_norm: above, below, zero row and at the norm", TF_CLIP,
          {"op": "embedding_lookup", "params": [clipped], "ids": [0, 1, 2, 3, 4], "max_norm": 5})
    f.add("max_norm 1 clips all but the zero row", TF_CLIP,
          {"op": "embedding_lookup", "params": [clipped], "ids": [[0, 3], [2, 4]], "max_norm": 1})
    f.add("max_norm: at the norm the gradient has no part along the row", TF_CLIP,
          {"op": "embedding_lookup", "params": [[[3, 4]]], "ids": [0], "max_norm": 5, "grad": [[3, 4]]})
    f.add("max_norm: below the norm the gradient passes", TF_CLIP,
          {"op": "embedding_lookup", "params": [[[3, 4]]], "ids": [0], "max_norm": 6, "grad": [[3, 4]]})
    f.add("max_norm: a gradient across the row is scaled", TF_CLIP,
          {"op": "embedding_lookup", "params": [[[6, 8]]], "ids": [0], "max_norm": 5, "grad": [[-8, 6]]})
    f.add("max_norm with partitions", TF_CLIP,
          {"op": "embedding_lookup", "params": deal(matrix(7, 4), 3, "mod"), "partition_strategy": "mod",
           "ids": [6, 2, 2, 0], "max_norm": 1.5})
    f.add("blocknums: partitions of different sizes", DEEPREC + "; " + OURS,
          {"op": "embedding_lookup", "params": split(matrix(9, 2), [2, 6, 1]), "blocknums": [2, 6, 1],
           "ids": [8, 0, 1, 2, 7]})
    return f


def embedding_lookup_sparse():
    f = File()
    op = "embedding_lookup_sparse"
    ten_by_twenty = matrix(10, 20)
    for combiner in ("sum", "mean", "sqrtn"):
        example = {"op": op, "params": [ten_by_twenty], "indices": [[0, 0], [0, 1], [1, 0], [2, 3]],
                   "values": [1, 3, 0, 1], "dense_shape": [3, 4], "combiner": combiner}
        f.add(f"the example of the documentation, {combiner}", TF_SPARSE, dict(example, weights=[2.0, 0.5, 1.0, 3.0]))
        f.add(f"the example without weights, {combiner}", TF_SPARSE, example)
        for strategy in ("div", "mod"):
            f.add(f"weights and 3 partitions, {strategy}, {combiner}", TF_SPARSE,
                  sparse(op, deal(matrix(8, 3), 3, strategy), [[7, 0, 3], [1], [4, 4]], combiner=combiner,
                         partition_strategy=strategy, weights=[0.5, 2, 1, 3, 1, 0.25]))
        f.add(f"max_norm before combining, {combiner}", TF_SPARSE + "; " + TF_CLIP,
              sparse(op, [matrix(6, 5)], [[0, 1], [2, 3, 4], [5]], combiner=combiner, max_norm=1.25,
                     weights=[1, 2, 0.5, 0.25, 4, 1]))
        f.add(f"max_norm without weights, {combiner}", TF_SPARSE + "; " + TF_CLIP,
              sparse(op, [matrix(6, 5)], [[0, 1], [2, 2, 4], [5]], combiner=combiner, max_norm=2))
        f.add(f"an id twice in a row counts twice, {combiner}", TF_SPARSE,
              sparse(op, [matrix(3, 2)], [[1, 1, 2], [1]], combiner=combiner))
        f.add(f"rows without ids, the last too, {combiner}", OURS,
              sparse(op, [matrix(3, 2)], [[], [1, 2], [], [0], []], combiner=combiner))
        f.add(f"weights that add up to 0, {combiner}", TF_DIV,
              sparse(op, [matrix(3, 2)], [[1, 2], [0]], combiner=combiner, weights=[1, -1, 2]))
        f.add(f"a weight of 0, {combiner}", TF_DIV,
              sparse(op, [matrix(3, 2)], [[1], [0, 2]], combiner=combiner, weights=[0, 0, 2]))
        f.add(f"negative weights count, {combiner}", TF_SPARSE,
              sparse(op, [matrix(3, 2)], [[1, 2], [0]], combiner=combiner, weights=[3, -1, -2]))
        f.add(f"ids of rank 3, {combiner}", TF_SPARSE,
              {"op": op, "params": [matrix(5, 2)], "indices": [[0, 0, 1], [0, 1, 0], [0, 1, 2], [1, 1, 0]],
               "values": [4, 0, 3, 4], "dense_shape": [2, 2, 3], "combiner": combiner})
        f.add(f"dim 1, {combiner}", TF_SPARSE,
              sparse(op, [matrix(4, 1)], [[0, 3], [2]], combiner=combiner, weights=[1, 2, 3]))
    f.add("ids of rank 4 with weights", TF_SPARSE,
          {"op": op, "params": [matrix(5, 2)], "indices": [[0, 0, 0, 0], [0, 1, 0, 1], [1, 1, 1, 0]], "values": [4, 0, 3],
           "dense_shape": [2, 2, 2, 2], "combiner": "mean", "weights": [2, 1, 0.5]})
    f.add("dense ids: every place counts", OURS,
          {"op": op, "params": [matrix(5, 2)], "ids": [[0, 1, 4], [3, 3, 0]], "combiner": "mean"})
    f.add("dense ids with weights of their shape", OURS,
          {"op": op, "params": [matrix(5, 2)], "ids": [[0, 1], [3, 3]], "weights": [[1, 2], [3, 0.5]], "combiner": "sqrtn"})
    f.add("a batch of no rows", OURS, sparse(op, [matrix(2, 2)], [], combiner="sum", grad=[]))
    f.add("columns out of order within a row", TF_SPARSE,
          {"op": op, "params": [matrix(4, 2)], "indices": [[0, 2], [0, 0], [1, 1]], "values": [1, 2, 3],
           "dense_shape": [2, 3], "combiner": "sum"})
    for dim in (15, 16, 17, 64, 130, 300):
        f.add(f"dim {dim} with weights and max_norm", TF_SPARSE,
              sparse(op, [matrix(4, dim)], [[0, 3, 3], [2]], combiner="mean", weights=[1, 2, 0.5, 3], max_norm=2 + dim / 32))
    return f


def safe(op, source):
    f = File()
    for combiner, weighted, default, max_norm in itertools.product(
            ("sum", "mean", "sqrtn"), (False, True), (None, 3), (None, 1.5)):
        more = {"combiner": combiner, "default_id": default, "max_norm": max_norm, "prune_invalid_ids": True}
        if weighted:
            more["weights"] = [1, 0.5, 2, 0, -1, 3, 1, 0.25]
        name = f"{combiner}, {'weights' if weighted else 'no weights'}, default_id {default}, max_norm {max_norm}"
        f.add(name, source, sparse(op, deal(matrix(7, 3), 2, "div"), [[0, -1, 6], [2], [-5, 1], [], [4, 4], []], 3, **more))
    return f


def safe_embedding_lookup_sparse():
    op = "safe_embedding_lookup_sparse"
    f = safe(op, TF_SAFE)
    example = {"op": op, "params": [matrix(10, 20)], "indices": [[0, 0], [0, 1], [1, 0], [2, 3]], "values": [1, 3, -1, 1],
               "dense_shape": [3, 4], "weights": [2.0, 0.5, 1.0, 3.0], "default_id": 0, "combiner": "mean",
               "prune_invalid_ids": True}
    f.add("the example of the documentation", TF_SAFE, example)
    f.add("the example: pruning is what safe means", TF_SAFE,
          {k: v for k, v in example.items() if k != "prune_invalid_ids"})
    for combiner in ("sum", "mean", "sqrtn"):
        f.add(f"a row of weights <= 0 is empty unless summed, {combiner}", TF_SAFE,
              sparse(op, [matrix(4, 2)], [[0, 1], [2], [3]], combiner=combiner, weights=[-1, 0, -0.5, 2], default_id=1,
                     prune_invalid_ids=True))
        f.add(f"an invalid id with a weight, {combiner}", TF_SAFE,
              sparse(op, [matrix(4, 2)], [[-1, 1], [2, -7]], combiner=combiner, weights=[8, 0.5, 2, 4],
                     prune_invalid_ids=True))
        f.add(f"nothing but invalid ids, {combiner}", TF_SAFE,
              sparse(op, [matrix(4, 2)], [[-1, -1], [-2]], combiner=combiner, prune_invalid_ids=True))
        f.add(f"no ids at all, default row everywhere, {combiner}", TF_SAFE,
              sparse(op, [matrix(4, 2)], [[], [], []], combiner=combiner, default_id=2, prune_invalid_ids=True))
        f.add(f"ids of rank 3, empty rows, {combiner}", TF_SAFE,
              {"op": op, "params": [matrix(5, 2)], "indices": [[0, 0, 1], [1, 0, 0], [1, 0, 2], [1, 1, 0]],
               "values": [4, -1, 3, -2], "dense_shape": [2, 3, 3], "combiner": combiner, "default_id": 1,
               "prune_invalid_ids": True})
    f.add("default_id 0 is a row, not the absence of one", TF_SAFE,
          sparse(op, [matrix(3, 2)], [[], [1]], combiner="mean", default_id=0, prune_invalid_ids=True))
    f.add("a default row is clipped, too", TF_SAFE, sparse(op, [[[6, 8], [0, 1]]], [[], [1]], combiner="mean", default_id=0,
                                                           max_norm=5, prune_invalid_ids=True))
    f.add("without pruning empty rows are still filled", "DeepRec: safe_embedding_lookup_sparse(prune=False)",
          sparse(op, [matrix(3, 2)], [[1], [], [2, 0]], combiner="mean", default_id=2, prune_invalid_ids=False,
                 weights=[1, -1, 3]))
    f.add("a default_id that no row needs is not looked at", TF_SAFE,
          sparse(op, [matrix(3, 2)], [[1], [0]], combiner="sum", default_id=77, prune_invalid_ids=True))
    return f


def fused_embedding_lookup_sparse():
    op = "fused_embedding_lookup_sparse"
    f = safe(op, DEEPREC)
    diagonal = {"op": op, "params": [matrix(6, 4)], "indices": [[0, 0], [1, 1], [2, 2], [3, 3], [4, 4]],
                "values": [1, 2, 3, 4, 5], "dense_shape": [5, 5]}
    for combiner in ("sum", "mean", "sqrtn"):
        f.add(f"the ids of the documentation's example, {combiner}", DEEPREC, dict(diagonal, combiner=combiner))
        f.add(f"empty rows give zeros without default_id, {combiner}", DEEPREC,
              sparse(op, [matrix(4, 2)], [[], [3], []], combiner=combiner))
        f.add(f"empty rows take default_id, {combiner}", DEEPREC,
              sparse(op, [matrix(4, 2)], [[], [3], []], combiner=combiner, default_id=1))
        f.add(f"blocknums: blocks of 1, 4 and 2 rows, {combiner}", DEEPREC + "; " + OURS,
              sparse(op, split(matrix(7, 3), [1, 4, 2]), [[0, 6], [1, 4, 5]], combiner=combiner, blocknums=[1, 4, 2],
                     partition_strategy="div", weights=[1, 2, 3, 4, 5]))
    f.add("blocknums below what the partitions hold", DEEPREC + "; " + OURS,
          sparse(op, [matrix(3, 2), matrix(3, 2)], [[0, 1], [2, 3]], combiner="sum", blocknums=[2, 3]))
    f.add("an empty block", DEEPREC + "; " + OURS,
          sparse(op, [matrix(2, 2), [], matrix(1, 2)], [[0, 1], [2]], combiner="sum", blocknums=[2, 0, 1]))
    f.add("an empty block in front", DEEPREC + "; " + OURS,
          sparse(op, [[], matrix(2, 2), matrix(1, 2)], [[0, 1], [2]], combiner="sum", blocknums=[0, 2, 1]))
    f.add("invalid ids pruned, weights kept apart", DEEPREC,
          sparse(op, [matrix(4, 2)], [[-1, 2], [3, -9]], combiner="mean", weights=[5, 1, 2, 7], prune_invalid_ids=True))
    return f


def fused_safe_embedding_lookup_sparse():
    f = safe("fused_safe_embedding_lookup_sparse", DEEPREC_SAFE)
    op = "fused_safe_embedding_lookup_sparse"
    for combiner, strategy in itertools.product(("sum", "mean", "sqrtn"), ("div", "mod")):
        f.add(f"5 partitions, {strategy}, {combiner}", DEEPREC_SAFE,
              sparse(op, deal(matrix(13, 4), 5, strategy), [[12, -1, 5], [0, 7, 7], [], [11]], combiner=combiner,
                     partition_strategy=strategy, default_id=9, prune_invalid_ids=True))
    return f


def embedding_bag():
    """Offsets become rows; the documented modes sum and mean, and sum with per_sample_weights."""
    f = File()
    op = "embedding_lookup_sparse"
    table, bags = matrix(10, 3), [[1, 2, 4, 5], [4, 3, 2, 9]]
    for mode in ("sum", "mean"):
        f.add(f"the example of the documentation, {mode}", TORCH_BAG, sparse(op, [table], bags, combiner=mode))
        f.add(f"an empty bag, {mode}", TORCH_BAG, sparse(op, [table], [[1], [], [2, 2]], combiner=mode))
    f.add("per_sample_weights", TORCH_BAG,
          sparse(op, [table], bags, combiner="sum", weights=[1, 0.5, -2, 0, 3, 1, 0.125, 2]))
    f.add("an empty bag at the end", TORCH_BAG, sparse(op, [table], [[1, 9], []], combiner="mean"))
    return f


def raw_keys():
    f = File()
    params = [matrix(2, 2), matrix(3, 2)]
    keys = [["red", "green"], ["blue", "", "grün"]]
    keys[1][1] = "black"
    f.add("strings", OURS, {"op": "embedding_lookup", "params": params, "keys": keys, "ids": [["blue", "red"], ["grün", "red"]]})
    f.add("integers that are no row numbers", OURS,
          {"op": "embedding_lookup", "params": params, "keys": [[-7, 1000000007], [3, 0, 9]], "ids": [9, -7, 0]})
    for combiner in ("sum", "mean", "sqrtn"):
        f.add(f"the empty string is pruned, {combiner}", OURS,
              sparse("safe_embedding_lookup_sparse", params, [["green", ""], [""], ["black"]], keys=keys,
                     combiner=combiner, default_id="blue", prune_invalid_ids=True))
    f.add("partition_strategy does not matter", OURS,
          sparse("fused_embedding_lookup_sparse", params, [["green", "blue"], ["red"]], keys=keys, combiner="sum",
                 partition_strategy="mod", weights=[1, 2, 3]))
    return f


def not_finite():
    f = File()
    table = [[1, "nan"], ["inf", 2], ["-inf", -1], [3, 4]]
    expect = lambda output, grads=(): {"output": output, "grads": list(grads)}
    f.add("numbers that are not finite pass through", TF_LOOKUP,
          {"op": "embedding_lookup", "params": [table], "ids": [0, 1, 2, 3]}, expect=expect(table))
    f.add("infinities of both signs make nan", TF_SPARSE,
          sparse("embedding_lookup_sparse", [table], [[1, 2], [3, 3]], combiner="sum"),
          expect=expect([["nan", 1], [6, 8]]))
    f.add("a weight of 0 does not hide an infinity", TF_SPARSE,
          sparse("embedding_lookup_sparse", [table], [[1, 3]], combiner="sum", weights=[0, 1]), expect=expect([["nan", 4]]))
    f.add("a divisor of 0 does", TF_DIV,
          sparse("embedding_lookup_sparse", [table], [[1, 0]], combiner="mean", weights=[1, -1]), expect=expect([[0, 0]]))
    f.add("an infinite divisor divides an infinite sum", TF_DIV,
          sparse("embedding_lookup_sparse", [table], [[3, 3]], combiner="mean", weights=["inf", 1]),
          expect=expect([["nan", "nan"]]))
    f.add("a weight that is not a number is pruned from a mean", TF_SAFE,
          sparse("safe_embedding_lookup_sparse", [table], [[3, 3]], combiner="mean", weights=["nan", 1],
                 prune_invalid_ids=True), expect=expect([[3, 4]]))
    f.add("and stays in a sum", TF_SAFE,
          sparse("safe_embedding_lookup_sparse", [table], [[3, 3]], combiner="sum", weights=["nan", 1],
                 prune_invalid_ids=True), expect=expect([["nan", "nan"]]))
    f.add("a row that is infinite clips to nan, its finite part to 0", TF_CLIP,
          {"op": "embedding_lookup", "params": [table], "ids": [1, 0], "max_norm": 1},
          expect=expect([["nan", 0], ["nan", "nan"]]))
    f.add("gradients that are not finite pass", TF_SPARSE,
          sparse("embedding_lookup_sparse", [table], [[3], [0]], combiner="sum", grad=[["inf", "nan"], ["-inf", 1]]),
          expect=expect([[3, 4], [1, "nan"]],
                        [{"partition": 0, "ids": [0, 3], "values": [["-inf", 1], ["inf", "nan"]]}]))
    return f


def bad_input():
    f = File()
    table = [[1, 2], [3, 4], [5, 6]]
    def bad(name, case, *parts):
        f.add(name, "issue: bad input", case, expect={"error": list(parts)})
    dense = {"op": "embedding_lookup", "params": [table], "ids": [0]}
    good = sparse("embedding_lookup_sparse", [table], [[0], [1, 2]], combiner="sum")
    safe_case = dict(good, op="safe_embedding_lookup_sparse", prune_invalid_ids=True)
    bad("id above the table", dict(dense, ids=[0, 3]), "id 3", "number 1", "out of range", "3 rows")
    bad("id above the table, sparse", dict(good, values=[0, 1, 9]), "id 9", "number 2", "out of range")
    bad("id above the table, pruning", dict(safe_case, values=[0, -1, 9]), "id 9", "out of range")
    bad("id above all partitions, div", dict(dense, params=deal(table, 2, "div"), ids=[3]), "id 3", "2 partitions")
    bad("id above all partitions, mod", dict(dense, params=deal(table, 2, "mod"), ids=[3], partition_strategy="mod"), "id 3")
    bad("partitions that do not fit div", dict(dense, params=split(table, [1, 2]), ids=[1]), "id 1", "out of range")
    bad("id above the blocks", dict(dense, params=split(table, [1, 2]), blocknums=[1, 1], ids=[2]), "id 2")
    bad("the largest id", dict(dense, ids=[2**63 - 1]), "id 9223372036854775807")
    bad("the smallest id", dict(dense, ids=[-2**63]), "negative")
    bad("an id beyond 64 bits", dict(dense, ids=[2**64 - 1]), "ids", "integer")
    bad("negative id", dict(dense, ids=[-1]), "id -1", "negative")
    bad("negative id, sparse", dict(good, values=[0, -1, 2]), "id -1", "prune_invalid_ids")
    bad("negative id, fused without pruning", dict(good, op="fused_embedding_lookup_sparse", values=[0, -1, 2]), "id -1")
    bad("negative id, safe told not to prune", dict(safe_case, values=[0, -1, 2], prune_invalid_ids=False), "id -1")
    bad("no combiner", dict(good, combiner=None), "combiner", "sum, mean or sqrtn")
    bad("no combiner, safe", {k: v for k, v in safe_case.items() if k != "combiner"}, "combiner")
    bad("sparse ids for the dense operator", dict(good, op="embedding_lookup", combiner=None), "combiner")
    bad("unknown combiner", dict(good, combiner="men"), "'men'", "mean")
    bad("too few weights", dict(good, weights=[1, 2]), "2 weights", "3 ids")
    bad("too many weights", dict(safe_case, weights=[1, 2, 3, 4]), "4 weights", "3 ids")
    bad("weights for the dense operator", dict(dense, weights=[1]), "weights")
    bad("a combiner for the dense operator", dict(dense, combiner="sum"), "combiner")
    bad("default_id for an operator without", dict(good, default_id=1), "default_id")
    bad("default_id out of range", dict(safe_case, values=[-1, 1, 2], default_id=3), "default_id 3")
    bad("default_id negative", dict(safe_case, values=[-1, 1, 2], default_id=-1), "default_id -1")
    bad("index outside the shape", dict(good, indices=[[0, 0], [1, 0], [2, 0]]), "[2, 0]", "[2, 2]")
    bad("column outside the shape", dict(good, indices=[[0, 2], [1, 0], [1, 1]]), "[0, 2]")
    bad("negative index", dict(good, indices=[[0, 0], [1, 0], [1, -1]]), "[1, -1]")
    bad("rows out of order", dict(good, indices=[[1, 0], [0, 0], [1, 1]]), "sort")
    bad("too few indices", dict(good, indices=[[0, 0], [1, 0]]), "2 indices", "3 values")
    bad("indices of another rank", dict(good, dense_shape=[2, 2, 2]), "3 coordinates")
    bad("dense_shape of one dimension", dict(good, indices=[[0], [0], [1]], dense_shape=[2]), "at least 2")
    bad("negative dense_shape", dict(good, indices=[], values=[], dense_shape=[-1, 2]), "negative")
    bad("huge dense_shape", dict(good, indices=[], values=[], dense_shape=[2**40, 2**40, 1]), "dense_shape")
    bad("a result of a billion numbers", dict(good, indices=[], values=[], dense_shape=[2**30, 1]), "dense_shape", "2.15e+09")
    bad("a result of empty lists", dict(good, indices=[], values=[], dense_shape=[2**31, 0, 1]), "dense_shape")
    bad("dense_shape in a list", dict(good, dense_shape=[[2, 2]]), "dense_shape has shape [1, 2]")
    bad("weights of another shape", dict(good, weights=[[1, 2, 3]]), "weights has shape [1, 3]")
    bad("blocknums that are no list", dict(good, blocknums=3), "blocknums has shape []")
    bad("gradient of another shape", dict(good, grad=[[1, 1]]), "[1, 2]", "[2, 2]")
    bad("gradient of another dim", dict(good, grad=[[1, 1, 1], [1, 1, 1]]), "grad has shape")
    bad("rows of different length", dict(dense, params=[[[1, 2], [3]]]), "params[0]")
    bad("partitions of different dim", dict(dense, params=[[[1, 2]], [[1, 2, 3]]]), "params[1]", "3")
    bad("no partition", dict(dense, params=[]), "partition")
    bad("no row", dict(dense, params=[[]]), "no row")
    bad("params missing", {"op": "embedding_lookup", "ids": [0]}, "params")
    bad("params of too few dimensions", dict(dense, params=[[1, 2]]), "params[0]")
    bad("a row that is no number", dict(dense, params=[[[1, "x"]]]), "params[0]", "number")
    bad("ids missing", {"op": "embedding_lookup", "params": [table]}, "no ids")
    bad("dense and sparse ids", dict(good, ids=[0]), "dense ids")
    bad("ragged dense ids", dict(dense, ids=[[0, 1], [2]]), "ids", "equal length")
    bad("an id that is no integer", dict(dense, ids=[0.5]), "ids", "integer")
    bad("a string id without keys", dict(dense, ids=["a"]), "ids", "integer")
    bad("unknown key", dict(dense, keys=[["a", "b", "c"]], ids=["d"]), "'d'")
    bad("a key twice", dict(dense, keys=[["a", "b", "a"]], ids=["b"]), "'a'")
    bad("an integer for string keys", dict(dense, keys=[["a", "b", "c"]], ids=[1]), "bytes", "int64")
    bad("keys of another number", dict(dense, keys=[["a", "b"]], ids=["b"]), "3 rows")
    bad("max_norm 0", dict(dense, max_norm=0), "max_norm", "positive")
    bad("max_norm negative", dict(good, max_norm=-1), "max_norm is -1")
    bad("max_norm nan", dict(good, max_norm="nan"), "max_norm")
    bad("unknown partition_strategy", dict(dense, partition_strategy="hash"), "'hash'")
    bad("blocknums of another number", dict(dense, blocknums=[1, 2]), "2 counts")
    bad("blocknums above a partition", dict(dense, blocknums=[4]), "4 rows")
    bad("blocknums negative", dict(dense, blocknums=[-1]), "-1")
    bad("unknown op", dict(dense, op="embedding_lookups"), "embedding_lookup")
    bad("no op", {"params": [table], "ids": [0]}, "op")
    bad("prune_invalid_ids is no flag", dict(safe_case, prune_invalid_ids=1), "prune_invalid_ids")
    return f


def main():
    directory = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    total = 0
    for make in (embedding_lookup, embedding_lookup_sparse, safe_embedding_lookup_sparse, fused_embedding_lookup_sparse,
                 fused_safe_embedding_lookup_sparse, embedding_bag, raw_keys, not_finite, bad_input):
        cases = make().cases
        total += len(cases)
        with open(os.path.join(directory, make.__name__ + ".json"), "w", encoding="utf-8") as out:
            out.write("[\n" + ",\n".join(json.dumps(c, ensure_ascii=False) for c in cases) + "\n]\n")
    print(total, "cases")


main()
