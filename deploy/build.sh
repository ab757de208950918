#!/bin/bash
# usage: deploy/build.sh [JOBS]
# Installs the Debian packages that are missing and builds everything, optimized, into build/.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

jobs="${1:-$(default_jobs)}"
install_packages
use_openblas

cd "$root"
if [ ! -f build/build.ninja ]; then
  say "configuring build/"
  log="$(mktemp)"
  trap 'rm -f "$log"' EXIT
  cmake --preset release >"$log" 2>&1 || { cat "$log" >&2; die "cmake --preset release failed"; }
fi
cmake --build build -j "$jobs" || die "the build failed"
