#include "spec/plan/hardware.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tombolo::plan {
namespace {

Hardware sample() {
  Hardware hardware;
  hardware.machine = "two cores";
  hardware.command = "tombolo profile job.toml";
  hardware.model = *model::preset("byte-3m");
  hardware.micro_batch = 4;
  hardware.precision = "fp32";
  hardware.stages = {{{0, 2, true, false}, "cpu", {12.5_ms, 30_ms, 0_s, 1_ms}, 20, 0.1_ms, 0.2_ms}};
  hardware.links = {{{"west", "east"}, 20.1_ms, 124_MBps}};
  return hardware;
}

TEST(HardwareFile, ReadsBackWhatItWrites) {
  const std::string text = to_json_text(sample());
  EXPECT_EQ(*parse_hardware(text, "h.json"), sample());
  EXPECT_EQ(to_json_text(*parse_hardware(text, "h.json")), text);
}

TEST(HardwareFile, FindsASliceOnItsDevice) {
  EXPECT_NE(sample().find({0, 2, true, false}, "cpu"), nullptr);
  EXPECT_EQ(sample().find({0, 2, true, false}, "a100-80g"), nullptr);
  EXPECT_EQ(sample().find({0, 3, true, false}, "cpu"), nullptr);
}

TEST(HardwareFile, SaysWhatIsWrong) {
  std::string text = to_json_text(sample());
  text.replace(text.find("12.5 ms"), 7, "-1.5 ms");
  const Result<Hardware> negative = parse_hardware(text, "h.json");
  ASSERT_FALSE(negative);
  EXPECT_THAT(negative.error().text(), ::testing::HasSubstr("must not be negative"));
  const Result<Hardware> version = parse_hardware("{\"tombolo_hardware\": 2}", "h.json");
  ASSERT_FALSE(version);
  EXPECT_THAT(version.error().text(), ::testing::HasSubstr("this program reads version 1"));
  const Result<Hardware> job = parse_hardware("[model]\npreset = \"byte-3m\"\n", "job.toml");
  ASSERT_FALSE(job);
  EXPECT_THAT(job.error().text(), ::testing::HasSubstr("try the file that tombolo profile JOB"));
}

}  // namespace
}  // namespace tombolo::plan
