#include "decide/geo/mixed_setting.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/check.h"
#include "spec/plan/pipeline_ends.h"

namespace tombolo::geo {
namespace {

// Dense ones before those with experts; all, where kinds take turns.
int64_t special_layers(const model::Model& m) {
  if (m.layer_period() > 1) return m.layers;
  return m.experts ? m.experts->dense_layers : 0;
}

}  // namespace

PricedSetting::PricedSetting(const plan::Job& job, const MixedLaw& law, const MixedSetting& setting,
                             std::optional<bool> sequence_parallel)
    : job_(job),
      law_(law),
      setting_(setting),
      sequence_parallel_(sequence_parallel),
      microbatches_(job.training.global_batch / (setting.micro_batch * setting.data)),
      layers_(job.model->layers),
      special_(special_layers(*job.model)),
      boundary_(model::boundary_bytes(*job.model, setting.micro_batch,
                                      plan::element_bytes(job.training.precision))),
      zones_(job.cluster.datacenters.size()) {
  CHECK(setting_.tensor.size() == zones_.size(), "tensor parallelism in {} of {} datacenters",
        setting_.tensor.size(), zones_.size());
  CHECK(microbatches_ * setting_.micro_batch * setting_.data == job_.training.global_batch,
        "{} pipelines with microbatches of {} do not divide a batch of {}", setting_.data,
        setting_.micro_batch, job_.training.global_batch);
  for (size_t z = 0; z < zones_.size(); ++z) {
    const std::string& name = job_.cluster.datacenters[z].name;
    zones_[z].may_be_first = plan::may_begin_in(job_.parallelism, name);
    zones_[z].may_be_last = plan::may_end_in(job_.parallelism, name);
    price(z);
  }
}

cost::Configuration PricedSetting::configuration(size_t datacenter) const {
  const int64_t tensor = setting_.tensor[datacenter];
  cost::Configuration c;
  c.data = setting_.data;
  c.micro_batch = setting_.micro_batch;
  c.global_batch = job_.training.global_batch;
  c.zero = setting_.zero;
  c.sequence_parallel = sequence_parallel_.value_or(true);
  c.recompute = setting_.recompute;
  return cost::stage_configuration(c, tensor, /*across*/ true);
}

void PricedSetting::price(size_t datacenter) {
  Zone& zone = zones_[datacenter];
  const int64_t tensor = setting_.tensor[datacenter];
  if (tensor == 0) return;
  const cluster::Datacenter& place = job_.cluster.datacenters[datacenter];
  const int64_t domain = std::min(place.scale_up.domain, place.devices());
  const int64_t groups =
      place.devices() / domain * (domain / tensor) + place.devices() % domain / tensor;
  zone.room = std::min(groups / setting_.data, layers_);
  if (zone.room == 0) return;
  zone.rate = place.price.value * real(setting_.data * tensor);
  zone.inside = law_.hop(datacenter, configuration(datacenter));
  // The rate falls with the layers of a stage, so that of all of a kind is the best.
  zone.layer = std::numeric_limits<double>::infinity();
  const auto try_kind = [&](int64_t first, int64_t layers) {
    if (layers == 0) return;
    const StageNumbers n = numbers(datacenter, {first, layers, false, false});
    zone.layer = std::min(zone.layer, n.pass / real(layers));
  };
  const int64_t period = job_.model->layer_period();
  if (period == 1) {
    try_kind(0, special_);
    try_kind(special_, layers_ - special_);
  }
  // Kinds that take turns: what one layer more adds, which is the least where there is one yet.
  for (int64_t first = 0; period > 1 && first < std::min(period, layers_ - 1); ++first) {
    const double one = numbers(datacenter, {first, 1, false, false}).pass;
    const double two = numbers(datacenter, {first, 2, false, false}).pass;
    zone.layer = std::min(zone.layer, two - one);
  }
  if (!std::isfinite(zone.layer)) try_kind(0, layers_);
  zone.end = numbers(datacenter, {special_ < layers_ ? special_ : 0, 1, false, false}).end;
}

StageNumbers PricedSetting::numbers(size_t datacenter, const model::Slice& slice) const {
  const cost::StagePrice price = law_.stage(datacenter, configuration(datacenter), slice);
  return {(price.forward + price.backward).value, (price.update + price.gradients).value};
}

cost::Hop PricedSetting::wan(const cluster::WanLink& link, size_t from, size_t to) const {
  return cost::wan_hop(link, {&job_.cluster.datacenters[from], setting_.tensor[from]},
                       {&job_.cluster.datacenters[to], setting_.tensor[to]}, setting_.data,
                       boundary_);
}

Seconds PricedSetting::tied(size_t first, size_t last) const {
  const auto& places = job_.cluster.datacenters;
  const Bytes bytes = plan::tied_bytes(job_, *job_.model);
  const cluster::WanLink* link =
      first == last ? nullptr : job_.cluster.link(places[first].name, places[last].name);
  if (!link || bytes.value == 0) return {};
  return cost::wan_hop(*link, {&places[first], setting_.tensor[first]},
                       {&places[last], setting_.tensor[last]}, setting_.data, bytes)
      .transfer;
}

const StageTable& PricedSetting::table(size_t datacenter, bool embedding, bool head) {
  auto& table = zones_[datacenter].tables[ends(embedding, head)];
  if (table) return *table;
  table = std::make_unique<StageTable>();
  for (int64_t first = 0; first <= std::min(special_, layers_ - 1); ++first) {
    auto& row = table->rows.emplace_back();
    double end = zones_[datacenter].end;
    for (int64_t layers = 1; layers <= layers_ - first; ++layers) {
      StageNumbers n = numbers(datacenter, {first, layers, embedding, head});
      // Longer backward passes may hide more of the sum; the partition wants what only grows.
      end = n.end = std::max(end, n.end);
      row.push_back(n);
    }
  }
  return *table;
}

const std::vector<int64_t>& PricedSetting::most(size_t datacenter, bool embedding, bool head,
                                                int64_t in_flight) {
  CHECK(in_flight >= 1, "memory for {} microbatches", in_flight);
  auto& known = zones_[datacenter].most[ends(embedding, head)];
  in_flight = std::min(in_flight, microbatches_);
  const Bytes room = job_.cluster.datacenters[datacenter].device.memory;
  const cost::Configuration c = configuration(datacenter);
  while (static_cast<int64_t>(known.size()) < in_flight) {
    const auto waiting = static_cast<int64_t>(known.size()) + 1;
    auto& rows = known.emplace_back();
    for (int64_t first = 0; first <= std::min(special_, layers_ - 1); ++first) {
      int64_t low = 0, high = layers_ - first;
      while (low < high) {
        const int64_t middle = (low + high + 1) / 2;
        const model::Slice slice{first, middle, embedding, head};
        if (law_.memory(datacenter, c, slice, waiting).total() <= room) {
          low = middle;
        } else {
          high = middle - 1;
        }
      }
      rows.push_back(low);
    }
  }
  return known[static_cast<size_t>(in_flight - 1)];
}

int64_t PricedSetting::held(size_t datacenter, int64_t after, int64_t stages) {
  std::vector<int64_t>& sums = zones_[datacenter].held;
  while (static_cast<int64_t>(sums.size()) <= after + stages) {
    const auto& rows = most(datacenter, false, false, static_cast<int64_t>(sums.size()));
    sums.push_back(sums.back() + *std::max_element(rows.begin(), rows.end()));
  }
  return sums[static_cast<size_t>(after + stages)] - sums[static_cast<size_t>(after)];
}

PartitionProblem partition_problem(PricedSetting& priced, const std::vector<size_t>& order,
                                   const std::vector<int64_t>& stages,
                                   const std::vector<cost::Hop>& hops) {
  CHECK(order.size() == stages.size() && hops.size() + 1 == order.size(),
        "{} datacenters, {} numbers of stages, {} hops", order.size(), stages.size(), hops.size());
  PartitionProblem problem{.layers = priced.layers(), .microbatches = priced.microbatches()};
  const int64_t all = std::accumulate(stages.begin(), stages.end(), int64_t{0});
  int64_t s = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    for (int64_t j = 0; j < stages[i]; ++j, ++s) {
      const bool embedding = s == 0, head = s + 1 == all;
      problem.stages.push_back({&priced.table(order[i], embedding, head),
                                priced.most(order[i], embedding, head, all - s)});
      if (s > 0) problem.hops.push_back(j == 0 ? hops[i - 1] : priced.inside(order[i]));
    }
  }
  problem.stages.front().tied = priced.tied(order.front(), order.back()).value;
  return problem;
}

}  // namespace tombolo::geo
