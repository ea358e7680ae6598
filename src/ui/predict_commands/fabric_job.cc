#include "base/text_table.h"
#include "predict/cost/law.h"
#include "predict/estimate/estimate.h"
#include "ui/command/input.h"
#include "ui/predict_commands/predict_commands.h"

namespace tombolo::predict_commands {
namespace {

using search::PricedFabric;

double per_hour(DollarsPerSecond rate) { return rate.value * 3600; }

Value fabric_json(const PricedFabric& fabric) {
  return Value::Table{{"network_usd_per_gpu", fabric.per_gpu.value},
                      {"network_usd_per_gpu_hour", per_hour(fabric.network_rate)},
                      {"forwarding_s", fabric.forwarding.value},
                      {"iteration_s", fabric.iteration.value},
                      {"iteration_usd", fabric.cost.value},
                      {"iterations_per_usd", fabric.iterations_per_dollar()}};
}

}  // namespace

Result<PricedJob> price_job(const FabricOptions& options,
                            const network::EquipmentPrices& equipment) {
  PricedJob out;
  out.job = TRY(command::read_job(options.job));
  Seconds iteration;
  std::vector<std::string> notes;
  if (!options.iteration.empty()) {
    if (!options.law.empty()) {
      return unusable("--iteration and --law: one of them says how long an iteration takes",
                      "--iteration with a measured time, or --law rail-only");
    }
    iteration = TRY(during(parse_quantity<Seconds>(options.iteration), "reading --iteration"));
    out.source = "given";
  } else {
    const cost::Law law = TRY(cost::find_law(options.law));
    const estimate::Estimate estimate =
        TRY(during(estimate::estimate(out.job, law),
                   "estimating an iteration; --iteration gives a measured one"));
    iteration = estimate.iteration;
    notes = estimate.notes;
    if (!estimate.fits()) notes.push_back("the job does not fit into the memory of its devices");
    out.source = fmt::format("law {}", to_name(law));
  }
  out.prices =
      TRY(search::price_fabrics(out.job, iteration,
                                {.radix = options.radix,
                                 .equipment = equipment,
                                 .years = options.years,
                                 .price_includes_network = options.price_includes_network}));
  out.prices.notes.insert(out.prices.notes.end(), notes.begin(), notes.end());
  return out;
}

void print_priced_job(std::ostream& out, const PricedJob& priced) {
  const search::FabricPrices& prices = priced.prices;
  out << fmt::format("\n{} on {} GPUs at {:.4g} USD an hour without network; iteration: {}\n",
                     priced.job.name, prices.size.gpus, per_hour(prices.gpu_rate), priced.source);
  TextTable table({text_column(), "network/GPU", "network/GPU/h", "iteration", "USD/iteration",
                   "iterations/USD"});
  for (const auto& [name, fabric] :
       {std::pair("clos", &prices.clos), std::pair("rail-only", &prices.rail_only)}) {
    table.row({name, fmt::format("{:.2f} USD", fabric->per_gpu.value),
               fmt::format("{:.4f} USD", per_hour(fabric->network_rate)), brief(fabric->iteration),
               fmt::format("{:.4f}", fabric->cost.value),
               fmt::format("{:.5g}", fabric->iterations_per_dollar())});
  }
  out << table.text();
  if (prices.rail_only.forwarding > 0_s) {
    out << fmt::format("  rail-only, forwarding experts' tokens adds {} to each iteration\n",
                       brief(prices.rail_only.forwarding));
  }
  out << fmt::format("rail-only: {:+.2f} % iterations per dollar\n", 100 * prices.gain());
  for (const std::string& note : prices.notes) out << "  note: " << note << "\n";
}

Value priced_job_json(const PricedJob& priced) {
  Value::Array notes;
  for (const std::string& note : priced.prices.notes) notes.push_back(note);
  return Value::Table{{"name", priced.job.name},
                      {"iteration_source", priced.source},
                      {"gpu_usd_per_hour", per_hour(priced.prices.gpu_rate)},
                      {"clos", fabric_json(priced.prices.clos)},
                      {"rail_only", fabric_json(priced.prices.rail_only)},
                      {"gain", priced.prices.gain()},
                      {"notes", notes}};
}

}  // namespace tombolo::predict_commands
