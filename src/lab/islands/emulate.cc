#include "lab/islands/emulate.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>

#include "base/check.h"
#include "base/file.h"
#include "base/json.h"
#include "lab/islands/bring_up.h"
#include "lab/islands/host_commands.h"
#include "lab/islands/layout.h"
#include "lab/islands/room.h"

namespace tombolo::islands {
namespace {

// Above every ordinary thread, below what an administrator runs at high priority.
constexpr int kForwarderPriority = 20;

// What the first process of the room does.
class Emulator {
 public:
  Emulator(const Arguments& arguments, const Emulation& emulation, const Room& room)
      : arguments_(arguments), emulation_(emulation), room_(room) {}

  Result<int> run() {
    archipelago_ = TRY(bring_up(emulation_.cluster, emulation_.hosts, emulation_.byte_scale));
    forwarder_ = TRY(wanem::Forwarder::start(
        ports_of(archipelago_, emulation_.cluster), emulation_.scenario,
        {.realtime_priority = kForwarderPriority, .seed = arguments_.seed}));
    TRY(prepare_environment());
    const FileDescriptor signals = TRY(listen_to_signals());
    if (arguments_.verb == Verb::kRun) {
      commands_ = TRY(start_commands());
    } else {
      fmt::print("{}^C ends them; SIGHUP reads {} again, SIGUSR1 prints counters (process {})\n",
                 describe_islands(emulation_, archipelago_, room_.pid_outside, netem_support()),
                 emulation_.file, room_.pid_outside);
      std::fflush(stdout);
    }
    while (!stopped_ && !(commands_ && commands_->done())) wait(signals);
    if (commands_) commands_->drain();
    if (!arguments_.counters.empty()) {
      TRY(write_file(arguments_.counters, to_json(counters_value(*forwarder_), 2) + '\n'));
    }
    return commands_ ? commands_->exit_code() : 0;
  }

 private:
  // What runs inside learns where it is from its environment, and finds this program on its path:
  // launchers start ranks on other hosts with `tombolo-islands exec`.
  Status prepare_environment() {
    cluster::Islands islands{.network = kNetwork, .byte_scale = emulation_.byte_scale};
    for (const Island& island : archipelago_.islands) islands.hosts.push_back(island.host);
    TRY(name_hosts(islands.hosts));
    setenv(cluster::kIslandsVariable, cluster::to_json_text(islands).c_str(), 1);
    std::error_code error;
    const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
    const char* path = std::getenv("PATH");
    if (!error && path) {
      setenv("PATH", (program.parent_path().string() + ":" + path).c_str(), 1);
    }
    return {};
  }

  // run_in_room blocked the signals already.
  static Result<FileDescriptor> listen_to_signals() {
    sigset_t signals;
    sigemptyset(&signals);
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGCHLD}) {
      sigaddset(&signals, number);
    }
    FileDescriptor fd(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!fd.valid()) return failed(fmt::format("signalfd: {}", std::strerror(errno)));
    return fd;
  }

  Result<Commands> start_commands() {
    Commands::Options options{.command = arguments_.command,
                              .prefixed = arguments_.each,
                              .foreground = room_.foreground && !arguments_.each};
    const Island* at = arguments_.host.empty() ? &archipelago_.islands.front()
                                               : archipelago_.find(arguments_.host);
    if (arguments_.each) {
      for (const Island& island : archipelago_.islands) options.where.push_back(&island);
    } else if (at) {
      options.where = {at};
    } else {
      std::string names;
      for (const Island& island : archipelago_.islands) names += " " + island.host.name;
      return unusable(fmt::format("--host {}: there is no such host", arguments_.host),
                      "one of" + names);
    }
    return Commands::start(options);
  }

  // Until something has happened, and reacts to it.
  void wait(const FileDescriptor& signals) {
    std::vector<pollfd> listening{{signals.get(), POLLIN, 0}};
    if (commands_) {
      for (const int fd : commands_->outputs()) listening.push_back({fd, POLLIN, 0});
    }
    if (poll(listening.data(), listening.size(), -1) <= 0) return;
    for (size_t i = 1; i < listening.size(); ++i) {
      if (listening[i].revents) commands_->pump(listening[i].fd);
    }
    signalfd_siginfo info;
    while (read(signals.get(), &info, sizeof info) == sizeof info) {
      on_signal(static_cast<int>(info.ssi_signo));
    }
  }

  void on_signal(int number) {
    if (number == SIGCHLD) {
      // Orphans of the room are ours too.
      int status = 0;
      while (const pid_t pid = waitpid(-1, &status, WNOHANG)) {
        if (pid < 0) break;
        if (commands_) commands_->ended(pid, status);
      }
    } else if (number == SIGUSR1) {
      fmt::print(stderr, "{}", describe_counters(*forwarder_));
    } else if (number == SIGHUP) {
      const Status reloaded = reload();
      fmt::print(
          stderr, "{}\n",
          reloaded ? fmt::format("conditions as in {}", emulation_.file) : reloaded.error().text());
    } else if (commands_) {
      commands_->signal(number);
    } else {
      stopped_ = true;
    }
  }

  // Whatever is wrong with the file, the conditions stay as they were.
  Status reload() {
    Emulation now = TRY(read_emulation(emulation_.file, emulation_.byte_scale));
    TRY(check_reload(emulation_, now));
    TRY(forwarder_->reload(now.scenario));
    TRY(apply_settings(archipelago_, now.cluster, now.byte_scale));
    emulation_ = std::move(now);
    return {};
  }

  const Arguments& arguments_;
  Emulation emulation_;
  const Room room_;
  Archipelago archipelago_;
  std::unique_ptr<wanem::Forwarder> forwarder_;
  std::optional<Commands> commands_;
  bool stopped_ = false;
};

}  // namespace

Result<int> emulate(const Arguments& arguments, const Emulation& emulation) {
  TRY(check_privileges());
  return run_in_room([&](const Room& room) {
    const Result<int> code = Emulator(arguments, emulation, room).run();
    if (code) return *code;
    fmt::print(stderr, "{}\n", code.error().text());
    return code.error().exit_code();
  });
}

Error become_command_on(const std::string& name, const std::vector<std::string>& command) {
  CHECK(!command.empty(), "no command for {}", name);
  const auto islands = cluster::islands_of_environment();
  if (!islands) return islands.error();
  if (!*islands) {
    return {ErrorCode::kUnusable,
            fmt::format("{} is not set: there are no islands here", cluster::kIslandsVariable),
            {},
            "inside of `tools/islands FILE -- COMMAND`"};
  }
  for (const cluster::Host& host : (*islands)->hosts) {
    if (host.name != name && host.address != name) continue;
    if (Status moved = move_to(host); !moved) return moved.error();
    const std::string line = fmt::format("{}", fmt::join(command, " "));
    execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
    return {ErrorCode::kFailed, fmt::format("/bin/sh: {}", std::strerror(errno)), {}, {}};
  }
  std::string names;
  for (const cluster::Host& host : (*islands)->hosts) names += " " + host.name;
  return {
      ErrorCode::kUnusable, fmt::format("{}: there is no such host", name), {}, "one of" + names};
}

}  // namespace tombolo::islands
