#!/bin/bash
# usage: pytest.sh PYTHON FILE
# Runs a file of tests. Status 77, with the reason, where pytest or NumPy are missing.
set -euo pipefail
python="$1" file="$2"
"$python" -c 'import numpy, pytest' || {
  echo "skipped: $python has no pytest or no NumPy (apt-get install python3-pytest python3-numpy)"
  exit 77
}
exec "$python" -m pytest -q -p no:cacheprovider -o faulthandler_timeout=120 "$file"
