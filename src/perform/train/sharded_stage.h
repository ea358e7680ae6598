// The shards of one stage: what each has of parameters, gradients and activations.
//
// The stage's own parameters, gradients and optimizer state stay whole: shards compute with views of them,
// and all that is not a pass (updates, sums among replicas, norms, checkpoints, digests) sees what it sees
// of an uncut stage. A checkpoint does not know how many shards there were.
//
// Passes that are computed at the same time (strands) have modules of their own, with the same parameters: their
// shards meet among themselves. One of them may go backward at a time.
//
// Gradients: the first shard that has a part of a parameter adds to that part of the whole gradient, others
// that have the same part to a copy of their own; fold() adds the copies, in the order of shards.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "perform/train/shard_collectives.h"
#include "perform/train/stage_module.h"

namespace tombolo::train {

class ShardedStage {
 public:
  // How the passes of a strand meet: `with` is null for a stage of one shard, `experts` where all are here.
  struct Strand {
    ShardCollectives* with = nullptr;
    ExpertExchange* experts = nullptr;
  };
  // Of one strand or several, all with shards or none. A stage of one shard and strand is the module itself. All
  // outlive it and stay where they are. Unusable where the model cannot be cut so.
  static Result<std::unique_ptr<ShardedStage>> create(StageModule& whole,
                                                      std::span<const Strand> strands,
                                                      int64_t samples);

  bool is_cut() const { return strands_.front().with != nullptr; }
  int32_t shards() const {
    return is_cut() ? static_cast<int32_t>(strands_.front().with->shards()) : 1;
  }
  const StageModule& module(int32_t shard, int32_t strand = 0) const;
  // Calls work(shard) for all of them, at the same time, with the caller's mode of gradients.
  void for_each(const ShardTeam::Work& work, int32_t strand = 0) const;

  // Of a microbatch: tokens or targets [samples, sequence], and hidden states [samples * sequence, hidden].
  at::Tensor tokens_of(int32_t shard, const at::Tensor& tokens) const;
  at::Tensor hidden_of(int32_t shard, const at::Tensor& hidden) const;
  at::Tensor join_hidden(std::span<const at::Tensor> parts) const;
  // Of all tokens, from the part of each shard.
  double join_loss(std::span<const double> parts) const;
  at::Tensor loss(int32_t shard, const at::Tensor& output, const at::Tensor& targets,
                  int32_t strand = 0) const {
    return is_cut() ? module(shard, strand).shard_loss(output, targets)
                    : StageModule::loss(output, targets);
  }

  // Before the first backward pass of an iteration, when no parameter has a gradient.
  void begin_gradients();
  // After each backward pass, when all shards of its strand are through.
  void fold(int32_t strand = 0);
  int64_t bytes() const;  // of copies of gradients

 private:
  // A shard's own gradient of a parameter, of which another has the place in the whole one.
  struct Copy {
    int32_t shard = 0;
    size_t parameter = 0;
    at::Tensor sum = {};
  };
  ShardedStage(StageModule& whole, std::span<const Strand> strands, int64_t samples)
      : whole_(whole), strands_(strands.begin(), strands.end()), samples_(samples) {}
  Rows rows_of(int32_t shard, int64_t rows) const;
  at::Tensor part_of(const at::Tensor& all, int32_t shard, size_t parameter) const;

  StageModule& whole_;
  const std::vector<Strand> strands_;
  const int64_t samples_;
  std::vector<std::unique_ptr<ShardPlace>> places_;
  std::vector<std::unique_ptr<StageModule>> modules_;  // strand by strand; not the whole one
  std::vector<Copy> copies_;                           // by shard
};

}  // namespace tombolo::train
