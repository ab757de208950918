#!/bin/bash
# usage: deploy/quickstart.sh
# Builds embers, generates a click log into data/, trains examples/criteo.toml on it and says where the result is.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

"$root/deploy/build.sh"
cd "$root"
say "generating a click log"
build/embers synth criteo --rows 200000 --seed 1 --out data/
say "training examples/criteo.toml on it"
mkdir -p build/quickstart
build/embers train examples/criteo.toml --report build/quickstart/report.json --output build/quickstart/model
say "result: build/quickstart/report.json, trained model: build/quickstart/model"
