// What a rank holds of one stage from one iteration to the next: its parameters and the optimizer's
// state of each, what of it checkpoints hold, and one step of the optimizer.
//
// Checkpoints hold, per parameter NAME, the tensors NAME, NAME.adam.first_moment,
// NAME.adam.second_moment (F32) and NAME.adam.step (I64, one number); of SGD and Muon NAME.sgd or
// NAME.muon with .momentum and .step. Where updates are sparse, also .last_steps: U32, of each
// block of 16 numbers the step of its last gradient.
//
// Replicas may shard it (ZeRO-1: Rajbhandari et al. 2020). Then each keeps the optimizer's state of
// its own parameters, updates and saves these, and gets the others' new values from their owners; in
// bf16, where passes read copies, it has the float32 values of its own matrices alone. Only whole
// parameters are shared out: Muon needs whole matrices, and checkpoints hold parameters by name,
// whichever replica owned them and will own them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "perform/kernels/kernels.h"
#include "perform/train/stage_module.h"
#include "perform/train/torch_compat.h"
#include "perform/update/adamw.h"
#include "perform/update/momentum.h"
#include "perform/update/sparse.h"
#include "spec/plan/settings.h"

namespace tombolo::train {

inline std::span<float> floats(const at::Tensor& tensor) {
  return {tensor.data_ptr<float>(), static_cast<size_t>(tensor.numel())};
}

// An optimizer's state of a parameter: AdamW has both, the momentum of SGD and Muon is the first.
struct Moments {
  at::Tensor first, second;
};

// How an iteration's update goes.
struct UpdateStep {
  double learning_rate = 0;
  double gradient_factor = 1;  // gradients are multiplied by it (Kernels::scale_gradients)
};

class StageState {
 public:
  // Moments begin at zero.
  StageState(StageModule module, const plan::Optimizer& optimizer);
  // The same of a replica that updates the parameters of which owners[i] == own.
  StageState(StageModule module, const plan::Optimizer& optimizer, std::vector<int32_t> owners,
             int32_t own);

  StageModule& module() { return module_; }
  const StageModule& module() const { return module_; }

  // Failed, naming `doing`, where a parameter that is updated here has no gradient.
  Status check_gradients(const char* doing) const;

  // Of weights, their copies in bfloat16, gradients as far as there are any, and the optimizer's
  // state.
  int64_t bytes() const;

  // One step of the optimizer with the parameters' gradients, which are gone afterwards.
  void update(const UpdateStep& step);
  // The same parameter by parameter, any thread: first that a step begins, then each once, with a
  // gradient of as many elements. Copies that passes read follow at once.
  void begin_update() { ++updates_; }
  void update(const UpdateStep& step, size_t parameter, const at::Tensor& gradient);
  // With some blocks of a gradient (update/sparse.h), after expect_sparse() before all else.
  void expect_sparse();
  bool expects_sparse() const { return !last_steps_.empty(); }
  void update(const UpdateStep& step, size_t parameter, const update::SparseGradient& gradient);

  // What replicas read of each parameter once its owner has updated it, in the order of parameters;
  // nothing if the state is not sharded. Call refresh_copies() after writing there.
  struct Shared {
    at::Tensor values;  // autograd does not hear of what is written there
    int32_t owner = 0;
  };
  std::vector<Shared> shared() const;

  // Of parameters that another replica updates, what passes read: gone until restore_shared() makes room for it,
  // with any values (ZeRO-3). Graphs of passes that read it before hold on to the same memory.
  void drop_shared();
  void restore_shared();

  // Where they lie: update() and load() write into the very same tensors.
  void add_views(std::vector<kernels::TensorView>& out) const;
  // Equal on all replicas: with sharded state, and experts shared out, of what all of them have.
  void add_to(RunningDigest& digest) const;
  // `step`: of the optimizer, where other stages have loaded one; all must agree.
  Status load(const kernels::TensorSource& tensors, std::optional<int64_t>& step);
  // owners[i] of parameter i; empty: none is shared out.
  const std::vector<int32_t>& owners() const { return owners_; }
  void set_updates(int64_t updates) { updates_ = updates; }

 private:
  plan::OptimizerName optimizer_of(const Parameter& parameter) const;
  double decay_of(const Parameter& parameter) const;
  void apply(const UpdateStep& step, const Parameter& parameter, const Moments& moments,
             at::Tensor gradient) const;
  update::MomentumStep momentum_step(const UpdateStep& step, const Parameter& parameter) const;
  update::AdamStep adam_step(const UpdateStep& step, const Parameter& parameter) const;

  StageModule module_;
  plan::Optimizer optimizer_;
  std::vector<int32_t> owners_;   // one per parameter, or none
  std::vector<Moments> moments_;  // one per parameter, undefined for those of other replicas
  std::vector<std::vector<uint32_t>> last_steps_;  // one per parameter where updates are sparse
  int64_t updates_ = 0;
};

}  // namespace tombolo::train
