// Pipeline schedules by name, and what the rest of Tombolo may know of one without building it.
//
// Code that depends on a property of a schedule asks for the property, not for the name: how its stages lie, whether it has
// pairs, whether a closed form exists. One row per schedule (schedules.inc); spec/schedule builds the orders of work.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/fields.h"
#include "base/result.h"

namespace tombolo::layout {

// Where the stages of a pipeline lie when a rank holds several of them.
//
// Stages are chunks of the model, in its order; positions are the places of a pipeline, one rank
// each. Usually stage s lies at position s. With virtual stages there are v times as many stages as
// positions:
//
//   line   0 1 2 3          stage s at position s
//   loop   0 1 2 3          round and round: s mod p (Megatron's interleaving)
//          4 5 6 7
//   fold   0 1 2 3          there and back: the last position holds two neighbours (ZB-V, W-shape,
//          7 6 5 4          DualPipeV)
enum class StageMapping : uint8_t { kLine, kLoop, kFold };

constexpr int32_t position_of(StageMapping mapping, int32_t stage, int32_t positions) {
  if (mapping == StageMapping::kLine || stage < positions) return stage;
  const int32_t within = stage % positions;
  const bool back = mapping == StageMapping::kFold && (stage / positions) % 2 == 1;
  return back ? positions - 1 - within : within;
}

// How the pipelines of a DP-cell use the WAN. A DP-cell is a group of pipelines laid out alike over
// the same datacenters (Palak et al. 2024, Atlas, section 4.3).
enum class Sharing : uint8_t {
  kSpatial,   // each pipeline sends over its own node pair, at that pair's rate
  kTemporal,  // one transfer of the cell at a time, over the node pairs of all its pipelines
};
constexpr auto enum_names(Sharing) {
  return std::to_array<EnumName<Sharing>>(
      {{Sharing::kSpatial, "spatial"}, {Sharing::kTemporal, "temporal"}});
}

enum class ScheduleKind : uint8_t {
#define SCHEDULE(kind, name, stages, sharing, traits, function, citation) kind,
#include "spec/layout/schedules.inc"
#undef SCHEDULE
};

// Bits of ScheduleTraits::traits.
enum ScheduleTrait : uint32_t {
  kNoTraits = 0,
  kAllForwardsFirst =
      1 << 0,        // a stage keeps every microbatch of the iteration before its first backward
  kHalves = 1 << 1,  // backward passes in two halves, for inputs and for weights
  kPairs =
      1 << 2,  // a forward next to a backward of the rank's other stage: they may be co-executed
  kKeepsToMemory = 1 << 3,    // its rules hold no more microbatches than the device has memory for
  kClosedForm = 1 << 4,       // predict/cost has its iteration in closed form
  kSelectable = 1 << 5,       // `tombolo select` has a law for it
  kAnyMicrobatches = 1 << 6,  // its order takes any number, and holds no more of them for more
};

struct ScheduleTraits {
  ScheduleKind kind;
  std::string_view name;  // in job files
  StageMapping mapping;
  Sharing sharing;  // where [parallelism] says none
  uint32_t traits;
  std::string_view citation;

  constexpr bool has(ScheduleTrait trait) const { return (traits & trait) != 0; }
};

inline constexpr auto kSchedules = [] {
  using enum StageMapping;
  using enum Sharing;
  return std::to_array<ScheduleTraits>({
#define SCHEDULE(kind, name, stages, sharing, traits, function, citation) \
  {ScheduleKind::kind, name, stages, sharing, traits, citation},
#include "spec/layout/schedules.inc"
#undef SCHEDULE
  });
}();

constexpr auto enum_names(ScheduleKind) {
  std::array<EnumName<ScheduleKind>, kSchedules.size()> names{};
  for (size_t i = 0; i < names.size(); ++i) names[i] = {kSchedules[i].kind, kSchedules[i].name};
  return names;
}

// Rows stand in the order of the enumerators.
constexpr const ScheduleTraits& traits_of(ScheduleKind kind) {
  return kSchedules[static_cast<size_t>(kind)];
}
constexpr std::string_view name_of(ScheduleKind kind) { return traits_of(kind).name; }
constexpr StageMapping mapping_of(ScheduleKind kind) { return traits_of(kind).mapping; }

// The first row with this mapping and these traits: what stands for a line, a loop or a fold where
// any of them would do.
constexpr ScheduleKind first_schedule(StageMapping mapping, uint32_t traits = kNoTraits) {
  for (const ScheduleTraits& row : kSchedules) {
    if (row.mapping == mapping && (row.traits & traits) == traits) return row.kind;
  }
  return ScheduleKind::k1F1B;
}

// By the name that files and options have for it. Unusable, naming the known ones.
Result<ScheduleKind> find_schedule(std::string_view name);

// The rows that have a trait, the last one first: of equally good schedules the newer one.
std::vector<ScheduleTraits> schedules_with(ScheduleTrait trait);

// All names, in the order of the rows.
std::vector<std::string> schedule_names();

// The schedule of a job that names none: 1F1B, and with several stages on a rank the interleaved
// one (as Megatron-LM reads its arguments).
constexpr ScheduleKind default_schedule(int64_t virtual_stages) {
  return virtual_stages > 1 ? ScheduleKind::kInterleaved : ScheduleKind::k1F1B;
}

// Stages of a rank that the mapping takes: exactly one, at least two, or exactly two.
constexpr bool takes_chunks(StageMapping mapping, int64_t chunks) {
  switch (mapping) {
    case StageMapping::kLine:
      return chunks == 1;
    case StageMapping::kLoop:
      return chunks >= 2;
    case StageMapping::kFold:
      return chunks == 2;
  }
  return false;
}

// Why a schedule cannot have this many stages on a rank, and what to try; empty: it can.
struct ChunkRefusal {
  std::string why;
  std::string hint;
};
ChunkRefusal why_not_chunks(ScheduleKind kind, int64_t chunks);

}  // namespace tombolo::layout
