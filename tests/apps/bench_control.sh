#!/bin/bash
# usage: bench_control.sh EMBERS: a quick run ends well, and its report names every figure.
set -euo pipefail
[ -n "${EMBERS_TEST:-}" ] || exec "$(dirname "$0")/../support/guarded.sh" "$0" "$@"
report="$(mktemp)"
trap 'rm -f "$report"' EXIT
"$1" bench control --quick --report "$report"
for key in cpu_us_per_lease heartbeat_p99_ms idle_cpu member_kib 'control.leases_per_second[quick]' 'control.heartbeat_p99_ms[quick]' 'control.member_kib[quick]' 'control.scale[quick]'; do
  grep -qF "\"$key\"" "$report" || { echo "the report lacks $key"; exit 1; }
done
