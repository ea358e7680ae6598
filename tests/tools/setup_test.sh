#!/bin/bash
# tools/setup on machines that lack something, played with programs of our own in front of PATH.
set -eu
setup=$(cd "$(dirname "$0")/../.." && pwd)/tools/setup
stage=$(mktemp -d)
trap 'rm -r "$stage"' EXIT

program() { printf '#!/bin/bash\n%s\n' "$2" > "$stage/$1"; chmod +x "$stage/$1"; }
fail() { echo "FAILED: $1"; echo "$output"; exit 1; }
run() { code=0; output=$(PATH="$stage:$PATH" "$setup" "$@" 2>&1) || code=$?; }

# Everything is there: silence, and apt-get is not asked.
everything=$("$setup" --list --torch --test)
program dpkg-query "printf 'ii  %s\n' $(echo $everything)"
program apt-get 'echo "apt-get was called"; exit 1'
run --torch --test
[[ $code -eq 0 && -z $output ]] || fail "not silent when everything is installed"

# One package was removed but left its configuration ("rc"); an ordinary user without sudo.
program dpkg-query "printf 'ii  %s\n' $(echo $everything | sed 's/\bcmake\b//'); echo 'rc  cmake'; exit 1"
program id 'echo 1000'
program sudo 'exit 1'
run
[[ $code -eq 2 ]] || fail "exit code $code instead of 2"
[[ ${output##*$'\n'} == "sudo apt-get update && sudo apt-get install -y --no-install-recommends cmake" ]] ||
  fail "the last line is not the command to type"

# Root: updates, then installs exactly what is missing.
program id 'echo 0'
program apt-get "echo \"\$*\" >> $stage/log"
run
[[ $code -eq 0 ]] || fail "exit code $code instead of 0"
[[ $(sed -n 1p "$stage/log") == *update && $(sed -n 2p "$stage/log") == *"--no-install-recommends cmake" ]] ||
  fail "apt-get was told: $(cat "$stage/log")"

# Root without a network.
program apt-get 'exit 100'
run
[[ $code -eq 2 && $output == *"apt-get update && apt-get install -y --no-install-recommends cmake" ]] ||
  fail "a failed installation goes unnoticed"

run --tests
[[ $code -eq 2 && $output == *"unknown option --tests"* ]] || fail "a misspelt option is accepted"
echo "PASSED"
