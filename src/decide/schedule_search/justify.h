// A whole schedule pushed to the right, then to the left, until it gets no shorter.
//
// Pushed right, everything happens as late as the end allows, and what was done early for no reason
// makes room; then everything, in the order of those times, takes the earliest gap on its rank or
// link that its messages allow. No such round makes the schedule longer. Where rounds stop helping,
// the times that say who chooses first are shaken a little.
// Source: "double justification", Valls, Ballestin, Quintanilla, EJOR 165 (2005); the serial
// scheme with gaps is that of resource-constrained project scheduling.
//
// A limit of K in flight says that F of k + K follows B (or W) of k, which is a precedence like any
// other: so this is for shapes with one stage per rank.
// Cost: some 150 ns per computation and pass.
#pragma once

#include <cstdint>
#include <vector>

#include "base/random.h"
#include "spec/schedule/player.h"

namespace tombolo::schedule_search::detail {

class Justify {
 public:
  // The arguments outlive it. One stage per rank, one cell.
  Justify(const schedule::PipelineShape& shape, const schedule::Times& times,
          const schedule::Memory& memory, const schedule::CellOrders& orders,
          bool recompute_right_before = true);

  struct Options {
    int64_t passes_max = 20;
    SimDuration enough;  // stops here
    uint64_t seed = 1;
  };
  void improve(const Options& options);

  SimDuration makespan() const { return {best_makespan_}; }
  schedule::CellOrders orders() const;  // the best ones; recomputing ahead of the gradient
  size_t operations() const { return operations_.size(); }

 private:
  enum class Kind : int8_t { kForward, kRecompute, kBackward, kWeight, kTransfer };

  struct Operation {
    Kind kind;
    int32_t machine;
    int32_t stage, pipeline, microbatch;
    int64_t duration;
  };
  // `lag` after the end of one the other may start, no earlier.
  struct Arc {
    int32_t other;
    int64_t lag;
  };
  struct Taken {
    int64_t start, end;
  };

  int32_t add(Kind kind, int32_t machine, int32_t stage, int32_t pipeline, int32_t microbatch,
              int64_t duration);
  void precede(int32_t before, int32_t after, int64_t lag = 0);
  int64_t recompute_within_backward(int32_t stage) const;
  void add_computations();
  void add_messages();
  void add_limits();
  std::vector<int64_t> starts_of(const schedule::CellOrders& orders) const;

  // Each operation takes the first gap, those with the lowest key first. Mirrored: the same with
  // time running backwards, which is the push to the right.
  int64_t place(bool mirrored);
  int64_t gap(std::vector<Taken>& machine, int64_t earliest, int64_t duration);

  const schedule::PipelineShape& shape_;
  const schedule::Times& times_;
  const schedule::Memory& memory_;
  const bool right_before_;  // R is a part of its B
  bool split_ = false;
  std::vector<Operation> operations_;
  std::vector<std::vector<Arc>> before_, after_;
  std::vector<int32_t> forward_, recompute_, backward_, weight_;  // by stage, pipeline, microbatch
  std::vector<schedule::LinkOrder> links_;
  int32_t machines_ = 0, link_machine_ = 0;
  std::vector<int64_t> key_, start_;
  std::vector<std::vector<Taken>> taken_;
  std::vector<int32_t> missing_;
  std::vector<int64_t> best_start_;
  int64_t best_makespan_ = 0;
};

}  // namespace tombolo::schedule_search::detail
