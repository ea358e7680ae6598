#include "base/check.h"
#include "decide/search/search.h"
#include "predict/cost/law.h"
#include "predict/cost/rail_only.h"

namespace tombolo::search {
namespace {

using cost::Configuration;

// A pipeline of p equal stages works m + (p-1)/v times as long as one microbatch takes on one of
// them; with unequal stages longer. Times what all microbatches take on one: the bound.
double with_bubble(const Configuration& c) {
  return 1 + real(c.pipeline - 1) / (real(c.virtual_stages) * real(c.microbatches()));
}

class RailOnlyPricer : public Pricer {
 public:
  explicit RailOnlyPricer(const plan::Job& job)
      : domain_(job.cluster.datacenters[0].scale_up.domain),
        state_bytes_(job.training.optimizer_bytes_per_parameter),
        prefill_(job.prefill_memory()) {
    const model::Model& m = *job.model;
    model_ = {.layers = m.layers,
              .hidden = m.hidden,
              .heads = m.heads,
              .sequence = m.sequence,
              .vocabulary = m.vocabulary,
              .parameters = real(model::parameters(m))};
    const cluster::Datacenter& datacenter = job.cluster.datacenters[0];
    machine_ = {.peak = datacenter.device.peak,
                .attention_slowdown = 1 / datacenter.device.attention_efficiency,
                .domain_bandwidth = datacenter.scale_up.bandwidth,
                .network_bandwidth = datacenter.scale_out.bandwidth,
                .domain_latency = datacenter.scale_up.latency,
                .network_latency = datacenter.scale_out.latency};
    // Devices times the time that computation takes on them: the same for every split.
    const cost::RailOnlyTime alone =
        cost::rail_only(model_, machine_, {.global_batch = job.training.global_batch});
    device_time_ = alone.compute;
  }

  Bytes memory(const Configuration& c) const override {
    return cost::rail_only_memory(model_, split(c), state_bytes_, c.recompute).total() + prefill_;
  }
  Seconds time(const Configuration& c) const override {
    return cost::rail_only(model_, machine_, split(c)).total();
  }
  // A little below, because sums round in another order.
  Seconds lower_bound(const Configuration& c) const override {
    return device_time_ * (with_bubble(c) * (1 - 1e-12) / real(c.devices()));
  }
  std::vector<std::pair<std::string, Seconds>> parts(const Configuration& c) const override {
    const cost::RailOnlyTime time = cost::rail_only(model_, machine_, split(c));
    return {{"compute", time.compute},
            {"bubble", time.bubble_compute + time.bubble_communication},
            {"tensor communication", time.tensor_communication},
            {"pipeline communication", time.pipeline_communication},
            {"gradients", time.synchronization}};
  }

 private:
  cost::RailOnlySplit split(const Configuration& c) const {
    const cost::GroupPlacement layout = cost::lay_out(c, domain_);
    return {.tensor = layout.tensor,
            .pipeline = layout.pipeline,
            .data = layout.data,
            .virtual_stages = c.virtual_stages,
            .micro_batch = c.micro_batch,
            .global_batch = c.global_batch};
  }

  cost::RailOnlyModel model_;
  cost::RailOnlyMachine machine_;
  int64_t domain_;
  double state_bytes_;
  Bytes prefill_;
  Seconds device_time_;
};

class TomboloPricer : public Pricer {
 public:
  explicit TomboloPricer(cost::IterationLaw law) : law_(std::move(law)) {}

  Bytes memory(const Configuration& c) const override { return law_.memory(c).total(); }
  Seconds time(const Configuration& c) const override { return law_.time(c).total(); }
  bool selective_recompute_differs() const override { return law_.selective_recompute_differs(); }
  Seconds lower_bound(const Configuration& c) const override {
    return law_.lower_bound(c) * (with_bubble(c) * (1 - 1e-12));
  }
  std::vector<std::pair<std::string, Seconds>> parts(const Configuration& c) const override {
    const cost::IterationTime time = law_.time(c);
    return {{"compute", time.compute},
            {"bubble", time.bubble + time.bubble_communication},
            {"tensor communication", time.tensor_communication},
            {"context communication", time.context_communication},
            {"expert communication", time.expert_communication},
            {"pipeline communication", time.pipeline_communication},
            {"gradients", time.data_communication},
            {"optimizer", time.optimizer},
            {"overhead", time.overhead}};
  }

 private:
  cost::IterationLaw law_;
};

}  // namespace

Result<std::unique_ptr<Pricer>> make_pricer(const plan::Job& job, cost::Law law) {
  CHECK(job.model && job.cluster.datacenters.size() == 1, "{}: {}, in {} datacenters", job.file,
        job.model ? "a model" : "no model", job.cluster.datacenters.size());
  if (law == cost::Law::kRailOnly) return std::make_unique<RailOnlyPricer>(job);
  return std::make_unique<TomboloPricer>(TRY(
      cost::IterationLaw::make(*job.model, job.cluster.datacenters[0], cost::settings_of(job))));
}

}  // namespace tombolo::search
