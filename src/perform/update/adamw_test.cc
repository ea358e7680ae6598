#include "perform/update/adamw.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace tombolo::update {
namespace {

TEST(AdamW, TakesTheStepComputedByHand) {
  // w = 1, g = 0.5, lr = 0.1, decay = 0.2, betas 0.9 and 0.99, t = 1:
  //   m = 0.1 * 0.5 = 0.05,          m / (1 - 0.9)  = 0.5
  //   v = 0.01 * 0.25 = 0.0025,      v / (1 - 0.99) = 0.25, root 0.5
  //   w = 1 - 0.1 * 0.2 * 1 - 0.1 * 0.5 / 0.5 = 0.88
  // t = 2 with g = -0.25:
  //   m = 0.9 * 0.05 - 0.1 * 0.25 = 0.02,            / 0.19   = 0.105263
  //   v = 0.99 * 0.0025 + 0.01 * 0.0625 = 0.0031,    / 0.0199 = 0.155779, root 0.394688
  //   w = 0.88 * 0.98 - 0.1 * 0.105263 / 0.394688 = 0.8624 - 0.0266700 = 0.8357300
  std::vector<float> w{1}, m{0}, v{0};
  AdamStep step{.learning_rate = 0.1,
                .beta1 = 0.9,
                .beta2 = 0.99,
                .epsilon = 1e-12,
                .weight_decay = 0.2,
                .step = 1};
  adamw(step, w, std::vector<float>{0.5f}, m, v);
  EXPECT_NEAR(m[0], 0.05, 1e-8);
  EXPECT_NEAR(v[0], 0.0025, 1e-9);
  EXPECT_NEAR(w[0], 0.88, 1e-6);
  step.step = 2;
  adamw(step, w, std::vector<float>{-0.25f}, m, v);
  EXPECT_NEAR(w[0], 0.8357300, 1e-6);
}

TEST(AdamW, GivesEveryElementTheSameBitsWhereverItStands) {
  // 37 equal elements: some pass through the widest vectors, some through the scalar rest.
  std::vector<float> w(37, 0.7f), g(37, 0.3f), m(37, 0.1f), v(37, 0.2f);
  adamw({.learning_rate = 1e-3, .step = 5}, w, g, m, v);
  for (const float x : w) EXPECT_EQ(x, w[0]);
}

}  // namespace
}  // namespace tombolo::update
