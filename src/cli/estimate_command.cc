#include "base/units.h"
#include "cli/answer.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "planner/estimate.h"

namespace tombolo::cli {
namespace {

using planner::Estimate;

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
      {"bubble: compute", e.parts.bubble_compute},
      {"bubble: communication", e.parts.bubble_communication},
      {"tensor communication", e.parts.tensor_communication},
      {"pipeline communication", e.parts.pipeline_communication},
      {"gradients", e.parts.synchronization}};
  for (const auto& [name, time] : parts) {
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
                     count_text(model::parameters(*job.model)), e.split.devices(),
                     datacenter.device.name);
  out << fmt::format(
      "  tensor {}, pipeline {}, data {}, virtual stages {}; {} micro-batches of {}\n",
      inside(e.split.tensor), inside(e.split.pipeline), inside(e.split.data),
      e.split.virtual_stages, e.micro_batches, e.split.micro_batch);
  out << fmt::format("predicted iteration: {}\n", time_text(e.iteration));
  out << fmt::format("  law {}{}: {}\n", e.law, by_default ? " (the default)" : "", e.law_source);
  print_parts(out, e);
  out << fmt::format("  MFU {:.1f} %: operations of the model over peak x devices x time\n",
                     100 * e.mfu);
  out << fmt::format("  HFU {:.1f} %: with those done again by selective recomputation\n",
                     100 * e.hfu);
  out << fmt::format("  memory {} of {} per device: {}\n", brief(e.memory.total()),
                     brief(e.memory_of_device), e.fits() ? "fits" : "DOES NOT FIT");
  out << fmt::format("    parameters {}, gradients {}, optimizer {}, activations {}\n",
                     brief(e.memory.parameters), brief(e.memory.gradients),
                     brief(e.memory.optimizer), brief(e.memory.activations));
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

Value::Table to_json(const Estimate& e) {
  Value::Array notes;
  for (const std::string& note : e.notes) notes.push_back(note);
  return {{"provenance", "predicted"},
          {"law", e.law},
          {"law_source", e.law_source},
          {"iteration_s", e.iteration.value},
          {"parts", Value::Table{{"compute_s", e.parts.compute.value},
                                 {"bubble_compute_s", e.parts.bubble_compute.value},
                                 {"bubble_comm_s", e.parts.bubble_communication.value},
                                 {"tensor_comm_s", e.parts.tensor_communication.value},
                                 {"pipeline_comm_s", e.parts.pipeline_communication.value},
                                 {"sync_s", e.parts.synchronization.value}}},
          {"mfu", e.mfu},
          {"hfu", e.hfu},
          {"memory", Value::Table{{"parameters_bytes", e.memory.parameters.value},
                                  {"gradients_bytes", e.memory.gradients.value},
                                  {"optimizer_bytes", e.memory.optimizer.value},
                                  {"activations_bytes", e.memory.activations.value},
                                  {"total_bytes", e.memory.total().value},
                                  {"device_bytes", e.memory_of_device.value},
                                  {"fits", e.fits()}}},
          {"cost_usd", e.price.value},
          {"devices", e.split.devices()},
          {"devices_in_cluster", e.devices_in_cluster},
          {"parallelism", Value::Table{{"tensor", grid_json(e.split.tensor)},
                                       {"pipeline", grid_json(e.split.pipeline)},
                                       {"data", grid_json(e.split.data)},
                                       {"virtual_stages", e.split.virtual_stages},
                                       {"micro_batches", e.micro_batches}}},
          {"notes", notes}};
}

}  // namespace

Status estimate(const EstimateOptions& options, std::ostream& out) {
  const plan::Job job = TRY(plan::read_job(options.job));
  const bool by_default = options.law.empty();
  const Estimate answer =
      TRY(planner::estimate(job, by_default ? planner::law_names().front() : options.law));
  if (options.json) {
    print_json(out, to_json(answer));
  } else {
    print_text(out, job, answer, by_default);
  }
  return {};
}

}  // namespace tombolo::cli
