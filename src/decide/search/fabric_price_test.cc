#include "decide/search/fabric_price.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/job_texts.h"

namespace tombolo::search {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

plan::Job job(std::string text, const std::string& from = "", const std::string& to = "") {
  if (!from.empty()) text.replace(text.find(from), from.size(), to);
  const Result<plan::Job> read = plan::parse_job(text, "job.toml");
  EXPECT_TRUE(read) << read.error().text();
  return read ? *read : plan::Job{};
}

// Radix 64. Clos: 3 tiers, 5 ports at 748 and 6 transceivers at 374 per GPU: 5,984 dollars.
// Rail-only, rails of 128: 2 tiers, 3 x 748 + 4 x 374 = 3,740. Over 3 years = 26,280 hours that is
// 0.227702 and 0.142314 an hour beside 2 of the GPU: 2.227702 / 2.142314 = 1.039857.
TEST(FabricPrice, OfADenseJobByHand) {
  const FabricPrices prices = *price_fabrics(job(test::kGptOn32768), 10_s, {});
  EXPECT_EQ(prices.size.gpus, 32768);
  EXPECT_EQ(prices.size.domain, 256);
  EXPECT_DOUBLE_EQ(prices.clos.per_gpu.value, 5984);
  EXPECT_DOUBLE_EQ(prices.rail_only.per_gpu.value, 3740);
  EXPECT_NEAR(prices.clos.network_rate.value * 3600, 5984.0 / 26280, 1e-12);
  EXPECT_EQ(prices.rail_only.iteration, 10_s);
  EXPECT_NEAR(prices.clos.cost.value, 32768 * 10 * (2 + 5984.0 / 26280) / 3600, 1e-6);
  EXPECT_NEAR(prices.gain(), (2 + 5984.0 / 26280) / (2 + 3740.0 / 26280) - 1, 1e-12);
  EXPECT_NEAR(prices.gain(), 0.039857, 1e-6);
  EXPECT_THAT(prices.notes, Contains(HasSubstr("leaves the network out")));
  EXPECT_THAT(prices.notes, Not(Contains(HasSubstr("for other rails"))));
}

// The same price with the Clos in it: 2 an hour on Clos, less the difference on rails.
TEST(FabricPrice, OfAPriceThatIncludesTheNetwork) {
  const FabricPrices prices =
      *price_fabrics(job(test::kGptOn32768), 10_s, {.price_includes_network = true});
  EXPECT_NEAR(prices.clos.cost.value, 32768 * 10 * 2.0 / 3600, 1e-6);
  EXPECT_NEAR(prices.gain(), 2 / (2 - (5984.0 - 3740) / 26280) - 1, 1e-12);
}

// A GPU sends each of 16 a shard, for 4 layers, 4 exchanges each, 4 microbatches:
//   1024 x 4096 x 2 bytes x 2 experts / 16 = 1 MiB;  x 4 x 4 x 4 = 64 MiB
// Equation 21 less 20 with x = 8, y = 2: y (x-1) D / C_F = 14 x 64 MiB / 900 GB/s = 1.043916 ms,
// and (p-1)/(v m) = 1/4 of it for the other stage: 1.304895 ms.
TEST(FabricPrice, ForwardsTokensOfExpertsByHand) {
  const FabricPrices prices = *price_fabrics(job(test::kExpertsOn64), 1_s, {});
  EXPECT_EQ(prices.clos.iteration, 1_s);
  EXPECT_NEAR(prices.rail_only.forwarding / 1_ms, 1.25 * 14 * 64 * 1048576 / 900e9 * 1e3, 1e-9);
  EXPECT_NEAR(prices.rail_only.iteration.value, 1.001304895, 1e-9);
  // 64 GPUs share one switch on either fabric: nothing is saved, the forwarding is lost.
  EXPECT_EQ(prices.clos.parts.cost, prices.rail_only.parts.cost);
  EXPECT_NEAR(prices.gain(), 1 / 1.001304895 - 1, 1e-9);
}

TEST(FabricPrice, ForwardsNothingForExpertsOfOneDomain) {
  EXPECT_EQ(price_fabrics(job(test::kExpertsOn64, "expert = 16", "expert = 8"), 1_s, {})
                ->rail_only.forwarding,
            0_s);
}

// Longer lives and dearer GPUs make the network matter less; the gain is never negative without
// experts.
TEST(FabricPrice, GainFallsWithYearsAndWithThePriceOfAGpu) {
  double before = 1;
  for (const double years : {0.5, 1.0, 3.0, 10.0, 1000.0}) {
    const double gain = price_fabrics(job(test::kGptOn32768), 10_s, {.years = years})->gain();
    EXPECT_GT(gain, 0);
    EXPECT_LT(gain, before);
    before = gain;
  }
  const plan::Job dear = job(test::kGptOn32768, "2 USD", "20 USD");
  EXPECT_LT(price_fabrics(dear, 10_s, {})->gain(),
            price_fabrics(job(test::kGptOn32768), 10_s, {})->gain());
  // The iteration's length is none of its business.
  EXPECT_NEAR(price_fabrics(dear, 1_s, {})->gain(), price_fabrics(dear, 77_s, {})->gain(), 1e-12);
}

TEST(FabricPrice, RefusesWhatItCannotPrice) {
  const auto complaint = [](const plan::Job& job, Seconds iteration,
                            const FabricPriceOptions& options) {
    const auto prices = price_fabrics(job, iteration, options);
    if (prices) return std::string("answered");
    EXPECT_EQ(prices.error().code, ErrorCode::kUnusable);
    EXPECT_FALSE(prices.error().hint.empty());
    return prices.error().text();
  };
  EXPECT_THAT(complaint(job(test::kGptOn32768, "price = \"2 USD/device-hour\"", ""), 1_s, {}),
              HasSubstr("price is missing"));
  EXPECT_THAT(complaint(job(test::kGptOn32768), 0_s, {}), HasSubstr("must be positive"));
  EXPECT_THAT(complaint(job(test::kGptOn32768), 1_s, {.years = 0}), HasSubstr("--years 0"));
  EXPECT_THAT(complaint(job(test::kGptOn32768), 1_s, {.radix = 63}), HasSubstr("--radix 63"));
  EXPECT_THAT(
      complaint(job(test::kGptOn32768, "2 USD", "0.1 USD"), 1_s, {.price_includes_network = true}),
      HasSubstr("cannot include"));
  EXPECT_THAT(complaint(job(test::kExpertsOn64, "domain = 8", "domain = 6"), 1_s, {}),
              HasSubstr("parallelism.expert = 16"));
}

}  // namespace
}  // namespace tombolo::search
