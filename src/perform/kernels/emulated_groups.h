// Emulated groups of parameters: made-up gradients that are sent as real bytes.
//
// Passes stop at the groups' borders, where the Plan says that they are: a forward pass asks for each
// group before its part, the last backward pass of an iteration makes up a group's gradient after
// its part. Numbers follow from iteration, stage, group, element and replica, and are small and
// whole, so their sum is known to the bit: an update checks it, then lasts its part of the stage's.
//
// Where the exchange is sparse, gradients are noise instead, so that blocks are chosen as they would
// be, and there are parameters: from zero, each update subtracts what came. So parameters plus the
// residuals of all leaders are the negative sum of all that was made up, but for rounding. With local
// steps it is the same: an inner step subtracts the gradient of a datacenter. There are as many numbers
// then as the Plan has, of as many bytes on the wire. Where the exchange is dense there are as many
// floats as make the Plan's bytes.
//
// Memory: the gradients of the groups that are complete and not updated yet; sparse, those of all
// groups, their parameters and the residuals; with local steps also the anchors and momenta.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/hash.h"
#include "perform/kernels/kernels.h"
#include "perform/kernels/parameter_groups.h"
#include "spec/plan/gradient_groups.h"
#include "spec/plan/plan.h"

namespace tombolo::kernels {

class EmulatedGroups final : public ParameterGroups {
 public:
  // Waits until `duration` after `start`.
  using Wait = std::function<void(SimTime start, SimDuration duration)>;

  // updated: called once all groups of a stage are updated, on the thread that updates. Clock and Plan
  // outlive it.
  EmulatedGroups(const plan::Plan& plan, int32_t rank, Clock& clock, bool check_every_number,
                 std::function<void(int32_t stage)> updated);

  // --- the passes
  void begin_iteration(int64_t iteration) { iteration_ = iteration; }
  // Both last `duration` from `start` on, plus their waits for groups.
  Status forward(int32_t stage, SimTime start, SimDuration duration, const Wait& wait);
  // Whole, or the half that makes the gradients of weights.
  void backward(int32_t stage, SimTime start, SimDuration duration, const Wait& wait);

  // --- ParameterGroups
  void watch(GroupWatcher& watcher) override { watcher_ = &watcher; }
  Status last_backward(int32_t stage) override;
  std::span<float> gradient(int32_t stage, int32_t group) override;
  size_t bytes_of_number() const override { return bytes_of_number_; }
  Status update_group(int64_t iteration, int32_t stage, int32_t group) override;
  std::span<float> residual(int32_t stage, int32_t group) override;
  Status update_group_sparsely(int64_t iteration, int32_t stage, int32_t group,
                               const update::SparseGradient& gradient) override;

  update::OuterState outer_state(int32_t stage, int32_t group) override;
  std::vector<float> parameters(int32_t stage, int32_t group) override;
  Status set_parameters(int32_t stage, int32_t group, std::span<const float> values) override;

  // --- the state; nothing where the exchange is dense
  bool has_parameters() const { return has_parameters_; }
  bool is_first() const { return replica_ == 0; }
  void add_views(std::vector<TensorView>& out) const;
  void add_to(RunningDigest& digest) const;
  Status load(const TensorSource& tensors);

 private:
  struct Group {
    plan::GradientGroup in_plan;
    int64_t elements = 0;
    std::vector<float> gradient = {};                   // while it is complete and not updated
    std::vector<float> parameters = {}, residual = {};  // the latter if it leads
    std::vector<float> anchor = {}, momentum = {}, arrived = {};
    std::string name = {};  // in checkpoints
  };
  struct Held {
    std::vector<Group> groups;
    SimDuration update;  // of all of them
    size_t updated = 0;  // groups, in this iteration
    bool is_last = false;
  };
  Held& held(int32_t stage);
  void add_group(const plan::Plan& plan, int32_t rank, int32_t stage,
                 const plan::GradientGroup& in_plan);
  template <class Stages, class Call>
  void for_each_kept(Stages& stages, bool own, bool shared, const Call& call) const;
  void make_up(int32_t stage, int32_t group);
  void end_update(int32_t stage, SimTime start);
  int64_t seed(int64_t iteration, int32_t stage, int32_t group) const;
  Status check(const Group& group, int64_t seed) const;

  Clock& clock_;
  const bool check_every_number_;
  const bool has_parameters_;
  const bool writes_;  // parameters
  const size_t bytes_of_number_;
  const std::function<void(int32_t stage)> updated_;
  const int32_t replica_;
  const int32_t replicas_;
  const std::string suffix_, residual_suffix_;
  std::map<int32_t, Held> stages_;  // those of this rank
  GroupWatcher* watcher_ = nullptr;
  int64_t iteration_ = 0;
};

}  // namespace tombolo::kernels
