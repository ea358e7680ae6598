#include "train/cpu_ops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "base/random.h"

namespace tombolo::train {
namespace {

using Numbers = std::vector<double>;

Numbers draw(size_t size, const char* name) {
  Random random = Random(9).stream(name);
  Numbers numbers(size);
  for (double& number : numbers) number = random.normal();
  return numbers;
}

double dot(const Numbers& a, const Numbers& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// (f(x + e) - f(x - e)) / 2e, for every x of `inputs` in turn.
void expect_gradient(Numbers& inputs, const Numbers& gradient, const std::function<double()>& f) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const double value = inputs[i], e = 1e-5;
    inputs[i] = value + e;
    const double above = f();
    inputs[i] = value - e;
    const double below = f();
    inputs[i] = value;
    ASSERT_NEAR(gradient[i], (above - below) / (2 * e), 1e-8) << i;
  }
}

TEST(RmsNorm, EqualsTheFormulaByHand) {
  // x = (3, 4): mean square 12.5; with epsilon 3.5 the root is 4, so y = (3/4, 4/4 * 2).
  const Numbers x{3, 4}, weight{1, 2};
  Numbers y(2), inverse(1);
  rms_norm_forward(1, 2, x.data(), weight.data(), 3.5, y.data(), inverse.data());
  EXPECT_DOUBLE_EQ(inverse[0], 0.25);
  EXPECT_DOUBLE_EQ(y[0], 0.75);
  EXPECT_DOUBLE_EQ(y[1], 2);
}

TEST(RmsNorm, GradientsEqualFiniteDifferences) {
  const int64_t rows = 3, columns = 21;  // 16 in lanes and a rest of 5
  Numbers x = draw(63, "x"), weight = draw(21, "weight");
  const Numbers upstream = draw(63, "upstream");
  const auto f = [&] {
    Numbers y(63), inverse(3);
    rms_norm_forward(rows, columns, x.data(), weight.data(), 1e-5, y.data(), inverse.data());
    return dot(y, upstream);
  };
  Numbers y(63), inverse(3), dx(63), dweight(21);
  rms_norm_forward(rows, columns, x.data(), weight.data(), 1e-5, y.data(), inverse.data());
  rms_norm_backward(rows, columns, upstream.data(), x.data(), weight.data(), inverse.data(),
                    dx.data(), dweight.data());
  expect_gradient(x, dx, f);
  expect_gradient(weight, dweight, f);
}

TEST(Swiglu, EqualsTheFormulaAndItsGradientsFiniteDifferences) {
  Numbers gate = draw(19, "gate"), up = draw(19, "up");
  const Numbers upstream = draw(19, "upstream");
  Numbers y(19), dgate(19), dup(19);
  swiglu_forward(19, gate.data(), up.data(), y.data());
  for (size_t i = 0; i < 19; ++i) {
    EXPECT_NEAR(y[i], gate[i] / (1 + std::exp(-gate[i])) * up[i], 1e-15);
  }
  swiglu_backward(19, upstream.data(), gate.data(), up.data(), dgate.data(), dup.data());
  const auto f = [&] {
    Numbers out(19);
    swiglu_forward(19, gate.data(), up.data(), out.data());
    return dot(out, upstream);
  };
  expect_gradient(gate, dgate, f);
  expect_gradient(up, dup, f);
}

TEST(Swiglu, StaysFiniteFarFromZero) {
  const std::vector<float> gate{-200, -90, 0, 90, 200}, up(5, 1.0f);
  std::vector<float> y(5);
  swiglu_forward(5, gate.data(), up.data(), y.data());
  EXPECT_NEAR(y[0], 0, 1e-30);
  EXPECT_NEAR(y[1], 0, 1e-30);
  EXPECT_EQ(y[2], 0);
  EXPECT_FLOAT_EQ(y[3], 90);
  EXPECT_FLOAT_EQ(y[4], 200);
}

}  // namespace
}  // namespace tombolo::train
