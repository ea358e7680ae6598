#include "perform/run/supervisor.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <fstream>
#include <iostream>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/stop_signals.h"
#include "perform/run/child_process.h"

namespace tombolo::run {
namespace {

constexpr std::chrono::milliseconds kWatchEvery{20};
constexpr std::chrono::seconds kWorkersLeaveMax{600};  // for workers to leave their states

volatile sig_atomic_t launcher_process = 0;
volatile sig_atomic_t run_is_to_end = 0;

// A terminal sends its signals to the launcher as well, so pass on only those of other processes. A
// closed terminal sends SIGHUP to the first process alone, so pass that on; getting it twice does no
// harm (stop_signals.h).
void pass_to_launcher(int number, siginfo_t* info, void*) {
  run_is_to_end = 1;
  const bool passes = info->si_code == SI_USER || number == SIGHUP;
  if (passes && launcher_process > 0) kill(launcher_process, number);
}

void handle_with(void (*handler)(int, siginfo_t*, void*)) {
  struct sigaction action {};
  if (handler) {
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
  } else {
    action.sa_handler = SIG_DFL;
  }
  for (const int number : {SIGINT, SIGTERM}) sigaction(number, &action, nullptr);
  if (!outlives_terminal()) sigaction(SIGHUP, &action, nullptr);
}

std::vector<pid_t> children() {
  std::ifstream file(fmt::format("/proc/self/task/{}/children", getpid()));
  std::vector<pid_t> out;
  for (pid_t pid = 0; file >> pid;) out.push_back(pid);
  return out;
}

bool is_stopped(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(file, text);
  const size_t name_end = text.rfind(") ");
  return name_end != std::string::npos && text[name_end + 2] == 'T';
}

// Workers whose launcher was killed are this process's children now. They notice, leave their state
// and exit. A suspended one never would, so it is killed, and so is one that is late.
void await_workers() {
  const auto deadline = std::chrono::steady_clock::now() + kWorkersLeaveMax;
  while (true) {
    const pid_t gone = waitpid(-1, nullptr, WNOHANG);
    if (gone < 0 && errno == ECHILD) return;
    if (gone > 0) continue;
    const bool late = std::chrono::steady_clock::now() > deadline;
    for (const pid_t pid : children()) {
      if (late || is_stopped(pid)) kill(pid, SIGKILL);
    }
    std::this_thread::sleep_for(kWatchEvery);
  }
}

int await_launcher() {
  int status = 0;
  while (true) {
    const pid_t gone = waitpid(-1, &status, 0);
    if (gone == launcher_process) return status;
    if (gone < 0 && errno != EINTR) return 0;
  }
}

// Works if the terminal is gone, too.
void say(const std::string& line) { std::cerr << line + "\n"; }

[[noreturn]] void end_like(int status) {
  if (WIFEXITED(status)) _exit(WEXITSTATUS(status));
  handle_with(nullptr);
  signal(WTERMSIG(status), SIG_DFL);
  kill(getpid(), WTERMSIG(status));
  _exit(128 + WTERMSIG(status));
}

}  // namespace

Life supervise(int restarts) {
  CHECK(restarts >= 1, "a supervisor without restarts");
  void* shared = mmap(nullptr, sizeof(std::atomic<int64_t>), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return {};
  Life life{.step = new (shared) std::atomic<int64_t>(0)};
  // So that workers of a killed launcher become children of this process, which waits for them.
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  int in_a_row = 0;
  int64_t from = -1;
  for (;; ++life.number) {
    const pid_t supervisor = getpid();
    const pid_t child = fork();
    if (child < 0) return life;  // then without a supervisor
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != supervisor) _exit(1);
      handle_with(nullptr);
      return life;
    }
    launcher_process = child;
    handle_with(pass_to_launcher);
    const int status = await_launcher();
    launcher_process = 0;
    await_workers();
    const int64_t step = life.step->load();
    in_a_row = step == from ? in_a_row + 1 : 1;
    from = step;
    if (!WIFSIGNALED(status) || run_is_to_end != 0) end_like(status);
    if (in_a_row > restarts) {
      say(fmt::format(
          "the launcher was {}, {} times in a row without a new step between; --restarts "
          "{} allows no more. The same command resumes the run",
          describe_exit(status), in_a_row, restarts));
      end_like(status);
    }
    say(fmt::format("the launcher was {}; it is started again", describe_exit(status)));
  }
}

}  // namespace tombolo::run
