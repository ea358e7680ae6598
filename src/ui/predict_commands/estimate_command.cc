#include <CLI/CLI.hpp>

#include "base/units.h"
#include "predict/cost/law.h"
#include "predict/estimate/estimate.h"
#include "ui/command/answer.h"
#include "ui/command/input.h"
#include "ui/predict_commands/predict_commands.h"

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
  for (const auto& [name, time] : parts) {
    if (time == 0_s) continue;
    out << fmt::format("  {:<23}{:>10}{:>8.1f} %\n", name, time_text(time),
                       100 * (time / e.iteration));
  }
}

void print_text(std::ostream& out, const plan::Job& job, const Estimate& e, bool by_default) {
  const cluster::Datacenter& datacenter = job.cluster.datacenters[0];
  const auto inside = [](const cost::Grid& grid) {
    if (grid.network == 1) return fmt::format("{}", grid.degree());
    if (grid.domain == 1) return fmt::format("{} (in the network)", grid.degree());
    return fmt::format("{} ({} in a domain)", grid.degree(), grid.domain);
  };
  const std::string model_name = job.model->name.empty() ? "model" : job.model->name;
  out << fmt::format("{}: {}, {} parameters, on {} x {}\n", job.name, model_name,
                     count_text(model::parameters(*job.model)), e.configuration.devices(),
                     datacenter.device.name);
  const cost::Configuration& c = e.configuration;
  out << fmt::format("  tensor {}, pipeline {}, data {}", inside(e.layout.tensor),
                     inside(e.layout.pipeline), inside(e.layout.data));
  if (c.context > 1) out << fmt::format(", context {}", inside(e.layout.context));
  if (c.expert > 1) out << fmt::format(", expert {}", inside(e.layout.expert));
  out << fmt::format(", virtual stages {}; {} micro-batches of {}\n", c.virtual_stages,
                     e.micro_batches, c.micro_batch);
  out << fmt::format("predicted iteration: {}\n", time_text(e.iteration));
  if (e.played) out << fmt::format("  {} played action by action\n", time_text(*e.played));
  if (e.band) {
    out << fmt::format(
        "  {} to {} in 8 of 10 published runs like it ({} rows: {}; mean error "
        "{:.1f} %)\n",
        time_text(e.band->low), time_text(e.band->high), e.band->rows, e.band->of,
        100 * e.band->mean);
  }
  out << fmt::format("  law {}{}: {}\n", to_name(e.law), by_default ? " (the default)" : "",
                     e.law_source);
  print_parts(out, e);
  out << fmt::format("  MFU {:.1f} %: operations of the model over peak x devices x time\n",
                     100 * e.mfu);
  out << fmt::format("  HFU {:.1f} %: with those done again for recomputation\n", 100 * e.hfu);
  out << fmt::format("  memory {} of {} per device: {}\n", brief(e.memory.total()),
                     brief(e.memory_of_device), e.fits() ? "fits" : "DOES NOT FIT");
  out << fmt::format(
      "    parameters {}, gradients {}, optimizer {}, activations {}, workspace {}\n",
      brief(e.memory.parameters), brief(e.memory.gradients), brief(e.memory.optimizer),
      brief(e.memory.activations), brief(e.memory.workspace));
  if (datacenter.price.value > 0) {
    out << fmt::format("  cost {} per iteration\n", brief(e.price));
  } else {
    out << "  cost unknown: the cluster names no price\n";
  }
  for (const std::string& note : e.notes) out << "  note: " << note << "\n";
}

Value grid_json(const cost::Grid& grid) {
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

Value::Table to_json(const Estimate& e) {
  Value::Array notes;
  for (const std::string& note : e.notes) notes.push_back(note);
  return {{"provenance", "predicted"},
          {"law", std::string(to_name(e.law))},
          {"law_source", e.law_source},
          {"iteration_s", e.iteration.value},
          {"played_s", e.played ? Value(e.played->value) : Value()},
          {"band", band_json(e.band)},
          {"parts", Value::Table{{"compute_s", e.parts.compute.value},
                                 {"bubble_compute_s", e.parts.bubble.value},
                                 {"bubble_comm_s", e.parts.bubble_communication.value},
                                 {"tensor_comm_s", e.parts.tensor_communication.value},
                                 {"pipeline_comm_s", e.parts.pipeline_communication.value},
                                 {"context_comm_s", e.parts.context_communication.value},
                                 {"expert_comm_s", e.parts.expert_communication.value},
                                 {"sync_s", e.parts.data_communication.value},
                                 {"optimizer_s", e.parts.optimizer.value},
                                 {"overhead_s", e.parts.overhead.value}}},
          {"mfu", e.mfu},
          {"hfu", e.hfu},
          {"memory", Value::Table{{"parameters_bytes", e.memory.parameters.value},
                                  {"gradients_bytes", e.memory.gradients.value},
                                  {"optimizer_bytes", e.memory.optimizer.value},
                                  {"activations_bytes", e.memory.activations.value},
                                  {"workspace_bytes", e.memory.workspace.value},
                                  {"total_bytes", e.memory.total().value},
                                  {"device_bytes", e.memory_of_device.value},
                                  {"fits", e.fits()}}},
          {"cost_usd", e.price.value},
          {"devices", e.configuration.devices()},
          {"devices_in_cluster", e.devices_in_cluster},
          {"parallelism", Value::Table{{"tensor", grid_json(e.layout.tensor)},
                                       {"pipeline", grid_json(e.layout.pipeline)},
                                       {"data", grid_json(e.layout.data)},
                                       {"context", grid_json(e.layout.context)},
                                       {"expert", grid_json(e.layout.expert)},
                                       {"virtual_stages", e.configuration.virtual_stages},
                                       {"micro_batches", e.micro_batches}}},
          {"notes", notes}};
}

}  // namespace

Status estimate(const EstimateOptions& options, std::ostream& out) {
  const plan::Job job = TRY(plan::read_job(options.job));
  const bool by_default = options.law.empty();
  const Estimate answer = TRY(estimate::estimate(job, TRY(cost::find_law(options.law)), true));
  if (options.json) {
    command::print_json(out, to_json(answer));
  } else {
    print_text(out, job, answer, by_default);
  }
  return {};
}

command::Command add_estimate(CLI::App& app) {
  auto options = std::make_shared<EstimateOptions>();
  CLI::App* words = app.add_subcommand(
      "estimate", "predict the iteration of a job by a law in closed form, without a Plan");
  words->add_option("job", options->job, "job file (TOML)")->required();
  words->add_option("--law", options->law, "by which law: tombolo (the default) or rail-only");
  command::add_json(words, options->json);
  return {words, [options](std::ostream& out) { return estimate(*options, out); }};
}

}  // namespace tombolo::predict_commands
