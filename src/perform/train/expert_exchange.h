// Expert parallelism between the replicas of a stage: each has a part of the experts, and tokens travel to
// theirs and back (Lepikhin et al. 2021, GShard, section 3.2).
//
// Members of a group have as many experts each, consecutive ones, and compute the same passes in the same
// order. Each layer exchanges rows twice forward and twice backward. A message says how many rows of each
// expert there are, where its receiver cannot know, and then has the rows. Messages go over the links of the
// run. Cost: each row that changes its rank crosses a link four times, and is copied once at either end.
//
// A group is one of ranks. Within a rank all shards read one memory (sharded_stage.h): context parallelism
// shares out the tokens and no experts, and what a tensor group has in common is sent once.
//
// A rank that has not joined a group, for example in a profile, plays every member itself: it computes as
// many rows as in a group whose tokens spread evenly.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "perform/kernels/kernels.h"
#include "perform/kernels/messenger.h"
#include "perform/train/shard_collectives.h"
#include "perform/train/torch_compat.h"

namespace tombolo::train {

// Tensor numbers of an iteration (messenger.h): of rows, and of sums among those that have the same experts.
inline constexpr uint64_t kExpertTensor = kernels::kReplicaTensor + (uint64_t{1} << 41);
inline constexpr uint64_t kExpertTensorsOfStrand = uint64_t{1} << 39;
inline constexpr uint64_t kExpertSumTensor = kExpertTensor + 2 * kExpertTensorsOfStrand;

// Consecutive experts of a layer.
struct ExpertRange {
  int64_t first = 0;
  int64_t count = 0;
};

class ExpertExchange {
 public:
  // This is member `own` of the `members` of a group, which share `experts`. Passes that are computed at the same
  // time need an exchange each, numbered by `strand`.
  ExpertExchange(int64_t experts, int64_t members, int64_t own, int32_t strand = 0);
  ExpertExchange(const ExpertExchange&) = delete;

  ExpertRange own_experts() const { return {own_ * each_, each_}; }
  int64_t members() const { return members_; }

  // If the rank has several shards: call before all else. `shards` outlives this.
  void serve(ShardCollectives& shards);
  // Joins the other members. group.ranks[own] is this rank.
  void join(const kernels::Replicas& group);
  void begin_iteration(int64_t iteration);

  // How many rows go out, and come back: of each member, of each expert.
  struct Route {
    std::vector<int64_t> given;  // to that member's experts
    std::vector<int64_t> taken;  // from that member, to those that are here
  };
  // Rows by expert, of all experts, as many as counts says; returns those for the experts that are here, by
  // expert, and of one expert by member. All shards of a rank call it. Throws Interrupted where a
  // member is lost.
  at::Tensor send_out(int32_t shard, const at::Tensor& rows, const std::vector<int64_t>& counts,
                      Route& route);
  // How many of the received rows are for each expert of this rank.
  std::vector<int64_t> counts_of(const Route& route) const;
  // The same way for rows of which the route is known.
  at::Tensor send_again(int32_t shard, const at::Tensor& rows, const Route& route);
  // Sends the results back to where the rows came from. `parts` are summed over a tensor group, of which the
  // first shard gets the result and the others zeros.
  at::Tensor send_back(int32_t shard, const at::Tensor& parts, const Route& route);

  // Of the first shard, since restart_watch(), waiting included.
  std::chrono::nanoseconds spent() const { return spent_; }
  void restart_watch() { spent_ = {}; }

 private:
  // Of what context parallelism leaves a shard, with its tensor group.
  struct Slot {
    at::Tensor given, taken;
    Route asked;  // by whom it belongs to, of the next exchange: out, of what is taken nothing
    Route route;
  };
  // Rows lie by member where they come from, and by expert where these are.
  enum class Way : uint8_t { kOut, kBack };

  Slot& slot_of(int32_t shard);
  bool is_first_of_tensor_group(int32_t shard) const;
  void meet() const;
  bool is_here(int64_t member) const { return !messenger_ || member == own_; }
  int32_t rank_of(int64_t member) const { return ranks_[static_cast<size_t>(member)]; }
  void exchange(Way way);
  Status exchange_rows(Way way);
  link::Payload message_to(int64_t member, Way way) const;
  void take_own_counts(int64_t member);
  void copy_own_rows(int64_t member, Way way);
  Status read_counts(int64_t member, const link::Payload& message);
  Status read_rows(int64_t member, Way way, const link::Payload& message);
  Rows blocks_of(const Route& route, int64_t member, bool by_member) const;

  const int64_t each_, members_, own_;
  const uint64_t first_tensor_;
  ShardCollectives* shards_ = nullptr;
  std::vector<int32_t> ranks_;
  kernels::Messenger* messenger_ = nullptr;  // none: this rank is every member
  link::Tag tag_{.iteration = 0, .tensor = first_tensor_};
  std::vector<Slot> slots_{1};
  std::chrono::nanoseconds spent_ = {};
};

// --- with gradients; the exchange outlives the graph
struct ExpertRows {
  at::Tensor rows;              // by expert that is here, and of one expert by member
  std::vector<int64_t> counts;  // of each expert that is here
  ExpertExchange::Route route;
};
ExpertRows to_experts(ExpertExchange& exchange, int32_t shard, const at::Tensor& by_expert,
                      const std::vector<int64_t>& counts);
at::Tensor from_experts(ExpertExchange& exchange, int32_t shard, const at::Tensor& parts,
                        const ExpertExchange::Route& route);

}  // namespace tombolo::train
