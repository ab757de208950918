#!/bin/bash
# usage: client.sh SOURCE BUILD COMPILER SANITIZERS
# Follows examples/client/README.md in a directory of its own, against a running job of several processes.
set -euo pipefail
[ -n "${EMBERS_TEST:-}" ] || exec "$(dirname "$0")/../support/guarded.sh" "$0" "$@"
source_dir="$1" build_dir="$2" compiler="$3" sanitizers="$4"

work="$(mktemp -d -t "embers client.XXXXXX")"  # spaces, because paths have them
processes=()
cleanup() {
  for process in "${processes[@]}"; do kill -KILL "$process" 2>/dev/null || true; done
  rm -rf "$work"
}
trap cleanup EXIT
fail() {
  echo "client.sh: $*" >&2
  for log in "$work"/*.log; do echo "--- $log" >&2; tail -n 20 "$log" >&2; done
  exit 1
}

cmake --install "$build_dir" --prefix "$work/prefix" >/dev/null
cp -r "$source_dir/examples/client" "$work/lookup"
# Nothing of libtorch may be looked for: an empty Torch_DIR that is found would be an error.
mkdir "$work/no torch"
echo 'message(FATAL_ERROR "embers::client looks for libtorch")' >"$work/no torch/TorchConfig.cmake"
cmake -S "$work/lookup" -B "$work/lookup/build" -DCMAKE_PREFIX_PATH="$work/prefix" -DTorch_DIR="$work/no torch" \
  -DCMAKE_CXX_COMPILER="$compiler" ${sanitizers:+"-DCMAKE_CXX_FLAGS=-fsanitize=$sanitizers"} \
  >"$work/configure.log" 2>&1 || fail "examples/client does not configure against the installed embers"
cmake --build "$work/lookup/build" >"$work/build.log" 2>&1 ||
  fail "examples/client does not build against the installed embers"
lookup="$work/lookup/build/lookup"

# Neither in what it loads nor in what its headers lead to.
ldd "$lookup" >"$work/ldd.log"
grep -q 'libembers_client\.so' "$work/ldd.log" || fail "lookup does not link embers::client"
grep -E 'not found|libtorch|libc10|libembers_(model|data)' "$work/ldd.log" && fail "lookup loads the library above"
"$compiler" -std=c++20 -M -I "$work/prefix/include/embers" "$work/lookup/lookup.cc" >"$work/headers.log"
grep -q 'client/session\.h' "$work/headers.log" || fail "the compiler lists no headers"
grep -oE '[^ ]*/(caf|capnp|kj|torch|ATen|boost)/[^ ]*' "$work/headers.log" && fail "client/session.h shows the header above"

# Jobs that train until they are stopped.
embers="$work/prefix/bin/embers"
cd "$work"
"$embers" synth criteo --rows 4000 --seed 1 --out data
sed 's/^epochs = .*/epochs = 1000000/' "$source_dir/examples/user_model/mine.toml" |
  sed '/^library/d; s/^name = "mine"/name = "deepfm"/; s/^dim = .*//' >job.toml

# start NAME LISTEN: a job of several processes with the job directory NAME.
start() {
  "$embers" master job.toml --job-dir "$1" --listen "$2" --shards 2 --workers 1 >"$1.master.log" 2>&1 &
  master=$!
  processes+=("$master")
  for member in shard.0 shard.1 worker; do
    "$embers" "${member%.*}" --job-dir "$1" >"$1.$member.log" 2>&1 &
    processes+=("$!")
  done
}
newest() { sed -n "s/^job '.*', versions [0-9]* to \([0-9]*\)$/\1/p" "$1" | tail -n 1; }
# expect_status STATUS TEXT LOOKUP-OPTIONS...: it fails, and says why.
expect_status() {
  local expected="$1" text="$2" status=0
  shift 2
  "$lookup" "$@" >wrong.log 2>&1 || status=$?
  [ "$status" = "$expected" ] || fail "status $expected expected, not $status: lookup $*"
  grep -q "$text" wrong.log || fail "lookup $* does not say: $text"
}

start here "unix:$work/master"
"$lookup" --job-dir here >tables.log 2>lookup.log || fail "lookup cannot list tables"
job=(--master "unix:$work/master" --secret-file here/secret)
grep -P '^\S+\t[0-9]+\tint64$' tables.log >/dev/null || grep -P '^\S+\t[0-9]+\tbytes$' tables.log >/dev/null ||
  fail "no table is listed"
IFS=$'\t' read -r table dim kind <tables.log
keys=(12345678901 -7 0)
[ "$kind" = int64 ] || keys=("a word" "" "another word")
"$lookup" "${job[@]}" "$table" "${keys[@]}" >rows.log 2>lookup.log || fail "lookup finds no rows"
[ "$(wc -l <rows.log)" = 3 ] || fail "3 rows expected"
[ "$(cut -f 1 rows.log)" = "$(printf '%s\n' "${keys[@]}")" ] || fail "rows of other keys"
awk -F '\t' -v dim="$dim" '{ if (split($2, numbers, " ") != dim) exit 1 }' rows.log || fail "$dim numbers a row expected"
[ -n "$(newest lookup.log)" ] || fail "the versions are not told"
# Those keys are in no record, so their rows stay what they were.
"$lookup" "${job[@]}" "$table" "${keys[@]}" 2>lookup.log | cmp - rows.log || fail "initial values changed"
expect_status 2 "no embedding table 'no such table'" "${job[@]}" "no such table" 1
expect_status 2 "asks for its secret" --master "unix:$work/master"
kill -INT "$master"
wait "$master" || fail "the job did not end well"
grep -q 'reader 0 (pid' here.master.log || fail "the master does not tell of readers"

# Beyond the loopback, with the job's secret. A key that is in the data is trained on: what a reader sees follows.
start wide 0.0.0.0:0
column=$((13 + $(sed -n "s/^C\([0-9]*\)\t.*/\1/p" tables.log | head -n 1)))
name=$(grep -m 1 -P '^C[0-9]' tables.log | cut -f 1)
key=$(cut -f $((column + 1)) data/train.txt | grep . | sort | uniq -c | sort -rn | awk 'NR == 1 { print $2 }')
"$lookup" --job-dir wide --every 0.05 "$name" "$key" >trained.log 2>versions.log &
follower=$!
processes+=("$follower")
for _ in $(seq 600); do
  [ "$(sort -u trained.log | wc -l)" -lt 5 ] || break
  kill -0 "$follower" 2>/dev/null || fail "lookup --every ended before its job"
  sleep 0.1
done
[ "$(sort -u trained.log | wc -l)" -ge 5 ] || fail "the row of '$key' in '$name' does not follow the training"
[ "$(newest versions.log)" -gt "$(newest <(head -n 1 versions.log))" ] || fail "the versions do not follow the training"
address=$(grep -v '^unix:' wide/address | head -n 1)
case "$address" in 127.*) address= ;; esac  # a host without a network
if [ -n "$address" ]; then
  "$lookup" --master "$address" --secret-file wide/secret "$name" "$key" >row.log 2>lookup.log ||
    fail "lookup finds no rows at $address"
  expect_status 2 "without the job's secret" --master "$address"
  expect_status 2 "wrong secret" --master "$address" --secret-file here/secret
else
  echo "client.sh: this host has no address beyond the loopback" >&2
fi
kill -INT "$master"
wait "$master" || fail "the job did not end well"
wait "$follower" || fail "the end of the job is an error to lookup --every"
tail -n 1 versions.log | grep -q "^the job '.*' has ended$" || fail "lookup --every does not say that the job has ended"
