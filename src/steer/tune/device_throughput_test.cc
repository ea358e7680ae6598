#include "steer/tune/device_throughput.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/random.h"

namespace tombolo::tune {
namespace {

using ::testing::HasSubstr;

std::vector<ThroughputSample> samples_of(const DeviceThroughput& device,
                                         const std::vector<double>& batches) {
  std::vector<ThroughputSample> samples;
  for (const double batch : batches) samples.push_back({batch, device.time(batch)});
  return samples;
}

// ViT-B-16 on an RTX 3090, of StellaTrain's table 2: saturated from 32 on at 148 images a second.
TEST(DeviceThroughput, RisesUntilTheDeviceIsSaturated) {
  const DeviceThroughput device{32, 148};
  EXPECT_DOUBLE_EQ(device.samples_per_second(8), 37);
  EXPECT_DOUBLE_EQ(device.samples_per_second(32), 148);
  EXPECT_DOUBLE_EQ(device.samples_per_second(320), 148);
  EXPECT_DOUBLE_EQ(device.time(8).value, 32.0 / 148);
  EXPECT_DOUBLE_EQ(device.time(64).value, 64.0 / 148);
}

// Every device and model of table 2, from batches on both sides of its saturation.
TEST(DeviceThroughput, IsFoundAgainFromItsTimes) {
  for (const DeviceThroughput device : {DeviceThroughput{32, 118},
                                        {48, 183},
                                        {64, 270},
                                        {20, 99},
                                        {32, 148},
                                        {28, 300},
                                        {16, 80},
                                        {36, 112},
                                        {40, 217}}) {
    const auto found = fit_throughput(samples_of(device, {4, 8, 128, 256}));
    ASSERT_TRUE(found) << found.error().text();
    EXPECT_NEAR(found->saturation / device.saturation, 1, 1e-4);
    EXPECT_NEAR(found->peak / device.peak, 1, 1e-4);
  }
}

// 64 and 128 at 150 a second say nothing of a saturation below 64: it stays at 32. 8 and 16 in 0.2 s
// say that saturation / peak is 0.2 s: of what was known, (32, 148), the nearest such pair in
// logarithms is (32 k, 148 / k) with k^2 = 0.2 * 148 / 32 = 0.925.
TEST(DeviceThroughput, KeepsWhatSamplesDoNotShow) {
  const std::vector<ThroughputSample> above = {{64, Seconds{64.0 / 150}},
                                               {128, Seconds{128.0 / 150}}};
  const auto a = fit_throughput(above, DeviceThroughput{32, 148});
  ASSERT_TRUE(a);
  EXPECT_NEAR(a->saturation, 32, 0.01);
  EXPECT_NEAR(a->peak, 150, 0.01);
  const std::vector<ThroughputSample> below = {{8, Seconds{0.2}}, {16, Seconds{0.2}}};
  const auto b = fit_throughput(below, DeviceThroughput{32, 148});
  ASSERT_TRUE(b);
  EXPECT_NEAR(b->saturation, 32 * std::sqrt(0.925), 0.05);
  EXPECT_NEAR(b->peak, 148 / std::sqrt(0.925), 0.2);
}

// For a given saturation the best peak is a mean of logarithms, so that a scan over saturations
// finds the least error by brute force.
TEST(DeviceThroughput, NoOtherPairIsCloserToNoisySamples) {
  Random random = Random(7).stream("device-throughput");
  for (int round = 0; round < 50; ++round) {
    const DeviceThroughput device{std::exp(5 * random.uniform()), std::exp(7 * random.uniform())};
    std::vector<ThroughputSample> samples;
    for (int i = 0; i < 10; ++i) {
      const double batch = 1 + static_cast<double>(random.below(256));
      samples.push_back({batch, device.time(batch) * std::exp(0.05 * random.normal())});
    }
    const auto error = [&](double saturation, double peak) {
      double sum = 0;
      for (const ThroughputSample& s : samples) {
        const double log = std::log(std::max(s.batch, saturation) / peak / s.time.value);
        sum += log * log;
      }
      return sum;
    };
    double least = kInfinity;
    for (double saturation = 0.5; saturation < 600; saturation *= 1.002) {
      double log = 0;
      for (const ThroughputSample& s : samples) {
        log += std::log(std::max(s.batch, saturation) / s.time.value) / 10;
      }
      least = std::min(least, error(saturation, std::exp(log)));
    }
    const auto found = fit_throughput(samples);
    ASSERT_TRUE(found);
    EXPECT_LE(error(found->saturation, found->peak), least * 1.001 + 1e-4) << "round " << round;
  }
}

TEST(DeviceThroughput, RefusesWhatIsNoSample) {
  EXPECT_THAT(fit_throughput({}).error().text(), HasSubstr("no samples"));
  const std::vector<ThroughputSample> bad = {{8, Seconds{0.1}}, {0, Seconds{0.1}}};
  EXPECT_THAT(fit_throughput(bad).error().text(), HasSubstr("sample 1 of a device: a batch of 0"));
  const std::vector<ThroughputSample> endless = {{8, Seconds{kInfinity}}};
  EXPECT_EQ(fit_throughput(endless).error().code, ErrorCode::kUnusable);
  const std::vector<ThroughputSample> good = {{8, Seconds{0.1}}};
  EXPECT_THAT(fit_throughput(good, DeviceThroughput{0, 5}).error().text(),
              HasSubstr("saturation 0, peak 5"));
}

}  // namespace
}  // namespace tombolo::tune
