// The program `tombolo-mpi`: `tombolo sweep` as one of several processes that mpirun started.
//
// Rank 0 reads the job and hands it to the others, so machines need not share a file system; each
// rank answers its share of the grid; rank 0 gathers the rows and writes them. What goes wrong is
// said once, by rank 0, and all processes end with its exit code.
#include <mpi.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <exception>
#include <iostream>

#include "ui/decide_commands/decide_commands.h"
#include "ui/decide_commands/process_group.h"

namespace {

using namespace tombolo;
using namespace tombolo::decide_commands;

// Errors of MPI itself end the run: that is what its communicators do unless told otherwise.
class MpiProcessGroup final : public ProcessGroup {
 public:
  MpiProcessGroup() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }
  int rank() const override { return rank_; }
  int size() const override { return size_; }

  std::string broadcast(std::string text) override {
    auto length = static_cast<int64_t>(text.size());
    MPI_Bcast(&length, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
    text.resize(static_cast<size_t>(length));
    for (int64_t at = 0; at < length; at += kPiece) {
      MPI_Bcast(text.data() + at, piece(length, at), MPI_CHAR, 0, MPI_COMM_WORLD);
    }
    return text;
  }

  std::vector<std::string> gather(std::string text) override {
    auto length = static_cast<int64_t>(text.size());
    if (rank_ != 0) {
      MPI_Send(&length, 1, MPI_INT64_T, 0, 0, MPI_COMM_WORLD);
      for (int64_t at = 0; at < length; at += kPiece) {
        MPI_Send(text.data() + at, piece(length, at), MPI_CHAR, 0, 0, MPI_COMM_WORLD);
      }
      return {};
    }
    std::vector<std::string> texts{std::move(text)};
    for (int from = 1; from < size_; ++from) {
      MPI_Recv(&length, 1, MPI_INT64_T, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      texts.emplace_back(static_cast<size_t>(length), '\0');
      for (int64_t at = 0; at < length; at += kPiece) {
        MPI_Recv(texts.back().data() + at, piece(length, at), MPI_CHAR, from, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
      }
    }
    return texts;
  }

 private:
  static constexpr int64_t kPiece = int64_t{1} << 28;  // MPI counts in int
  static int piece(int64_t length, int64_t at) {
    return static_cast<int>(std::min(kPiece, length - at));
  }

  int rank_ = 0;
  int size_ = 1;
};

// What this rank would exit with; only rank 0 says anything.
int answer(int argc, char** argv, MpiProcessGroup& group) {
  CLI::App app{"tombolo sweep, spread over the processes of mpirun."};
  app.name("tombolo");
  app.require_subcommand(1);
  const command::Command command = add_sweep(app, &group);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (group.rank() == 0) app.exit(error);
    return error.get_exit_code() == 0 ? 0 : 2;
  }
  const Status status = command.run(std::cout);
  if (group.rank() != 0) return 0;
  std::cout.flush();
  if (!status) {
    std::cerr << status.error().text() << std::endl;
    return status.error().exit_code();
  }
  const Status written = command::check_stdout();
  if (!written) std::cerr << written.error().text() << "\n";
  return written ? 0 : written.error().exit_code();
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  MPI_Init(&argc, &argv);
  int code = 1;
  try {
    MpiProcessGroup group;
    code = answer(argc, argv, group);
    // Rank 0 has said all there is to say before any other process ends.
    code = std::stoi(group.broadcast(std::to_string(code)));
  } catch (const std::exception& error) {
    std::cerr << "tombolo-mpi: " << error.what() << std::endl;
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return code;
}
