#include "perform/state/memory_budget.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "support/folder_test.h"

namespace tombolo::state {
namespace {

class MemoryRooms : public FolderTest {
 protected:
  void write(const std::string& path, const std::string& text) {
    const std::string whole = at(path);
    ASSERT_TRUE(make_directories(whole.substr(0, whole.rfind('/'))));
    ASSERT_TRUE(write_file(whole, text));
  }
  std::optional<int64_t> available() const { return memory_available(folder_); }
};

TEST_F(MemoryRooms, AreWhatTheHostCanStillGive) {
  EXPECT_EQ(available(), std::nullopt);
  write("proc/meminfo", "MemTotal:       8000000 kB\nMemAvailable:    3000 kB\nBuffers: 1 kB\n");
  EXPECT_EQ(available(), 3000 * 1024);
  ASSERT_TRUE(memory_available());
  EXPECT_GT(*memory_available(), 0) << "of this machine";
}

// A group may use 5000 bytes, uses 4000, and 1500 of these are inactive pages of files.
TEST_F(MemoryRooms, AreWhatControlGroupsAllow) {
  write("proc/meminfo", "MemAvailable: 3000 kB\n");
  write("proc/self/cgroup", "0::/job/step\n");
  write("sys/fs/cgroup/job/step/memory.max", "5000\n");
  write("sys/fs/cgroup/job/step/memory.current", "4000\n");
  write("sys/fs/cgroup/job/step/memory.stat", "anon 2500\nfile 1500\ninactive_file 1500\n");
  EXPECT_EQ(available(), 2500);
  write("sys/fs/cgroup/job/memory.max", "9000\n");
  write("sys/fs/cgroup/job/memory.current", "8000\n");
  EXPECT_EQ(available(), 1000) << "the group above";
  write("sys/fs/cgroup/job/memory.max", "max\n");
  EXPECT_EQ(available(), 2500);
  write("sys/fs/cgroup/job/step/memory.current", "9000\n");
  EXPECT_EQ(available(), 0);
}

// In a container the group is the root that is seen there.
TEST_F(MemoryRooms, AreWhatAContainerAllows) {
  write("proc/meminfo", "MemAvailable: 3000 kB\n");
  write("sys/fs/cgroup/memory.max", "5000");
  write("sys/fs/cgroup/memory.current", "4000");
  EXPECT_EQ(available(), 1000);
}

TEST(Rooms, AreForAllRanksOfAHostAtOnceAndLeaveHalf) {
  std::optional<int64_t> free = 800;
  const Room room = half_of_the_host(4, [&] { return free; });
  EXPECT_TRUE(room(100));
  EXPECT_FALSE(room(101));
  free = 400;
  EXPECT_FALSE(room(100)) << "what is available now counts";
  free.reset();
  EXPECT_TRUE(room(100)) << "nobody knows";
}

}  // namespace
}  // namespace tombolo::state
