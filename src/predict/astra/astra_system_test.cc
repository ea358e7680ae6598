#include "predict/astra/astra_system.h"

#include <gtest/gtest.h>

namespace tombolo::astra {
namespace {

using graph::CollectiveType;

std::string error_of(const std::string& text) {
  const auto settings = parse_system(text, "system.json");
  EXPECT_FALSE(settings) << text;
  return settings ? "" : settings.error().text();
}

TEST(AstraSystem, ReadsAnExampleOfAstraSim) {
  const auto s = parse_system(R"({
    "scheduling-policy": "FIFO", "endpoint-delay": 10, "active-chunks-per-dimension": 2,
    "preferred-dataset-splits": 4, "all-reduce-implementation": ["ring", "direct4"],
    "all-gather-implementation": ["oneRing"], "collective-optimization": "localBWAware",
    "local-mem-bw": 1600, "boost-mode": 0, "roofline-enabled": 1, "peak-perf": 900, "L": 1})",
                              "system.json");
  ASSERT_TRUE(s) << s.error().text();
  EXPECT_EQ(s->order, CollectiveOrder::kFirstFirst);
  EXPECT_EQ(s->all_reduce_shape, AllReduceShape::kLocalBandwidthAware);
  EXPECT_EQ(s->active_chunks, 2);
  EXPECT_TRUE(s->roofline);
  EXPECT_EQ(s->algorithms.at(CollectiveType::kAllReduce).size(), 2u);
  EXPECT_EQ(s->algorithms.at(CollectiveType::kAllReduce)[1].window, 4);
}

TEST(AstraSystem, KnowsThemisByAllItsNames) {
  for (const char* text :
       {R"("inter-dimension-scheduling": "themis", "intra-dimension-scheduling": "SCF")",
        R"("inter-dimension-scheduler": "offlineGreedy",
           "intra-dimension-scheduler": "smallestFirst")"}) {
    const auto s =
        parse_system(fmt::format(R"({{"preferred-dataset-splits": 1, {}}})", text), "system.json");
    ASSERT_TRUE(s) << s.error().text();
    EXPECT_EQ(s->dimension_order, network::DimensionScheduling::kThemis);
    EXPECT_EQ(s->chunk_choice, network::ChunkChoice::kSmallest);
  }
}

TEST(AstraSystem, RefusesByNameWhatItDoesNotModel) {
  const std::string rest = R"(, "preferred-dataset-splits": 1})";
  EXPECT_NE(error_of(R"({"model-shared-bus": 1)" + rest).find("model-shared-bus"),
            std::string::npos);
  EXPECT_NE(
      error_of(R"({"inter-dimension-scheduling": "onlineGreedy")" + rest).find("inter-dimension"),
      std::string::npos);
  EXPECT_NE(error_of(R"({"all-reduce-implementation": ["torus"])" + rest)
                .find("all-reduce-implementation[0] = \"torus\""),
            std::string::npos);
  EXPECT_NE(error_of(R"({"roofline-enabled": 1)" + rest).find("peak-perf"), std::string::npos);
  EXPECT_NE(error_of(R"({"endpoint_delay": 1)" + rest).find("endpoint-delay"), std::string::npos);
}

TEST(AstraSystem, SaysWhatIsMissingOrWrong) {
  EXPECT_NE(error_of("{}").find("preferred-dataset-splits"), std::string::npos);
  EXPECT_NE(error_of(R"({"preferred-dataset-splits": 0})").find("between 1 and 2^20"),
            std::string::npos);
  EXPECT_NE(
      error_of(R"({"preferred-dataset-splits": 1, "endpoint-delay": -1})").find("endpoint-delay"),
      std::string::npos);
  EXPECT_NE(error_of(R"({"preferred-dataset-splits": "4"})").find("preferred-dataset-splits"),
            std::string::npos);
  error_of("");
  error_of("[1]");
}

}  // namespace
}  // namespace tombolo::astra
