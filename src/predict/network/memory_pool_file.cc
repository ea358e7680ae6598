#include "base/fields.h"
#include "predict/network/remote_memory.h"

namespace tombolo::network {
namespace {

enum class PoolType : uint8_t { kHierarchical, kSwitches, kRing, kMesh };
constexpr auto enum_names(PoolType) {
  return std::to_array<EnumName<PoolType>>({{PoolType::kHierarchical, "HIERARCHICAL_POOL"},
                                            {PoolType::kSwitches, "MULTI_LEVEL_SWITCH_POOL"},
                                            {PoolType::kRing, "RING_POOL"},
                                            {PoolType::kMesh, "MESH_POOL"}});
}

struct Level {
  PoolLevel level;
};

struct PoolFile {
  PoolType type = PoolType::kHierarchical;
  MemoryPool pool;
};

template <class Archive>
void read_bandwidth(Archive& a, const char* key, BytesPerSecond& out) {
  double number = 0;
  a.required(key, number);
  a.check(number > 0 && number <= 1e9, key, "must be positive (GB/s)", "100");
  out = BytesPerSecond{number * 1e9};
}

template <class Archive>
void describe(Archive& a, Level& level) {
  a.optional("name", level.level.name);
  a.required("links", level.level.links);
  a.optional("paths", level.level.paths);
  read_bandwidth(a, "bandwidth", level.level.bandwidth);
}

template <class Archive>
void describe(Archive& a, HierarchicalPool& pool) {
  a.required("num-nodes", pool.nodes);
  a.required("num-npus-per-node", pool.gpus_per_node);
  a.required("num-switches", pool.switches);
  a.required("num-memory-groups", pool.groups);
  read_bandwidth(a, "memory-side-bw", pool.memory_side);
  read_bandwidth(a, "gpu-side-bw", pool.gpu_side);
  read_bandwidth(a, "in-node-bw", pool.in_node);
}

template <class Archive>
void describe(Archive& a, SwitchedPool& pool) {
  std::vector<Level> levels;
  a.required("levels", levels);
  for (Level& level : levels) {
    if (level.level.name.empty()) level.level.name = fmt::format("level {}", pool.levels.size());
    pool.levels.push_back(std::move(level.level));
  }
}

template <class Archive>
void describe(Archive& a, RingPool& pool) {
  a.required("stations", pool.stations);
  read_bandwidth(a, "link-bw", pool.link);
}

template <class Archive>
void describe(Archive& a, MeshPool& pool) {
  a.required("columns", pool.columns);
  a.required("rows", pool.rows);
  read_bandwidth(a, "link-bw", pool.link);
}

template <class Archive>
void describe(Archive& a, PoolFile& file) {
  a.required("memory-type", file.type);
  switch (file.type) {
    case PoolType::kHierarchical:
      file.pool.shape = HierarchicalPool{};
      break;
    case PoolType::kSwitches:
      file.pool.shape = SwitchedPool{};
      break;
    case PoolType::kRing:
      file.pool.shape = RingPool{};
      break;
    case PoolType::kMesh:
      file.pool.shape = MeshPool{};
      break;
  }
  std::visit([&](auto& shape) { describe(a, shape); }, file.pool.shape);
  double latency = 0;
  a.optional("remote-mem-latency", latency);
  a.check(latency >= 0 && latency <= 1e15, "remote-mem-latency", "must be nanoseconds, at least 0",
          "500");
  file.pool.access.latency = Seconds{latency * 1e-9};
  int64_t chunk = 256 * 1024;
  a.optional("chunk-size", chunk);
  a.check(chunk >= 1, "chunk-size", "must be bytes, at least 1", "262144");
  file.pool.access.chunk = Bytes{static_cast<double>(chunk)};
  int64_t in_switch = 0;
  a.optional("in-switch-collectives", in_switch);
  a.check(in_switch == 0 || in_switch == 1, "in-switch-collectives", "is a switch", "0 or 1");
  file.pool.access.in_switch = in_switch == 1;
}

}  // namespace

Result<PoolTransfer> MemoryPool::transfer(int64_t bytes, int32_t npus) const {
  PoolAccess of_tensor = access;
  of_tensor.tensor = Bytes{static_cast<double>(bytes)};
  if (const auto* pool = std::get_if<HierarchicalPool>(&shape)) {
    // Each number separately first, so that the product cannot overflow.
    const bool sane = pool->nodes >= 1 && pool->nodes <= npus && pool->gpus_per_node >= 1 &&
                      pool->gpus_per_node <= npus;
    if (!sane || pool->nodes * pool->gpus_per_node != npus) {
      return unusable(fmt::format("remote memory: {} nodes of {} NPUs, where the network has {}",
                                  pool->nodes, pool->gpus_per_node, npus),
                      "\"num-nodes\" and \"num-npus-per-node\" whose product is the NPUs");
    }
    return network::transfer(*pool, of_tensor);
  }
  return std::visit(
      [&](auto pool) -> Result<PoolTransfer> {
        if constexpr (requires { pool.gpus; }) pool.gpus = npus;
        return network::transfer(pool, of_tensor);
      },
      shape);
}

Result<std::optional<MemoryPool>> parse_memory_pool(const Value& json, const std::string& name) {
  const Value* type = json.find("memory-type");
  const std::string* text = type == nullptr ? nullptr : type->get<std::string>();
  if (text == nullptr || !from_name<PoolType>(*text)) return std::optional<MemoryPool>();
  return std::optional(TRY(read_fields<PoolFile>(json, name)).pool);
}

}  // namespace tombolo::network
