#!/bin/bash
# usage: repeat.sh N BENCH [OPTIONS...]: runs `embers bench BENCH OPTIONS` N times, one run after another, and prints the median
# and the range of every target over the runs, beside its limit. Figures in the documents come from this, with N of at least 5 and
# the machine that it names. EMBERS_PROGRAM is the program, otherwise build/embers of this tree. KEEP is a folder for the reports,
# BENCH-RUN.json, which must have none of this benchmark yet; plots.py draws from them.
set -euo pipefail
if [ $# -lt 2 ] || ! [ "$1" -gt 0 ] 2>/dev/null; then
  sed -n '2,5s/^# //p' "$0" >&2
  exit 2
fi
runs="$1" bench="$2"
shift 2
program="${EMBERS_PROGRAM:-$(dirname "$0")/../../build/embers}"
reports="${KEEP:-$(mktemp -d)}"
mkdir -p "$reports"
[ -n "${KEEP:-}" ] || trap 'rm -rf "$reports"' EXIT
if compgen -G "$reports/$bench-*.json" > /dev/null; then
  echo "$reports has reports of $bench already, which would count as these runs: name another folder in KEEP" >&2
  exit 2
fi
# What the reports say that they are of: the commit of this tree, as far as there is one.
export EMBERS_COMMIT="${EMBERS_COMMIT-$(git -C "$(dirname "$0")" describe --always --dirty --abbrev=12 2>/dev/null || true)}"
failed=0
for ((run = 1; run <= runs; ++run)); do
  echo "run $run of $runs" >&2
  "$program" bench "$bench" "$@" --report "$reports/$bench-$run.json" > "$reports/$bench-$run.log" 2>&1 ||
    { failed=$((failed + 1)); tail -n 3 "$reports/$bench-$run.log" >&2; }
done
/usr/bin/env python3 "$(dirname "$0")/medians.py" "$reports"/"$bench"-*.json || failed=$runs
if [ "$failed" -gt 0 ]; then
  echo "$failed of $runs runs failed" >&2
  exit 1
fi
