#include "perform/update/muon.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace tombolo::update {
namespace {

// What five steps do to one singular value.
double mapped(double s) {
  for (int i = 0; i < 5; ++i) s = 3.4445 * s - 4.7750 * std::pow(s, 3) + 2.0315 * std::pow(s, 5);
  return s;
}

// A diagonal matrix stays one, so its singular values pass through the polynomial one by one:
// 3 and 4 have the norm 5, hence 0.6 and 0.8.
TEST(Muon, PassesSingularValuesThroughThePolynomial) {
  const std::vector<float> x = orthogonalised(std::vector<float>{3, 0, 0, 4}, 2, 2);
  EXPECT_NEAR(x[0], mapped(0.6), 1e-5);
  EXPECT_NEAR(x[3], mapped(0.8), 1e-5);
  EXPECT_EQ(x[1], 0);
  EXPECT_EQ(x[2], 0);
}

TEST(Muon, TreatsATallMatrixAsItsTranspose) {
  const std::vector<float> tall{1, 2, -3, 4, 5, -6};  // 3 x 2
  const std::vector<float> wide{1, -3, 5, 2, 4, -6};  // 2 x 3
  const std::vector<float> a = orthogonalised(tall, 3, 2), b = orthogonalised(wide, 2, 3);
  for (size_t i = 0; i < 3; ++i) {
    for (size_t j = 0; j < 2; ++j) EXPECT_EQ(a[i * 2 + j], b[j * 3 + i]) << i << ", " << j;
  }
}

TEST(Muon, BringsEverySingularValueNearOne) {
  // Two rows at right angles, 1 and 10 long: singular values 1 and 10.
  const std::vector<float> x = orthogonalised(std::vector<float>{1, 0, 0, 0, 6, 8}, 2, 3);
  const double first = std::hypot(x[0], x[1], x[2]), second = std::hypot(x[3], x[4], x[5]);
  for (const double s : {first, second}) {
    EXPECT_GT(s, 0.6);
    EXPECT_LT(s, 1.3);
  }
  EXPECT_NEAR(x[0] * x[3] + x[1] * x[4] + x[2] * x[5], 0, 1e-5);
}

TEST(Muon, LeavesZerosAlone) {
  for (const float x : orthogonalised(std::vector<float>(6, 0.0f), 2, 3)) EXPECT_EQ(x, 0);
}

// A row of g = (3, 4) is orthogonalised to mapped(1) (0.6, 0.8), whatever its length. Two steps,
// decay 0.5, lr 0.1: w = 0.95 w - 0.1 scaling mapped(1) (0.6, 0.8).
TEST(Muon, StepsByTheScalingAsked) {
  for (const MuonScaling scaling : {MuonScaling::kOriginal, MuonScaling::kMatchAdamW}) {
    const double by = scaling == MuonScaling::kOriginal ? 1 : 0.2 * std::sqrt(2.0);
    for (const bool nesterov : {false, true}) {
      std::vector<float> w{1, 2}, b{0, 0};
      const MuonStep step{.learning_rate = 0.1,
                          .momentum = 0.9,
                          .weight_decay = 0.5,
                          .nesterov = nesterov,
                          .scaling = scaling};
      double x = 1, y = 2;
      for (int i = 0; i < 2; ++i) {
        muon(step, 1, 2, w, std::vector<float>{3, 4}, b);
        x = 0.95 * x - 0.1 * by * mapped(1) * 0.6;
        y = 0.95 * y - 0.1 * by * mapped(1) * 0.8;
      }
      EXPECT_NEAR(w[0], x, 1e-5);
      EXPECT_NEAR(w[1], y, 1e-5);
      EXPECT_NEAR(b[0], 0.9 * 3 + 3, 1e-5);
    }
  }
}

TEST(Muon, WidensTheStepOfATallMatrix) {
  std::vector<float> w{0, 0, 0, 0}, b(4, 0.0f);
  muon({.learning_rate = 1}, 4, 1, w, std::vector<float>{1, 1, 1, 1}, b);
  for (const float x : w) EXPECT_NEAR(x, -2 * 0.5 * mapped(1), 1e-5);  // sqrt(4 / 1) = 2
}

}  // namespace
}  // namespace tombolo::update
