#!/bin/bash
# usage: bench_partition.sh EMBERS: a quick run ends well, and its report names every figure.
set -euo pipefail
[ -n "${EMBERS_TEST:-}" ] || exec "$(dirname "$0")/../support/guarded.sh" "$0" "$@"
report="$(mktemp)"
trap 'rm -f "$report"' EXIT
"$1" bench partition --quick --report "$report"
for key in token_seconds encoding_seconds token_bytes encoding_bytes ratio plan auto partition.plan_is_right partition.wide; do
  grep -q "\"$key\"" "$report" || { echo "the report lacks $key"; exit 1; }
done
