// Nodes for the tests of the ASTRA-sim machine, worked out by hand, and when ranks finish.
#pragma once

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "predict/astra/astra_run.h"

namespace tombolo::astra {

inline graph::Node compute(int64_t id, int64_t ns, std::vector<int64_t> after = {}) {
  graph::Node node;
  node.id = id;
  node.duration = SimDuration{ns};
  node.data_deps = std::move(after);
  return node;
}

inline graph::Node message(int64_t id, graph::NodeType type, int32_t peer, int64_t bytes,
                           std::vector<int64_t> after = {}) {
  graph::Node node = compute(id, 0, std::move(after));
  node.type = type;
  node.comm_peer = peer;
  node.comm_size = bytes;
  return node;
}

inline graph::Node all_reduce(int64_t id, int64_t bytes, std::vector<int64_t> after = {}) {
  graph::Node node = compute(id, 0, std::move(after));
  node.type = graph::NodeType::kCollective;
  node.comm_size = bytes;
  return node;
}

// In nanoseconds, by rank.
inline std::vector<int64_t> finishes(const Result<AstraAnswer>& answer) {
  std::vector<int64_t> out;
  if (!answer) ADD_FAILURE() << answer.error().text();
  for (int32_t r = 0; answer && r < answer->npus; ++r) out.push_back(answer->rank(r).finish.ns);
  return out;
}

}  // namespace tombolo::astra
