#include "spec/layout/parallelism.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/toml.h"

namespace tombolo::layout {
namespace {

using ::testing::HasSubstr;

Result<Parallelism> read(const std::string& text) {
  return read_fields<Parallelism>(*parse_toml(text, "job.toml"), "job.toml", "parallelism");
}

// Megatron reads virtual stages without a schedule as interleaved 1F1B; a job means the same.
TEST(Parallelism, VirtualStagesWithoutAScheduleAreInterleaved) {
  EXPECT_EQ(read("pipeline = 4")->schedule, ScheduleKind::k1F1B);
  EXPECT_EQ(read("pipeline = 4\nvirtual_stages = 2")->schedule, ScheduleKind::kInterleaved);
  EXPECT_EQ(read("pipeline = 4\nvirtual_stages = 2\nschedule = \"zb-v\"")->schedule,
            ScheduleKind::kZbV);
}

TEST(Parallelism, NamesTheKnownSchedulesWhereOneIsUnknown) {
  const auto unknown = read("pipeline = 4\nschedule = \"1f1B\"");
  ASSERT_FALSE(unknown);
  EXPECT_THAT(unknown.error().text(), HasSubstr("job.toml:2: parallelism.schedule = \"1f1B\""));
  EXPECT_THAT(unknown.error().text(), HasSubstr("gpipe, 1f1b, interleaved"));
  EXPECT_THAT(find_schedule("chimera").error().text(),
              HasSubstr("\"chimera\": there is no such schedule yet"));
}

// Two positions of 2 x 1 and 4 x 1 shards, two pipelines: position 0 has 0 to 3, position 1 has 4 to 11.
TEST(Parallelism, NumbersShardsInnermostThenReplicasThenPositions) {
  Parallelism p{{.tensor = 2, .data = 2, .pipeline = 2}};
  p.tensor_per_stage = {2, 4};
  EXPECT_EQ(rank_of_shard(p, 0, 0, 0), 0);
  EXPECT_EQ(rank_of_shard(p, 0, 1, 1), 3);
  EXPECT_EQ(rank_of_shard(p, 1, 0, 0), 4);
  EXPECT_EQ(rank_of_shard(p, 1, 1, 3), 11);
  EXPECT_DEATH(rank_of_shard(p, 0, 0, 2), "shard 2 of 2");
}

// With one tensor degree it is Megatron's order tp-cp-dp-pp, tensor innermost.
TEST(Parallelism, NumbersShardsAsMegatronDoes) {
  const Parallelism p{{.tensor = 2, .context = 2, .data = 3, .pipeline = 4}};
  int64_t next = 0;
  for (int64_t position = 0; position < p.pipeline; ++position) {
    for (int64_t replica = 0; replica < p.data; ++replica) {
      for (int64_t shard = 0; shard < p.shards_at(position); ++shard) {
        EXPECT_EQ(rank_of_shard(p, position, replica, shard), next++);
      }
    }
  }
  EXPECT_EQ(next, p.devices());
}

TEST(Parallelism, OrdersDimensionsAsWritten) {
  using enum Dimension;
  const auto order = [](const Degrees& degrees, const std::string& text) {
    Parallelism p{degrees};
    p.order = text;
    return dimension_order(p, "job.toml");
  };
  EXPECT_EQ(*order({}, "tp-cp-ep-dp-pp"), kMegatronOrder);
  EXPECT_EQ(*order({}, "pp-tp-dp"), (DimensionOrder{kPipeline, kTensor, kExpert, kData, kContext}));
  EXPECT_EQ(*order({.data = 8, .expert = 8}, "tp-cp-dp-pp"), kMegatronOrder);
  EXPECT_THAT(order({.pipeline = 2}, "tp-dp").error().text(),
              HasSubstr("job.toml: parallelism.order = \"tp-dp\": \"pp\" is missing"));
  EXPECT_THAT(order({}, "tp-tp-dp-pp").error().text(), HasSubstr("\"tp\" is there twice"));
  EXPECT_THAT(order({}, "tp-np").error().text(), HasSubstr("\"np\" is unknown"));
}

TEST(Parallelism, AVariantSetAndReadAgainIsTheSame) {
  for (const ScheduleTraits& row : kSchedules) {
    for (const Sharing sharing : {Sharing::kSpatial, Sharing::kTemporal}) {
      const ScheduleVariant variant{.schedule = row.kind,
                                    .chunks = row.mapping == StageMapping::kLine ? 1 : 2,
                                    .sharing = sharing,
                                    .cell = sharing == Sharing::kTemporal ? 3 : 1,
                                    .discipline = Discipline::kStrict};
      Parallelism p{{.data = 6, .pipeline = 2}};
      p.set_variant(variant);
      EXPECT_EQ(p.variant(), variant) << row.name;
      EXPECT_TRUE(takes_chunks(row.mapping, variant.chunks));
    }
  }
}

// A row's place is its enumerator's: traits_of looks it up by number.
TEST(ScheduleKind, RowsStandInTheOrderOfTheirEnumerators) {
  for (const ScheduleTraits& row : kSchedules) {
    EXPECT_EQ(traits_of(row.kind).name, row.name);
    EXPECT_EQ(*find_schedule(row.name), row.kind);
  }
}

}  // namespace
}  // namespace tombolo::layout
