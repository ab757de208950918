#!/bin/bash
# usage: tests/arrows.sh ROOT | --self-test
#
# The include arrows: what each folder may include of ours, and which folders own which library. Prints each violation as
# file:line and fails if there is any.
set -euo pipefail

# folder: folders it may include beside itself
arrows="
schema:
storage: schema
data:    schema
model:   schema data
actors:  schema storage
master:  schema storage data actors
worker:  schema data model actors
apps:    schema storage data model actors master worker
"

# library: its headers, as a regular expression | paths that may include them, as another
owners="
CAF:        ^caf/                             | ^(actors|master|worker|apps)/
libtorch:   ^(torch|ATen|c10)/                | ^model/
Asio:       ^boost/asio                       | ^(actors/transport|apps)/
Cap'n Proto: ^(capnp|kj)/                     | ^schema/
TOML:       ^toml                             | ^data/
libmemcached: ^libmemcached/                  | ^(storage/memcached_server[.]cc|apps/bench/peers[.]cc)$
hiredis:    ^hiredis/                         | ^(storage/redis_server[.]cc|apps/bench/peers[.]cc)$
"

check() {
  (
    cd "$1"
    for folder in $(sed -n 's/:.*//p' <<<"$arrows"); do
      [ ! -d "$folder" ] || find "$folder" -name '*.h' -o -name '*.cc'
    done | LC_ALL=C sort | xargs awk -v arrows="$arrows" -v owners="$owners" '
      function violation(what) {
        printf "%s:%d: %s\n", FILENAME, FNR, what
        bad = 1
      }
      BEGIN {
        for (n = split(arrows, lines, "\n"); n > 0; --n) {
          if (split(lines[n], part, ":") < 2) continue
          allowed[part[1]] = " " part[1] " " part[2] " "
        }
        for (n = split(owners, lines, "\n"); n > 0; --n) {
          if (!match(lines[n], /: +/)) continue
          library = substr(lines[n], 1, RSTART - 1)
          split(substr(lines[n], RSTART + RLENGTH), part, " *[|] *\\^")
          headers[library] = part[1]
          places[library] = "^" part[2]
        }
      }
      match($0, /^[ \t]*#[ \t]*include[ \t]*["<]/) {
        quoted = substr($0, RLENGTH, 1) == "\""
        name = substr($0, RSTART + RLENGTH)
        sub(/[">].*/, "", name)
        split(FILENAME, mine, "/")
        split(name, theirs, "/")
        if (theirs[1] in allowed) {
          if (index(allowed[mine[1]], " " theirs[1] " ") == 0)
            violation(mine[1] "/ may not include " theirs[1] "/: " name)
        } else if (quoted) {
          violation("\"" name "\" is no path from the root of the tree; write <...> for other libraries")
        }
        for (library in headers)
          if (name ~ headers[library] && FILENAME !~ places[library]) violation(library " has no place here: " name)
      }
      END { exit bad }'
  )
}

# Each planted line must be found, with its place, among lines that are right.
self_test() {
  local line failures=0
  tree="$(mktemp -d)"
  trap 'rm -rf "$tree"' EXIT
  expect() {  # FILE INCLUDE WHAT-IS-SAID ("" when it is right)
    rm -rf "${tree:?}"/*
    mkdir -p "$tree/$(dirname "$1")"
    printf '#include <vector>\n#include "schema/ids.h"\n%s\n' "$2" >"$tree/$1"
    line="$(check "$tree" || true)"
    case "$line" in
      "$1:3: $3"*) [ -n "$3" ] && return ;;
      "") [ -z "$3" ] && return ;;
    esac
    echo "self-test: '$2' in $1 gave '$line', expected '$3'"
    failures=$((failures + 1))
  }
  expect storage/a.cc '#include "data/job.h"' "storage/ may not include data/"
  expect schema/a.h '#include "storage/store.h"' "schema/ may not include storage/"
  expect model/a.h '# include <actors/route.h>' "model/ may not include actors/"
  expect master/a.h '#include "worker/work.h"' "master/ may not include worker/"
  expect worker/sub/a.cc '  #include "master/master.h"' "worker/ may not include master/"
  expect worker/a.cc '#include "storage/store.h"' "worker/ may not include storage/"
  expect storage/a.cc '#include "store.h"' '"store.h" is no path'
  expect data/a.h '#include <caf/all.hpp>' "CAF has no place"
  expect worker/a.cc '#include <torch/types.h>' "libtorch has no place"
  expect apps/a.cc '#include <ATen/Parallel.h>' "libtorch has no place"
  expect actors/a.cc '#include <boost/asio/post.hpp>' "Asio has no place"
  expect actors/transport.cc '#include <boost/asio.hpp>' "Asio has no place"
  expect storage/a.cc '#include <capnp/message.h>' "Cap'n Proto has no place"
  expect storage/a.cc '#include <libmemcached/memcached.h>' "libmemcached has no place"
  expect actors/a.cc '#include <hiredis/hiredis.h>' "hiredis has no place"
  expect apps/a.cc '#include <toml++/toml.h>' "TOML has no place"
  expect apps/a.cc '#include "worker/worker.h"' ""
  expect actors/transport/a.cc '#include <boost/asio.hpp>' ""
  expect worker/a.h '#include <caf/all.hpp>' ""
  expect model/a.h '#include <torch/types.h>' ""
  expect storage/a.cc '// #include "data/job.h"' ""
  [ "$failures" = 0 ]
}

case "${1:-}" in
  --self-test) self_test ;;
  "") echo "usage: tests/arrows.sh ROOT | --self-test" >&2; exit 2 ;;
  *) check "$1" ;;
esac
