// Workers as processes of the ocean.
#pragma once

#include <signal.h>
#include <sys/wait.h>

#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "perform/join/rendezvous.h"
#include "perform/kernels/emulated_kernels.h"
#include "perform/run/child_process.h"
#include "perform/run/rank_session.h"
#include "perform/run/returning_worker.h"
#include "perform/run/worker_placement.h"
#include "support/ocean_sockets.h"

namespace tombolo::ocean {

// With what is broken on purpose.
class OceanKernels : public kernels::EmulatedKernels {
 public:
  OceanKernels(const plan::Plan& plan, int32_t rank, Clock& clock, const Sea& sea)
      : EmulatedKernels(plan, rank, clock), sea_(sea), rank_(rank), clock_(clock) {}

  Status begin_iteration(int64_t iteration) override {
    iteration_ = iteration;
    return EmulatedKernels::begin_iteration(iteration);
  }
  Result<kernels::Payload> forward(int32_t stage, int64_t microbatch,
                                   kernels::Payload input) override {
    if (sea_.hangs_) clock_.sleep_until(clock_.now() + sea_.hangs_(rank_, iteration_));
    return EmulatedKernels::forward(stage, microbatch, std::move(input));
  }

  std::optional<double> loss() const override { return 1 / static_cast<double>(iteration_); }

  Result<std::vector<kernels::TensorView>> state() const override {
    auto tensors = TRY(EmulatedKernels::state());
    if (sea_.bug_ != Bug::kStateIsOneShort) return tensors;
    for (kernels::TensorView& tensor : tensors) {
      int64_t& updates = short_.emplace_back();
      std::memcpy(&updates, tensor.bytes.data(), sizeof updates);
      --updates;
      tensor.bytes = std::as_bytes(std::span(&updates, 1));
    }
    return tensors;
  }
  Status load(const kernels::TensorSource& tensors) override {
    return EmulatedKernels::load([&](const std::string& name) -> Result<kernels::NamedTensor> {
      auto tensor = TRY(tensors(name));
      if (sea_.bug_ == Bug::kUpdateAgainAfterLoad) count(tensor, 1);
      return tensor;
    });
  }

 private:
  static void count(kernels::NamedTensor& tensor, int64_t more) {
    int64_t updates = 0;
    std::memcpy(&updates, tensor.bytes.data(), sizeof updates);
    updates += more;
    std::memcpy(tensor.bytes.data(), &updates, sizeof updates);
  }
  const Sea& sea_;
  const int32_t rank_;
  Clock& clock_;
  int64_t iteration_ = 0;
  mutable std::deque<int64_t> short_;  // what states show
};

// Processes of the ocean, as their parent ends them and awaits their ends.
class OceanChildren : public run::Processes {
 public:
  explicit OceanChildren(Sea& sea) : sea_(sea) {}

  void await_end(pid_t pid) override {
    Process* process = sea_.ocean().find(pid);
    const bool deaf = sea_.bug_ == Bug::kExitIsNotHeard;
    while (process->alive || (deaf && WIFSIGNALED(process->status))) {
      process->at_end.push_back([who = self] { who->ready = true; });
      sea_.ocean().wait(kNever);
    }
  }
  int await_exit(pid_t pid) override {
    await_end(pid);
    return sea_.ocean().find(pid)->status;
  }
  void signal(pid_t pid, int number) override {
    sea_.ocean().end(*sea_.ocean().find(pid), number, false);
  }

 protected:
  Sea& sea_;
};

// Starts workers as processes of the ocean: what a worker's command line says, and serve_rank.
class OceanProcesses : public OceanChildren {
 public:
  // `workers`: where the newest process of each rank is noted.
  OceanProcesses(Sea& sea, Waters& waters, std::map<int32_t, int>& workers, bool is_spare = false)
      : OceanChildren(sea), waters_(waters), workers_(workers), is_spare_(is_spare) {}
  int started() const { return started_; }

  Result<pid_t> spawn(const run::ChildOptions& child) override {
    Process& process = sea_.ocean().start(
        waters_.process().host,
        [&sea = sea_, &parent = waters_.process(), is_spare = is_spare_, child](Waters& waters) {
          return work(sea, parent, is_spare, child, waters);
        });
    ++started_;
    const auto rank = std::find(child.arguments.begin(), child.arguments.end(), "--rank");
    workers_[std::stoi(*std::next(rank))] = process.pid;
    return process.pid;
  }

 private:
  // Its parent may be over before it, and these Processes with it.
  static int work(Sea& sea, Process& parent, bool is_spare, const run::ChildOptions& child,
                  Waters& waters) {
    OceanSockets sockets(sea, waters);
    run::RankSessionOptions session;
    std::map<std::string, std::string> words;
    for (size_t i = 1; i < child.arguments.size(); ++i) {
      const bool has_value = i + 1 < child.arguments.size() && child.arguments[i + 1][0] != '-';
      words[child.arguments[i]] = has_value ? child.arguments[i + 1] : "";
    }
    session.rank = std::stoi(words.at("--rank"));
    session.ranks = std::stoi(words.at("--ranks"));
    session.launcher = *transport::parse_address(words.at("--launcher"));
    session.at.listen = words.at("--listen");
    session.at.no_inbound = words.contains("--no-inbound");
    session.join_max = round_to_ns(Seconds{std::stod(words.at("--join-timeout"))});
    session.terms.floor = round_to_ns(Seconds{std::stod(words.at("--lease"))});
    session.terms.ceiling = round_to_ns(Seconds{std::stod(words.at("--grace"))});
    session.security.plain_tcp = true;
    session.token_file = words.contains("--token-file") ? words["--token-file"] : "";
    session.output = words["--out"];
    session.checkpoints = words["--checkpoints"];
    session.returns = words.contains("--returns");
    for (const auto& [key, value] : child.environment) {
      if (key == join::kTokenVariable) session.token = *link::Token::parse(value);
    }
    session.stuck_max = SimDuration{3'000'000'000};
    session.realtime = false;
    session.memory_available = [&sea] { return std::optional(sea.memory_); };
    session.sockets = &sockets;
    session.end_process = [&](int code) { sea.ocean().end(waters.process(), code << 8, false); };
    // As the kernel does for a child that asked for it, until it asks no more.
    const auto joined = std::make_shared<bool>(false);
    if (words.contains("--child")) {
      parent.at_end.push_back([&sea, &waters, joined] {
        if (!*joined) sea.ocean().end(waters.process(), SIGKILL, false);
      });
    }
    session.on_joined = [joined] { *joined = true; };
    const run::RankEnd end = run::serve_rank(
        session,
        [&](const plan::Plan& plan, int32_t rank) -> Result<std::unique_ptr<kernels::Kernels>> {
          return std::make_unique<OceanKernels>(plan, rank, waters, sea);
        },
        waters);
    *joined = true;
    if (end.status) return 0;
    if (sea.log_)
      sea.log_(
          fmt::format("a process of rank {} ends: {}", session.rank, end.status.error().text()));
    const int code = end.exit_code(session.returns);
    const bool leaves = sea.bug_ == Bug::kSpareLeavesItsSeat && is_spare;
    return leaves && run::comes_again(code << 8) ? 0 : code;
  }

  Waters& waters_;
  std::map<int32_t, int>& workers_;
  const bool is_spare_;
  int started_ = 0;
};

}  // namespace tombolo::ocean
