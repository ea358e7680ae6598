#!/bin/bash
# Installs the packages of /packages with apt and runs them; tools/package --try calls it as root in a minimal Debian.
set -u
examples=/usr/share/doc/tombolo/examples
python_examples=/usr/share/doc/python3-tombolo/examples
log=/tmp/apt.log
failures=0

passed() { echo "  passed  $1"; }
failed() { echo "  FAILED  $1"; sed 's/^/    /' <<< "$2" | tail -20; failures=$((failures + 1)); }

# As an ordinary user, in a folder of its own.
as_user() { setpriv --reuid=nobody --regid=nogroup --clear-groups env HOME=/tmp/user sh -c 'cd /tmp/user && "$0" "$@"' "$@" 2>&1; }

install_packages() {  # NAME...: apt finds what they depend on
  local name files=()
  for name; do files+=("./$name"_*.deb); done
  apt-get -qq -y -o Dpkg::Use-Pty=0 install --no-install-recommends "${files[@]}" > "$log" 2>&1 ||
    { echo "  FAILED  apt-get install $*"; tail -20 "$log"; exit 1; }
  passed "apt-get install $*"
}

# NAME WANTED COMMAND...: it succeeds, and prints a line with these words.
prints() {
  local name=$1 wanted=$2 output
  shift 2
  if output=$("$@") && grep -qE -- "$wanted" <<< "$output"; then passed "$name"; else failed "$name" "$output"; fi
}

refused() {  # NAME WANTED COMMAND...: exit code 2, and these words
  local name=$1 wanted=$2 output code
  shift 2
  output=$("$@")
  code=$?
  if [[ $code -eq 2 ]] && grep -qF -- "$wanted" <<< "$output"; then passed "$name"; else failed "$name (exit code $code)" "$output"; fi
}

# A job of emulated devices, and one that trains on CPUs: short ones of what is installed.
emulated() { as_user tombolo train - --out /tmp/user/emulated < /packages/emulated.toml; }
trained() {
  as_user tombolo train $examples/two-datacenters/job.toml --data /usr/share/common-licenses/GPL-3 --steps 2 \
    --out /tmp/user/trained --checkpoints /tmp/user/trained
}

finish() {
  apt-get -qq -y -o Dpkg::Use-Pty=0 purge '*tombolo*' > "$log" 2>&1
  local left
  left=$(find / -xdev -name '*tombolo*' -not -path '/packages/*' -not -path '/tmp/*' -not -path '/proc/*' -not -path '/var/log/*' 2> /dev/null)
  if [[ -z $left ]]; then passed "apt-get purge leaves nothing"; else failed "apt-get purge leaves nothing" "$left"; fi
  if [[ $failures -gt 0 ]]; then echo "  $failures failed"; exit 1; fi
  echo "  all passed"
  exit 0
}

mkdir -p /tmp/user && chown nobody:nogroup /tmp/user
cd /packages || exit 1
apt-get -qq update > "$log" 2>&1 || { tail -5 "$log"; exit 1; }

if compgen -G './python3-tombolo_*.deb' > /dev/null; then
  install_packages python3-tombolo
  needs=$(dpkg-query -W -f '${Depends}' python3-tombolo)
  if grep -qE 'torch|ssl|tombolo' <<< "$needs"; then failed "python3-tombolo alone needs no LibTorch and no OpenSSL" "$needs"
  else passed "python3-tombolo alone needs no LibTorch and no OpenSSL"; fi
  prints "tombolo.plan" '^iteration_s 32\.2' as_user python3 -c \
    'import sys, tombolo; print("iteration_s", tombolo.plan(sys.argv[1]).best.iteration_s)' $python_examples/planning/llama3-70b/job.toml
  prints "what is wrong, from Python" '^training\.global_batch .*"global_bach"' as_user python3 -c '
import sys, tombolo
try: tombolo.simulate(open(sys.argv[1]).read().replace("global_batch", "global_bach"))
except tombolo.JobError as error: print(error.key, error.try_)' $python_examples/toy/job.toml
  prints "a timeline's page" '^<!doctype html>' as_user python3 -c \
    'import sys, tombolo; print(tombolo.simulate(sys.argv[1]).page())' $python_examples/toy/job.toml
  prints "a script for Python" '^5 Gbps' as_user python3 $python_examples/python/line_rates.py
  prints "what pip knows of it" '^[0-9]+\.[0-9]+\.[0-9]+' as_user python3 -c 'import importlib.metadata; print(importlib.metadata.version("tombolo"))'
fi

# A build tree of the planner alone makes no other.
if ! compgen -G './tombolo_*.deb' > /dev/null; then
  finish
fi
install_packages tombolo
sed -e 's/^device = .*/device = "emulated:a100-80g"/' $examples/toy/job.toml > emulated.toml
if dpkg-query -W 'libtorch*' 2> /dev/null | grep -q .; then failed "tombolo alone needs no LibTorch" ""; else passed "tombolo alone needs no LibTorch"; fi
prints "tombolo --version" '^tombolo [0-9]+\.[0-9]+\.[0-9]+' as_user tombolo --version
prints "tombolo doctor, without a worker" 'worker +missing' as_user tombolo doctor
prints "tombolo simulate" '^west 0' as_user tombolo simulate $examples/toy/job.toml --ascii
prints "tombolo plan" '^predicted iteration' as_user tombolo plan $examples/planning/llama3-70b/job.toml
prints "the manual page" '^\.TH TOMBOLO 1' gzip -dcf /usr/share/man/man1/tombolo.1.gz
prints "completion of bash" 'tombolo' bash -c '. /usr/share/bash-completion/completions/tombolo && complete -p tombolo'
refused "tombolo train, without a worker, names its package" "the package tombolo-worker" emulated

install_packages tombolo-worker
prints "tombolo doctor, with LibTorch" 'LibTorch +ok' as_user tombolo doctor
prints "tombolo doctor, with OpenBLAS" 'BLAS +ok' as_user tombolo doctor
prints "emulated devices" '^emulated +iteration' emulated
prints "training on CPUs" '^measured +iteration' trained
prints "the unit names the program" '^ExecStart=/usr/bin/tombolo ' cat '/usr/lib/systemd/system/tombolo-rank@.service'

install_packages tombolo-islands
prints "tombolo-islands trace" '^time_s,rate_mbps' as_user tombolo-islands trace --seconds 2
if [[ -c /dev/net/tun ]] && unshare -n true 2> /dev/null; then
  prints "tombolo-islands run" '^islands ok' tombolo-islands run $examples/atlas/three-dc.toml -- \
    sh -c 'command -v tombolo > /dev/null && tombolo-islands exec virginia-0 hostname && echo islands ok'
else
  echo "  skipped  tombolo-islands run: no /dev/net/tun, or no privileges"
fi

build_upon_library() {
  as_user sh -c 'cp -r /usr/share/doc/libtombolo-dev/examples . && cmake -S examples/library -B built && cmake --build built' &&
    as_user built/own_law && as_user built/own_schedule examples/toy/job.toml && as_user built/planner_loop examples/planning/llama3-70b/job.toml
}
install_packages libtombolo-dev
apt-get -qq -y -o Dpkg::Use-Pty=0 install --no-install-recommends g++ cmake make > "$log" 2>&1 || failed "a compiler" "$(cat "$log")"
prints "programs upon the library" '^ +25 Gbps' build_upon_library

finish
