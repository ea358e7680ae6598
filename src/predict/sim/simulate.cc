#include "predict/sim/simulate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/check.h"
#include "base/interruption.h"
#include "base/parallel.h"
#include "predict/sim/batch_steering.h"
#include "predict/sim/density_steering.h"
#include "predict/sim/equal_pipelines.h"
#include "predict/sim/interpret.h"
#include "spec/plan/adaptive_batch.h"
#include "spec/plan/plan_file.h"
#include "spec/schedule/exchange_graph.h"
#include "spec/schedule/local_steps.h"
#include "spec/schedule/pass_parts.h"
#include "spec/schedule/schedule.h"

namespace tombolo::sim {
namespace {

// Each replica passes all gradients to each of the others, one after the other: more than it does.
template <class Add>
Status add_exchange_of(const plan::Plan& plan, int32_t stage, double iterations, const Add& add) {
  const std::vector<int32_t> ranks = plan.replicas_of(stage);
  const Bytes bytes = plan.stages[static_cast<size_t>(stage)].gradients;
  const double times = iterations * static_cast<double>(ranks.size());
  for (const int32_t to : ranks) {
    if (to == ranks.front()) continue;
    const plan::Channel channel = plan::expected_channel(plan, ranks.front(), to);
    TRY(add("latency of " + channel.link, channel.latency, 4 * times));
    TRY(add("gradients over " + channel.link, channel.serialisation(bytes), times * times));
  }
  return {};
}

// A Plan file can say anything. An upper bound of the simulated time, every message and computation
// after the other, must fit into 64 bits of nanoseconds; so must the bytes.
Status check_numbers(const plan::Plan& plan, int64_t iterations) {
  double total = 0;
  const auto add = [&](const std::string& what, Seconds each, double count) -> Status {
    if (!(each.value >= 0)) {
      return unusable(fmt::format("{} takes {}: times must not be negative", what, format(each)));
    }
    total += each.value * count;
    if (total < 9e9) return {};
    return unusable(
        fmt::format("{} takes {}: the simulation would span over 290 years", what, brief(each)),
        "fewer iterations, or other units");
  };
  if (!(plan.boundary.value >= 0 && plan.boundary.value < 9e18)) {
    return unusable(fmt::format("boundary = \"{}\" cannot be sent", format(plan.boundary)));
  }
  const double microbatches =
      static_cast<double>(plan.microbatches()) * static_cast<double>(iterations);
  const auto add_cost = [&](size_t s, const plan::StageCost& cost) -> Status {
    TRY(add(fmt::format("forward of stage {}", s), cost.forward, microbatches));
    TRY(add(fmt::format("backward of stage {}", s), cost.backward, microbatches));
    TRY(add(fmt::format("recompute of stage {}", s), cost.recompute, microbatches));
    TRY(add(fmt::format("update of stage {}", s), cost.update, static_cast<double>(iterations)));
    return add(fmt::format("reduce of stage {}", s), cost.reduce + cost.reduce_hidden,
               static_cast<double>(iterations));
  };
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    TRY(add_cost(s, plan.stages[s].cost));
    for (const plan::StageCostIn& other : plan.stages[s].elsewhere) TRY(add_cost(s, other.cost));
    const Bytes gradients = plan.stages[s].gradients;
    if (!(gradients.value >= 0 && gradients.value < 9e18)) {
      return unusable(fmt::format("gradients = \"{}\" cannot be summed", format(gradients)));
    }
  }
  for (const plan::PairCost& pair : plan.pairs) {
    TRY(add(fmt::format("a pair of stages {} and {}", pair.forward, pair.backward), pair.duration(),
            microbatches));
  }
  if (plan.given) {
    for (const Seconds release : plan.given->release) {
      TRY(add("a release of the given schedule", release, static_cast<double>(iterations)));
    }
  }
  const schedule::PipelineShape shape = schedule::shape_of(plan);
  const auto pairs = static_cast<int32_t>((plan.stages.size() - 1) * plan.parallelism.data);
  for (int32_t pair = 0; pair < pairs; ++pair) {
    const int32_t stage = pair / plan.replicas();
    const int32_t from = plan.rank_of(stage, pair % plan.replicas());
    const int32_t to = plan.rank_of(stage + 1, pair % plan.replicas());
    if (from == to) continue;
    const plan::Channel channel = shape.shares(stage, pair % plan.replicas())
                                      ? plan::shared_channel(plan, from, to)
                                      : plan::expected_channel(plan, from, to);
    // Flows that share a path are slower than one alone, by at most their number.
    const double sharing = static_cast<double>(plan.ranks.size());
    TRY(add("latency of " + channel.link, channel.latency, 2 * microbatches));
    TRY(add("a transfer over " + channel.link, channel.serialisation(plan.boundary),
            2 * microbatches * sharing));
  }
  for (const layout::Placement& rank : plan.ranks) {
    const std::optional<int32_t> other = plan.other_end(rank.rank);
    if (!other) continue;
    const plan::Channel channel = plan::expected_channel(plan, rank.rank, *other);
    const double times = static_cast<double>(iterations) * static_cast<double>(plan.ranks.size());
    TRY(add("gradients of the tied embedding over " + channel.link,
            channel.latency + channel.serialisation(plan::tied_bytes(plan, plan.model)), times));
  }
  for (int32_t stage = 0; stage < static_cast<int32_t>(plan.stages.size()); ++stage) {
    if (!plan.exchanges_gradients(stage)) continue;
    TRY(add_exchange_of(plan, stage, static_cast<double>(iterations), add));
  }
  return {};
}

// Of what a Trace has: all pipelines, or one of each kind, for as many as run like it.
trace::Header header_of(const plan::Plan& plan, const PipelineSample& sample, Alike alike,
                        const Execution& execution) {
  trace::Header header;
  header.provenance = trace::Provenance::kPredicted;
  header.name = plan.name;
  header.plan_digest = plan::plan_digest(plan);
  header.fingerprint = execution.fingerprint;
  header.seed = plan.run.seed;
  header.overlaps = plan.exchange_overlaps();
  header.cycle = schedule::cycle_of(plan);
  std::vector<int64_t> run_like(sample.like.size());
  for (const int32_t like : sample.like) ++run_like[static_cast<size_t>(like)];
  for (const layout::Placement& placement : plan.ranks) {
    const int64_t stands_for =
        alike == Alike::kOnce ? run_like[static_cast<size_t>(placement.replica)] : 1;
    if (stands_for == 0) continue;
    header.ranks.push_back({placement.rank, placement.stage, placement.datacenter,
                            plan.device_of(placement.rank).name, placement.replica, stands_for});
  }
  header.plan = plan::to_value(plan);
  return header;
}

// When a group of gradients was handed over (ids of schedules count from 0).
SimTime handed_over(const graph::Graph& graph, const graph::Node& sum, const Execution& execution) {
  const auto first = static_cast<size_t>(sum.data_deps.front());
  return execution.spans[static_cast<size_t>(graph.rank)][first].end;
}

trace::Interval interval_of(const graph::Graph& graph, const graph::Node& node, const Span& span,
                            const Execution& execution) {
  const bool link = node.type == graph::NodeType::kSend;
  const bool group = node.type == graph::NodeType::kInvalid;
  const bool collective = group || node.type == graph::NodeType::kCollective;
  return {.lane = link         ? trace::Lane::kLink
                  : collective ? trace::Lane::kCollective
                               : trace::Lane::kCompute,
          .rank = graph.rank,
          .peer = link ? node.comm_peer : -1,
          .action = *node.action,
          .iteration = node.iteration,
          .start = group ? handed_over(graph, node, execution) : span.start,
          .end = span.end,
          .bytes = node.comm_size,
          .part = node.part};
}

// Whether the node is a side of co-executed passes: it, or the next one, says so.
bool is_of_pair(const graph::Graph& graph, size_t i) {
  const auto beside = [&](size_t k) { return graph.nodes[k].details->co_executed_with; };
  return beside(i) || (i + 1 < graph.nodes.size() && beside(i + 1) == graph.nodes[i].id);
}

// Receives leave no interval: their send's says when the message was there. Nor do nodes that only
// gather what others wait for, and steps that are left out of an iteration (both INVALID_NODEs).
bool leaves_interval(const graph::Node& node) {
  if (node.type == graph::NodeType::kInvalid) return node.comm_size > 0;
  return node.type != graph::NodeType::kReceive;
}

// How finely passes are drawn.
enum class Passes { kWhole, kWithWhatTheyCommunicate };

// The intervals of one rank. What a pass communicates inside stands behind its computation. The two
// sides of a pair begin together, and what they communicate inside is not drawn: what of it lies behind
// what is another matter (predict/strand).
void add_intervals(const plan::Plan& plan, const graph::Graph& graph, const Execution& execution,
                   Passes passes, std::vector<trace::Interval>& intervals) {
  const std::vector<Span>& spans = execution.spans[static_cast<size_t>(graph.rank)];
  // Of passes that communicate, so much is drawn; by iteration, as one may be in parts.
  std::map<std::pair<int32_t, action::Action>, SimDuration> drawn;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const graph::Node& node = graph.nodes[i];
    if (!leaves_interval(node)) continue;
    CHECK(node.action, "node {} of a schedule has no action: \"{}\"", node.id, node.name);
    Span span = spans[i];
    if (const auto& beside = node.details->co_executed_with) {
      span.start = spans[static_cast<size_t>(*beside)].start;  // ids of schedules count from 0
    }
    trace::Interval interval = interval_of(graph, node, span, execution);
    const plan::PassCommunication* inside =
        passes == Passes::kWhole || is_of_pair(graph, i)
            ? nullptr
            : schedule::communication_of(plan.cost_on(graph.rank, node.action->stage),
                                         node.action->kind);
    if (!inside || inside->total() == 0_s) {
      intervals.push_back(std::move(interval));
      continue;
    }
    const SimDuration pass =
        schedule::durations_of(plan.cost_on(graph.rank, node.action->stage)).of(node.action->kind);
    SimDuration& before = drawn[{node.iteration, *node.action}];
    schedule::add_pass(schedule::shares_of(*inside, pass), before, interval, intervals);
    before += node.duration;
  }
}

std::vector<trace::Interval> intervals_of(const plan::Plan& plan, const graph::Graphs& graphs,
                                          const Execution& execution, Passes passes) {
  std::vector<trace::Interval> intervals;
  size_t nodes = 0;
  for (const graph::Graph& graph : graphs) nodes += graph.nodes.size();
  intervals.reserve(nodes);
  for (const graph::Graph& graph : graphs) {
    stop_if_interrupted();
    add_intervals(plan, graph, execution, passes, intervals);
  }
  return intervals;
}

// The same on the ranks of the pipelines that run like those simulated: none sends another anything.
void add_equal_ones(const plan::Plan& plan, const PipelineSample& sample,
                    std::vector<trace::Interval>& intervals) {
  std::vector<std::vector<int32_t>> others(sample.like.size());
  for (size_t replica = 0; replica < sample.like.size(); ++replica) {
    const auto ahead = static_cast<int32_t>(replica) - sample.like[replica];
    if (ahead > 0) others[static_cast<size_t>(sample.like[replica])].push_back(ahead);
  }
  const size_t simulated = intervals.size();
  const auto others_of = [&](const trace::Interval& interval) -> const std::vector<int32_t>& {
    return others[static_cast<size_t>(interval.rank % plan.replicas())];
  };
  size_t all = simulated;
  for (const trace::Interval& interval : intervals) all += others_of(interval).size();
  intervals.reserve(all);
  for (size_t i = 0; i < simulated; ++i) {
    for (const int32_t ahead : others_of(intervals[i])) {
      trace::Interval& other = intervals.emplace_back(intervals[i]);
      other.rank += ahead;
      if (other.peer >= 0) other.peer += ahead;
    }
  }
}

// By rank of the Plan, what was found of the ranks that were simulated (schedule::build numbers them).
std::vector<Bytes> of_all_ranks(const plan::Plan& plan, const PipelineSample& sample,
                                const std::vector<Bytes>& simulated) {
  if (simulated.size() == plan.ranks.size()) return simulated;
  std::vector<Bytes> out;
  const size_t pipelines = simulated.size() / static_cast<size_t>(plan.parallelism.pipeline);
  for (const layout::Placement& rank : plan.ranks) {
    const int32_t like = sample.like[static_cast<size_t>(rank.replica)];
    const auto at = std::lower_bound(sample.replicas.begin(), sample.replicas.end(), like);
    out.push_back(simulated[static_cast<size_t>(rank.rank / plan.replicas()) * pipelines +
                            static_cast<size_t>(at - sample.replicas.begin())]);
  }
  return out;
}

// With updates that are one iteration late, ranks compute ahead of a line that carries less than they make, until
// they wait for it in every iteration: the first ones tell how long computing takes, not how long an iteration does.
constexpr int64_t kOverlappingLateMin = 10;

// For local steps: enough turns that the last one waits for everything that earlier ones began
// (trace::late_turns), and the iterations around them. Delayed fragments wait for one another, so they need
// one turn more.
int64_t iterations_of(const plan::Plan& plan, int64_t wanted) {
  if (!plan.exchange_overlaps()) return wanted;
  const int64_t cycle = schedule::cycle_of(plan);
  const bool late = plan.exchange && plan.exchange->staleness_in_use() > 0;
  const int64_t least = late ? kOverlappingLateMin : kOverlappingMin;
  if (cycle == 1) return std::max(wanted, least);
  const plan::Exchange& exchange = *plan.exchange;
  const int64_t turns = exchange.fragments_in_use() > 1 && exchange.delay_in_use() > 0 ? 3 : 2;
  return std::max({wanted, kOverlappingMin, turns * cycle + 2});
}

struct Played {
  schedule::Schedule schedule;
  int64_t iterations = 0;
  graph::Graphs graphs;
  Execution execution;
  std::vector<tune::DensityDecision> decisions;
  std::vector<double> densities;
  std::vector<tune::BatchDecision> batch_decisions;
  std::vector<trace::Record> records;
};

// A trace needs a link whose rate nothing else has said.
Status check_rates(const plan::Plan& plan, std::span<const cluster::RateTrace> rates) {
  CHECK(rates.empty() || rates.size() == plan.cluster.wan.size(), "{} traces for {} links",
        rates.size(), plan.cluster.wan.size());
  for (size_t i = 0; i < rates.size(); ++i) {
    if (rates[i].empty()) continue;
    const cluster::WanLink& link = plan.cluster.wan[i];
    const std::string name = fmt::format("{} - {}", link.between[0], link.between[1]);
    if (plan.wan_transfer) {
      return unusable(
          fmt::format("rate_trace of {}: [stage_times] says how long a transfer takes, whatever "
                      "the line's rate",
                      name),
          "leaving out stage_times.transfer, so that messages take as long as the line lets them");
    }
    for (const plan::MeasuredLink& measured : plan.measured_links) {
      if (!link.joins(measured.between[0], measured.between[1])) continue;
      return unusable(
          fmt::format("rate_trace of {}: the hardware file has a measured rate of this link", name),
          "a hardware file without links, or no rate_trace");
    }
  }
  return {};
}

// Of every rank that exchanges gradients, as a run has it.
void add_density_records(const plan::Plan& plan, const DensitySteering& steering, Played& out) {
  for (const layout::Placement& rank : plan.ranks) {
    if (!plan.replicas_lie_apart(rank.stage)) continue;
    for (int64_t i = 1; i <= out.iterations; ++i) {
      out.records.push_back({.name = "density",
                             .iteration = i,
                             .rank = rank.rank,
                             .at = steering.reported_at(rank.rank, i),
                             .value = out.densities[static_cast<size_t>(i - 1)]});
    }
  }
  tune::add_decisions(steering.decisions(), steering.beliefs(), out.records);
}

// Records what the link could really carry, to compare with what steering believed: the mean of an iteration, of
// the slowest of the links that follow a trace.
void add_capacities(const plan::Plan& plan, std::span<const cluster::RateTrace> rates,
                    trace::Trace& trace) {
  std::vector<const cluster::RateTrace*> lines;
  for (size_t i = 0; i < rates.size(); ++i) {
    const auto holds_ranks = [&](const std::string& datacenter) {
      return std::any_of(plan.ranks.begin(), plan.ranks.end(),
                         [&](const auto& rank) { return rank.datacenter == datacenter; });
    };
    const auto& between = plan.cluster.wan[i].between;
    if (!rates[i].empty() && holds_ranks(between[0]) && holds_ranks(between[1]))
      lines.push_back(&rates[i]);
  }
  if (lines.empty() || trace.records.empty()) return;
  const int32_t rank = trace.records.front().rank;
  for (const trace::IterationTime& time : trace::iteration_times(trace)) {
    if (time.end == time.start) continue;
    double least = std::numeric_limits<double>::infinity();
    for (const cluster::RateTrace* line : lines) {
      const Bytes carried{line->bytes_between(time.start - SimTime{}, time.end - SimTime{})};
      least = std::min(least, (carried / seconds(time.end - time.start)).value);
    }
    trace.records.push_back({.name = "line_capacity",
                             .iteration = time.iteration,
                             .rank = rank,
                             .at = time.end,
                             .value = least});
  }
}

void slow_down(const plan::Plan& plan, std::span<const Options::Slowdown> slowdowns,
               graph::Graphs& graphs) {
  for (const Options::Slowdown& each : slowdowns) {
    for (graph::Graph& graph : graphs) {
      if (plan.ranks[static_cast<size_t>(graph.rank)].replica != each.replica) continue;
      for (graph::Node& node : graph.nodes) {
        const bool is_pass =
            node.type == graph::NodeType::kCompute && node.action && node.action->microbatch >= 0;
        if (is_pass && node.iteration >= each.first_iteration)
          node.duration = round_to_ns(seconds(node.duration) * each.times);
      }
    }
  }
}

// Of the rank of each pipeline's last stage, as a run has it.
void add_batch_records(const plan::Plan& plan, Played& out) {
  std::vector<int64_t> each = plan::microbatches_of_all(plan);
  auto next = out.batch_decisions.begin();
  const auto last = static_cast<int32_t>(plan.stages.size()) - 1;
  for (int64_t i = 1; i <= out.iterations; ++i) {
    if (next != out.batch_decisions.end() && next->first_iteration == i)
      each = (next++)->microbatches;
    for (int32_t replica = 0; replica < plan.replicas(); ++replica) {
      out.records.push_back({.name = "microbatches",
                             .iteration = i,
                             .rank = plan.rank_of(last, replica),
                             .value = real(each[static_cast<size_t>(replica)])});
    }
  }
  tune::add_decisions(out.batch_decisions, out.records);
}

// The Plans of all divisions that were decided, and the graphs of all iterations.
Result<std::vector<DividedPlan>> divide(const plan::Plan& plan, const Options& options,
                                        const LeavesOut& leaves_out, Played& out) {
  std::vector<DividedPlan> divided;
  divided.push_back({1, plan, out.schedule});
  for (const tune::BatchDecision& each : out.batch_decisions) {
    plan::Plan other = TRY(plan::with_microbatches(plan, each.microbatches));
    schedule::Schedule schedule = TRY(schedule::build(other));
    divided.push_back({each.first_iteration, std::move(other), std::move(schedule)});
  }
  std::vector<Repeated> parts;
  for (size_t i = 0; i < divided.size(); ++i) {
    const int64_t end =
        i + 1 < divided.size() ? divided[i + 1].first_iteration : out.iterations + 1;
    parts.push_back({schedule::to_graph(divided[i].plan, divided[i].schedule),
                     end - divided[i].first_iteration});
  }
  out.graphs = repeat(std::move(parts), leaves_out);
  slow_down(plan, options.slowdowns, out.graphs);
  return divided;
}

// Of all pipelines, whose links may follow traces.
Channels all_channels(const plan::Plan& plan, const Options& options, const Played& out) {
  Channels channels = options.rates.empty() ? channels_of(plan, out.schedule, out.graphs)
                                            : channels_of(with_highest_rates(plan, options.rates),
                                                          out.schedule, out.graphs);
  set_rates(options.rates, channels);
  return channels;
}

class Watchers final : public Watcher {
 public:
  void add(Watcher& watcher) { all_.push_back(&watcher); }
  void finished(const graph::Graph& graph, size_t node, const Span& span) override {
    for (Watcher* each : all_) each->finished(graph, node, span);
  }

 private:
  std::vector<Watcher*> all_;
};

// From the beginning, with the divisions that were decided so far, until no play decides more. What was decided
// before is decided again: no rank begins an iteration of which is decided before all have reported one that is
// earlier.
Status steer(const plan::Plan& plan, const Options& options, const LeavesOut& leaves_out,
             Played& out) {
  while (true) {
    const std::vector<DividedPlan> divided = TRY(divide(plan, options, leaves_out, out));
    std::optional<DensitySteering> density;
    std::optional<BatchSteering> batch;
    Watchers watchers;
    if (density_is_steered(plan, options))
      watchers.add(density.emplace(divided, out.iterations, out.graphs));
    if (batch_is_steered(plan, options))
      watchers.add(batch.emplace(plan, out.graphs, out.iterations));
    out.execution = interpret_sound(out.graphs, all_channels(plan, options, out), watchers);
    const size_t known = out.batch_decisions.size();
    if (batch && batch->decisions().size() > known) {
      // The next one alone: those behind it were decided by what another division did.
      out.batch_decisions.push_back(batch->decisions()[known]);
      continue;
    }
    if (density) {
      out.decisions = density->decisions();
      out.densities = density->densities();
      add_density_records(plan, *density, out);
    }
    if (batch) add_batch_records(plan, out);
    return {};
  }
}

// The pipelines of a sample.
Result<Played> play(const plan::Plan& plan, const Options& options, const PipelineSample& sample) {
  TRY(during(plan::validate(plan), "checking the Plan"));
  if (options.iterations < 1) {
    return unusable(fmt::format("iterations = {}: must be at least 1", options.iterations));
  }
  Played out;
  out.iterations = iterations_of(plan, options.iterations);
  TRY(check_numbers(plan, out.iterations));
  TRY(check_rates(plan, options.rates));
  out.schedule = TRY(sample.all ? schedule::build(plan) : schedule::build(plan, sample.replicas));
  graph::Graphs once = sample.all ? schedule::to_graph(plan, out.schedule)
                                  : schedule::to_graph(plan, out.schedule, sample.replicas);
  size_t nodes = 0;  // in the Trace: those of all pipelines, if it has all
  for (const int32_t like : options.alike == Alike::kOnce ? sample.replicas : sample.like) {
    for (int32_t rank = like; rank < std::ssize(once); rank += plan.replicas())
      nodes += once[static_cast<size_t>(rank)].nodes.size();
  }
  if (static_cast<double>(nodes) * static_cast<double>(out.iterations) >
      static_cast<double>(schedule::kActionsMax)) {
    return unusable(fmt::format("iterations = {}: {} actions each are too many to simulate",
                                out.iterations, nodes),
                    "fewer iterations");
  }
  const Status sound = graph::validate(once);
  CHECK(sound, "{}", sound.error().text());
  const schedule::detail::OuterCalendar calendar(plan);
  const LeavesOut leaves_out = [&](const graph::Node& node, int64_t iteration) {
    return calendar.leaves_out(node, iteration);
  };
  if (sample.all && (density_is_steered(plan, options) || batch_is_steered(plan, options))) {
    TRY(steer(plan, options, leaves_out, out));
    return out;
  }
  out.graphs = repeat(std::move(once), out.iterations, leaves_out);
  slow_down(plan, options.slowdowns, out.graphs);
  out.execution =
      interpret_sound(out.graphs, sample.all ? all_channels(plan, options, out) : sample.channels);
  return out;
}

SimDuration median_of(const trace::Trace& trace) {
  return trace::median_iteration(trace::iteration_times(trace));
}

}  // namespace

bool batch_is_steered(const plan::Plan& plan, const Options& options) {
  return options.steers_batch && plan.batch_changes();
}

bool density_is_steered(const plan::Plan& plan, const Options& options) {
  return options.steers_density && plan.exchange && plan.exchange->density_changes() &&
         plan.replicas_lie_apart();
}

Result<Simulation> simulate(const plan::Plan& plan, const Options& options) {
  TRY(during(plan::validate(plan), "checking the Plan"));
  const bool all = options.alike == Alike::kPlayed || batch_is_steered(plan, options) ||
                   !options.slowdowns.empty();
  const PipelineSample sample = all ? all_pipelines(plan) : one_of_each_kind(plan);
  Played played = TRY(play(plan, options, sample));
  Simulation out;
  out.trace.header = header_of(plan, sample, options.alike, played.execution);
  out.trace.intervals =
      intervals_of(plan, played.graphs, played.execution, Passes::kWithWhatTheyCommunicate);
  played.graphs = {};
  if (options.alike == Alike::kDrawn) add_equal_ones(plan, sample, out.trace.intervals);
  out.trace.records = played.records;
  if (!played.densities.empty()) add_capacities(plan, options.rates, out.trace);
  out.decisions = played.decisions;
  out.batch_decisions = played.batch_decisions;
  out.densities = played.densities;
  trace::normalize(out.trace);
  out.breakdown = trace::breakdown(out.trace);
  out.iteration = median_of(out.trace);
  out.iterations = played.iterations;
  out.events = played.execution.events;
  out.fingerprint = played.execution.fingerprint;
  out.peak_memory = of_all_ranks(plan, sample, schedule::peak_memory(plan, played.schedule));
  return out;
}

namespace {

Result<SimDuration> iteration_time(const plan::Plan& plan, const PipelineSample& sample) {
  const Played played = TRY(play(plan, {.alike = Alike::kOnce}, sample));
  trace::Trace trace;
  trace.header.overlaps = plan.exchange_overlaps();
  trace.header.cycle = schedule::cycle_of(plan);
  // Iterations begin and end with whole passes.
  trace.intervals = intervals_of(plan, played.graphs, played.execution, Passes::kWhole);
  return median_of(trace);
}

// Microbatches through stages, forward and backward.
double passes_of(const plan::Plan& plan, const PipelineSample& sample) {
  double passes = 0;
  for (const int32_t replica : sample.replicas) {
    passes += static_cast<double>(plan.microbatches_of(replica));
  }
  return passes * static_cast<double>(plan.stages.size()) *
         static_cast<double>(iterations_of(plan, 1));
}

}  // namespace

double passes_of(const plan::Plan& plan) { return passes_of(plan, one_of_each_kind(plan)); }

Result<SimDuration> iteration_time(const plan::Plan& plan) {
  TRY(during(plan::validate(plan), "checking the Plan"));
  return iteration_time(plan, one_of_each_kind(plan));
}

std::vector<std::optional<Seconds>> iterations_within(
    Seconds& at_most, std::span<const std::optional<plan::Plan>> plans, int threads,
    const std::function<bool()>& stop) {
  std::vector<PipelineSample> samples;
  double passes = 0;
  const double passes_most = at_most.value * kPassesPerSecond;
  for (const std::optional<plan::Plan>& plan : plans) {
    if (stop && stop()) break;
    PipelineSample sample = plan ? one_of_each_kind(*plan) : PipelineSample{};
    if (plan) passes += passes_of(*plan, sample);
    if (passes > passes_most) break;
    samples.push_back(std::move(sample));
  }
  at_most = Seconds{(passes_most - passes) / kPassesPerSecond};
  std::vector<std::optional<Seconds>> times(plans.size());
  parallel_for(samples.size(), threads, [&](size_t i) {
    if (!plans[i]) return;
    const auto iteration = unless(stop, [&] { return iteration_time(*plans[i], samples[i]); });
    if (iteration && *iteration) times[i] = seconds(**iteration);
  });
  return times;
}

}  // namespace tombolo::sim
