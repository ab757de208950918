#!/bin/bash
# usage: user_model.sh SOURCE BUILD COMPILER SANITIZERS
# Follows examples/user_model/README.md in a directory of its own.
set -euo pipefail
[ -n "${EMBERS_TEST:-}" ] || exec "$(dirname "$0")/../support/guarded.sh" "$0" "$@"
source_dir="$1" build_dir="$2" compiler="$3" sanitizers="$4"

work="$(mktemp -d -t "embers user model.XXXXXX")"  # spaces, because paths have them
trap 'rm -rf "$work"' EXIT
fail() {
  echo "user_model.sh: $*" >&2
  exit 1
}

cmake --install "$build_dir" --prefix "$work/prefix" >/dev/null
cp -r "$source_dir/examples/user_model" "$work/mine"
cd "$work/mine"
cmake -B build -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_CXX_COMPILER="$compiler" \
  ${sanitizers:+"-DCMAKE_CXX_FLAGS=-fsanitize=$sanitizers"} >configure.log 2>&1 ||
  { cat configure.log; fail "examples/user_model does not configure against the installed embers"; }
cmake --build build >build.log 2>&1 ||
  { cat build.log; fail "examples/user_model does not build against the installed embers"; }

# The paths that headers had before model/ got folders.
sed -i 's#"model/layers/#"model/#' mine.cc
grep -q '"model/embedding.h"' mine.cc || fail "examples/user_model includes no headers of model/layers any more"
cmake --build build >build.log 2>&1 ||
  { cat build.log; fail "a model that includes model/embedding.h does not build against the installed embers"; }

embers="$work/prefix/bin/embers"
"$embers" synth criteo --rows 4000 --seed 1 --out data
"$embers" check mine.toml
"$embers" train mine.toml --report report.json
grep -q '"examples": *7200' report.json ||
  { cat report.json; fail "expected 2 epochs of 3600 training records"; }
