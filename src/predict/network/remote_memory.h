// Memory pools: how long GPUs take to load tensors from memory that they share, or to store them.
//
// All GPUs load at once, W bytes each, so that T = W G bytes leave the pool, evenly from all of it.
// What matters is the load of the busiest link of each kind on the way, and that data travels in
// chunks, one kind of link after another, as in a pipeline:
//
//   T_transfer = latency + sum(hops_i TX_i) + (n - 1) max(TX_i),    TX_i = load_i / n / bandwidth_i
//
//   hierarchical   R memory groups - S out-node switches - N nodes - G GPUs:
//                  loads T/(R S), T/(N S), T/G;  n = T/(R S C) for chunks of C bytes
//   multi-level    T/m_l on each of the m_l links of level l
//   ring           T/8 on each link of a bidirectional ring of K stations (K even), which hold GPUs
//                  and memory in equal shares; messages take the shorter way
//   mesh           X by Y stations, columns first: T (X/2)^2 / (X^2 Y) = T/(4 Y) where a cut
//                  parts X in halves, T/(4 X) where it parts Y
//
// In-switch collectives (switches only): what GPUs load is gathered on the way (all-gather), what
// they store is summed and cut up (reduce-scatter); each GPU then sees all T bytes, and the links
// below the gathering carry all of them: T/(R S), T/S, T in the hierarchical pool.
//
// A store takes what the load takes: the same stages backwards, in sum and maximum alike.
// Source: Won et al., ASTRA-sim 2.0, 2023, section III-D; docs/laws/remote_memory.md. Cost: O(1).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "base/value.h"

namespace tombolo::network {

struct PoolAccess {
  Bytes tensor;               // W, of one GPU; with in-switch collectives its shard
  Bytes chunk{256.0 * 1024};  // C, on the first kind of link; the last chunk is no smaller
  bool in_switch = false;     // gather what is loaded, scatter what is stored
  Seconds latency;            // of an access, once
};

// Links of one kind, as the chunks meet them.
struct PoolStage {
  std::string name;
  Bytes load;  // of the busiest link, of the whole transfer
  BytesPerSecond bandwidth;
  int64_t hops = 1;  // links of this kind that the farthest chunk crosses

  Seconds time() const { return load / bandwidth; }
};

struct PoolTransfer {
  std::vector<PoolStage> stages;  // from the memory to a GPU
  int64_t chunks = 1;             // n
  Seconds latency;

  Seconds time() const;
  const PoolStage& slowest() const;  // the first of them
};

// Switches in levels. `paths`: among how many links of a level what one GPU receives is divided.
struct PoolLevel {
  std::string name;
  int64_t links = 1;
  int64_t paths = 1;
  BytesPerSecond bandwidth;
};
struct SwitchedPool {
  int64_t gpus = 1;
  std::vector<PoolLevel> levels;  // from the memory down
};

struct HierarchicalPool {
  int64_t nodes = 1;
  int64_t gpus_per_node = 1;
  int64_t switches = 1;        // out-node; each is joined to all groups and all nodes
  int64_t groups = 1;          // of memory
  BytesPerSecond memory_side;  // of a link from a group to a switch
  BytesPerSecond gpu_side;     // of a link from a switch to a node
  BytesPerSecond in_node;      // of a link from a node's switch to a GPU
};
SwitchedPool switched(const HierarchicalPool& pool);

// Stations hold GPUs and memory in equal shares.
struct RingPool {
  int64_t gpus = 1;
  int64_t stations = 1;
  BytesPerSecond link;  // in each direction
};
struct MeshPool {
  int64_t gpus = 1;
  int64_t columns = 1;  // X: stations of a row
  int64_t rows = 1;     // Y
  BytesPerSecond link;  // in each direction
};

// Unusable: sizes below 1, bandwidths or sizes that are not positive and finite, and in-switch
// collectives where there is no switch.
Result<PoolTransfer> transfer(const SwitchedPool& pool, const PoolAccess& access);
Result<PoolTransfer> transfer(const HierarchicalPool& pool, const PoolAccess& access);
Result<PoolTransfer> transfer(const RingPool& pool, const PoolAccess& access);
Result<PoolTransfer> transfer(const MeshPool& pool, const PoolAccess& access);

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
// transfer takes is the law of transfer() above.
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
