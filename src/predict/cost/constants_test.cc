#include "predict/cost/constants.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace tombolo::cost {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

cluster::Datacenter with(const std::string& device) {
  cluster::Datacenter d;
  d.device = *cluster::catalog_device(device);
  return d;
}

TEST(ConstantFiles, NameDevicesOfTheCatalogOnce) {
  std::set<std::string> seen;
  for (const DeviceConstants& file : constant_files().devices) {
    EXPECT_FALSE(file.devices.empty()) << file.name;
    for (const std::string& device : file.devices) {
      EXPECT_TRUE(cluster::catalog_device(device)) << device;
      EXPECT_TRUE(seen.insert(device).second) << device;
    }
  }
}

// Shares are shares: nothing runs faster than its peak.
TEST(ConstantFiles, ReachAtMostThePeak) {
  for (const DeviceConstants& d : constant_files().devices) {
    for (const double share : {d.matmul_efficiency, d.fp8_efficiency, d.flash_efficiency,
                               d.scores_efficiency, d.memory_efficiency}) {
      EXPECT_GT(share, 0) << d.name;
      EXPECT_LE(share, 1) << d.name;
    }
  }
  for (const FabricConstants& f : constant_files().fabrics) {
    EXPECT_LE(std::max(f.efficiency, f.single_efficiency), 1) << f.name;
  }
  for (const StackConstants& s : constant_files().stacks) {
    for (const double share : {s.tensor_overlap, s.gradient_overlap, s.parameter_overlap,
                               s.pipeline_overlap, s.expert_overlap}) {
      EXPECT_LE(share, 1) << s.name;
    }
  }
}

TEST(FindConstants, TakesTheReleaseThatRanOnTheDevice) {
  EXPECT_EQ(find_constants(with("a100-80g"), "megatron")->stack.name, "megatron");
  EXPECT_EQ(find_constants(with("b200"), "megatron")->stack.name, "megatron-core");
  EXPECT_EQ(find_constants(with("a100-80g"), "megatron-core")->stack.name, "megatron-core");
  EXPECT_EQ(find_constants(with("b200"), "megatron")->scale_up.name, "nvlink5");
  EXPECT_EQ(find_constants(with("emulated:a100-40g"), "fsdp")->device.name, "a100");
}

TEST(FindConstants, SaysWhichDeviceStandsIn) {
  cluster::Datacenter d = with("h100-80g");
  EXPECT_THAT(find_constants(d, "nemo")->assumed, IsEmpty());
  d.device.name = "moon";
  const Constants found = *find_constants(d, "nemo");
  EXPECT_EQ(found.device.name, "h100");
  ASSERT_EQ(found.assumed.size(), 1u);
  EXPECT_THAT(found.assumed[0], HasSubstr("moon: those of h100"));
}

TEST(FindConstants, RefusesUnknownNames) {
  EXPECT_THAT(find_constants(with("a100-80g"), "moon").error().hint, HasSubstr("megatron"));
  cluster::Datacenter d = with("a100-80g");
  d.scale_out.fabric = "string";
  EXPECT_THAT(find_constants(d, "nemo").error().text(), HasSubstr("scale_out.fabric"));
  EXPECT_THAT(find_constants(d, "nemo").error().hint, HasSubstr("omni-path"));
  d.scale_out.fabric = "omni-path";
  EXPECT_EQ(find_constants(d, "nemo")->scale_out.name, "omni-path");
}

}  // namespace
}  // namespace tombolo::cost
