#include "lab/islands/kernel_settings.h"

#include <gtest/gtest.h>

namespace tombolo::islands {
namespace {

cluster::Cluster row(std::optional<Bytes> first, std::optional<Bytes> second) {
  return {.datacenters = {{.name = "porto"}, {.name = "lisbon"}, {.name = "faro"}},
          .wan = {{.between = {"porto", "lisbon"}, .tcp_window = first},
                  {.between = {"lisbon", "faro"}, .tcp_window = second}}};
}

std::string value_of(const std::string& key, const cluster::Cluster& cluster,
                     const std::string& datacenter, double byte_scale = 1) {
  for (const KernelSetting& setting : settings_of(cluster, datacenter, byte_scale)) {
    if (setting.key == key) return setting.value;
  }
  return "";
}

TEST(KernelSettings, ReceiveBufferIsFourTimesTheStatedWindow) {
  EXPECT_EQ(value_of("net.ipv4.tcp_rmem", row(3_MB, 3_MB), "porto"), "4096 131072 12000000");
}

TEST(KernelSettings, ByteScaleDividesTheWindow) {
  // 4 * 3 000 000 / 100 = 120 000, which is also where the buffer starts
  EXPECT_EQ(value_of("net.ipv4.tcp_rmem", row(3_MB, 3_MB), "porto", 100), "4096 120000 120000");
}

TEST(KernelSettings, OfSeveralWindowsTheLargestCounts) {
  EXPECT_EQ(value_of("net.ipv4.tcp_rmem", row(1_MB, 3_MB), "lisbon"), "4096 131072 12000000");
  EXPECT_EQ(value_of("net.ipv4.tcp_rmem", row(1_MB, 3_MB), "porto"), "4096 131072 4000000");
}

TEST(KernelSettings, ALinkWithoutAWindowNeedsALargeBuffer) {
  EXPECT_EQ(value_of("net.ipv4.tcp_rmem", row(3_MB, std::nullopt), "lisbon"),
            "4096 131072 134217728");
}

// 3 MB are 2072 segments, a sixteenth of them more than 40; a hundredth of it are 20.7.
TEST(KernelSettings, AFrameIsSmallBesideAWindow) {
  const std::string key = "net.ipv4.tcp_min_tso_segs";
  EXPECT_EQ(value_of(key, row(3_MB, 3_MB), "porto"), "40");
  EXPECT_EQ(value_of(key, row(3_MB, 3_MB), "porto", 10), "13");
  EXPECT_EQ(value_of(key, row(3_MB, 3_MB), "porto", 100), "2");
  EXPECT_EQ(value_of(key, row(3_MB, std::nullopt), "lisbon", 100), "40");
}

TEST(KernelSettingsDeathTest, AreOfADatacenterAndItsBytes) {
  EXPECT_DEATH(settings_of(row(3_MB, 3_MB), "tokyo", 1), "tokyo of 3 datacenters");
  EXPECT_DEATH(settings_of(row(3_MB, 3_MB), "porto", 0.5), "bytes divided by 0.5");
}

}  // namespace
}  // namespace tombolo::islands
