#!/usr/bin/env python3
"""usage: lookup.py [--report FILE] [--quick] [--only BAGS,DIM,ROWS,zipf|uniform]... [--peers 0] [--floors 0] [--times N]

Fused lookups on a GPU (et.cuda) beside PyTorch's: 26 columns of 1 to 20 ids a bag, forward, backward and Adam. Needs a GPU,
PyTorch for it, libembers_cuda.so (EMBERS_CUDA_LIBRARY) and libembers_gpu_floors.so beside it.

Peers, all with torch.optim.SparseAdam: `chain`, an unfused lookup of one torch operator after another (mask, gather, weights,
sum of segments, division), and `bag`, torch.nn.EmbeddingBag(sparse=True). Each is run with a table for each column and with one
table for all (stacked); the faster counts. Results after the first step are compared.

embers' steps are also timed as CUDA graphs, one for each batch: a host takes longer to launch a small minibatch's kernels than
they run. (SparseAdam waits for the device, which no graph records.) Ratios to peers are of steps without graphs.

Limits, measured in the run: `bound`, the bytes that a step moves over the bandwidth of random rows of that table (no real bound
where ids repeat, and what they read again is in a cache); `floor`, the
time of three kernels that only move: rows by the step's ids, gradients of bags by its sorted items, and row, m and v of its
unique rows there and back."""
import argparse
import ctypes
import json
import math
import os
import statistics
import sys
import time

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(HERE)), "python"))
sys.path.insert(0, HERE)
import without_core  # noqa: F401
import embers
from embers.torch import cuda as ec

COLUMNS, MOST_IDS, EXPONENT = 26, 20, 1.05
RATE, EPSILON = 1e-3, 1e-8


class Batch:
    """ids: rows within their column, column after column; offsets of all bags; the column of each id."""

    def __init__(self, bags, rows, zipf, generator):
        dev = {"device": "cuda", "generator": generator}
        lengths = torch.randint(1, MOST_IDS + 1, (COLUMNS * bags,), **dev)
        self.offsets = torch.zeros(COLUMNS * bags + 1, dtype=torch.int64, device="cuda")
        torch.cumsum(lengths, 0, out=self.offsets[1:])
        n = int(self.offsets[-1])
        if zipf:
            weights = torch.arange(1, rows + 1, device="cuda", dtype=torch.float64) ** -EXPONENT
            cumulated = torch.cumsum(weights, 0)
            ranks = torch.searchsorted(cumulated, torch.rand(n, dtype=torch.float64, **dev) * cumulated[-1]).clamp(max=rows - 1)
            scattered = torch.randperm(rows, **dev)
            self.ids = scattered[ranks]
        else:
            self.ids = torch.randint(0, rows, (n,), **dev)
        self.ends = self.offsets[::bags].tolist()
        self.bags = bags
        self.of_column = torch.repeat_interleave(torch.arange(COLUMNS, device="cuda"),
                                                 torch.tensor([b - a for a, b in zip(self.ends, self.ends[1:])], device="cuda"))
        self.stacked = self.ids + self.of_column * rows
        self.bag_of_id = torch.repeat_interleave(torch.arange(COLUMNS * bags, device="cuda"), lengths)

    def column(self, c):
        begin, end = self.ends[c], self.ends[c + 1]
        return self.ids[begin:end], self.offsets[c * self.bags:(c + 1) * self.bags + 1] - begin, \
            self.bag_of_id[begin:end] - c * self.bags


def median_ms(step, batches, times, warm):
    events = []
    for i in range(warm + times):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        step(batches[i % len(batches)])
        end.record()
        if i >= warm:
            events.append((begin, end))
    torch.cuda.synchronize()
    all_ms = [a.elapsed_time(b) for a, b in events]
    return statistics.median(all_ms), min(all_ms), max(all_ms)


class Ours:
    name = "embers"

    def __init__(self, rows, dim, initial):
        self.bags = ec.EmbeddingBagCollection([ec.Table(rows, dim)] * COLUMNS, [ec.Column(c, "mean") for c in range(COLUMNS)],
                                              embers.Adam(RATE, epsilon=EPSILON), device="cuda")
        for c in range(COLUMNS):
            self.bags.weight(c).copy_(initial[c * rows:(c + 1) * rows])

    def step(self, batch):
        out = self.bags(batch.ids, batch.offsets)
        out.backward(batch.gradient)
        return out

    def captured(self, batch):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.step(batch)
        return graph

    def rows(self, stacked, rows):
        return torch.stack([self.bags.weight(r // rows)[r % rows] for r in stacked.tolist()])


class Peer:
    """A module per column, or one for all, and SparseAdam."""

    def __init__(self, rows, dim, initial, stacked):
        self.stacked, self.dim = stacked, dim
        parts = [initial.clone()] if stacked else [initial[c * rows:(c + 1) * rows].clone() for c in range(COLUMNS)]
        self.weights = [torch.nn.Parameter(p) for p in parts]
        self.optimizer = torch.optim.SparseAdam(self.weights, lr=RATE, eps=EPSILON)

    def step(self, batch):
        if self.stacked:
            out = self.look_up(self.weights[0], batch.stacked, batch.offsets, batch.bag_of_id)
            out = out.view(COLUMNS, batch.bags, self.dim).transpose(0, 1).reshape(batch.bags, COLUMNS * self.dim)
        else:
            out = torch.cat([self.look_up(w, *batch.columns[c]) for c, w in enumerate(self.weights)], 1)
        out.backward(batch.gradient)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return out

    def rows(self, stacked, rows):
        if self.stacked:
            return self.weights[0].detach()[stacked]
        return torch.stack([self.weights[r // rows].detach()[r % rows] for r in stacked.tolist()])


class Bag(Peer):
    def look_up(self, weight, ids, offsets, bag_of_id):
        return torch.nn.functional.embedding_bag(ids, weight, offsets, mode="mean", sparse=True, include_last_offset=True)


class Chain(Peer):
    def look_up(self, weight, ids, offsets, bag_of_id):
        counts = (ids >= 0).to(torch.float32)  # prune
        rows = torch.nn.functional.embedding(ids.clamp(min=0), weight, sparse=True) * counts.unsqueeze(1)
        bags = len(offsets) - 1
        sums = torch.zeros(bags, self.dim, device="cuda").index_add(0, bag_of_id, rows)
        divisors = torch.zeros(bags, device="cuda").index_add(0, bag_of_id, counts)
        return torch.where(divisors > 0, 1 / divisors, torch.zeros((), device="cuda")).unsqueeze(1) * sums


class Floors:
    def __init__(self, path):
        self.calls = ctypes.CDLL(path)
        self.processors = torch.cuda.get_device_properties(0).multi_processor_count
        self.sink = torch.zeros(1, device="cuda")

    def best(self, call, aheads, times=5):
        def checked(*arguments):
            if (code := call(*arguments)) != 0:
                raise SystemExit(f"a kernel of floors.cu failed: error {code}")

        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        found = []
        for ahead in aheads:
            for each in (8, 32, 128):
                found.append(median_ms(lambda _: checked(self.processors * each, ahead, stream), [None], times, 1)[0])
        return min(found)

    def gather(self, rows, ids, dim):
        return self.best(lambda blocks, ahead, stream: self.calls.floor_gather(
            ctypes.c_void_p(rows.data_ptr()), ctypes.c_void_p(ids.data_ptr()), ctypes.c_int64(len(ids)), dim, blocks, ahead,
            ctypes.c_void_p(self.sink.data_ptr()), stream), (1, 2, 4, 8))

    def change(self, a, b, c, ids, dim):
        return self.best(lambda blocks, ahead, stream: self.calls.floor_change(
            *(ctypes.c_void_p(t.data_ptr()) for t in (a, b, c, ids)), ctypes.c_int64(len(ids)), dim, blocks, ahead, stream),
            (1, 2, 4))


def kernels_of(step, batch):
    """Launches of one step, and the milliseconds of each kernel."""
    from torch.profiler import ProfilerActivity, profile
    step(batch)
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        step(batch)
        torch.cuda.synchronize()
    found = [(e.key, e.count, getattr(e, "device_time_total", 0) / 1000) for e in seen.key_averages()]
    found = [f for f in found if f[2] > 0 and not f[0].startswith("cuda")]
    if not found:
        raise SystemExit("the profiler saw no kernel")
    return sum(f[1] for f in found), {f[0][:100]: round(f[2], 4) for f in found}


def differ(*pairs):
    """The largest difference, relative to what is larger than 1; infinite where any number is not finite."""
    found = [float(((a - b).abs() / b.abs().clamp(min=1)).max()) for a, b in pairs]
    return max(found) if all(math.isfinite(f) for f in found) else math.inf


def find_limits(case, batch, initial, unique, dim, rows, floors, generator):
    bags, n = batch.bags, len(batch.ids)
    m, v = torch.zeros_like(initial), torch.zeros_like(initial)
    random_rows = torch.randint(0, COLUMNS * rows, (min(n, 8_000_000),), device="cuda", generator=generator)
    case["random_rows_gb_s"] = len(random_rows) * dim * 4 / floors.gather(initial, random_rows, dim) / 1e6
    case["floor_forward_ms"] = floors.gather(initial, batch.stacked, dim)
    # Gradients as the step reads them: row `bag % bags` of its part of the matrix, in the order of sorted items.
    order = torch.argsort(batch.stacked, stable=True)
    bag = batch.bag_of_id[order]
    case["floor_gradients_ms"] = floors.gather(batch.gradient, (bag % bags) * COLUMNS + bag // bags, dim)
    case["floor_update_ms"] = floors.change(initial, m, v, unique, dim)
    moved = 2 * n * dim * 4 + COLUMNS * bags * dim * 4 + 8 * n + len(unique) * dim * 4 * 6
    case["moved_gb"] = moved / 1e9
    case["bound_ms"] = moved / case["random_rows_gb_s"] / 1e6
    case["floor_ms"] = case["floor_forward_ms"] + case["floor_gradients_ms"] + case["floor_update_ms"]
    step = min(case["embers_ms"][0], case["graph_ms"][0])
    case["of_bound"] = case["bound_ms"] / step
    case["of_floor"] = case["floor_ms"] / step
    case["eager_of_bound"] = case["bound_ms"] / case["embers_ms"][0]
    # Of the kernels alone. A step is longer where the host takes longer to launch them than they run.
    case["kernels_of_bound"] = case["bound_ms"] / sum(case["kernels_ms"].values())


def run_case(bags, dim, all_rows, zipf, floors, peers, times):
    rows = all_rows // COLUMNS
    torch.cuda.empty_cache()
    generator = torch.Generator(device="cuda").manual_seed(bags + dim + all_rows + zipf)
    batches = [Batch(bags, rows, zipf, generator) for _ in range(3)]
    for b in batches:
        b.gradient = torch.randn(bags, COLUMNS * dim, device="cuda", generator=generator)
    case = {"bags": bags, "dim": dim, "rows": all_rows, "ids": "zipf" if zipf else "uniform",
            "ids_a_step": len(batches[0].ids)}
    initial = torch.randn(COLUMNS * rows, dim, device="cuda", generator=generator)
    sample = batches[0].stacked[torch.randint(0, len(batches[0].ids), (300,), device="cuda", generator=generator)]
    unique, counts = torch.unique(batches[0].stacked, return_counts=True)
    case["unique_rows"], case["hottest"] = len(unique), int(counts.max())

    ours = Ours(rows, dim, initial)
    times = times * 5 if bags <= 4096 else times
    first = ours.step(batches[0]).detach().clone()
    after = ours.rows(sample, rows)
    case["embers_ms"] = median_ms(ours.step, batches, times, times)
    graphs = [ours.captured(b) for b in batches]
    case["graph_ms"] = median_ms(lambda graph: graph.replay(), graphs, times, times)
    case["launches"], case["kernels_ms"] = kernels_of(ours.step, batches[0])
    ours.bags.check_errors()
    del ours, graphs

    if floors:
        find_limits(case, batches[0], initial, unique, dim, rows, floors, generator)
    if peers:
        for b in batches:
            b.columns = [b.column(c) for c in range(COLUMNS)]
        for kind in (Bag, Chain):
            for stacked in (True, False):
                name = kind.__name__.lower() + ("_stacked" if stacked else "")
                if stacked and len(batches[0].ids) * dim >= 2**31:
                    # With torch 2.11 such a step ended in an illegal memory access, after which nothing works.
                    case[name + "_ms"] = None
                    continue
                torch.cuda.empty_cache()
                try:
                    peer = kind(rows, dim, initial, stacked)
                    out = peer.step(batches[0]).detach()
                    case[name + "_difference"] = differ((first, out), (after, peer.rows(sample, rows)))
                    del out
                    case[name + "_ms"] = median_ms(peer.step, batches, max(times // 2, 3), len(batches))
                except torch.OutOfMemoryError:
                    case[name + "_ms"] = None
                peer = None
        for kind in ("bag", "chain"):
            known = [case[k][0] for k in (kind + "_ms", kind + "_stacked_ms") if case[k]]
            case["vs_" + kind] = min(known) / case["embers_ms"][0] if known else None
    return case


def targets_of(found):
    measured = [c for c in found if "skipped" not in c]
    targets = []

    def target(name, value, wanted, holds):
        targets.append({"name": name, "value": value, "target": wanted, "holds": holds})

    for name, key, wanted in (("vs_chain", "vs_chain", 5), ("vs_embedding_bag", "vs_bag", 2), ("of_bound", "of_bound", 0.7),
                              ("of_floor", "of_floor", 0.7)):
        values = [c[key] for c in measured if c.get(key) is not None]
        if values:
            target("gpu." + name, min(values), wanted, min(values) >= wanted)
    if measured:
        most = max(c["launches"] for c in measured)
        target("gpu.launches", most, 4, most <= 4)
        differences = [c[k] for c in measured for k in c if k.endswith("_difference")]
        if differences:
            target("gpu.difference", max(differences), 1e-5, max(differences) <= 1e-5)
    return targets


def write_report(path, found):
    """Also after each case: one that fails loses nothing of those before. Returns the targets."""
    targets = targets_of(found)
    if path:
        gpu = torch.cuda.get_device_properties(0)
        machine = {"gpu": gpu.name, "memory_bytes": gpu.total_memory, "multiprocessors": gpu.multi_processor_count,
                   "torch": torch.__version__, "cuda": torch.version.cuda}
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"benchmark": "gpu", "machine": machine, "targets": targets, "cases": found}, file, indent=1)
    return targets


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--report")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", action="append")
    parser.add_argument("--peers", type=int, default=1)
    parser.add_argument("--floors", type=int, default=1)
    parser.add_argument("--times", type=int, default=11)
    args = parser.parse_args()
    library = os.path.abspath(os.environ["EMBERS_CUDA_LIBRARY"])
    floors = Floors(os.path.join(os.path.dirname(library), "libembers_gpu_floors.so"))
    cases = [(bags, dim, rows, zipf) for rows in (1_000_000, 10_000_000, 50_000_000) for dim in (16, 64, 128)
             for bags in (4096, 65536) for zipf in (True, False)]
    if args.quick:
        cases = [c for c in cases if c[2] == 10_000_000]
    if args.only:
        cases = [(int(b), int(d), int(r), z == "zipf") for b, d, r, z in (o.split(",") for o in args.only)]
    memory = torch.cuda.get_device_properties(0).total_memory
    found, began = [], time.time()
    for bags, dim, rows, zipf in cases:
        if rows * dim * 4 * 4.5 > memory * 0.9:  # initial rows, and rows and slots of whoever is measured
            found.append({"bags": bags, "dim": dim, "rows": rows, "ids": "zipf" if zipf else "uniform", "skipped": "memory"})
            print(f"{bags} bags, dim {dim}, {rows} rows: does not fit", flush=True)
            continue
        case = run_case(bags, dim, rows, zipf, floors if args.floors else None, args.peers, args.times)
        found.append(case)
        write_report(args.report, found)
        parts = " ".join(f"{k.split('::')[-1].split('<')[0].split('(')[0]}={ms:.3f}" for k, ms in case["kernels_ms"].items())
        line = f"{bags:6} bags, dim {dim:3}, {rows / 1e6:3.0f} M rows, {case['ids']:7}: {case['embers_ms'][0]:8.3f} ms, graph {case['graph_ms'][0]:.3f}"
        if args.floors:
            line += (f", of bound {case['of_bound']:.2f} (eager {case['eager_of_bound']:.2f}, kernels {case['kernels_of_bound']:.2f}), of floor {case['of_floor']:.2f} (forward {case['floor_forward_ms']:.3f}, "
                     f"gradients {case['floor_gradients_ms']:.3f}, update {case['floor_update_ms']:.3f})")
        line += f"; {case['launches']} launches: {parts}"
        if args.peers:
            line += (f"; {case['vs_bag'] or 0:.1f} x bag, {case['vs_chain'] or 0:.1f} x chain, differs "
                     f"{max([case[k] for k in case if k.endswith('_difference')], default=math.nan):.1e}")
        print(f"{line} [{time.time() - began:.0f} s]", flush=True)
    for t in write_report(args.report, found):
        print(f"{t['name']}: {t['value']:.4g} (target {t['target']}) {'holds' if t['holds'] else 'missed'}")


if __name__ == "__main__":
    main()
