// Memory pools as remote_memory.json describes them, beyond ASTRA-sim's types.
//
//   HIERARCHICAL_POOL        num-nodes, num-npus-per-node, num-switches, num-memory-groups,
//                            memory-side-bw, gpu-side-bw, in-node-bw
//   MULTI_LEVEL_SWITCH_POOL  levels, from the memory down: each with links, bandwidth, paths (left
//                            out: 1) and name
//   RING_POOL                stations, link-bw
//   MESH_POOL                columns, rows, link-bw
//   all of them              chunk-size in bytes (left out: 262144), remote-mem-latency in ns;
//                            those with switches: in-switch-collectives, 0 or 1
//
// Bandwidths are in 10^9 bytes per second. The GPUs are all NPUs of the network. How long a
// transfer takes is the law of remote_memory.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "base/result.h"
#include "base/value.h"
#include "predict/network/remote_memory.h"

namespace tombolo::network {

struct MemoryPool {
  std::variant<HierarchicalPool, SwitchedPool, RingPool, MeshPool> shape;
  PoolAccess access;  // but for the tensor

  // Of `bytes` of each of `npus`. Unusable: what transfer() of the shape refuses, and a
  // hierarchical pool of another number of GPUs.
  Result<PoolTransfer> transfer(int64_t bytes, int32_t npus) const;
};

// Nothing where the memory-type is none of the four. Unusable, naming file, key and value.
Result<std::optional<MemoryPool>> parse_memory_pool(const Value& json, const std::string& name);

}  // namespace tombolo::network
