#!/bin/sh
# usage: guard.sh MARK: waits for the end of its input, and then ends every process that has EMBERS_TEST=MARK in its environment.
# So nothing that a test has started outlives it, however the test ends, and however deep below it that is. Two lines may come
# before that end: "done", the test has started nothing; "ended", it has ended by itself, so what is left has two seconds to
# clean up. See guarded.h for tests in C++, guarded.sh for scripts.
trap '' HUP INT TERM
looks=0  # in which they may still end by themselves
if read -r word; then
  [ "$word" = done ] && exit 0
  looks=40
fi
looks_without_any=0  # a process that is turning into another program has no environment for a moment
while [ "$looks_without_any" -lt 2 ]; do
  # Of two files at least, so that grep names them.
  pids=$(grep -lzsx "EMBERS_TEST=$1" /proc/[0-9]*/environ /dev/null | cut -d / -f 3)
  if [ -z "$pids" ]; then
    looks_without_any=$((looks_without_any + 1))
  else
    looks_without_any=0
    [ "$looks" -gt 0 ] || kill -KILL $pids 2>/dev/null
  fi
  looks=$((looks - 1))
  sleep 0.05
done
