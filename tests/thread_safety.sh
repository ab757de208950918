#!/bin/sh
# thread_safety.sh [--self-test] SOURCE BUILD: clang checks that members with ABSL_GUARDED_BY are only touched while their mutex
# is held, in every folder that has such members. Checks syntax only. Exit status 77 (skipped) without clang++.
set -u
self_test=
[ "$1" = --self-test ] && self_test=yes && shift
source=$1 build=$2
clang=$(command -v clang++) || { echo "skipped: clang++ is not installed"; exit 77; }

check() { "$clang" -std=c++20 -fsyntax-only -Wthread-safety -Werror=thread-safety -I "$source" -I "$build" "$@"; }

if [ -n "$self_test" ]; then
  dir=$(mktemp -d)
  trap 'rm -rf "$dir"' EXIT
  # planted BODY: a class whose member function add() has this body.
  planted() {
    { echo '#include "base/mutex.h"'
      echo 'struct Count { embers::Mutex mutex; int n ABSL_GUARDED_BY(mutex) = 0; void add() {'
      echo "$1"
      echo '} };'; } > "$dir/planted.cc"
    check "$dir/planted.cc" > "$dir/said" 2>&1
  }
  planted 'const embers::MutexLock lock(mutex); ++n;' || { echo "a held mutex is refused:"; cat "$dir/said"; exit 1; }
  for body in '++n;' '{ const embers::MutexLock lock(mutex); } ++n;' 'embers::MutexLock lock(mutex); lock.unlock(); ++n;' \
              'embers::Mutex other; const embers::MutexLock lock(other); ++n;'; do
    planted "$body" && { echo "not noticed: $body"; exit 1; }
    grep -q "requires holding mutex 'mutex'" "$dir/said" || { echo "for $body clang said:"; cat "$dir/said"; exit 1; }
  done
  exit 0
fi

cd "$source" || exit 1
batch=$(mktemp) || exit 1
trap 'rm -f "$batch"' EXIT
folders=$(git ls-files '*.h' '*.cc' 2>/dev/null | grep -v '^tests/' | xargs grep -l ABSL_GUARDED_BY | xargs -n 1 dirname | sort -u)
[ -n "$folders" ] || folders='actors/frames actors/transport base/log storage/memory'  # no git here
status=0
for folder in $folders; do
  if grep -nE 'std::(mutex|lock_guard|unique_lock|scoped_lock)' "$folder"/*.h "$folder"/*.cc; then
    [ "$folder" = base ] || { echo "$folder: use base/mutex.h, whose mutexes are checked"; status=1; }
  fi
  # All at once, which takes a third of the time; one by one where they do not go together, or to say what is wrong.
  for file in "$folder"/*.cc; do
    [ -e "$file" ] && echo "#include \"$file\""
  done > "$batch"
  check -x c++ "$batch" > /dev/null 2>&1 && continue
  for file in "$folder"/*.cc; do
    [ -e "$file" ] && { check "$file" || status=1; }
  done
done
exit $status
