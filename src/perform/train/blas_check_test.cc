#include "perform/train/blas_check.h"

#include <gmock/gmock.h>
#include <stdlib.h>

#include <cstdio>
#include <filesystem>

namespace tombolo::train {
namespace {

using testing::HasSubstr;

TEST(BlasCheck, KnowsNetlibByItsFile) {
  EXPECT_TRUE(is_netlib("/usr/lib/x86_64-linux-gnu/blas/libblas.so.3.11.0"));
  EXPECT_TRUE(is_netlib("/usr/lib/libblas.so.3"));
  EXPECT_FALSE(is_netlib("/usr/lib/x86_64-linux-gnu/openblas-pthread/libblas.so.3"));
  EXPECT_FALSE(is_netlib("/usr/lib/x86_64-linux-gnu/blis-openmp/libblas.so.4"));
  EXPECT_FALSE(is_netlib("/usr/lib/x86_64-linux-gnu/openblas-pthread/libopenblasp-r0.3.21.so"));
  EXPECT_FALSE(is_netlib("/opt/intel/mkl/libmkl_rt.so.2"));
}

TEST(BlasCheck, SaysWhatToInstallInsteadOfNetlib) {
  const Status status = check_blas("/usr/lib/x86_64-linux-gnu/blas/libblas.so.3.11.0");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kUnusable);
  EXPECT_THAT(status.error().text(), HasSubstr("slow netlib BLAS"));
  EXPECT_THAT(status.error().text(), HasSubstr("libopenblas0-pthread"));
  EXPECT_FALSE(check_blas(""));
}

TEST(BlasCheck, FindsTheLibraryThatThisProcessCalls) {
  EXPECT_THAT(blas_library(), HasSubstr("/lib"));
  EXPECT_TRUE(std::filesystem::exists(blas_library())) << blas_library();
}

// Run by the next test, in a process whose loader is pointed at netlib.
TEST(BlasCheck, DISABLED_RefusesTheLoadedBlas) { EXPECT_FALSE(check_blas()) << blas_library(); }

TEST(BlasCheck, SeesNetlibWhereTheLoaderIsPointedAtIt) {
  const std::string folder = "/usr/lib/x86_64-linux-gnu/blas";
  if (!std::filesystem::exists(folder + "/libblas.so.3")) {
    GTEST_SKIP() << "no netlib BLAS in " << folder;
  }
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  const std::string command =
      "LD_LIBRARY_PATH=" + folder + " '" + self +
      "' --gtest_also_run_disabled_tests --gtest_filter=BlasCheck.DISABLED_RefusesTheLoadedBlas";
  EXPECT_EQ(std::system(command.c_str()), 0);
}

}  // namespace
}  // namespace tombolo::train
