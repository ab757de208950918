#!/usr/bin/env python3
"""usage: plots_test.py: plots.py with small reports of benchmarks that never ran."""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

PLOTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "plots.py")
SVG = "{http://www.w3.org/2000/svg}"


def median(value):
    return {"median": value}


def target(name, value, wanted, **more):
    return {"name": name, "value": value, "target": wanted, "holds": True, **more}


def report(bench, **keys):
    return {"bench": bench, "quick": False, "sizes": "", "limits": [],
            "machine": {"cpu": "a <CPU>", "cores": 2, "l3_bytes": 33554432, "memory_bytes": 17179869184, "kernel": "Linux 6",
                        "compiler": "12", "load": 0.25}, **keys}


def engine():
    return report(
        "engine",
        grid=[{"dim": dim, "rows": 10000000, "distribution": keys, "pull_ns": 31.4, "pull_floor_ns": 27.0, "push_ns": 60.0,
               "push_floor_ns": 55.0} for dim in (16, 64) for keys in ("uniform", "zipf")],
        scale=[{"dim": 4, "rows": rows, "pull_ns": 20, "pull_floor_ns": 15} for rows in (1000000, 100000000)],
        targets=[target("engine.pull_vs_floor", 0.91, 0.8), target("engine.pull_vs_floor.dim_16", 0.71, 0.7),
                 target("engine.push_vs_floor", 0.86, 0.85), target("engine.scale_100m", 0.75, 0.7),
                 target("engine.insert_vs_absl", 1.25, 1.15), target("engine.overhead_bytes", 21, 22, at_most=True)])


def latency(per_ms):
    return {share: {"p99_ms": median(float(share) / per_ms)} for share in ("50", "80", "95")}


def wire():
    sides = ["ours", "asio", "blocking", "rows", "rows2", "chunked", "chunked2", "gather"]
    point = {side: {"trips_per_s": 4000 + i} for i, side in enumerate(sides)}
    return report("wire", grid=[{"socket": "unix", "shared": {"trips_per_s": 9120}, **point}, {"socket": "tcp", **point}],
                  latency={"blocking": latency(20), "at_80_of_blocking": {"p99_ms": median(0.7)}, **latency(40)},
                  targets=[target("wire.unix_vs_asio", 0.96, 0.95), target("wire.tcp_vs_asio", 0.87, 0.85),
                           target("wire.shared_vs_asio", 2.3, 1.5), target("wire.p99_ms", 2, 5, at_most=True)])


def storage():
    def setup(peer, rate):
        rates = {"rows_per_s": {"embers": 2.61e6, peer: rate}}
        return {"uniform": rates, "zipf": rates}
    return report("storage", rows=10000000,
                  peers={"redis": {"--io-threads 1": setup("redis", 3.1e5), "--io-threads 2": setup("redis", 3.4e5)},
                         "torch_local": {"": setup("torch_local", 1.1e6)}},
                  limit_without_sockets={"rows_per_s": 4.7e6}, limit_sockets_only={"rows_per_s": {"limit_sockets_only": 1.2e7}},
                  targets=[target("storage.vs_redis", 7.7, 7), target("storage.vs_torch_local", 2.4, 1.5)])


def train():
    return report("train", targets=[target("train.dlrm", 1.83, 1.3), target("train.dlrm.cpu", 1.02, 1), target("train.deepfm", 1.91, 1.3),
                                    target("train.dedupe_mids", 222, 100)])


def control():
    def load(us):
        return {"cpu_us_per_lease": median(us), "heartbeat_p99_ms": median(9), "leases_per_second": median(15300)}
    return report("control", grid=[{"workers": n, "always": load(38.5), "paced": load(57.5)} for n in (10, 4000)], rate_paced=5000.0,
                  bare=load(15.5), targets=[target("control.leases_per_second", 26000, 20000),
                                            target("control.heartbeat_p99_ms", 83, 100, at_most=True),
                                            target("control.scale", 1.45, 1.5, at_most=True)])


def python():
    def sides(**seconds):
        return {side: {"seconds": median(s)} for side, s in seconds.items()}
    return report("python", training=[{"model": "dlrm", "sides": sides(embers=1e-5, torch=2e-5, cpp=8e-6)},
                                      {"model": "deepfm", "sides": sides(embers=1e-5, torch=1.6e-5)}],
                  targets=[target("python.dlrm_vs_torch", 2.02, 1.3), target("python.deepfm_vs_torch", 1.6, 1.3),
                           target("python.dlrm_vs_cpp", 0.86, 0.85), target("python.lookup_overhead", 1.08, 1.15, at_most=True)])


REPORTS = {make.__name__: make for make in (engine, wire, storage, train, control, python)}


class Plots(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.out = os.path.join(self.folder, "figures")

    def files(self, reports):
        paths = []
        for i, one in enumerate(reports):
            paths.append(os.path.join(self.folder, f"{i}.json"))
            with open(paths[-1], "w", encoding="utf-8") as file:
                file.write(one if isinstance(one, str) else json.dumps(one))
        return paths

    def run_plots(self, *words):
        return subprocess.run([sys.executable, PLOTS, *words], capture_output=True, text=True, check=False)

    def draw(self, reports, *options):
        """The figure's root and the words in it."""
        done = self.run_plots(*options, self.out, *self.files(reports))
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.figure(reports[0]["bench"])

    def figure(self, bench):
        with open(os.path.join(self.out, f"{bench}.svg"), encoding="utf-8") as file:
            root = ElementTree.fromstring(file.read())
        self.assertEqual(root.tag, SVG + "svg")
        return root, [text.text for text in root.iter(SVG + "text")]

    def refuse(self, reports, *wanted, options=()):
        done = self.run_plots(*options, self.out, *self.files(reports))
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)  # a message, no traceback
        for what in wanted:
            self.assertIn(what, done.stderr)
        self.assertFalse(os.path.exists(self.out), "a figure was drawn all the same")

    def test_a_figure_holds_what_its_reports_hold(self):
        wanted = {"engine": ["31.4 (31.4 to 31.4)", "embers, uniform", "floor, Zipf", "dim 64", "floor, 100 M rows",
                             "0.91 (0.91 to 0.91); wanted: ≥ 0.8"],
                  "wire": ["9 120 (9 120 to 9 120)", "4 000 (4 000 to 4 000)", "limit: kernel gathers", "2 (2 to 2); wanted: ≤ 5",
                           "at 95 % of its own capacity", "4.75 (4.75 to 4.75)", "0.7 (0.7 to 0.7)"],
                  "storage": ["2.61 (2.61 to 2.61)", "Redis --io-threads 2", "0.34 (0.34 to 0.34)", "7.7 (7.7 to 7.7); wanted: ≥ 7",
                              "12 (12 to 12)"],
                  "train": ["1.83 (1.83 to 1.83); wanted: ≥ 1.3", "embers over plain libtorch: examples per CPU second", "DeepFM"],
                  "control": ["38.5 (38.5 to 38.5); wanted: ≤ 50", "15.5 (15.5 to 15.5)", "83 (83 to 83); wanted: ≤ 100",
                              "15 300 (15 300 to 15 300)"],
                  "python": ["100 (100 to 100)", "125 (125 to 125)", "62.5 (62.5 to 62.5)", "1.08 (1.08 to 1.08); wanted: ≤ 1.15"]}
        for bench, make in REPORTS.items():
            with self.subTest(bench):
                _, words = self.draw([make() for _ in range(5)])
                for word in wanted[bench]:
                    self.assertIn(word, words)
                self.assertIn("a <CPU>, 2 cores, L3 32 MiB, memory 16 GiB, Linux 6, compiler 12; load before the runs at most 0.25", words)
                self.assertFalse([word for word in words if "DRAFT" in word])

    def test_what_a_peer_lacks_is_left_out(self):
        _, words = self.draw([storage() for _ in range(5)])
        self.assertFalse([word for word in words if "memcached" in word or "RPC" in word])

    def test_bars_are_medians_and_whiskers_ranges(self):
        reports = [train() for _ in range(5)]
        for one, value in zip(reports, (1.5, 1.0, 2.0, 1.25, 1.75)):
            one["targets"] = [target("train.dlrm", value, 1.0)]
        root, words = self.draw(reports)
        self.assertIn("1.5 (1 to 2); wanted: ≥ 1", words)
        bar = next(rect for rect in root.iter(SVG + "rect") if rect.get("class") == "embers")
        left, width = float(bar.get("x")), float(bar.get("width"))
        lines = [line for line in root.iter(SVG + "line")]
        whisker = next(line for line in lines if line.get("class") == "whisker")
        wanted = next(line for line in lines if line.get("class") == "target")
        one = width / 1.5
        self.assertAlmostEqual(float(whisker.get("x1")), left + one, delta=0.2)
        self.assertAlmostEqual(float(whisker.get("x2")), left + 2 * one, delta=0.2)
        self.assertAlmostEqual(float(wanted.get("x1")), left + one, delta=0.2)
        grid = [float(line.get("x1")) for line in lines if line.get("class") == "grid"]
        ticks = [(float(text.get("x")), float(text.text)) for text in root.iter(SVG + "text") if text.get("class") == "small middle"]
        self.assertEqual(grid, [x for x, _ in ticks])
        for x, value in ticks:
            self.assertAlmostEqual(x, left + value * one, delta=0.2)

    def test_nothing_lies_outside_the_picture(self):
        for bench, make in REPORTS.items():
            with self.subTest(bench):
                root, _ = self.draw([make() for _ in range(5)])
                width, height = float(root.get("width")), float(root.get("height"))
                for part in root.iter():
                    for name in ("x", "x1", "x2"):
                        self.assertTrue(0 <= float(part.get(name, 0)) <= width, part.attrib)
                    for name in ("y", "y1", "y2"):
                        self.assertTrue(0 <= float(part.get(name, 0)) <= height, part.attrib)
                for text in root.iter(SVG + "text"):  # 7 units are a wide letter's
                    x, length, style = float(text.get("x")), 7 * len(text.text), text.get("class") or ""
                    if "small" not in style and "title" not in style:
                        self.assertTrue(x - length >= 0 if "end" in style else x + length <= width, text.text)

    def test_colours_suit_light_and_dark_pages(self):
        root, _ = self.draw([train() for _ in range(5)])
        style = root.find(SVG + "style").text
        light, dark = style.split("@media (prefers-color-scheme: dark)")
        for name in ("text", ".ground", ".embers", ".peer", ".limit", ".target", ".whisker", ".grid"):
            colour = re.compile(re.escape(name) + r" \{[^}]*(?:fill|stroke): (#\w+)")
            self.assertNotEqual(colour.search(light)[1], colour.search(dark)[1], name)
        used = {name for part in root.iter() for name in (part.get("class") or "").split()}
        self.assertEqual({name for name in used if f".{name} " not in style}, set())

    def test_drafts_say_so(self):
        quick = train()
        quick.update(quick=True, sizes="quick", targets=[target("train.dlrm[quick]", 1.83, 1.3)])
        self.refuse([quick], "train: no figure comes of 1 of at least 5 runs, quick runs; --draft")
        _, words = self.draw([quick], "--draft")
        self.assertIn("1.83; wanted: ≥ 1.3", words)
        self.assertIn("DRAFT, not to be published: 1 of at least 5 runs, quick runs", words)

    def test_other_sizes_are_no_figure(self):
        other = storage()
        other["sizes"] = "rows=1000"
        self.refuse([other] * 5, "storage: no figure comes of other sizes: rows=1000")
        self.refuse([other, storage()], "storage: the runs have different sizes", options=["--draft"])

    def test_runs_that_beat_a_limit_are_no_figure(self):
        beaten = engine()
        beaten["limits"] = [{"name": "engine.push, dim 64", "of_limit": 1.2, "beaten": True}]
        self.refuse([engine()] * 4 + [beaten], "engine: no figure comes of runs that failed since embers beat a limit: ")

    def test_reports_that_are_not_what_they_should_be(self):
        def changed(make, change):
            one = make()
            change(one)
            return [make() for _ in range(4)] + [one]

        def other_machine(one):
            one["machine"]["cores"] = 64
        cases = [
            (["{"] * 5, ["0.json: cannot be read as JSON"]),
            ([[1]] * 5, ["0.json: it has no 'bench'"]),
            ([report("lookup")] * 5, ["0.json: there is no figure of 'lookup', only of engine, wire"]),
            (changed(engine, lambda one: one.pop("scale")), ["4.json: it has no 'scale'"]),
            (changed(engine, lambda one: one["grid"].pop()), ["4.json: 'grid' has no entry with dim 64, distribution zipf"]),
            (changed(engine, lambda one: one["grid"][0].update(pull_ns="fast")), ["4.json: 'grid[0].pull_ns' is \"fast\", not a number"]),
            (changed(wire, lambda one: one["grid"][1].pop("gather")), ["4.json: it has no 'grid[1].gather'"]),
            (changed(wire, lambda one: one["latency"].pop("blocking")), ["4.json: it has no 'latency.blocking'"]),
            (changed(wire, lambda one: one["latency"]["80"].update(p99_ms=median(float("nan")))),
             ["4.json: 'latency.80.p99_ms.median' is NaN, not a number"]),
            (changed(storage, lambda one: one["peers"].pop("redis")), ["4.json: it has no 'peers.redis'"]),
            (changed(train, lambda one: one["targets"].pop(0)), ["4.json: it has no target 'train.dlrm'"]),
            ([report("train", targets=[target("train.dedupe_mids", 1, 1)])] * 5, ["0.json: it has no target of a model"]),
            (changed(control, lambda one: one.update(grid={})), ["4.json: 'grid' is not a list"]),
            (changed(python, lambda one: one["training"][0]["sides"]["torch"]["seconds"].update(median=0)),
             ["4.json: 'training[0].sides.torch.seconds.median' is 0"]),
            (changed(python, other_machine), ["4.json: it comes from another machine than", "64 cores"]),
        ]
        for reports, wanted in cases:
            with self.subTest(wanted[0]):
                self.refuse(reports, *wanted)

    def test_runs_of_several_commits_make_a_draft(self):
        runs = [dict(engine(), commit=commit) for commit in ["abc"] * 4 + ["abc-dirty"]]
        self.refuse(runs, "engine: no figure comes of runs of several commits: abc, abc-dirty")
        _, words = self.draw(runs, "--draft")
        self.assertTrue(any("runs of several commits" in word for word in words))

    def test_one_bad_report_draws_nothing(self):
        bad = train()
        del bad["targets"]
        self.refuse([engine() for _ in range(5)] + [bad] * 5, "it has no 'targets'")

    def test_a_missing_file(self):
        done = self.run_plots(self.out, os.path.join(self.folder, "none.json"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("none.json: cannot be read", done.stderr)

    def test_usage(self):
        for words in ([], [self.out], ["--sketch", self.out, "a.json"]):
            done = self.run_plots(*words)
            self.assertEqual(done.returncode, 1)
            self.assertIn("usage: plots.py", done.stderr)


if __name__ == "__main__":
    unittest.main()
