#!/bin/bash
# From a fresh clone to a model trained over two datacenters, with its prediction beside the measurement.
#
#   ./demo.sh [--data FILE] [--steps N]     (20 steps of the 60 that the example has)
#
# Installs what is missing (or says what to install), builds, then runs examples/two-datacenters/.
# Everything it makes is in build/ (its programs in build/demo/) and run/.
set -euo pipefail
cd "$(dirname "$0")"
exec < /dev/null

data="" steps=""
while [[ $# -gt 0 ]]; do
  case $1 in
    --data | --steps)
      [[ $# -ge 2 ]] || { echo "demo.sh: $1 needs a value" >&2; exit 2; }
      if [[ $1 == --data ]]; then data=$2; else steps=$2; fi
      shift 2 ;;
    *) echo "demo.sh: unknown option $1; the options are --data FILE and --steps N" >&2; exit 2 ;;
  esac
done
if [[ -n $data && ! -r $data ]]; then
  echo "demo.sh: $data cannot be read" >&2
  exit 2
fi
if [[ -n $steps && ! $steps =~ ^[1-9][0-9]*$ ]]; then
  echo "demo.sh: --steps $steps: wanted a whole number of at least 1" >&2
  exit 2
fi

tools/setup --torch --clang

mkdir -p build run
rm -rf run/checkpoints  # of an earlier demo: training refuses to overwrite checkpoints
echo "Building (the first time takes some minutes; log: build/demo.log)" >&2
programs=(tombolo tombolo-worker tombolo-islands)
# Made once, and waited for: clang takes half of the time that g++ takes, and only loops are optimised, since the rest takes longer to
# compile than that saves. Most of the time of a training is LibTorch's.
compiler=$(command -v clang++)
if ! grep -qsx "CMAKE_CXX_COMPILER:[A-Z]*=$compiler" build/demo/CMakeCache.txt; then
  rm -rf build/demo  # CMake forgets settings where the compiler changes
fi
build() {
  cmake --preset torch -B build/demo "-DCMAKE_CXX_COMPILER=$compiler" -DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=mold \
    -DTOMBOLO_TESTS=OFF "-DCMAKE_CXX_FLAGS_RELEASE=-O0 -DNDEBUG" -DTOMBOLO_OPTIMISE_HOT=LOOPS &&
    cmake --build build/demo --target "${programs[@]}"
}
if ! build > build/demo.log 2>&1; then
  tail -30 build/demo.log >&2
  echo "demo.sh: the build failed (log: build/demo.log)" >&2
  exit 1
fi

# English that every Debian carries, for the job names it. Links there are other names of the same licences.
if [[ -z $data || ! -e run/corpus.txt ]]; then
  find /usr/share/common-licenses -type f -print0 | sort -z | xargs -0 cat > run/corpus.txt
fi
[[ -n $data ]] || data=run/corpus.txt

# Times of all cores so far, in the kernel's ticks: in use, and all of them (proc(5)).
cpu_ticks() { awk '/^cpu / { for (i = 2; i <= 9; ++i) all += $i; printf "%.0f %.0f\n", all - $5 - $6, all }' /proc/stat; }
read -r used all < <(cpu_ticks) && sleep 2 && read -r used_now all_now < <(cpu_ticks)
busy=$((100 * (used_now - used) / (all_now - all)))
if [[ $busy -gt 20 ]]; then
  echo "Note: other work keeps this machine $busy % busy. Both figures below will be too long, and differ as that work changes." >&2
fi

# Microseconds that one core takes to count, the best of three: more of them later mean a lower clock rate, or other guests of the host.
pace() {
  local best=0 from took
  for _ in 1 2 3; do
    from=$(date +%s%N)
    awk 'BEGIN { for (i = 0; i < 4000000; ++i) x += i }'
    took=$((($(date +%s%N) - from) / 1000))
    if [[ $best -eq 0 || $took -lt $best ]]; then best=$took; fi
  done
  echo "$best"
}

tombolo=build/demo/tombolo
job=examples/two-datacenters/job.toml
train=(--hardware run/hardware.json --data "$data" --out run)
train+=(--steps "${steps:-20}")

echo "1. Measure this machine: every stage, and the paced link" >&2
paces=("$(pace)")
$tombolo profile $job --data "$data" --out run/hardware.json
paces+=("$(pace)")
echo "2. Predict an iteration, then train over two datacenters" >&2
$tombolo train $job "${train[@]}" > run/summary.txt
paces+=("$(pace)")
echo "3. Compare the prediction with the measurement" >&2
$tombolo compare run/predicted.jsonl run/trace.jsonl
echo
cat run/summary.txt
read -r fastest slowest < <(printf '%s\n' "${paces[@]}" | sort -n | sed -n '1p;$p' | xargs)
slower=$((100 * slowest / fastest - 100))
if [[ $slower -gt 10 ]]; then
  echo "Note: the cores of this machine were up to $slower % slower at one time than at another, so the two figures may differ as much." >&2
fi
$tombolo report run/predicted.jsonl run/trace.jsonl --out run/report.html
echo
echo "The programs are in build/demo/. Type this, and the commands of README.md work in this folder:"
printf 'export PATH=%q:$PATH\n' "$PWD/build/demo"
