#!/bin/bash
# usage: deploy/without_services.sh COMMAND...   as root
# Runs a command that installs packages. None of the services that it brings are started, now or at the next boot; those that were
# there before are left as they are.
set -uo pipefail

policy=/usr/sbin/policy-rc.d  # Debian's install scripts ask it before they start a service
made=0
restore() { [ "$made" = 0 ] || rm -f "$policy"; }
trap restore EXIT

services() { systemctl list-unit-files --type=service --state=enabled --no-legend 2>/dev/null | awk '{print $1}' | sort; }

before="$(services)"
if [ ! -e "$policy" ]; then
  printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod 755 "$policy" || exit 1
  made=1
fi
"$@"
status=$?
new="$(comm -13 <(echo "$before") <(services) | xargs)"
# shellcheck disable=SC2086  # one word per service
[ -z "$new" ] || systemctl --quiet disable $new
exit "$status"
