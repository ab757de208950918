#!/bin/bash
# usage: bench_python.sh EMBERS: a quick run ends well, and its report names every figure. 77: torch is missing.
set -euo pipefail
[ -n "${EMBERS_TEST:-}" ] || exec "$(dirname "$0")/../support/guarded.sh" "$0" "$@"
report="$(mktemp)"
log="$(mktemp)"
trap 'rm -f "$report" "$log"' EXIT
if ! "$1" bench python --quick --report "$report" > "$log" 2>&1; then
  cat "$log"
  grep -q "bench python needs" "$log" && exit 77
  exit 1
fi
for key in lookup training vs_torch vs_cpp 'python.lookup_overhead[quick]' 'python.dlrm_vs_torch[quick]' 'python.dlrm_vs_cpp[quick]' \
  'python.deepfm_vs_torch[quick]'; do
  grep -qF "\"$key\"" "$report" || { echo "the report lacks $key"; exit 1; }
done
