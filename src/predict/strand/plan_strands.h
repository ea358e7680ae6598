// A job's layer as two strands, planned: what `tombolo strand` answers.
//
// Prices come from the law `tombolo` operator by operator, before anything is hidden, and from a
// profile where one is given; paces from the profile, or from figure 4 of Wang et al. 2024 (DHelix)
// for the nearest platform. On CPUs from the profile alone: what it leaves out overlaps with nothing.
// docs/laws/strands.md.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "predict/strand/exposure.h"
#include "predict/strand/gain_spread.h"
#include "predict/strand/ideal_search.h"
#include "predict/strand/overlap_profile.h"
#include "predict/strand/stream_search.h"
#include "spec/plan/job.h"

namespace tombolo::strand {

enum class Execution : uint8_t {
  kEvents,   // operators wait for what they need
  kBarriers  // all wait at the end of each segment, as DHelix does
};
constexpr auto enum_names(Execution) {
  return std::to_array<EnumName<Execution>>(
      {{Execution::kEvents, "events"}, {Execution::kBarriers, "barriers"}});
}

struct StrandOptions {
  SearchOptions search;
  Execution execution = Execution::kEvents;
  int64_t layers = 1;          // planned as one
  int64_t nodes_max = 20'000;  // of the search without barriers
  bool gather_again = false;   // LayerShape
  bool dense = false;          // of a model with experts, a layer without
  std::optional<Profile> profile;
  std::vector<Stream> copies;     // links whose transfers take no multiprocessors
  std::vector<double> sm_shares;  // of the device for communication, to choose from
  Uncertainty uncertainty;
};

struct StrandAnswer {
  StrandPair pair;
  SegmentPlan plan;        // with barriers
  StreamSchedule streams;  // with events
  Execution execution = Execution::kEvents;
  std::vector<OperatorRun> runs;  // of the one that is executed
  double paired = 0;              // seconds of it
  double sequential = 0;          // both strands, one after the other
  double by_stack = 0;    // the same with what the stack hides on its own, as its constants say
  double equation_2 = 0;  // the paper's, of single operators in their own order, with barriers
  GainSpread gain;
  Exposure exposure;
  std::optional<double> sm_share;  // chosen
  Bytes memory_more;               // activations: one layer of a second microbatch
  std::string overlap;             // where paces come from
  std::string refused;             // why not to do it; empty: do
  std::vector<std::string> notes;

  double expected_gain() const { return sequential / paired; }
};

// Unusable: no model, parallelism that no law can price, an unknown stack, more layers than a strand has
// room for. Infeasible: no communication inside a layer, one microbatch and nothing to pair it with, or
// a layer of more than kOperatorsMax operators. A plan that is not worth it is an answer: `refused` says
// why.
Result<StrandAnswer> plan_strands(const plan::Job& job, const StrandOptions& options);

}  // namespace tombolo::strand
