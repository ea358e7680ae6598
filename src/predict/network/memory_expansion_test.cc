#include "predict/network/memory_expansion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tombolo::network {
namespace {

using ::testing::HasSubstr;

ExpandedMemory memory(const char* text, int32_t npus = 4) {
  return *ExpandedMemory::create(*parse_memory_expansion(text, "remote_memory.json"), npus);
}

// 1 MiB at 100 GB/s: 10,485.76 ns, cut off, after a latency of 500 ns.
constexpr int64_t kMebibyte = 1 << 20;
constexpr int64_t kTaken = 500 + 10'485;

TEST(MemoryExpansion, AnAccessTakesLatencyAndItsBytes) {
  const ExpandedMemory m = memory(
      R"({"memory-type": "PER_NPU_MEMORY_EXPANSION", "remote-mem-latency": 500,
          "remote-mem-bw": 100.0})");
  EXPECT_FALSE(m.shared());
  EXPECT_EQ(m.duration(kMebibyte).ns, kTaken);
  EXPECT_EQ(m.duration(0).ns, 500);
}

// 247 / 10^9 * 10^9 would be cut off to 246: ASTRA-sim 518bd513 takes 347.
TEST(MemoryExpansion, DividesOnce) {
  const ExpandedMemory m = memory(
      R"({"memory-type": "PER_NPU_MEMORY_EXPANSION", "remote-mem-latency": 100,
          "remote-mem-bw": 1})");
  EXPECT_EQ(m.duration(247).ns, 347);
}

TEST(MemoryExpansion, NodesAndPoolsAreShared) {
  const ExpandedMemory nodes = memory(
      R"({"memory-type": "PER_NODE_MEMORY_EXPANSION", "num-nodes": 2, "num-npus-per-node": 2,
          "remote-mem-bw": 100})");
  EXPECT_TRUE(nodes.shared());
  EXPECT_EQ(nodes.memory_of(1), 0);
  EXPECT_EQ(nodes.memory_of(2), 1);
  const ExpandedMemory pool = memory(R"({"memory-type": "MEMORY_POOL", "remote-mem-bw": 100})");
  EXPECT_TRUE(pool.shared());
  EXPECT_EQ(pool.memory_of(3), 0);
}

TEST(MemoryExpansion, NoneIsWhatAFileWithoutATypeSays) {
  EXPECT_FALSE(memory("{}").exists());
  EXPECT_FALSE(memory(R"({"memory-type": "NO_MEMORY_EXPANSION"})").exists());
}

TEST(MemoryExpansion, BlamesTheKey) {
  const auto text = [](const char* file) {
    return parse_memory_expansion(file, "remote_memory.json").error().text();
  };
  EXPECT_THAT(text(R"({"memory-type": "MEMORY_POOL"})"), HasSubstr("remote-mem-bw"));
  EXPECT_THAT(text(R"({"memory-type": "MEMORY_POOL", "remote-mem-bw": 1.5})"),
              HasSubstr("remote-mem-bw"));
  EXPECT_THAT(text(R"({"memory-type": "POOL"})"), HasSubstr("MEMORY_POOL"));
  EXPECT_THAT(text(R"({"npu-ids": [1]})"), HasSubstr("npu-ids"));
  EXPECT_THAT(text(R"({"memory-type": "PER_NODE_MEMORY_EXPANSION", "remote-mem-bw": 1})"),
              HasSubstr("num-nodes"));
  const MemoryExpansionFile few{MemoryExpansion::kPerNode, 2, 2, 0, 1};
  EXPECT_THAT(ExpandedMemory::create(few, 5).error().text(), HasSubstr("2 nodes of 2 NPUs"));
}

}  // namespace
}  // namespace tombolo::network
