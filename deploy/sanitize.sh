#!/bin/bash
# usage: deploy/sanitize.sh asan|tsan [-j JOBS] [ctest arguments, e.g. -R storage]
#
# Builds everything and runs all tests under AddressSanitizer with UndefinedBehaviorSanitizer and leak detection, or under
# ThreadSanitizer, into build-asan/ or build-tsan/. A report fails its test. What is suppressed is listed, with reasons, in
# deploy/sanitizers/.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

preset="${1:-}"
case "$preset" in asan | tsan) shift ;; *) die "say which: deploy/sanitize.sh asan|tsan" ;; esac
jobs="$(default_jobs)"
if [ "${1:-}" = -j ]; then
  jobs="${2:?-j needs a number}"
  shift 2
fi

# CAF from Debian's source package, instrumented: ThreadSanitizer cannot see how Debian's library hands messages from one
# thread to another, and takes every message for a race. Only the core library, without Debian's patches: they concern
# tools, documentation and other architectures.
build_caf() {
  local prefix="$root/build-tsan/caf" work="$root/build-tsan/caf-source"
  [ -e "$prefix/lib/libcaf_core.so" ] && return
  say "building CAF with ThreadSanitizer"
  rm -rf "$work"
  mkdir -p "$work/sources" "$work/lists"
  fetch_caf_source
  local source
  source="$(echo "$work"/actor-framework-*/)"
  local no=(-DCAF_NO_IO=ON -DCAF_NO_OPENSSL=ON -DCAF_NO_OPENCL=ON -DCAF_NO_PYTHON=ON -DCAF_NO_TOOLS=ON
    -DCAF_NO_EXAMPLES=ON -DCAF_NO_UNIT_TESTS=ON -DCAF_NO_AUTO_LIBCPP=ON)
  cmake -S "$source" -B "$work/build" -G Ninja "${no[@]}" -DCMAKE_BUILD_TYPE=RelWithDebInfo \
    -DCMAKE_CXX_FLAGS="-fsanitize=thread -Wno-error" -DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_INSTALL_LIBDIR=lib \
    -DCMAKE_CXX_COMPILER_LAUNCHER="$(command -v ccache || true)" >/dev/null 2>"$work/cmake.log" ||
    { cat "$work/cmake.log" >&2; die "CAF could not be configured"; }
  ninja -C "$work/build" -j "$jobs" || die "CAF could not be built"
  ninja -C "$work/build" install >/dev/null
}

# The source package, of the version that is installed, unpacked into $work. Its index is kept there too, so the system's
# package lists are left alone.
fetch_caf_source() {
  local list version
  version="$(dpkg-query -W -f '${source:Version}' libcaf-dev)"
  for list in /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list; do
    [ -e "$list" ] || continue
    case "$list" in
      *.sources) sed 's/^Types:.*/Types: deb-src/' "$list" >"$work/sources/debian.sources" ;;
      *) sed 's/^deb /deb-src /' "$list" >"$work/sources/debian.list" ;;
    esac
  done
  local apt=(apt-get -qq -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$work/sources"
    -o Dir::State::lists="$work/lists" -o APT::Sandbox::User=)
  (cd "$work" && "${apt[@]}" update && "${apt[@]}" source --download-only --tar-only "actor-framework=$version") ||
    die "cannot get the source package of actor-framework $version from Debian; put an instrumented CAF into $prefix"
  tar -xf "$work"/actor-framework_*.orig.tar.* -C "$work"
}

install_packages
use_openblas
if [ "$preset" = tsan ]; then
  build_caf
  export LD_LIBRARY_PATH="$root/build-tsan/caf/lib"  # for programs that tests install elsewhere
fi

# Needed while building, too: ctest's list of tests comes from running the test programs.
suppressions="$root/deploy/sanitizers"
export ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1
export LSAN_OPTIONS="suppressions=$suppressions/lsan.supp:print_suppressions=0"
export UBSAN_OPTIONS="print_stacktrace=1"
export TSAN_OPTIONS="suppressions=$suppressions/tsan.supp:second_deadlock_stack=1:history_size=4"

cd "$root"
[ -f "build-$preset/build.ninja" ] || cmake --preset "$preset" >/dev/null
cmake --build "build-$preset" -j "$jobs" || die "the build failed"
ctest --test-dir "build-$preset" --output-on-failure "$@"
