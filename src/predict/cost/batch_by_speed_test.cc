#include "predict/cost/batch_by_speed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "predict/cost/price_plan.h"

namespace tombolo::cost {
namespace {

using ::testing::ElementsAre;

double slowest(const std::vector<Pace>& paces, const std::vector<int64_t>& each) {
  double end = 0;
  for (size_t i = 0; i < paces.size(); ++i) {
    end = std::max(end,
                   paces[i].first.value + static_cast<double>(each[i] - 1) * paces[i].next.value);
  }
  return end;
}

// All ways of dividing: the least time of the slowest.
double best_by_brute_force(const std::vector<Pace>& paces, int64_t left,
                           std::vector<int64_t> each = {}) {
  const auto others = std::ssize(paces) - std::ssize(each) - 1;
  if (others == 0) {
    each.push_back(left);
    return slowest(paces, each);
  }
  double best = 1e300;
  for (int64_t mine = 1; mine <= left - others; ++mine) {
    each.push_back(mine);
    best = std::min(best, best_by_brute_force(paces, left - mine, each));
    each.pop_back();
  }
  return best;
}

TEST(BatchBySpeed, TwiceTheSpeedTakesTwiceAsMany) {
  const std::vector<Pace> paces{{2_s, 2_s}, {1_s, 1_s}};
  EXPECT_THAT(divide_by_pace(paces, 12), ElementsAre(4, 8));
  EXPECT_THAT(divide_by_pace(paces, 2), ElementsAre(1, 1));
  // A long way there and back leaves less time: 9 + 1 x 3 and 1 + 1 x 11.
  EXPECT_THAT(divide_by_pace(std::vector<Pace>{{9_s, 1_s}, {1_s, 1_s}}, 16), ElementsAre(4, 12));
}

TEST(BatchBySpeed, NoDivisionEndsEarlier) {
  Random random(7);
  for (int i = 0; i < 300; ++i) {
    std::vector<Pace> paces;
    for (int64_t p = 1 + random.below(4); p > 0; --p) {
      const Seconds next{0.25 * static_cast<double>(1 + random.below(12))};
      paces.push_back({next * static_cast<double>(1 + random.below(5)), next});
    }
    const int64_t microbatches = std::ssize(paces) + static_cast<int64_t>(random.below(12));
    EXPECT_NEAR(slowest(paces, divide_by_pace(paces, microbatches)),
                best_by_brute_force(paces, microbatches), 1e-9);
  }
}

constexpr const char* kTwoKinds = R"(
[model]
preset = "gpt2"
[[cluster.datacenter]]
name = "lab"
device = "v100-16g"
[[cluster.datacenter]]
name = "cloud"
device = "a100-40g"
[[cluster.wan]]
between = ["lab", "cloud"]
one_way_latency = "20 ms"
node_pair_limit = "100 Mbps"
[training]
global_batch = 24
micro_batch = 2
precision = "fp16"
[parallelism]
pipeline = 1
data = 2
datacenter_per_replica = ["lab", "cloud"]
)";

TEST(UnlikeDevices, EachReplicaTakesTheTimeOfItsOwn) {
  const auto priced = [](const std::string& text) {
    return *make_plan(*plan::parse_job(text, "two.toml"));
  };
  const plan::Plan plan = priced(kTwoKinds);
  ASSERT_EQ(plan.stages.front().elsewhere.size(), 1u);
  EXPECT_EQ(plan.stages.front().elsewhere.front().datacenter, "cloud");
  // What each says of itself with the other one's device beside it.
  std::string swapped = kTwoKinds;
  swapped.replace(swapped.find("[\"lab\", \"cloud\"]\n", swapped.find("per_replica")), 16,
                  "[\"cloud\", \"lab\"]");
  const plan::Plan other = priced(swapped);
  EXPECT_EQ(other.stages.front().cost.forward, plan.cost_on(1, 0).forward);
  EXPECT_EQ(other.cost_on(1, 0).backward, plan.stages.front().cost.backward);
  EXPECT_GT(plan.cost_on(0, 0).forward, plan.cost_on(1, 0).forward);
}

TEST(UnlikeDevices, TakeMicrobatchesBySpeed) {
  const plan::Plan plan = *make_plan(*plan::parse_job(
      std::string(kTwoKinds) + "microbatches_per_replica = \"auto\"\n", "two.toml"));
  // 58.9 ms against 41.7 ms for one: 5 x 58.9 = 295 and 7 x 41.7 = 292 of 12.
  EXPECT_THAT(plan.parallelism.microbatches_per_replica, ElementsAre(5, 7));
  EXPECT_FALSE(plan.parallelism.microbatches_by_speed);
}

}  // namespace
}  // namespace tombolo::cost
