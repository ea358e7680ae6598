// The tensors of a checkpoint as a Plan with other datacenters, or another [exchange], asks for them
// (docs/decisions/0047-residuals-go-to-the-first-datacenter.md).
//
//   asked for                      where the checkpoint does not have it
//   NAME.residual.DATACENTER       zeros: it has sent all there is. The first datacenter gets, besides
//                                  its own, the sum of those that are in no datacenter of the Plan
//   NAME.in.DATACENTER             NAME: it begins where the first datacenter is
//   NAME, with local steps         of the first datacenter: where it was another's, NAME.in.DATACENTER
//   NAME.outer.anchor              NAME: an outer step ends here
//   NAME.outer.momentum            zeros
//   NAME.outer.arrived             anchor - NAME: what the first datacenter has learned since
//   NAME.adam.last_steps, .sgd.    all blocks are up to date
//
// Sums are in the order of names, so every reader gets the same bits. Cost: nothing where the
// checkpoint has what is asked for; else one read of each tensor that the answer is made of.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "perform/kernels/kernels.h"
#include "perform/state/checkpoint.h"
#include "spec/plan/plan.h"

namespace tombolo::state {

// By name.
using TensorShapes = std::map<std::string, std::vector<int64_t>, std::less<>>;
TensorShapes shapes_of(const Manifest& manifest);

// Whether only datacenters that the Plan does not have need the tensors of this shard.
bool is_left_behind(const Shard& shard, const plan::Plan& plan);

class ReshardedState {
 public:
  // For this rank, from a checkpoint that has these tensors. The Plan outlives it.
  ReshardedState(const plan::Plan& plan, int32_t rank, TensorShapes shapes,
                 kernels::TensorSource read);

  // Fails as `read` does, also if nothing can replace the tensor.
  Result<kernels::NamedTensor> read(const std::string& name);

  // What was replaced, dropped or taken over from other datacenters, one sentence each.
  const std::set<std::string>& notes() const { return notes_; }

 private:
  bool has(const std::string& name) const { return shapes_.contains(name); }
  Result<kernels::NamedTensor> residual(const std::string& name, const std::string& parameter);
  Result<kernels::NamedTensor> arrived(const std::string& name, const std::string& parameter);
  Result<kernels::NamedTensor> up_to_date(const std::string& name, const std::string& counted);
  Result<kernels::NamedTensor> as(const std::string& name, const std::string& other);
  kernels::NamedTensor zeros(const std::string& name, const std::string& parameter) const;

  const TensorShapes shapes_;
  const kernels::TensorSource read_;
  const std::string own_;  // datacenter
  const std::string in_;   // what names of its own parameters end with, or nothing
  const bool is_local_;    // the Plan has local steps
  bool is_first_ = false;  // of the datacenters that hold this rank's stages
  // By parameter: datacenters with a residual that hold them no more.
  std::map<std::string, std::vector<std::string>> left_;
  std::set<std::string> notes_;
};

}  // namespace tombolo::state
