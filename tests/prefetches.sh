#!/bin/bash
# Usage: prefetches.sh LIBRARY FUNCTION...: whether each of these functions of a static library prefetches
# into the second-level cache. gcc drops calls of functions that do nothing but prefetch (base/floats/prefetch.h),
# which no result shows. Skipped (77) where there is no objdump, or the library is not for x86-64.
set -euo pipefail
library=$1
shift
command -v objdump > /dev/null || exit 77
[[ $(objdump -f "$library") == *elf64-x86-64* ]] || exit 77
functions=$(objdump -dC --no-show-raw-insn "$library" |
  awk '/^[0-9a-f]+ <.*>:$/ { name = $0 } /prefetcht1/ { print name }' | sort -u)
failed=0
for name in "$@"; do
  grep -qF "$name(" <<< "$functions" && continue
  echo "$name() has no prefetcht1: did the compiler drop a loop that does nothing but prefetch?" >&2
  failed=1
done
exit $failed
