// Against the same operations on the same numbers in float64, whose gradients are autograd's.
#include "perform/train/mixed_operations.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <vector>

#include "base/random.h"
#include "perform/train/operations.h"

namespace tombolo::train {
namespace {

// bfloat16 keeps 8 bits: a rounded number is off by up to 2^-9 of it. A gradient of attention comes
// of six that are rounded one after the other.
constexpr double kMost = 6.0 / 512;

using Operation = std::function<at::Tensor(const std::vector<at::Tensor>&)>;

// Numbers that bfloat16 has, in float64.
at::Tensor rounded_normals(at::IntArrayRef sizes, const char* name) {
  Random random = Random(11).stream(name);
  const at::Tensor values = at::empty(sizes, at::kDouble);
  for (int64_t i = 0; i < values.numel(); ++i) values.data_ptr<double>()[i] = random.normal();
  return values.to(at::kBFloat16).to(at::kDouble);
}

// The result, then the gradients of the inputs.
std::vector<at::Tensor> result_and_gradients(const Operation& operation,
                                             const std::vector<at::Tensor>& values,
                                             const std::vector<at::ScalarType>& types) {
  std::vector<at::Tensor> inputs, out;
  for (size_t i = 0; i < values.size(); ++i)
    inputs.push_back(values[i].to(types[i]).detach().clone().set_requires_grad(true));
  const at::Tensor result = operation(inputs);
  torch::autograd::backward({result},
                            {rounded_normals(result.sizes(), "gradient").to(result.scalar_type())});
  out.push_back(result.detach());
  for (const at::Tensor& input : inputs) out.push_back(input.grad());
  return out;
}

// `narrow` gets bfloat16 where a type says so, else float32.
void expect_near_wide(const Operation& operation, const std::vector<at::Tensor>& values,
                      const std::vector<at::ScalarType>& types) {
  const std::vector<at::ScalarType> wide_types(values.size(), at::kDouble);
  const auto wide = result_and_gradients(operation, values, wide_types);
  const auto narrow = result_and_gradients(operation, values, types);
  EXPECT_EQ(narrow[0].scalar_type(), at::kBFloat16);
  for (size_t i = 0; i < wide.size(); ++i) {
    if (i > 0) {
      EXPECT_EQ(narrow[i].scalar_type(), types[i - 1]);
    }
    const double largest = wide[i].abs().max().item<double>();
    const double off = (narrow[i].to(at::kDouble) - wide[i]).abs().max().item<double>();
    EXPECT_GT(largest, 0.1) << i;
    EXPECT_LT(off, kMost * largest) << (i == 0 ? "the result" : "a gradient") << ", " << i;
  }
}

constexpr at::ScalarType kHalf = at::kBFloat16;

TEST(MixedOperations, RmsNormIsThatOfWideNumbers) {
  expect_near_wide([](const auto& in) { return rms_norm(in[0], in[1], 1e-5); },
                   {rounded_normals({7, 48}, "x"), rounded_normals({48}, "weight")},
                   {kHalf, at::kFloat});
}

TEST(MixedOperations, SwigluIsThatOfWideNumbers) {
  expect_near_wide([](const auto& in) { return swiglu(in[0], in[1]); },
                   {rounded_normals({5, 24}, "gate"), rounded_normals({5, 24}, "up")},
                   {kHalf, kHalf});
}

TEST(MixedOperations, GegluIsThatOfWideNumbers) {
  expect_near_wide([](const auto& in) { return geglu(in[0], in[1]); },
                   {rounded_normals({5, 24}, "gate"), rounded_normals({5, 24}, "up")},
                   {kHalf, kHalf});
}

TEST(MixedOperations, AttentionIsThatOfWideNumbers) {
  AttentionShape shape{.samples = 2, .sequence = 7, .heads = 4, .kv_heads = 2, .head_size = 6};
  for (const bool turns : {true, false}) {
    if (!turns) shape.softcap = 1.5;  // below many of the scores
    const auto rotary = turns ? std::optional(RotaryPositions{.theta = 10}) : std::nullopt;
    expect_near_wide(
        [&](const auto& in) {
          // The tables are float32 where activations are bfloat16.
          const auto type = in[0].scalar_type() == kHalf ? at::kFloat : in[0].scalar_type();
          return causal_attention(shape, attention_tables(shape, rotary, type), in[0], in[1],
                                  in[2]);
        },
        {rounded_normals({14, 24}, "query"), rounded_normals({14, 12}, "key"),
         rounded_normals({14, 12}, "value")},
        {kHalf, kHalf, kHalf});
  }
}

TEST(MixedOperations, RotatingBackUndoesIt) {
  const at::Tensor angle = rounded_normals({3, 4}, "angle").to(at::kFloat);
  const at::Tensor x = rounded_normals({2, 5, 3, 8}, "x").to(kHalf);
  const at::Tensor there = mixed::rotate(x, angle.cos(), angle.sin());
  EXPECT_GT((there - x).abs().max().item<float>(), 0.5);
  const at::Tensor back = mixed::rotate(there, angle.cos(), -angle.sin());
  EXPECT_LT((back - x).abs().max().item<float>(), kMost * x.abs().max().item<float>());
}

}  // namespace
}  // namespace tombolo::train
