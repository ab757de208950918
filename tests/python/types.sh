#!/bin/bash
# usage: types.sh SOURCE PYTHON
# Checks the types of the package. Status 77, with the reason, where mypy or NumPy are missing.
set -euo pipefail
source="$1" python="$2"
command -v mypy > /dev/null && "$python" -c 'import numpy' || {
  echo "skipped: no mypy, or no NumPy (apt-get install mypy python3-numpy)"
  exit 77
}
cd "$source/python"
exec mypy --config-file mypy.ini --cache-dir=/dev/null --python-executable "$python" embers
