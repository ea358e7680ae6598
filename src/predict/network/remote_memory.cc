#include "predict/network/remote_memory.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace tombolo::network {
namespace {

constexpr int64_t kCountMax = int64_t{1} << 30;  // products of two stay within 64 bits

Status check_count(const char* what, int64_t count) {
  if (count >= 1 && count <= kCountMax) return {};
  return unusable(
      fmt::format("memory pool: {} {}: must lie between 1 and {}", what, count, kCountMax),
      fmt::format("{} 16", what));
}

Status check_positive(const std::string& what, double value, const char* example) {
  if (std::isfinite(value) && value > 0) return {};
  return unusable(fmt::format("memory pool: {} {}: must be positive", what, value), example);
}

Status check(const PoolAccess& access) {
  TRY(check_positive("the tensor's bytes", access.tensor.value, "16 MiB"));
  TRY(check_positive("the chunk's bytes", access.chunk.value, "256 KiB"));
  if (!(std::isfinite(access.latency.value) && access.latency.value >= 0)) {
    return unusable(
        fmt::format("memory pool: latency {}: must not be negative", access.latency.value), "1 us");
  }
  return {};
}

Status refuse_switches(const PoolAccess& access, const char* shape) {
  if (!access.in_switch) return {};
  return unusable(
      fmt::format("memory pool: a {} has no switch that could gather or scatter", shape),
      "a hierarchical pool, or leave in-switch collectives out");
}

// Chunks are counted on the first kind of link and are of equal size.
PoolTransfer in_chunks(std::vector<PoolStage> stages, const PoolAccess& access) {
  PoolTransfer out{std::move(stages), 1, access.latency};
  const double chunks = std::ceil(out.stages.front().load / access.chunk);
  // More than 2^53 of them differ by less than a rounding error.
  out.chunks = static_cast<int64_t>(std::clamp(chunks, 1.0, 0x1p53));
  return out;
}

// The busiest cut across `length` stations in a line, all of which talk to all: share of all bytes
// that cross it in one direction.
double busiest_cut(int64_t length) {
  const auto half = static_cast<double>(length / 2), other = static_cast<double>(length) - half;
  return half * other / static_cast<double>(length) / static_cast<double>(length);
}

}  // namespace

Seconds PoolTransfer::time() const {
  const auto n = static_cast<double>(chunks);
  Seconds once, longest;
  for (const PoolStage& stage : stages) {
    const Seconds chunk = stage.time() / n;
    once += chunk * static_cast<double>(stage.hops);
    longest = std::max(longest, chunk);
  }
  return latency + once + (n - 1) * longest;
}

const PoolStage& PoolTransfer::slowest() const {
  CHECK(!stages.empty(), "a transfer crosses some link");
  return *std::max_element(
      stages.begin(), stages.end(),
      [](const PoolStage& a, const PoolStage& b) { return a.time() < b.time(); });
}

SwitchedPool switched(const HierarchicalPool& pool) {
  return {pool.nodes * pool.gpus_per_node,
          {{"memory group to out-node switch", pool.groups * pool.switches,
            pool.groups * pool.switches, pool.memory_side},
           {"out-node switch to node", pool.nodes * pool.switches, pool.switches, pool.gpu_side},
           {"in-node switch to GPU", pool.nodes * pool.gpus_per_node, 1, pool.in_node}}};
}

Result<PoolTransfer> transfer(const SwitchedPool& pool, const PoolAccess& access) {
  TRY(check(access));
  TRY(check_count("GPUs", pool.gpus));
  if (pool.levels.empty()) {
    return unusable("memory pool: no level of links between memory and GPUs",
                    "one level: the links from memory to GPUs");
  }
  const Bytes all = access.tensor * static_cast<double>(pool.gpus);
  std::vector<PoolStage> stages;
  for (const PoolLevel& level : pool.levels) {
    TRY(check_count((level.name + ": links").c_str(), level.links));
    TRY(check_count((level.name + ": paths").c_str(), level.paths));
    TRY(check_positive(level.name + ": bandwidth", level.bandwidth.value, "100 GBps"));
    if (level.paths > level.links) {
      return unusable(fmt::format("memory pool: {}: {} paths to a GPU over {} links", level.name,
                                  level.paths, level.links),
                      "at most as many paths as links");
    }
    const int64_t share = access.in_switch ? level.paths : level.links;
    stages.push_back({level.name, all / static_cast<double>(share), level.bandwidth});
  }
  return in_chunks(std::move(stages), access);
}

Result<PoolTransfer> transfer(const HierarchicalPool& pool, const PoolAccess& access) {
  TRY(check_count("nodes", pool.nodes));
  TRY(check_count("GPUs per node", pool.gpus_per_node));
  TRY(check_count("out-node switches", pool.switches));
  TRY(check_count("memory groups", pool.groups));
  return transfer(switched(pool), access);
}

Result<PoolTransfer> transfer(const RingPool& pool, const PoolAccess& access) {
  TRY(check(access));
  TRY(refuse_switches(access, "ring"));
  TRY(check_count("GPUs", pool.gpus));
  TRY(check_count("stations", pool.stations));
  TRY(check_positive("bandwidth", pool.link.value, "100 GBps"));
  // From each station to the one d further on, 1/K^2 of all bytes over min(d, K - d) links; the sum
  // over d is floor(K^2/4), over K stations and 2 K links in all.
  const auto stations = static_cast<double>(pool.stations);
  const double hops = std::floor(stations * stations / 4);
  const Bytes all = access.tensor * static_cast<double>(pool.gpus);
  return in_chunks(
      {{"ring link", all * (hops / stations / stations / 2), pool.link, pool.stations / 2}},
      access);
}

Result<PoolTransfer> transfer(const MeshPool& pool, const PoolAccess& access) {
  TRY(check(access));
  TRY(refuse_switches(access, "mesh"));
  TRY(check_count("GPUs", pool.gpus));
  TRY(check_count("columns", pool.columns));
  TRY(check_count("rows", pool.rows));
  TRY(check_positive("bandwidth", pool.link.value, "100 GBps"));
  const Bytes all = access.tensor * static_cast<double>(pool.gpus);
  const double along = busiest_cut(pool.columns) / static_cast<double>(pool.rows);
  const double across = busiest_cut(pool.rows) / static_cast<double>(pool.columns);
  return in_chunks(
      {{"mesh link", all * std::max(along, across), pool.link, pool.columns + pool.rows - 2}},
      access);
}

}  // namespace tombolo::network
