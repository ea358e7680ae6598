// The simulated network (support/ocean_run.h) takes launcher, supervisor, ranks and the processes that restart them
// through failure scenarios: kills, power cuts, cut, slow and reset paths, bit flips in transit, suspended hosts, full
// disks, clocks that are set. After each scenario every update was made exactly once, whatever happened.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iostream>
#include <map>
#include <optional>
#include <set>

#include "base/file.h"
#include "perform/join/control_message.h"
#include "perform/state/checkpoint.h"
#include "perform/state/state_reader.h"
#include "support/ocean_run.h"
#include "support/own_process.h"
#include "support/seeds.h"

namespace tombolo::ocean {
namespace {

constexpr SimDuration kSecond{1'000'000'000};

struct Storm {
  uint64_t seed = 0;
  bool is_loud = false;
  Bug bug = Bug::kNone;
  int64_t memory = int64_t{1} << 40;  // bytes that each host can still give
  bool divides = false;  // pipelines are slow in turns, and the batch is divided by their speed
  bool files_change = false;  // of checkpoints, and the journal
};

std::string folder_for_hosts() {
  std::string name = "/dev/shm/ocean.XXXXXX";  // in memory, where that is
  if (!mkdtemp(name.data())) {
    name = (fs::temp_directory_path() / "ocean.XXXXXX").string();
    CHECK(mkdtemp(name.data()), "no folder for the hosts");
  }
  return name;
}

class Voyage {
 public:
  explicit Voyage(const Storm& storm)
      : storm_(storm),
        random_(storm.seed),
        ocean_(storm.seed),
        sea_(ocean_),
        folder_(folder_for_hosts()) {
    sea_.bug_ = storm.bug;
    sea_.memory_ = storm.memory;
    if (storm.is_loud) sea_.log_ = [this](const std::string& what) { say(what); };
    clocks_can_be_set = storm.bug == Bug::kClocksCanBeSet;
  }

  void clean_up() const { fs::remove_all(folder_); }

  // What went wrong, or nothing.
  std::string sail() {
    RunOptions options;
    replicas_ = 1 + static_cast<int>(random_.below(2));
    stages_ = 2 + static_cast<int>(random_.below(2));
    steps_ = 8 + static_cast<int>(random_.below(8));
    const bool is_slow = random_.below(8) == 0;
    // Drawn apart: a seed's other draws stay the same.
    const bool is_apart = replicas_ == 2 && Random(storm_.seed).stream("apart").below(2) == 0;
    const bool is_shared = replicas_ == 2 && !is_apart && !storm_.divides &&
                           Random(storm_.seed).stream("shared").below(2) == 0;
    if (storm_.is_loud && is_apart) say("each pipeline lies in a datacenter of its own");
    if (storm_.is_loud && is_shared) say("pipelines carry each other's messages over the WAN");
    if (storm_.divides) {
      replicas_ = 2;
      // Iterations shorter than what a message may be late.
      is_quick_ = Random(storm_.seed).stream("quick").below(4) > 0;
      steps_ = is_quick_ ? 80 : steps_ + 8;
      sea_.hangs_ = [this](int32_t rank, int64_t iteration) { return slowness(rank, iteration); };
      options.batch_window = 1;
    }
    options.plan = make_test_plan({.stages = stages_,
                                   .microbatches = storm_.divides ? 5 : 2,
                                   .replicas = replicas_,
                                   .steps = steps_,
                                   .forward = is_quick_ ? "1 ms"
                                              : is_slow ? "9 s"
                                                        : "100 ms",
                                   .backward = is_quick_ ? "2 ms" : "200 ms",
                                   .schedule = is_shared ? "atlas" : "1f1b",
                                   .sharing = is_shared ? "temporal" : "spatial",
                                   .checkpoints = "checkpoints",
                                   .every = 1 + static_cast<int>(random_.below(4)),
                                   .byte_scale = 64,
                                   .apart = is_apart});
    options.plan.parallelism.adaptive_batch = storm_.divides;
    options.folder = folder_;
    options.on_several_hosts = random_.below(3) > 0;
    options.systemd = random_.below(2) > 0;
    if (random_.below(2) == 0) options.terms = *run::lease_terms(Seconds{5}, Seconds{20});
    if (options.on_several_hosts) {
      choose_spares(options);
      build_walls(options);
    }
    Run run(sea_, options);
    // While the run continues: an iteration takes about a second.
    const int64_t longest = storm_.divides ? 150
                            : is_slow      ? 60
                                           : 3;  // seconds of an iteration, and some
    const SimDuration window = is_quick_ ? kSecond * 10
                                         : kSecond * (steps_ * (is_slow          ? 20
                                                                : storm_.divides ? 6
                                                                                 : 1));
    brew(run, options.terms, window);
    brew_weather(run, window);
    brew_losses(run, options, window);
    brew_walls(run, window);
    brew_damage(run, window);
    if (storm_.files_change) brew_changed_files(run, window);
    // A fault costs what it lasts, leases, the time for ranks to come, and steps done again.
    const SimTime limit =
        ocean_.now() + kSecond * (60 + steps_ * longest) + kSecond * 250 * faults_;
    bool late = false;
    const bool ended = ocean_.sail([&] {
      late = ocean_.now() > limit;
      return run.over() || late;
    });
    if (storm_.is_loud) {
      say(
          fmt::format("{} seats went to spares, {} links through the launcher's host, {} messages "
                      "changed on the way",
                      run.record().seated, run.record().spliced, sea_.damages()));
      say(fmt::format("steps {}", fmt::join(run.record().steps, " ")));
      for (const std::string& line : run.record().divided) say(line);
    }
    if (run.record().begun_for_a_spare > 0 && std::getenv("TOMBOLO_SEEDS"))
      std::cerr << fmt::format(
          "seed {}: begun again, for a spare that waits is not asked for files\n", storm_.seed);
    if (!ended) return "all wait for ever";
    if (late) return fmt::format("it still goes on after {}", brief(seconds(limit - SimTime{})));
    if (const std::string lost = check_others_files(run); !lost.empty()) return lost;
    if (!*run.record().end) return "it failed: " + run.record().end->error().text();
    if (!run.record().wrong.empty()) return run.record().wrong;
    if (!run.record().hung.empty()) return "it was said to hang: " + run.record().hung[0].second;
    if (wall_clock_reads > 0) return "somebody reads the wall clock";
    if (!options.spares.empty() && !all_end(run)) return "somebody waits for a run that is over";
    const std::string hasty = check_patience(run);
    return hasty.empty() ? check(run) : hasty;
  }

 private:
  // Of a pass; the same whenever the iteration is done.
  SimDuration slowness(int32_t rank, int64_t iteration) const {
    const auto of =
        Random(storm_.seed).stream(fmt::format("slow/{}/{}", rank % replicas_, iteration / 3));
    return Random(of).below(2) == 0 ? SimDuration{} : is_quick_ ? SimDuration{20'000'000} : kSecond;
  }
  // Faults, one after the other or at once.
  void brew(Run& run, const control::LeaseTerms& terms, SimDuration window) {
    const int ranks = stages_ * replicas_;
    const auto faults = static_cast<int64_t>(random_.below(7));
    faults_ += faults;
    for (int64_t i = 0; i < faults; ++i) {
      const SimTime at =
          ocean_.now() +
          SimDuration{static_cast<int64_t>(random_.below(static_cast<uint64_t>(window.ns)))};
      const auto host = static_cast<int>(random_.below(run.hosts()));
      const auto other = static_cast<int>(random_.below(run.hosts()));
      const auto rank = static_cast<int32_t>(random_.below(ranks));
      const SimDuration a_while{static_cast<int64_t>(random_.below(45'000'000'000))};
      const bool one = random_.below(2) == 0;
      const uint64_t kind = random_.below(run.hosts() > 1 ? 6 : 3);
      const bool between_workers = host != 0 && other != 0;
      const bool is_path = kind == 3 || (kind == 4 && between_workers);
      // On the way to the launcher leases run, and what was held up may come 2 s later.
      const SimDuration borne = between_workers ? terms.ceiling : terms.floor - kSecond * 2;
      is_harmless_ = is_harmless_ && is_path && a_while < borne;
      switch (kind) {
        case 0:
          plan(at, fmt::format("rank {} is killed", rank), [&run, rank] { run.kill_one(rank); });
          break;
        case 1:
          plan(at, "the launcher is killed", [&run] { run.kill_one(-1); });
          break;
        case 2:
          plan(at, fmt::format("host {} sleeps for {}", host, brief(seconds(a_while))),
               [this, host, a_while] { ocean_.suspend(host, ocean_.now() + a_while * 2); });
          break;
        case 3:
          plan(at,
               fmt::format("hosts {} and {} are cut for {}", host, other, brief(seconds(a_while))),
               [this, host, other, a_while] {
                 if (host != other) sea_.cut(host, other, ocean_.now() + a_while);
               });
          break;
        case 4:
          plan(at, fmt::format("links of {} and {} are reset", host, other),
               [this, host, other, one] { sea_.reset(host, other, one); });
          break;
        case 5:
          plan(at, fmt::format("host {} is away for {}", host, brief(seconds(a_while))),
               [&run, host, a_while] { run.lose_host(host, a_while * 2); });
          break;
      }
    }
  }
  // Slow paths, full disks, clocks that are set. Drawn apart: a seed's other faults stay the same.
  void brew_weather(Run& run, SimDuration window) {
    Random random = Random(storm_.seed).stream("weather");
    const auto below = [&](int64_t n) { return static_cast<int64_t>(random.below(n)); };
    const int64_t more = below(3);
    for (int64_t i = 0; i < more; ++i) {
      const SimTime at = ocean_.now() + SimDuration{below(window.ns)};
      const int host = static_cast<int>(below(run.hosts()));
      const int other = static_cast<int>(below(run.hosts()));
      const SimDuration a_while{below(45 * kSecond.ns)};
      const std::string lasts = brief(seconds(a_while));
      const SimDuration most{1 + below(5 * kSecond.ns)};
      const SimDuration step{below(7200 * kSecond.ns) - 3600 * kSecond.ns};
      const Disk disk{
          .room = below(4000), .takes_names = below(4) > 0, .tells_late = below(4) == 0};
      const int64_t kind = below(run.hosts() > 1 ? 4 : 2);
      if (kind == 0) {
        plan(at, fmt::format("the wall clock of host {} is set by {}", host, brief(seconds(step))),
             [this, host, step] { ocean_.set_wall_clock(host, step); });
        continue;
      }
      if (kind == 1) {
        is_harmless_ = false;
        plan(at, fmt::format("the disk of host {} is full for {}", host, lasts),
             [&run, host, a_while, disk] { run.fill_disk(host, a_while, disk); });
      } else if (host != other) {
        is_harmless_ = is_harmless_ && host != 0 && other != 0;
        plan(at,
             fmt::format("the path of {} and {} is slow by up to {} for {}", host, other,
                         brief(seconds(most)), lasts),
             [this, host, other, a_while, most] {
               sea_.slow(host, other, ocean_.now() + a_while, most);
             });
      }
      ++faults_;
    }
  }
  // Bits that change on the way, past TCP's checksum, in half of the voyages.
  void brew_damage(Run& run, SimDuration window) {
    Random random = Random(storm_.seed).stream("damage");
    const auto below = [&](int64_t n) { return static_cast<int64_t>(random.below(n)); };
    if (below(2) == 0) return;
    for (int64_t more = 1 + below(6); more > 0; --more, ++faults_) {
      const SimTime at = ocean_.now() + SimDuration{below(window.ns)};
      const int host = static_cast<int>(below(run.all_hosts()));
      const int other = static_cast<int>(below(run.all_hosts()));
      is_harmless_ = is_harmless_ && host != 0 && other != 0;
      plan(at, fmt::format("bits change between hosts {} and {}", host, other),
           [this, host, other] { sea_.damage(host, other); });
    }
  }
  // Files of which something changes while a rank, or the launcher, is killed. What others keep in the same folders
  // stays.
  void brew_changed_files(Run& run, SimDuration window) {
    using FileKind = Run::FileKind;
    Random random = Random(storm_.seed).stream("files");
    const auto below = [&](int64_t n) { return static_cast<int64_t>(random.below(n)); };
    is_harmless_ = false;
    for (int64_t more = 1 + below(3); more > 0; --more, faults_ += 2) {
      const SimTime at = ocean_.now() + SimDuration{below(window.ns)};
      const int host = static_cast<int>(below(run.hosts()));
      const auto rank = static_cast<int32_t>(below(stages_ * replicas_));
      constexpr FileKind kKinds[] = {FileKind::kShard, FileKind::kShard, FileKind::kManifest,
                                     FileKind::kJournal};
      const FileKind kind = kKinds[below(4)];
      const uint64_t seed = random.below(1'000'000);
      const int32_t killed = kind == FileKind::kJournal || below(4) == 0 ? -1 : rank;
      plan(at,
           fmt::format("{} is killed, and a file of host {} changes",
                       killed < 0 ? "the launcher" : fmt::format("rank {}", killed), host),
           [this, &run, host, killed, kind, seed] {
             for (const std::string& path : others_files(run)) {
               if (fs::exists(fs::path(path).parent_path()) && write_file(path, "others'"))
                 kept_.insert(path);
             }
             Random own(seed);
             run.kill_one(killed);
             run.damage_file(host, kind, own);
           });
    }
  }
  std::vector<std::string> others_files(const Run& run) const {
    std::vector<std::string> out;
    for (int host = 0; host < run.all_hosts(); ++host) {
      out.push_back(run.folder(host) + "/checkpoints/notes.txt");
      out.push_back(run.folder(host) + "/out/notes.txt");
    }
    return out;
  }
  std::string check_others_files(const Run& run) const {
    if (!storm_.files_change || run.record().begun_again + run.record().begun_for_a_spare > 0)
      return {};  // then people removed the folders
    for (const std::string& path : kept_) {
      const auto text = read_file(path);
      if (!text || *text != "others'") return path + " was removed or changed";
    }
    return {};
  }
  // Spare hosts that wait for a vacant rank, in some scenarios.
  void choose_spares(RunOptions& options) {
    Random random = Random(storm_.seed).stream("spares");
    if (random.below(4) > 0) return;
    for (uint64_t more = 1 + random.below(2); more > 0; --more) {
      const auto& like = options.plan.ranks[random.below(options.plan.ranks.size())];
      options.spares.push_back(random.below(2) == 0 ? "" : like.datacenter);
      if (!storm_.is_loud) continue;
      say(fmt::format("host {} is a spare of {}",
                      options.plan.ranks.size() + options.spares.size() - 1,
                      options.spares.back().empty() ? "any datacenter" : options.spares.back()));
    }
  }
  // What spares are for, and what becomes of them. With replicas hosts are lost for good, as long as
  // there is a spare for each; else what was on their disk would be lost as well.
  void brew_losses(Run& run, const RunOptions& options, SimDuration window) {
    if (options.spares.empty()) return;
    Random random = Random(storm_.seed).stream("losses");
    const auto below = [&](int64_t n) { return static_cast<int64_t>(random.below(n)); };
    std::vector<std::string> left = options.spares;
    for (int64_t more = 1 + below(3); more > 0; --more, faults_ += 2) {
      const SimTime at = ocean_.now() + SimDuration{below(window.ns)};
      const int host = static_cast<int>(1 + below(run.hosts() - 1));
      const int spare = run.hosts() + static_cast<int>(below(static_cast<int64_t>(left.size())));
      const SimDuration long_enough = kSecond * (60 + below(240));
      const SimDuration a_while = kSecond * (1 + below(90));
      const std::string lasts = brief(seconds(a_while));
      const auto fits = std::find_if(left.begin(), left.end(), [&](const std::string& where) {
        return where.empty() || where == options.plan.ranks[host].datacenter;
      });
      const bool for_good = below(2) == 0 && replicas_ > 1 && fits != left.end();
      const int64_t kind = below(6);
      is_harmless_ = is_harmless_ && kind > 2;  // no rank misses a spare that waits
      if (kind < 2 && for_good) {
        *fits = "nowhere";
        plan(at, fmt::format("host {} is lost for good", host),
             [&run, host] { run.lose_host(host, std::nullopt); });
      } else if (kind < 2) {
        plan(at, fmt::format("host {} is away for {}", host, brief(seconds(long_enough))),
             [&run, host, long_enough] { run.lose_host(host, long_enough); });
      } else if (kind == 2) {
        plan(at, fmt::format("hosts 0 and {} are cut for {}", host, brief(seconds(long_enough))),
             [this, &run, host, long_enough] { run.cut_off(host, ocean_.now() + long_enough); });
      } else if (kind == 3) {
        plan(at, fmt::format("hosts 0 and {} are cut for {}", spare, lasts),
             [this, spare, a_while] { sea_.cut(0, spare, ocean_.now() + a_while); });
      } else if (kind == 4) {
        plan(at, fmt::format("all of host {} is killed", spare),
             [&run, spare] { run.kill_all(spare); });
      } else {
        plan(ocean_.now(), fmt::format("host {} comes after {}", spare, lasts),
             [&run, spare, a_while] { run.lose_host(spare, a_while); });
        plan(at, fmt::format("host {} sleeps for {}", spare, lasts),
             [this, spare, a_while] { ocean_.suspend(spare, ocean_.now() + a_while); });
      }
    }
  }
  // Firewalls and routers, in some voyages: calls that do not arrive, of whatever ranks there are.
  void build_walls(RunOptions& options) {
    Random random = Random(storm_.seed).stream("walls");
    walls_ = random.below(4) > 0 ? 0 : static_cast<int64_t>(1 + random.below(3));
    const auto& ranks = options.plan.ranks;
    for (int64_t i = 0; i < walls_; ++i, ++faults_) {
      const auto from = static_cast<int>(random.below(ranks.size()));
      const auto to = static_cast<int>(random.below(ranks.size()));
      const bool said = random.below(2) == 0;
      const uint64_t kind = random.below(3);
      if (kind < 2) sea_.block(from, to);
      if (kind == 1) sea_.block(to, from);
      for (size_t host = 0; kind == 2 && host < ranks.size(); ++host) {
        if (ranks[host].datacenter != ranks[from].datacenter) continue;
        sea_.put_behind(static_cast<int>(host), from);
        if (said) options.no_inbound.insert(static_cast<int>(host));
      }
      if (storm_.is_loud)
        say(fmt::format("{} {} {}", from, kind == 0 ? "cannot call" : "and", to) +
            (kind == 2   ? fmt::format(": the hosts beside {} are behind a router", from)
             : kind == 1 ? " cannot call each other"
                         : ""));
    }
    is_harmless_ = is_harmless_ && walls_ == 0;
  }
  // Then the way to the coordinator matters more; and walls are built while a run is active.
  void brew_walls(Run& run, SimDuration window) {
    if (walls_ == 0) return;
    Random random = Random(storm_.seed).stream("ways");
    for (uint64_t more = random.below(3); more > 0; --more, ++faults_) {
      const SimTime at =
          ocean_.now() +
          SimDuration{static_cast<int64_t>(random.below(static_cast<uint64_t>(window.ns)))};
      const auto host = static_cast<int>(1 + random.below(run.hosts() - 1));
      const auto other = static_cast<int>(random.below(run.hosts()));
      const SimDuration a_while{static_cast<int64_t>(random.below(45'000'000'000))};
      switch (random.below(4)) {
        case 0:
          plan(at, fmt::format("links of 0 and {} are reset", host),
               [this, host] { sea_.reset(0, host, false); });
          break;
        case 1:
          plan(at, fmt::format("hosts 0 and {} are cut for {}", host, brief(seconds(a_while))),
               [this, host, a_while] { sea_.cut(0, host, ocean_.now() + a_while); });
          break;
        case 2:
          plan(at, "the launcher is killed", [&run] { run.kill_one(-1); });
          break;
        case 3:
          plan(at, fmt::format("{} and {} cannot call each other any more", host, other),
               [this, host, other] {
                 sea_.block(host, other);
                 sea_.block(other, host);
               });
          break;
      }
    }
  }
  // Ranks call a launcher that is gone for ten windows of --join-timeout at most.
  bool all_end(const Run& run) {
    const SimTime last = ocean_.now() + kSecond * 1300;
    ocean_.sail([&] { return run.all_ended() || ocean_.now() > last; });
    return run.all_ended();
  }

  void plan(SimTime at, std::string what, std::function<void()> fault) {
    ocean_.at(at, [this, what = std::move(what), fault = std::move(fault)] {
      if (storm_.is_loud) say(what);
      fault();
    });
  }

  void say(const std::string& what) const {
    std::cerr << fmt::format("  at {}: {}\n", brief(seconds(ocean_.now() - SimTime{})), what);
  }

  // What happened only to paths between workers, and did not last, is no reason to start again.
  std::string check_patience(const Run& run) const {
    if (!is_harmless_) return {};
    if (run.record().restarts > 0) return "it started again for nothing";
    for (size_t i = 0; i < run.record().steps.size(); ++i) {
      if (run.record().steps[i] != static_cast<int64_t>(i) + 1) return "a step was done again";
    }
    return {};
  }

  // Every host has the last checkpoint, every tensor of it saw every update once, and nothing is left that only an
  // unfinished run needs.
  std::string check(const Run& run) {
    if (run.record().steps.empty() || run.record().steps.back() != steps_)
      return "the last step was never reported";
    const std::string at_home = run.folder(0) + "/checkpoints";
    const auto newest = state::latest_checkpoint(at_home);
    if (!newest) return newest.error().text();
    if (!*newest || (*newest)->manifest.step != steps_) return "the last checkpoint is not there";
    state::StateReader reader(
        **newest,
        [&](const state::Shard& shard, int64_t offset, int64_t bytes) -> Result<kernels::Payload> {
          for (int host = 0; host < run.all_hosts(); ++host) {
            const std::string path =
                state::step_folder(run.folder(host) + "/checkpoints", steps_) + "/" + shard.file;
            if (!fs::exists(path)) continue;
            kernels::Payload out(static_cast<size_t>(bytes));
            TRY(read_part(path, offset, out));
            return out;
          }
          return failed("no host has " + shard.file);
        });
    const auto tensors = reader.read_all();
    if (!tensors) return tensors.error().text();
    for (const kernels::NamedTensor& tensor : *tensors) {
      int64_t updates = 0;
      std::memcpy(&updates, tensor.bytes.data(), sizeof updates);
      if (updates != steps_)
        return fmt::format("{} saw {} updates of {}", tensor.name, updates, steps_);
    }
    if (fs::exists(run.folder(0) + "/out/journal")) return "the journal is still there";
    return check_answer(run);
  }

  // What people read at the end; where the disk did not take it, or the journal no longer says that all was done, there
  // is none (Run::is_all_done).
  std::string check_answer(const Run& run) const {
    const RunRecord& record = run.record();
    if (record.steps_answered == 0 && (record.full_disks > 0 || record.journal_changed)) return {};
    if (record.steps_answered != steps_)
      return fmt::format("the answer says {} steps of {}", record.steps_answered, steps_);
    if (record.checkpoint != state::step_folder(run.folder(0) + "/checkpoints", steps_))
      return fmt::format("the answer names the checkpoint \"{}\"", record.checkpoint);
    const std::set<int64_t> known(record.losses.begin(), record.losses.end());
    if (known.size() != record.losses.size()) return "the Trace has the loss of a step twice";
    return {};
  }

  const Storm storm_;
  Random random_;
  Ocean ocean_;
  Sea sea_;
  const std::string folder_;
  int stages_ = 2, replicas_ = 1, steps_ = 10;
  bool is_quick_ = false;
  int64_t faults_ = 0;
  int64_t walls_ = 0;
  std::set<std::string> kept_;  // others' files
  bool is_harmless_ = true;     // nothing but short trouble between workers
};

std::string sail(const Storm& storm) {
  return in_a_process([&] {
    auto* voyage = new Voyage(storm);  // kept: threads are parked in it
    std::string wrong = voyage->sail();
    voyage->clean_up();
    return wrong;
  });
}

// TOMBOLO_SEEDS=1001:2000, where it is said.
void choose_seeds(uint64_t& first, uint64_t& last) {
  const char* some = std::getenv("TOMBOLO_SEEDS");
  if (!some) return;
  const std::string text = some;
  const size_t colon = text.find(':');
  CHECK(colon != text.npos, "TOMBOLO_SEEDS={}, not FIRST:LAST", text);
  first = std::stoull(text.substr(0, colon));
  last = std::stoull(text.substr(colon + 1));
}

// Alone, and loud: TOMBOLO_SEED=7. Others: TOMBOLO_SEEDS=1001:2000.
void sail_all(uint64_t first, uint64_t last, const Storm& like = {}) {
#ifdef TOMBOLO_NO_FORKS
  GTEST_SKIP() << "under ThreadSanitizer";
#endif
  Storm storm = like;
  if (const char* one = std::getenv("TOMBOLO_SEED")) {
    storm.seed = std::stoull(one);
    storm.is_loud = true;
    EXPECT_EQ(sail(storm), "");
    return;
  }
  int wrong_ones = 0;
  choose_seeds(first, last);
  for (uint64_t seed = first; seed <= last && wrong_ones < 5; ++seed) {
    storm.seed = seed;
    const std::string wrong = sail(storm);
    EXPECT_EQ(wrong, "") << "TOMBOLO_SEED=" << seed;
    wrong_ones += !wrong.empty();
  }
}

TEST(RunOcean, EveryUpdateIsMadeOnceWhateverHappens) { sail_all(1, 5); }

// 1,000 of them, in parts that run concurrently.
class Storms : public testing::TestWithParam<uint64_t> {};

TEST_P(Storms, AreSurvived) {
  const bool chosen = std::getenv("TOMBOLO_SEED") || std::getenv("TOMBOLO_SEEDS");
  if (chosen && GetParam() > 0) GTEST_SKIP() << "the first part sails those that were asked for";
  const uint64_t each = seeds(25, 250);
  sail_all(GetParam() * each + 1, (GetParam() + 1) * each);
}

INSTANTIATE_TEST_SUITE_P(ManyRunOcean, Storms, testing::Range<uint64_t>(0, 40));

// No rank copies its state: updates wait for checkpoints, and ranks leave what they hold.
TEST(RunOcean, ManyStormsWithoutMemoryForCopies) { sail_all(1, seeds(15, 1000), {.memory = 0}); }

// A run continues from an older checkpoint, or ends with a message that says what to remove (Run::mend); after that every
// update was made once. Where its journal changed behind the last step the answer may be lost, not the last checkpoint.
TEST(RunOcean, ManyStormsWhoseFilesChange) { sail_all(1, seeds(25, 1000), {.files_change = true}); }

// Every iteration has one division of the batch, of which each sample counts once (progress_tracker.h), and no rank
// waits for ever for a decision. No scenario tried so far needs a rank to wait for it at all:
// NoRankBeginsAnIterationWhoseDivisionIsNotDecided holds up messages where it does.
TEST(RunOcean, ManyStormsWhileTheBatchIsDividedAnew) {
  sail_all(1, seeds(4, 1000), {.divides = true});  // each of as much work as a dozen others
}

// The launcher is killed once its journal says that all is done, before it has told any rank, and what is left of older
// checkpoints may be damaged. Returns what the next launcher answers.
std::string sail_with_a_kill_behind_the_last_step(bool on_several_hosts, int replicas,
                                                  bool damaged) {
  return in_a_process([&]() -> std::string {
    const std::string folder = folder_for_hosts();
    auto* ocean = new Ocean(1);  // all kept: threads are parked in them
    auto* sea = new Sea(*ocean);
    auto* run = new Run(*sea, {.plan = make_test_plan({.stages = 2,
                                                       .replicas = replicas,
                                                       .steps = 8,
                                                       .forward = "100 ms",
                                                       .backward = "200 ms",
                                                       .checkpoints = "checkpoints",
                                                       .every = 3,
                                                       .byte_scale = 64}),
                               .folder = folder,
                               .on_several_hosts = on_several_hosts});
    bool killed = false;
    ocean->sail([&] {
      if (!killed && run->record().steps.size() == 8) {
        const auto journal = read_file(run->folder(0) + "/out/journal");
        if (journal && journal->find("\"done\"") != journal->npos) killed = run->kill_one(-1);
        const std::string older = state::step_folder(run->folder(0) + "/checkpoints", 6);
        if (killed && damaged)
          CHECK(write_file(older + "/" + state::kManifestName, "{"), "{} is not there", older);
      }
      return run->over();
    });
    const RunRecord& record = run->record();
    std::string said = fmt::format("{} launchers, {} steps, loss {:.3f}, losses of {}",
                                   record.launchers, record.steps_answered,
                                   record.final_loss.value_or(0), fmt::join(record.losses, " "));
    if (!record.checkpoint.empty()) said += ", " + fs::path(record.checkpoint).filename().string();
    if (!*record.end) said += record.end->error().text();
    fs::remove_all(folder);
    return said;
  });
}

// Its answer was taken from the newest checkpoint with which steps can still be done, that of step 6; nothing is needed
// of it.
TEST(RunOcean, ALauncherKilledBehindTheLastStepLeavesTheWholeAnswer) {
#ifdef TOMBOLO_NO_FORKS
  GTEST_SKIP() << "under ThreadSanitizer";
#endif
  for (const bool on_several_hosts : {false, true}) {
    for (const int replicas : {1, 2}) {
      for (const bool damaged : {false, true}) {
        EXPECT_EQ(sail_with_a_kill_behind_the_last_step(on_several_hosts, replicas, damaged),
                  "2 launchers, 8 steps, loss 0.125, losses of 1 2 3 4 5 6 7 8, step-00000008");
      }
    }
  }
}

// Four pipelines of one rank each.
plan::Plan plan_that_divides(std::string forward, std::string backward) {
  plan::Plan plan = make_test_plan({.stages = 1,
                                    .microbatches = 7,
                                    .replicas = 4,
                                    .steps = 40,
                                    .forward = std::move(forward),
                                    .backward = std::move(backward),
                                    .checkpoints = "checkpoints",
                                    .every = 100,
                                    .byte_scale = 64});
  plan.parallelism.adaptive_batch = true;
  return plan;
}

// Four pipelines, of which one becomes 2.02 times slower; then a rank is killed.
std::string sail_with_a_slow_pipeline(bool kill) {
  return in_a_process([&]() -> std::string {
    const std::string folder = folder_for_hosts();
    auto* ocean = new Ocean(1);  // all kept: threads are parked in them
    auto* sea = new Sea(*ocean);
    constexpr int32_t kPipelines = 4;
    // 300 ms a microbatch and 606 ms; a forward waits longer.
    sea->hangs_ = [](int32_t rank, int64_t iteration) {
      return rank % kPipelines == 3 && iteration >= 20 ? SimDuration{306'000'000} : SimDuration{};
    };
    auto* run = new Run(*sea, {.plan = plan_that_divides("100 ms", "200 ms"),
                               .folder = folder,
                               .on_several_hosts = true});
    auto* at = new std::map<size_t, SimTime>();
    bool killed = !kill;
    ocean->sail([&] {
      const size_t steps = run->record().steps.size();
      at->try_emplace(steps, ocean->now());
      if (!killed && steps == 32) killed = run->kill_one(1);
      return run->over();
    });
    fs::remove_all(folder);
    const auto took = [&](size_t first, size_t last) {
      return seconds((*at)[last] - (*at)[first]).value / static_cast<double>(last - first);
    };
    std::string said = fmt::format("{}\n{} times again\n", fmt::join(run->record().divided, "\n"),
                                   run->record().restarts);
    if (!*run->record().end) said += run->record().end->error().text();
    if (kill) return said;
    return said +
           fmt::format("{:.1f} s, {:.1f} s, {:.1f} s", took(10, 18), took(20, 22), took(28, 38));
  });
}

// 7 x 0.3 = 2.1 s; 7 x 0.606 = 4.2 s; and 8 x 0.3 = 2.4 s, 4 x 0.606 = 2.4 s, which no division beats.
TEST(RunOcean, AnIterationIsAsShortAsTheSpeedsOfPipelinesLetIt) {
#ifdef TOMBOLO_NO_FORKS
  GTEST_SKIP() << "under ThreadSanitizer";
#endif
  EXPECT_THAT(sail_with_a_slow_pipeline(false),
              testing::MatchesRegex(
                  "microbatches 7,7,7,7 -> 8,8,8,4 from iteration 2[5-7] on: pipeline 3 takes 606 "
                  "ms for a microbatch, 300 ms before: passes end after 2.42 s instead of "
                  "4.24 s\n0 times again\n2.[12] s, 4.[23] s, 2.[45] s"));
}

TEST(RunOcean, WhoComesAgainBeginsWithTheDivisionInUse) {
#ifdef TOMBOLO_NO_FORKS
  GTEST_SKIP() << "under ThreadSanitizer";
#endif
  EXPECT_THAT(sail_with_a_slow_pipeline(true),
              testing::MatchesRegex("microbatches 7,7,7,7 -> 8,8,8,4 [^\n]*\n1 times again\n"));
}

// Which messages between launcher and ranks are held up for 3 s, ten iterations, once all ranks have been asked for the
// first new division; gradients are not.
enum class HeldUp { kNothing, kAnswers, kVerdictForRank1 };

// When ranks 0 and 1 begin the iteration before the new division and its first one, in whole seconds from then
// on; the new division, and how it ended.
std::string sail_with_a_late_decision(HeldUp held_up) {
  return in_a_process([&]() -> std::string {
    const std::string folder = folder_for_hosts();
    auto* ocean = new Ocean(1);  // all kept: threads are parked in them
    auto* sea = new Sea(*ocean);
    auto* begun = new std::map<std::pair<int32_t, int64_t>, SimTime>();
    sea->hangs_ = [=](int32_t rank, int64_t iteration) {
      begun->try_emplace({rank, iteration}, ocean->now());
      return rank == 3 && iteration >= 20 ? SimDuration{30'600'000} : SimDuration{};
    };
    auto* order = new std::optional<join::BatchOrder>();
    auto* since = new std::optional<SimTime>();
    constexpr int32_t kLauncher = 4;  // behind the last rank
    auto* asked = new int(0);
    sea->holds_up_ = [=](int32_t from, int32_t to, const link::Tag& tag,
                         const link::Payload& payload) -> std::optional<SimTime> {
      if (tag != join::kControlTag) return std::nullopt;
      if (!*since) {
        const auto message = join::decode(payload);
        if (!message) return std::nullopt;
        if (const auto* given = std::get_if<join::BatchOrder>(&*message)) {
          *order = *given;
          ++*asked;
        }
        // Rank 0 lies on the launcher's host, and hears everything first. Who is asked last has not answered yet.
        const bool is_decided = std::holds_alternative<join::BatchVerdict>(*message);
        if (held_up == HeldUp::kAnswers ? *asked < 4 : !is_decided) return std::nullopt;
        *since = ocean->now();
      }
      const bool held = held_up == HeldUp::kAnswers           ? to == kLauncher && from != 0
                        : held_up == HeldUp::kVerdictForRank1 ? from == kLauncher && to == 1
                                                              : false;
      return held ? std::optional(**since + kSecond * 3) : std::nullopt;
    };
    auto* run = new Run(
        *sea,
        {.plan = plan_that_divides("10 ms", "20 ms"), .folder = folder, .on_several_hosts = true});
    ocean->sail([&] { return run->over(); });
    fs::remove_all(folder);
    if (!*order || !*since) return "the batch was not divided anew";
    const int64_t first = (*order)->first_iteration;
    std::string said;
    for (const int32_t rank : {0, 1}) {
      for (const int64_t iteration : {first - 1, first})
        said += fmt::format(
            "{} ", static_cast<int64_t>(seconds((*begun)[{rank, iteration}] - **since).value));
    }
    for (const std::string& line : run->record().divided)
      said += line.substr(0, line.find(" from"));
    if (!*run->record().end) said += run->record().end->error().text();
    return said + fmt::format(", {} steps", run->record().steps.size());
  });
}

// A rank that did not wait for the decision would compute 7 microbatches where the others count on 8; one that waits
// delays only the gradient all-reduce of the others.
TEST(RunOcean, NoRankBeginsAnIterationWhoseDivisionIsNotDecided) {
#ifdef TOMBOLO_NO_FORKS
  GTEST_SKIP() << "under ThreadSanitizer";
#endif
  const std::string ends = "microbatches 7,7,7,7 -> 8,8,8,4, 40 steps";
  EXPECT_EQ(sail_with_a_late_decision(HeldUp::kNothing), "0 0 0 0 " + ends);
  EXPECT_EQ(sail_with_a_late_decision(HeldUp::kVerdictForRank1), "0 0 0 3 " + ends);
  EXPECT_EQ(sail_with_a_late_decision(HeldUp::kAnswers), "0 3 0 3 " + ends);
}

// Iterations of about a second; in one of them, once, a computation of one rank hangs.
struct HangCase {
  bool is_apart = false;  // replicas, whose gradients a thread exchanges
  int64_t iteration = 6;
  SimDuration lasts;
  int32_t rank = 1;
};

// What the launcher says, each line with how long after the computation began; and at last how often
// it started again.
std::string sail_with_a_hang(const HangCase& hang) {
  return in_a_process([&]() -> std::string {
    const std::string folder = folder_for_hosts();
    auto* ocean = new Ocean(1);  // all kept: threads are parked in them
    auto* sea = new Sea(*ocean);
    auto* begun = new std::optional<SimTime>();
    sea->hangs_ = [=](int32_t rank, int64_t iteration) {
      if (rank != hang.rank || iteration != hang.iteration || *begun) return SimDuration{};
      *begun = ocean->now();
      return hang.lasts;
    };
    auto* run = new Run(*sea, {.plan = make_test_plan({.stages = 2,
                                                       .replicas = 2,
                                                       .steps = 12,
                                                       .forward = "100 ms",
                                                       .backward = "200 ms",
                                                       .checkpoints = "checkpoints",
                                                       .every = 4,
                                                       .byte_scale = 64,
                                                       .apart = hang.is_apart}),
                               .folder = folder,
                               .on_several_hosts = true});
    ocean->sail([&] { return run->over(); });
    fs::remove_all(folder);
    std::string said;
    for (const auto& [at, line] : run->record().hung)
      said += fmt::format("{:.0f} s: {}\n", seconds(at - **begun).value, line);
    return said + fmt::format("{} times again", run->record().restarts);
  });
}

// The others wait for it, make no progress either, and are not named. Reports come every second.
TEST(RunOcean, ARankThatHangsIsNamedAndThoseThatWaitAreNot) {
#ifdef TOMBOLO_NO_FORKS
  GTEST_SKIP() << "under ThreadSanitizer";
#endif
  for (const bool is_apart : {false, true}) {
    EXPECT_THAT(sail_with_a_hang({.is_apart = is_apart, .lasts = kSecond * 100}),
                testing::MatchesRegex(
                    "3[0-2] s: rank 1 \\([a-z]+\\) has made no progress for 3[01] s \\(its usual "
                    "iteration takes "
                    "[0-9.]+ m?s\\); its heartbeats continue\n"
                    "10[01] s: rank 1 \\([a-z]+\\) makes progress again, after (99|10[01]) s\n"
                    "0 times again"));
  }
}

// Libraries are loaded and kernels compiled in the first; later on a rank may need 30 s.
TEST(RunOcean, NeitherAFirstIterationNorAShortPauseHangs) {
#ifdef TOMBOLO_NO_FORKS
  GTEST_SKIP() << "under ThreadSanitizer";
#endif
  EXPECT_EQ(sail_with_a_hang({.iteration = 1, .lasts = kSecond * 500}), "0 times again");
  EXPECT_EQ(sail_with_a_hang({.lasts = kSecond * 28}), "0 times again");
}

// Shows that the checks notice bugs: with each of these some scenario ends in another way.
struct Plant {
  Bug bug = Bug::kNone;
  uint64_t first = 1;  // scenarios before this one do not show it; --long tries them as well
  bool files_change = false;
};
class Planted : public testing::TestWithParam<Plant> {};

TEST_P(Planted, IsFound) {
#ifdef TOMBOLO_NO_FORKS
  GTEST_SKIP() << "under ThreadSanitizer";
#endif
  uint64_t first = seeds(GetParam().first, 1);
  uint64_t last = first + 199;
  choose_seeds(first, last);
  for (uint64_t seed = first; seed <= last; ++seed) {
    const std::string wrong =
        sail({.seed = seed, .bug = GetParam().bug, .files_change = GetParam().files_change});
    if (wrong.empty()) continue;
    fmt::print("seed {}: {}\n", seed, wrong);
    return;
  }
  FAIL() << "in the storms " << first << " to " << last;
}

INSTANTIATE_TEST_SUITE_P(
    ManyRunOcean, Planted,
    testing::Values(Plant{Bug::kMessageLostInReset, 275}, Plant{Bug::kLinksHaveNoGrace, 425},
                    Plant{Bug::kTokenIsDrawnAgain}, Plant{Bug::kExitIsNotHeard},
                    Plant{Bug::kNobodyComesAgain}, Plant{Bug::kStateIsOneShort},
                    Plant{Bug::kUpdateAgainAfterLoad}, Plant{Bug::kDiskForgets, 85},
                    Plant{Bug::kJournalForgets, 84}, Plant{Bug::kKeptUnderAnotherStep},
                    Plant{Bug::kFullDiskIsBelieved}, Plant{Bug::kClocksCanBeSet, 16},
                    Plant{Bug::kSlowIsLost, 43}, Plant{Bug::kSeatIsNotFenced},
                    Plant{Bug::kSpareLeavesItsSeat, 385}, Plant{Bug::kSplicedWithAnother, 399},
                    Plant{Bug::kSpliceIsNotToldAgain, 20}, Plant{Bug::kDamageIsBelieved},
                    Plant{Bug::kDigestsAreNotChecked, 3, true}));

}  // namespace
}  // namespace tombolo::ocean
