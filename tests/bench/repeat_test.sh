#!/bin/bash
# usage: repeat_test.sh: repeat.sh with a program that pretends to measure.
set -euo pipefail
dir="$(mktemp -d)"
trap 'rm -rf "$dir"' EXIT
cat > "$dir/embers" << 'PROGRAM'
#!/bin/bash
# Called as: bench NAME [--fail] --report FILE. The run's number decides what it measures.
n=$(($(cat "$(dirname "$0")/count" 2>/dev/null || echo 0) + 1))
echo $n > "$(dirname "$0")/count"
cat > "${@: -1}" << REPORT
{"machine": {"cpu": "a CPU", "cores": 2, "l3_bytes": 33554432, "memory_bytes": 1073741824, "kernel": "Linux", "compiler": "g++",
             "load": 0.5},
 "targets": [{"name": "a.speed", "value": $((n * n)).5, "target": 4, "holds": $([ $n -gt 1 ] && echo true || echo false), "limit": 10.0},
             {"name": "a.size", "value": $n, "target": 9, "holds": true, "at_most": true}]}
REPORT
[ "$3" != --fail ] || { echo "a limit is beaten"; exit 1; }
PROGRAM
chmod +x "$dir/embers"
repeat="$(dirname "$0")/repeat.sh"

EMBERS_PROGRAM="$dir/embers" "$repeat" 3 engine > "$dir/out"
expect() { grep -qF -- "$1" "$dir/out" || { echo "no '$1' in:"; cat "$dir/out"; exit 1; }; }
expect "a CPU, 2 cores, L3 32 MiB, memory 1 GiB"
expect "a.speed                                          4.500     1.500     9.500     at least 4    2/3     10.000"
expect "a.size                                           2.000     1.000     3.000      at most 9    3/3"

rm "$dir/count"
KEEP="$dir/runs" EMBERS_PROGRAM="$dir/embers" "$repeat" 2 engine > "$dir/out"
expect "a.size                                           1.500     1.000     2.000"
for run in 1 2; do
  grep -qF "\"value\": $run," "$dir/runs/engine-$run.json" || { echo "the report of run $run is not kept"; exit 1; }
done
medians="$(dirname "$0")/medians.py"
sed 's/"cores": 2/"cores": 64/' "$dir/runs/engine-2.json" > "$dir/other.json"
! "$medians" "$dir/runs/engine-1.json" "$dir/other.json" > /dev/null 2>&1 || { echo "two machines were mixed"; exit 1; }
sed 's/"targets"/"limits": [{"beaten": true}], "targets"/' "$dir/runs/engine-2.json" > "$dir/other.json"
"$medians" "$dir/runs/engine-1.json" "$dir/other.json" > "$dir/out"
expect "1 of these runs failed: embers beat a limit there"
if KEEP="$dir/runs" EMBERS_PROGRAM="$dir/embers" "$repeat" 1 engine > "$dir/out" 2>&1; then
  echo "reports of other runs counted as these"
  exit 1
fi
expect "has reports of engine already"
KEEP="$dir/runs" EMBERS_PROGRAM="$dir/embers" "$repeat" 1 wire > "$dir/out"  # those of another benchmark do not matter
expect "1 runs"

if EMBERS_PROGRAM="$dir/embers" "$repeat" 2 engine --fail > "$dir/out" 2>&1; then
  echo "failed runs went unnoticed"
  exit 1
fi
expect "a limit is beaten"
expect "2 of 2 runs failed"
! "$repeat" 0 engine 2> /dev/null || { echo "no runs were enough"; exit 1; }
