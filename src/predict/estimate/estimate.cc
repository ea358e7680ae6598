#include "predict/estimate/estimate.h"

#include <cmath>
#include <set>

#include "base/check.h"
#include "predict/cost/batch_by_speed.h"
#include "predict/cost/law.h"
#include "predict/cost/mixed_pipeline.h"
#include "predict/cost/price_plan.h"
#include "predict/cost/rail_only.h"
#include "predict/published/error_band.h"
#include "predict/sim/simulate.h"
#include "spec/plan/adaptive_batch.h"
#include "spec/plan/exchange_check.h"

namespace tombolo::estimate {
namespace {

constexpr const char* kTomboloSource = "docs/laws/tombolo.md, an operator at a time";
constexpr const char* kRailOnlySource =
    "Wang et al. 2023, How to Build Low-cost Networks for Large Language Models, equations 1 to 7";

// What would make the answer wrong.
Status refuse_what_rail_only_does_not_know(const plan::Job& job) {
  const layout::Parallelism& p = job.parallelism;
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
                    "one [[cluster.datacenter]], or the law tombolo, which prices each separately");
  }
  if (!p.tensor_per_stage.empty()) {
    return unusable(fmt::format("{}: parallelism.tensor_per_stage = [{}]: the law rail-only knows "
                                "one tensor degree",
                                job.file, fmt::join(p.tensor_per_stage, ", ")),
                    "tensor = 8 for all stages, or the law tombolo, which prices each separately");
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
  const layout::Parallelism& p = job.parallelism;
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
  const layout::Parallelism& p = job.parallelism;
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
  ignored(!traits_of(p.schedule).has(layout::kClosedForm),
          fmt::format("schedule = \"{}\"; the law is that of 1f1b and interleaved",
                      to_name(p.schedule)));
  ignored(job.stage_times.has_value(), "[stage_times]");
  ignored(!p.microbatches_per_replica.empty(),
          "microbatches_per_replica; every pipeline is counted with the mean");
  ignored(t.stack != "tombolo",
          fmt::format("stack = \"{}\"; the law has no constants of software", t.stack));
}

// Done a second time in the backward pass: everything but the head, or scores alone.
Flops recomputed_flops(const plan::Job& job) {
  const model::Slice layers{0, job.model->layers, false, false};
  switch (job.training.recompute) {
    case model::Recompute::kNone:
      return {};
    case model::Recompute::kSelective:
      return model::score_flops(*job.model, layers, job.training.global_batch);
    case model::Recompute::kFull:
      return model::forward_flops(*job.model, layers, job.training.global_batch);
  }
  return {};
}

// The six parts of the paper under the names that all laws share.
cost::IterationTime parts_of(const cost::RailOnlyTime& t) {
  return {.compute = t.compute,
          .bubble = t.bubble_compute,
          .bubble_communication = t.bubble_communication,
          .tensor_communication = t.tensor_communication,
          .pipeline_communication = t.pipeline_communication,
          .data_communication = t.synchronization};
}

Status price_by_rail_only(const plan::Job& job, Estimate& e) {
  TRY(refuse_what_rail_only_does_not_know(job));
  const model::Model& m = *job.model;
  const cluster::Datacenter& datacenter = job.cluster.datacenters[0];
  const cost::RailOnlySplit split{.tensor = e.layout.tensor,
                                  .pipeline = e.layout.pipeline,
                                  .data = e.layout.data,
                                  .virtual_stages = e.configuration.virtual_stages,
                                  .micro_batch = e.configuration.micro_batch,
                                  .global_batch = e.configuration.global_batch};
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
  const cost::RailOnlyTime time = cost::rail_only(model, machine, split);
  e.law_source = kRailOnlySource;
  e.parts = parts_of(time);
  e.iteration = time.total();
  const cost::RailOnlyFlops work = cost::rail_only_flops(model, job.training.global_batch);
  const Flops possible =
      machine.peak * static_cast<double>(e.configuration.devices()) * e.iteration;
  e.mfu = work.model / possible;
  e.hfu = work.hardware / possible;
  const cost::RailOnlyMemory memory = cost::rail_only_memory(
      model, split, job.training.optimizer_bytes_per_parameter, job.training.recompute);
  e.memory = {.parameters = memory.parameters,
              .gradients = memory.gradients,
              .optimizer = memory.optimizer,
              .activations = memory.activations,
              .prefill = job.prefill_memory()};
  note_the_model(job, e.notes);
  note_the_training(job, e.notes);
  return {};
}

// What the law tombolo counts otherwise than the job has it.
void note_schedule(const plan::Job& job, std::vector<std::string>& notes) {
  const layout::ScheduleKind schedule = job.parallelism.schedule;
  if (!traits_of(schedule).has(layout::kClosedForm)) {
    notes.push_back(fmt::format(
        "left out: schedule = \"{}\"; the law is that of 1f1b and interleaved", to_name(schedule)));
  }
  if (job.parallelism.sharing == layout::Sharing::kTemporal) {
    notes.push_back("left out: sharing = \"temporal\"; in the law every pipeline sends separately");
  }
}

void note_uneven(const char* what, int64_t number, const char* by, int64_t degree,
                 std::vector<std::string>& notes) {
  if (number % degree == 0) return;
  notes.push_back(fmt::format("{} = {} is no multiple of {} = {}: counted as if it were", what,
                              number, by, degree));
}

void note_what_tombolo_leaves_out(const plan::Job& job, std::vector<std::string>& notes) {
  const layout::Parallelism& p = job.parallelism;
  if (!p.layers_per_stage.empty() && p.virtual_stages > 1) {
    notes.push_back("virtual_stages with layers_per_stage: memory is counted without them");
  }
  note_schedule(job, notes);
  if (job.stage_times) notes.push_back("left out: [stage_times]");
  note_uneven("heads", job.model->heads, "tensor", p.tensor, notes);
  note_uneven("sequence", job.model->sequence, "context", p.context, notes);
}

// Gradient exchanges over a WAN overlap with passes and with each other, and not all of them happen
// in every iteration. That has no closed form, so it is simulated. Nothing where there are none.
Result<std::optional<Seconds>> play_exchange(const plan::Plan& plan) {
  if (!plan.exchanges_gradients()) return std::nullopt;
  return std::optional(seconds(TRY(sim::iteration_time(plan))));
}

// Where several stages with a WAN between them set the pace together, the law counts that pace from
// the second microbatch on, and a pipeline comes to it when it is full.
void note_few_microbatches(const plan::Plan& plan, std::vector<std::string>& notes) {
  constexpr int64_t kOfEachStage = 4;
  const auto stages = std::ssize(plan.stages);
  if (plan.microbatches() >= kOfEachStage * stages) return;
  for (int32_t stage = 0; stage + 1 < stages; ++stage) {
    const cluster::Datacenter& here = plan.datacenter_of(plan.rank_of(stage, 0));
    const cluster::Datacenter& next = plan.datacenter_of(plan.rank_of(stage + 1, 0));
    if (here.name == next.name) continue;
    notes.push_back(
        fmt::format("few microbatches: {} in {} stages over a WAN; with fewer than {} a stage the "
                    "law counts too long",
                    plan.microbatches(), stages, kOfEachStage));
    return;
  }
}

// What 1F1B and GPipe keep on the first stage, where [stage_times] has memory for fewer.
void note_in_flight(const plan::Plan& plan, std::vector<std::string>& notes) {
  const layout::ScheduleKind schedule = plan.parallelism.schedule;
  const bool known = traits_of(schedule).has(layout::kClosedForm) ||
                     traits_of(schedule).has(layout::kAllForwardsFirst);
  if (!plan.in_flight || !known || plan.parallelism.virtual_stages > 1) return;
  const auto stages = std::ssize(plan.stages);
  const int64_t kept = traits_of(schedule).has(layout::kAllForwardsFirst)
                           ? plan.microbatches()
                           : std::min<int64_t>(plan.microbatches(), stages);
  if (kept <= *plan.in_flight) return;
  notes.push_back(
      fmt::format("left out: [stage_times].in_flight = {}; {} keeps {} microbatches on the first "
                  "stage, which tombolo simulate refuses",
                  *plan.in_flight, to_name(schedule), kept));
}

bool stands_apart(const plan::Job& job) {
  return job.cluster.datacenters.size() > 1 || !job.parallelism.tensor_per_stage.empty() ||
         !job.parallelism.microbatches_per_replica.empty();
}

// Laid out and priced as a Plan, then stage by stage.
Status price_stages_apart(const plan::Job& job, Estimate& e) {
  const plan::Plan plan = TRY(cost::make_plan(job));
  e.stages_apart = TRY(cost::predict_plan(plan, job.file));
  const cost::PlanPrediction& predicted = *e.stages_apart;
  e.law_source =
      fmt::format("docs/laws/mixed_pipeline.md, over stage times by {}", to_name(plan.cost_source));
  e.iteration = predicted.time.iteration;
  if (const auto played = TRY(play_exchange(plan))) {
    e.iteration = *played;
    e.exchange_played = true;
    e.law_source = fmt::format("played as tombolo simulate does, over stage times by {}",
                               to_name(plan.cost_source));
    e.notes.push_back(
        fmt::format("[exchange] mode = \"{}\" has no closed form: the iteration is as tombolo "
                    "simulate plays it",
                    to_name(plan.exchange.value_or(plan::Exchange{}).mode)));
  } else {
    note_few_microbatches(plan, e.notes);
  }
  for (std::string& note : plan::notes_on_exchange(plan)) e.notes.push_back(std::move(note));
  for (std::string& note : plan::notes_on_density(plan)) e.notes.push_back(std::move(note));
  for (std::string& note : plan::notes_on_adaptive_batch(plan)) e.notes.push_back(std::move(note));
  e.price = predicted.ledger.cost(e.iteration).total();
  e.devices = predicted.devices;
  e.memory = predicted.fullest().memory;
  e.memory_of_device = predicted.fullest().memory_of_device;
  if (plan.cost_source != plan::CostSource::kStageTimes && e.iteration > 0_s) {
    const Flops work = cost::model_flops(*job.model, job.training.global_batch);
    e.mfu = work / (predicted.peak * e.iteration);
    e.hfu = (work + recomputed_flops(job)) / (predicted.peak * e.iteration);
  }
  e.notes.insert(e.notes.end(), predicted.assumed.begin(), predicted.assumed.end());
  note_schedule(job, e.notes);
  note_in_flight(plan, e.notes);
  std::set<int64_t> tensors;
  for (const cost::PlacedStage& stage : predicted.stages) {
    if (tensors.insert(stage.tensor).second) {
      note_uneven("heads", job.model->heads, "tensor", stage.tensor, e.notes);
    }
  }
  note_uneven("sequence", job.model->sequence, "context", job.parallelism.context, e.notes);
  return {};
}

Status price_by_tombolo(const plan::Job& job, Estimate& e) {
  const cluster::Datacenter& datacenter = job.cluster.datacenters[0];
  const cost::IterationLaw law = TRY(
      during(cost::IterationLaw::make(*job.model, datacenter, cost::settings_of(job)), job.file));
  const std::vector<int64_t> uneven = cost::layers_at_positions(job.parallelism);
  e.layout = cost::lay_out(
      e.configuration, cost::usable_domain(datacenter.scale_up.domain, e.configuration.devices()));
  const cost::Prediction predicted =
      uneven.empty() ? law.predict(e.configuration) : law.predict(e.configuration, uneven);
  e.law_source = kTomboloSource;
  e.parts = predicted.time;
  e.iteration = predicted.time.total();
  e.memory = predicted.memory;
  const Flops work = cost::model_flops(*job.model, job.training.global_batch);
  const Flops possible =
      cost::usable_peak(datacenter.device, job.training.precision == plan::Precision::kFp8) *
      real(e.devices) * e.iteration;
  e.mfu = work / possible;
  e.hfu = (work + recomputed_flops(job)) / possible;
  for (const std::string& assumed : law.constants().assumed) e.notes.push_back(assumed);
  note_what_tombolo_leaves_out(job, e.notes);
  return {};
}

}  // namespace

std::optional<Seconds> simulate_within(Seconds at_most, const plan::Job& job) {
  if (job.stage_times && !stands_apart(job)) return std::nullopt;  // the law leaves them out
  Result<plan::Plan> plan = cost::make_plan(job);
  if (!plan) return std::nullopt;
  const std::optional<plan::Plan> plans[] = {*std::move(plan)};
  return sim::iterations_within(at_most, plans, 1).front();
}

Result<Estimate> estimate(const plan::Job& asked, cost::Law law, bool with_band) {
  const plan::Job job = TRY(cost::with_batch_by_speed(asked));
  if (!job.model) {
    return unusable(fmt::format("{}: model is missing", job.file),
                    "[model] with preset = \"gpt3-175b\" or config = \"config.json\"");
  }
  TRY(plan::check_divisions(job));
  CHECK(!job.cluster.datacenters.empty(), "{}: a job without a datacenter", job.file);
  const cluster::Datacenter& datacenter = job.cluster.datacenters[0];
  Estimate e;
  e.law = law;
  e.configuration = TRY(cost::configuration_of(job));
  e.layout = cost::lay_out(e.configuration, datacenter.scale_up.domain);
  e.microbatches =
      law == cost::Law::kRailOnly ? e.configuration.microbatches() : job.microbatches();
  e.microbatches_per_replica = job.parallelism.microbatches_per_replica;
  CHECK(e.microbatches >= 1, "{}: a batch of {} has no microbatch", job.file,
        job.training.global_batch);
  e.devices = e.configuration.devices();
  e.devices_in_cluster = job.cluster.devices();
  e.memory_of_device = datacenter.device.memory;
  e.notes = job.notes;
  if (law == cost::Law::kTombolo && !job.constants.empty() &&
      job.constants != cost::constants_digest()) {
    e.notes.push_back(
        "the Plan was priced with other constants than this version has: priced again, so tombolo "
        "simulate, "
        "which plays what the Plan says, may differ");
  }
  if (job.exchange && !stands_apart(job)) e.notes.emplace_back(plan::kExchangeHasNoEffect);
  if (law == cost::Law::kTombolo && stands_apart(job)) {
    TRY(price_stages_apart(job, e));
    return e;
  }
  if (e.devices > e.devices_in_cluster) {
    e.notes.push_back(fmt::format("the split needs {} devices, the cluster has {}", e.devices,
                                  e.devices_in_cluster));
  }
  TRY(law == cost::Law::kRailOnly ? price_by_rail_only(job, e) : price_by_tombolo(job, e));
  if (datacenter.price.value > 0) e.price = datacenter.price * real(e.devices) * e.iteration;
  if (with_band && law == cost::Law::kTombolo) {
    published::BandOrNote errors = TRY(published::error_band(job, e.iteration));
    e.band = std::move(errors.band);
    if (!e.band) e.notes.push_back(std::move(errors.note));
  }
  return e;
}

}  // namespace tombolo::estimate
