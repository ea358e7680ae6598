#include <CLI/CLI.hpp>
#include <set>

#include "base/text_table.h"
#include "base/units.h"
#include "predict/cost/law.h"
#include "predict/estimate/estimate.h"
#include "ui/command/answer.h"
#include "ui/command/input.h"
#include "ui/command/output_files.h"
#include "ui/command/stages.h"
#include "ui/command/words.h"
#include "ui/predict_commands/predict_commands.h"
#include "ui/predict_commands/prediction_pages.h"

namespace tombolo::predict_commands {
namespace {

using estimate::Estimate;

// As papers print iteration times: two digits after the point, where those say something.
std::string time_text(Seconds time) {
  return time >= 100_ms ? fmt::format("{:.2f} s", time.value) : brief(time);
}

std::string count_text(int64_t parameters) {
  const auto count = static_cast<double>(parameters);
  return count >= 1e9 ? fmt::format("{:.1f} B", count / 1e9) : fmt::format("{:.1f} M", count / 1e6);
}

void print_parts(std::ostream& out, const Estimate& e) {
  const std::pair<const char*, Seconds> parts[] = {
      {"compute", e.parts.compute},
      {"bubble: compute", e.parts.bubble},
      {"bubble: communication", e.parts.bubble_communication},
      {"tensor communication", e.parts.tensor_communication},
      {"context communication", e.parts.context_communication},
      {"expert communication", e.parts.expert_communication},
      {"pipeline communication", e.parts.pipeline_communication},
      {"gradients", e.parts.data_communication},
      {"optimizer", e.parts.optimizer},
      {"host, once", e.parts.overhead}};
  TextTable table({text_column(), "", ""});
  for (const auto& [name, time] : parts) {
    if (time == 0_s) continue;
    table.row({name, time_text(time), fmt::format("{:.1f} %", 100 * (time / e.iteration))});
  }
  out << table.text();
}

// "tensor 8, pipeline 4, data 2 (in the network); 8 microbatches of 1"
void print_layout(std::ostream& out, const Estimate& e) {
  const auto inside = [](const cost::DegreeSplit& grid) {
    if (grid.network == 1) return fmt::format("{}", grid.degree());
    if (grid.domain == 1) return fmt::format("{} (in the network)", grid.degree());
    return fmt::format("{} ({} in a domain)", grid.degree(), grid.domain);
  };
  const cost::Configuration& c = e.configuration;
  out << fmt::format("  tensor {}, pipeline {}, data {}", inside(e.layout.tensor),
                     inside(e.layout.pipeline), inside(e.layout.data));
  if (c.context > 1) out << fmt::format(", context {}", inside(e.layout.context));
  if (c.expert > 1) out << fmt::format(", expert {}", inside(e.layout.expert));
  out << fmt::format(", virtual stages {}; {} microbatches of {}\n", c.virtual_stages,
                     e.microbatches, c.micro_batch);
}

// "pipeline 3 (oregon 2, paris 1), data 2; 8 microbatches of 1"; tensor degrees stand with stages.
void print_layout_apart(std::ostream& out, const Estimate& e) {
  const cost::Configuration& c = e.configuration;
  out << fmt::format("  pipeline {} ({}), data {}", c.pipeline,
                     command::way_text(e.stages_apart->stages), c.data);
  if (c.context > 1) out << fmt::format(", context {}", c.context);
  if (c.expert > 1) out << fmt::format(", expert {}", c.expert);
  out << fmt::format("; {} microbatches of {}\n",
                     command::microbatches_text(e.microbatches, e.microbatches_per_replica),
                     c.micro_batch);
}

// "a100-80g", "2 kinds"
std::string device_text(const plan::Job& job, const Estimate& e) {
  if (!e.stages_apart) return job.cluster.datacenters[0].device.name;
  std::set<std::string> kinds;
  for (const cost::PlacedStage& stage : e.stages_apart->everywhere()) kinds.insert(stage.device);
  return kinds.size() == 1 ? *kinds.begin() : fmt::format("devices of {} kinds", kinds.size());
}

void print_text(std::ostream& out, const plan::Job& job, const Estimate& e,
                const std::optional<Seconds>& simulated, bool by_default) {
  const std::string model_name = job.model->name.empty() ? "model" : job.model->name;
  out << fmt::format("{}: {}, {} parameters, on {} x {}\n", job.name, model_name,
                     count_text(model::parameters(*job.model)), e.devices, device_text(job, e));
  e.stages_apart ? print_layout_apart(out, e) : print_layout(out, e);
  out << fmt::format("predicted iteration: {}\n", time_text(e.iteration));
  if (e.exchange_played) {
    out << "  as tombolo simulate plays it\n";
  } else {
    if (e.stages_apart) out << "  " << command::time_text(e.stages_apart->time) << "\n";
    if (simulated) out << fmt::format("  {} simulated\n", time_text(*simulated));
  }
  if (e.band) {
    out << fmt::format(
        "  {} to {} in 8 of 10 published runs like it ({} rows: {}; mean error "
        "{:.1f} %)\n",
        time_text(e.band->low), time_text(e.band->high), e.band->rows, e.band->of,
        100 * e.band->mean);
  }
  out << fmt::format("  law {}{}: {}\n", to_name(e.law), by_default ? " (the default)" : "",
                     e.law_source);
  e.stages_apart ? command::print_stages(out, e.stages_apart->everywhere()) : print_parts(out, e);
  if (e.mfu && e.hfu) {
    out << fmt::format("  MFU {:.1f} %: operations of the model over peak x devices x time\n",
                       100 * *e.mfu);
    out << fmt::format("  HFU {:.1f} %: with those done again for recomputation\n", 100 * *e.hfu);
  }
  out << fmt::format(
      "  memory {} of {} {}: {}\n", brief(e.memory.total()), brief(e.memory_of_device),
      e.stages_apart ? "on the fullest device" : "per device", e.fits() ? "fits" : "DOES NOT FIT");
  out << fmt::format(
      "    parameters {}, gradients {}, optimizer {}, activations {}, workspace {}{}\n",
      brief(e.memory.parameters), brief(e.memory.gradients), brief(e.memory.optimizer),
      brief(e.memory.activations), brief(e.memory.workspace + e.memory.gathered),
      e.memory.prefill.value > 0
          ? fmt::format(", the model of [prefill] {}", brief(e.memory.prefill))
          : "");
  if (e.price) {
    out << fmt::format(
        "  cost {} per iteration{}\n", brief(*e.price),
        e.stages_apart && e.stages_apart->ledger.egress().value > 0
            ? fmt::format(", of that {} for WAN traffic", brief(e.stages_apart->ledger.egress()))
            : "");
  } else {
    out << "  cost unknown: the cluster names no price\n";
  }
  for (const std::string& note : e.notes) out << "  note: " << note << "\n";
}

Value grid_json(const cost::DegreeSplit& grid) {
  return Value::Table{
      {"degree", grid.degree()}, {"in_domain", grid.domain}, {"in_network", grid.network}};
}

Value band_json(const std::optional<published::ErrorBand>& band) {
  if (!band) return {};
  return Value::Table{{"low_s", band->low.value},
                      {"high_s", band->high.value},
                      {"mean_error", band->mean},
                      {"rows", band->rows},
                      {"of", band->of}};
}

Value::Table parts_json(const cost::IterationTime& parts) {
  return {{"compute_s", parts.compute.value},
          {"bubble_compute_s", parts.bubble.value},
          {"bubble_comm_s", parts.bubble_communication.value},
          {"tensor_comm_s", parts.tensor_communication.value},
          {"pipeline_comm_s", parts.pipeline_communication.value},
          {"context_comm_s", parts.context_communication.value},
          {"expert_comm_s", parts.expert_communication.value},
          {"sync_s", parts.data_communication.value},
          {"optimizer_s", parts.optimizer.value},
          {"overhead_s", parts.overhead.value}};
}

// With stages_apart there is no single grid, only degrees.
Value::Table parallelism_json(const Estimate& e) {
  const cost::Configuration& c = e.configuration;
  if (!e.stages_apart) {
    return {{"tensor", grid_json(e.layout.tensor)}, {"pipeline", grid_json(e.layout.pipeline)},
            {"data", grid_json(e.layout.data)},     {"context", grid_json(e.layout.context)},
            {"expert", grid_json(e.layout.expert)}, {"virtual_stages", c.virtual_stages},
            {"micro_batches", e.microbatches}};
  }
  const auto degree = [](int64_t number) { return Value(Value::Table{{"degree", number}}); };
  Value::Array tensors;
  for (const cost::PlacedStage& stage : e.stages_apart->stages) tensors.emplace_back(stage.tensor);
  return {{"tensor_per_stage", std::move(tensors)},
          {"pipeline", degree(c.pipeline)},
          {"data", degree(c.data)},
          {"context", degree(c.context)},
          {"expert", degree(c.expert)},
          {"virtual_stages", c.virtual_stages},
          {"micro_batches", e.microbatches}};
}

Value::Table to_json(const plan::Job& job, const Estimate& e,
                     const std::optional<Seconds>& simulated) {
  Value::Array notes;
  for (const std::string& note : e.notes) notes.push_back(note);
  Value::Table out{
      {"provenance", "predicted"},
      {"law", std::string(to_name(e.law))},
      {"law_source", e.law_source},
      {"iteration_s", e.iteration.value},
      {"simulated_s", simulated ? Value(simulated->value) : Value()},
      {"band", band_json(e.band)},
      {"parts", e.exchange_played
                    ? Value()  // those of the closed form do not add up to the iteration
                : e.stages_apart ? Value(command::parts_json(e.stages_apart->time))
                                 : Value(parts_json(e.parts))},
      {"mfu", e.mfu ? Value(*e.mfu) : Value()},
      {"hfu", e.hfu ? Value(*e.hfu) : Value()},
      {"memory", Value::Table{{"parameters_bytes", e.memory.parameters.value},
                              {"gradients_bytes", e.memory.gradients.value},
                              {"optimizer_bytes", e.memory.optimizer.value},
                              {"activations_bytes", e.memory.activations.value},
                              {"workspace_bytes", (e.memory.workspace + e.memory.gathered).value},
                              {"prefill_bytes", e.memory.prefill.value},
                              {"total_bytes", e.memory.total().value},
                              {"device_bytes", e.memory_of_device.value},
                              {"fits", e.fits()}}},
      {"cost_usd", e.price ? Value(e.price->value) : Value()},
      {"devices", e.devices},
      {"devices_in_cluster", e.devices_in_cluster},
      {"parallelism", parallelism_json(e)},
      {"notes", notes}};
  if (e.stages_apart) {
    out.emplace_back("egress_usd",
                     command::egress_json(job.cluster, e.stages_apart->ledger.egress()));
    out.emplace_back("placement", command::stages_json(e.stages_apart->everywhere()));
  }
  return out;
}

}  // namespace

Status estimate(const EstimateOptions& options, std::ostream& out) {
  const plan::Job job = TRY(command::read_job(options.job));
  const bool by_default = options.law.empty();
  const Estimate answer = TRY(estimate::estimate(job, TRY(cost::find_law(options.law)), true));
  constexpr Seconds kSimulatedAtMost{1};
  std::optional<Seconds> simulated;
  if (answer.exchange_played) {
    simulated = answer.iteration;
  } else if (answer.law == cost::Law::kTombolo) {
    simulated = estimate::simulate_within(kSimulatedAtMost, job);
  }
  const Value::Table figures = to_json(job, answer, simulated);
  command::OutputFiles files;
  if (!options.report.empty())
    TRY(files.add(options.report, estimate_page(figures, job, options.command)));
  TRY(files.commit());
  if (options.json) {
    command::print_json(out, figures);
    return {};
  }
  print_text(out, job, answer, simulated, by_default);
  if (!options.report.empty()) out << "wrote " << options.report << "\n";
  return {};
}

command::Command add_estimate(CLI::App& app) {
  auto options = std::make_shared<EstimateOptions>();
  CLI::App* words =
      command::add_command(app, {"estimate", command::kPredicting,
                                 "predict the iteration of a job or a Plan by a law in closed form",
                                 "tombolo estimate examples/rail-only/table4-175b.toml"});
  command::add_job(words, options->job, "job file (TOML) or Plan (JSON)");
  command::heading(words, command::kPredicted);
  command::suggestions(words->add_option("--law", options->law, "by which law; left out: tombolo"),
                       {"tombolo", "rail-only"});
  command::heading(words, command::kComesOut);
  command::add_report(words, options->report, "map, and where time, memory and money go");
  command::add_json(words, options->json);
  return {words, [options, words](std::ostream& out) {
            options->command = command::line_given(*words);
            return estimate(*options, out);
          }};
}

}  // namespace tombolo::predict_commands
