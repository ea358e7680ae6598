#include "base/control_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "support/folder_test.h"

namespace tombolo {
namespace {

using ::testing::ElementsAre;

class ControlGroup : public FolderTest {
 protected:
  void write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(at(name)).parent_path());
    ASSERT_TRUE(write_file(at(name), text));
  }
};

TEST_F(ControlGroup, TheLeastOfAllAboveIsAllowed) {
  write("proc/self/cgroup", "12:cpu:/old\n0::/job/step\n");
  EXPECT_THAT(control_groups(folder_), ElementsAre(at("sys/fs/cgroup/job/step"),
                                                   at("sys/fs/cgroup/job"), at("sys/fs/cgroup/")));
  EXPECT_EQ(cores_allowed(folder_), std::nullopt);
  write("sys/fs/cgroup/job/step/cpu.max", "max 100000\n");
  EXPECT_EQ(cores_allowed(folder_), std::nullopt);
  write("sys/fs/cgroup/job/cpu.max", "33000 100000\n");
  EXPECT_EQ(cores_allowed(folder_), 0.33);
  write("sys/fs/cgroup/job/step/cpu.max", "150000 100000\n");
  EXPECT_EQ(cores_allowed(folder_), 0.33);
  write("sys/fs/cgroup/job/cpu.max", "300000 100000\n");
  EXPECT_EQ(cores_allowed(folder_), 1.5);
}

TEST_F(ControlGroup, WithoutVersionTwoThereIsNoLimit) {
  EXPECT_EQ(cores_allowed(folder_), std::nullopt);
  for (const char* text : {"", "max", "max ", "5", "5 ", "0 0\n", "-1 100000\n", "1e999 1\n"}) {
    write("sys/fs/cgroup/cpu.max", text);
    EXPECT_EQ(cores_allowed(folder_), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace tombolo
