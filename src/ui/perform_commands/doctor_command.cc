// `tombolo doctor`: what this machine has of what commands need. Every probe ends: programs are given
// seconds, nothing is installed or changed.
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <chrono>
#include <filesystem>

#include "base/control_group.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text_table.h"
#include "lab/islands/room.h"
#include "perform/run/child_process.h"
#include "ui/command/answer.h"
#include "ui/command/words.h"
#include "ui/perform_commands/perform_commands.h"

namespace tombolo::perform_commands {
namespace {

constexpr int kWorkerMs = 60'000;  // LibTorch from a cold disk
constexpr int kPythonMs = 60'000;
constexpr int kDriverMs = 10'000;
constexpr size_t kOutputMax = 64 * 1024;
constexpr uint64_t kFreeMin = uint64_t{2} << 30;
constexpr rlim_t kFilesMin = 4096;

struct Check {
  std::string name;
  bool ok = false;
  std::string found;
  std::string means;    // where it is missing
  std::string install;  // what to do then
};

// What the program prints within that time, if it ends well; what it says to stderr is left out, and
// so is what it prints beyond kOutputMax. One that does not end is killed and not waited for: a driver
// that hangs may hold it for ever.
std::optional<std::string> output_within(std::vector<std::string> command, int limit_ms) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) return std::nullopt;
  std::vector<std::string> arguments = {"-c", "exec \"$0\" \"$@\" 2> /dev/null"};
  arguments.insert(arguments.end(), command.begin(), command.end());
  const Result<pid_t> child =
      run::spawn({.program = "/bin/sh", .arguments = std::move(arguments), .stdout_fd = ends[1]});
  close(ends[1]);
  std::string out;
  bool ended = false;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(limit_ms);
  while (child && out.size() < kOutputMax) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    pollfd readable{ends[0], POLLIN, 0};
    if (left.count() <= 0 || poll(&readable, 1, static_cast<int>(left.count())) <= 0) break;
    std::array<char, 4096> bytes{};
    const ssize_t n = read(ends[0], bytes.data(), bytes.size());
    ended = n <= 0;
    if (ended) break;
    out.append(bytes.data(), static_cast<size_t>(n));
  }
  close(ends[0]);
  if (child && !ended) kill(*child, SIGKILL);
  if (!ended) return std::nullopt;
  const int status = run::await_exit(*child);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return std::nullopt;
  while (out.ends_with('\n')) out.pop_back();
  return out;
}

std::string first_line(const std::string& path) {
  const Result<std::string> text = read_file(path);
  return text ? text->substr(0, text->find('\n')) : "";
}

// The worker says with what it computes: `tombolo-worker kernels`.
void check_worker(std::vector<Check>& checks) {
  const Result<std::string> program = run::sibling_program("tombolo-worker");
  checks.push_back(
      {"worker", program.has_value(), program ? *program : "",
       "train, profile, roofline, prefill and decode start it",
       "the package tombolo-worker, or cmake --preset torch && cmake --build --preset torch"});
  Check libtorch{
      .name = "LibTorch",
      .means = "ranks on device = \"cpu\" cannot compute; emulated ones can",
      .install = "the package tombolo-worker, or tools/setup --torch, then cmake --preset torch"};
  Check blas{.name = "BLAS",
             .means = "matrix products would be fifteen times slower, and runs are refused",
             .install = "apt-get install libopenblas0-pthread"};
  const auto said = program ? output_within({*program, "kernels"}, kWorkerMs) : std::nullopt;
  const Result<Value> facts = parse_json(said.value_or("{}"), "tombolo-worker", 0);
  if (facts) {
    const auto text = [&](const char* key) {
      const Value* value = facts->find(key);
      const auto* found = value ? value->get<std::string>() : nullptr;
      return found ? *found : "";
    };
    libtorch.found = text("libtorch");
    libtorch.ok = !libtorch.found.empty();
    blas.found = text("blas");
    blas.ok = !blas.found.empty() && text("blas_problem").empty();
  }
  checks.push_back(libtorch);
  if (libtorch.ok) checks.push_back(blas);
}

Check cores() {
  cpu_set_t set;
  const int usable = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  const std::optional<double> allowed = cores_allowed();
  const bool limited = allowed && *allowed < usable;
  const std::string load = first_line("/proc/loadavg");
  return {"cores", usable >= 2 && !(limited && *allowed < 2),
          fmt::format("{} usable{}, load {}", usable,
                      limited ? fmt::format(", of which a control group allows {:.3g}", *allowed)
                              : std::string(),
                      load.substr(0, load.find(' '))),
          limited ? "ranks wait for their share of time: times of runs say little"
                  : "ranks share one core: times of runs say little",
          limited ? "a higher limit (cpu.max, CPUQuota)" : "a machine with a core for each rank"};
}

Check realtime() {
  const int policy = sched_getscheduler(0);
  sched_param before{};
  sched_getparam(0, &before);
  const sched_param wanted{.sched_priority = 1};
  const bool ok = sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &wanted) == 0;
  if (ok) sched_setscheduler(0, policy, &before);
  return {"real-time scheduling", ok, ok ? "allowed" : "",
          "emulated ranks wake late where other work runs",
          "running as root, or CAP_SYS_NICE, or an rtprio limit (limits.conf)"};
}

Check network_islands() {
  const Status privileges = islands::check_privileges();
  return {"network namespaces", privileges.has_value(), privileges ? "allowed" : "",
          privileges ? "" : "tools/islands: " + privileges.error().message,
          privileges ? "" : privileges.error().hint};
}

Check python() {
  const auto version =
      output_within({"python3", "-c", "import torch; print(torch.__version__)"}, kPythonMs);
  return {"PyTorch in Python", version.has_value(), version.value_or(""),
          "needed by comparisons with DDP (bench/) and by some tests alone",
          "apt-get install python3-torch"};
}

Check gpu() {
  const auto names =
      output_within({"nvidia-smi", "--query-gpu=name", "--format=csv,noheader"}, kDriverMs);
  const bool ok = names.has_value() && !names->empty();
  return {"GPU", ok, ok ? names->substr(0, names->find('\n')) : "",
          "GPUs are planned for and emulated; training computes on CPUs, and no command needs one",
          ""};
}

Check disk() {
  struct statvfs disk {};
  const bool known = statvfs(".", &disk) == 0;
  const uint64_t free = known ? uint64_t{disk.f_bavail} * disk.f_frsize : 0;
  return {"disk", free >= kFreeMin,
          known ? fmt::format("{} free here", brief(Bytes{static_cast<double>(free)})) : "",
          "checkpoints and Traces of longer runs do not fit into this folder",
          "freeing space, or --out and --checkpoints on another disk"};
}

Check memory() {
  const double bytes =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  return {"memory", bytes >= 4e9, brief(Bytes{bytes}), "ranks of larger models do not fit",
          "a machine with more memory"};
}

Check open_files() {
  rlimit files{};
  const bool known = getrlimit(RLIMIT_NOFILE, &files) == 0;
  return {"open files", known && files.rlim_max >= kFilesMin,
          known ? fmt::format("{} at most", files.rlim_max) : "",
          "a launcher has a socket for each rank", "ulimit -Hn 65536"};
}

// Unsynchronised clocks refuse certificates that are not valid yet; nothing else compares hosts' clocks.
Check clock_check() {
  timex state{};
  const bool synchronised = adjtimex(&state) != TIME_ERROR;
  return {
      "clock", synchronised,
      fmt::format("{}{}",
                  first_line("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
                  synchronised ? ", synchronised" : ", not synchronised"),
      "certificates of tombolo init may seem not yet valid on another host",
      "apt-get install systemd-timesyncd, or chrony"};
}

Check congestion_control() {
  const std::string names = first_line("/proc/sys/net/ipv4/tcp_available_congestion_control");
  const bool bbr = (" " + names + " ").find(" bbr ") != std::string::npos;
  return {"TCP bbr", bbr, names, "links with congestion_control = \"bbr\" or \"auto\" use another",
          "modprobe tcp_bbr"};
}

std::vector<Check> all_checks() {
  std::vector<Check> checks;
  check_worker(checks);
  for (const auto check : {cores, memory, disk, clock_check, realtime, network_islands,
                           congestion_control, open_files, python, gpu}) {
    checks.push_back(check());
  }
  return checks;
}

Status doctor(bool json, std::ostream& out) {
  const std::vector<Check> checks = all_checks();
  if (json) {
    Value::Array list;
    for (const Check& each : checks) {
      list.push_back(Value::Table{{"name", each.name},
                                  {"ok", each.ok},
                                  {"found", each.found},
                                  {"means", each.ok ? "" : each.means},
                                  {"install", each.ok ? "" : each.install}});
    }
    command::print_json(out, {{"version", command::version()}, {"checks", std::move(list)}});
    return {};
  }
  out << "tombolo " << command::version() << "\n";
  TextTable table({text_column(), text_column(), text_column()});
  for (const Check& each : checks) {
    std::string found = each.found;
    if (!each.ok) found += (found.empty() ? "" : "; ") + each.means;
    table.row({each.name, each.ok ? "ok" : "missing", found});
    if (!each.ok && !each.install.empty()) table.row({"", "", "try " + each.install});
  }
  out << table.text();
  return {};
}

}  // namespace

command::Command add_doctor(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  CLI::App* words = command::add_command(
      app, {"doctor", command::kProgram,
            "what this machine has of what commands need, and what to install", "tombolo doctor"});
  command::heading(words, command::kComesOut);
  command::add_json(words, *json);
  return {words, [json](std::ostream& out) { return doctor(*json, out); }};
}

}  // namespace tombolo::perform_commands
