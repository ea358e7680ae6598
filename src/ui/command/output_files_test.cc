#include "ui/command/output_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "support/folder_test.h"

namespace tombolo::command {
namespace {

using ::testing::HasSubstr;

class OutputFilesTest : public FolderTest {
 protected:
  void SetUp() override { ASSERT_TRUE(write_file(at("old"), "before")); }
};

TEST_F(OutputFilesTest, AllAreReplacedTogether) {
  OutputFiles files;
  ASSERT_TRUE(files.add(at("old"), "after"));
  ASSERT_TRUE(files.add("", "not asked for"));
  ASSERT_TRUE(files.add(at("new"), "too"));
  EXPECT_EQ(*read_file(at("old")), "before");
  EXPECT_FALSE(std::filesystem::exists(at("new")));
  ASSERT_TRUE(files.commit());
  EXPECT_EQ(*read_file(at("old")), "after");
  EXPECT_EQ(*read_file(at("new")), "too");
}

TEST_F(OutputFilesTest, OneThatCannotBeWrittenLeavesTheOthers) {
  {
    OutputFiles files;
    ASSERT_TRUE(files.add(at("old"), "after"));
    EXPECT_FALSE(files.add(at("nowhere/new"), "too"));
  }
  EXPECT_EQ(*read_file(at("old")), "before");
  // And nothing half-written next to it.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

TEST_F(OutputFilesTest, OneFileTakesOneAnswer) {
  OutputFiles files;
  ASSERT_TRUE(files.add(at("old"), "after"));
  const Status twice = files.add(at("./old"), "again");
  ASSERT_FALSE(twice);
  EXPECT_THAT(twice.error().text(), HasSubstr("two answers cannot be written to one file"));
}

}  // namespace
}  // namespace tombolo::command
