// Iterations per dollar, the network included: a job on a Clos and on a rail-only fabric.
//
//   per GPU and second:  device price + parts of the fabric / (GPUs x years)
//   iterations/dollar  = 1 / (iteration x GPUs x that)
//
// The iteration is the one on full bisection (a Clos; rail-optimised is the same parts at the same
// rates). Rail-only, traffic of tensor, context, data and pipeline parallelism stays on its rails
// or inside domains, and the iteration takes as long. Experts exchange tokens across rails, which
// is forwarded inside domains; that costs equation 21 less equation 20 of the rail-only paper,
// overlapping with nothing:
//
//   forwarding = (T_rail-only - T_full) of an iteration's exchanges x (1 + (p-1)/(v m))
//
// of the stage that exchanges most, and of the others while the pipeline fills and drains.
//
// Assumed, and said in `notes`: a device's price leaves the network out (unless
// price_includes_network, then it has a Clos in it), the network is written off evenly over
// `years`, every hour of them in use, without interest, power, cables or staff.
//
// Sources: Wang et al. 2023 (rail-only), section 6.5 and appendix D; docs/laws/fabric_cost.md,
// docs/laws/rail_collectives.md, docs/laws/fabric_price.md.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "predict/network/fabric.h"
#include "predict/network/grid_collective.h"
#include "spec/plan/job.h"

namespace tombolo::search {

struct FabricPriceOptions {
  int64_t radix = 64;  // ports of a switch
  network::EquipmentPrices equipment;
  double years = 3;  // until the network is written off; of 365 days
  bool price_includes_network = false;
};

struct PricedFabric {
  network::FabricParts parts;
  Dollars per_gpu;                // parts over GPUs
  DollarsPerSecond network_rate;  // of one GPU, written off
  Seconds forwarding;             // what the fabric adds to the iteration
  Seconds iteration;
  Dollars cost;  // of an iteration: GPUs and network

  double iterations_per_dollar() const { return 1 / cost.value; }
};

struct FabricPrices {
  network::FabricSize size;
  DollarsPerSecond gpu_rate;  // of one GPU without network
  PricedFabric clos;
  PricedFabric rail_only;
  std::vector<std::string> notes;  // what was assumed, one sentence each

  // Iterations per dollar that rail-only wins: 0.04 is 4 % more. Negative where forwarding costs
  // more than the spine.
  double gain() const {
    return rail_only.iterations_per_dollar() / clos.iterations_per_dollar() - 1;
  }
};

// The ranks of an expert group as x in each of y domains. Unusable: they lie unevenly over domains.
Result<network::Grid> expert_grid(const plan::Job& job);

// What experts' exchanges take longer on rails, in one iteration; nothing without experts.
Result<Seconds> forwarding(const plan::Job& job);

// How large the fabric of a job is: a port for each GPU of its parallelism.
network::FabricSize fabric_size(const plan::Job& job, int64_t radix);

// `iteration` is that of the job on full bisection, by a law or measured. Unusable: more
// datacenters than one, no price, years that are none, a price below that of the network it
// includes, expert groups that lie unevenly over domains, and what traffic.h refuses.
Result<FabricPrices> price_fabrics(const plan::Job& job, Seconds iteration,
                                   const FabricPriceOptions& options);

}  // namespace tombolo::search
