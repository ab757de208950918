#!/bin/bash
# usage: deploy/test.sh [ctest arguments, e.g. -R storage]
# The quickstart, then every test. Ends with ctest's summary and its status.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

"$root/deploy/quickstart.sh"
# What cannot be installed is not there for the tests that need it, which then say so.
(install_packages test) || say "some tests will be skipped"
say "testing"
log="$root/build/quickstart/ctest.log"
status=0
ctest --test-dir "$root/build" --output-on-failure -j $(($(nproc) + 1)) --no-tests=error "$@" | tee "$log" || status=$?
grep -E '^[0-9]+% tests passed' "$log" || true
exit "$status"
