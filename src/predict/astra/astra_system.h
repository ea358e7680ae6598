// What ASTRA-sim's system.json says of every NPU: how it schedules collectives, what its memory and
// its cores can do.
//
// Every key of ASTRA-sim is honoured or refused by name; docs/guide/astra-sim.md lists them all.
// Units: local-mem-bw in 10^9 bytes per second, peak-perf in 10^12 operations per second, delays in
// nanoseconds.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/fields.h"
#include "base/result.h"
#include "predict/network/chunked_all_reduce.h"
#include "predict/network/collective_phase.h"
#include "spec/graph/graph.h"

namespace tombolo::astra {

// Which of several collectives that wait for a dimension goes first.
enum class CollectiveOrder : uint8_t { kLastFirst, kFirstFirst, kByPriority };
constexpr auto enum_names(CollectiveOrder) {
  return std::to_array<EnumName<CollectiveOrder>>({{CollectiveOrder::kLastFirst, "LIFO"},
                                                   {CollectiveOrder::kFirstFirst, "FIFO"},
                                                   {CollectiveOrder::kByPriority, "EXPLICIT"}});
}

// How an all-reduce visits several dimensions: an all-reduce in each, or reduce-scatters up,
// an all-reduce in the last, all-gathers down.
enum class AllReduceShape : uint8_t { kBaseline, kLocalBandwidthAware };
constexpr auto enum_names(AllReduceShape) {
  return std::to_array<EnumName<AllReduceShape>>(
      {{AllReduceShape::kBaseline, "baseline"},
       {AllReduceShape::kLocalBandwidthAware, "localBWAware"}});
}

// What becomes of ranks that differ in several dimensions. kRing, as in ASTRA-sim: a group smaller
// than the system is one ring in the order of its ranks, and of a message the first dimension alone
// counts. kHierarchical, ours: a group's collectives go from dimension to dimension
// (network/group_layout.h), and messages pass all of them. An option, not a key of the file.
enum class GroupShape : uint8_t { kRing, kHierarchical };
constexpr auto enum_names(GroupShape) {
  return std::to_array<EnumName<GroupShape>>(
      {{GroupShape::kRing, "ring"}, {GroupShape::kHierarchical, "hierarchical"}});
}

struct SystemSettings {
  GroupShape groups = GroupShape::kRing;
  // With hierarchical groups, ns before the chunks of a collective begin, by the last dimension that
  // it spans: launches, synchronisation. Empty: none. No key of the file.
  std::vector<int64_t> startup;
  CollectiveOrder order = CollectiveOrder::kLastFirst;
  AllReduceShape all_reduce_shape = AllReduceShape::kBaseline;
  // Themis: the order of dimensions of each chunk, and whether the smallest of those that wait for
  // a dimension goes first.
  network::DimensionScheduling dimension_order = network::DimensionScheduling::kBaseline;
  network::ChunkChoice chunk_choice = network::ChunkChoice::kFirstCome;
  int32_t active_chunks = 1;    // at work at once per dimension
  int64_t splits = 1;           // chunks that a collective is cut into
  int64_t endpoint_delay = 10;  // ns, before every message
  double memory_bandwidth = 0;  // 10^9 bytes/s; 0: not given, reductions take no time
  double peak_performance = 0;  // 10^12 operations/s
  bool roofline = false;        // computations on the accelerator last as peak and memory allow
  bool track_memory = false;    // which tensors live when
  std::string memory_trace;     // files to write that to, PREFIX.NPU.json; empty: none
  bool replay_only = false;     // everything lasts as long as the trace says
  // Per collective, an algorithm for each dimension.
  std::map<graph::CollectiveType, std::vector<network::AlgorithmChoice>> algorithms;
  // Per collective, or for single nodes, the prefix of Chakra files that spell it out.
  std::map<graph::CollectiveType, std::string> custom;
  std::map<int64_t, std::string> custom_of_node;
};

inline bool hierarchical(const SystemSettings& settings) {
  return settings.groups == GroupShape::kHierarchical;
}

Result<SystemSettings> read_system(const std::string& path);
Result<SystemSettings> parse_system(const std::string& text, const std::string& name, int line = 1);

}  // namespace tombolo::astra
