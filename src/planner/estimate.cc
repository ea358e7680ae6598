#include "planner/estimate.h"

#include <cmath>
#include <map>

namespace tombolo::planner {
namespace {

constexpr const char* kRailOnly = "rail-only";
constexpr const char* kRailOnlySource =
    "Wang et al. 2023, How to Build Low-cost Networks for Large Language Models, equations 1 to 7";

// What would make the answer wrong.
Status refuse_what_rail_only_does_not_know(const plan::Job& job) {
  const plan::Parallelism& p = job.parallelism;
  if (!job.model) {
    return unusable(fmt::format("{}: model is missing", job.file),
                    "[model] with preset = \"gpt3-175b\" or config = \"config.json\"");
  }
  for (const auto& [name, degree] :
       {std::pair("context", p.context), std::pair("expert", p.expert)}) {
    if (degree == 1) continue;
    return unusable(fmt::format("{}: parallelism.{} = {}: the law rail-only knows tensor, "
                                "pipeline and data parallelism only",
                                job.file, name, degree),
                    fmt::format("{} = 1, with more tensor or data parallelism", name));
  }
  if (p.zero == 3) {
    return unusable(fmt::format("{}: parallelism.zero = 3: the law rail-only knows no gathering "
                                "of parameters",
                                job.file),
                    "zero = 0, 1 or 2");
  }
  if (job.cluster.datacenters.size() > 1) {
    return unusable(fmt::format("{}: cluster: {} datacenters; the law rail-only knows one network "
                                "for all devices",
                                job.file, job.cluster.datacenters.size()),
                    "one [[cluster.datacenter]], or tombolo simulate for a pipeline across a WAN");
  }
  return {};
}

Status check_divisions(const plan::Job& job) {
  const plan::Parallelism& p = job.parallelism;
  const plan::Training& t = job.training;
  const int64_t together = t.micro_batch * p.data;
  if (t.global_batch % together != 0) {
    return unusable(fmt::format("{}: training.global_batch = {}: not a multiple of micro_batch x "
                                "data = {}",
                                job.file, t.global_batch, together),
                    fmt::format("{}", (t.global_batch / together + 1) * together));
  }
  if (job.model->layers < p.pipeline * p.virtual_stages) {
    return unusable(fmt::format("{}: parallelism: {} stages x {} virtual stages, but the model has "
                                "only {} layers",
                                job.file, p.pipeline, p.virtual_stages, job.model->layers),
                    fmt::format("pipeline x virtual_stages of at most {}", job.model->layers));
  }
  return {};
}

// Lays the degrees over the scale-up domain in the job's order.
Status fill_domain(const plan::Job& job, cost::RailOnlySplit& split) {
  const plan::Parallelism& p = job.parallelism;
  const auto refuse = [&](const std::string& why) {
    return unusable(fmt::format("{}: parallelism.order = \"{}\": {}", job.file, p.order, why),
                    "\"tp-cp-ep-dp-pp\", innermost first");
  };
  std::map<std::string, std::pair<int64_t, cost::Grid*>> degrees{
      {"tp", {p.tensor, &split.tensor}},
      {"pp", {p.pipeline, &split.pipeline}},
      {"dp", {p.data, &split.data}},
      {"cp", {1, nullptr}},
      {"ep", {1, nullptr}}};
  int64_t left = job.cluster.datacenters[0].scale_up.domain;
  for (size_t begin = 0; begin <= p.order.size();) {
    const size_t end = std::min(p.order.find('-', begin), p.order.size());
    const std::string name = p.order.substr(begin, end - begin);
    const auto found = degrees.find(name);
    if (found == degrees.end()) return refuse(fmt::format("\"{}\" is unknown or twice", name));
    const auto [degree, grid] = found->second;
    if (grid) *grid = cost::take_from_domain(degree, left);
    degrees.erase(found);
    begin = end + 1;
  }
  for (const char* needed : {"tp", "dp", "pp"}) {
    if (degrees.contains(needed)) return refuse(fmt::format("\"{}\" is missing", needed));
  }
  return {};
}

void note_the_model(const plan::Job& job, std::vector<std::string>& notes) {
  const model::Model& m = *job.model;
  // What a token meets in a layer, on average: layers with experts and without differ.
  model::Model alone = m;
  alone.multi_token_layers.reset();
  const int64_t around = model::parameters(alone, {0, 0, true, true});
  const auto layer =
      static_cast<double>(model::active_parameters(alone) - around) / static_cast<double>(m.layers);
  const auto counted = 12.0 * static_cast<double>(m.hidden) * static_cast<double>(m.hidden);
  if (std::abs(layer / counted - 1) > 0.01) {
    notes.push_back(
        fmt::format("time counts layers of GPT with 12 h^2 parameters; {} "
                    "{:.1f} % {}",
                    m.experts ? "a token meets, in this model's," : "this model's have",
                    100 * std::abs(layer / counted - 1), layer > counted ? "more" : "fewer"));
  }
  if (m.experts) {
    notes.push_back(
        fmt::format("experts.count = {}: every data-parallel rank is counted with all "
                    "experts; without their all-to-all",
                    m.experts->count));
  }
  const plan::Parallelism& p = job.parallelism;
  if (m.layers % (p.pipeline * p.virtual_stages) != 0 || !p.layers_per_stage.empty()) {
    notes.push_back(fmt::format("stages are counted as equal, {:.4g} layers each",
                                static_cast<double>(m.layers) / static_cast<double>(p.pipeline)));
  }
  for (const auto& [name, number] : {std::pair("heads", m.heads), std::pair("hidden", m.hidden),
                                     std::pair("sequence", m.sequence)}) {
    if (number % p.tensor == 0) continue;
    notes.push_back(fmt::format("{} = {} is no multiple of tensor = {}: counted as if it were",
                                name, number, p.tensor));
  }
}

void note_the_training(const plan::Job& job, std::vector<std::string>& notes) {
  const plan::Training& t = job.training;
  const plan::Parallelism& p = job.parallelism;
  const auto ignored = [&](bool given, const std::string& what) {
    if (given) notes.push_back("left out: " + what);
  };
  ignored(t.recompute != model::Recompute::kSelective,
          fmt::format("recompute = \"{}\" for time, which counts selective recomputation; memory "
                      "follows it",
                      to_name(t.recompute)));
  ignored(t.precision == plan::Precision::kFp32,
          "precision = \"fp32\"; bytes are those of 16-bit numbers");
  ignored(p.tensor > 1 && !p.sequence_parallel,
          "sequence_parallel = false; tensor parallelism is counted with it");
  ignored(p.zero > 0, fmt::format("zero = {}; memory is that of zero = 0", p.zero));
  ignored(p.schedule != "1f1b" && p.schedule != "interleaved",
          fmt::format("schedule = \"{}\"; the law is that of 1f1b and interleaved", p.schedule));
  ignored(job.stage_times.has_value(), "[stage_times]");
  ignored(t.stack != "tombolo",
          fmt::format("stack = \"{}\"; the law has no constants of software", t.stack));
}

}  // namespace

std::vector<std::string> law_names() { return {kRailOnly}; }

Result<Estimate> estimate(const plan::Job& job, std::string_view law) {
  if (law == "tombolo") {
    return unusable("--law tombolo: this law is not available yet", "--law rail-only");
  }
  if (law != kRailOnly) {
    return unusable(fmt::format("--law {}: there is no such law", law), "--law rail-only");
  }
  TRY(refuse_what_rail_only_does_not_know(job));
  TRY(check_divisions(job));

  const model::Model& m = *job.model;
  const cluster::Datacenter& datacenter = job.cluster.datacenters[0];
  Estimate e;
  e.law = kRailOnly;
  e.law_source = kRailOnlySource;
  e.split.virtual_stages = job.parallelism.virtual_stages;
  e.split.micro_batch = job.training.micro_batch;
  e.split.global_batch = job.training.global_batch;
  TRY(fill_domain(job, e.split));
  e.micro_batches = job.training.global_batch / (job.training.micro_batch * job.parallelism.data);

  const cost::RailOnlyModel model{.layers = m.layers,
                                  .hidden = m.hidden,
                                  .heads = m.heads,
                                  .sequence = m.sequence,
                                  .vocabulary = m.vocabulary,
                                  .parameters = static_cast<double>(model::parameters(m))};
  const cost::RailOnlyMachine machine{
      .peak = datacenter.device.peak,
      .attention_slowdown = 1 / datacenter.device.attention_efficiency,
      .domain_bandwidth = datacenter.scale_up.bandwidth,
      .network_bandwidth = datacenter.scale_out.bandwidth,
      .domain_latency = datacenter.scale_up.latency,
      .network_latency = datacenter.scale_out.latency};
  e.parts = cost::rail_only(model, machine, e.split);
  e.iteration = e.parts.total();

  const auto devices = static_cast<double>(e.split.devices());
  const cost::RailOnlyFlops work = cost::rail_only_flops(model, job.training.global_batch);
  const Flops possible = machine.peak * devices * e.iteration;
  e.mfu = work.model / possible;
  e.hfu = work.hardware / possible;
  e.memory = cost::rail_only_memory(model, e.split, job.training.optimizer_bytes_per_parameter,
                                    job.training.recompute);
  e.memory_of_device = datacenter.device.memory;
  e.price = datacenter.price * devices * e.iteration;
  e.devices_in_cluster = job.cluster.devices();

  e.notes = job.notes;
  if (e.split.devices() > e.devices_in_cluster) {
    e.notes.push_back(fmt::format("the split needs {} devices, the cluster has {}",
                                  e.split.devices(), e.devices_in_cluster));
  }
  note_the_model(job, e.notes);
  note_the_training(job, e.notes);
  return e;
}

}  // namespace tombolo::planner
