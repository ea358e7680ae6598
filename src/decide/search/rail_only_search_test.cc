#include "decide/search/rail_only_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "base/random.h"

namespace tombolo::search {
namespace {

using ::testing::HasSubstr;

// A GPT of `layers` layers whose other numbers have small factors.
cost::RailOnlyModel small_model(int64_t layers, int64_t hidden) {
  cost::RailOnlyModel m{
      .layers = layers, .hidden = hidden, .heads = 8, .sequence = 96, .vocabulary = 1000};
  m.parameters = 12.0 * static_cast<double>(layers * hidden * hidden);
  return m;
}

cost::RailOnlyMachine machine(BytesPerSecond domain, BytesPerSecond network) {
  return {.peak = 100_TFLOPS,
          .domain_bandwidth = domain,
          .network_bandwidth = network,
          .domain_latency = 1_us,
          .network_latency = 5_us};
}

struct Counted {
  std::optional<Seconds> time;
  int64_t evaluated = 0, feasible = 0;
};

// The constraints read out one by one over every tuple of numbers up to N (degrees) and B (b).
Counted every_tuple(const cost::RailOnlyModel& model, const cost::RailOnlyMachine& machine,
                    const RailOnlySpace& s) {
  Counted out;
  const int64_t n = s.devices;
  const auto up_to = [](int64_t last, auto body) {
    for (int64_t i = 1; i <= last; ++i) body(i);
  };
  const auto judge = [&](const cost::RailOnlySplit& x, int64_t v, int64_t b) {
    const int64_t t = x.tensor.degree(), p = x.pipeline.degree(), d = x.data.degree();
    if (p * d * t != n) return;                                                   // (11)
    if (x.data.domain * x.tensor.domain * x.pipeline.domain != s.domain) return;  // (12)
    if (s.global_batch % d != 0 || (s.global_batch / d) % b != 0) return;         // (13)
    if (model.layers % (p * v) != 0) return;                                      // (18)
    if (model.sequence % t != 0 || model.hidden % t != 0) return;                 // (18)
    if (p == 1 && v > 1) return;  // nothing to interleave
    ++out.evaluated;
    if (cost::rail_only_memory(model, x, s.state_bytes).total() > s.memory) return;  // (19)
    ++out.feasible;
    const Seconds time = cost::rail_only(model, machine, x).total();
    if (!out.time || time < *out.time) out.time = time;
  };
  // (14) to (17): every grid of every degree.
  up_to(n, [&](int64_t t_h) {
    up_to(n / t_h, [&](int64_t t_l) {
      up_to(n / (t_h * t_l), [&](int64_t p_h) {
        up_to(n / (t_h * t_l * p_h), [&](int64_t p_l) {
          up_to(n / (t_h * t_l * p_h * p_l), [&](int64_t d_h) {
            up_to(n / (t_h * t_l * p_h * p_l * d_h), [&](int64_t d_l) {
              for (const int64_t v : s.virtual_stages) {
                up_to(s.global_batch, [&](int64_t b) {
                  cost::RailOnlySplit split{{t_h, t_l}, {p_h, p_l}, {d_h, d_l}};
                  split.virtual_stages = v;
                  split.micro_batch = b;
                  split.global_batch = s.global_batch;
                  judge(split, v, b);
                });
              }
            });
          });
        });
      });
    });
  });
  return out;
}

TEST(RailOnlySearch, EqualsEveryTupleHeldAgainstTheConstraints) {
  Random random(20260401);
  int infeasible = 0;
  for (const int64_t devices : {1, 6, 8, 12, 24}) {
    for (int64_t domain = 1; domain <= devices; ++domain) {
      if (devices % domain != 0) continue;
      const auto model = small_model(4 + 4 * static_cast<int64_t>(random.below(3)), 48);
      const auto rates = machine(100_GBps * (0.1 + random.uniform()), 10_GBps);
      RailOnlySpace space{.devices = devices, .domain = domain, .global_batch = 24};
      space.virtual_stages = {1, 2, 3};
      for (const Bytes memory : {1_GB, 500_KB, 100_KB}) {
        space.memory = memory;
        SCOPED_TRACE(fmt::format("{} devices, domains of {}, {}", devices, domain, brief(memory)));
        const Counted oracle = every_tuple(model, rates, space);
        const auto found = fastest_rail_only(model, rates, space);
        ASSERT_EQ(found.has_value(), oracle.time.has_value());
        if (!found) {
          EXPECT_EQ(found.error().code, ErrorCode::kInfeasible);
          ++infeasible;
          continue;
        }
        EXPECT_EQ(found->time, *oracle.time);
        EXPECT_EQ(found->evaluated, oracle.evaluated);
        EXPECT_EQ(found->feasible, oracle.feasible);
        EXPECT_EQ(found->time, cost::rail_only(model, rates, found->split).total());
        EXPECT_EQ(found->memory, cost::rail_only_memory(model, found->split, 2).total());
      }
    }
  }
  EXPECT_GT(infeasible, 0);
}

// Two devices, one layer, a batch of one: only t = 2 divides. Compute 72 s h^2 (...) as the law has
// it; what is left to choose is whether the pair shares a domain, and it does.
TEST(RailOnlySearch, TakesTheOnlySplitThereIs) {
  const auto model = small_model(1, 48);
  const auto rates = machine(100_GBps, 10_GBps);
  const auto best = fastest_rail_only(model, rates, {.devices = 2, .domain = 2});
  ASSERT_TRUE(best) << best.error().text();
  EXPECT_EQ(best->evaluated, 1);
  EXPECT_EQ(best->split.tensor, (cost::DegreeSplit{2, 1}));
  EXPECT_EQ(best->split.devices(), 2);
}

// "The GPT-1T with 128 GH200 computers yielded O(10000) possible configurations" (appendix C).
TEST(RailOnlySearch, HasAsManyConfigurationsAsThePaperSays) {
  cost::RailOnlyModel gpt_1t{
      .layers = 128, .hidden = 25600, .heads = 160, .sequence = 2048, .vocabulary = 51200};
  gpt_1t.parameters = 1.008e12;
  const auto best = fastest_rail_only(gpt_1t, machine(900_GBps, 50_GBps),
                                      {.devices = 128 * 256, .domain = 256, .global_batch = 4096});
  ASSERT_TRUE(best) << best.error().text();
  EXPECT_GT(best->feasible, 10'000);
  EXPECT_LT(best->evaluated, 100'000);
}

// More of anything never hurts the best split: it may be kept as it is.
TEST(RailOnlySearch, FasterLinksMoreMemoryAndMoreChoiceNeverHurt) {
  const auto model = small_model(8, 96);
  Random random(7);
  int fitted = 0;
  for (int i = 0; i < 200; ++i) {
    RailOnlySpace space{.devices = 96, .domain = 8, .global_batch = 96};
    space.memory = 1_MB * (0.3 + random.uniform());
    space.virtual_stages = {1};
    auto rates = machine(100_GBps * (0.1 + random.uniform()), 10_GBps * (0.1 + random.uniform()));
    const auto before = fastest_rail_only(model, rates, space);
    if (!before) continue;
    ++fitted;
    const auto not_slower = [&](const cost::RailOnlyMachine& m, const RailOnlySpace& s) {
      const auto after = fastest_rail_only(model, m, s);
      ASSERT_TRUE(after);
      EXPECT_LE(after->time, before->time);
    };
    auto more = rates;
    more.domain_bandwidth = 2 * rates.domain_bandwidth;
    not_slower(more, space);
    more = rates;
    more.network_bandwidth = 2 * rates.network_bandwidth;
    not_slower(more, space);
    auto wider = space;
    wider.memory = 2 * space.memory;
    not_slower(rates, wider);
    wider = space;
    wider.virtual_stages = {1, 2, 4};
    not_slower(rates, wider);
  }
  EXPECT_GT(fitted, 150);
}

// The trend of figure 9, for any model: where K divides K', some degree's part in the network takes
// the factor K'/K into the domain, and no term of the law grows while domains are faster than the
// network. Hence the ideal, K = N, is the fastest of all.
TEST(RailOnlySearch, LargerDomainsNeverHurt) {
  Random random(9);
  for (int i = 0; i < 20; ++i) {
    const auto model = small_model(4 + 4 * static_cast<int64_t>(random.below(3)), 96);
    const auto rates = machine(100_GBps * (0.1 + random.uniform()), 10_GBps * random.uniform());
    std::vector<std::pair<int64_t, Seconds>> by_domain;
    for (int64_t domain = 1; domain <= 96; ++domain) {
      if (96 % domain != 0) continue;
      const auto best =
          fastest_rail_only(model, rates, {.devices = 96, .domain = domain, .global_batch = 96});
      ASSERT_TRUE(best) << best.error().text();
      for (const auto& [smaller, time] : by_domain) {
        if (domain % smaller == 0) {
          EXPECT_LE(best->time.value, time.value * (1 + 1e-12)) << domain << " after " << smaller;
        }
      }
      by_domain.emplace_back(domain, best->time);
    }
  }
}

TEST(RailOnlySearch, SaysWhatIsWrongAndWhatWasClosest) {
  const auto model = small_model(4, 48);
  const auto rates = machine(100_GBps, 10_GBps);
  const auto complaint = [&](const RailOnlySpace& space) {
    const auto found = fastest_rail_only(model, rates, space);
    return found ? std::string("found") : found.error().text();
  };
  EXPECT_THAT(complaint({.devices = 8, .domain = 3}), HasSubstr("no whole domains of 3"));
  EXPECT_THAT(complaint({.devices = 0}), HasSubstr("devices = 0"));
  EXPECT_THAT(complaint({.devices = 8, .virtual_stages = {0}}), HasSubstr("virtual_stages = 0"));
  EXPECT_THAT(complaint({.devices = 7}), HasSubstr("no t x p x d = 7"));
  EXPECT_THAT(complaint({.devices = 8, .memory = 1_KB}), HasSubstr("the smallest needs"));
}

TEST(RailOnlySearchDeathTest, AModelHasLayersAndTokens) {
  EXPECT_DEATH(
      static_cast<void>(fastest_rail_only(small_model(0, 64), machine(900_GBps, 50_GBps), {})),
      "a model of 0 layers, 64 hidden and 96 tokens");
}

}  // namespace
}  // namespace tombolo::search
