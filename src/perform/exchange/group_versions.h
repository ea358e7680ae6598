// Which update of a group of parameters a forward pass uses, and when an update may change them: the
// bookkeeping that the performing thread and the updating thread share, under a lock of theirs.
//
// There is one copy of the parameters. An iteration's passes use a group from the first forward pass
// that asks for it until its gradient is complete; with staleness 1 an update that arrives meanwhile
// is held back until then. So no pass sees a change, all passes of an iteration use the same version,
// and no version is kept twice.
//
//   staleness 0        forward n + 1 waits until update n is made
//   staleness 1        it waits for update n - 1 only:
//     timely           update n is made if it arrives in time: then the group is fresh
//     fixed            update n is not made before the passes of n + 1 are done with the group
//
// Updates are made iteration by iteration: none of n + 1 while one of n is missing, of any group. So
// between two iterations' updates there is an instant with the state of one step. drain() lets all be
// made, for checkpoints, evaluation and digests: the iteration that follows is fresh in every mode,
// so a run that resumes from a checkpoint uses the same versions as one that was not interrupted.
#pragma once

#include <compare>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>

namespace tombolo::exchange {

// Due first is less: the earlier iteration, then what is needed first.
struct GroupKey {
  int64_t iteration = 0;
  int32_t stage = 0;
  int32_t group = 0;
  auto operator<=>(const GroupKey&) const = default;
};

class GroupVersions {
 public:
  struct Options {
    int64_t first_iteration = 1;
    int64_t staleness = 0;  // 0 or 1
    bool fixed = false;
  };
  explicit GroupVersions(const Options& options) : options_(options) {}
  // Before all else, each group once.
  void add(int32_t stage, int32_t group);

  // --- the performing thread
  // Whether the passes of this iteration may use the group; if so they do, from now on.
  bool try_use(int32_t stage, int32_t group, int64_t iteration);
  // Its gradient is complete, and the passes of the iteration are done with it.
  void complete(const GroupKey& key);
  // Whether the gradient of the last iteration, of every group of the stage, was taken over.
  bool is_taken(int32_t stage) const;
  bool is_settled(int32_t stage) const;  // all updates of complete gradients are made
  bool is_settled() const;
  void drain(bool on) { draining_ = on; }
  // Of the groups that were first used since the last call: how many had the newest version.
  struct Freshness {
    int64_t fresh = 0, used = 0;
  };
  Freshness take_freshness() { return std::exchange(freshness_, {}); }

  // --- the one that updates
  void take(const GroupKey& key);  // the gradient
  bool may_update(const GroupKey& key) const;
  // Around each update; those of an iteration in any order.
  void begin_update(const GroupKey& key);
  void end_update(const GroupKey& key);
  // Whether the update under way is the last one of its iteration.
  bool is_last() const { return made_ + 1 == std::ssize(groups_); }

 private:
  struct Group {
    int64_t used = 0;      // the newest iteration whose passes use it
    int64_t complete = 0;  // whose gradient is complete
    int64_t taken = 0;     // whose gradient was taken over
    int64_t updated = 0;   // whose update is made
    bool updating = false;
  };
  Group& at(int32_t stage, int32_t group);
  const Group& at(int32_t stage, int32_t group) const;

  const Options options_;
  std::map<std::pair<int32_t, int32_t>, Group> groups_;  // by stage and group
  int64_t made_ = 0;                                     // updates of the iteration that is due
  int64_t due_ = 0;                                      // iteration
  bool draining_ = false;
  Freshness freshness_;
};

}  // namespace tombolo::exchange
