#include "perform/state/state_sources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tombolo::state {
namespace {

using ::testing::HasSubstr;

Inventory with(int64_t step, const std::string& file, int64_t bytes) {
  return {.files = {{step, file, bytes}}, .kept = {}};
}

FileRequest part_of(int64_t step, const std::string& file, int64_t offset, int64_t bytes) {
  return {.step = step, .file = file, .offset = offset, .bytes = bytes};
}

TEST(StateSources, FindWhoHasAFile) {
  StateSources sources;
  sources.add(0, with(4, "a", 100));
  sources.add(1, with(4, "b", 100));
  sources.add(2, with(4, "a", 100));
  EXPECT_EQ(sources.how_many(), 3u);
  EXPECT_EQ(sources.source(part_of(4, "b", 0, 100), 0), 1);
  EXPECT_EQ(sources.source(part_of(4, "a", 50, 50), 0), 2) << "whoever asks has not got it";
  EXPECT_EQ(sources.source(part_of(4, "a", 0, 1), 1), sources.source(part_of(4, "a", 9, 1), 1))
      << "the same for all parts: they come in order";
  EXPECT_FALSE(sources.source(part_of(4, "a", 51, 50), 1)) << "beyond its end";
  EXPECT_FALSE(sources.source(part_of(2, "a", 0, 1), 1)) << "of another step";
  FileRequest kept = part_of(4, "a", 0, 1);
  kept.what = FileKind::kKept;
  kept.epoch = 1;
  EXPECT_FALSE(sources.source(kept, 1));
}

TEST(StateSources, NameTheShardThatNobodyHasWhole) {
  StateSources sources;
  sources.add(0, with(4, "a", 100));
  sources.add(1, with(4, "b", 99));
  state::Manifest manifest{.step = 4, .shards = {{.file = "a", .bytes = 100}}};
  EXPECT_TRUE(sources.check(manifest, 0));
  manifest.shards.push_back({.file = "b", .bytes = 100});
  EXPECT_THAT(sources.check(manifest, 0).error().text(),
              HasSubstr("the checkpoint of step 4: b: on the host of rank 1 the shard is damaged: "
                        "it has 99 bytes, the manifest says 100"));
  sources.add(2, with(4, "b", 100));
  EXPECT_TRUE(sources.check(manifest, 0)) << "there is a whole one";
  manifest.shards.push_back({.file = "c", .bytes = 100});
  EXPECT_THAT(sources.check(manifest, 0).error().text(), HasSubstr("c: no host has this shard"));
  EXPECT_EQ(sources.check(manifest, 0).error().code, ErrorCode::kLostPeer) << "one may come";
  EXPECT_THAT(sources.check(manifest, 0).error().text(), HasSubstr("or an older checkpoint"));
}

TEST(StateSources, KnowTheNewestManifest) {
  StateSources sources;
  EXPECT_FALSE(sources.newest_manifest(100));
  sources.add(0, with(4, "rank-0.x.safetensors", 1));
  EXPECT_FALSE(sources.newest_manifest(100)) << "a checkpoint that was never finished";
  sources.add(1, with(4, "manifest.json", 10));
  sources.add(2, with(8, "manifest.json", 20));
  EXPECT_EQ(sources.newest_manifest(100)->step, 8);
  EXPECT_EQ(sources.newest_manifest(8)->rank, 1);
}

}  // namespace
}  // namespace tombolo::state
