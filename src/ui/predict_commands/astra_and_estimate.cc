// What sets `astra --job` apart from `estimate` and `simulate` on the job's own cluster.
#include <cmath>

#include "predict/cost/constants.h"
#include "predict/estimate/estimate.h"
#include "ui/predict_commands/astra_job.h"

namespace tombolo::predict_commands {
namespace {

constexpr double kAgree = 0.05;  // where nothing contends (docs/laws/hierarchical_groups.md)

std::string joined(const std::vector<std::string>& words, const char* between) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : between) + word;
  return out;
}

// Of groups with x ranks in each of y domains. A ring of all ranks leaves a domain with (xy-1)/xy of the
// bytes, a hierarchy, which has summed them there, with (y-1)/y.
std::vector<std::string> shared_ports(const cost::GroupPlacement& layout) {
  std::vector<std::string> out;
  for (const auto& [name, group] :
       {std::pair("tensor", layout.tensor), std::pair("context", layout.context),
        std::pair("data", layout.gradients)}) {
    if (group.domain == 1 || group.network == 1) continue;
    const auto x = static_cast<double>(group.domain), y = static_cast<double>(group.network);
    out.push_back(fmt::format(
        "rings of all {} ranks of a {} group share the ports of the {} that it has in each of {} "
        "domains, with {:.2f} times the bytes that pass a port here",
        group.degree(), name, group.domain, group.network, (x * y - 1) / (x * (y - 1))));
  }
  return out;
}

// Collectives that wait for each other here, for an NPU runs one at a time, and hide there.
std::string shared_npu(const estimate::Estimate& there, const cost::StackConstants& stack) {
  const cost::Configuration& c = there.configuration;
  const bool sharded = c.zero == 3;
  const double hidden = sharded ? stack.parameter_overlap : stack.gradient_overlap;
  if (there.layout.gradients.degree() == 1 || hidden == 0) return "";
  std::vector<std::string> others;
  if (c.tensor > 1) others.push_back("tensor");
  if (c.context > 1) others.push_back("context");
  if (c.expert > 1) others.push_back("expert");
  if (others.empty() && !sharded) return "";
  return fmt::format(
      "{} hide behind up to {:.0f} % of a pass; here they wait for {} collectives, for an NPU runs "
      "one at a time",
      sharded ? "parameter gathers and gradient reduce-scatters" : "gradient all-reduces",
      100 * hidden, others.empty() ? "each other's" : joined(others, " and "));
}

}  // namespace

std::vector<std::string> compared_with_estimate(const plan::Job& job,
                                                const astra::AstraAnswer& answer) {
  std::vector<std::string> out;
  const cluster::Datacenter& here = job.cluster.datacenters.front();
  const auto there = estimate::estimate(job, cost::Law::kTombolo);
  const auto constants = cost::find_constants(here, job.training.stack);
  if (!there || !constants) return out;
  const int64_t domain = here.scale_up.domain, ranks = answer.npus;
  if (ranks > domain && ranks % domain != 0) {
    const cost::GroupPlacement& l = there->layout;
    const int64_t taken = l.tensor.domain * l.context.domain * l.data.domain * l.pipeline.domain;
    out.push_back(fmt::format(
        "{} ranks fill no whole domains of {}: they are {} in each of {}, over which estimate lays "
        "its groups",
        ranks, domain, taken, ranks / taken));
  }
  const double seconds = static_cast<double>(answer.finish().ns) * 1e-9;
  const double more = there->iteration.value / seconds - 1;
  if (std::abs(more) < kAgree) return out;
  std::vector<std::string> why =
      more > 0 ? shared_ports(there->layout) : std::vector<std::string>{};
  const std::string npu = more < 0 ? shared_npu(*there, constants->stack) : std::string();
  if (!npu.empty()) why.push_back(npu);
  if (why.empty()) return out;
  out.push_back(fmt::format("estimate says {}, {:.1f} % {}: there {}", brief(there->iteration),
                            100 * std::abs(more), more > 0 ? "more" : "less", joined(why, "; ")));
  return out;
}

}  // namespace tombolo::predict_commands
