#include "decide/schedule_proof/bounds.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/check.h"

namespace tombolo::schedule_proof {
namespace {

// The least time before and after the computations of one microbatch on each stage, when it never
// waits for another microbatch. A backward is I alone where it may be split.
struct Ways {
  std::vector<SimDuration> to_forward, to_backward;        // until it can start
  std::vector<SimDuration> after_forward, after_backward;  // from its end until all is done
  std::vector<SimDuration> backward;                       // B, or I
};

SimDuration between(const schedule::PipelineShape& shape, const schedule::Times& times,
                    int32_t boundary) {
  if (!shape.crosses(boundary)) return {};
  return times.transfer_over(boundary) + times.latency_over(boundary);
}

Ways ways_of(const schedule::PipelineShape& shape, const schedule::Times& times, bool split) {
  const auto stages = static_cast<size_t>(shape.stages);
  Ways ways;
  for (auto* each : {&ways.to_forward, &ways.to_backward, &ways.after_forward, &ways.after_backward,
                     &ways.backward}) {
    each->resize(stages);
  }
  const auto recompute = [&](size_t s) {
    return shape.recomputes(static_cast<int32_t>(s)) ? times.stages[s].recompute : SimDuration{};
  };
  const auto message = [&](size_t s) { return between(shape, times, static_cast<int32_t>(s)); };

  for (size_t s = 0; s < stages; ++s) {
    const schedule::StageDurations& stage = times.stages[s];
    ways.backward[s] = split ? stage.backward_input : stage.backward();
    ways.after_backward[s] = split ? stage.backward_weight : SimDuration{};
    if (s == 0) continue;
    ways.to_forward[s] = ways.to_forward[s - 1] + times.stages[s - 1].forward + message(s - 1);
    ways.after_backward[s] = std::max(
        ways.after_backward[s], message(s - 1) + ways.backward[s - 1] + ways.after_backward[s - 1]);
  }
  for (size_t s = stages; s-- > 0;) {
    ways.to_backward[s] = ways.to_forward[s] + times.stages[s].forward + recompute(s);
    ways.after_forward[s] = recompute(s) + ways.backward[s] + ways.after_backward[s];
    if (s + 1 == stages) continue;
    ways.to_backward[s] =
        std::max(ways.to_backward[s], ways.to_backward[s + 1] + ways.backward[s + 1] + message(s));
    ways.after_forward[s] =
        std::max(ways.after_forward[s],
                 message(s) + times.stages[s + 1].forward + ways.after_forward[s + 1]);
  }
  return ways;
}

std::string text(SimDuration duration) { return brief(seconds(duration)); }

// How much co-executing a forward and a backward of stages on one rank saves at most, by the
// forward's stage: each forward is in one pair.
std::vector<SimDuration> savings_of(const schedule::Times& times) {
  std::vector<SimDuration> savings(times.stages.size());
  for (const schedule::PairDurations& pair : times.pairs) {
    const auto f = static_cast<size_t>(pair.forward), b = static_cast<size_t>(pair.backward);
    const SimDuration apart = times.stages[f].forward + times.stages[b].backward();
    savings[f] = std::max(savings[f], apart - pair.duration());
  }
  return savings;
}

class Bounds {
 public:
  Bounds(const schedule::PipelineShape& shape, const schedule::Times& times, bool split)
      : shape_(shape),
        times_(times),
        split_(split),
        ways_(ways_of(shape, times, split)),
        savings_(savings_of(times)) {}

  std::vector<LowerBound> take() {
    std::stable_sort(bounds_.begin(), bounds_.end(),
                     [](const LowerBound& a, const LowerBound& b) { return a.value > b.value; });
    return std::move(bounds_);
  }

  void path() {
    const SimDuration all = times_.stages[0].forward + ways_.after_forward[0];
    add(all, "one microbatch takes {} there and back", text(all));
  }

  void work(int32_t position) {
    SimDuration all, weights;
    SimDuration before = kForEver;
    SimDuration after = kForEver;
    for (const int32_t stage : shape_.stages_at(position)) {
      const auto s = static_cast<size_t>(stage);
      const schedule::StageDurations& each = times_.stages[s];
      all += busy(s);
      if (shape_.recomputes(stage)) all += each.recompute;
      weights += each.backward_weight;
      before = std::min(before, ways_.to_forward[s]);
      after = std::min(after, ways_.after_backward[s]);
    }
    all = all * shape_.microbatches;
    weights = weights * shape_.microbatches;
    const int32_t rank = position * shape_.replicas;
    if (!split_) {
      add(before + all + after,
          "rank {} computes {}, the first input reaches it after {}, and {} lie behind its last "
          "backward",
          rank, text(all), text(before), text(after));
      return;
    }
    // Either W is what the rank does last, or it is done while other ranks still compute.
    add(before + all, "rank {} computes {}, and the first input reaches it after {}", rank,
        text(all), text(before));
    add(before + (all - weights) + after,
        "rank {} computes {} before its gradients are sent, the first input reaches it after {}, "
        "and {} lie behind its last gradient",
        rank, text(all - weights), text(before), text(after));
  }

  void links() {
    struct Link {
      SimDuration taken;
      SimDuration before = kForEver;
      SimDuration after = kForEver;
    };
    // Shared ones by boundary and direction, others by the ranks that they join.
    std::map<std::pair<int32_t, bool>, Link> shared;
    std::map<std::pair<int32_t, int32_t>, Link> own;
    for (int32_t boundary = 0; boundary + 1 < shape_.stages; ++boundary) {
      if (!shape_.crosses(boundary)) continue;
      const auto s = static_cast<size_t>(boundary);
      for (const bool gradients : {false, true}) {
        const int32_t from = shape_.rank_of(boundary + (gradients ? 1 : 0), 0);
        const int32_t to = shape_.rank_of(boundary + (gradients ? 0 : 1), 0);
        Link& link = shape_.shares(boundary) ? shared[{boundary, gradients}] : own[{from, to}];
        const int64_t transfers =
            int64_t{shape_.microbatches} * (shape_.shares(boundary) ? shape_.cell : 1);
        link.taken += times_.transfer_over(boundary) * transfers;
        const SimDuration before = gradients ? ways_.to_backward[s + 1] + ways_.backward[s + 1]
                                             : ways_.to_forward[s] + times_.stages[s].forward;
        const SimDuration after =
            times_.latency_over(boundary) +
            (gradients ? ways_.backward[s] + ways_.after_backward[s]
                       : times_.stages[s + 1].forward + ways_.after_forward[s + 1]);
        link.before = std::min(link.before, before);
        link.after = std::min(link.after, after);
      }
    }
    const auto report = [&](const std::string& name, const Link& link) {
      if (link.taken.ns == 0) return;
      add(link.before + link.taken + link.after,
          "{} is taken for {}, the first message is ready after {}, and {} lie behind the last one",
          name, text(link.taken), text(link.before), text(link.after));
    };
    for (const auto& [key, link] : shared) {
      report(fmt::format("the link for {} between stages {} and {}, shared by {} pipelines,",
                         key.second ? "gradients" : "activations", key.first, key.first + 1,
                         shape_.cell),
             link);
    }
    for (const auto& [ranks, link] : own) {
      report(fmt::format("the link from rank {} to rank {}", ranks.first, ranks.second), link);
    }
  }

  void memory(int32_t position, int32_t places) {
    if (places < shape_.chunks) return;  // nothing fits at all
    // How long a place is taken by one microbatch of each stage.
    SimDuration taken;
    const std::vector<int32_t> stages = shape_.stages_at(position);
    SimDuration before = kForEver;
    SimDuration after = kForEver;
    for (const int32_t stage : stages) {
      const auto s = static_cast<size_t>(stage);
      taken += ways_.to_backward[s] - ways_.to_forward[s] + times_.stages[s].backward();
      before = std::min(before, ways_.to_forward[s]);
      after = std::min(after, split_ ? SimDuration{} : ways_.after_backward[s]);
    }
    const int32_t rank = position * shape_.replicas;
    if (stages.size() > 1) {
      const SimDuration least{(taken.ns * shape_.microbatches + places - 1) / places};
      add(before + least + after,
          "rank {} has memory for {} microbatches of a stage, all of its {} take one for {} in "
          "turn, the first input reaches it after {}, and {} lie behind its last backward",
          rank, places, stages.size() * static_cast<size_t>(shape_.microbatches), text(taken),
          text(before), text(after));
      return;
    }
    // Microbatch k + places comes after the end of k; the last one in such a row has its way back.
    const auto s = static_cast<size_t>(stages.front());
    const int64_t trips = (shape_.microbatches + places - 1) / places;
    const SimDuration last = times_.stages[s].forward + ways_.after_forward[s];
    add(before + taken * (trips - 1) + last,
        "rank {} has memory for {} of {} microbatches, hence {} round trips of {}, reached after "
        "{}, the last of them done {} after its forward began",
        rank, places, shape_.microbatches, trips, text(taken), text(before), text(last));
    if (trips == 1) return;
    // The row that ends with the last microbatch begins with the r-th, which waits for those
    // before it wherever that takes longest.
    const SimDuration first_end = earliest_end(s, (shape_.microbatches - 1) % places);
    add(first_end + taken * (trips - 2) + last,
        "rank {} has memory for {} of {} microbatches, microbatch {} leaves it after {} at the "
        "earliest, then come {} round trips of {}, the last of them done {} after its forward "
        "began",
        rank, places, shape_.microbatches, (shape_.microbatches - 1) % places, text(first_end),
        trips - 2, text(taken), text(last));
    // Between its first gradient and the end of its last forward the rank computes forwards and
    // backwards of at least microbatches - places microbatches.
    const SimDuration between = busy(s) * (shape_.microbatches - places);
    add(ways_.to_backward[s] + between + ways_.after_forward[s],
        "rank {} has memory for {} of {} microbatches, its first gradient is there after {}, then "
        "it computes {} until its last forward is done, and {} lie behind that",
        rank, places, shape_.microbatches, text(ways_.to_backward[s]), text(between),
        text(ways_.after_forward[s]));
  }

 private:
  static constexpr SimDuration kForEver{INT64_MAX};

  // Of the backward (or W) of a microbatch on stage s: some stage from s on computes forward and
  // backward of all microbatches up to this one, whose gradient then returns from there to s.
  SimDuration earliest_end(size_t s, int64_t microbatch) const {
    SimDuration latest, way_back;
    for (size_t t = s; t < times_.stages.size(); ++t) {
      if (t > s)
        way_back += between(shape_, times_, static_cast<int32_t>(t - 1)) + ways_.backward[t - 1];
      SimDuration each = times_.stages[t].forward + ways_.backward[t] - savings_[t];
      if (shape_.recomputes(static_cast<int32_t>(t))) each += times_.stages[t].recompute;
      latest = std::max(latest, ways_.to_forward[t] + each * (microbatch + 1) + way_back);
    }
    return latest + (split_ ? times_.stages[s].backward_weight : SimDuration{});
  }

  // How long a microbatch keeps the rank of a stage at least, but for recomputation.
  SimDuration busy(size_t s) const {
    return times_.stages[s].forward + times_.stages[s].backward() - savings_[s];
  }

  template <typename... Args>
  void add(SimDuration value, fmt::format_string<Args...> format, Args&&... args) {
    bounds_.push_back({value, fmt::format(format, std::forward<Args>(args)...)});
  }

  const schedule::PipelineShape& shape_;
  const schedule::Times& times_;
  const bool split_;
  const Ways ways_;
  const std::vector<SimDuration> savings_;
  std::vector<LowerBound> bounds_;
};

}  // namespace

std::vector<LowerBound> lower_bounds(const schedule::PipelineShape& shape,
                                     const schedule::Times& times, const schedule::Memory& memory,
                                     bool split_backward) {
  CHECK(times.stages.size() == static_cast<size_t>(shape.stages), "times of {} stages for {}",
        times.stages.size(), shape.stages);
  CHECK(
      memory.in_flight.empty() || memory.in_flight.size() == static_cast<size_t>(shape.positions()),
      "memory of {} positions for {}", memory.in_flight.size(), shape.positions());
  CHECK(shape.groups.empty(), "bounds of pipelines that cross the WAN differently");
  Bounds bounds(shape, times, split_backward);
  bounds.path();
  for (int32_t position = 0; position < shape.positions(); ++position) {
    bounds.work(position);
    if (memory.in_flight.empty()) continue;
    bounds.memory(position, memory.in_flight[static_cast<size_t>(position)]);
  }
  bounds.links();
  return bounds.take();
}

}  // namespace tombolo::schedule_proof
