#!/bin/bash
# usage: bench_wire.sh EMBERS: a quick run ends well, and its report names every figure.
set -euo pipefail
[ -n "${EMBERS_TEST:-}" ] || exec "$(dirname "$0")/../support/guarded.sh" "$0" "$@"
report="$(mktemp)"
trap 'rm -f "$report"' EXIT
"$1" bench wire --quick --report "$report"
for key in trips_per_s cpu_ms_per_trip histogram control_under_load wire.unix_vs_asio wire.tcp_vs_asio wire.p99_over_p50; do
  grep -q "\"$key\"" "$report" || { echo "the report lacks $key"; exit 1; }
done
