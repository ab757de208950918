#!/usr/bin/env python3
"""usage: medians.py REPORT...: prints, over the reports of several runs of a benchmark, the median and the range of every target,
the median of its limit, and how often it held. Reports that were never written are left out."""
import json
import statistics
import sys


def main(paths):
    reports = []
    for path in paths:
        try:
            with open(path, encoding="utf-8") as file:
                reports.append(json.load(file))
        except FileNotFoundError:
            print(f"{path} is missing", file=sys.stderr)
    if not reports:
        sys.exit("no run has written a report")
    machine = reports[0]["machine"]
    for name, of in (("machine", lambda r: [r["machine"][k] for k in ("cpu", "cores", "l3_bytes")]), ("sizes", lambda r: r.get("sizes"))):
        if any(of(report) != of(reports[0]) for report in reports):
            sys.exit(f"these reports are not of one {name}")
    beaten = sum(any(limit.get("beaten") for limit in report.get("limits", [])) for report in reports)
    if beaten:
        print(f"{beaten} of these runs failed: embers beat a limit there")
    apart = sum(bool(report.get("losses_apart")) for report in reports)
    if apart:
        print(f"{apart} of these runs failed: losses were apart there")
    loads = [report["machine"]["load"] for report in reports]
    print(f"{machine['cpu']}, {machine['cores']} cores, L3 {machine['l3_bytes'] >> 20} MiB, "
          f"memory {machine['memory_bytes'] / 2**30:.0f} GiB, {machine['kernel']}, {machine['compiler']}, "
          f"load before the runs {min(loads):.2f} to {max(loads):.2f}; {len(reports)} runs")
    targets = {}
    for report in reports:
        for target in report["targets"]:
            targets.setdefault(target["name"], []).append(target)
    print(f"{'target':<44} {'median':>9} {'least':>9} {'most':>9}   {'wanted':>12} {'held':>6}  {'limit':>9}")
    for name, runs in targets.items():
        values = [run["value"] for run in runs]
        limits = [run["limit"] for run in runs if "limit" in run]
        wanted = f"{'at most' if runs[0].get('at_most') else 'at least'} {runs[0]['target']:g}"
        held = f"{sum(run['holds'] for run in runs)}/{len(runs)}"
        print(f"{name:<44} {statistics.median(values):9.3f} {min(values):9.3f} {max(values):9.3f}   {wanted:>12} {held:>6}  "
              + (f"{statistics.median(limits):9.3f}" if limits else ""))


main(sys.argv[1:])
