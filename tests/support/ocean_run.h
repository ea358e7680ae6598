// A whole run in the ocean: the launcher, its supervisor, every rank's worker and whoever starts it
// again, as they run outside; disks are folders, one per host.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/file.h"
#include "base/hash.h"
#include "perform/join/membership.h"
#include "perform/run/launcher.h"
#include "perform/run/returning_worker.h"
#include "perform/run/worker_placement.h"
#include "perform/state/checkpoint.h"
#include "perform/state/state_snapshot.h"
#include "support/ocean_disk.h"
#include "support/ocean_processes.h"
#include "support/test_plan.h"

namespace tombolo::ocean {

namespace fs = std::filesystem;

struct RunOptions {
  plan::Plan plan;
  std::string folder;
  bool on_several_hosts = false;  // rank r alone on host r; else all on host 0
  bool systemd = false;  // Restart=on-failure on other hosts; else mpirun's or srun's child
  std::vector<std::string> spares;  // a host for each, after those of the ranks: its datacenter
  std::set<int> no_inbound;         // hosts that say so
  int restarts = 100;
  control::LeaseTerms terms;
  SimDuration join_max{60'000'000'000};
  int64_t batch_window = 5;  // run::LaunchOptions
};

// What people see.
struct RunRecord {
  std::optional<Status> end;
  std::vector<int64_t> steps;  // as they were reported
  // Of the summary at the end; of losses, the iterations that its Trace has one of.
  int64_t steps_answered = 0;
  std::string checkpoint;
  std::optional<double> final_loss;
  std::vector<int64_t> losses;
  int64_t launchers = 0;
  int restarts = 0;
  int full_disks = 0;  // runs that ended because of one
  int seated = 0;      // seats that went to a spare
  int spliced = 0;     // links that went through the launcher's host
  // Ranks that hung, and went on again, in the launcher's words; when.
  std::vector<std::pair<SimTime, std::string>> hung;
  int begun_again = 0;               // runs that lost what was on the disk of a host for good,
  int begun_for_a_spare = 0;         // or could not reach what a spare has
  std::vector<std::string> divided;  // how the batch was, in the launcher's words
  std::string wrong;                 // what ought not to have ended it, or was not named
  std::vector<std::string> damaged;  // files of checkpoints, of which something changed
  bool journal_changed = false;
};

class Run {
 public:
  Run(Sea& sea, RunOptions options) : sea_(sea), options_(std::move(options)) {
    options_.plan.checkpoint->directory = folder(0) + "/checkpoints";
    if (sea_.bug_ == Bug::kSpliceIsNotToldAgain) {
      sea_.swallows_ = [this](const link::Tag& tag, const link::Payload& payload) {
        if (record_.launchers < 2 || tag != join::kControlTag) return false;
        const auto message = join::decode(payload);
        const auto* meet = message ? std::get_if<join::Meet>(&*message) : nullptr;
        return meet && meet->dialling == join::Dialling::kSpliced;
      };
    }
    start_host(0);
    if (!options_.on_several_hosts) return;
    for (int host = 1; host < all_hosts(); ++host) start_host(host);
  }

  // Of ranks; those of spares come after them.
  int hosts() const {
    return options_.on_several_hosts ? static_cast<int>(options_.plan.ranks.size()) : 1;
  }
  int all_hosts() const { return hosts() + static_cast<int>(options_.spares.size()); }
  std::string folder(int host) const { return fmt::format("{}/host-{}", options_.folder, host); }
  const RunRecord& record() const { return record_; }
  bool over() const { return record_.end.has_value(); }

  // Whoever was started for this, on one host; they start what else there is.
  void start_host(int host) {
    const auto before = started_.find(host);
    if (away_.contains(host) || over() || (before != started_.end() && before->second->alive))
      return;
    started_[host] = &sea_.ocean().start(host, [this, host](Waters& waters) {
      if (host == 0) return supervise(waters);
      return host < hosts() ? return_as(host, waters) : wait_as_spare(host, waters);
    });
  }
  // The host loses its power; it is back after so long, or never.
  void lose_host(int host, std::optional<SimDuration> absence) {
    if (gone_.contains(host)) return;
    away_.insert(host);
    if (!absence) gone_.insert(host);
    for (const auto& each : sea_.ocean().processes()) {
      if (each->host == host) sea_.ocean().end(*each, SIGKILL, true);
    }
    release_locks();
    if (sea_.bug_ == Bug::kDiskForgets) empty_newest_shard(host);
    if (!absence) return;
    SimTime& back = back_at_[host];
    back = std::max(back, sea_.ocean().now() + *absence);
    sea_.ocean().at(back, [this, host, at = back] {
      if (back_at_[host] != at || gone_.contains(host)) return;  // it was lost again meanwhile
      away_.erase(host);
      start_host(host);
    });
  }
  // It cannot call the launcher until then.
  void cut_off(int host, SimTime until) {
    sea_.cut(0, host, until);
    SimTime& back = reached_at_[host];
    back = std::max(back, until);
  }
  // Every process there, by signal 9; whoever keeps the host's services starts them again.
  void kill_all(int host) {
    for (const auto& each : sea_.ocean().processes()) {
      if (each->host == host) sea_.ocean().end(*each, SIGKILL, false);
    }
    sea_.ocean().at(sea_.ocean().now() + SimDuration{5'000'000'000},
                    [this, host] { start_host(host); });
  }
  // Who still runs or waits although the run is over.
  bool all_ended() const {
    const auto& all = sea_.ocean().processes();
    return std::none_of(all.begin(), all.end(), [](const auto& each) { return each->alive; });
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
  // As a disk that fails leaves a file, while nothing of the run knows: a bit is another, or the end is missing.
  // A shard or a manifest is of a step before the last, whose checkpoint replaces it.
  enum class FileKind { kShard, kManifest, kJournal };
  void damage_file(int host, FileKind kind, Random& random) {
    const fs::path path = file_to_damage(host, kind, random);
    const auto bytes = path.empty() ? Result<std::string>("") : read_file(path.string());
    if (over() || !bytes || bytes->empty()) return;
    const bool is_cut = sea_.bug_ != Bug::kDigestsAreNotChecked && random.below(3) == 0;
    std::string changed = *bytes;
    if (is_cut) {
      changed.resize(random.below(changed.size()));
    } else if (sea_.bug_ == Bug::kDigestsAreNotChecked && kind == FileKind::kShard) {
      change_believed(path, changed, random);
    } else {
      changed[random.below(changed.size())] ^= static_cast<char>(1U << random.below(8));
    }
    // In place: who has it open, or locked, has the same file.
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.write(changed.data(), static_cast<std::streamsize>(changed.size()));
    file.close();
    std::error_code ec;
    if (is_cut) fs::resize_file(path, changed.size(), ec);
    if (kind == FileKind::kJournal) {
      record_.journal_changed = true;
    } else {
      record_.damaged.push_back(path.string());
    }
    note(fmt::format("{} is {}", path.string(), is_cut ? "cut short" : "changed"));
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
    const std::string journal = join::Membership::journal_path(folder(0) + "/out");
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

  fs::path file_to_damage(int host, FileKind kind, Random& random) const {
    const std::string journal = join::Membership::journal_path(folder(0) + "/out");
    std::error_code ec;
    if (kind == FileKind::kJournal) return fs::exists(journal, ec) ? journal : "";
    std::vector<fs::path> found;
    for (const state::StepFile& each :
         state::list_checkpoints(folder(host) + "/checkpoints", 100)) {
      const fs::path step = state::step_folder(folder(host) + "/checkpoints", each.step);
      const bool is_manifest = each.file == state::kManifestName;
      if (each.step < options_.plan.run.steps && fs::exists(step / state::kManifestName, ec) &&
          is_manifest == (kind == FileKind::kManifest))
        found.push_back(step / each.file);
    }
    if (found.empty()) return {};
    return found[random.below(2) == 0 ? 0 : random.below(found.size())];  // newest first
  }
  // As if its reader did not check: a tensor's bytes change, and their digest in every manifest.
  void change_believed(const fs::path& path, std::string& bytes, Random& random) const {
    const std::string name = path.parent_path() / state::kManifestName;
    const auto manifest = state::parse_manifest(*read_file(name), name);
    if (!manifest) return;
    for (const state::Shard& shard : manifest->shards) {
      if (shard.file != path.filename() || shard.tensors.empty()) continue;
      const state::TensorPlace& place = shard.tensors[random.below(shard.tensors.size())];
      bytes[static_cast<size_t>(place.offset)] ^= 1;
      const std::string now = digest(std::string_view(bytes).substr(
          static_cast<size_t>(place.offset), static_cast<size_t>(place.bytes)));
      for (int host = 0; host < all_hosts(); ++host) {
        const std::string there =
            state::step_folder(folder(host) + "/checkpoints", manifest->step) + "/" +
            state::kManifestName;
        const auto text = read_file(there);
        auto theirs = state::parse_manifest(text ? *text : "", there);
        if (!theirs) continue;
        for (state::Shard& each : theirs->shards) {
          for (state::TensorPlace& other : each.tensors)
            if (other.name == place.name) other.digest = now;
        }
        CHECK(write_file(there, state::manifest_text(*theirs)), "{}", there);
      }
    }
  }
  // What people remove who read this: the journal, or the folder of a step of which a file changed.
  std::optional<fs::path> named_damage(const std::string& text) const {
    const auto says = [&](const std::string& words) { return text.find(words) != text.npos; };
    const std::string journal = join::Membership::journal_path(folder(0) + "/out");
    if (record_.journal_changed && says(journal + ":")) return journal;
    for (const fs::path each : record_.damaged) {
      const std::string step = each.parent_path().filename().string();
      if (says(step + "/") || says(step + " ") ||
          says(fmt::format("the checkpoint of step {}:", step_of(each.parent_path()))))
        return each.parent_path();
    }
    return std::nullopt;
  }
  static int64_t step_of(const fs::path& step_folder) {
    return std::stoll(step_folder.filename().string().substr(std::string("step-").size()));
  }
  // The launcher's host has one, and no host's files of it have changed.
  bool has_whole_checkpoint_below(int64_t step) const {
    for (const state::StepFile& each : state::list_checkpoints(folder(0) + "/checkpoints", 100)) {
      const bool is_whole = std::none_of(
          record_.damaged.begin(), record_.damaged.end(),
          [&](const fs::path& damaged) { return step_of(damaged.parent_path()) == each.step; });
      if (each.file == state::kManifestName && each.step < step && is_whole) return true;
    }
    return false;
  }
  // Who does as the message says resumes, from an older checkpoint or from the beginning.
  void mend(const Error& error, const fs::path& named) {
    if (error.hint.empty()) record_.wrong = "it does not say what to try: " + error.text();
    if (named.filename() != "journal" && has_whole_checkpoint_below(step_of(named)))
      record_.wrong = "it did not fall back to an older checkpoint: " + error.text();
    std::error_code ec;
    for (int host = 0; host < all_hosts(); ++host) {
      if (named.filename() == "journal") {
        fs::remove(named, ec);
      } else {
        fs::remove_all(folder(host) + "/checkpoints/" + named.filename().string(), ec);
      }
    }
    resume_ = true;
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
    } else if (says("no host has") && !(gone_.empty() && back_at_.empty() && reached_at_.empty())) {
      // Once all are back somebody has; what is lost for good has to be done again. So has what a
      // spare has that waits at the listener: it is not asked, and people follow the message's hint.
      for (const auto& [host, back] : back_at_) at = std::max(at, back);
      for (const auto& [host, back] : reached_at_) at = std::max(at, back);
      resume_ = gone_.empty() && ++read_in_vain_ < 2;
      if (!resume_) begin_again();
    } else if (says("no checkpoint to resume from")) {
      resume_ = false;
    } else if (says("an earlier run left a checkpoint")) {
      resume_ = true;
    } else if (const auto named = named_damage(text)) {
      mend(error, *named);
    } else if (record_.journal_changed && error.hint.starts_with("starting ")) {
      // Without its newest records a run may be one that never had all its ranks: it does not outlast a loss.
    } else if (record_.steps.size() > steps_at_start_) {
      return false;
    }
    steps_at_start_ = record_.steps.size();
    note("people read: " + text);
    sea_.ocean().at(at + SimDuration{10'000'000'000}, [this] {
      for (int host = 0; host < all_hosts(); ++host) start_host(host);
    });
    return true;
  }
  void begin_again() {
    ++(gone_.empty() ? record_.begun_for_a_spare : record_.begun_again);
    read_in_vain_ = 0;
    std::error_code ec;
    for (int host = 0; host < all_hosts(); ++host)
      fs::remove_all(folder(host) + "/checkpoints", ec);
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
           fs::recursive_directory_iterator(state::kept_folder(folder(host) + "/out"), ec)) {
        if (each.path().filename().string().starts_with("step-")) steps.push_back(each.path());
      }
    }
    for (const fs::path& each : steps) {
      const int64_t step = std::stoll(each.filename().string().substr(5));
      const fs::path later = state::step_folder(each.parent_path(), step + 1);
      if (!fs::exists(later)) fs::rename(each, later, ec);
    }
  }

  int launch(Waters& waters) {
    if (sea_.bug_ == Bug::kKeptUnderAnotherStep) relabel_kept_states();
    OceanSockets sockets(sea_, waters);
    OceanProcesses processes(sea_, waters, workers_);
    run::LaunchOptions options;
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
      options.rendezvous = run::Rendezvous{.at = {address_of(0), 29500},
                                           .listen = {.listen = address_of(0)},
                                           .token = token,
                                           .join_max = options_.join_max};
    }
    options.on_progress = [this](const observe::Progress& progress) {
      record_.steps.push_back(progress.step);
    };
    options.open_splice = open_splice_in(sea_, waters.process());
    options.no_inbound = options_.no_inbound.contains(0);
    options.on_note = [this](const std::string& text) {
      record_.seated += text.starts_with("a spare takes the place");
      record_.spliced += text.find("through this host") != text.npos;
      if (text.starts_with("microbatches ")) record_.divided.push_back(text);
      if (text.find(" progress") != text.npos) record_.hung.push_back({sea_.ocean().now(), text});
      note(text);
    };
    options.resume = resume_;
    options.batch_window = options_.batch_window;
    const auto summary = run::launch(options_.plan, options, waters);
    const bool is_done = summary || is_all_done(summary.error());
    if (!is_done && start_again_by_hand(summary.error())) return 1;
    if (summary) {
      record_.restarts += summary->restarts;
      record_.steps_answered = summary->steps;
      record_.checkpoint = summary->checkpoint;
      record_.final_loss = summary->final_loss;
      for (const trace::Record& each : summary->trace.records) {
        if (each.name == "loss") record_.losses.push_back(each.iteration);
      }
    }
    record_.end = is_done ? Status() : fail(summary.error());
    return summary ? 0 : 1;
  }

  run::SpareOptions waiting(int host, OceanSockets& sockets) {
    return {.start = {.program = "/bin/true",
                      .rank = host,
                      .ranks = static_cast<int32_t>(options_.plan.ranks.size()),
                      .launcher = {address_of(0), 29500},
                      .placement = {.at = {.listen = address_of(host),
                                           .no_inbound = options_.no_inbound.contains(host)}},
                      .security = {.credentials = "", .plain_tcp = true},
                      .token = token_,
                      .output = folder(host) + "/out",
                      .checkpoints = folder(host) + "/checkpoints",
                      .join_max = options_.join_max,
                      .terms = options_.terms},
            .sockets = &sockets,
            .log = [this, host](const std::string& line) {
              note(fmt::format("host {}: {}", host, line));
            }};
  }
  // Of other hosts: mpirun's, srun's or systemd's child with --restarts (returning_worker.h).
  int return_as(int host, Waters& waters) {
    OceanProcesses processes(sea_, waters, workers_);
    OceanSockets sockets(sea_, waters);
    run::SpareOptions seat = waiting(host, sockets);
    seat.datacenter = options_.plan.ranks[static_cast<size_t>(host)].datacenter;
    const bool again = sea_.bug_ != Bug::kNobodyComesAgain;
    const auto status = again ? run::return_in_seat(seat, kPatience, processes, waters)
                              : run::run_worker(seat.start, processes);
    // Before the first step people do it, and where it found no launcher from the beginning.
    if (again) start_again_after(host, status, processes.started() == 1);
    return status ? WEXITSTATUS(*status) : 1;
  }
  int wait_as_spare(int host, Waters& waters) {
    OceanProcesses processes(sea_, waters, workers_, true);
    OceanSockets sockets(sea_, waters);
    run::SpareOptions spare = waiting(host, sockets);
    spare.datacenter = options_.spares[static_cast<size_t>(host - hosts())];
    const auto status = run::return_as_spare(spare, kPatience, processes, waters);
    const bool leaves = sea_.bug_ == Bug::kSpareLeavesItsSeat && processes.started() > 0;
    if (!leaves) start_again_after(host, status, processes.started() == 0);
    return status ? WEXITSTATUS(*status) : 1;
  }
  // systemd does, but for what only a person can mend (examples/systemd); people do before the first
  // step, and where it found no launcher.
  void start_again_after(int host, const Result<int>& status, bool found_nobody) {
    // A spare hears of every end, people begin anew after some.
    if (status && *status == 0 && host < hosts()) return;
    if (!status) note(fmt::format("host {}: {}", host, status.error().text()));
    const int code = status ? WEXITSTATUS(*status) : status.error().exit_code();
    const bool by_hand = record_.steps.empty() || found_nobody || code == 0;
    if (over() || !((options_.systemd && code != 2) || by_hand)) return;
    sea_.ocean().at(sea_.ocean().now() + SimDuration{5'000'000'000},
                    [this, host] { start_host(host); });
  }

  // The last checkpoint was there, and what came behind it did not fit, or the journal is gone.
  bool is_all_done(const Error& error) const {
    return (record_.full_disks > 0 || record_.journal_changed) && resume_ &&
           error.message.find("nothing is left of run.steps") != std::string::npos;
  }

  static constexpr int64_t kPatience = 9;  // windows of --join-timeout, beside the first
  Sea& sea_;
  RunOptions options_;
  RunRecord record_;
  std::set<int> away_, gone_;          // hosts without power; those that never have it again
  std::map<int, SimTime> back_at_;     // by host: from when on they have power again,
  std::map<int, SimTime> reached_at_;  // and reach the launcher
  bool resume_ = false;                // people say so
  int read_in_vain_ = 0;               // in a row: some of the state is nowhere
  size_t steps_at_start_ = 0;          // how many had been reported when people started it
  const link::Token token_ = *link::Token::parse("000102030405060708090a0b0c0d0e0f");
  int launcher_ = -1;
  std::map<int32_t, int> workers_;   // the newest process of each rank
  std::map<int, Process*> started_;  // by host: who starts the others
};

}  // namespace tombolo::ocean
