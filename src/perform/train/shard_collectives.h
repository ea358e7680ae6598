// What the shards of a rank give each other within a layer, in memory, and what becomes of it in the
// backward pass.
//
// Shards are numbered tensor innermost (layout::rank_of_shard). Tensor groups have the same part of each
// sequence and share out matrices; context groups have the same part of matrices and share out sequences.
// Names are Megatron-LM's: `enter` and `leave` stand around the products that a tensor group shares out
// (its f and g; Shoeybi et al. 2019, figure 3), with sequence parallelism gather and reduce-scatter in
// their place (Korthikanti et al. 2022, figure 5).
//
// All shards of the team call the same functions in the same order, the backward pass included. Sums are
// taken in the order of shards, in float32 at least, so that all of a group have the same bits. What a
// group has in common lies in memory once. Cost: each number is read and written once by the group, and
// shards meet twice.
#pragma once

#include <chrono>
#include <span>
#include <vector>

#include "perform/train/shard_team.h"
#include "perform/train/torch_compat.h"

namespace tombolo::train {

// How a rank is cut.
struct ShardDegrees {
  int64_t tensor = 1;
  int64_t context = 1;
  bool sequence_parallel = false;  // between products each of a tensor group has a part of the rows

  int64_t shards() const { return tensor * context; }
  bool operator==(const ShardDegrees&) const = default;
};

enum class ShardAxis : uint8_t { kTensor, kContext };

// Consecutive rows of a tensor.
struct RowRange {
  int64_t first = 0;
  int64_t count = 0;
};
using Rows = std::vector<RowRange>;
int64_t count_of(const Rows& rows);
at::Tensor take_rows(const at::Tensor& whole, const Rows& rows);  // one range: a view

class ShardCollectives {
 public:
  ShardCollectives(ShardTeam& team, const ShardDegrees& degrees);

  const ShardDegrees& degrees() const { return degrees_; }
  ShardTeam& team() const { return team_; }
  int64_t shards() const { return degrees_.shards(); }
  int64_t number_on(ShardAxis axis, int32_t shard) const {
    return axis == ShardAxis::kTensor ? shard % degrees_.tensor : shard / degrees_.tensor;
  }

  // How long the first shard was in collectives since restart_watch(), waiting for others included. Not within
  // ShardTeam::run().
  std::chrono::nanoseconds spent(ShardAxis axis) const { return spent_[static_cast<size_t>(axis)]; }
  void restart_watch() { spent_[0] = spent_[1] = {}; }

  // --- of the group of `shard`, without gradients
  at::Tensor sum(ShardAxis axis, int32_t shard, const at::Tensor& part);
  at::Tensor largest(ShardAxis axis, int32_t shard, const at::Tensor& part);
  // Of `total` rows each brings its own, and all get all.
  at::Tensor gather(ShardAxis axis, int32_t shard, const at::Tensor& part, const Rows& own,
                    int64_t total);
  // Each brings all, and gets the sum of its own.
  at::Tensor scatter(ShardAxis axis, int32_t shard, const at::Tensor& whole, const Rows& own);

 private:
  struct Slot {
    at::Tensor given;
    at::Tensor common;  // of the first of a group: what all will get
  };
  std::chrono::nanoseconds* watched(ShardAxis axis, int32_t shard) {
    return shard == 0 ? &spent_[static_cast<size_t>(axis)] : nullptr;
  }
  std::vector<int32_t> group_of(ShardAxis axis, int32_t shard) const;
  template <class Combine>
  at::Tensor combine(ShardAxis axis, int32_t shard, const at::Tensor& part, const Combine& two);

  ShardTeam& team_;
  const ShardDegrees degrees_;
  std::vector<Slot> slots_;                 // by shard
  std::chrono::nanoseconds spent_[2] = {};  // by axis
};

// A shard's place in a layer: with whom it computes, and which rows are its own.
struct ShardPlace {
  ShardCollectives* with = nullptr;
  int32_t shard = 0;

  int64_t on(ShardAxis axis) const { return with->number_on(axis, shard); }
  int64_t tensor() const { return on(ShardAxis::kTensor); }
  int64_t context() const { return on(ShardAxis::kContext); }
  const ShardDegrees& degrees() const { return with->degrees(); }
  bool cuts_rows() const { return degrees().sequence_parallel && degrees().tensor > 1; }
  void meet() const { with->team().meet(); }
  // Its own of `rows` rows between products, with sequence parallelism.
  Rows own_rows(int64_t rows) const;
  // The places of its tokens in a sequence of this length, ascending: of 2 x context equal parts an early
  // one and its mirror image, so that a causal mask leaves all the same work (Llama 3, section 3.3.2).
  Rows own_tokens(int64_t sequence) const;
  // Its rows of the samples' tokens, sample by sample.
  Rows own_tokens(int64_t samples, int64_t sequence) const;
};

// Around products that a tensor group shares out, without gradients. bring_rows: gathers the rows of all,
// where each shard has some (x unchanged, where each has all). sum_parts: the sum of what all computed, of
// one's own rows. Each is the backward pass of the other. `rows`: the number that the group has in all.
at::Tensor bring_rows(const ShardPlace& place, const at::Tensor& x, int64_t rows);
at::Tensor sum_parts(const ShardPlace& place, const at::Tensor& partial);

// --- with gradients; the place outlives the graph

// bring_rows() and sum_parts().
at::Tensor enter_products(const ShardPlace& place, const at::Tensor& x, int64_t rows);
at::Tensor leave_products(const ShardPlace& place, const at::Tensor& partial);
// The sum of a tensor group, of which each makes something of its own.
at::Tensor sum_for_all(const ShardPlace& place, const at::Tensor& part);
// Keys and values of all tokens of a context group.
at::Tensor gather_tokens(const ShardPlace& place, const at::Tensor& x, int64_t samples,
                         int64_t sequence);
// The sum over `rows_in_all` rows of the cross entropy of these, divided by their number, of logits that a
// tensor group shares out: this shard has the vocabulary from `first` on. Equal in a tensor group; the mean
// is the sum over a context group.
at::Tensor loss_of_shards(const ShardPlace& place, const at::Tensor& logits,
                          const at::Tensor& targets, int64_t first, int64_t rows_in_all);

}  // namespace tombolo::train
