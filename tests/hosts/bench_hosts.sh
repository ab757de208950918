#!/bin/bash
# usage: bench_hosts.sh EMBERS: a quick run ends well, and its report names every figure. 77: there can be no hosts here.
set -euo pipefail
[ -n "${EMBERS_TEST:-}" ] || exec "$(dirname "$0")/../support/guarded.sh" "$0" "$@"
report="$(mktemp)"
log="$(mktemp)"
trap 'rm -f "$report" "$log"' EXIT
if ! "$1" bench hosts --quick --report "$report" > "$log" 2>&1; then
  cat "$log"
  grep -q "needs network namespaces" "$log" && exit 77
  exit 1
fi
for key in bits_per_second round_trip_seconds cores pairs examples_per_second 'hosts.deepfm_vs_local[quick]'; do
  grep -qF "\"$key\"" "$report" || { echo "the report lacks $key"; exit 1; }
done
