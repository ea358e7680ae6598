#include "perform/worker/shard_ring.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/check.h"

namespace tombolo::worker {
namespace {

constexpr link::Tag kTag{.iteration = 0, .tensor = kernels::kPromptTensor};

size_t place_of(const std::vector<int32_t>& ranks, int32_t rank) {
  const auto found = std::ranges::find(ranks, rank);
  CHECK(found != ranks.end(), "rank {} answers no prompts", rank);
  return static_cast<size_t>(found - ranks.begin());
}

}  // namespace

std::vector<int32_t> ring_peers(const std::vector<int32_t>& ranks, int32_t rank) {
  const size_t own = place_of(ranks, rank), count = ranks.size();
  std::set<int32_t> out = {ranks[(own + 1) % count], ranks[(own + count - 1) % count]};
  out.erase(rank);
  return {out.begin(), out.end()};
}

ShardRing::ShardRing(std::vector<int32_t> ranks, int32_t rank, transport::Endpoint& endpoint)
    : ranks_(std::move(ranks)), own_(place_of(ranks_, rank)), endpoint_(endpoint) {
  CHECK(ranks_.size() > 1, "a ring of one");
}

model::Slice ShardRing::slice(const model::Model& model) const {
  return model::stage_slice(model, shards(), static_cast<int64_t>(own_));
}

int64_t ShardRing::layers_max(const model::Model& model) const {
  int64_t most = 0;
  for (int64_t i = 0; i < shards(); ++i)
    most = std::max(most, model::stage_slice(model, shards(), i).layers);
  return most;
}

transport::Endpoint::Awaited ShardRing::awaited() const {
  return {ranks_[(own_ + ranks_.size() - 1) % ranks_.size()], kTag};
}

void ShardRing::say(const generate::ShardMessage& message) const {
  static_cast<void>(endpoint_.send(ranks_[(own_ + 1) % ranks_.size()], kTag, encode(message),
                                   kernels::kPromptUrgency));
}

}  // namespace tombolo::worker
