#!/bin/bash
# usage: packaging.sh SOURCE BUILD PYTHON
# What python/README.md says about installing: in fresh venvs, without a network.
set -euo pipefail
source_dir="$1" build_dir="$2" python="$3"

"$python" -c 'import numpy, ensurepip, venv' || {
  echo "skipped: $python has no NumPy or no venv (apt-get install python3-numpy python3-venv)"
  exit 77
}
work="$(mktemp -d -t "embers python.XXXXXX")"
trap 'rm -rf "$work"' EXIT
fail() {
  echo "packaging.sh: $*" >&2
  for log in "$work"/*.log; do echo "--- $log" >&2; tail -n 40 "$log" >&2; done
  exit 1
}
# Whoever asks the network gets no answer.
export PIP_INDEX_URL=http://127.0.0.1:9/ PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_RETRIES=0
unset PYTHONPATH EMBERS_MASTER EMBERS_JOB_DIR
# The folder is kept from one run to the next, and is as deep in the tree as build/, whose compiler's cache it uses.
settings=(--config-settings "build-dir=$build_dir-python")

"$python" -m venv --system-site-packages "$work/venv"
pip="$work/venv/bin/pip"
"$pip" install "${settings[@]}" "$source_dir/python" >"$work/install.log" 2>&1 || fail "pip install ./python"
cat >"$work/train.py" <<'END'
import os, sys
import numpy as np
import embers
from embers import initializers
assert os.path.realpath(embers.__file__).startswith(os.path.realpath(sys.prefix)), embers.__file__
assert os.path.exists(os.path.join(os.path.dirname(embers.__file__), "py.typed"))
keys = np.arange(20) * 7
with embers.local(shards=2, optimizer=embers.SGD(1.0), training={"reduction": "sum"}) as job:
    table = job.table("user", dim=4, initializer=initializers.Zeros())
    for batch in job.minibatches(20, 4):
        table.lookup(keys[batch.records])
        table.push(keys[batch.records], np.ones((4, 4), np.float32))
    assert (table.lookup(keys) == -1).all()
print("trained")
END
(cd "$work" && "$work/venv/bin/python" train.py) >"$work/train.log" 2>&1 || fail "the installed package does not train"
grep -qx trained "$work/train.log" || fail "the program did not reach its end"

# Without torch the package works, and embers.torch says what is missing.
cat >"$work/no_torch.py" <<'END'
import sys
sys.modules["torch"] = None
import embers
try:
    import embers.torch
except ImportError as e:
    assert "python3-torch" in str(e) and "pip install torch" in str(e), e
else:
    raise SystemExit("embers.torch was imported without torch")
END
(cd "$work" && "$work/venv/bin/python" no_torch.py) >"$work/no_torch.log" 2>&1 || fail "without torch"

# One extension with everything inside: nothing of the tree is linked, and no libtorch.
ldd "$("$work/venv/bin/python" -c 'import embers._core; print(embers._core.__file__)')" >"$work/ldd.log"
grep -E 'not found|libembers|libtorch|libc10' "$work/ldd.log" && fail "the extension links the library above"

# A wheel, which is the same each time, and its installation elsewhere.
for time in 1 2; do
  "$pip" wheel --no-deps "${settings[@]}" -w "$work/wheels $time" "$source_dir/python" >"$work/wheel.log" 2>&1 || fail "pip wheel"
done
cmp "$work/wheels 1"/*.whl "$work/wheels 2"/*.whl || fail "two wheels of the same tree differ"
"$python" -m venv --system-site-packages "$work/other"
"$work/other/bin/pip" install --no-index "$work/wheels 1"/embers-*.whl >"$work/install_wheel.log" 2>&1 || fail "pip install of the wheel"
(cd "$work" && "$work/other/bin/python" train.py) >"$work/train_wheel.log" 2>&1 || fail "the package of the wheel does not train"
"$work/other/bin/pip" uninstall -y embers >"$work/uninstall.log" 2>&1 || fail "pip uninstall"

# An editable installation sees the tree's files.
"$work/other/bin/pip" install -e "$source_dir/python" "${settings[@]}" >"$work/editable.log" 2>&1 || fail "pip install -e"
found="$(cd "$work" && "$work/other/bin/python" -c 'import embers.job; print(__import__("os").path.realpath(embers.job.__file__))')"
[ "$found" = "$(realpath "$source_dir/python/embers/job.py")" ] || fail "the editable package is at $found"
[ -z "$(ls -d "$source_dir"/python/build "$source_dir"/python/*.egg-info 2>/dev/null)" ] || fail "the installation wrote into python/"
