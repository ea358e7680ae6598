// Orders of ranks and links, improved where the longest path runs.
//
// A schedule can only become shorter if something changes on its longest path, and there only where
// two neighbours on a rank or on a shared link follow one another without a gap: such pairs are
// exchanged, or moved to the other end of their block. A step that makes nothing worse is kept, one
// that makes it a little worse now and then; after a while without success the best orders so far
// are the start again.
// Source: the neighbourhoods N1 and N5 of job shops, van Laarhoven et al., Operations Research 40
// (1992), Nowicki and Smutnicki, Management Science 42 (1996); acceptance by Burke and Bykov, "The
// late acceptance hill-climbing heuristic", EJOR 258 (2017).
// Microbatches keep their order on every stage, no rank ever has more in flight than its memory
// holds, R stands right before its B unless it may go anywhere after its F. Releases are dropped:
// once links have an order they only delay.
#pragma once

#include <cstdint>
#include <vector>

#include "base/random.h"
#include "spec/schedule/player.h"

namespace tombolo::schedule_search::detail {

// One cell as flat arrays, so that evaluating an order costs some 10 ns per computation.
class OrderSearch {
 public:
  // The arguments outlive it.
  OrderSearch(const schedule::PipelineShape& shape, const schedule::Times& times,
              const schedule::Memory& memory, const schedule::CellOrders& orders,
              bool recompute_right_before = true);

  struct Options {
    int64_t evaluations_max = 1000;
    SimDuration enough;  // stops here
    uint64_t seed = 1;
  };
  void improve(const Options& options);

  SimDuration makespan() const { return {best_cost_.makespan}; }
  schedule::CellOrders orders() const;  // the best ones; recomputing ahead of the gradient
  size_t operations() const { return duration_.size(); }

 private:
  using Operation = int32_t;
  static constexpr Operation kNone = -1;

  enum Kind : int32_t { kForward, kRecompute, kBackward, kWeight, kActivation, kGradient, kKinds };

  // What counts: the whole, then the sum over pipelines, so that a plateau has a slope.
  struct Cost {
    int64_t makespan = 0;
    int64_t sum = 0;
    auto operator<=>(const Cost&) const = default;
  };
  // Operations of a machine change places: the one at `from` goes to `to`, those between move up.
  struct Move {
    int32_t machine = 0, from = 0, to = 0;
  };
  struct Machine {
    std::vector<Operation> order;
    size_t next = 0;   // while evaluating
    int64_t free = 0;  // likewise
    bool queued = false;
  };

  Operation number(Kind kind, int32_t stage, int32_t pipeline, int32_t microbatch) const {
    return ((kind * shape_.stages + stage) * shape_.cell + pipeline) * shape_.microbatches +
           microbatch;
  }
  Kind kind_of(Operation o) const {
    return static_cast<Kind>(o / (shape_.stages * shape_.cell * shape_.microbatches));
  }
  int32_t stage_of(Operation o) const {
    return o / (shape_.cell * shape_.microbatches) % shape_.stages;
  }
  int32_t pipeline_of(Operation o) const { return o / shape_.microbatches % shape_.cell; }
  int32_t microbatch_of(Operation o) const { return o % shape_.microbatches; }
  bool closes(Operation o) const { return kind_of(o) == (split_ ? kWeight : kBackward); }

  void connect(Kind from_kind, int32_t from, Kind to_kind, int32_t to, Kind message,
               int32_t boundary);
  void read(const schedule::CellOrders& orders);

  bool evaluate();  // false: they wait for one another; then cost_ means nothing
  void advance(size_t machine);
  void deliver(Operation o, int64_t end);

  void find_moves();  // along the longest path
  bool may_pass(size_t machine, Operation first, Operation second) const;
  bool apply(const Move& move);
  void undo(const Move& move);
  bool within_memory(size_t machine, size_t from, size_t to) const;

  const schedule::PipelineShape& shape_;
  const schedule::Times& times_;
  const schedule::Memory& memory_;
  const bool right_before_;
  bool split_ = false;
  std::vector<Machine> machines_;           // ranks (position x cell + pipeline), then shared links
  std::vector<schedule::LinkOrder> links_;  // whose orders the latter are
  // By operation.
  std::vector<int64_t> setup_, duration_;  // setup does not wait for the message (R right before B)
  std::vector<int32_t> machine_of_;
  std::vector<Operation> next_;      // that needs its result
  std::vector<Operation> previous_;  // whose result it needs
  std::vector<int64_t> lag_;         // from its end until the next one has it
  std::vector<int32_t> own_link_;    // -1: not over a link of its own
  std::vector<int64_t> own_transfer_;
  // While evaluating.
  std::vector<int64_t> initial_, ready_, end_;
  std::vector<Operation> waited_behind_;  // on its pipeline's own link: the message before
  std::vector<char> by_machine_;          // whether the one before on its machine delayed it
  std::vector<int64_t> own_free_;
  std::vector<Operation> own_last_;
  std::vector<size_t> awake_;
  std::vector<int64_t> pipeline_end_;
  Cost cost_, best_cost_;
  Operation last_ = kNone;
  std::vector<Move> moves_;
  std::vector<std::vector<Operation>> best_;
};

}  // namespace tombolo::schedule_search::detail
