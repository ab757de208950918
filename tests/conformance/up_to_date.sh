#!/bin/bash
# usage: up_to_date.sh PYTHON: fails if make_cases.py writes cases that differ from those in this folder.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
fresh="$(mktemp -d)"
trap 'rm -rf "$fresh"' EXIT
PYTHONDONTWRITEBYTECODE=1 "$1" "$here/make_cases.py" "$fresh"
for file in "$fresh"/*.json; do diff -q "$file" "$here/$(basename "$file")"; done
