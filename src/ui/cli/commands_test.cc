#include "ui/cli/commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <map>

#include "ui/cli/key_reference.h"
#include "ui/command/words.h"

namespace tombolo {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::vector<command::CommandWords> all_commands() {
  CLI::App app;
  const auto commands = add_commands(app);
  return command::commands_of(app);
}

TEST(Commands, EachHasAHeadingALineAndAnExample) {
  for (const command::CommandWords& each : all_commands()) {
    EXPECT_FALSE(each.heading.empty()) << each.names[0];
    EXPECT_FALSE(each.line.empty()) << each.names[0];
    EXPECT_TRUE(each.example.starts_with("tombolo ")) << each.names[0];
    EXPECT_THAT(command::help_text(each), HasSubstr("Example:  " + each.example));
  }
}

// A value is named, or all that there are of it are shown; never "TEXT".
TEST(Commands, OptionsStandBelowHeadingsAndNameTheirValues) {
  for (const command::CommandWords& each : all_commands()) {
    for (const command::OptionWords& option : each.options) {
      const std::string name = each.names[0] + " " + option.names[0];
      EXPECT_NE(option.heading, "Options") << name;
      EXPECT_FALSE(option.heading.empty()) << name;
      EXPECT_FALSE(option.text.empty()) << name;
      EXPECT_THAT(option.value, Not(HasSubstr("TEXT"))) << name;
      EXPECT_THAT(option.whole_text(), Not(HasSubstr("left out: " + option.default_value + ")")));
    }
  }
}

// --help lists the commands, one line each.
TEST(Commands, LinesFit) {
  for (const command::CommandWords& each : all_commands()) {
    EXPECT_LE(each.line.size(), 80) << each.line;
  }
}

TEST(Commands, ExamplesParse) {
  for (const command::CommandWords& each : all_commands()) {
    CLI::App app;
    const auto commands = add_commands(app);
    EXPECT_NO_THROW(app.parse(each.example, true)) << each.example;
  }
}

TEST(Commands, ExamplesAreWrongWhereAnOptionIs) {
  CLI::App app;
  const auto commands = add_commands(app);
  EXPECT_THROW(app.parse("tombolo plan job.toml --topp 3", true), CLI::ParseError);
}

TEST(Commands, ATimeIsTakenWithItsUnitAndANumberAloneInSeconds) {
  for (const char* time : {"0.25", "250ms", "\"250 ms\"", "1 "}) {
    CLI::App app;
    const auto commands = add_commands(app);
    EXPECT_NO_THROW(app.parse(std::string("tombolo roofline --seconds ") + time, true)) << time;
  }
  for (const auto& [time, why] :
       {std::pair("2h", "2h is not between 0.1 s and 1 h"), std::pair("-1", "not between"),
        std::pair("5Mbps", "unknown unit \"Mbps\"\n  try \"20 ms\""), std::pair("soon", "soon")}) {
    CLI::App app;
    const auto commands = add_commands(app);
    try {
      app.parse(std::string("tombolo roofline --seconds ") + time, true);
      ADD_FAILURE() << time;
    } catch (const CLI::ParseError& error) {
      EXPECT_THAT(error.what(), HasSubstr(why));
    }
  }
}

// One word for one thing: what one command calls FILE, another does not call otherwise.
TEST(Commands, AnOptionIsTheSameEverywhere) {
  std::map<std::string, std::string> values;
  for (const command::CommandWords& each : all_commands()) {
    for (const command::OptionWords& option : each.options) {
      for (const std::string name : {"--threads", "--report", "--json", "--hardware", "--worker",
                                     "--credentials", "--plain-tcp", "--seconds", "--csv"}) {
        if (option.names[0] != name) continue;
        EXPECT_EQ(values.emplace(name, option.value).first->second, option.value)
            << each.names[0] << " " << name;
      }
    }
  }
  EXPECT_EQ(values.size(), 9);
}

TEST(Commands, FewValuesAreShownAndOthersRefused) {
  CLI::App app;
  const auto commands = add_commands(app);
  try {
    app.parse("tombolo convert job.toml --to xml", true);
    FAIL();
  } catch (const CLI::ParseError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("--to: xml is not one of the known values\n  try one of perf"));
  }
}

TEST(KeyReference, EveryKeySaysWhatItMeans) {
  for (const FileKind& file : file_kinds()) {
    EXPECT_GT(file.keys.size(), 10);
    for (const KeyEntry& key : file.keys) {
      EXPECT_NE(key.text, "") << file.topic << ": " << key.path;
      EXPECT_NE(key.kind, "") << file.topic << ": " << key.path;
    }
  }
}

TEST(KeyReference, ATableIsPrintedByItsName) {
  const FileKind job = file_kinds().front();
  const std::string text = keys_text(job, "exchange");
  EXPECT_THAT(text, HasSubstr("[exchange]"));
  EXPECT_THAT(text, HasSubstr("density"));
  EXPECT_THAT(text, Not(HasSubstr("global_batch")));
  EXPECT_THAT(keys_text(job), HasSubstr("[[cluster.wan]]"));
  EXPECT_THAT(
      keys_markdown(job),
      HasSubstr("| `global_batch` | whole number | required | sequences per iteration; must"));
}

}  // namespace
}  // namespace tombolo
