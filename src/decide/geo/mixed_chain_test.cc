#include "decide/geo/mixed_chain.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

#include "base/random.h"
#include "support/hand_law.h"

namespace tombolo::geo {
namespace {

// Embeddings that take no time and no memory: for them chains are no relaxation.
class FreeEmbedding : public HandLaw {
 public:
  explicit FreeEmbedding(const HandLaw& law) : HandLaw(law) {}

  cost::StagePrice stage(size_t z, const cost::Configuration& c,
                         const model::Slice& slice) const override {
    return HandLaw::stage(z, c, {slice.first_layer, slice.layers, false, slice.head});
  }
  cost::DeviceMemory memory(size_t z, const cost::Configuration& c, const model::Slice& slice,
                            int64_t in_flight) const override {
    return HandLaw::memory(z, c, {slice.first_layer, slice.layers, false, slice.head}, in_flight);
  }
};

struct Pipeline {
  uint64_t set = 0;
  Partition partition;
};

// Every pipeline of a setting over two datacenters and more: subsets, orders, stages, layers.
std::vector<Pipeline> all_pipelines(PricedSetting& priced, const cluster::Cluster& cluster) {
  std::vector<Pipeline> all;
  const size_t count = cluster.datacenters.size();
  for (uint64_t set = 1; set < uint64_t{1} << count; ++set) {
    std::vector<size_t> order;
    for (size_t z = 0; z < count; ++z) {
      if (set >> z & 1) order.push_back(z);
    }
    if (order.size() < 2) continue;
    do {
      std::vector<cost::Hop> hops;
      std::vector<int64_t> rooms;
      for (size_t i = 0; i < order.size(); ++i) {
        rooms.push_back(priced.room(order[i]));
        if (i == 0) continue;
        const auto& a = cluster.datacenters[order[i - 1]].name;
        const auto& b = cluster.datacenters[order[i]].name;
        hops.push_back(priced.wan(*cluster.link(a, b), order[i - 1], order[i]));
      }
      for (int64_t p = std::ssize(order); p <= priced.layers(); ++p) {
        compositions(p, rooms, [&](const std::vector<int64_t>& stages) {
          const PartitionProblem problem = partition_problem(priced, order, stages, hops);
          compositions(priced.layers(), std::vector<int64_t>(static_cast<size_t>(p), 99),
                       [&](const std::vector<int64_t>& layers) {
                         int64_t first = 0;
                         for (size_t s = 0; s < layers.size(); ++s) {
                           const PartitionStage& stage = problem.stages[s];
                           if (layers[s] > stage.most[stage.table->row(first)]) return;
                           first += layers[s];
                         }
                         all.push_back({set, price_partition(problem, layers)});
                       });
        });
      }
    } while (std::next_permutation(order.begin(), order.end()));
  }
  return all;
}

// Random jobs over four datacenters of two kinds, one setting each.
void for_random_settings(
    const std::function<void(const plan::OpenJob&, const HandLaw&, const MixedSetting&)>& look) {
  Random random(17);
  for (int round = 0; round < 60; ++round) {
    const bool odd = round % 4 == 0;  // every second layer has experts, and takes another time
    const plan::OpenJob open =
        job_over({{"fast", 1, 2, 1}, {"slow", 2, 1, 1}, {"slow", 1, 3, 1}, {"fast", 1, 1, 1}},
                 round % 3 == 0 ? 0.001 : 2 * random.uniform(),
                 odd ? "[model.experts]\ncount = 2\nper_token = 1\nffn = 64\nevery = 2\n" : "");
    HandLaw law = law_with({0.5 + random.uniform(), 0.5 + random.uniform(), 1 + random.uniform(),
                            0.5 + random.uniform()});
    if (odd) law.odd = 0.5 + random.uniform();
    MixedSetting setting{.tensor = {1, 1, 1, 1}};
    setting.micro_batch = round % 2 == 0 ? 1 : 2;
    if (round % 5 == 0) setting.must_use = {0b0110};
    if (random.uniform() < 0.3) setting.recompute = model::Recompute::kFull;
    look(open, law, setting);
  }
}

TEST(Chains, AreNeverSlowerThanAnyPipeline) {
  int64_t compared = 0;
  for_random_settings(
      [&](const plan::OpenJob& open, const HandLaw& law, const MixedSetting& setting) {
        PricedSetting priced(open.job, law, setting, {});
        Chains chains(priced, open.job.cluster, {2, 4}, {}, {});
        std::map<double, Pipeline> by_total;  // some of all
        for (Pipeline& pipeline : all_pipelines(priced, open.job.cluster)) {
          if (!setting.must_use.empty() && (pipeline.set & setting.must_use.front()) == 0) continue;
          EXPECT_LE(chains.period_min(), pipeline.partition.period * (1 + 1e-9));
          const double total = pipeline.partition.total;
          EXPECT_LE(chains.time_from(pipeline.partition.period), total * (1 + 1e-9));
          by_total.emplace(total, std::move(pipeline));
        }
        int64_t looks = 0;
        for (const auto& [total, pipeline] : by_total) {
          if (++looks > 12) break;
          ++compared;
          const Partition& part = pipeline.partition;
          EXPECT_TRUE(chains.any(part.period).chain);
          const double once = part.round_trip + part.end;
          const ChainAnswer shortest = chains.shortest(part.period, once);
          EXPECT_TRUE(shortest.chain);
          EXPECT_LE(shortest.once, once * (1 + 1e-9));
          EXPECT_LE(chains.shortest(part.period, kInfinity).once, once * (1 + 1e-9));
          const auto sets = chains.sets(part.period);
          ASSERT_TRUE(sets);
          EXPECT_TRUE((*sets)[pipeline.set]);
          EXPECT_GE(chains.period_for(total) * (1 + 1e-9), part.period);
        }
      });
  EXPECT_GT(compared, 500);
}

// No chain has a period that no pipeline has, and the one that is answered has it.
TEST(Chains, HaveThePeriodsOfPipelinesWithAFreeEmbedding) {
  int compared = 0;
  for_random_settings(
      [&](const plan::OpenJob& open, const HandLaw& with_embedding, const MixedSetting& setting) {
        if (with_embedding.odd != 1 || !setting.must_use.empty()) return;
        const FreeEmbedding law(with_embedding);
        PricedSetting priced(open.job, law, setting, {});
        Chains chains(priced, open.job.cluster, {2, 4}, {}, {});
        double least = kInfinity;
        std::map<uint64_t, double> least_of;
        for (const Pipeline& pipeline : all_pipelines(priced, open.job.cluster)) {
          double& of_set = least_of.try_emplace(pipeline.set, kInfinity).first->second;
          of_set = std::min(of_set, pipeline.partition.period);
          least = std::min(least, of_set);
        }
        if (least == kInfinity) {
          EXPECT_FALSE(chains.any(1e9).chain);
          return;
        }
        ++compared;
        EXPECT_FALSE(chains.any(least * (1 - 1e-6)).chain);
        const auto sets = chains.sets(least);
        ASSERT_TRUE(sets);
        for (const auto& [set, period] : least_of) EXPECT_EQ((*sets)[set], period <= least) << set;
        const ChainAnswer answer = chains.any(least);
        ASSERT_TRUE(answer.chain);
        std::vector<cost::Hop> hops;
        const auto& places = open.job.cluster.datacenters;
        for (size_t i = 1; i < answer.chain->order.size(); ++i) {
          const size_t a = answer.chain->order[i - 1], b = answer.chain->order[i];
          hops.push_back(priced.wan(*open.job.cluster.link(places[a].name, places[b].name), a, b));
        }
        // Told that microbatches are many, the exact partition finds the period as well.
        PartitionProblem problem =
            partition_problem(priced, answer.chain->order, answer.chain->stages, hops);
        problem.microbatches = 1'000'000;
        const auto exact = best_partition(problem, kInfinity);
        ASSERT_TRUE(exact);
        EXPECT_NEAR(exact->period, least, 1e-6 * least);
      });
  EXPECT_GT(compared, 15);
}

TEST(Chains, KeepToTheSizesAndTheStagesThatAreAsked) {
  const plan::OpenJob open =
      job_over({{"fast", 1, 2, 1}, {"slow", 2, 1, 1}, {"slow", 1, 3, 1}}, 0.01);
  const HandLaw law = law_with({1, 1, 1});
  MixedSetting setting{.tensor = {1, 1, 1}, .recompute = model::Recompute::kFull};
  PricedSetting priced(open.job, law, setting, {});
  for (const int64_t wanted : {2, 4, 6}) {
    const ChainAnswer answer = Chains(priced, open.job.cluster, {2, 3}, wanted, {}).any(kInfinity);
    ASSERT_TRUE(answer.chain) << wanted;
    const auto& stages = answer.chain->stages;
    EXPECT_EQ(std::accumulate(stages.begin(), stages.end(), int64_t{0}), wanted);
  }
  EXPECT_FALSE(Chains(priced, open.job.cluster, {2, 3}, 7, {}).any(kInfinity).chain);
  const ChainAnswer three = Chains(priced, open.job.cluster, {3, 3}, {}, {}).any(kInfinity);
  ASSERT_TRUE(three.chain);
  EXPECT_EQ(three.chain->order.size(), 3u);
  // Asked to stop it knows nothing.
  EXPECT_FALSE(
      Chains(priced, open.job.cluster, {2, 3}, {}, [] { return true; }).any(kInfinity).known);
}

}  // namespace
}  // namespace tombolo::geo
