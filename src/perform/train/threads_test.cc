#include "perform/train/threads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "perform/train/blas_check.h"
#include "perform/train/torch_compat.h"
#include "perform/train/torch_kernels.h"
#include "support/tiny_plan.h"

namespace tombolo::train {
namespace {

int64_t chosen(int64_t most, const std::map<int64_t, double>& seconds) {
  return choose_threads(most, [&](int64_t threads) { return seconds.at(threads); });
}

TEST(Threads, MoreAreTakenWhereTheyAreWorthTheirCores) {
  EXPECT_EQ(chosen(1, {}), 1) << "nothing to measure";
  EXPECT_EQ(chosen(2, {{1, 1.0}, {2, 0.55}}), 2);
  EXPECT_EQ(chosen(2, {{1, 1.0}, {2, 0.9}}), 1) << "a core for a tenth";
  EXPECT_EQ(chosen(2, {{1, 1.0}, {2, 1.7}}), 1) << "others keep the cores busy";
  EXPECT_EQ(chosen(4, {{1, 1.0}, {2, 0.6}, {4, 0.55}}), 2);
  EXPECT_EQ(chosen(4, {{1, 1.0}, {2, 0.9}, {4, 0.3}}), 4);
  EXPECT_EQ(chosen(6, {{1, 1.0}, {2, 0.5}, {4, 0.3}, {6, 0.2}}), 6) << "all of them is tried too";
}

TEST(Threads, AreAsManyAsTheJobSays) {
  plan::Plan plan = tiny_plan(1);
  EXPECT_EQ((*make_torch_kernels(plan, 0))->threads(), 1) << "left out";
  EXPECT_EQ(at::get_num_threads(), 1);
  plan.run.threads = 2;
  EXPECT_EQ((*make_torch_kernels(plan, 0))->threads(), 2);
  const bool has_openblas = use_blas_threads(2);
  EXPECT_EQ(at::get_num_threads(), has_openblas ? 1 : 2) << "OpenMP's would spin beside OpenBLAS's";
  plan.run.threads = 0;
  EXPECT_THAT((*make_torch_kernels(plan, 0))->threads(), testing::Ge(1));
  plan.run.threads = 1;
  EXPECT_EQ((*make_torch_kernels(plan, 0))->threads(), 1);
  EXPECT_EQ(at::get_num_threads(), 1);
}

}  // namespace
}  // namespace tombolo::train
