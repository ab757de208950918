#!/bin/bash
# usage: EMBERS_CUDA_LIBRARY=.../libembers_cuda.so on_gpu.sh OUT [PYTHON]
# On a machine with a GPU and PyTorch for it: the tests of et.cuda, 10 000 random lookups against the published definitions,
# compute-sanitizer's memcheck and racecheck, the benchmark (bench/gpu) and a profile of its kernels. Reports go to OUT. Takes
# about five minutes of an H100.
set -uo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
out="$(mkdir -p "$1" && cd "$1" && pwd)" python="${2:-python3}"
: "${EMBERS_CUDA_LIBRARY:?names no library}"
export EMBERS_CUDA_LIBRARY PYTHONUNBUFFERED=1 OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cd "$root"
tests=("$python" -m pytest -q -p no:cacheprovider python/tests/test_torch_cuda.py)
sanitize=(compute-sanitizer --kernel-name kns=embers --error-exitcode 9)

failed=0
"${tests[@]}" > "$out/tests.log" 2>&1 || failed=1
# Side by side: the definitions are computed in Python, on the CPU.
each=$((10000 / 16))
for i in $(seq 0 15); do
  EMBERS_CUDA_RANDOM_CASES=$((i * each)):$each "${tests[@]}" -k test_random_cases > "$work/$i.log" 2>&1 || touch "$work/failed" &
done
"${sanitize[@]}" --tool memcheck "${tests[@]}" -k "several_tables or an_update_is or grows or default_key or weights_have or float16 or (one_dim and (16-dtype or 64-dtype)) or beyond or graph" \
  > "$out/memcheck.log" 2>&1 || touch "$work/failed" &
"${sanitize[@]}" --tool racecheck "${tests[@]}" -k "several_tables or an_update_is or same_bits or (one_dim and (16-dtype or 64-dtype)) or beyond" \
  > "$out/racecheck.log" 2>&1 || touch "$work/failed" &
wait
[ ! -e "$work/failed" ] || failed=1
for i in $(seq 0 15); do
  echo "seeds $((i * each)) to $((i * each + each - 1)): $(tail -n 1 "$work/$i.log")"
  grep -h AssertionError "$work/$i.log" || true
done > "$out/random.log"
"$python" bench/gpu/lookup.py --report "$out/lookup.json" > "$out/lookup.log" 2>&1 || failed=1
if ncu --version > /dev/null 2>&1; then
  ncu --clock-control none -k 'regex:forward|backward|sort' --launch-skip 3 --launch-count 3 --set full -o "$work/profile" \
    "$python" bench/gpu/lookup.py --peers 0 --floors 0 --times 2 --only 65536,64,10000000,zipf > /dev/null 2>&1
  ncu -i "$work/profile.ncu-rep" --page details > "$out/profile.txt" 2>&1
fi
tail -n 3 "$out"/{tests,memcheck,racecheck}.log
cat "$out/random.log" "$out/lookup.log"
exit $failed
