// Where the time of a plan goes: why communication did not hide.
//
//   seconds = computation + slowdown + waiting + standing
//
// computation is that of all operators at full pace, below which no plan can be. While computation
// overlaps communication it runs slower: slowdown. While only communication runs, computation waits
// for it: waiting, by the kind of communication, in equal parts where two links are busy. Nothing
// runs at barriers and launches: standing. All time but computation is exposed communication; the
// rest of communication is hidden, as table 7 of Wang et al. 2024 (DHelix) splits it.
#pragma once

#include <array>
#include <span>

#include "predict/strand/co_run.h"
#include "predict/strand/strand_pair.h"

namespace tombolo::strand {

inline constexpr Kind kCommunications[] = {Kind::kTensor, Kind::kContext, Kind::kExpert};
inline constexpr size_t kCommunicationKinds = 3;

struct Exposure {
  double seconds = 0;
  double computation = 0;
  double slowdown = 0;
  std::array<double, kCommunicationKinds> waiting{};  // by kCommunications
  double standing = 0;
  std::array<double, kCommunicationKinds> communication{};  // alone, by kCommunications

  double communication_total() const;
  double exposed() const { return seconds - computation; }
  // Of all communication; 0 where there is none.
  double hidden_share() const;
};

// `runs` are all operators of the pair, `seconds` the time of the plan.
Exposure exposure_of(const StrandPair& pair, std::span<const OperatorRun> runs, double seconds);

}  // namespace tombolo::strand
