#include "ui/cli/mpirun.h"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "perform/run/child_process.h"

namespace tombolo {
namespace {

int64_t number_of(const char* variable) {
  const char* text = std::getenv(variable);
  return text ? std::atoll(text) : 0;
}

}  // namespace

bool mpirun_started_several() { return number_of("OMPI_COMM_WORLD_SIZE") > 1; }

Error join_process_group(char** argv) {
  Result<std::string> program = run::sibling_program("tombolo-mpi");
  Error error;
  if (program) {
    execv(program->c_str(), argv);
    error = {ErrorCode::kUnusable, fmt::format("{}: {}", *program, std::strerror(errno)), {}, {}};
  } else {
    error = program.error();
  }
  error = std::move(error).during("joining the processes that mpirun started");
  error.hint =
      "installing libopenmpi-dev and building again (cmake finds MPI then), or tombolo sweep "
      "without mpirun, which uses all cores of one machine";
  // Rank 0 says it and ends, then mpirun ends the others.
  if (number_of("OMPI_COMM_WORLD_RANK") > 0) {
    std::this_thread::sleep_for(std::chrono::seconds(3));
  }
  return error;
}

}  // namespace tombolo
