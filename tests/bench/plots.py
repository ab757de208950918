#!/usr/bin/env python3
"""usage: plots.py [--draft] FOLDER REPORT...

Draws the figures of docs/benchmarks.md into the folder: NAME.svg for each benchmark that the reports are of. A figure takes the
reports of at least five full runs on one machine (KEEP=runs tests/bench/repeat.sh 5 NAME). It shows their medians, with whiskers from
the least run to the most. --draft takes fewer runs, quick ones and those of other sizes, too, and says so in the figure."""
import dataclasses
import json
import math
import os
import re
import statistics
import sys
from xml.sax.saxutils import escape

FEWEST_RUNS = 5
KEYS = {"uniform": "uniform", "zipf": "Zipf"}
MODELS = {"wide_deep": "wide & deep", "deepfm": "DeepFM", "dlrm": "DLRM"}


class Mistake(Exception):
    """What is wrong with a report, and where."""


# --- reports --------------------------------------------------------------------------------------------------------------------------

class Node:
    """A value within a report, which knows where it stands."""

    def __init__(self, file, value, where=""):
        self.file, self.value, self.where = file, value, where

    def mistake(self, what):
        return Mistake(f"{self.file}: {what}")

    def has(self, key):
        return isinstance(self.value, dict) and key in self.value

    def __getitem__(self, key):
        where = f"{self.where}.{key}" if self.where else key
        if not self.has(key):
            raise self.mistake(f"it has no '{where}'; is it a report of this version's benchmark?")
        return Node(self.file, self.value[key], where)

    def keys(self):
        if not isinstance(self.value, dict):
            raise self.mistake(f"'{self.where}' is not an object")
        return list(self.value)

    def entries(self):
        if not isinstance(self.value, list):
            raise self.mistake(f"'{self.where}' is not a list")
        return [Node(self.file, value, f"{self.where}[{i}]") for i, value in enumerate(self.value)]

    def entry(self, **wanted):
        """The entry of a list in which these keys have these values."""
        for node in self.entries():
            if all(node.has(key) and node.value[key] == value for key, value in wanted.items()):
                return node
        raise self.mistake(f"'{self.where}' has no entry with " + ", ".join(f"{key} {value}" for key, value in wanted.items()))

    def number(self):
        if isinstance(self.value, bool) or not isinstance(self.value, (int, float)) or not math.isfinite(self.value) or self.value < 0:
            raise self.mistake(f"'{self.where}' is {json.dumps(self.value)}, not a number from 0 on")
        return self.value

    def text(self):
        if not isinstance(self.value, str):
            raise self.mistake(f"'{self.where}' is {json.dumps(self.value)}, not a string")
        return self.value


def read(path):
    try:
        with open(path, encoding="utf-8") as file:
            value = json.load(file)
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise Mistake(f"{path}: cannot be read as JSON: {error}") from error
    return Node(path, value)


def target_name(target):
    """Without the sizes in brackets."""
    return target["name"].text().split("[")[0]


def target_of(report, name):
    for target in report["targets"].entries():
        if target_name(target) == name:
            return target
    raise report.mistake(f"it has no target '{name}'")


# --- figures --------------------------------------------------------------------------------------------------------------------------

@dataclasses.dataclass
class Row:
    label: str
    kind: str  # embers | peer | limit: its colour
    values: list  # of each run
    target: float = None
    at_most: bool = False


@dataclasses.dataclass
class Panel:
    """Rows on one axis, in groups with or without a heading."""
    title: str
    unit: str
    groups: list  # of (heading, rows)


def row(label, kind, reports, number, scale=1.0):
    return Row(label, kind, [scale * number(report).number() for report in reports])


def target_row(label, reports, name):
    targets = [target_of(report, name) for report in reports]
    first = targets[0]
    return Row(label, "embers", [target["value"].number() for target in targets], first["target"].number(),
               first.has("at_most") and bool(first["at_most"].value))


def ratios(title, reports, names):
    """What the targets are about; `names`: label of each."""
    return Panel(title, "ratio", [("", [target_row(label, reports, name) for name, label in names.items()])])


def number_of_rows(n):
    return f"{n / 1e6:g} M rows" if n >= 1e6 else f"{n:,} rows".replace(",", " ")


def engine(reports):
    def sides(label, node, what):
        return [row(f"embers{label}", "embers", reports, lambda r: node(r)[f"{what}_ns"]),
                row(f"floor{label}", "limit", reports, lambda r: node(r)[f"{what}_floor_ns"])]

    panels, grid = [], reports[0]["grid"].entries()
    for what in ("pull", "push"):
        groups = {}
        for point in grid:
            dim, keys = point["dim"].number(), point["distribution"].text()
            groups.setdefault(f"dim {dim}", []).extend(
                sides(f", {KEYS.get(keys, keys)}", lambda r, dim=dim, keys=keys: r["grid"].entry(dim=dim, distribution=keys), what))
        panels.append(Panel(f"{what.capitalize()}, {number_of_rows(grid[0]['rows'].number())} with Adam's slots", "ns a key (less is better)",
                            list(groups.items())))
    groups = {}
    for point in reports[0]["scale"].entries():
        dim, rows = point["dim"].number(), point["rows"].number()
        groups.setdefault(f"dim {dim}", []).extend(
            sides(f", {number_of_rows(rows)}", lambda r, dim=dim, rows=rows: r["scale"].entry(dim=dim, rows=rows), "pull"))
    panels.append(Panel("Pull by size of the table, without slots, uniform keys", "ns a key (less is better)", list(groups.items())))
    panels.append(ratios("The floor's time over embers' (1: as fast as memory allows)", reports, {
        "engine.pull_vs_floor": "pull, dims 64 and 128, the least", "engine.pull_vs_floor.dim_16": "pull, dim 16, the least",
        "engine.push_vs_floor": "push, the least", "engine.scale_100m": "pull, largest table, the least"}))
    panels.append(ratios("CPU seconds of insertion into an abseil map over embers'", reports,
                         {"engine.insert_vs_absl": "insertion, the least dim"}))
    return panels


def wire(reports):
    bare = {"asio": "bare program, asio", "blocking": "bare program, blocking"}
    limits = {"rows": "copies rows", "rows2": "copies rows, two threads", "chunked": "copies in chunks",
              "chunked2": "copies in chunks, two threads", "gather": "kernel gathers"}
    panels = []
    for socket, title in (("unix", "Processes of one host: Unix sockets, shared memory"), ("tcp", "TCP over the loopback")):
        def rate(side):
            return lambda r, socket=socket: r["grid"].entry(socket=socket)[side]["trips_per_s"]
        rows = [row("embers, shared memory", "embers", reports, rate("shared"))] if socket == "unix" else []
        rows.append(row("embers, socket", "embers", reports, rate("ours")))
        rows += [row(label, "peer", reports, rate(side)) for side, label in bare.items()]
        rows += [row(f"limit: {label}", "limit", reports, rate(side)) for side, label in limits.items()]
        panels.append(Panel(title, "pulls/s of 4096 rows, 1 MiB each", [("", rows)]))
    panels.append(ratios("Pulls/s over those of the better bare program", reports, {
        "wire.shared_vs_asio": "shared memory, over Unix", "wire.unix_vs_asio": "Unix sockets", "wire.tcp_vs_asio": "TCP"}))
    def at(share, label, kind, side):
        return row(label, kind, reports, lambda r: side(r["latency"])[share]["p99_ms"]["median"])
    shares = ("50", "80", "95")
    latencies = [(f"at {share} % of its own capacity", [at(share, "embers, shared memory", "embers", lambda latency: latency),
                                                       at(share, bare["blocking"], "peer", lambda latency: latency["blocking"])])
                 for share in shares]
    at_80 = latencies[shares.index("80")][1]
    at_80[0].target, at_80[0].at_most = target_of(reports[0], "wire.p99_ms")["target"].number(), True
    at_80.append(row("embers, at the bare program's rate", "embers", reports, lambda r: r["latency"]["at_80_of_blocking"]["p99_ms"]["median"]))
    panels.append(Panel("99th percentile of pulls that are due at random moments, two clients", "ms (less is better)", latencies))
    return panels


PEERS = {"redis": "Redis", "memcached": "memcached", "torch_rpc": "torch RPC", "torch_local": "torch, one process"}


def storage(reports):
    there = [peer for peer in PEERS if any(r["peers"].has(peer) for r in reports)]
    panels = []
    for keys, title in (("uniform", "Keys in a random order"), ("zipf", "Keys by Zipf's law")):
        groups = []
        for peer in there:
            def rate(side, setup, peer=peer, keys=keys):
                return lambda r: r["peers"][peer][setup][keys]["rows_per_s"][side]
            setups = reports[0]["peers"][peer].keys()
            fastest = max(setups, key=lambda setup: statistics.median(rate(peer, setup)(r).number() for r in reports))
            groups.append(("", [row("embers", "embers", reports, rate("embers", fastest), 1e-6),
                                row(f"{PEERS[peer]} {fastest}".strip(), "peer", reports, rate(peer, fastest), 1e-6)]))
        panels.append(Panel(f"{title}, {number_of_rows(reports[0]['rows'].number())} of 64 floats", "M rows/s, pulled and pushed with Adam",
                            groups))
    panels.append(ratios("Rows/s of embers over those of the peer, keys in a random order", reports,
                         {f"storage.vs_{peer}": f"over {PEERS[peer]}" for peer in there}))
    panels.append(Panel("What parts of it would do alone", "M rows/s", [("", [
        row("embers' actors in one process", "limit", reports, lambda r: r["limit_without_sockets"]["rows_per_s"], 1e-6),
        row("the bytes over Unix sockets", "limit", reports, lambda r: r["limit_sockets_only"]["rows_per_s"]["limit_sockets_only"], 1e-6)])]))
    return panels


def train(reports):
    about = {"": "examples/s", "cpu": "examples per CPU second", "to_loss": "1 / time to a given test loss",
             "embedding": "1 / time of what embeddings cost"}
    groups = {}
    for target in reports[0]["targets"].entries():
        name = target_name(target)
        parts = re.fullmatch(r"train\.(\w+?)(?:\.(\w+))?", name)
        if parts and parts[1] in MODELS:
            what = parts[2] or ""
            groups.setdefault(about.get(what, what), []).append(target_row(MODELS[parts[1]], reports, name))
    if not groups:
        raise reports[0].mistake("it has no target of a model, 'train.MODEL'")
    return [Panel(f"embers over plain libtorch: {what}", "ratio", [("", rows)]) for what, rows in groups.items()]


def control(reports):
    crowds = [point["workers"].number() for point in reports[0]["grid"].entries()]
    largest = crowds[-1]

    def of(workers, load, what):
        return lambda r: r["grid"].entry(workers=workers)[load][what]["median"]
    always = [row(f"{n} workers", "embers", reports, of(n, "always", "cpu_us_per_lease")) for n in crowds]
    always[-1].target, always[-1].at_most = 1e6 / target_of(reports[0], "control.leases_per_second")["target"].number(), True
    always.append(row(f"bare program, {largest} workers", "limit", reports, lambda r: r["bare"]["cpu_us_per_lease"]["median"]))
    paced = [row(f"{n} workers", "embers", reports, of(n, "paced", "cpu_us_per_lease")) for n in crowds]
    beats = [row(f"{n} workers", "embers", reports, of(n, "paced", "heartbeat_p99_ms")) for n in crowds]
    rates = [row(f"{n} workers", "embers", reports, of(n, "always", "leases_per_second")) for n in crowds]
    pace = f"{reports[0]['rate_paced'].number():,.0f}".replace(",", " ")
    return [Panel("Leases by the clock, asked for without pause; members run on the same cores", "leases/s", [("", rates)]),
            Panel("The master's processor time", "µs a lease (less is better)",
                  [("asked for without pause", always), (f"{pace} leases/s", paced)]),
            Panel(f"99th percentile of a heartbeat's round trip, {pace} leases/s", "ms (less is better)", [("", beats + [
                target_row(f"{largest} workers, or while they join", reports, "control.heartbeat_p99_ms")])]),
            ratios(f"Processor time of a lease with {largest} workers over that with few (less is better)", reports,
                   {"control.scale": "the dearer of both loads"})]


def python(reports):
    sides = {"embers": ("embers", "embers"), "torch": ("torch's own tables", "peer"), "cpp": ("embers' C++ worker", "peer")}
    groups = []
    for point in reports[0]["training"].entries():
        model = point["model"].text()
        rows = []
        for side in point["sides"].keys():
            if side not in sides:
                raise point.mistake(f"'{point.where}.sides' has '{side}', which is none of {', '.join(sides)}")
            seconds = [r["training"].entry(model=model)["sides"][side]["seconds"]["median"] for r in reports]
            for node in seconds:
                if node.number() == 0:
                    raise node.mistake(f"'{node.where}' is 0")
            rows.append(Row(*sides[side], [1e-3 / node.number() for node in seconds]))
        groups.append((MODELS.get(model, model), sorted(rows, key=lambda r: ["embers", "peer", "limit"].index(r.kind))))
    return [Panel("Training, one worker, one shard process", "thousand examples/s", groups),
            ratios("Examples/s of scripts with embers over others", reports, {
                "python.dlrm_vs_torch": "DLRM, over torch", "python.deepfm_vs_torch": "DeepFM, over torch",
                "python.dlrm_vs_cpp": "DLRM, over the C++ worker"}),
            ratios("Time of a look-up in Python over C++ (less is better)", reports, {"python.lookup_overhead": "look-up"})]


FIGURES = {"engine": (engine, "The in-memory store beside the limits of memory"),
           "wire": (wire, "Pulls between two processes"),
           "storage": (storage, "Pull, and push with Adam, beside other servers"),
           "train": (train, "Whole jobs beside plain libtorch"),
           "control": (control, "One master, up to thousands of workers"),
           "python": (python, "PyTorch scripts with embers and without")}


# --- SVG ------------------------------------------------------------------------------------------------------------------------------

WIDTH, LEFT, RIGHT = 940, 290, 640  # of the picture; where bars begin and where the axis ends
LINE, BAR = 18, 11  # heights of a row and its bar
STYLE = """
  text { font: 12px sans-serif; fill: #1f2328; }
  .title { font-size: 16px; font-weight: bold; } .panel { font-weight: bold; }
  .small { font-size: 11px; fill: #59636e; } .end { text-anchor: end; } .middle { text-anchor: middle; }
  .ground { fill: #ffffff; } .grid { stroke: #d1d9e0; } .whisker { stroke: #1f2328; stroke-width: 1.5; }
  .embers { fill: #218bff; } .peer { fill: #d4823a; } .limit { fill: #8c959f; }
  .target { stroke: #cf222e; stroke-width: 2; stroke-dasharray: 4 2; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; } .small { fill: #9198a1; } .ground { fill: #0d1117; } .grid { stroke: #30363d; }
    .whisker { stroke: #e6edf3; } .embers { fill: #1f6feb; } .peer { fill: #b3641f; } .limit { fill: #6e7681; }
    .target { stroke: #ff7b72; }
  }"""


def show(value):
    """Three digits."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    digits = 2 - math.floor(math.log10(value))
    value = round(value, digits)
    text = f"{value:,.{max(0, digits)}f}".replace(",", " ")
    return text.rstrip("0").rstrip(".") if "." in text else text


def ticks(most):
    """Round numbers from 0 to at least `most`."""
    step = 10.0 ** math.floor(math.log10(most))
    for part in (5, 2, 1, 0.5, 0.2):
        if 3 <= math.ceil(most / (step * part)) <= 6:
            step *= part
            break
    return [i * step for i in range(math.ceil(most / step - 1e-9) + 1)]


class Picture:
    def __init__(self, title):
        self.parts, self.y, self.heading = [], 0, title
        self.line(26, 22)
        self.text(16, title, "title")

    def line(self, height, baseline):
        """Goes on to the next line."""
        self.y, self.baseline = self.y + height, self.y + baseline

    def text(self, x, text, style=""):
        self.parts.append(f'<text x="{x:.1f}" y="{self.baseline:.1f}"' + (f' class="{style}"' if style else "") + f">{escape(text)}</text>")

    def stroke(self, style, x1, y1, x2, y2):
        self.parts.append(f'<line class="{style}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>')

    def panel(self, panel):
        self.line(34, 24)
        self.text(16, panel.title, "panel")
        self.text(WIDTH - 16, panel.unit, "small end")
        rows = [r for _, some in panel.groups for r in some]
        axis = ticks(max([max(r.values) for r in rows] + [r.target or 0 for r in rows]) or 1)
        top, grid = self.y, len(self.parts)

        def x(value):
            return LEFT + (RIGHT - LEFT) * value / axis[-1]
        for i, (heading, some) in enumerate(panel.groups):
            if heading:
                self.line(LINE, 13)
                self.text(16, heading, "small")
            elif i > 0:
                self.line(LINE / 3, 0)
            for r in some:
                self.row(r, x)
        self.line(16, 12)
        lines = []
        for tick in axis:
            self.text(x(tick), f"{tick:g}" if tick < 1e4 else show(tick), "small middle")
            lines.append(f'<line class="grid" x1="{x(tick):.1f}" y1="{top:.1f}" x2="{x(tick):.1f}" y2="{self.y - 16:.1f}"/>')
        self.parts[grid:grid] = lines  # behind the bars

    def row(self, r, x):
        above = self.y
        self.line(LINE, 13)
        middle, value, least, most = above + LINE / 2, statistics.median(r.values), min(r.values), max(r.values)
        self.text(LEFT - 8, r.label, "end")
        self.parts.append(f'<rect class="{r.kind}" x="{LEFT}" y="{middle - BAR / 2:.1f}" width="{x(value) - LEFT:.1f}" height="{BAR}"/>')
        if len(r.values) > 1:
            self.stroke("whisker", x(least), middle, x(most), middle)
            for end in (least, most):
                self.stroke("whisker", x(end), middle - 3, x(end), middle + 3)
        if r.target is not None:
            self.stroke("target", x(r.target), above, x(r.target), above + LINE)
        words = show(value) + (f" ({show(least)} to {show(most)})" if len(r.values) > 1 else "")
        if r.target is not None:
            words += f"; wanted: {'≤' if r.at_most else '≥'} {show(r.target)}"
        self.text(RIGHT + 10, words)

    def svg(self, notes):
        self.line(12, 0)
        for note in notes:
            self.line(16, 12)
            self.text(16, note, "small")
        height = self.y + 10
        return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{WIDTH}" height="{height:.0f}" '
                          f'viewBox="0 0 {WIDTH} {height:.0f}">',
                          f"<title>{escape(self.heading)}</title>", f"<style>{STYLE}\n</style>",
                          f'<rect class="ground" width="{WIDTH}" height="{height:.0f}"/>', *self.parts, "</svg>", ""])


# --- the program ----------------------------------------------------------------------------------------------------------------------

def drafts(reports):
    """Why these reports make no figure."""
    why = []
    if len(reports) < FEWEST_RUNS:
        why.append(f"{len(reports)} of at least {FEWEST_RUNS} runs")
    if any(report["quick"].value for report in reports):
        why.append("quick runs")
    if beaten := [report.file for report in reports if report.has("limits") and
                  any(limit["beaten"].value for limit in report["limits"].entries())]:
        why.append(f"runs that failed since embers beat a limit: {', '.join(beaten)}")
    if apart := [report.file for report in reports if report.has("losses_apart") and report["losses_apart"].value]:
        why.append(f"runs that failed since losses were apart: {', '.join(apart)}")
    commits = sorted({report["commit"].text() if report.has("commit") else "" for report in reports})
    if len(commits) > 1:
        why.append(f"runs of several commits: {', '.join(commits)}")
    sizes = sorted({report["sizes"].text() for report in reports} - {"", "quick"})
    return why + [f"other sizes: {size}" for size in sizes]


def machine(reports):
    def words(report):
        m = report["machine"]
        return (f"{m['cpu'].text()}, {m['cores'].number()} cores, L3 {m['l3_bytes'].number() >> 20} MiB, "
                f"memory {m['memory_bytes'].number() / 2**30:.0f} GiB, {m['kernel'].text()}, compiler {m['compiler'].text()}")
    first = words(reports[0])
    for report in reports[1:]:
        if words(report) != first:
            raise report.mistake(f"it comes from another machine than {reports[0].file}: {words(report)}; {first}. A figure takes runs "
                                 "of one")
    return first


def draw(bench, reports, draft):
    why = drafts(reports)
    if why and not draft:
        raise Mistake(f"{bench}: no figure comes of {', '.join(why)}; --draft draws one to look at")
    if len({report["sizes"].text() for report in reports}) > 1:
        raise Mistake(f"{bench}: the runs have different sizes")
    make, title = FIGURES[bench]
    picture = Picture(title)
    for panel in make(reports):
        picture.panel(panel)
    loads = [report["machine"]["load"].number() for report in reports]
    notes = [f"Bars: medians of {len(reports)} runs. Whiskers: from the least run to the most. Dashed lines: what is wanted.",
             f"{machine(reports)}; load before the runs at most {show(max(loads))}"]
    return picture.svg([f"DRAFT, not to be published: {', '.join(why)}"] * bool(why) + notes)


def write(folder, bench, text):
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, f"{bench}.svg")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    print(path)


def main(words):
    options, words = [w for w in words if w.startswith("--")], [w for w in words if not w.startswith("--")]
    if options not in ([], ["--draft"]) or len(words) < 2:
        sys.exit(__doc__)
    folder, benches = words[0], {}
    for path in words[1:]:
        report = read(path)
        bench = report["bench"].text()
        if bench not in FIGURES:
            raise report.mistake(f"there is no figure of '{bench}', only of {', '.join(FIGURES)}")
        benches.setdefault(bench, []).append(report)
    drawn = {bench: draw(bench, reports, bool(options)) for bench, reports in benches.items()}  # all or none
    for bench, text in drawn.items():
        write(folder, bench, text)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except Mistake as mistake:
        sys.exit(f"plots.py: {mistake}")
