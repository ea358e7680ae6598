// The second interface of Kernels, for those that have parameters: groups of them, whose gradients are
// sent to other replicas while the backward pass is still running.
//
// The Plan says which groups a stage has (plan/gradient_groups.h): 0 is what a forward pass needs
// first. In the last backward pass of an iteration groups become complete in the reverse order, and
// the watcher is called for each. From then on until its update a group's gradient belongs to the
// watcher; passes do not touch it, nor do they read the parameters, until the next iteration's
// forward pass asks for them. So the watcher may sum and update on a thread of its own.
//
//   performing thread              the watcher's thread
//   last_backward(s), backward
//     complete(s, 2)               gradient(s, 2) is summed over the replicas, update_group(s, 2)
//     complete(s, 1)               ...
//   begin_iteration, forward
//     await_ready(s, 0), computes with group 0, await_ready(s, 1), ...
//
// With staleness (group_versions.h) the update may come an iteration later, and its gradient is then
// taken over before the next one is complete.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "perform/update/outer.h"
#include "perform/update/sparse.h"

namespace tombolo::kernels {

// Sums and updates; called on the thread that calls the kernels, within their passes.
class GroupWatcher {
 public:
  virtual ~GroupWatcher() = default;
  // The gradient over all microbatches of this iteration is there. Returns at once.
  virtual void complete(int32_t stage, int32_t group) = 0;
  // Returns when the group's last update is done; fails if it never will be. Costs next to
  // nothing if there is nothing to wait for.
  virtual Status await_ready(int32_t stage, int32_t group) = 0;
};

class ParameterGroups {
 public:
  virtual ~ParameterGroups() = default;

  // Before the first iteration; the watcher outlives the passes.
  virtual void watch(GroupWatcher& watcher) = 0;

  // The next call of backward() or backward_weight() of this stage is the last one of the iteration:
  // in it every group of the stage becomes complete, once. Fails where the iteration must not be
  // counted, such as one whose loss is no number.
  virtual Status last_backward(int32_t stage) = 0;

  // Of a complete group, until its update: all its elements in one order that replicas share.
  virtual std::span<float> gradient(int32_t stage, int32_t group) = 0;

  // Bytes in which each of its numbers goes to other replicas: 4, or 2 for bf16.
  virtual size_t bytes_of_number() const { return sizeof(float); }

  // One step of the optimizer for this group, with the gradient as it is now. Each group once an
  // iteration; while it runs no thread may read its parameters. Any thread, one at a time.
  virtual Status update_group(int64_t iteration, int32_t stage, int32_t group) = 0;

  // --- where the Plan's [exchange] keeps residuals

  // What this rank's datacenter has not sent yet of the group's gradient, or of what its parameters
  // changed by, as long as that; empty where another replica leads (schedule/sparse_exchange.h). The
  // watcher's alone, zeros at first, and part of Kernels::state().
  virtual std::span<float> residual(int32_t stage, int32_t group) = 0;

  // --- where it is sparse

  // Instead of update_group: with these blocks of the gradient, whose other numbers are zero.
  virtual Status update_group_sparsely(int64_t iteration, int32_t stage, int32_t group,
                                       const update::SparseGradient& gradient) = 0;

  // --- where it has local steps: update_group is an inner step then

  // The watcher's alone, as long as the gradient, part of Kernels::state(). At first the anchor is the
  // parameters, the rest is zero.
  virtual update::OuterState outer_state(int32_t stage, int32_t group) = 0;
  // All of a group, in the order of its gradient, with zeros where that has none. Between an update and
  // the next pass, as update_group.
  virtual std::vector<float> parameters(int32_t stage, int32_t group) = 0;
  virtual Status set_parameters(int32_t stage, int32_t group, std::span<const float> values) = 0;
};

}  // namespace tombolo::kernels
