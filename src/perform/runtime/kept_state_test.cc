#include "perform/runtime/kept_state.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "perform/runtime/emulated_kernels.h"
#include "support/test_plan.h"

namespace tombolo::runtime {
namespace {

class KeptStates : public ::testing::Test {
 protected:
  ~KeptStates() override { std::filesystem::remove_all(folder_); }
  int64_t newest() const {
    const auto found = gather_kept(folder_, plan_);
    EXPECT_TRUE(found) << found.error().text();
    return *found ? (*found)->manifest.step : 0;
  }

  const std::string folder_ =
      testing::TempDir() + "/kept-" + testing::UnitTest::GetInstance()->current_test_info()->name();
  const plan::Plan plan_ = make_test_plan({.stages = 1, .steps = 10});
  ManualClock clock_;
  EmulatedKernels kernels_{plan_, 0, clock_};
};

// Stopped within an update, a rank supplies the step before; after it, this one too.
TEST_F(KeptStates, AreOfTheLastStepsThatAreWhole) {
  KeptState kept(folder_, 0, 3);
  ASSERT_TRUE(kept.copy(3, kernels_));
  ASSERT_TRUE(kept.leave(kernels_));
  EXPECT_EQ(newest(), 3);
  kept.updated(4);
  ASSERT_TRUE(kept.leave(kernels_));
  EXPECT_EQ(newest(), 4);
}

using KeptStatesDeathTest = KeptStates;

TEST_F(KeptStatesDeathTest, StepsFollowOneAnother) {
  EXPECT_DEATH(KeptState("", 0, 3), "rank 0 keeps its state nowhere");
  KeptState kept(folder_, 0, 3);
  EXPECT_DEATH(static_cast<void>(kept.copy(4, kernels_)),
               "a copy of step 4, and the kernels hold step 3");
  ASSERT_TRUE(kept.copy(3, kernels_));
  EXPECT_DEATH(static_cast<void>(kept.copy(3, kernels_)), "the kernels hold half an update");
  EXPECT_DEATH(kept.updated(3), "step 3 is done, and step 3 was the one before");
}

}  // namespace
}  // namespace tombolo::runtime
