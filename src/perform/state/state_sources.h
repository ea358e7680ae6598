// Which ranks have which files of earlier attempts, as all reported when the run gathered.
//
// A run can begin with a state if every shard of it is on the host of some rank. A rank that
// lacks one fetches it from there. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "perform/state/checkpoint.h"
#include "perform/state/state_message.h"
#include "perform/state/state_snapshot.h"

namespace tombolo::state {

class StateSources {
 public:
  void add(int32_t rank, const Inventory& inventory);
  bool said(int32_t rank) const { return said_.contains(rank); }
  size_t how_many() const { return said_.size(); }

  // The newest checkpoint below this step that some rank has the manifest of.
  struct Found {
    int64_t step = 0;
    int32_t rank = 0;
    int64_t bytes = 0;  // of the manifest
  };
  std::optional<Found> newest_manifest(int64_t below) const;
  // That rank's manifest cannot be read.
  void forget_manifest(const Found& damaged);
  const std::vector<state::KeptShard>& kept() const { return kept_; }
  // Steps of which some rank has a shard, and none the manifest.
  std::set<int64_t> unfinished() const;

  // Unusable, naming the first shard that no rank has, or that has another size wherever it is.
  // `epoch`: of kept states; 0: of a checkpoint.
  Status check(const state::Manifest& manifest, uint64_t epoch) const;

  // Whether some rank has a file of this shard's name, of a checkpoint.
  bool has(const state::Shard& shard, int64_t step) const {
    return files_.contains({0, step, shard.file});
  }

  // A rank that has the file of this request; always the same one for the same asking rank `by`.
  // Nothing if no rank has it, or if the range lies outside of it.
  std::optional<int32_t> source(const FileRequest& wanted, int32_t by) const;

 private:
  struct Key {
    int64_t epoch = 0;  // 0: of a checkpoint
    int64_t step = 0;
    std::string file;
    auto operator<=>(const Key&) const = default;
  };
  std::map<Key, std::map<int32_t, int64_t>> files_;  // then by rank: its bytes
  std::vector<state::KeptShard> kept_;
  std::set<int32_t> said_;
};

}  // namespace tombolo::state
