#include "perform/state/commit_tracker.h"

#include "spec/plan/plan_file.h"

namespace tombolo::state {

Result<std::optional<state::Manifest>> CommitTracker::add(int32_t rank, int64_t step,
                                                          const state::Shard& shard) {
  const auto refused = [&](const std::string& why) {
    return failed(fmt::format("the shard of rank {} of step {} was refused: {}", rank, step, why));
  };
  if (shard.epoch != epoch_)
    return refused(fmt::format("it is of epoch {}, and this is epoch {}", shard.epoch, epoch_));
  const auto ranks = static_cast<int32_t>(plan_.ranks.size());
  if (rank < 0 || rank >= ranks || !state::writes_shard(plan_, rank))
    return refused("another rank writes for it");
  if (shard.file != state::shard_file(rank, shard.digest))
    return refused(fmt::format("its name is \"{}\"", shard.file));
  if (step < 1 || step > plan_.run.steps) return refused("the run has no such step");
  if (missed_.contains(step)) return std::nullopt;
  auto& shards = shards_[step];
  shards[rank] = shard;
  int32_t writers = 0;
  for (int32_t each = 0; each < ranks; ++each) writers += state::writes_shard(plan_, each);
  if (std::ssize(shards) < writers) return std::nullopt;
  state::Manifest manifest{.step = step,
                           .seed = plan_.run.seed,
                           .plan_digest = plan::plan_digest(plan_),
                           .precision = std::string(to_name(plan_.training.precision)),
                           .model = plan_.model,
                           .exchange = plan_.exchange,
                           .layers_of_stages = state::layers_of_stages(plan_)};
  for (const auto& [owner, each] : shards) manifest.shards.push_back(each);
  shards_.erase(step);
  for (int32_t each = 0; each < ranks; ++each) awaited_[step].insert(each);
  return manifest;
}

Result<bool> CommitTracker::committed(int32_t rank, int64_t step) {
  if (missed_.contains(step)) return false;
  const auto awaited = awaited_.find(step);
  if (awaited == awaited_.end() || awaited->second.erase(rank) == 0)
    return failed(fmt::format("rank {} made a checkpoint of step {} exist, and was not asked to",
                              rank, step));
  if (!awaited->second.empty()) return false;
  awaited_.erase(awaited);
  return true;
}

bool CommitTracker::missed(int64_t step) {
  shards_.erase(step);
  awaited_.erase(step);
  return missed_.insert(step).second;
}

}  // namespace tombolo::state
