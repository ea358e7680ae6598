// AstraRecorder: a run of ASTRA-sim's files as a Trace: every node of a rank, every chunk of a
// collective in each dimension that it passes, every message between nodes.
//
// Giant systems have too many ranks to look at, so only the first ones are recorded. Where one
// rank was simulated for a class of equal ones, these are the first of each class. The Trace says
// what was left out.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "predict/astra/astra_ledger.h"
#include "predict/astra/astra_observer.h"
#include "spec/trace/trace.h"

namespace tombolo::astra {

struct RecorderOptions {
  int32_t ranks_max = 64;
  size_t intervals_max = 1'000'000;  // about 150 bytes each
};

class AstraRecorder : public AstraObserver {
 public:
  explicit AstraRecorder(const RecorderOptions& options) : options_(options) {}

  void begins(const Cast& cast) override;
  void node_begins(int32_t rank, uint32_t node, SimTime at) override;
  void node_ends(int32_t rank, uint32_t node, SimTime at) override;
  void phase_begins(int32_t rank, uint32_t chunk, const Phase& phase, SimTime at) override;
  void phase_ends(int32_t rank, uint32_t chunk, SimTime at) override;
  void message_passes(const Message& message) override;
  void rank_ends(int32_t, SimTime) override {}

  // After a run, once. All but the header's words on what was run: name, command, inputs.
  trace::Trace take(const AstraLedger& ledger);

 private:
  bool records(int32_t rank) const { return rank < ranks_; }
  void add(trace::Interval interval);
  std::string name_of(int32_t rank, uint32_t node) const;

  RecorderOptions options_;
  Cast cast_;  // during the run
  int32_t ranks_ = 0;
  int32_t ranks_in_all_ = 0;
  std::vector<int32_t> rank_of_;  // per NPU: its number where it is recorded, else -1
  std::vector<trace::Interval> intervals_;
  uint64_t left_out_ = 0;
  std::unordered_map<uint64_t, SimTime> nodes_;           // under way: rank and node
  std::unordered_map<uint32_t, trace::Interval> phases_;  // under way, by chunk
};

}  // namespace tombolo::astra
