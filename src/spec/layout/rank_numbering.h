// Which ranks work together: the groups of tensor, context, data, expert and pipeline parallelism.
//
// Ranks are numbered as Megatron-Core numbers them (RankGenerator): the degrees are laid out in the
// order "tp-cp-ep-dp-pp", innermost first. Tensor, context, data and pipeline parallelism multiply
// to the number of ranks. Expert parallelism takes none of its own: for the experts the ranks of
// context and data parallelism are numbered a second time, as expert x (context data / expert), in
// the same order.
//
// All groups of a kind are one list of offsets, moved to each of many bases, so what is kept is as
// large as the number of ranks, whatever the number of pairs. Cost: O(ranks) per kind.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/result.h"
#include "spec/layout/parallelism.h"

namespace tombolo::layout {

enum class RankGroup : uint8_t {
  kTensor,
  kContext,
  kGradients,        // data x context: they sum the gradients of what all of them hold
  kExpert,           // they exchange tokens
  kExpertGradients,  // they hold the same experts
  kPipeline,
};

// Group i has the ranks bases[i] + offsets[0], bases[i] + offsets[1], ..., which ascend.
struct RankGroups {
  std::vector<int32_t> offsets;
  std::vector<int32_t> bases;  // ascending

  std::vector<int32_t> members(size_t group) const;
};

class RankNumbering {
 public:
  static constexpr int64_t kRanksMax = int64_t{1} << 20;

  // Unusable: an order that names a dimension twice, or leaves out one that is split; experts that
  // do not divide context x data, or that would change the order of the stages; too many ranks;
  // tensor degrees per stage, which no one numbering has. `file` is for messages.
  static Result<RankNumbering> make(const Parallelism& parallelism, const std::string& file);

  int64_t ranks() const { return ranks_; }
  int64_t stage_of(int64_t rank) const {
    CHECK(rank >= 0 && rank < ranks_, "rank {} of {}", rank, ranks_);
    return rank / pipeline_.stride % pipeline_.count;
  }
  // The pipeline that a rank belongs to.
  int64_t replica_of(int64_t rank) const {
    CHECK(rank >= 0 && rank < ranks_, "rank {} of {}", rank, ranks_);
    return rank / data_.stride % data_.count;
  }
  RankGroups groups(RankGroup kind) const;

 private:
  // `count` ranks, `stride` apart.
  struct Axis {
    int64_t count = 1;
    int64_t stride = 1;
  };
  std::vector<Axis> axes(RankGroup kind) const;

  int64_t ranks_ = 1;
  Axis tensor_, context_, data_, pipeline_, expert_, expert_data_;
};

}  // namespace tombolo::layout
