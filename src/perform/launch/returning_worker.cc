#include "perform/launch/returning_worker.h"

#include <signal.h>
#include <sys/wait.h>

#include "perform/launch/child_process.h"

namespace tombolo::launch {
namespace {

volatile sig_atomic_t worker_process = 0;
volatile sig_atomic_t end_was_asked = 0;

void pass_to_worker(int number) {
  end_was_asked = 1;
  if (worker_process > 0) kill(worker_process, number);
}

}  // namespace

// The worker ignores SIGINT: a terminal sends it to the launcher as well, which stops the run.
void pass_signals_to_worker() {
  struct sigaction action {};
  action.sa_handler = pass_to_worker;
  action.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
}

bool asked_to_end() { return end_was_asked != 0; }

Result<int> run_worker(const WorkerStart& start, Processes& processes) {
  const pid_t pid = TRY(processes.spawn(worker_child(start)));
  worker_process = pid;
  const int status = processes.await_exit(pid);
  worker_process = 0;
  return status;
}

bool comes_again(int status) {
  if (asked_to_end()) return false;
  return WIFSIGNALED(status) || (WIFEXITED(status) && WEXITSTATUS(status) == kComesAgain);
}

Result<int> run_again(const WorkerStart& start, int status, Processes& processes) {
  while (comes_again(status)) status = TRY(run_worker(start, processes));
  return status;
}

}  // namespace tombolo::launch
