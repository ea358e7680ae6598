#include "perform/state/state_sources.h"

#include <algorithm>

namespace tombolo::state {

void StateSources::add(int32_t rank, const Inventory& inventory) {
  said_.insert(rank);
  for (const state::StepFile& file : inventory.files)
    files_[{0, file.step, file.file}][rank] = file.bytes;
  for (const state::KeptShard& each : inventory.kept) {
    files_[{each.shard.epoch, each.step, each.shard.file}][rank] = each.shard.bytes;
    kept_.push_back(each);
  }
}

std::optional<StateSources::Found> StateSources::newest_manifest(int64_t below) const {
  std::optional<Found> newest;
  for (const auto& [key, ranks] : files_) {
    if (key.epoch != 0 || key.file != state::kManifestName || key.step >= below) continue;
    if (ranks.empty()) continue;
    if (newest && newest->step >= key.step) continue;
    newest = {key.step, ranks.begin()->first, ranks.begin()->second};
  }
  return newest;
}

// Its step stays one that was finished.
void StateSources::forget_manifest(const Found& damaged) {
  files_.at({0, damaged.step, state::kManifestName}).erase(damaged.rank);
}

std::set<int64_t> StateSources::unfinished() const {
  std::set<int64_t> steps, finished;
  for (const auto& [key, ranks] : files_) {
    if (key.epoch != 0) continue;
    steps.insert(key.step);
    if (key.file == state::kManifestName) finished.insert(key.step);
  }
  for (const int64_t step : finished) steps.erase(step);
  return steps;
}

Status StateSources::check(const state::Manifest& manifest, uint64_t epoch) const {
  for (const state::Shard& shard : manifest.shards) {
    const auto found = files_.find({static_cast<int64_t>(epoch), manifest.step, shard.file});
    if (found == files_.end()) {
      return fail({ErrorCode::kLostPeer,
                   fmt::format("the checkpoint of step {}: {}: no host has this shard",
                               manifest.step, shard.file),
                   {},
                   std::string("starting the rank of the host that has it, or ") +
                       state::kOlderCheckpoint});
    }
    const auto whole = [&](const auto& each) { return each.second == shard.bytes; };
    if (std::any_of(found->second.begin(), found->second.end(), whole)) continue;
    const auto& [rank, bytes] = *found->second.begin();
    return unusable(
        fmt::format(
            "the checkpoint of step {}: {}: on the host of rank {} the shard is damaged: it "
            "has {} bytes, the manifest says {}",
            manifest.step, shard.file, rank, bytes, shard.bytes),
        state::kOlderCheckpoint);
  }
  return {};
}

std::optional<int32_t> StateSources::source(const FileRequest& wanted, int32_t by) const {
  const int64_t epoch = wanted.what == FileKind::kKept ? wanted.epoch : 0;
  const auto found = files_.find({epoch, wanted.step, wanted.file});
  if (found == files_.end() || wanted.what == FileKind::kTrace) return std::nullopt;
  std::vector<int32_t> ranks;
  for (const auto& [rank, bytes] : found->second) {
    if (wanted.offset <= bytes - wanted.bytes && rank != by) ranks.push_back(rank);
  }
  if (ranks.empty()) return std::nullopt;
  return ranks[static_cast<size_t>(by < 0 ? 0 : by) % ranks.size()];
}

}  // namespace tombolo::state
