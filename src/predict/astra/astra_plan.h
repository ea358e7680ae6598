// How a collective is cut into chunks, and what phases each chunk goes through.
//
// A collective of S bytes becomes `splits` chunks of floor(S / splits) bytes each, and one more
// where that leaves a rest; but a chunk has at least as many bytes as the system has NPUs
// (all-gathers aside), so that no message is empty. Each chunk passes the dimensions in order (an
// all-gather from the last), with one phase in each; an all-reduce that is aware of local bandwidth
// reduce-scatters on its way up, all-reduces in the last dimension and all-gathers on its way down.
//
// Themis gives each chunk an order of dimensions of its own, by what the chunks of its collective
// before it send along them (network/chunked_all_reduce.h). It leaves all-to-alls alone, and
// all-reduces that are not aware of local bandwidth.
//
// A dimension has `queues_per_dimension` queues, which chunks take in turn: phases on the way up
// use the first half, on the way down the second. With one queue both share it. Double binary trees
// alternate too. What has been taken so far is a rank's Rotation; ranks with equal histories share
// their ChunkPlans.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "base/result.h"
#include "predict/astra/astra_system.h"
#include "predict/network/collective_phase.h"
#include "predict/network/phase_solver.h"
#include "predict/network/topology.h"
#include "spec/graph/graph.h"

namespace tombolo::astra {

// Phases of equal spec are one object: what is worked out for one holds for all.
struct SharedPhase {
  explicit SharedPhase(network::CollectivePhase p) : phase(std::move(p)) {}

  network::CollectivePhase phase;
  size_t dimension = 0;    // along which its members lie
  bool whole = false;      // all NPUs are members (oneRing and its kin)
  bool any_ranks = false;  // members are those of a communicator group
  // Where all members begin at 0: their ends, per communicator group (-1: none), once asked for.
  std::map<int32_t, std::vector<network::MemberEnd>> ends_if_together;
};

struct PlannedPhase {
  SharedPhase* shared = nullptr;
  uint16_t queue = 0;
};

struct ChunkPlan {
  std::vector<PlannedPhase> phases;  // empty: there is nothing to do
};

struct Rotation {
  std::vector<uint8_t> next, first, last;  // per dimension: queues taken
  std::vector<uint8_t> trees;              // per collective and dimension: which tree is next
  auto operator<=>(const Rotation&) const = default;
};

class CollectivePlanner {
 public:
  CollectivePlanner(const network::Topology& topology, const SystemSettings& settings,
                    int32_t queues_per_dimension);

  struct Question {
    graph::CollectiveType kind = graph::CollectiveType::kAllReduce;
    int64_t bytes = 0;
    std::vector<uint8_t> involved_dims;  // empty: all
    int32_t group_size = 0;              // 0: all NPUs
    std::vector<size_t> order;           // of dimensions, for a chunk; empty: ascending
    auto operator<=>(const Question&) const = default;
  };
  // One plan per chunk; none where there is nothing to do. Lives as long as the planner. Unusable:
  // an algorithm is missing or cannot do this.
  Result<const std::vector<const ChunkPlan*>*> plan(const Question& question, Rotation& rotation);

  int32_t queues() const {
    return queues_per_dimension_ * static_cast<int32_t>(topology_->dimensions());
  }
  int32_t queues_per_dimension() const { return queues_per_dimension_; }
  Rotation no_rotation() const;
  // Whether a Rotation ever changes; if not, all ranks can share one.
  bool rotates() const;
  // Whether Themis had an order to choose so far.
  bool chose_orders() const { return chose_orders_; }
  // Collectives so far for which the system file names fewer algorithms than the network has
  // dimensions: NPUs that differ in the others alone do not take part together.
  const std::set<graph::CollectiveType>& short_lists() const { return short_lists_; }

 private:
  struct Along {  // a logical dimension
    network::AlgorithmChoice choice;
    int32_t members = 1;
    bool whole = false;
  };
  const network::Topology* topology_;
  const SystemSettings* settings_;
  int32_t queues_per_dimension_;
  bool chose_orders_ = false;
  std::set<graph::CollectiveType> short_lists_;
  std::deque<SharedPhase> phases_;
  std::deque<ChunkPlan> chunks_;
  template <typename T>
  using Known = std::map<std::pair<Question, Rotation>, std::pair<T, Rotation>>;
  Known<const ChunkPlan*> known_chunks_;
  Known<std::vector<const ChunkPlan*>> known_;

  Result<std::vector<Along>> along(const Question& question) const;
  bool there_and_back(graph::CollectiveType kind) const;
  std::vector<size_t> involved(const Question& question, const std::vector<Along>& dims) const;
  // One for each chunk of `bytes`; none where the order is not Themis's to choose.
  std::vector<std::vector<size_t>> themis_orders(const Question& question,
                                                 const std::vector<Along>& dims, int64_t bytes,
                                                 int64_t chunks) const;
  Result<const ChunkPlan*> plan_chunk(const Question& chunk, Rotation& rotation);
  Result<SharedPhase*> share(const network::PhaseSpec& spec, size_t dimension, bool whole);
};

}  // namespace tombolo::astra
