#include "decide/search/fabric_price.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "predict/workload/traffic.h"

namespace tombolo::search {
namespace {

using network::Fabric;

constexpr double kSecondsPerYear = 365.0 * 24 * 3600;

// Where the assumption that other traffic stays on its rails is wrong.
void note_other_rails(const workload::TrafficSummary& traffic, std::vector<std::string>& notes) {
  for (const workload::TrafficKind kind :
       {workload::TrafficKind::kTensor, workload::TrafficKind::kContext,
        workload::TrafficKind::kData, workload::TrafficKind::kPipeline}) {
    const Bytes across = traffic.of(kind).at(workload::PairReach::kOtherRail).bytes;
    if (across.value == 0) continue;
    notes.push_back(fmt::format(
        "left out: rail-only, {} of {} traffic an iteration are for other rails and are forwarded",
        brief(across), to_name(kind)));
  }
}

Status check(const plan::Job& job, Seconds iteration, const FabricPriceOptions& options) {
  if (job.cluster.datacenters.size() != 1) {
    return unusable(fmt::format("{}: cluster: {} datacenters; a fabric joins the GPUs of one",
                                job.file, job.cluster.datacenters.size()),
                    "one [[cluster.datacenter]]");
  }
  if (!job.parallelism.tensor_per_stage.empty()) {
    return unusable(fmt::format("{}: parallelism.tensor_per_stage: a fabric is priced for one "
                                "tensor degree",
                                job.file),
                    "tensor = 8 for all stages");
  }
  if (job.cluster.datacenters[0].price.value <= 0) {
    return unusable(fmt::format("{}: cluster.datacenter[0].price is missing: iterations per dollar "
                                "need what a device costs",
                                job.file),
                    "price = \"2.10 USD/device-hour\"");
  }
  if (!std::isfinite(options.years) || options.years <= 0) {
    return unusable(fmt::format("--years {}: must be positive", options.years), "--years 3");
  }
  if (!std::isfinite(iteration.value) || iteration.value <= 0) {
    return unusable(fmt::format("an iteration of {:g} s: must be positive", iteration.value),
                    "--iteration 12.5s");
  }
  return {};
}

}  // namespace

// All groups lie like the first, whose ranks count from 0.
Result<network::Grid> expert_grid(const plan::Job& job) {
  const cluster::Datacenter& datacenter = job.cluster.datacenters[0];
  const int64_t domain = datacenter.scale_up.domain;
  const layout::RankNumbering numbering =
      TRY(layout::RankNumbering::make(job.parallelism, job.file));
  std::map<int64_t, std::vector<int64_t>> rails;  // of the group's ranks, by domain
  for (const int32_t rank : numbering.groups(layout::RankGroup::kExpert).members(0)) {
    rails[rank / domain].push_back(rank % domain);
  }
  const std::vector<int64_t>& first = rails.begin()->second;
  for (const auto& [at, of_domain] : rails) {
    if (of_domain == first) continue;
    return unusable(fmt::format("{}: parallelism.expert = {}: a group has ranks on {} rails of one "
                                "domain and on {} others of another; appendix D knows whole grids",
                                job.file, job.parallelism.expert, first.size(), of_domain.size()),
                    "degrees of tensor and expert that divide the domain, or are its multiples");
  }
  return network::Grid{.domain = static_cast<int64_t>(first.size()),
                       .domains = static_cast<int64_t>(rails.size()),
                       .scale_up = datacenter.scale_up.bandwidth,
                       .port = datacenter.scale_out.bandwidth};
}

Result<Seconds> forwarding(const plan::Job& job) {
  const layout::Parallelism& p = job.parallelism;
  if (p.expert == 1) return 0_s;
  const network::Grid grid = TRY(expert_grid(job));
  TRY(network::check(grid));
  Bytes shard;  // to each other GPU of the group, in an iteration, from the busiest stage
  const auto volume = TRY(workload::traffic_volume(job, {}));
  for (const workload::StageVolume& stage : volume.stages) {
    shard = std::max(shard, stage.expert);
  }
  const Bytes message = static_cast<double>(p.expert) * shard;
  const Seconds longer = network::all_to_all_rail_only(grid, message) -
                         network::all_to_all_full_bisection(grid, message);
  const auto microbatches =
      static_cast<double>(job.training.global_batch / (job.training.micro_batch * p.data));
  const double filling =
      static_cast<double>(p.pipeline - 1) / (static_cast<double>(p.virtual_stages) * microbatches);
  return (1 + filling) * longer;
}

network::FabricSize fabric_size(const plan::Job& job, int64_t radix) {
  const layout::Parallelism& p = job.parallelism;
  return {
      .gpus = p.tensor * p.context * p.data * p.pipeline,
      .radix = radix,
      .domain = job.cluster.datacenters.empty() ? 1 : job.cluster.datacenters[0].scale_up.domain};
}

Result<FabricPrices> price_fabrics(const plan::Job& job, Seconds iteration,
                                   const FabricPriceOptions& options) {
  TRY(check(job, iteration, options));
  FabricPrices out;
  out.size = fabric_size(job, options.radix);
  TRY(network::check(out.size));
  TRY(network::check(options.equipment));
  const auto gpus = static_cast<double>(out.size.gpus);
  const Seconds lifetime = options.years * Seconds{kSecondsPerYear};
  const Seconds longer = TRY(forwarding(job));
  const workload::Traffic traffic = TRY(workload::Traffic::make(job, {}));

  const auto buy = [&](Fabric fabric, Seconds forwarded) {
    PricedFabric priced;
    priced.parts = network::parts_of(fabric, out.size, options.equipment);
    priced.per_gpu = priced.parts.cost / gpus;
    priced.network_rate = priced.per_gpu / lifetime;
    priced.forwarding = forwarded;
    priced.iteration = iteration + forwarded;
    return priced;
  };
  out.clos = buy(Fabric::kClos, 0_s);
  out.rail_only = buy(Fabric::kRailOnly, longer);

  out.gpu_rate = job.cluster.datacenters[0].price;
  if (options.price_includes_network) {
    out.gpu_rate = out.gpu_rate - out.clos.network_rate;
    if (out.gpu_rate.value <= 0) {
      return unusable(fmt::format("{}: cluster.datacenter[0].price = {:.4g} USD/device-hour cannot "
                                  "include a Clos of {:.4g} USD/device-hour",
                                  job.file, job.cluster.datacenters[0].price.value * 3600,
                                  out.clos.network_rate.value * 3600),
                      "more --years, or no --price-includes-network");
    }
  }
  for (PricedFabric* fabric : {&out.clos, &out.rail_only}) {
    fabric->cost = (out.gpu_rate + fabric->network_rate) * gpus * fabric->iteration;
  }

  out.notes = {
      options.price_includes_network
          ? "assumed: the price of a device has a Clos in it, whose part is taken out"
          : "assumed: the price of a device leaves the network out",
      fmt::format("assumed: the network is written off evenly over {:g} years, all hours in use; "
                  "no interest, power, cables, staff",
                  options.years)};
  out.notes.push_back(
      job.parallelism.expert > 1
          ? "assumed: experts' tokens are forwarded by the two-phase all-to-all of appendix D, "
            "which overlaps with nothing; all other traffic takes as long on both fabrics"
          : "assumed: an iteration takes as long on both fabrics: its traffic stays on rails and "
            "in domains");
  note_other_rails(traffic.summarize(), out.notes);
  return out;
}

}  // namespace tombolo::search
