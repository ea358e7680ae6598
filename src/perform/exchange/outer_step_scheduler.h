// The outer steps of a rank's groups (schedule/local_steps.h says when, outer_updates.h what is sent,
// update/outer.h how it is applied), for the thread that sends and updates.
//
//   after the inner step of iteration n, if an outer step begins      begin(): what is sent
//   when all updates have arrived                                     arrive()
//   after the inner step of iteration n + delay                       end(), once it has arrived
//
// What arrives before its outer step ends is kept with the kernels' state, so a checkpoint that waited
// for messages in transit holds all of it.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "perform/exchange/group_versions.h"
#include "perform/exchange/outer_updates.h"
#include "perform/kernels/parameter_groups.h"
#include "spec/plan/plan.h"
#include "spec/schedule/local_steps.h"

namespace tombolo::exchange {

class OuterStepScheduler {
 public:
  // Both outlive it. `first_iteration`: of this run; outer steps that began before it have arrived.
  OuterStepScheduler(const plan::Plan& plan, int32_t rank, int64_t first_iteration,
                     kernels::ParameterGroups& parameters);
  void add(int32_t stage, int32_t group);  // each once, before all else

  bool begins(const GroupKey& key) const { return at(key).steps.begins(key.iteration); }
  std::unique_ptr<OuterUpdates> begin(const GroupKey& key);
  // The inner step after which the outer step ends that begins after `key`.
  GroupKey end_of(GroupKey key) const;
  void arrive(const GroupKey& begun, const OuterUpdates& updates);

  bool ends(const GroupKey& key) const { return at(key).steps.ends(key.iteration).has_value(); }
  bool has_arrived(const GroupKey& key) const { return at(key).arrived; }
  Status end(const GroupKey& key);

 private:
  struct Group {
    schedule::OuterSteps steps;
    bool arrived = false;     // the mean of the step that has not ended
    std::vector<float> mean;  // of a step without a delay
  };
  const Group& at(const GroupKey& key) const { return groups_.at({key.stage, key.group}); }
  Group& at(const GroupKey& key) { return groups_.at({key.stage, key.group}); }

  const plan::Plan& plan_;
  const int32_t rank_;
  const int64_t first_iteration_;
  kernels::ParameterGroups& parameters_;
  const plan::Exchange exchange_;
  const update::OuterStep step_;
  std::optional<compress::BlockCompressor> compressor_;  // of sparse updates
  std::map<std::pair<int32_t, int32_t>, Group> groups_;  // by stage and group
};

}  // namespace tombolo::exchange
