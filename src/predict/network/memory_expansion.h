// Memory beyond the NPU's own, as remote_memory.json describes it. ASTRA-sim's types:
//
//   NO_MEMORY_EXPANSION        no access is possible
//   PER_NPU_MEMORY_EXPANSION   each NPU has its own; accesses do not wait for each other
//   PER_NODE_MEMORY_EXPANSION  the NPUs of a node share one, which serves one access at a time
//   MEMORY_POOL                all NPUs share one, which serves one access at a time
//
// An access of b bytes takes latency + floor(b / bandwidth) nanoseconds once it is served, first
// come, first served, whether it loads or stores; astra/astra_memory.cc plays it. Sources: Won et
// al., ASTRA-sim 2.0, 2023, section III-D, and its analytical remote memory.
//
// The pools of that section are types of their own (MemoryPool, remote_memory.h). Their law holds
// for all NPUs together, so that an access is one transfer of all of them: it begins when the last
// NPU has asked, and is over for all at once.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "base/fields.h"
#include "base/result.h"
#include "base/time.h"
#include "predict/network/remote_memory.h"

namespace tombolo::network {

enum class MemoryExpansion : uint8_t { kNone, kPerNpu, kPerNode, kPool };
constexpr auto enum_names(MemoryExpansion) {
  return std::to_array<EnumName<MemoryExpansion>>(
      {{MemoryExpansion::kNone, "NO_MEMORY_EXPANSION"},
       {MemoryExpansion::kPerNpu, "PER_NPU_MEMORY_EXPANSION"},
       {MemoryExpansion::kPerNode, "PER_NODE_MEMORY_EXPANSION"},
       {MemoryExpansion::kPool, "MEMORY_POOL"}});
}

inline constexpr int64_t kAccessMax = int64_t{1} << 50;  // bytes; keeps times within 64 bits

struct MemoryExpansionFile {
  MemoryExpansion type = MemoryExpansion::kNone;
  int32_t nodes = 0;                              // of kPerNode
  int32_t npus_per_node = 0;                      // of kPerNode; NPU i is in node i / npus_per_node
  int64_t latency = 0;                            // ns
  int64_t bandwidth = 0;                          // 10^9 bytes/s
  std::optional<MemoryPool> pool = std::nullopt;  // then nothing of the above counts
};

// Unusable, naming file, key and value: what cannot be parsed, an unknown key or type, a bandwidth
// below 1 or that is not whole (ASTRA-sim cuts it off), a node without NPUs.
Result<MemoryExpansionFile> parse_memory_expansion(const std::string& text,
                                                   const std::string& name);
Result<MemoryExpansionFile> read_memory_expansion(const std::string& path);

// Who shares a memory with whom, and how long an access keeps it busy.
class ExpandedMemory {
 public:
  // Unusable: a system of more NPUs than the nodes have; an NPU would have no memory. A pool whose
  // GPUs are not the NPUs.
  static Result<ExpandedMemory> create(const MemoryExpansionFile& file, int32_t npus);

  bool exists() const { return file_.type != MemoryExpansion::kNone || together(); }
  // Whether accesses of all NPUs are one transfer.
  bool together() const { return file_.pool.has_value(); }
  // Whether accesses of one NPU can delay another's.
  bool shared() const {
    return file_.type == MemoryExpansion::kPerNode || file_.type == MemoryExpansion::kPool;
  }
  // Where it is shared: which of the memories an NPU has.
  int32_t memory_of(int32_t npu) const {
    return file_.type == MemoryExpansion::kPool ? 0 : npu / file_.npus_per_node;
  }
  // Unusable: more than kAccessMax bytes, or an access of more than 2^53 ns, 104 days.
  Status check(int64_t bytes) const;
  // Once it is served; of a pool rounded to the nearest nanosecond, its latency alone for 0 bytes.
  // CHECKs that there is memory, and what check() refuses.
  SimDuration duration(int64_t bytes) const;

 private:
  MemoryExpansionFile file_;
  int32_t npus_ = 0;
  Seconds of_pool(int64_t bytes) const;
};

}  // namespace tombolo::network
