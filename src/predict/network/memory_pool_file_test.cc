#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "predict/network/memory_expansion.h"
#include "predict/network/remote_memory.h"

namespace tombolo::network {
namespace {

using ::testing::HasSubstr;

Result<ExpandedMemory> pool_of(const std::string& text, int32_t npus) {
  return ExpandedMemory::create(TRY(parse_memory_expansion(text, "remote_memory.json")), npus);
}

// The paper's example, 16 nodes of 16 GPUs, 4 switches, 8 groups, with W = 1 MiB in chunks of
// 256 KiB: loads of 8 W, 4 W and W, so 32 chunks of 262144, 131072 and 32768 bytes, which take
// 2621.44, 1310.72 and 327.68 ns at 100 GB/s: 4259.84 + 31 * 2621.44 after 500 ns.
constexpr const char* kHierarchy =
    R"({"memory-type": "HIERARCHICAL_POOL", "num-nodes": 16, "num-npus-per-node": 16,
        "num-switches": 4, "num-memory-groups": 8, "memory-side-bw": 100, "gpu-side-bw": 100,
        "in-node-bw": 100, "remote-mem-latency": 500)";

TEST(MemoryPoolFile, ReadsThePapersExample) {
  const auto pool = pool_of(kHierarchy + std::string("}"), 256);
  ASSERT_TRUE(pool) << pool.error().text();
  EXPECT_TRUE(pool->exists());
  EXPECT_TRUE(pool->together());
  EXPECT_FALSE(pool->shared());
  EXPECT_EQ(pool->duration(1 << 20).ns, 500 + 85'524);  // 85524.48
  EXPECT_EQ(pool->duration(0).ns, 500);
}

TEST(MemoryPoolFile, GathersInSwitches) {
  // Links below the gathering carry 8 W, 64 W and 256 W: 32 chunks of 2^18, 2^21 and 2^23 bytes,
  // 2621.44 + 20971.52 + 83886.08 + 31 * 83886.08 ns.
  const auto pool = pool_of(kHierarchy + std::string(R"(, "in-switch-collectives": 1})"), 256);
  ASSERT_TRUE(pool) << pool.error().text();
  EXPECT_EQ(pool->duration(1 << 20).ns, 500 + 2'707'948);  // 2707947.52
}

TEST(MemoryPoolFile, ReadsLevelsRingsAndMeshes) {
  // 8 GPUs load 1000 bytes each, 8000 in all, in chunks of at most 1000. Levels of 4 and 8 links:
  // 2000 and 1000 bytes each, 2 chunks; 1000 + 500 + 1000 ns at 1 GB/s.
  const auto levels = pool_of(
      R"({"memory-type": "MULTI_LEVEL_SWITCH_POOL", "chunk-size": 1000,
          "levels": [{"links": 4, "bandwidth": 1}, {"name": "leaf", "links": 8, "bandwidth": 1}]})",
      8);
  ASSERT_TRUE(levels) << levels.error().text();
  EXPECT_EQ(levels->duration(1000).ns, 2500);
  // A ring of 4 stations: 8000/8 on each link, one chunk over two links.
  const auto ring = pool_of(
      R"({"memory-type": "RING_POOL", "stations": 4, "link-bw": 1, "chunk-size": 1000})", 8);
  ASSERT_TRUE(ring) << ring.error().text();
  EXPECT_EQ(ring->duration(1000).ns, 2000);
  // A mesh of 4 by 2: 8000 / (4 * 2), one chunk over four links.
  const auto mesh = pool_of(
      R"({"memory-type": "MESH_POOL", "columns": 4, "rows": 2, "link-bw": 1, "chunk-size": 1000})",
      8);
  ASSERT_TRUE(mesh) << mesh.error().text();
  EXPECT_EQ(mesh->duration(1000).ns, 4000);
}

TEST(MemoryPoolFile, BlamesTheKey) {
  const auto text = [](const std::string& file, int32_t npus = 256) {
    const auto pool = pool_of(file, npus);
    return pool ? "" : pool.error().text();
  };
  EXPECT_THAT(text(R"({"memory-type": "RING_POOL", "stations": 4})"), HasSubstr("link-bw"));
  EXPECT_THAT(text(R"({"memory-type": "RING_POOL", "stations": 4, "link-bw": 0})"),
              HasSubstr("link-bw"));
  EXPECT_THAT(text(R"({"memory-type": "RING_POOL", "stations": 0, "link-bw": 1})"),
              HasSubstr("stations 0"));
  EXPECT_THAT(text(R"({"memory-type": "RING_POOL", "stations": 4, "link-bw": 1,
                       "in-switch-collectives": 1})"),
              HasSubstr("no switch"));
  EXPECT_THAT(text(kHierarchy + std::string(R"(, "chunk-size": 0})")), HasSubstr("chunk-size"));
  EXPECT_THAT(text(kHierarchy + std::string("}"), 64), HasSubstr("16 nodes of 16 NPUs"));
  std::string huge = kHierarchy + std::string("}");
  huge.replace(huge.find("\"num-npus-per-node\": 16"), 23,
               "\"num-npus-per-node\": 4611686018427387904");
  EXPECT_THAT(text(huge), HasSubstr("4611686018427387904 NPUs"));
  EXPECT_THAT(text(R"({"memory-type": "MULTI_LEVEL_SWITCH_POOL", "levels": []})"),
              HasSubstr("no level"));
  const auto slow = pool_of(R"({"memory-type": "RING_POOL", "stations": 4, "link-bw": 1e-6})", 256);
  EXPECT_THAT(slow->check(int64_t{1} << 50).error().text(), HasSubstr("104 days"));
}

}  // namespace
}  // namespace tombolo::network
