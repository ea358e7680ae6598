#!/bin/bash
# Installs what is missing, builds, and runs every test. Ends with a line "N passed, N failed", and
# ", N skipped" where a test could not run here. Exit code 0 if none failed and at least one passed.
#
#   ./test.sh            about what a reviewer waits for
#   ./test.sh --long     the same with fifty times the seeds, five minutes for each fuzzer, and Debian packages in clean roots
#   ./test.sh --only=dev one stage alone: checks, dev, fuzz (which takes its programs from dev), tsan, swift or packages
#   ./test.sh --quick    only what a change touches (tools/touched), in the sanitized build that is there already
#
# A test is a ctest test in one of the builds, a fuzzer, or one of the checks of the code itself. A stage
# that does not build counts as one failure; the others still run. Logs: build/logs/.
set -uo pipefail
cd "$(dirname "$0")"
exec < /dev/null

long=false
quick=false
only=
for argument in "$@"; do
  case $argument in
    --long) long=true ;;
    --quick) quick=true ;;
    --only=checks | --only=dev | --only=fuzz | --only=tsan | --only=swift | --only=packages) only=${argument#--only=} ;;
    *) echo "test.sh: unknown option $argument; one of --long, --only=STAGE, --quick" >&2; exit 2 ;;
  esac
done
$long && export TOMBOLO_LONG=1  # tests that draw seeds draw more
fuzz_seconds=4
$long && fuzz_seconds=300
# Threads, processes and sockets meet in these; the rest is single-threaded. worker starts real ones.
tsan_labels=(engine link transport kernels exchange state stage observe join run worker)
# What LibTorch, real time or a browser decides, and what computes for minutes under a sanitizer. The rest runs under the
# sanitizers. --long runs all of it in both builds.
swift_labels=(train numerics with_torch optimised islands browser recorded)
swift_programs=(tombolo tombolo-worker tombolo-islands tombolo_python_module)

passed=0 failed=0 skipped=0
times=""
logs=build/logs
mkdir -p "$logs"

# Parallel jobs: one per core, but no more than memory allows at 1.5 GB each.
memory_kb=$(awk '/^MemAvailable/ {print $2}' /proc/meminfo)
limit=$(cat /sys/fs/cgroup/memory.max 2> /dev/null || echo max)
[[ $limit != max && $((limit / 1024)) -lt $memory_kb ]] && memory_kb=$((limit / 1024))
jobs=$((memory_kb / 1500000))
[[ $jobs -gt $(nproc) ]] && jobs=$(nproc)
[[ $jobs -lt 1 ]] && jobs=1
room_for_two=false  # tests and a build at once
[[ $memory_kb -ge $((2 * jobs * 1500000)) ]] && room_for_two=true

# The sanitizers' shadow memory does not fit beside the addresses that newer kernels draw at random.
fixed_addresses=(setarch "$(uname -m)" -R)
"${fixed_addresses[@]}" true 2> /dev/null || fixed_addresses=()
if pkg-config --atleast-version=3.5 openssl 2> /dev/null; then
  export TSAN_OPTIONS="suppressions=$PWD/tests/thread_sanitizer.supp ${TSAN_OPTIONS:-}"
fi

# Many tests wait for processes, clocks and sockets: one more of them than cores keeps the cores busy.
tests_at_once=$((jobs + 1))

say() { printf '%s\n' "$*"; }
pass() { passed=$((passed + 1)); say "  passed  $1"; }
flunk() { failed=$((failed + 1)); say "  FAILED  $1"; }

# Every 25th step, and whatever is not a step: warnings and errors.
thin_out() { awk '/^\[[0-9]+\/[0-9]+\]/ { if (++n % 25 == 0) { print "  " $0; fflush() } next } { print; fflush() }'; }
only_failures() { awk '/^ *Start +[0-9]+: / || /^Internal ctest changing/ || / Passed +[0-9.]+ sec$/ { next } { print; fflush() }'; }

configure() {  # PRESET
  local log=$logs/build-$1.log
  cmake --preset "$1" -DCMAKE_COMPILE_WARNING_AS_ERROR=ON -DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=mold > "$log" 2>&1 && return
  tail -30 "$log"
  flunk "configure $1 (log: $log)"
  return 1
}

build() {  # PRESET [TARGET...]
  local preset=$1 log=$logs/build-$1.log targets=()
  shift
  [[ $# -gt 0 ]] && targets=(--target "$@")
  configure "$preset" || return 1
  if ! cmake --build --preset "$preset" -j "$jobs" "${targets[@]}" 2>&1 | tee -a "$log" | thin_out; then
    flunk "build $preset (log: $log)"
    return 1
  fi
}

run_ctest() {  # PRESET [ctest option...]
  local preset=$1 junit=$PWD/$logs/ctest-$1.xml counts code
  shift
  rm -f "$junit"
  "${fixed_addresses[@]}" ctest --test-dir "build/$preset" -j "$tests_at_once" --output-on-failure --no-tests=error --output-junit "$junit" "$@" 2>&1 |
    tee "$logs/ctest-$preset.log" | only_failures
  code=$?
  # passed failed skipped, from the <testsuite> element.
  counts=$(python3 - "$junit" << 'EOF'
import sys, xml.etree.ElementTree
try:
    suite = xml.etree.ElementTree.parse(sys.argv[1]).getroot()
    total, failures, skipped, disabled = (int(suite.get(key, 0)) for key in ("tests", "failures", "skipped", "disabled"))
    print(total - failures - skipped - disabled, failures, skipped + disabled)
except (OSError, ValueError, xml.etree.ElementTree.ParseError):
    print(0, 0, 0)
EOF
  )
  read -r p f s <<< "$counts"
  # ctest can fail without a failed test: none found, or it did not come to the end.
  [[ $code -ne 0 && $f -eq 0 ]] && f=1
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
  say "  $p passed, $f failed, $s skipped"
}

stage() {  # NAME FUNCTION
  [[ -z $only || $1 == "$only"* || $1 == set-up ]] || return
  local begin=$SECONDS
  say ""
  say "== $1"
  "$2"
  times+=$(printf '%6d s  %s' $((SECONDS - begin)) "$1")$'\n'
}

# Those of the wanted targets that this build has.
existing_targets() {  # PRESET TARGET...
  local all
  all=$(ninja -C "build/$1" -t targets all 2> /dev/null | cut -d: -f1)
  shift
  for target in "$@"; do grep -qx "$target" <<< "$all" && echo "$target"; done
}

build_tests() {  # PRESET "LABEL..." [PROGRAM...]: the tests with these labels, and the programs they start
  local preset=$1 labels targets
  read -ra labels <<< "$2"
  shift 2
  configure "$preset" || return
  mapfile -t targets < <(existing_targets "$preset" "${labels[@]/#/tests_of_}" "$@")
  [[ ${#targets[@]} -gt 0 ]] || { flunk "$preset: none of the labels ${labels[*]} has tests"; return 1; }
  build "$preset" "${targets[@]}"
}

run_tests() {  # PRESET "LABEL..." [ctest option...]
  local preset=$1 labels
  read -ra labels <<< "$2"
  shift 2
  run_ctest "$preset" -L "^($(IFS='|'; echo "${labels[*]}"))$" "$@"
}

# While tests wait, cores are idle: another stage is built with what they leave. That stage builds again, and says what failed.
beside() {  # BUILD COMMAND...: the command, and the build at the lowest priority
  local build=$1 building=
  shift
  if [[ -z $only ]] && ! $long && ! $quick && $room_for_two; then
    set -m  # a group of processes, to end all of them with this one
    (renice -n 19 "$BASHPID" > /dev/null; "$build") > "$logs/beside.log" 2>&1 &
    building=$!
    set +m
    trap 'kill -- -'"$building"' 2> /dev/null' EXIT
  fi
  "$@"
  [[ -n $building ]] && { wait "$building"; trap - EXIT; }
}

set_up() { tools/setup --torch --test || { say "the set-up is incomplete (see above)"; exit 2; }; }

check_code() {
  if tools/check; then pass tools/check; else flunk tools/check; fi
}

sanitizers() {
  if $long; then
    build dev && run_ctest dev -LE '^fuzz$'  # the next stage begins with the same corpora
  else
    build dev unit_tests tombolo tombolo-worker &&
      beside build_threads run_ctest dev -LE '^(browser|fuzz|islands|optimised|recorded)$' -E _NOT_BUILT
  fi
}

build_threads() { build_tests tsan "${tsan_labels[*]}"; }
build_swift() { build_tests swift "${swift_labels[*]}" "${swift_programs[@]}" bench_syntax; }  # no test runs bench/: only read it

threads() { build_threads && beside build_swift run_tests tsan "${tsan_labels[*]}"; }

swift() {
  if $long; then
    build torch && run_ctest torch
    build release && pass "every file includes what it needs"  # each compiled alone, nothing precompiled
  else
    build_swift && run_tests swift "${swift_labels[*]}"
  fi
}

# Debian packages of each release, installed and run in a root that has nothing else.
packages() {
  local release code
  for release in 12 13; do
    tools/package --debian "$release" --try
    code=$?
    case $code in
      0) pass "packages of Debian $release" ;;
      77) skipped=$((skipped + 1)); say "  skipped packages of Debian $release (see above)" ;;
      *) flunk "packages of Debian $release (exit code $code)" ;;
    esac
  done
}

run_fuzzer() {  # PROGRAM: what it says goes to its log, its exit code beside it
  local program=$1 name=${1%_fuzz}
  local found=build/dev/found/$name  # what the fuzzer finds worth keeping; the corpus itself stays as it is
  mkdir -p "$found"
  "${fixed_addresses[@]}" "build/dev/$program" -max_total_time="$fuzz_seconds" -timeout=10 -rss_limit_mb=4096 -verbosity=0 \
    -artifact_prefix="$crashes/$name-" "$found" "fuzz/corpus/$name" > "$logs/$program.log" 2>&1
  echo $? > "$logs/$program.code"
}

fuzz() {
  build dev fuzzers || return
  local source program name code crashes=$logs/crashes programs=()
  mkdir -p "$crashes"
  rm -f "$logs"/*_fuzz.code
  for source in fuzz/*_fuzz.cc; do
    program=$(basename "$source" .cc)
    [[ -x build/dev/$program ]] && programs+=("$program")  # or its module is not built here
  done
  for program in "${programs[@]}"; do
    [[ $(jobs -rp | wc -l) -ge $jobs ]] && wait -n
    run_fuzzer "$program" &
  done
  wait
  for program in "${programs[@]}"; do
    name=${program%_fuzz} code=$(cat "$logs/$program.code" 2> /dev/null || echo none)
    if [[ $name == canary && $code == [1-9]* ]]; then
      pass "fuzz canary (it fails, as it must)"
    elif [[ $name == canary ]]; then
      flunk "fuzz canary: it lives (exit code $code), so no failure would be seen"
    elif [[ $code == 0 ]]; then
      pass "fuzz $name"
    else
      tail -20 "$logs/$program.log"
      flunk "fuzz $name (input in $crashes, log: $logs/$program.log)"
    fi
  done
}

touched() {
  local labels
  # What the sanitized build does not run in a whole run, it does not run here.
  labels=$(tools/touched | grep -vxE "$(IFS='|'; echo "${swift_labels[*]}")" | tr '\n' ' ')
  [[ -n $labels ]] || { say "  no test by itself"; return; }
  say "  $labels"
  local programs=()  # that tests in Python start
  [[ " $labels " == *" end_to_end "* ]] && programs=(tombolo tombolo-worker)
  build_tests dev "$labels" "${programs[@]}" && run_tests dev "$labels" -LE '^optimised$'
}

stage "set-up" set_up
say "$jobs parallel jobs"
stage "checks of the code" check_code
if $quick; then
  stage "what the change touches" touched
else
  stage "dev: address and undefined-behaviour sanitizers" sanitizers
  stage "fuzz: libFuzzer, $fuzz_seconds s each" fuzz
  stage "tsan: thread sanitizer on ${tsan_labels[*]}" threads
  stage "swift: with LibTorch, optimised where it computes, on ${swift_labels[*]}" swift
  if $long || [[ $only == packages ]]; then stage "packages: built, and tried in clean roots" packages; fi
fi

say ""
say "$times"
summary="$passed passed, $failed failed"
[[ $skipped -gt 0 ]] && summary+=", $skipped skipped"
say "$summary"
[[ $failed -eq 0 && $passed -gt 0 ]]
