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
// Where groups are hierarchical (SystemSettings::groups), a group smaller than the system passes the
// dimensions that it spans, with its share of ranks in each; a group that is no product of parts of
// dimensions stays one ring. Chunks then differ by a byte for each member at most, and are whole
// multiples of the members, so that nothing is cut off and nothing is sent that need not be.
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
#include <span>
#include <vector>

#include "base/result.h"
#include "predict/astra/astra_system.h"
#include "predict/network/collective_phase.h"
#include "predict/network/group_layout.h"
#include "predict/network/phase_solver.h"
#include "predict/network/topology.h"
#include "spec/graph/graph.h"

namespace tombolo::astra {

// Phases of equal spec are one object: what is worked out for one holds for all.
struct SharedPhase {
  explicit SharedPhase(network::CollectivePhase p) : phase(std::move(p)) {}

  network::CollectivePhase phase;
  size_t dimension = 0;         // along which its members lie
  std::vector<int32_t> places;  // there, counted from the first; empty: everywhere
  bool whole = false;           // all NPUs are members (oneRing and its kin)
  bool any_ranks = false;       // members are those of a communicator group
  int32_t place(int32_t member) const {
    return places.empty() ? member : places[static_cast<size_t>(member)];
  }
  // Along a dimension: the member that stands so far from the first.
  int32_t member_at(int32_t place) const;

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
    int32_t layout = -1;                 // of the group, by layout_of
    auto operator<=>(const Question&) const = default;
  };
  // One plan per chunk; none where there is nothing to do. Lives as long as the planner. Unusable:
  // an algorithm is missing or cannot do this.
  Result<const std::vector<const ChunkPlan*>*> plan(const Question& question, Rotation& rotation);

  // The number of a group's layout, with hierarchical groups; -1: it has none.
  int32_t layout_of(std::span<const int32_t> ranks);
  int32_t layout_of_all();
  // Of a collective of a group of this layout: that of the last dimension that it spans.
  int64_t startup(int32_t layout) const;

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
    bool whole = false;  // as SharedPhase has them
    bool any_ranks = false;
    size_t dimension = 0;
    std::vector<int32_t> places = {};
  };
  const network::Topology* topology_;
  const SystemSettings* settings_;
  int32_t queues_per_dimension_;
  bool chose_orders_ = false;
  int32_t layout_of_all_ = -1;
  std::set<graph::CollectiveType> short_lists_;
  std::vector<network::GroupLayout> layouts_;
  std::deque<SharedPhase> phases_;
  std::deque<ChunkPlan> chunks_;
  template <typename T>
  using Known = std::map<std::pair<Question, Rotation>, std::pair<T, Rotation>>;
  Known<const ChunkPlan*> known_chunks_;
  Known<std::vector<const ChunkPlan*>> known_;

  Result<std::vector<Along>> along(const Question& question) const;
  Result<std::vector<Along>> along_layout(const Question& question) const;
  std::vector<int64_t> chunk_sizes(const Question& question) const;
  std::vector<int64_t> even_chunks(const Question& question) const;
  bool there_and_back(graph::CollectiveType kind) const;
  std::vector<size_t> involved(const Question& question, const std::vector<Along>& dims) const;
  // One for each chunk of `bytes`; none where the order is not Themis's to choose.
  std::vector<std::vector<size_t>> themis_orders(const Question& question,
                                                 const std::vector<Along>& dims, int64_t bytes,
                                                 int64_t chunks) const;
  Result<const ChunkPlan*> plan_chunk(const Question& chunk, Rotation& rotation);
  Result<SharedPhase*> share(const network::PhaseSpec& spec, const Along& along);
};

}  // namespace tombolo::astra
