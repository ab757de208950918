#!/bin/bash
# usage: programs.sh EMBERS LIBRARIES
# Commands that compute nothing load few libraries, and none of libtorch; a bad command line says so, with exit status 2.
set -euo pipefail
[ -n "${EMBERS_TEST:-}" ] || exec "$(dirname "$0")/../support/guarded.sh" "$0" "$@"
embers="$1"
most="$2"  # libraries
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
failures=0
fail() {
  echo "programs.sh: $*"
  failures=$((failures + 1))
}

# run STATUS WORDS...: runs `embers WORDS...`, which must end with this status; $libraries are then those that it loaded.
run() {
  local expected="$1" status=0
  shift
  rm -f "$work"/loaded.*
  LD_DEBUG=files LD_DEBUG_OUTPUT="$work/loaded" "$embers" "$@" >"$work/out" 2>&1 </dev/null || status=$?
  [ "$status" = "$expected" ] || fail "embers $* ended with $status instead of $expected: $(cat "$work/out")"
  libraries="$(sed -n 's/.*calling init: //p' "$work"/loaded.* | sort -u)"
}

few() {
  run "$@"
  shift
  local count
  count="$(wc -l <<<"$libraries")"
  [ "$count" -le "$most" ] || fail "embers $* loads $count libraries, $most at most are allowed: $libraries"
  [ "$count" -ge 5 ] || fail "embers $*: only $count libraries were seen"
  ! grep -E 'libtorch|libc10' <<<"$libraries" || fail "embers $* loads libtorch"
}

says() { grep -qF -- "$1" "$work/out" || fail "no '$1' in: $(cat "$work/out")"; }

few 0 help
says "evaluate"
few 0 help train
says "Usage: embers train [OPTIONS] JOB"
few 0 help bench wire
few 0 help op
says '"op": "optimizer"'
few 0 help --json
says '"grads_to_wait"'
few 0 train --help
few 0 --version
few 0 synth criteo --rows 20 --out "$work/data"
few 2
few 2 trian
says "there is no command 'trian'"
few 2 train
says "JOB is required"
few 2 train "$work/job.toml" --oops
says "--oops"
few 2 help nothing
few 2 worker --master 127.0.0.1:1 --connect-timeout nan
few 2 status --master 127.0.0.1:1
says "127.0.0.1:1"
few 2 scale --workers 0 --master 127.0.0.1:1
says "--workers"
few 2 scale --master 127.0.0.1:1
few 2 drain --master 127.0.0.1:1
few 2 drain worker-1 --job-dir "$work/nowhere"
few 2 stop --no-save --job-dir "$work/nowhere"
says "nowhere"
few 2 bench wire --rows 30000
few 2 bench wier --quick
says "there is no command 'wier'"
few 0 owner --help
says "--owners"
few 0 help owner
says "keep a share of its rows"
few 2 owner --master nonsense
says "HOST:PORT"
few 2 shard --master nonsense
says "HOST:PORT"
few 0 top --help
few 2 top
says "EMBERS_MASTER"
few 2 top --master 127.0.0.1:1
few 2 top --master 127.0.0.1:1 --interval 0

# A command that computes, for comparison: here libtorch must be seen.
run 1 op
grep -q libtorch <<<"$libraries" || fail "embers op was not seen to load libtorch"
says '{"error":'
# The folder that it has empty libraries of, for those that libtorch names and does not use.
stand_ins="$(dirname "$embers")/lib/stand-ins"
if [ -d "$stand_ins" ]; then
  ! grep -E 'libopencv|libavcodec' <<<"$libraries" | grep -v stand-ins || fail "embers op loads libraries that nothing uses"
  grep -q "$stand_ins/libopencv_core" <<<"$libraries" || fail "embers op has no stand-in for OpenCV"
  folder="$(ldconfig -p | sed -n 's,.*libopencv_core.*=> \(.*\)/.*,\1,p' | head -1)"
  LD_LIBRARY_PATH="$folder" run 1 op
  grep -q "$folder/libopencv_core" <<<"$libraries" || fail "LD_LIBRARY_PATH does not bring OpenCV back"
fi

# Input that cannot be read does not count as empty input.
for input in '&-' "$work"; do
  status=0
  eval "\"\$embers\" op --lines <${input/#\/*/\"$work\"}" >"$work/out" 2>&1 || status=$?
  [ "$status" = 1 ] || fail "embers op --lines <$input ended with $status instead of 1: $(cat "$work/out")"
  says "cannot read cases from standard input"
done

# A program without the other programs beside it.
mkdir "$work/alone"
cp "$embers" "$work/alone/embers"
embers="$work/alone/embers"
run 2 op
says "cannot start $work/alone/embers-compute"
run 2 bench wire
says "cannot start $work/alone/embers-bench"

exit $((failures > 0))
