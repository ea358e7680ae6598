// The search of `tombolo plan`: every configuration of a space, and why the others lost.
//
// A space is a list of values per axis and the rules that join them; a pricer says what memory a
// configuration needs and how long an iteration takes. Configurations are compared by a total
// order (better), so the answer is one, whatever the number of threads.
//
// Two cuts spare work and lose nothing:
//   memory  microbatches are tried in ascending order; what does not fit with a small one does not
//           fit with a larger one, all else equal, and is not priced.
//   bound   a configuration whose lower bound on the objective is above the worst of the top N and
//           above the best of every family that it belongs to cannot enter either list.
// A family is all configurations with one value on one axis, such as pipeline = 4. Keeping the best
// of each makes `why not` (why_not.h) exact.
//
// Threads take outer points (tensor x context x pipeline x data) in waves whose size and thresholds
// do not depend on their number; so neither do the counts.
//
// Cost: what the pricer costs per configuration and some 30 ns. Memory: a few kilobytes per point
// of a wave.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fields.h"
#include "base/result.h"
#include "predict/cost/configuration.h"
#include "predict/cost/law.h"
#include "spec/plan/job.h"

namespace tombolo::search {

enum class Objective { kTime, kCost, kThroughput };
constexpr auto enum_names(Objective) {
  return std::to_array<EnumName<Objective>>({{Objective::kTime, "time"},
                                             {Objective::kCost, "cost"},
                                             {Objective::kThroughput, "throughput"}});
}

// What a law says about a configuration. Called from several threads.
class Pricer {
 public:
  virtual ~Pricer() = default;
  // Of the device that needs most. Grows with micro_batch, all else equal.
  virtual Bytes memory(const cost::Configuration& configuration) const = 0;
  virtual Seconds time(const cost::Configuration& configuration) const = 0;
  // Whether selective recomputation differs from none. With fused attention it may not: its scores
  // are computed again in any case.
  virtual bool selective_recompute_differs() const { return true; }
  // At most time(), for all values of recompute, zero, sequence_parallel and expert.
  virtual Seconds lower_bound(const cost::Configuration& configuration) const = 0;
  // What the time consists of, for people.
  virtual std::vector<std::pair<std::string, Seconds>> parts(
      const cost::Configuration& configuration) const = 0;
};

enum class Axis {
  kTensor,
  kContext,
  kData,
  kPipeline,
  kExpert,
  kVirtualStages,
  kMicrobatch,
  kRecompute,
  kZero,
  kSequenceParallel
};
inline constexpr size_t kAxes = 10;
constexpr auto enum_names(Axis) {
  return std::to_array<EnumName<Axis>>({{Axis::kTensor, "tensor"},
                                        {Axis::kContext, "context"},
                                        {Axis::kData, "data"},
                                        {Axis::kPipeline, "pipeline"},
                                        {Axis::kExpert, "expert"},
                                        {Axis::kVirtualStages, "virtual_stages"},
                                        {Axis::kMicrobatch, "micro_batch"},
                                        {Axis::kRecompute, "recompute"},
                                        {Axis::kZero, "zero"},
                                        {Axis::kSequenceParallel, "sequence_parallel"}});
}
// Where a configuration stands on an axis; recompute 0, 1, 2 is none, selective, full.
int64_t value_on(const cost::Configuration& configuration, Axis axis);

struct SearchSpace {
  int64_t devices = 1;  // of the cluster; a configuration may use fewer
  int64_t domain = 1;   // devices of a scale-up domain
  int64_t layers = 1;
  int64_t global_batch = 1;
  // The values of each axis, ascending; by index of Axis.
  std::array<std::vector<int64_t>, kAxes> values;
  const std::vector<int64_t>& on(Axis axis) const { return values[static_cast<size_t>(axis)]; }
  std::vector<int64_t>& on(Axis axis) { return values[static_cast<size_t>(axis)]; }

  layout::DimensionOrder order = layout::kMegatronOrder;
  layout::ScheduleKind schedule = layout::ScheduleKind::k1F1B;  // of one stage per rank
  bool all_devices = false;   // only configurations that use every device
  bool uneven_stages = true;  // also stages that differ by a layer
  // Interleaved 1F1B runs microbatches in rounds of as many as there are stages (Megatron-LM).
  bool whole_rounds = true;
  // With a pipeline ZeRO 2 keeps whole gradients, as ZeRO 1 does (docs/laws/zero.md): never better.
  bool zero2_with_pipeline = false;
  bool always_sequence_parallel = false;  // wherever tensor > 1
};

// What every configuration of a space must meet, in addition to lying on its axes:
//   tensor context data pipeline <= devices;  micro_batch data divides global_batch
//   expert divides data context
//   virtual stages only with a pipeline, with chunks of equally many layers, embedding and head
//     counted as a layer each where that makes them equal; whole rounds
//   ZeRO only where data context > 1, sequence parallelism only where tensor > 1
bool belongs(const SearchSpace& space, const cost::Configuration& configuration);

struct Candidate {
  cost::Configuration configuration;
  double score = 0;  // the objective, smaller is better
  Seconds time;
  Bytes memory;
};
// A total order: score, then fewer devices, then less memory, then the simpler configuration.
bool better(const Candidate& a, const Candidate& b);

struct Family {
  Axis axis = Axis::kTensor;
  int64_t value = 0;
  int64_t feasible = 0;           // of what was evaluated
  std::optional<Candidate> best;  // of those that fit; exact, also where bounds cut
  // Where nothing fits: the configuration that needs the least memory. Empty: the family is empty.
  std::optional<Candidate> closest;
};

struct SearchCounts {
  int64_t covered = 0;           // configurations of the space
  int64_t evaluated = 0;         // of which memory and time were computed
  int64_t feasible = 0;          // of these, that fit
  int64_t over_memory = 0;       // memory was computed and is too much; time was not computed
  int64_t pruned_by_memory = 0;  // a smaller microbatch did not fit
  int64_t pruned_by_bound = 0;
};

struct SearchOptions {
  Objective objective = Objective::kTime;
  int top = 5;
  int threads = 1;
  bool prune = true;          // without, every configuration is evaluated
  bool families = true;       // without, only the top N are found, faster
  Bytes memory;               // of a device
  DollarsPerSecond price{0};  // of a device; 0: cost counts device-seconds
  // Called between waves, by the calling thread, with outer points done and all of them.
  std::function<void(int64_t done, int64_t all)> progress;
  // Asked by all threads at each outer point, once something fits: true ends the search with that.
  std::function<bool()> stop = {};
};

// The objective of a configuration that takes this time: seconds, or what its devices cost for so
// long. With the batch given, tokens per second are as good as the time is short.
double score_of(const SearchOptions& options, const cost::Configuration& configuration,
                Seconds time);

struct SearchResult {
  std::vector<Candidate> top;  // best first; empty: nothing fits
  std::vector<Family> families;
  SearchCounts counts;
  std::optional<Candidate> closest;  // where nothing fits: what needs the least memory
  // Before its end; then families have the best that was found, and no `closest`. Nothing that was not
  // looked at scores less than `left`.
  bool stopped = false;
  double left = std::numeric_limits<double>::infinity();
};

SearchResult search(const SearchSpace& space, const Pricer& pricer, const SearchOptions& options);

// The same space with one axis held at one value.
SearchSpace restricted(SearchSpace space, Axis axis, int64_t value);

// Of all configurations of a space, the one that needs the least memory, and its time; empty where
// the space is. Cost: memory of all of them with the smallest microbatch.
std::optional<Candidate> least_memory(const SearchSpace& space, const Pricer& pricer,
                                      const SearchOptions& options);

// Calls visit for each configuration of the space, in a fixed order.
void for_each(const SearchSpace& space,
              const std::function<void(const cost::Configuration&)>& visit);

// A law as the search sees it. Unusable: what the law says against the job, which has a model and
// one datacenter.
Result<std::unique_ptr<Pricer>> make_pricer(const plan::Job& job, cost::Law law);

}  // namespace tombolo::search
