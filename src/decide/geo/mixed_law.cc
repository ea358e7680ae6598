#include "decide/geo/mixed_law.h"

#include "predict/cost/price_plan.h"

namespace tombolo::geo {
namespace {

class TomboloMixedLaw : public MixedLaw {
 public:
  explicit TomboloMixedLaw(cost::StageLaws laws) : laws_(std::move(laws)) {}

  cost::StagePrice stage(size_t datacenter, const cost::Configuration& c,
                         const model::Slice& slice) const override {
    return laws_.stage(datacenter, c, slice);
  }

  cost::DeviceMemory memory(size_t datacenter, const cost::Configuration& c,
                            const model::Slice& slice, int64_t in_flight) const override {
    return laws_.in(datacenter).stage_memory(c, slice, in_flight);
  }

  cost::Hop hop(size_t datacenter, const cost::Configuration& c) const override {
    return laws_.inside(datacenter, c);
  }

  bool selective_recompute_differs() const override {
    for (size_t datacenter = 0; datacenter < laws_.datacenters(); ++datacenter) {
      if (laws_.in(datacenter).selective_recompute_differs()) return true;
    }
    return false;
  }

  std::optional<cost::MixedIteration> iteration(const plan::Job& job) const override {
    const Result<plan::Plan> plan = cost::make_plan(job);
    if (!plan) return {};
    const Result<cost::PlanPrediction> predicted = cost::predict_plan(*plan, job.file);
    if (!predicted) return {};
    return predicted->time;
  }

 private:
  cost::StageLaws laws_;
};

}  // namespace

Result<std::unique_ptr<MixedLaw>> tombolo_mixed_law(const plan::Job& job) {
  return std::make_unique<TomboloMixedLaw>(TRY(cost::StageLaws::make(*job.model, job)));
}

}  // namespace tombolo::geo
