#include "predict/strand/plan_strands.h"

#include <algorithm>

#include "base/check.h"
#include "predict/cost/constants.h"
#include "predict/cost/device_memory.h"
#include "predict/cost/law.h"
#include "predict/cost/layer_time.h"
#include "predict/strand/equation_2.h"
#include "predict/strand/layer_strands.h"
#include "predict/strand/sm_share.h"

namespace tombolo::strand {
namespace {

Status check_job(const plan::Job& job, const StrandOptions& options) {
  if (!job.model) {
    return unusable(fmt::format("{}: model is missing", job.file),
                    "[model] with preset = \"llama3-70b\" or config = \"config.json\"");
  }
  if (!job.parallelism.tensor_per_stage.empty()) {
    return unusable(fmt::format("{}: parallelism.tensor_per_stage = [{}]: strands are planned for "
                                "one tensor degree",
                                job.file, fmt::join(job.parallelism.tensor_per_stage, ", ")),
                    "tensor = 8, once for each degree");
  }
  if (options.dense && !(job.model->experts && job.model->has_dense_layers())) {
    return unusable(
        fmt::format("{}: the model has no dense layers in addition to those with experts",
                    job.file),
        "leave out --dense");
  }
  if (job.model->linear_attention) {
    return unusable(
        fmt::format("{}: model.linear_attention: its operators are not known to strands", job.file),
        "a model without it");
  }
  return plan::check_divisions(job);
}

Status check_there_is_something_to_hide(const plan::Job& job, const cost::Configuration& c,
                                        bool experts) {
  if (c.tensor == 1 && c.context == 1 && !(experts && c.expert > 1)) {
    return infeasible(
        fmt::format("{}: nothing to hide: tensor = 1, context = 1{}, so a layer does not "
                    "communicate",
                    job.file, experts ? ", expert = 1" : ""),
        "tensor = 8, or leave strands out");
  }
  if (c.microbatches() < 2) {
    return infeasible(
        fmt::format("{}: one microbatch per pipeline: the backward pass of one needs "
                    "the forward pass of another with it",
                    job.file),
        fmt::format("micro_batch = {} or less", std::max<int64_t>(1, c.micro_batch / 2)));
  }
  return {};
}

// On CPUs the stack is our own, which hides nothing; no published measurements say what overlaps.
bool computes_here(const plan::Job& job) {
  return !cost::has_constants(job.cluster.datacenters[0].device);
}

// What the stack leaves of both passes by its own overlap (cost/iteration.h does the same).
double hidden_by_stack(const cost::LayerTime& layer, const cost::StackConstants& stack) {
  double seconds = 0;
  for (const cost::LayerPass* pass : {&layer.forward, &layer.backward}) {
    seconds += pass->compute + pass->tensor * (1 - stack.tensor_overlap) +
               pass->expert * (1 - stack.expert_overlap) +
               std::max(0.0, pass->context - pass->attention * stack.context_overlap);
  }
  return seconds;
}

std::string shares_hidden(const cost::LayerTime& layer, const cost::StackConstants& stack) {
  std::string out;
  const auto add = [&](double seconds, double share, const char* what) {
    if (seconds <= 0) return;
    out += fmt::format("{}{:.0f} % of {}", out.empty() ? "" : " and ", 100 * share, what);
  };
  add(layer.forward.tensor, stack.tensor_overlap, "tensor communication");
  add(layer.forward.expert, stack.expert_overlap, "expert communication");
  return out;
}

int64_t longest_of(const LayerShape& shape, const cost::LayerOperators& operators) {
  const OperatorCounts counts = operator_counts(shape, operators);
  return std::max(counts.forward, counts.backward);
}

// Limits the layer's time: progress is kept as a share of the work left, and next to an extremely long
// operator the shares of all others would vanish.
Status check_duration(const plan::Job& job, const cost::LayerOperators& operators) {
  constexpr double kMost = 1e9;
  const cost::LayerTime layer = cost::layer_of(operators);
  double seconds = 0;
  for (const cost::LayerPass* pass : {&layer.forward, &layer.backward})
    seconds += pass->compute + pass->tensor + pass->expert + pass->context;
  if (seconds < kMost) return {};
  return infeasible(
      fmt::format("{}: a layer takes {}: longer than 31 years", job.file, brief(Seconds{seconds})),
      "faster links, or leave strands out");
}

// Before any operator is made. One layer too long is beyond the law; several are asked for.
Status check_length(const plan::Job& job, const LayerShape& shape,
                    const cost::LayerOperators& operators, int64_t layers) {
  constexpr auto kMost = static_cast<int64_t>(kOperatorsMax);
  const int64_t longest = longest_of(shape, operators);
  if (longest > kMost) {
    LayerShape fitting = shape;
    while (longest_of(fitting, operators) > kMost) fitting.context /= 2;
    return infeasible(
        fmt::format("{}: context = {}: a pass through a layer has {} operators, and a strand at "
                    "most {}",
                    job.file, shape.context, longest, kMost),
        fmt::format("context = {} or less, or leave strands out", fitting.context));
  }
  if (layers > kMost / longest) {
    return unusable(fmt::format("{} layers of up to {} operators: a strand has at most {}", layers,
                                longest, kMost),
                    fmt::format("--layers {}", kMost / longest));
  }
  return {};
}

struct Priced {
  LayerStrands strands;
  double by_stack = 0;
  std::string hidden;  // by the stack, a share of each kind of communication
  Bytes activations;   // of a layer
  std::vector<std::string> notes;
};

Result<Priced> price(const plan::Job& job, const cost::Configuration& c, bool experts,
                     const StrandOptions& options) {
  const cluster::Datacenter& site = job.cluster.datacenters[0];
  const cost::LawSettings settings = cost::settings_of(job);
  const cost::Constants constants =
      TRY(during(cost::find_constants(site, settings.stack), job.file));
  const cost::LayerPricer pricer(*job.model, site, constants, settings.element_bytes, settings.fp8);
  const cost::GroupPlacement layout =
      cost::lay_out(c, cost::usable_domain(site.scale_up.domain, c.devices()));
  const cost::LayerOperators operators = pricer.operators(c, layout, experts);
  LayerShape shape = shape_of(c, layout, options.gather_again);
  if (computes_here(job)) {  // as our own stack has it
    shape.as_trained = true;
    shape.norm_after = job.model->output_norms.value_or(false);
    shape.shared_gate = experts && job.model->experts->shared_gate;
    shape.tensor_stream = Stream::kLocal;  // shards are threads of a process, experts of ranks
    shape.expert_stream = Stream::kCross;
  }
  TRY(check_duration(job, operators));
  TRY(check_length(job, shape, operators, options.layers));
  Priced out;
  out.strands = layer_strands(shape, operators);
  const auto layers = static_cast<size_t>(options.layers);
  out.strands.forward = chain(out.strands.forward, layers);
  out.strands.backward = chain(out.strands.backward, layers);
  out.by_stack = real(options.layers) * hidden_by_stack(layer_of(operators), constants.stack);
  out.hidden = shares_hidden(layer_of(operators), constants.stack);
  const cost::MemoryInputs memory{.element_bytes = settings.element_bytes,
                                  .state_bytes = settings.state_bytes,
                                  .bf16 = settings.bf16};
  const int64_t last = job.model->layers - 1;  // a layer with experts, where some have them
  out.activations = cost::slice_memory(*job.model, c, constants.stack, memory,
                                       {.first_layer = last, .layers = 1}, 1)
                        .activations;
  const bool measured = options.profile && measures_all(*options.profile, out.strands.forward) &&
                        measures_all(*options.profile, out.strands.backward);
  if (!measured || !computes_here(job)) out.notes = constants.assumed;
  const double host = constants.stack.host_layer.value * (1 + constants.stack.host_backward);
  if (host * real(options.layers) > out.strands.forward.seconds(out.strands.forward.all()) +
                                        out.strands.backward.seconds(out.strands.backward.all())) {
    out.notes.push_back(fmt::format(
        "the host launches a layer in {:.3g} ms, longer than it runs: times are those of captured "
        "graphs, which it does not slow",
        1e3 * host));
  }
  return out;
}

// The same search for every share; the fastest counts.
void search(const StrandPair& pair, const StrandOptions& options, StrandAnswer& best) {
  const SegmentPlan plan = search_segments(pair, options.search);
  StreamSchedule streams = search_streams(pair, plan, options.nodes_max);
  const bool events = options.execution == Execution::kEvents;
  const double paired = events ? streams.seconds : plan.seconds;
  if (best.paired > 0 && paired >= best.paired) return;
  best.pair = pair;
  best.paired = paired;
  best.runs.clear();
  if (events) {
    best.runs = streams.runs;
  } else {
    replay(pair, plan, options.search.barrier, &best.runs);
  }
  best.plan = plan;
  best.streams = std::move(streams);
}

void search_shares(const StrandPair& pair, const StrandOptions& options, StrandAnswer& best) {
  if (options.sm_shares.empty()) return search(pair, options, best);
  for (const double share : options.sm_shares) {
    const double before = best.paired;
    search(with_sm_share(pair, kSmShareDefault, share), options, best);
    if (best.paired != before) best.sm_share = share;
  }
}

// Against both strands one after the other as the stack runs them, whatever share of the
// multiprocessors was chosen here.
GainSpread spread_of(const StrandAnswer& answer, const StrandOptions& options,
                     const Uncertainty& uncertainty) {
  const double other_share = answer.sequential / sequential_seconds(answer.pair);
  GainSpread gain = gain_spread(answer.pair, uncertainty, [&](const StrandPair& other) {
    return options.execution == Execution::kEvents
               ? replay(other, answer.streams)
               : replay(other, answer.plan, options.search.barrier);
  });
  for (double* each : {&gain.expected, &gain.low, &gain.high}) *each *= other_share;
  return gain;
}

// Never slower than without: a gain that the noise may eat is none.
std::string refusal(const StrandAnswer& answer, const std::string& stack) {
  if (answer.gain.low <= 1) {
    return fmt::format("the gain is below the noise: {:.3f} expected, {:.3f} in one case of twenty",
                       answer.gain.expected, answer.gain.low);
  }
  const double over_stack = answer.by_stack / answer.paired;
  const double share = answer.gain.low / answer.expected_gain();
  if (over_stack * share <= 1) {
    return fmt::format(
        "the stack {} hides as much on its own: {} a pair, {} with strands, within the noise",
        stack, brief(Seconds{answer.by_stack}), brief(Seconds{answer.paired}));
  }
  return "";
}

void note_pipeline(const plan::Job& job, std::vector<std::string>& notes) {
  const layout::ScheduleKind schedule = job.parallelism.schedule;
  if (job.parallelism.pipeline == 1 || traits_of(schedule).has(layout::kPairs)) return;
  notes.push_back(fmt::format(
      "schedule = \"{}\": forward and backward passes meet on every rank only where the model is "
      "folded, with schedule = \"w\" or \"dualpipev\"",
      to_name(schedule)));
}

// The stack's constants are shares of what it hides; they do not say which operators it starts early,
// as the baseline of strands does. Where they hide little, the stack alone is the slower of the two.
void note_baselines(const std::string& hidden, const std::string& stack, StrandAnswer& answer) {
  if (answer.by_stack <= answer.sequential || hidden.empty()) return;
  answer.notes.push_back(fmt::format(
      "the stack on its own is slower than one after the other: it is as estimate "
      "counts it, and the constants of {} hide {}; one after the other, what frameworks "
      "start early travels during the operator after it",
      stack, hidden));
}

std::string source_of(const PublishedOverlap& published, const StrandOptions& options) {
  std::string rest = "one after the other, since nothing is published of CPUs";
  if (!published.platform.empty()) {
    rest = fmt::format("figure 4 of Wang et al. 2024 (DHelix), {}{}", published.platform,
                       published.nearest ? ", the nearest platform" : "");
  }
  return options.profile ? "the profile, and where it says nothing " + rest : rest;
}

}  // namespace

Result<StrandAnswer> plan_strands(const plan::Job& job, const StrandOptions& options) {
  CHECK(options.layers >= 1, "{} layers", options.layers);
  TRY(check_job(job, options));
  const cost::Configuration c = TRY(cost::configuration_of(job));
  const bool experts = job.model->experts.has_value() && !options.dense;
  TRY(check_there_is_something_to_hide(job, c, experts));
  Priced priced = TRY(price(job, c, experts, options));
  const bool here = computes_here(job);
  PublishedOverlap overlap;
  if (!here) overlap = published_overlap(job.cluster.datacenters[0].device.name);
  const auto alone = [&] {
    const LayerStrands& both = priced.strands;
    return both.forward.seconds(both.forward.all()) + both.backward.seconds(both.backward.all());
  };
  const double by_law = alone();
  Uncertainty uncertainty = options.uncertainty;
  if (options.profile) {
    apply_pairs(*options.profile, overlap.table);
    uncertainty.measured = apply_times(*options.profile, priced.strands.forward);
    const std::vector<double> more = apply_times(*options.profile, priced.strands.backward);
    uncertainty.measured.insert(uncertainty.measured.end(), more.begin(), more.end());
    if (by_law > 0)
      priced.by_stack *= alone() / by_law;  // what was measured hides as large a share
  }
  for (Dag* dag : {&priced.strands.forward, &priced.strands.backward}) {
    for (size_t i = 0; i < dag->size(); ++i) {
      const Operator& op = (*dag)[i];
      dag->set_no_sm(i, std::find(options.copies.begin(), options.copies.end(), op.stream) !=
                            options.copies.end());
    }
  }
  StrandAnswer answer{.pair = StrandPair(std::move(priced.strands.forward),
                                         std::move(priced.strands.backward), overlap.table)};
  answer.notes = job.notes;
  answer.notes.insert(answer.notes.end(), priced.notes.begin(), priced.notes.end());
  answer.execution = options.execution;
  answer.by_stack = here ? answer.pair.seconds() : priced.by_stack;
  answer.memory_more = priced.activations;
  answer.sequential = sequential_seconds(answer.pair);
  answer.equation_2 =
      equation_2(segment_times(answer.pair, single_operators(answer.pair.forward()),
                               single_operators(answer.pair.backward()), options.search.barrier))
          .back();
  search_shares(StrandPair(answer.pair), options, answer);
  answer.gain = spread_of(answer, options, uncertainty);
  answer.exposure = exposure_of(answer.pair, answer.runs, answer.paired);
  answer.overlap = source_of(overlap, options);
  answer.refused = refusal(answer, job.training.stack);
  if (!here) note_baselines(priced.hidden, job.training.stack, answer);
  note_pipeline(job, answer.notes);
  if (job.parallelism.zero == 3 && c.replicas() > 1)
    answer.notes.emplace_back(
        "left out: what zero = 3 gathers and sums in every layer; both passes are timed as if it "
        "did not");
  return answer;
}

}  // namespace tombolo::strand
