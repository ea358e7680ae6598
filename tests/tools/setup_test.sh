#!/bin/bash
# tools/setup on machines that lack something, played with programs of our own in front of PATH.
set -eu
stage=$(mktemp -d)
trap 'rm -r "$stage"' EXIT
mkdir "$stage/tools"
setup=$stage/tools/setup  # its log goes below $stage, too
cp "$(dirname "$0")/../../tools/setup" "$setup"

program() { printf '#!/bin/bash\n%s\n' "$2" > "$stage/$1"; chmod +x "$stage/$1"; }
fail() { echo "FAILED: $1"; echo "$output"; exit 1; }
run() { code=0; output=$(PATH="$stage:$PATH" "$setup" "$@" 2>&1) || code=$?; }

# Everything is there: silence, and apt-get is not asked.
everything=$("$setup" --list --torch --test --package)
program dpkg-query "printf 'ii  %s\n' $(echo $everything)"
program apt-get 'echo "apt-get was called"; exit 1'
run --torch --test
[[ $code -eq 0 && -z $output ]] || fail "not silent when everything is installed"

# The list is for Debian 12 and 13: no name of a version that only one of them has, as in libclang-rt-14-dev.
output=$(grep -E -- '-[0-9.]+(-|$)' <<< "$everything") && fail "packages of one release"

# One package was removed but left its configuration ("rc"); an ordinary user without sudo.
program dpkg-query "printf 'ii  %s\n' $(echo $everything | sed 's/\bcmake\b//'); echo 'rc  cmake'; exit 1"
program id 'echo 1000'
program sudo 'exit 1'
run
[[ $code -eq 2 ]] || fail "exit code $code instead of 2"
[[ ${output##*$'\n'} == "sudo apt-get update && sudo apt-get install -y --no-install-recommends cmake" ]] ||
  fail "the last line is not the command to type"

# Root: updates, then installs exactly what is missing. One line says so; what apt-get says is in the log.
program id 'echo 0'
program apt-get "echo \"\$*\" >> $stage/log; echo Unpacking; echo 'dpkg: warning' >&2"
run
[[ $code -eq 0 ]] || fail "exit code $code instead of 0"
[[ $output == "Installing"*": cmake" && $output != *$'\n'* ]] || fail "not one line of progress"
[[ $(grep -c 'Unpacking\|dpkg: warning' "$stage/build/setup.log") -eq 4 ]] || fail "build/setup.log lacks what apt-get said"
[[ $(sed -n 1p "$stage/log") == *update && $(sed -n 2p "$stage/log") == *"--no-install-recommends cmake" ]] ||
  fail "apt-get was told: $(cat "$stage/log")"

# Root without a network: the reason is shown, of a long log the end.
program apt-get 'seq 1 1000; echo "Temporary failure resolving deb.debian.org"; exit 100'
run
[[ $output == *$'\n1000\nTemporary failure'* && $output != *$'\n100\n'* ]] || fail "the reason for the failure is not shown"
[[ $code -eq 2 && $output == *"apt-get update && apt-get install -y --no-install-recommends cmake" ]] ||
  fail "a failed installation goes unnoticed"

run --tests
[[ $code -eq 2 && $output == *"unknown option --tests"* ]] || fail "a misspelt option is accepted"
echo "PASSED"
