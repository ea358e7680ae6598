#include "decide/search/search.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"
#include "decide/search/space.h"
#include "decide/search/why_not.h"

namespace tombolo::search {
namespace {

using cost::Configuration;

// A price that a person can follow: memory is (40 + 10 micro_batch)/(tensor pipeline) GB, less a
// quarter with ZeRO; a device has one unit of work per sequence, and each degree costs something.
class PlainPricer : public Pricer {
 public:
  Bytes memory(const Configuration& c) const override {
    const double whole = 40 + 10 * static_cast<double>(c.micro_batch);
    return Bytes{whole * (c.zero > 0 ? 0.75 : 1) / static_cast<double>(c.tensor * c.pipeline) *
                 1e9};
  }
  Seconds time(const Configuration& c) const override {
    const auto degree = [](int64_t n) { return 0.01 * static_cast<double>(n - 1); };
    const double bubble = static_cast<double>(c.pipeline - 1) /
                          static_cast<double>(c.virtual_stages * c.microbatches());
    return lower_bound(c) * (1 + bubble + degree(c.tensor) * 4 + degree(c.data) +
                             0.02 * static_cast<double>(c.zero));
  }
  Seconds lower_bound(const Configuration& c) const override {
    return Seconds{static_cast<double>(c.global_batch) / static_cast<double>(c.devices())};
  }
  std::vector<std::pair<std::string, Seconds>> parts(const Configuration& c) const override {
    return {{"all", time(c)}};
  }
};

SearchSpace small_space() {
  SearchSpace space;
  space.devices = 8;
  space.domain = 8;
  space.layers = 4;
  space.global_batch = 8;
  space.on(Axis::kTensor) = {1, 2, 4, 8};
  space.on(Axis::kContext) = {1};
  space.on(Axis::kData) = {1, 2, 4, 8};
  space.on(Axis::kPipeline) = {1, 2, 4};
  space.on(Axis::kExpert) = {1};
  space.on(Axis::kVirtualStages) = {1, 2};
  space.on(Axis::kMicrobatch) = {1, 2, 4, 8};
  space.on(Axis::kRecompute) = {0};
  space.on(Axis::kZero) = {0, 1};
  space.on(Axis::kSequenceParallel) = {0};
  return space;
}

TEST(Search, FindsWhatAPersonWouldFind) {
  // 20 GB hold (40 + 10)/(t p) only for t p >= 4, or t p = 2 with ZeRO (18.75, which needs d > 1).
  // On 8 devices t = 2, d = 4 with ZeRO pays 0.04 + 0.03 + 0.02; t = 1, p = 2, d = 4 has a bubble
  // of 1/2 instead; t = 4, d = 2 pays 0.12 + 0.01.
  const PlainPricer pricer;
  const SearchResult result = search(small_space(), pricer, {.top = 2, .memory = 20_GB});
  ASSERT_EQ(result.top.size(), 2u);
  const Configuration& best = result.top[0].configuration;
  EXPECT_EQ(best.tensor, 2);
  EXPECT_EQ(best.data, 4);
  EXPECT_EQ(best.zero, 1);
  EXPECT_DOUBLE_EQ(result.top[0].time.value, 1.09);
  EXPECT_EQ(result.top[1].configuration.tensor, 4);
  EXPECT_DOUBLE_EQ(result.top[1].time.value, 1.13);
}

TEST(Search, SaysOfAFamilyWhatItsBestIsOrWhatItWouldNeed) {
  const PlainPricer pricer;
  SearchSpace space = small_space();
  space.on(Axis::kPipeline) = {1};
  const SearchResult result = search(space, pricer, {.top = 1, .memory = 20_GB});
  int met = 0;
  for (const Family& family : result.families) {
    if (family.axis == Axis::kTensor && family.value == 1) {
      // (40 + 10) x 3/4.
      ++met;
      ASSERT_TRUE(family.closest);
      EXPECT_DOUBLE_EQ(family.closest->memory.value, 37.5e9);
    }
    if (family.axis == Axis::kTensor && family.value == 8) {
      ++met;
      ASSERT_TRUE(family.best);
      EXPECT_DOUBLE_EQ(family.best->time.value, 1.28);
    }
    if (family.axis == Axis::kVirtualStages && family.value == 2) {
      ++met;
      EXPECT_FALSE(family.best || family.closest);  // needs a pipeline
    }
  }
  EXPECT_EQ(met, 3);
}

TEST(Search, NamesTheClosestMissWhereNothingFits) {
  const PlainPricer pricer;
  const SearchResult result = search(small_space(), pricer, {.memory = 1_GB});
  EXPECT_TRUE(result.top.empty());
  ASSERT_TRUE(result.closest);
  // t p = 8 leaves no room for data, hence none for ZeRO: (40 + 10)/8.
  EXPECT_DOUBLE_EQ(result.closest->memory.value, 6.25e9);
  EXPECT_EQ(result.counts.evaluated, 0);
}

// Brute force: every configuration of the space, sorted.
std::vector<Candidate> all_of(const SearchSpace& space, const Pricer& pricer,
                              const SearchOptions& options) {
  std::vector<Candidate> all;
  for_each(space, [&](const Configuration& c) {
    EXPECT_TRUE(belongs(space, c));
    Candidate candidate{.configuration = c, .time = pricer.time(c), .memory = pricer.memory(c)};
    candidate.score = candidate.time.value;
    if (options.objective == Objective::kCost) {
      candidate.score = static_cast<double>(c.devices()) * candidate.time.value *
                        (options.price.value > 0 ? options.price.value : 1);
    }
    if (candidate.memory <= options.memory) all.push_back(candidate);
  });
  std::sort(all.begin(), all.end(), better);
  return all;
}

plan::OpenJob random_job(Random& random) {
  const auto pick = [&](std::initializer_list<int64_t> values) {
    return *(values.begin() + random.below(values.size()));
  };
  plan::OpenJob open;
  const int64_t heads = pick({8, 12, 16, 40});
  model::Model m{.name = "m",
                 .layers = pick({6, 14, 24, 30}),
                 .hidden = heads * pick({64, 128}),
                 .heads = heads,
                 .vocabulary = 32000,
                 .sequence = pick({1024, 4096})};
  m.kv_heads = random.below(2) == 0 ? heads : heads / 4;
  m.ffn = 4 * m.hidden;
  if (random.below(3) == 0) m.experts = model::Experts{.count = 8, .per_token = 2, .ffn = m.ffn};
  open.job.model = m;
  cluster::Datacenter datacenter;
  datacenter.name = "dc";
  datacenter.device = *cluster::catalog_device(random.below(2) == 0 ? "a100-80g" : "h100-80g");
  datacenter.device.memory = Bytes{static_cast<double>(pick({4, 16, 80})) * 1e9};
  datacenter.nodes = pick({1, 2, 5});
  datacenter.devices_per_node = datacenter.scale_up.domain = 8;
  if (random.below(2) == 0) datacenter.price = DollarsPerSecond{2.0 / 3600};
  open.job.cluster.datacenters = {datacenter};
  open.job.training.global_batch = pick({8, 48, 64});
  if (random.below(4) == 0) open.fixed.zero = 1;
  return open;
}

class AgainstNoPruning : public ::testing::TestWithParam<cost::Law> {};

TEST_P(AgainstNoPruning, SameTopAndSameFamilies) {
  const Random seeds(17);
  for (int round = 0; round < 12; ++round) {
    Random random = seeds.stream(fmt::format("round/{}", round));
    SCOPED_TRACE(fmt::format("law {}, seed 17, round {}", to_name(GetParam()), round));
    const plan::OpenJob open = random_job(random);
    const SearchSpace space = *make_space(open, GetParam(), {});
    const std::unique_ptr<Pricer> pricer = *make_pricer(open.job, GetParam());
    SearchOptions options{.objective = random.below(2) == 0 ? Objective::kTime : Objective::kCost,
                          .top = 10,
                          .memory = open.job.cluster.datacenters[0].device.memory,
                          .price = open.job.cluster.datacenters[0].price};
    const std::vector<Candidate> all = all_of(space, *pricer, options);
    const SearchResult found = search(space, *pricer, options);

    ASSERT_EQ(found.top.size(), std::min<size_t>(10, all.size()));
    for (size_t i = 0; i < found.top.size(); ++i) {
      EXPECT_EQ(found.top[i].configuration, all[i].configuration) << i;
      EXPECT_EQ(found.top[i].score, all[i].score) << i;
    }
    for (const Family& family : found.families) {
      const auto best = std::find_if(all.begin(), all.end(), [&](const Candidate& candidate) {
        return value_on(candidate.configuration, family.axis) == family.value;
      });
      ASSERT_EQ(family.best.has_value(), best != all.end());
      if (family.best) {
        EXPECT_EQ(family.best->configuration, best->configuration);
      }
    }
    const SearchCounts& n = found.counts;
    EXPECT_EQ(n.covered, n.evaluated + n.over_memory + n.pruned_by_memory + n.pruned_by_bound);

    options.prune = false;
    const SearchResult whole = search(space, *pricer, options);
    EXPECT_EQ(whole.counts.evaluated, n.covered);
    EXPECT_EQ(whole.counts.feasible, static_cast<int64_t>(all.size()));
    ASSERT_EQ(whole.top.size(), found.top.size());
    for (size_t i = 0; i < found.top.size(); ++i) {
      EXPECT_EQ(whole.top[i].configuration, found.top[i].configuration);
    }
  }
}

// What both cuts rest on.
TEST_P(AgainstNoPruning, BoundsHoldAndMemoryGrowsWithTheMicrobatch) {
  const Random seeds(18);
  for (int round = 0; round < 12; ++round) {
    Random random = seeds.stream(fmt::format("round/{}", round));
    SCOPED_TRACE(fmt::format("law {}, seed 18, round {}", to_name(GetParam()), round));
    const plan::OpenJob open = random_job(random);
    const SearchSpace space = *make_space(open, GetParam(), {});
    const std::unique_ptr<Pricer> pricer = *make_pricer(open.job, GetParam());
    Configuration before;
    Bytes memory_before;
    for_each(space, [&](const Configuration& c) {
      EXPECT_LE(pricer->lower_bound(c), pricer->time(c));
      const Bytes memory = pricer->memory(c);
      Configuration same = c;
      same.micro_batch = before.micro_batch;
      if (same == before) {
        EXPECT_GE(memory, memory_before);
      }
      before = c;
      memory_before = memory;
      double sum = 0;
      for (const auto& [name, part] : pricer->parts(c)) sum += part.value;
      EXPECT_NEAR(sum, pricer->time(c).value, 1e-9 * sum);
    });
  }
}

// Stopped anywhere, the best so far and what is left say how good the best of all can be.
TEST_P(AgainstNoPruning, StoppedItSaysWhatIsLeftToWin) {
  Random random = Random(23).stream("job");
  int stopped = 0;
  for (int round = 0; round < 10; ++round) {
    const plan::OpenJob open = random_job(random);
    const SearchSpace space = *make_space(open, GetParam(), {});
    const std::unique_ptr<Pricer> pricer = *make_pricer(open.job, GetParam());
    SearchOptions options{.top = 3, .memory = 40_GB};
    const SearchResult all = search(space, *pricer, options);
    EXPECT_FALSE(all.stopped);
    for (int asks = 0; asks < 300; asks = asks * 2 + 1) {
      int asked = 0;
      options.stop = [&] { return ++asked > asks; };
      const SearchResult found = search(space, *pricer, options);
      ASSERT_EQ(found.top.empty(), all.top.empty());
      if (all.top.empty()) break;
      EXPECT_LE(std::min(found.left, found.top.front().score), all.top.front().score * (1 + 1e-9));
      if (found.stopped) {
        ++stopped;
      } else {
        EXPECT_EQ(found.top.front().configuration, all.top.front().configuration);
      }
    }
    options.stop = nullptr;
  }
  EXPECT_GT(stopped, 10);
}

TEST_P(AgainstNoPruning, ThreadsChangeNothing) {
  Random random = Random(19).stream("job");
  const plan::OpenJob open = random_job(random);
  const SearchSpace space = *make_space(open, GetParam(), {});
  const std::unique_ptr<Pricer> pricer = *make_pricer(open.job, GetParam());
  SearchOptions options{.top = 20, .memory = 40_GB};
  const SearchResult one = search(space, *pricer, options);
  for (const int threads : {2, 7}) {
    options.threads = threads;
    const SearchResult many = search(space, *pricer, options);
    ASSERT_EQ(many.top.size(), one.top.size());
    for (size_t i = 0; i < one.top.size(); ++i) {
      EXPECT_EQ(many.top[i].configuration, one.top[i].configuration);
    }
    EXPECT_EQ(many.counts.evaluated, one.counts.evaluated);
    EXPECT_EQ(many.counts.pruned_by_bound, one.counts.pruned_by_bound);
    ASSERT_EQ(many.families.size(), one.families.size());
    for (size_t i = 0; i < one.families.size(); ++i) {
      EXPECT_EQ(many.families[i].feasible, one.families[i].feasible);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Laws, AgainstNoPruning,
                         ::testing::Values(cost::Law::kRailOnly, cost::Law::kTombolo));

// A law that forgets a part of what it says of other configurations.
class ForgetfulPricer : public PlainPricer {
 public:
  std::vector<std::pair<std::string, Seconds>> parts(const Configuration& c) const override {
    if (c.tensor > 2) return {};
    return PlainPricer::parts(c);
  }
};

TEST(SearchDeathTest, ASpaceHasDevicesAndDegrees) {
  const PlainPricer pricer;
  SearchSpace space = small_space();
  space.global_batch = 0;
  EXPECT_DEATH(search(space, pricer, {}), "4 layers, a batch of 0");
  space = small_space();
  space.on(Axis::kData) = {0, 1};
  EXPECT_DEATH(search(space, pricer, {}), "data = 0");
  space.on(Axis::kData) = {4, 1};
  EXPECT_DEATH(search(space, pricer, {}), "or not in ascending order");
  EXPECT_DEATH(search(space, pricer, {.top = 0}), "top 0, threads 1");
}

TEST(WhyNotDeathTest, PartsAndAxesAreInOneOrder) {
  const ForgetfulPricer pricer;
  const SearchOptions options{.memory = 20_GB};
  const SearchResult result = search(small_space(), pricer, options);
  EXPECT_DEATH(
      why_not(small_space(), pricer, options, result.families, {result.top.front()}, std::nullopt),
      "an iteration has 0 parts, and the best one 1");
  EXPECT_DEATH(short_list({{.axis = Axis::kData}, {.axis = Axis::kTensor}}),
               "2 reasons do not stand axis by axis");
}

TEST(SpaceDeathTest, CallersKeepTheirPromises) {
  EXPECT_DEATH(static_cast<void>(make_space({}, cost::Law::kTombolo, {.microbatch_max = 0})),
               "limits that leave nothing: .* microbatches up to 0");
  EXPECT_DEATH(with_configuration({}, {}), "1 stages of no model");
  EXPECT_DEATH(static_cast<void>(make_pricer({}, cost::Law::kTombolo)),
               "no model, in 0 datacenters");
}

}  // namespace
}  // namespace tombolo::search
