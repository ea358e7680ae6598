#include "perform/train/mixture_of_experts.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

namespace tombolo::train {
namespace {

using testing::ElementsAre;

std::vector<int64_t> integers(const at::Tensor& x) {
  return {x.data_ptr<int64_t>(), x.data_ptr<int64_t>() + x.numel()};
}

// Token 0 goes to experts 2 and 0, token 1 to 1 and 2, token 2 to 0 and 2; none to 3.
TEST(MixtureOfExperts, RoutesByTheHighestScores) {
  const at::Tensor scores =
      at::tensor({2.0, 0.0, 3.0, -1.0, 0.0, 5.0, 4.0, 1.0, 9.0, 0.0, 8.0, 7.0}, at::kDouble)
          .view({3, 4});
  const Routing routing = route(scores, 2);
  EXPECT_THAT(routing.counts, ElementsAre(2, 1, 3, 0));
  EXPECT_THAT(integers(routing.by_expert), ElementsAre(1, 4, 2, 0, 3, 5));
  EXPECT_THAT(integers(routing.by_token), ElementsAre(3, 0, 2, 4, 1, 5));
  const double high = 1 / (1 + std::exp(-1.0));  // each time one above the other
  for (int64_t token = 0; token < 3; ++token) {
    EXPECT_NEAR(routing.weights[token][0].item<double>(), high, 1e-15);
    EXPECT_NEAR(routing.weights[token][1].item<double>(), 1 - high, 1e-15);
  }
}

// Every expert computes every token, and what is not chosen counts nothing.
TEST(MixtureOfExperts, EqualsAllExpertsOnAllTokens) {
  constexpr int64_t kTokens = 23, kExperts = 5, kHidden = 7;
  for (const int64_t per_token : {1, 2, 5}) {
    at::manual_seed(3);
    std::vector<at::Tensor> of_x, of_scores, of_matrices, outputs;
    const at::Tensor matrices = at::randn({kExperts, kHidden, kHidden}, at::kDouble);
    const at::Tensor start = at::randn({kTokens, kHidden}, at::kDouble);
    const at::Tensor first = at::randn({kTokens, kExperts}, at::kDouble);
    for (const bool dense : {true, false}) {
      const at::Tensor x = start.clone().set_requires_grad(true);
      const at::Tensor scores = first.clone().set_requires_grad(true);
      const at::Tensor weights = matrices.clone().set_requires_grad(true);
      at::Tensor out;
      if (dense) {
        const at::Tensor bound =
            std::get<0>(at::sort(scores.detach(), 1, true)).select(1, per_token - 1);
        const at::Tensor chosen = scores.detach() >= bound.unsqueeze(1);
        const at::Tensor parts = at::softmax(scores.masked_fill(~chosen, -INFINITY), 1);
        out = at::zeros_like(start);
        for (int64_t i = 0; i < kExperts; ++i)
          out = out + at::gelu(x.mm(weights[i])) * parts.select(1, i).unsqueeze(1);
      } else {
        const Routing routing = route(scores, per_token);
        const auto rows = copies_by_expert(routing, x).split_with_sizes(routing.counts);
        std::vector<at::Tensor> made;
        for (int64_t i = 0; i < kExperts; ++i)
          made.push_back(at::gelu(rows[static_cast<size_t>(i)].mm(weights[i])));
        out = weighted_sum(routing, at::cat(made));
      }
      torch::autograd::backward({out.square().sum()}, {});
      outputs.push_back(out.detach());
      of_x.push_back(x.grad());
      of_scores.push_back(scores.grad());
      of_matrices.push_back(weights.grad());
    }
    for (const auto* both : {&outputs, &of_x, &of_scores, &of_matrices})
      EXPECT_LT((both->at(0) - both->at(1)).abs().max().item<double>(), 1e-11) << per_token;
  }
}

}  // namespace
}  // namespace tombolo::train
