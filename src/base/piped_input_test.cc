#include "base/piped_input.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/file.h"

namespace tombolo {
namespace {

TEST(GivenInput, StandsForAFileAsOftenAsItIsRead) {
  const GivenInput input("<job>", "run = 1");
  EXPECT_EQ(*read_file("<job>"), "run = 1");
  EXPECT_EQ(*read_file("<job>"), "run = 1");
  EXPECT_EQ(sibling_path("<job>", "config.json"), "config.json");
}

TEST(GivenInput, EndsWithItsObjectAndTheOuterOneCountsAgain) {
  {
    const GivenInput outer("<job>", "outer");
    {
      const GivenInput inner("<job>", "inner");
      EXPECT_EQ(*read_file("<job>"), "inner");
    }
    EXPECT_EQ(*read_file("<job>"), "outer");
  }
  EXPECT_FALSE(read_file("<job>"));
}

TEST(GivenInput, IsOfItsThreadAlone) {
  const GivenInput here("<job>", "here");
  std::thread([] {
    EXPECT_FALSE(read_file("<job>"));
    const GivenInput there("<job>", "there");
    EXPECT_EQ(*read_file("<job>"), "there");
  }).join();
  EXPECT_EQ(*read_file("<job>"), "here");
}

TEST(GivenInput, MayBeEmptyOrHaveAnyBytes) {
  const GivenInput nothing("<nothing>", "");
  EXPECT_EQ(*read_file("<nothing>"), "");
  const std::string bytes("a\0b", 3);
  const GivenInput some("<some>", bytes);
  EXPECT_EQ(*read_file("<some>"), bytes);
}

}  // namespace
}  // namespace tombolo
