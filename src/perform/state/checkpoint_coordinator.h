// The launcher's side of state transfer: which state a run begins with, when a checkpoint is
// committed, and copying files from one host to another. Folders need not be shared.
//
//   gathering   asks all ranks what is on their hosts, and tells all which state they begin with
//   working     commits checkpoints in two steps (commit_tracker.h), forwards pieces of shards to
//               ranks whose hosts lack them (file_pieces.h)
//   at the end  fetches the parts of the Trace that it cannot see in its own folder
//
// One thread; never blocks except on this host's disk.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "perform/state/commit_tracker.h"
#include "perform/state/file_pieces.h"
#include "perform/state/state_message.h"
#include "perform/state/state_sources.h"
#include "spec/plan/plan.h"

namespace tombolo::state {

// One line for people: why the run begins with an older checkpoint.
std::string going_on_from(const Error& damage, const std::string& instead);

class CheckpointCoordinator {
 public:
  struct Options {
    std::string output;      // the launcher's folder
    std::string run = {};    // its name in the lock of its checkpoints
    int64_t epoch = 0;       // that gathers now
    bool goes_on = false;    // the run lost a rank, and restarts
    bool resume = false;     // requested by a person (--resume)
    bool elsewhere = false;  // ranks are on other hosts, which may have what this one lacks
    std::optional<state::FoundCheckpoint> newest;  // of the checkpoints that are here
    int64_t below = INT64_MAX;                     // checkpoints from this step on are damaged
    std::function<void(int32_t rank, const StateMessage&)> tell;
    std::function<void(const std::string&)> note;  // what people should know; may be empty
  };
  // The Plan outlives this object.
  CheckpointCoordinator(const plan::Plan& plan, Options options);

  // The question to all ranks; add() takes each rank's answer.
  Survey survey() const;
  Status add(int32_t rank, const Inventory& inventory);

  // What all ranks begin with.
  struct Beginning {
    int64_t first_iteration = 1;
    std::optional<state::Manifest> state;  // nothing: from the beginning
    int64_t state_epoch = 0;               // in which it was kept; 0: of a checkpoint
  };
  // Nothing until every rank has answered. If the newest checkpoint is torn, or no host has one of its
  // shards, an older one that is whole, and a note names both. Unusable if there is none, or if
  // it does not fit. Returns a value once.
  Result<std::optional<Beginning>> beginning();

  // Whether some host has a checkpoint from before that step.
  bool has_older(int64_t step) const;

  void add(int32_t rank, int64_t step, const state::Shard& shard);
  Status committed(int32_t rank, int64_t step);
  // A rank's disk could not take its part of that checkpoint. False if that was known.
  bool missed(int64_t step);
  Status asked(int32_t rank, const FileRequest& wanted);
  Status came(int32_t rank, const FilePiece& piece);
  Status finished(int32_t rank, const Finished& finished);

  // All ranks have finished: commits the last step's checkpoint. Not earlier, so that a run that loses
  // a rank before this still has a step to resume from.
  void all_finished();
  // No file is being fetched and no commit is pending.
  bool idle() const { return pulls_.empty() && !book_.pending(); }
  // The message to all ranks once it is idle().
  Over over() const { return {fetched_}; }
  // Where a rank's part of the Trace lies now.
  std::string trace_path(int32_t rank) const;
  // For a run that was done: adopts the parts of the Trace that the previous launcher fetched. False:
  // not all of them are here any more, because it had merged them.
  bool take_fetched();
  // At the end, whether all ranks have ended or not: removes the parts of the Trace.
  void clear() const;

  // Steps of which all shards are on their hosts. Some host may have the manifest, too.
  const std::set<int64_t>& complete() const { return complete_; }
  // The newest checkpoint that exists on all hosts, and what it is called here.
  const std::optional<state::FoundCheckpoint>& checkpoint() const { return newest_; }

 private:
  struct Pull {
    int32_t rank = 0;
    PieceWindow window;
    std::function<Status(std::string_view)> take;
    std::function<Status()> done;
  };
  // A request passed on: the rank that asked, its id for the request, and the rank that was asked.
  struct Asked {
    int32_t rank = 0;
    int64_t id = 0;
    int32_t from = 0;
  };
  void commit(const state::Manifest& manifest);
  void tell_all(const StateMessage& message);
  void pull(int32_t rank, FileRequest range, std::function<Status(std::string_view)> take,
            std::function<Status()> done);
  void ask_on(Pull& pull);
  Status pull_manifest(const StateSources::Found& found);
  void leave_behind(state::Manifest& manifest) const;
  Status look_elsewhere();
  Beginning choose() const;
  Result<bool> fall_back(const Beginning& from, const Error& damage);
  Result<bool> pull_below(int64_t step, const Error& damage);
  Status pull_instead(const StateSources::Found& damaged, const Error& damage);
  void note_instead(const Error& damage, const std::string& instead) const;
  std::string fetched_path(int32_t rank) const;

  const plan::Plan& plan_;
  const Options options_;
  StateSources sources_;
  CommitTracker book_;
  std::optional<state::FoundCheckpoint> newest_;
  bool looked_ = false;                  // for manifests on other hosts
  std::optional<state::Manifest> last_;  // of the last step, all of whose shards are there
  std::map<int64_t, state::Manifest> committing_;
  std::set<int64_t> complete_;
  std::set<int64_t> leftovers_;  // steps that were never finished, before this epoch
  std::list<Pull> pulls_;
  std::map<int64_t, Asked> passed_on_;
  int64_t next_id_ = 1;
  std::vector<int32_t> fetched_;
};

}  // namespace tombolo::state
