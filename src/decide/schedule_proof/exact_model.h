// One DP-cell as a job shop: which operations there are, what must precede what, who shares a
// machine. And back: the orders of ranks and links from a timetable.
#pragma once

#include <array>
#include <vector>

#include "decide/schedule_proof/exact.h"
#include "decide/schedule_proof/job_shop.h"

namespace tombolo::schedule_proof::detail {

class ExactModel {
 public:
  // The arguments outlive it.
  ExactModel(const schedule::PipelineShape& shape, const schedule::Times& times,
             const schedule::Memory& memory, const ExactOptions& options);

  // Durations are in units of so much: their greatest common divisor.
  SimDuration unit() const { return {unit_}; }
  // Operations are numbered in the order of one microbatch after the other, there and back: an
  // order that always fits, if nothing better is found.
  const JobShop& shop() const { return shop_; }

  // All cells alike, complete with communication and updates.
  schedule::Schedule schedule(const std::vector<int64_t>& starts) const;

 private:
  enum Kind { kForward, kRecompute, kBackward, kWeight, kSendForward, kSendBackward, kKinds };
  struct Way {  // a boundary in one direction
    int32_t boundary;
    bool gradients;
  };
  using OfMicrobatch = std::array<int32_t, kKinds>;  // operations; -1: there is none

  // Transfers count for the stage before their boundary.
  int32_t& at(Kind kind, int32_t stage, int32_t pipeline, int32_t microbatch);
  int32_t at(Kind kind, int32_t stage, int32_t pipeline, int32_t microbatch) const;
  int32_t transfer(Way way, int32_t pipeline, int32_t microbatch) const;
  int32_t sender(Way way, int32_t pipeline, int32_t microbatch) const;
  int32_t receiver(Way way, int32_t pipeline, int32_t microbatch) const;

  void there_and_back(int32_t pipeline, int32_t microbatch);
  int32_t add(Kind kind, int32_t stage, int32_t pipeline, int32_t microbatch, SimDuration duration);
  int32_t cross(Way way, int32_t pipeline, int32_t microbatch, int32_t sent, int32_t next);
  void keep_order_of_microbatches();
  void share_rank(int32_t position, int32_t pipeline);
  void limit_memory(int32_t position, int32_t pipeline, int32_t places);
  void recompute_right_before(const std::vector<int32_t>& rank);
  void share_links();
  void share_own_links(const std::vector<Way>& ways, int32_t pipeline);
  std::vector<int32_t> sorted(std::vector<int32_t> operations,
                              const std::vector<int64_t>& starts) const;

  const schedule::PipelineShape& shape_;
  const schedule::Times& times_;
  const bool split_;
  int32_t pipelines_;  // that meet, or one
  int64_t unit_ = 1;
  JobShop shop_;
  std::vector<OfMicrobatch> operations_;    // by stage, pipeline and microbatch
  std::vector<schedule::Transfer> owners_;  // by operation
  std::vector<action::Action> actions_;     // by operation; of computations
};

}  // namespace tombolo::schedule_proof::detail
