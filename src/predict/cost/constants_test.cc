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

// Nobody measured the default, so it stands in the middle of the four stacks that were.
TEST(ConstantFiles, DefaultStackIsTheMedianOfThoseMeasured) {
  std::vector<StackConstants> measured;
  StackConstants ours;
  for (const StackConstants& s : constant_files().stacks) {
    if (s.name == "tombolo") {
      ours = s;
    } else if (s.attention == Attention::kFlash) {
      measured.push_back(s);
    }
  }
  ASSERT_EQ(measured.size(), 4u);
  const auto expect_median = [&](auto member) {
    std::vector<double> values;
    for (const StackConstants& s : measured) values.push_back(member(s));
    std::sort(values.begin(), values.end());
    const double middle = (values[1] + values[2]) / 2;
    EXPECT_NEAR(member(ours), middle, 0.01 * middle + 1e-12);
  };
  expect_median([](const StackConstants& s) { return s.flash_speed; });
  expect_median([](const StackConstants& s) { return s.layer_passes; });
  expect_median([](const StackConstants& s) { return s.mlp_passes; });
  expect_median([](const StackConstants& s) { return s.expert_passes; });
  expect_median([](const StackConstants& s) { return s.fp8_passes; });
  expect_median([](const StackConstants& s) { return s.backward_passes; });
  expect_median([](const StackConstants& s) { return s.logit_bytes; });
  expect_median([](const StackConstants& s) { return s.host_layer.value; });
  expect_median([](const StackConstants& s) { return s.host_experts.value; });
  expect_median([](const StackConstants& s) { return s.host_micro_batch.value; });
  expect_median([](const StackConstants& s) { return s.host_iteration.value; });
  expect_median([](const StackConstants& s) { return s.tensor_overlap; });
  expect_median([](const StackConstants& s) { return s.gradient_overlap; });
  expect_median([](const StackConstants& s) { return s.parameter_overlap; });
  expect_median([](const StackConstants& s) { return s.pipeline_overlap; });
  expect_median([](const StackConstants& s) { return s.expert_overlap; });
  expect_median([](const StackConstants& s) { return s.gradient_bytes; });
}

// The same release on every device: Megatron-LM of 2022, without fused attention, has a name of its
// own.
TEST(FindConstants, TakesTheReleaseThatIsNamed) {
  for (const char* device : {"a100-80g", "v100-32g", "h100-80g", "b200"}) {
    EXPECT_EQ(find_constants(with(device), "megatron")->stack.attention, Attention::kFlash);
    EXPECT_EQ(find_constants(with(device), "megatron-2022")->stack.attention, Attention::kUnfused);
  }
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
  EXPECT_THAT(find_constants(with("a100-80g"), "moon").error().hint, HasSubstr("megatron-2022"));
  cluster::Datacenter d = with("a100-80g");
  d.scale_out.fabric = "string";
  EXPECT_THAT(find_constants(d, "nemo").error().text(), HasSubstr("scale_out.fabric"));
  EXPECT_THAT(find_constants(d, "nemo").error().hint, HasSubstr("omni-path"));
  d.scale_out.fabric = "omni-path";
  EXPECT_EQ(find_constants(d, "nemo")->scale_out.name, "omni-path");
}

}  // namespace
}  // namespace tombolo::cost
