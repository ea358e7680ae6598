#include "decide/geo/mixed_law.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "predict/cost/law.h"

namespace tombolo::geo {
namespace {

class TomboloMixedLaw : public MixedLaw {
 public:
  explicit TomboloMixedLaw(std::vector<cost::IterationLaw> laws) : laws_(std::move(laws)) {}

  cost::StagePrice stage(size_t datacenter, const cost::Configuration& c,
                         const model::Slice& slice) const override {
    const cost::IterationLaw& law = laws_[datacenter];
    cost::StagePrice price = law.stage(c, slice);
    const cost::StackConstants& stack = law.constants().stack;
    const double stragglers = 1 + stack.spread * std::log2(real(law.datacenter().nodes));
    price.forward = price.forward * stragglers;
    price.backward = price.backward * stragglers;
    price.gradients = price.gradients * stragglers;
    price.update += stack.host_iteration;
    return price;
  }

  cost::DeviceMemory memory(size_t datacenter, const cost::Configuration& c,
                            const model::Slice& slice, int64_t in_flight) const override {
    return laws_[datacenter].stage_memory(c, slice, in_flight);
  }

  cost::Hop hop(size_t datacenter, const cost::Configuration& c) const override {
    const cost::IterationLaw& law = laws_[datacenter];
    const Seconds transfer = law.transfer(c);
    return {transfer, transfer * (1 - law.constants().stack.pipeline_overlap), transfer};
  }

 private:
  std::vector<cost::IterationLaw> laws_;
};

}  // namespace

Result<std::unique_ptr<MixedLaw>> tombolo_mixed_law(const plan::Job& job) {
  std::vector<cost::IterationLaw> laws;
  for (const cluster::Datacenter& datacenter : job.cluster.datacenters) {
    laws.push_back(TRY(
        during(cost::IterationLaw::make(*job.model, datacenter, cost::settings_of(job.training)),
               "pricing stages in " + datacenter.name)));
  }
  return std::make_unique<TomboloMixedLaw>(std::move(laws));
}

cost::Hop wan_hop(const cluster::WanLink& link, const WanEnd& from, const WanEnd& to, int64_t data,
                  Bytes size) {
  for (const WanEnd* end : {&from, &to}) {
    CHECK(end->datacenter && end->tensor >= 1, "a stage on {} devices of {}", end->tensor,
          end->datacenter ? end->datacenter->name : "no datacenter");
  }
  CHECK(data >= 1, "{} replicas of a stage", data);
  // Replicas of a stage on one node, and nodes of one replica.
  const auto on_node = [&](const WanEnd& end) {
    return std::clamp<int64_t>(end.datacenter->devices_per_node / end.tensor, 1, data);
  };
  const auto nodes = [](const WanEnd& end) {
    const int64_t each = end.datacenter->devices_per_node;
    return (end.tensor + each - 1) / each;
  };
  const int64_t sharing = std::min(on_node(from), on_node(to));
  const int64_t pairs = std::min(nodes(from), nodes(to));
  BytesPerSecond rate = cluster::flow_rate(link) * (real(pairs) / real(sharing));
  if (link.path_limit) rate = std::min(rate, *link.path_limit / real(data));
  for (const WanEnd* end : {&from, &to}) {
    rate = std::min(rate, end->datacenter->scale_out.bandwidth * real(end->tensor));
  }
  const Seconds occupancy = size / rate;
  const Seconds transfer = link.one_way_latency + occupancy;
  return {transfer, transfer, occupancy};
}

}  // namespace tombolo::geo
