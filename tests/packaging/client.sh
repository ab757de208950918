#!/bin/bash
# usage: client.sh SOURCE BUILD COMPILER SANITIZERS
# Follows examples/client/README.md in a directory of its own, against a running job of several processes.
set -euo pipefail
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
  for log in "$work"/*.log; do echo "--- $log" >&2; cat "$log" >&2; done
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

# A job that trains until it is stopped.
embers="$work/prefix/bin/embers"
cd "$work"
"$embers" synth criteo --rows 4000 --seed 1 --out data
sed 's/^epochs = .*/epochs = 1000000/' "$source_dir/examples/user_model/mine.toml" |
  sed '/^library/d; s/^name = "mine"/name = "deepfm"/; s/^dim = .*//' >job.toml
"$embers" master job.toml --listen "unix:$work/master" --shards 2 --workers 1 >master.log 2>&1 &
master=$!
processes+=("$master")
for member in shard shard worker; do
  "$embers" "$member" --master "unix:$work/master" >"$member.$RANDOM.log" 2>&1 &
  processes+=("$!")
done

"$lookup" "unix:$work/master" >tables.log 2>lookup.log || fail "lookup cannot list tables"
grep -P '^\S+\t[0-9]+\tint64$' tables.log >/dev/null || grep -P '^\S+\t[0-9]+\tbytes$' tables.log >/dev/null ||
  fail "no table is listed"
IFS=$'\t' read -r table dim kind <tables.log
keys=(12345678901 -7 0)
[ "$kind" = int64 ] || keys=("a word" "" "another word")
"$lookup" "unix:$work/master" "$table" "${keys[@]}" >rows.log 2>lookup.log || fail "lookup finds no rows"
[ "$(wc -l <rows.log)" = 3 ] || fail "3 rows expected"
[ "$(cut -f 1 rows.log)" = "$(printf '%s\n' "${keys[@]}")" ] || fail "rows of other keys"
awk -F '\t' -v dim="$dim" '{ if (split($2, numbers, " ") != dim) exit 1 }' rows.log || fail "$dim numbers a row expected"
grep -q "^job '.*', versions [0-9]* to [0-9]*$" lookup.log || fail "the versions are not told"
# Those keys are in no record, so their rows stay what they were.
"$lookup" "unix:$work/master" "$table" "${keys[@]}" 2>lookup.log | cmp - rows.log || fail "initial values changed"

status=0
"$lookup" "unix:$work/master" "no such table" 1 >wrong.log 2>&1 || status=$?
[ "$status" = 2 ] || fail "status 2 expected for a wrong table, not $status"
grep -q "no embedding table 'no such table'" wrong.log || fail "the wrong table is not named"

kill -INT "$master"
wait "$master" || fail "the job did not end well"
grep -q 'reader 0 (pid' master.log || fail "the master does not tell of readers"
