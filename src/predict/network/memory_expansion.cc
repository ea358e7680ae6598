#include "predict/network/memory_expansion.h"

#include <cmath>

#include "base/check.h"
#include "base/file.h"
#include "base/json.h"

namespace tombolo::network {
namespace {

constexpr int64_t kFileMax = 1 << 20;
constexpr int64_t kLatencyMax = int64_t{1} << 50;
constexpr int32_t kNodesMax = 1 << 24;

template <class Archive>
void read_whole(Archive& a, const char* key, int64_t max, int64_t& out) {
  double number = static_cast<double>(out);
  a.optional(key, number);
  const bool whole =
      std::floor(number) == number && number >= 0 && number <= static_cast<double>(max);
  a.check(whole, key, "must be a whole number, at least 0");
  if (whole) out = static_cast<int64_t>(number);
}

}  // namespace

template <class Archive>
void describe(Archive& a, MemoryExpansionFile& file) {
  a.optional("memory-type", file.type);
  const bool nodes = file.type == MemoryExpansion::kPerNode;
  a.optional("num-nodes", file.nodes);
  a.check(!nodes || (file.nodes >= 1 && file.nodes <= kNodesMax), "num-nodes",
          "must be between 1 and 2^24");
  a.optional("num-npus-per-node", file.npus_per_node);
  a.check(!nodes || file.npus_per_node >= 1, "num-npus-per-node", "must be at least 1");
  read_whole(a, "remote-mem-latency", kLatencyMax, file.latency);
  read_whole(a, "remote-mem-bw", int64_t{1} << 30, file.bandwidth);
  a.check(file.type == MemoryExpansion::kNone || file.bandwidth >= 1, "remote-mem-bw",
          "must be at least 1 (GB/s)", "100");
}

Result<MemoryExpansionFile> parse_memory_expansion(const std::string& text,
                                                   const std::string& name) {
  const Value json = TRY(parse_json(text, name));
  MemoryExpansionFile file;
  file.pool = TRY(parse_memory_pool(json, name));
  if (file.pool) return file;
  return read_fields<MemoryExpansionFile>(json, name);
}

Result<MemoryExpansionFile> read_memory_expansion(const std::string& path) {
  return parse_memory_expansion(TRY(read_file(path, kFileMax)), path);
}

Result<ExpandedMemory> ExpandedMemory::create(const MemoryExpansionFile& file, int32_t npus) {
  ExpandedMemory out;
  out.file_ = file;
  out.npus_ = npus;
  if (file.pool) TRY(file.pool->transfer(1, npus));
  if (file.type == MemoryExpansion::kPerNode) {
    if (int64_t{file.nodes} * file.npus_per_node < npus) {
      return unusable(fmt::format("remote memory: {} nodes of {} NPUs, where the network has {}",
                                  file.nodes, file.npus_per_node, npus),
                      "\"num-nodes\" and \"num-npus-per-node\" whose product is the NPUs");
    }
  }
  return out;
}

Seconds ExpandedMemory::of_pool(int64_t bytes) const {
  if (bytes == 0) return file_.pool->access.latency;
  return (*file_.pool->transfer(bytes, npus_)).time();  // create() has tried one
}

Status ExpandedMemory::check(int64_t bytes) const {
  if (bytes < 0 || bytes > kAccessMax) {
    return unusable(
        fmt::format("remote memory: an access of {} bytes: must be at most 2^50", bytes));
  }
  if (file_.pool && of_pool(bytes).value * 1e9 > 0x1p53) {
    return unusable(
        fmt::format("remote memory: {} bytes of each NPU take more than 104 days", bytes),
        "bandwidths in 10^9 bytes per second, chunks of more bytes");
  }
  return {};
}

SimDuration ExpandedMemory::duration(int64_t bytes) const {
  CHECK(exists(), "{} bytes from a memory that is not there", bytes);
  if (file_.pool) return round_to_ns(of_pool(bytes));
  CHECK(bytes >= 0 && bytes <= kAccessMax, "an access of {} bytes", bytes);
  // As ASTRA-sim: 10^9 bytes a second are a byte a nanosecond, and what is over is cut off.
  return {file_.latency + bytes / file_.bandwidth};
}

}  // namespace tombolo::network
