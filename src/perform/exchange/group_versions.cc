#include "perform/exchange/group_versions.h"

#include <algorithm>

#include "base/check.h"

namespace tombolo::exchange {

void GroupVersions::add(int32_t stage, int32_t group) {
  const int64_t before = options_.first_iteration - 1;
  const bool is_new =
      groups_.emplace(std::pair{stage, group}, Group{before, before, before, before}).second;
  CHECK(is_new, "group {} of stage {} is there twice", group, stage);
  due_ = options_.first_iteration;
}

GroupVersions::Group& GroupVersions::at(int32_t stage, int32_t group) {
  return const_cast<Group&>(std::as_const(*this).at(stage, group));
}

const GroupVersions::Group& GroupVersions::at(int32_t stage, int32_t group) const {
  const auto found = groups_.find({stage, group});
  CHECK(found != groups_.end(), "there is no group {} of stage {}", group, stage);
  return found->second;
}

bool GroupVersions::try_use(int32_t stage, int32_t group, int64_t iteration) {
  Group& its = at(stage, group);
  if (its.updating) return false;
  if (options_.staleness == 0) return its.updated >= its.complete;
  if (its.used >= iteration) return true;
  if (its.updated < iteration - 1 - options_.staleness) return false;
  its.used = iteration;
  ++freshness_.used;
  freshness_.fresh += its.updated >= iteration - 1;
  return true;
}

void GroupVersions::complete(const GroupKey& key) {
  Group& its = at(key.stage, key.group);
  CHECK(its.complete < key.iteration && its.updated + 1 + options_.staleness >= key.iteration,
        "group {} of stage {} is handed over in iteration {}, and is under way", key.group,
        key.stage, key.iteration);
  its.complete = its.used = key.iteration;
}

bool GroupVersions::is_taken(int32_t stage) const {
  return std::all_of(groups_.begin(), groups_.end(), [&](const auto& each) {
    return each.first.first != stage || each.second.taken >= each.second.complete;
  });
}

bool GroupVersions::is_settled(int32_t stage) const {
  return std::all_of(groups_.begin(), groups_.end(), [&](const auto& each) {
    return each.first.first != stage || each.second.updated >= each.second.complete;
  });
}

bool GroupVersions::is_settled() const {
  return std::all_of(groups_.begin(), groups_.end(),
                     [](const auto& each) { return each.second.updated >= each.second.complete; });
}

void GroupVersions::take(const GroupKey& key) {
  Group& its = at(key.stage, key.group);
  its.taken = std::max(its.taken, key.iteration);
}

bool GroupVersions::may_update(const GroupKey& key) const {
  if (options_.staleness == 0) return true;
  const Group& its = at(key.stage, key.group);
  if (key.iteration != due_ || its.used > its.complete) return false;
  return !options_.fixed || draining_ || its.complete > key.iteration;
}

void GroupVersions::begin_update(const GroupKey& key) {
  CHECK(may_update(key), "group {} of stage {} is updated while iteration {} uses it", key.group,
        key.stage, at(key.stage, key.group).used);
  at(key.stage, key.group).updating = true;
}

void GroupVersions::end_update(const GroupKey& key) {
  Group& its = at(key.stage, key.group);
  its.updating = false;
  its.updated = key.iteration;
  if (++made_ < std::ssize(groups_)) return;
  made_ = 0;
  ++due_;
}

}  // namespace tombolo::exchange
