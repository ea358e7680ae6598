// Muon for matrices of hidden layers (Keller Jordan et al., 2024): the momentum, made nearly
// orthogonal by five iterations of Newton and Schulz, is the direction of the step.
//
//   b = momentum b + g           u = g + momentum b where Nesterov's, else b
//   x = u / max(|u|, 1e-7)       five times  a = x x', x = 3.4445 x + (-4.7750 a + 2.0315 a a) x
//   w = w - lr decay w - lr scaling x
//
// Singular values of x end between about 0.7 and 1.2, not at 1: the coefficients are chosen for
// speed. Scaling is Keller Jordan's, sqrt(max(1, rows / columns)), or Moonshot's ("match_rms_adamw"
// of torch.optim.Muon), 0.2 sqrt(max(rows, columns)), with which AdamW's learning rates and decays
// can be kept. Everything that is not such a matrix (embeddings, heads, norms, biases) is AdamW's.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tombolo::update {

enum class MuonScaling { kOriginal, kMatchAdamW };

struct MuonStep {
  double learning_rate = 0;
  double momentum = 0.95;
  double weight_decay = 0;
  bool nesterov = true;
  MuonScaling scaling = MuonScaling::kOriginal;
};

// The nearly orthogonal matrix, row-major as `matrix`, whose rows * columns numbers must all be
// finite. In float, plain loops: about 10 s (2 s l + s s) multiplications for sides s <= l. A
// matrix of zeros stays one.
std::vector<float> orthogonalised(std::span<const float> matrix, int64_t rows, int64_t columns);

// The three are row-major, rows * columns.
void muon(const MuonStep& step, int64_t rows, int64_t columns, std::span<float> weights,
          std::span<const float> gradients, std::span<float> buffer);

}  // namespace tombolo::update
