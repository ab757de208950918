#!/bin/sh
# usage: guarded.sh COMMAND...: becomes the command. When that has ended, however it did, so has everything that it had started.
# A script that starts processes begins with
#   [ -n "${EMBERS_TEST:-}" ] || exec "$(dirname "$0")/../support/guarded.sh" "$0" "$@"
mark="$$-$(od -An -N8 -tx8 /dev/urandom | tr -d ' ')"
guard="$(cd "$(dirname "$0")" && pwd)/guard.sh"
( tail --pid=$$ -f /dev/null | setsid sh "$guard" "$mark" ) >/dev/null 2>&1 &
EMBERS_TEST="$mark"
export EMBERS_TEST
exec "$@"
