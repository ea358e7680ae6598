#include "spec/cluster/islands.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace tombolo::cluster {
namespace {

TEST(Islands, survive_the_environment) {
  const Islands islands{"10.77.0.0/16",
                        20,
                        {{"oregon-0", "oregon", 0, "10.77.0.1", "/proc/1/fd/9"},
                         {"paris-1", "paris", 1, "10.77.1.2", "/proc/1/fd/10"}}};
  ASSERT_EQ(setenv(kIslandsVariable, to_json_text(islands).c_str(), 1), 0);
  const auto read = islands_of_environment();
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(*read, islands);
  EXPECT_EQ(islands.find("paris", 1)->address, "10.77.1.2");
  EXPECT_EQ(islands.find("paris", 0), nullptr);
  unsetenv(kIslandsVariable);
  EXPECT_EQ(islands_of_environment().value(), std::nullopt);
}

TEST(Islands, blame_what_is_no_description) {
  const auto read = parse_islands(R"({"network": "10.77.0.0/16", "byte_scale": 0.5, "hosts": []})");
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().text().find("byte_scale"), std::string::npos) << read.error().text();
}

TEST(Islands, WhatIsWrittenCanBeRead) {
  EXPECT_DEATH(to_json_text(Islands{.byte_scale = 0.5}), "rates divided by 0.5");
}

}  // namespace
}  // namespace tombolo::cluster
