#!/bin/bash
# From a fresh clone to a model trained over two datacenters, with its prediction beside the measurement.
#
#   ./demo.sh [--data FILE] [--steps N]
#
# Installs what is missing (or says what to install), builds, then runs examples/two-datacenters/.
# Everything it makes is in build/demo/ and run/.
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

tools/setup --torch

mkdir -p build run
rm -rf run/checkpoints  # of an earlier demo: training refuses to overwrite checkpoints
echo "Building (the first time takes some minutes; log: build/demo.log)" >&2
build() {
  cmake --preset torch -B build/demo -DTOMBOLO_TESTS=OFF && cmake --build build/demo --target tombolo tombolo-worker
}
if ! build > build/demo.log 2>&1; then
  tail -30 build/demo.log >&2
  echo "demo.sh: the build failed (log: build/demo.log)" >&2
  exit 1
fi

if [[ -z $data ]]; then
  # English that every Debian carries. Links there are other names of the same licences.
  find /usr/share/common-licenses -type f -print0 | sort -z | xargs -0 cat > run/corpus.txt
  data=run/corpus.txt
fi

tombolo=build/demo/tombolo
job=examples/two-datacenters/job.toml
train=(--hardware run/hardware.json --data "$data" --out run)
[[ -n $steps ]] && train+=(--steps "$steps")

echo "1. Measure this machine: every stage, and the paced link" >&2
$tombolo profile $job --data "$data" --out run/hardware.json
echo "2. Predict an iteration, then train over two datacenters" >&2
$tombolo train $job "${train[@]}" > run/summary.txt
echo "3. Hold the prediction against the measurement" >&2
$tombolo compare run/predicted.jsonl run/trace.jsonl
echo
cat run/summary.txt
$tombolo report run/predicted.jsonl run/trace.jsonl --out run/report.html
