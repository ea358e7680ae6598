#include "lab/islands/arguments.h"

#include <gtest/gtest.h>

namespace tombolo::islands {
namespace {

using Words = std::vector<std::string>;

TEST(Arguments, LeavesEverythingAfterTwoDashesToTheCommand) {
  const auto arguments =
      parse_arguments({"run", "job.toml", "--byte-scale", "20", "--", "ls", "-l", "--", "--each"});
  ASSERT_TRUE(arguments) << arguments.error().text();
  EXPECT_EQ(arguments->verb, Verb::kRun);
  EXPECT_EQ(arguments->file, "job.toml");
  EXPECT_EQ(arguments->byte_scale, 20);
  EXPECT_FALSE(arguments->each);
  EXPECT_EQ(arguments->command, (Words{"ls", "-l", "--", "--each"}));
}

TEST(Arguments, LeavesTheByteScaleToTheJobWhereNoneIsGiven) {
  EXPECT_EQ(parse_arguments({"run", "job.toml", "--", "true"})->byte_scale, std::nullopt);
}

TEST(Arguments, TakesTheWordsOfExecAsTheyAre) {
  // Open MPI calls its agent like this.
  const auto arguments = parse_arguments({"exec", "paris-0", "orted", "-mca", "ess", "env"});
  ASSERT_TRUE(arguments);
  EXPECT_EQ(arguments->verb, Verb::kExec);
  EXPECT_EQ(arguments->host, "paris-0");
  EXPECT_EQ(arguments->command, (Words{"orted", "-mca", "ess", "env"}));
}

TEST(Arguments, TakesTheMeanOfATraceInMbps) {
  const auto arguments = parse_arguments({"trace", "--mean", "115.7", "--seed", "3"});
  ASSERT_TRUE(arguments) << arguments.error().text();
  EXPECT_EQ(arguments->verb, Verb::kTrace);
  EXPECT_DOUBLE_EQ(arguments->trace.mean.value, 115.7e6 / 8);
  EXPECT_EQ(arguments->trace.seed, 3u);
  EXPECT_EQ(arguments->trace.duration, 600_s);
}

TEST(Arguments, TakesQuantitiesOfATraceWithTheirUnits) {
  const auto arguments =
      parse_arguments({"trace", "--mean", "0.2 Gbps", "--seconds", "2 min", "--step", "250 ms"});
  ASSERT_TRUE(arguments) << arguments.error().text();
  EXPECT_EQ(arguments->trace.mean, 200_Mbps);
  EXPECT_EQ(arguments->trace.duration, 120_s);
  EXPECT_EQ(arguments->trace.step, 250_ms);
  EXPECT_FALSE(parse_arguments({"trace", "--mean", "200 ms"}));
}

TEST(Arguments, HelpsWhereAsked) {
  const auto arguments = parse_arguments({"--help"});
  ASSERT_TRUE(arguments);
  EXPECT_EQ(arguments->verb, Verb::kHelp);
  EXPECT_NE(arguments->text.find("wanem"), std::string::npos);
}

TEST(Arguments, RefusesWhatMakesNoSense) {
  const std::vector<Words> senseless = {
      {},                                                          // no verb
      {"fly"},                                                     // no such verb
      {"run"},                                                     // no file
      {"run", "job.toml"},                                         // no command
      {"run", "job.toml", "ls"},                                   // a command without dashes
      {"run", "job.toml", "--byte-scale", "0.5", "--", "ls"},      // would make links faster
      {"run", "job.toml", "--byte-scale", "many", "--", "ls"},     // no number
      {"run", "job.toml", "--each", "--host", "a-0", "--", "ls"},  // both
      {"wanem", "job.toml", "--", "ls"},                           // wanem runs nothing
      {"exec", "paris-0"},                                         // nothing to run
  };
  for (const Words& words : senseless) {
    const auto arguments = parse_arguments(words);
    ASSERT_FALSE(arguments) << fmt::format("{}", fmt::join(words, " "));
    EXPECT_EQ(arguments.error().exit_code(), 2);
    EXPECT_NE(arguments.error().hint + arguments.error().message, "");
  }
}

}  // namespace
}  // namespace tombolo::islands
