// A whole run in the ocean: the launcher, its supervisor, every rank's worker and whoever starts it
// again, as they run outside; disks are folders, one per host.
#pragma once

#include <signal.h>
#include <sys/wait.h>

#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "perform/launch/berths.h"
#include "perform/launch/launcher.h"
#include "perform/launch/membership.h"
#include "perform/launch/rank_session.h"
#include "perform/launch/rendezvous.h"
#include "perform/launch/returning_worker.h"
#include "perform/runtime/checkpoint.h"
#include "perform/runtime/emulated_kernels.h"
#include "perform/runtime/kept_state.h"
#include "support/ocean_disk.h"
#include "support/ocean_sockets.h"
#include "support/test_plan.h"

namespace tombolo::ocean {

namespace fs = std::filesystem;

// With what is broken on purpose.
class OceanKernels : public runtime::EmulatedKernels {
 public:
  OceanKernels(const plan::Plan& plan, int32_t rank, Clock& clock, Bug bug)
      : EmulatedKernels(plan, rank, clock), bug_(bug) {}

  Result<std::vector<runtime::TensorView>> state() const override {
    auto tensors = TRY(EmulatedKernels::state());
    if (bug_ != Bug::kStateIsOneShort) return tensors;
    for (runtime::TensorView& tensor : tensors) {
      int64_t& updates = short_.emplace_back();
      std::memcpy(&updates, tensor.bytes.data(), sizeof updates);
      --updates;
      tensor.bytes = std::as_bytes(std::span(&updates, 1));
    }
    return tensors;
  }
  Status load(const runtime::TensorSource& tensors) override {
    return EmulatedKernels::load([&](const std::string& name) -> Result<runtime::NamedTensor> {
      auto tensor = TRY(tensors(name));
      if (bug_ == Bug::kUpdateAgainAfterLoad) count(tensor, 1);
      return tensor;
    });
  }

 private:
  static void count(runtime::NamedTensor& tensor, int64_t more) {
    int64_t updates = 0;
    std::memcpy(&updates, tensor.bytes.data(), sizeof updates);
    updates += more;
    std::memcpy(tensor.bytes.data(), &updates, sizeof updates);
  }
  const Bug bug_;
  mutable std::deque<int64_t> short_;  // what states show
};

// Starts workers as processes of the ocean: what a worker's command line says, and serve_rank.
class OceanProcesses : public launch::Processes {
 public:
  // `workers`: where the newest process of each rank is noted.
  OceanProcesses(Sea& sea, Waters& waters, std::map<int32_t, int>& workers)
      : sea_(sea), waters_(waters), workers_(workers) {}

  Result<pid_t> spawn(const launch::ChildOptions& child) override {
    Process& process = sea_.ocean().start(
        waters_.process().host, [this, child](Waters& waters) { return work(child, waters); });
    const auto rank = std::find(child.arguments.begin(), child.arguments.end(), "--rank");
    workers_[std::stoi(*std::next(rank))] = process.pid;
    return process.pid;
  }
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

 private:
  int work(const launch::ChildOptions& child, Waters& waters) {
    OceanSockets sockets(sea_, waters);
    Process& parent = waters_.process();
    launch::RankSessionOptions session;
    std::map<std::string, std::string> words;
    for (size_t i = 1; i < child.arguments.size(); ++i) {
      const bool has_value = i + 1 < child.arguments.size() && child.arguments[i + 1][0] != '-';
      words[child.arguments[i]] = has_value ? child.arguments[i + 1] : "";
    }
    session.rank = std::stoi(words.at("--rank"));
    session.ranks = std::stoi(words.at("--ranks"));
    session.launcher = *transport::parse_address(words.at("--launcher"));
    session.listen_address = words.at("--listen");
    session.join_max = round_to_ns(Seconds{std::stod(words.at("--join-timeout"))});
    session.terms.floor = round_to_ns(Seconds{std::stod(words.at("--lease"))});
    session.terms.ceiling = round_to_ns(Seconds{std::stod(words.at("--grace"))});
    session.security.plain_tcp = true;
    session.token_file = words.contains("--token-file") ? words["--token-file"] : "";
    session.output = words["--out"];
    session.checkpoints = words["--checkpoints"];
    session.returns = words.contains("--returns");
    for (const auto& [key, value] : child.environment) {
      if (key == launch::kTokenVariable) session.token = *link::Token::parse(value);
    }
    session.stuck_max = SimDuration{3'000'000'000};
    session.realtime = false;
    session.memory_available = [&sea = sea_] { return std::optional(sea.memory_); };
    session.sockets = &sockets;
    session.end_process = [&](int code) { sea_.ocean().end(waters.process(), code << 8, false); };
    // As the kernel does for a child that asked for it, until it asks no more.
    const auto seated = std::make_shared<bool>(false);
    if (words.contains("--child")) {
      parent.at_end.push_back([this, &waters, seated] {
        if (!*seated) sea_.ocean().end(waters.process(), SIGKILL, false);
      });
    }
    session.on_seated = [seated] { *seated = true; };
    const launch::RankEnd end = launch::serve_rank(
        session,
        [&](const plan::Plan& plan, int32_t rank) -> Result<std::unique_ptr<runtime::Kernels>> {
          return std::make_unique<OceanKernels>(plan, rank, waters, sea_.bug_);
        },
        waters);
    *seated = true;
    if (end.status) return 0;
    if (sea_.log_)
      sea_.log_(
          fmt::format("a process of rank {} ends: {}", session.rank, end.status.error().text()));
    return session.returns && end.again ? launch::kComesAgain : end.status.error().exit_code();
  }

  Sea& sea_;
  Waters& waters_;
  std::map<int32_t, int>& workers_;
};

struct RunOptions {
  plan::Plan plan;
  std::string folder;
  bool on_several_hosts = false;  // rank r alone on host r; else all on host 0
  bool systemd = false;  // Restart=on-failure on other hosts; else mpirun's or srun's child
  int restarts = 100;
  control::LeaseTerms terms;
  SimDuration join_max{60'000'000'000};
};

// What people see.
struct RunRecord {
  std::optional<Status> end;
  std::vector<int64_t> steps;  // as they were reported
  int64_t launchers = 0;
  int restarts = 0;
  int full_disks = 0;  // runs that ended because of one
  std::string wrong;   // what ought not to have ended it, or was not named
};

class Run {
 public:
  Run(Sea& sea, RunOptions options) : sea_(sea), options_(std::move(options)) {
    options_.plan.checkpoint->directory = folder(0) + "/checkpoints";
    start_host(0);
    if (!options_.on_several_hosts) return;
    for (int rank = 1; rank < hosts(); ++rank) start_host(rank);
  }

  int hosts() const {
    return options_.on_several_hosts ? static_cast<int>(options_.plan.ranks.size()) : 1;
  }
  std::string folder(int host) const { return fmt::format("{}/host-{}", options_.folder, host); }
  const RunRecord& record() const { return record_; }
  bool over() const { return record_.end.has_value(); }

  // Whoever was started for this, on one host; they start what else there is.
  void start_host(int host) {
    const auto before = started_.find(host);
    if (over() || (before != started_.end() && before->second->alive)) return;
    started_[host] = &sea_.ocean().start(host, [this, host](Waters& waters) {
      return host == 0 ? supervise(waters) : return_as(host, waters);
    });
  }
  // The host loses its power; it is back after so long.
  void lose_host(int host, SimDuration absence) {
    for (const auto& each : sea_.ocean().processes()) {
      if (each->host == host) sea_.ocean().end(*each, SIGKILL, true);
    }
    release_locks();
    if (sea_.bug_ == Bug::kDiskForgets) empty_newest_shard(host);
    sea_.ocean().at(sea_.ocean().now() + absence, [this, host] { start_host(host); });
  }
  // Its disk is full for so long; `disk` says how.
  void fill_disk(int host, SimDuration span, Disk disk) {
    Disk& there = disks[host];
    disk.full_until = std::max(there.full_until, sea_.ocean().now() + span);
    disk.is_believed = sea_.bug_ == Bug::kFullDiskIsBelieved;
    disk.lost = std::move(there.lost);
    disk.refusals = there.refusals;
    there = std::move(disk);
    sea_.ocean().at(there.full_until, [this, host] { empty_lost_files(host); });
  }
  // A worker of this rank, or the launcher (-1), by signal 9.
  bool kill_one(int32_t rank) {
    for (const auto& each : sea_.ocean().processes()) {
      if (!each->alive || each->pid != (rank < 0 ? launcher_ : worker_of(rank))) continue;
      sea_.ocean().end(*each, SIGKILL, false);
      if (rank < 0) release_locks();
      return true;
    }
    return false;
  }

 private:
  int worker_of(int32_t rank) const {
    const auto at = workers_.find(rank);
    return at == workers_.end() ? -1 : at->second;
  }
  // The kernel takes a dead process' locks off; ours is the same process all along.
  void release_locks() {
    const std::string journal = launch::Membership::journal_path(folder(0) + "/out");
    std::error_code ec;
    if (!fs::exists(journal, ec)) return;
    fs::copy_file(journal, journal + ".copy", ec);
    if (sea_.bug_ == Bug::kJournalForgets) {
      const std::string text = *read_file(journal);
      fs::resize_file(journal + ".copy", text.rfind('\n', text.size() - 2) + 1);
    }
    fs::rename(journal + ".copy", journal, ec);
  }

  void empty_newest_shard(int host) const {
    std::error_code ec;
    fs::path newest;
    for (const auto& entry : fs::recursive_directory_iterator(folder(host) + "/checkpoints", ec)) {
      if (entry.path().extension() == ".safetensors" &&
          (newest.empty() || entry.path().parent_path() > newest.parent_path()))
        newest = entry.path();
    }
    if (!newest.empty()) fs::resize_file(newest, 0, ec);
  }

  // What was written to a full disk and believed.
  void empty_lost_files(int host) const {
    const std::set<ino_t> lost = std::exchange(disks[host].lost, {});
    std::error_code ec;
    for (const auto& entry : fs::recursive_directory_iterator(folder(host), ec)) {
      struct stat about {};
      if (entry.is_regular_file(ec) && stat(entry.path().c_str(), &about) == 0 &&
          lost.contains(about.st_ino))
        fs::resize_file(entry.path(), 0, ec);
    }
  }

  void note(const std::string& text) const {
    if (sea_.log_) sea_.log_(text);
  }
  // What people do when they read how it ended: once there is room again, the same command with
  // --resume, or without where there is nothing to resume from. False: they take it for the end.
  bool start_again_by_hand(const Error& error) {
    const std::string text = error.text();
    const auto says = [&](const char* words) { return text.find(words) != std::string::npos; };
    SimTime at = sea_.ocean().now();
    if (says("No space left on device")) {
      ++record_.full_disks;
      bool is_named = false;
      for (const auto& [host, disk] : disks) {
        is_named = is_named || (disk.refusals > 0 && says(fmt::format("/host-{}/", host).c_str()));
        at = std::max(at, disk.full_until);
      }
      const std::string last =
          fmt::format("writing the checkpoint of step {}", options_.plan.run.steps);
      const bool is_early = says("writing the checkpoint") && !says(last.c_str());
      if (!is_named || is_early || error.exit_code() != 2)
        record_.wrong = "it ended because of a full disk: " + text;
      resume_ = true;
    } else if (says("no checkpoint to resume from")) {
      resume_ = false;
    } else if (says("an earlier run left a checkpoint")) {
      resume_ = true;
    } else if (record_.steps.size() > steps_at_start_) {
      return false;
    }
    steps_at_start_ = record_.steps.size();
    note("people read: " + text);
    sea_.ocean().at(at + SimDuration{10'000'000'000}, [this] {
      for (int host = 0; host < hosts(); ++host) start_host(host);
    });
    return true;
  }

  // supervisor.h, without the fork.
  int supervise(Waters& waters) {
    while (true) {
      Process& launcher = sea_.ocean().start(0, [this](Waters& its) { return launch(its); });
      launcher_ = launcher.pid;
      ++record_.launchers;
      OceanProcesses processes(sea_, waters, workers_);
      processes.await_end(launcher.pid);
      if (WIFEXITED(launcher.status)) return WEXITSTATUS(launcher.status);
      const SimTime patience = waters.now() + SimDuration{600'000'000'000};
      for (const auto& [rank, pid] : std::map(workers_)) {
        Process* child = sea_.ocean().find(pid);
        if (child->host != 0) continue;
        while (child->alive && waters.now() < patience)
          waters.sleep_until(waters.now() + SimDuration{20'000'000});
        if (child->alive) sea_.ocean().end(*child, SIGKILL, false);
      }
    }
  }

  // One step too far.
  void relabel_kept_states() const {
    std::error_code ec;
    std::vector<fs::path> steps;
    for (int host = 0; host < hosts(); ++host) {
      for (const auto& each :
           fs::recursive_directory_iterator(runtime::kept_folder(folder(host) + "/out"), ec)) {
        if (each.path().filename().string().starts_with("step-")) steps.push_back(each.path());
      }
    }
    for (const fs::path& each : steps) {
      const int64_t step = std::stoll(each.filename().string().substr(5));
      const fs::path later = runtime::step_folder(each.parent_path(), step + 1);
      if (!fs::exists(later)) fs::rename(each, later, ec);
    }
  }

  int launch(Waters& waters) {
    if (sea_.bug_ == Bug::kKeptUnderAnotherStep) relabel_kept_states();
    OceanSockets sockets(sea_, waters);
    OceanProcesses processes(sea_, waters, workers_);
    launch::LaunchOptions options;
    options.output = folder(0) + "/out";
    options.restarts = options_.restarts;
    options.terms = options_.terms;
    options.keep_state = true;
    options.all_ended = record_.launchers > 1 && !options_.on_several_hosts;
    options.worker_program = "/bin/true";
    options.sockets = &sockets;
    options.processes = &processes;
    options.security.plain_tcp = true;
    const bool forgets = sea_.bug_ == Bug::kTokenIsDrawnAgain && record_.launchers > 1;
    const link::Token token = forgets ? *link::Token::random() : token_;
    if (options_.on_several_hosts) {
      options.rendezvous = launch::Rendezvous{.at = {address_of(0), 29500},
                                              .doors = {.listen = address_of(0)},
                                              .token = token,
                                              .join_max = options_.join_max};
    }
    options.on_progress = [this](const launch::Progress& progress) {
      record_.steps.push_back(progress.step);
    };
    options.on_note = [this](const std::string& text) { note(text); };
    options.resume = resume_;
    const auto summary = launch::launch(options_.plan, options, waters);
    const bool is_done = summary || is_all_done(summary.error());
    if (!is_done && start_again_by_hand(summary.error())) return 1;
    if (summary) record_.restarts += summary->restarts;
    record_.end = is_done ? Status() : fail(summary.error());
    return summary ? 0 : 1;
  }

  // Of other hosts: mpirun's, srun's or systemd's child with --restarts (returning_worker.h).
  int return_as(int host, Waters& waters) {
    OceanProcesses processes(sea_, waters, workers_);
    launch::WorkerStart start{.program = "/bin/true",
                              .rank = host,
                              .ranks = static_cast<int32_t>(options_.plan.ranks.size()),
                              .launcher = {address_of(0), 29500},
                              .berth = {.address = address_of(host)},
                              .security = {.credentials = "", .plain_tcp = true},
                              .token = token_,
                              .output = folder(host) + "/out",
                              .checkpoints = folder(host) + "/checkpoints",
                              .join_max = options_.join_max,
                              .terms = options_.terms,
                              .child = false,
                              .returns = true};
    launch::WorkerStart first = start;
    first.join_max = launch::first_patience(start);
    auto status = launch::run_worker(first, processes);
    start.join_max = start.join_max * 10;
    const bool again = sea_.bug_ != Bug::kNobodyComesAgain;
    const bool found_nobody = status && *status != 0 && !launch::comes_again(*status);
    if (status && again) status = launch::run_again(start, *status, processes);
    // Before the first step people do it, and where it found no launcher from the beginning.
    const bool failed = !status || *status != 0;
    const bool by_hand = record_.steps.empty() || found_nobody;
    if (failed && again && !over() && (options_.systemd || by_hand)) {
      sea_.ocean().at(waters.now() + SimDuration{5'000'000'000},
                      [this, host] { start_host(host); });
    }
    return failed ? 1 : 0;
  }

  // The last checkpoint was there, and what came behind it did not fit.
  bool is_all_done(const Error& error) const {
    return record_.full_disks > 0 && resume_ &&
           error.message.find("nothing is left of run.steps") != std::string::npos;
  }

  Sea& sea_;
  RunOptions options_;
  RunRecord record_;
  bool resume_ = false;        // people say so
  size_t steps_at_start_ = 0;  // how many had been reported when people started it
  const link::Token token_ = *link::Token::parse("000102030405060708090a0b0c0d0e0f");
  int launcher_ = -1;
  std::map<int32_t, int> workers_;   // the newest process of each rank
  std::map<int, Process*> started_;  // by host: who starts the others
};

}  // namespace tombolo::ocean
