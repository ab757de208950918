#!/bin/sh
# usage: guard.sh MARK: waits for the end of its input, and then ends every process that has EMBERS_TEST=MARK in its environment.
# So nothing that a test has started outlives it, however the test ends, and however deep below it that is. A line "done" says
# that the test has ended by itself, and has cleaned up. See guarded.h for tests in C++, guarded.sh for scripts.
trap '' HUP INT TERM
if read -r word && [ "$word" = done ]; then exit 0; fi
looks_without_any=0  # a process that is turning into another program has no environment for a moment
while [ "$looks_without_any" -lt 3 ]; do
  # Of grep's two files at least, so that it names them.
  pids=$(grep -lzsx "EMBERS_TEST=$1" /proc/[0-9]*/environ /dev/null | cut -d / -f 3)
  if [ -n "$pids" ]; then
    looks_without_any=0
    kill -KILL $pids 2>/dev/null
  else
    looks_without_any=$((looks_without_any + 1))
  fi
  sleep 0.05
done
