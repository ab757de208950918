#!/bin/sh
# bad_kinds.sh CAPNP PLUGIN SOURCE INCLUDE: schemas with wrong kinds of messages are refused when embers is built.
set -u
capnp=$1 plugin=$2 source=$3 include=$4
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/schema"
cp "$source/schema/messages.capnp" "$dir/schema/"
status=0

# expect WHAT STRUCTS...: compiling these structs fails and says WHAT; "" for success.
expect() {
  what=$1
  shift
  { echo '@0xd2f1a8c6b4e09753;'
    echo 'using Cxx = import "/capnp/c++.capnp"; $Cxx.namespace("embers::wire");'
    echo 'using M = import "/schema/messages.capnp";'
    for s in "$@"; do echo "struct $s {}"; done
  } > "$dir/schema/bad.capnp"
  rm -f "$dir/schema/message_kinds.h"
  said=$("$capnp" compile -o "$plugin:$dir" --src-prefix="$dir" -I "$dir" -I "$include" "$dir/schema/bad.capnp" 2>&1)
  failed=$?
  if [ -z "$what" ]; then
    [ $failed -eq 0 ] && [ -s "$dir/schema/message_kinds.h" ] && return
  elif [ $failed -ne 0 ] && echo "$said" | grep -q -- "$what"; then
    return
  fi
  echo "for '$*' expected '$what', got status $failed: $said"
  status=1
}

expect '' 'A $M.kind(1)' 'B $M.kind(2) $M.reply("A") $M.servedBy(master) $M.sentBy([worker])' 'Part'
expect 'A and B have the same kind 7' 'A $M.kind(7)' 'B $M.kind(7)'
expect 'the reply of B, Missing, is not a message' 'A $M.kind(1)' 'B $M.kind(2) $M.reply("Missing")'
expect 'B is a request, but has no kind' 'A $M.kind(1)' 'B $M.reply("A")'
expect 'B is served by an actor, but nobody may send it' 'A $M.kind(1)' 'B $M.kind(2) $M.reply("A") $M.servedBy(master)'
expect 'B is served by an actor, but nobody may send it' 'A $M.kind(1)' \
  'B $M.kind(2) $M.reply("A") $M.servedBy(master) $M.sentBy([])'
expect 'B has senders, but no actor serves it' 'A $M.kind(1)' 'B $M.kind(2) $M.reply("A") $M.sentBy([worker])'
expect 'A is served by an actor, but has no reply' 'A $M.kind(1) $M.servedBy(shard)'
exit $status
