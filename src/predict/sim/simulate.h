// simulate: predicts a Plan. Its schedule becomes Graphs, the Graphs are interpreted in virtual
// time, and what happened becomes a Trace.
//
// Same Plan, same bytes: events are ordered by (time, sequence), times are integer nanoseconds, and
// nothing is drawn at random. Each node of the Graphs leaves one interval, as each action of a run does
// (trace.h).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "spec/cluster/rate_trace.h"
#include "spec/plan/plan.h"
#include "spec/trace/breakdown.h"
#include "spec/trace/trace.h"
#include "steer/tune/batch_controller.h"
#include "steer/tune/rate_controller.h"

namespace tombolo::sim {

// Where iterations overlap (Plan::exchange_overlaps) at least this many are simulated: the first one
// waits for no gradients, the last one has no successor, and the median is that of the others.
inline constexpr int64_t kOverlappingMin = 4;

// Pipelines that run alike (equal_pipelines.h): of a thousand of them one tells what all do, to the nanosecond.
enum class Alike {
  kDrawn,   // one of each kind is simulated; the Trace has all
  kOnce,    // the Trace has these alone; its labels say for how many ranks each stands (stands_for)
  kPlayed,  // every one is simulated: what tests hold the others against
};

struct Options {
  int64_t iterations = 1;  // a rank begins the next one when its update is done
  // Of plan.cluster.wan, in its order: traces that the node pairs of a link follow from the beginning of
  // the first iteration on, instead of node_pair_limit. An empty one, or none: that.
  std::vector<cluster::RateTrace> rates = {};
  // The density changes as in a run (density_steering.h), where the Plan lets it; else it stays that of the
  // first iteration.
  bool steers_density = false;
  // The division of the batch changes as in a run (batch_steering.h), where the Plan lets it; else it stays
  // that of the first iteration.
  bool steers_batch = false;
  // Pipelines whose passes take another time from an iteration on.
  struct Slowdown {
    int32_t replica = 0;
    int64_t first_iteration = 1;
    double times = 1;  // the factor on the times of the Plan
  };
  std::vector<Slowdown> slowdowns = {};
  Alike alike = Alike::kDrawn;
};

struct Simulation {
  trace::Trace trace;     // normalized; header.command and header.version are left to the caller
  SimDuration iteration;  // median over the iterations (trace::iteration_times)
  trace::Breakdown breakdown;  // of the trace: its rows of the ranks there, all else of all ranks
  int64_t iterations =
      0;                // in the trace: those asked for, or more where they overlap, or take turns
  uint64_t events = 0;  // of what was simulated: see Alike
  std::string fingerprint;         // of the order of events; also in the trace's header
  std::vector<Bytes> peak_memory;  // per rank, of all: state, and activations in flight
  // Where the density is steered. The Trace has the records "density", with the reasons, and "line_rate", as a
  // run's (steer/tune/decision_records.h); and of lines that follow a trace "line_capacity", bytes per second:
  // the mean of an iteration, of the slowest.
  std::vector<tune::DensityDecision> decisions;
  std::vector<double> densities;  // by iteration, from 1
  // Where the batch is steered. The Trace has the records "microbatches", with the reasons, as a run's.
  std::vector<tune::BatchDecision> batch_decisions;
};

// Unusable for a schedule that is not known, for times or sizes that cannot be (negative, beyond
// 290 years), and for more work than schedule::kActionsMax. Whether it fits into memory is another
// question: schedule::check_memory.
Result<Simulation> simulate(const plan::Plan& plan, const Options& options = {});

// Whether simulate() would steer the batch of this Plan.
bool batch_is_steered(const plan::Plan& plan, const Options& options);

// Whether simulate() would steer the density of this Plan.
bool density_is_steered(const plan::Plan& plan, const Options& options);

// simulate()'s iteration, to the nanosecond, with one pipeline simulated for each kind of equal ones
// (equal_pipelines.h), and no Trace. Fails as simulate() does.
Result<SimDuration> iteration_time(const plan::Plan& plan);

// What iteration_time() has to simulate: microbatches through stages, forward and backward.
double passes_of(const plan::Plan& plan);
// What a core simulates in a second: microbatches through stages, forward and backward.
inline constexpr double kPassesPerSecond = 50'000;
// The iterations of as many of these Plans, from the first one on, as a core simulates within `at_most`:
// by kPassesPerSecond, so that it is as many on every machine; that time is taken off it, and what is
// left is below 0 where they were not all. None of a Plan that is missing or cannot be simulated, or was
// not when `stop`, asked by all threads, first said so.
std::vector<std::optional<Seconds>> iterations_within(
    Seconds& at_most, std::span<const std::optional<plan::Plan>> plans, int threads,
    const std::function<bool()>& stop = {});

}  // namespace tombolo::sim
