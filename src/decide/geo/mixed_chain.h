// Chains of datacenters in one setting, all at once: does any have a period and a round trip that are
// short enough?
//
// For ten datacenters there are millions of subsets and orders, and of each as many ways to choose
// stages. Here they are the paths of one dynamic program that places stages from the last to the first,
// because memory and the head count from there. A state is (datacenters used, which is in front,
// stages so far), and of the paths to it those are kept of which none is at least as good in
//
//   layers   that they hold, as many as period and memory allow
//   spare    of the front stage's period, for its part of the next transfer
//   round trip, if it is asked for, less `credit` for each layer
//
// Pipelines are relaxed: a stage takes what the cheapest layers would, the first one needs nothing for
// the embedding, and more layers may be held than the model has. So no chain here is a proof that
// none is, and one that is found is a good guess, which mixed_partition.h then works out. Why the
// paths that are left out lose nothing: docs/laws/mixed_search.md.
//
// Cost: states x layers per stage; milliseconds for six datacenters, up to a second for ten.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "decide/geo/mixed_bound.h"
#include "decide/geo/mixed_setting.h"

namespace tombolo::geo {

struct Chain {
  std::vector<size_t> order;    // datacenters along the pipeline
  std::vector<int64_t> stages;  // of each of them
};

struct ChainAnswer {
  bool known = true;           // false: it was asked to stop, or there are too many paths
  double once = kInfinity;     // s, round trip and end, at least; infinite without a chain
  std::optional<Chain> chain;  // that may be so short
};

class Chains {
 public:
  // Of subsets of these sizes; with `wanted`, of that many stages.
  Chains(PricedSetting& priced, const cluster::Cluster& cluster, SetSizes sizes,
         std::optional<int64_t> wanted, std::function<bool()> stop);

  // Any chain whose period is at most this, the first that comes; `once` is 0.
  ChainAnswer any(double period);
  // Of those, one with the shortest round trip and end, if these are at most `once_max`.
  ChainAnswer shortest(double period, double once_max);
  // Which sets of datacenters, as bits, may have such a period; nothing where that is not known.
  std::optional<std::vector<bool>> sets(double period);

  // The least time with a period of at least this, whatever the chain.
  double time_from(double period) const;
  // No shorter period leads to a time above this.
  double period_for(double time) const;
  // No period is shorter.
  double period_min() const { return period_min_; }
  double microbatches() const { return microbatches_; }

 private:
  struct Place {
    int64_t room = 0;
    bool may_be_first = true, may_be_last = true;
    std::vector<double> pass,
        last;                    // of a stage by its layers, and of the last stage with the head
    std::vector<int64_t> holds;  // layers by stages from the end
    int64_t last_holds = 0;
    cost::Hop inside;
    double end = 0;
  };
  enum class Ask { kAny, kShortest, kSets };
  class Walk;

  std::vector<Place> places_;
  std::vector<std::vector<std::optional<cost::Hop>>>
      hops_;  // from the stage in front, to the one behind
  std::vector<uint64_t> must_use_;
  SetSizes sizes_;
  std::optional<int64_t> wanted_;
  std::function<bool()> stop_;
  int64_t layers_, stages_ = 0;  // stages: at most
  double microbatches_;
  std::vector<StageRoom> rooms_;
  PipelineNeeds needs_;
  double period_min_ = 0;
  double layer_min_ = kInfinity;  // s per layer
  double credit_ = 0;             // no layer more makes a stage take longer by more, s
};

}  // namespace tombolo::geo
