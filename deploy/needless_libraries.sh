#!/bin/bash
# usage: needless_libraries.sh LIBRARY PATTERN
# The names of libraries that LIBRARY says it needs, of which neither it nor anything else that it loads uses anything, one a
# line. Only those that match PATTERN, an extended regular expression.
set -euo pipefail
library="$1" pattern="$2"

declare -A path
while read -r name _ file _; do path["$name"]="$file"; done < <(ldd "$library" | grep '=> /')
path["$library"]="$library"
needed() { objdump -p "${path[$1]}" | sed -n 's/^ *NEEDED *//p'; }
symbols() { nm -D "$1" "$2" | awk '{print $NF}' | sed 's/@.*//' | sort -u; }

declare -A needless
used="$(symbols --undefined-only "$library")"
for name in $(needed "$library" | grep -E "$pattern" || true); do
  [ -n "${path[$name]:-}" ] || continue
  common="$(comm -12 <(symbols --defined-only "${path[$name]}") <(echo "$used"))"
  [ -n "$common" ] || needless["$name"]=yes
done

# What is loaded without them must not need them.
declare -A seen=(["$library"]=yes)
queue=("$library")
while [ "${#queue[@]}" -gt 0 ]; do
  of="${queue[0]}"
  queue=("${queue[@]:1}")
  for name in $(needed "$of"); do
    if [ -n "${needless[$name]:-}" ]; then
      [ "$of" = "$library" ] && continue
      unset "needless[$name]"
    fi
    [ -n "${seen[$name]:-}" ] || [ -z "${path[$name]:-}" ] && continue
    seen["$name"]=yes
    queue+=("$name")
  done
done
[ "${#needless[@]}" = 0 ] || printf '%s\n' "${!needless[@]}" | sort
