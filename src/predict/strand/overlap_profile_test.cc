#include "predict/strand/overlap_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tombolo::strand {
namespace {

constexpr const char* kHeader =
    "first,second,first_us,second_us,first_beside_us,second_beside_us,repeats,spread\n";

std::string message_of(const std::string& lines) {
  const Result<Profile> profile = parse_profile(kHeader + lines, "overlap.csv");
  return profile ? "" : profile.error().text();
}

TEST(Profile, ReadsPairsAndTimes) {
  const Profile profile = *parse_profile(std::string("# H100, 2026\n") + kHeader +
                                             "FC1,,412.5,,,,16,0.04\n"
                                             "product,local,400,310,441,352,25,0.05\n",
                                         "overlap.csv");
  ASSERT_EQ(profile.rows.size(), 2U);
  EXPECT_DOUBLE_EQ(profile.rows[0].error(), 0.01);
  EXPECT_EQ(*parse_profile(to_csv(profile), "again.csv"), profile);

  Dag dag;
  dag.add({.name = "LN1", .kind = Kind::kElementwise, .seconds = 1e-5});
  dag.add({.name = "FC1", .seconds = 1e-3, .after = 1});
  EXPECT_EQ(apply_times(profile, dag), (std::vector<double>{0, 0.01}));
  EXPECT_DOUBLE_EQ(dag[1].seconds, 412.5e-6);
  EXPECT_EQ(dag[0].seconds, 1e-5);

  EXPECT_FALSE(measures_all(profile, dag));

  Dag again;
  again.add({.name = "rFC1", .seconds = 1e-3});
  EXPECT_TRUE(measures_all(profile, again));
  EXPECT_EQ(apply_times(profile, again), (std::vector<double>{0.01}));
  EXPECT_DOUBLE_EQ(again[0].seconds, 412.5e-6);

  Dag two = chain(dag, 2);
  EXPECT_EQ(apply_times(profile, two), (std::vector<double>{0, 0.01, 0, 0.01}));

  OverlapTable table;
  apply_pairs(profile, table);
  const Operator gather{.name = "AG", .kind = Kind::kTensor, .stream = Stream::kLocal};
  EXPECT_EQ(table.pace(dag[1], gather),
            pace_of_times({.first = 400, .second = 310, .first_beside = 441, .second_beside = 352},
                          0.01));
}

TEST(Profile, BlamesLineAndColumn) {
  EXPECT_THAT(message_of("FC1,,0,,,,1,0\n"), ::testing::HasSubstr("overlap.csv:2"));
  EXPECT_THAT(message_of("FC1,,0,,,,1,0\n"), ::testing::HasSubstr("must be above 0 us"));
  EXPECT_THAT(message_of("FC1,AG1,10,,,,1,0\n"), ::testing::HasSubstr("second_us"));
  EXPECT_THAT(message_of("FC1,AG1,10,10,12,13,0,0\n"), ::testing::HasSubstr("repeats"));
  EXPECT_THAT(message_of("FC1,AG1,10,10,12,13,1,11\n"), ::testing::HasSubstr("spread"));
  EXPECT_THAT(message_of("F C,AG1,10,10,12,13,1,0\n"), ::testing::HasSubstr("no name of an op"));
  EXPECT_THAT(message_of("product,,10,,,,1,0\n"), ::testing::HasSubstr("is a class"));
  EXPECT_THAT(message_of("A,B,1,1,1,1,1,0\nB,A,1,1,1,1,1,0\n"),
              ::testing::HasSubstr("overlap.csv:3"));
  EXPECT_THAT(message_of(""), ::testing::HasSubstr("without a line"));
}

}  // namespace
}  // namespace tombolo::strand
