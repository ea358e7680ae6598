#!/bin/bash
# What a newcomer types in a clone, README.md first, or all tests (`try_clone.sh tests`); tools/package --demo and --tests call it
# as root in a minimal Debian.
# `documents_test.py --perform` names the commands that it leaves out: those upon files that only a reader has, and other programs.
set -euo pipefail
cd "$(dirname "$0")/.."
TIMEFORMAT='  %R s; CPU time %U s, in the kernel %S s'
add() { apt-get -qq -y -o Dpkg::Use-Pty=0 install --no-install-recommends "$@" > /tmp/apt.log 2>&1 || { tail -20 /tmp/apt.log; exit 1; }; }

apt-get -qq update
add git ca-certificates  # needed to clone

if [[ ${1:-demo} == tests ]]; then exec ./test.sh; fi

echo "tools/setup"
time tools/setup
echo "./demo.sh"
time ./demo.sh
export PATH=$PWD/build/demo:$PATH

add python3 iproute2
failures=0
echo "The commands of README.md and the guides"
time tests/recorded/documents_test.py --installed --perform README.md docs/guide/*.md || failures=1
echo "The recorded answers"
time TOMBOLO_BUILD=build/demo tests/recorded/answers_test.py || failures=1
exit $failures
