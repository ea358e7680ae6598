#include "base/cpu_limit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "base/file.h"
#include "support/folder_test.h"

namespace tombolo {
namespace {

class CpuLimit : public FolderTest {
 protected:
  void write(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = at(path);
    std::filesystem::create_directories(file.parent_path());
    ASSERT_TRUE(write_file(file.string(), text));
  }
};

TEST_F(CpuLimit, IsTheLeastOfAGroupAndThoseAboveIt) {
  write("proc/self/cgroup", "0::/job/step\n");
  write("sys/fs/cgroup/job/step/cpu.max", "max 100000\n");
  EXPECT_TRUE(std::isinf(cpu_limit(folder_)));
  write("sys/fs/cgroup/job/cpu.max", "150000 100000\n");
  EXPECT_EQ(cpu_limit(folder_), 1.5);
  write("sys/fs/cgroup/job/step/cpu.max", "25000 100000\n");
  EXPECT_EQ(cpu_limit(folder_), 0.25);
}

TEST_F(CpuLimit, OfVersionOne) {
  write("proc/self/cgroup", "7:memory:/other\n4:cpu,cpuacct:/lab\n3:cpuset:/\n0::/\n");
  write("sys/fs/cgroup/cpu/lab/cpu.cfs_quota_us", "-1\n");
  write("sys/fs/cgroup/cpu/lab/cpu.cfs_period_us", "10000\n");
  EXPECT_TRUE(std::isinf(cpu_limit(folder_)));
  write("sys/fs/cgroup/cpu/lab/cpu.cfs_quota_us", "5000\n");
  EXPECT_EQ(cpu_limit(folder_), 0.5);
}

TEST_F(CpuLimit, IsNoneWhereNobodySays) {
  EXPECT_TRUE(std::isinf(cpu_limit(folder_)));
  write("proc/self/cgroup", "nonsense\n:\n");
  EXPECT_TRUE(std::isinf(cpu_limit(folder_)));
}

}  // namespace
}  // namespace tombolo
