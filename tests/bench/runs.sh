#!/bin/bash
# usage: runs.sh EMBERS BENCH KEY...: a quick run of the benchmark ends well, and its report has all the keys and targets. What it
# measures is not for a test to judge. 77: this machine lacks what the benchmark needs.
set -euo pipefail
[ -n "${EMBERS_TEST:-}" ] || exec "$(dirname "$0")/../support/guarded.sh" "$0" "$@"
embers="$1" bench="$2"
shift 2
report="$(mktemp)"
log="$(mktemp)"
trap 'rm -f "$report" "$log"' EXIT
if ! "$embers" bench "$bench" --quick --report "$report" > "$log" 2>&1; then
  cat "$log"
  grep -q "embers bench $bench needs" "$log" && exit 77
  exit 1
fi
for key in "$@"; do
  grep -qF "\"$key\"" "$report" || { echo "the report lacks $key"; exit 1; }
done
