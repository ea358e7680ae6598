#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "base/file.h"
#include "support/folder_test.h"
#include "ui/decide_commands/decide_commands.h"
#include "ui/decide_commands/process_group.h"

namespace tombolo::decide_commands {
namespace {

// Rank 0 of a process group whose other ranks give these texts.
class FakeProcessGroup : public ProcessGroup {
 public:
  FakeProcessGroup(int rank, int size, std::vector<std::string> texts)
      : rank_(rank), size_(size), texts_(std::move(texts)) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string broadcast(std::string text) override { return text; }
  std::vector<std::string> gather(std::string) override { return texts_; }

 private:
  const int rank_, size_;
  const std::vector<std::string> texts_;
};

class SweepCommand : public FolderTest {
 protected:
  SweepCommand() {
    options_.job = folder_ + "/job.toml";
    options_.vary = {"training.global_batch=2,4"};
    EXPECT_TRUE(write_file(options_.job, R"(
[training]
global_batch = 2
[parallelism]
pipeline = 1
[stage_times]
forward = "1 ms"
backward = "2 ms"
[[cluster.datacenter]]
name = "oregon"
device = "a100-80g"
)"));
  }
  std::string answer(int rank, int size, std::vector<std::string> texts) {
    FakeProcessGroup group(rank, size, std::move(texts));
    std::ostringstream out;
    const Status status = sweep(options_, out, &group);
    return status ? out.str() : status.error().text();
  }

  SweepCommandOptions options_;
};

// Configuration 1 is the other process's.
TEST_F(SweepCommand, PutsTheRowsOfAGroupTogether) {
  const std::string text = answer(0, 2, {"", "[[1,2,\"too late\",[],[]]]"});
  EXPECT_NE(text.find("2 configurations"), std::string::npos) << text;
  EXPECT_NE(text.find("unusable: too late"), std::string::npos) << text;
}

TEST_F(SweepCommand, SaysWhereTheRowsOfAGroupAreDamaged) {
  EXPECT_NE(answer(0, 2, {"", "[[1,7]]"}).find("rows of another process are damaged"),
            std::string::npos);
  EXPECT_NE(answer(0, 2, {"", "[[1,0,\"\",[1],[2]]]"}).find("rows of another process are damaged"),
            std::string::npos);
}

using SweepCommandDeathTest = SweepCommand;

TEST_F(SweepCommandDeathTest, AGroupKnowsItsSize) {
  EXPECT_DEATH(answer(2, 2, {}), "rank 2 of a group of 2");
  EXPECT_DEATH(answer(0, 3, {"", ""}), "rank 0 of 3 gathered 2 texts");
}

}  // namespace
}  // namespace tombolo::decide_commands
