#include "predict/strand/ideal_search.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "base/check.h"

namespace tombolo::strand {
namespace {

constexpr double kUnknown = -1;
constexpr double kNever = std::numeric_limits<double>::infinity();

// The ideals of a strand, and for each the segments that can end there.
struct Lattice {
  struct Step {
    uint32_t before;   // ideal
    uint32_t segment;  // in `segments`
  };
  std::vector<OperatorSet> ideals;
  std::vector<std::vector<Step>> steps;  // of each ideal; the first one stands still
  std::vector<OperatorSet> segments;     // different ones; the first is empty
};

Lattice lattice_of(const Dag& dag, int segment_max) {
  Lattice out;
  out.ideals = order_ideals(dag);
  out.segments = {0};
  std::unordered_map<OperatorSet, uint32_t> numbers{{0, 0}};
  std::unordered_map<OperatorSet, uint32_t> ideals;
  for (uint32_t i = 0; i < out.ideals.size(); ++i) {
    const OperatorSet here = out.ideals[i];
    ideals.emplace(here, i);
    // Backwards from here: what is last is taken off, as often as a segment is long.
    std::vector<OperatorSet> reached{here};
    std::vector<Lattice::Step> steps;
    for (size_t at = 0; at < reached.size(); ++at) {
      const OperatorSet before = reached[at], segment = here & ~before;
      const auto [number, fresh] =
          numbers.emplace(segment, static_cast<uint32_t>(out.segments.size()));
      if (fresh) out.segments.push_back(segment);
      steps.push_back({ideals.at(before), number->second});
      if (count(segment) == segment_max) continue;
      for (OperatorSet last = dag.last_of(before); last != 0; last &= last - 1) {
        const OperatorSet smaller = before & ~(last & ~(last - 1));
        if (std::find(reached.begin(), reached.end(), smaller) == reached.end()) {
          reached.push_back(smaller);
        }
      }
    }
    out.steps.push_back(std::move(steps));
  }
  return out;
}

class IdealSearch {
 public:
  IdealSearch(const StrandPair& pair, const SearchOptions& options)
      : pair_(pair),
        options_(options),
        forward_(lattice_of(pair.forward(), options.segment_max)),
        backward_(lattice_of(pair.backward(), options.segment_max)),
        bounds_(forward_.segments.size() * backward_.segments.size(), kUnknown),
        seconds_(bounds_.size(), kUnknown) {}

  SegmentPlan run() {
    const size_t columns = backward_.ideals.size(), states = forward_.ideals.size() * columns;
    best_.assign(states, kNever);
    from_.assign(states, {});
    best_[0] = 0;
    for (uint32_t i = 0; i < forward_.ideals.size(); ++i) {
      for (uint32_t j = 0; j < columns; ++j) {
        if (i + j > 0) settle(i, j);
      }
    }
    plan_.states = static_cast<int64_t>(states);
    plan_.seconds = best_.back();
    trace_back();
    return std::move(plan_);
  }

 private:
  struct From {
    uint32_t state = 0;
    size_t segment = 0;
  };

  // The best segment that ends in (I, J). All states it can come from are settled: an ideal comes
  // after those that it contains.
  void settle(uint32_t i, uint32_t j) {
    const size_t columns = backward_.ideals.size(), here = i * columns + j;
    for (const Lattice::Step& f : forward_.steps[i]) {
      for (const Lattice::Step& b : backward_.steps[j]) {
        if (f.segment == 0 && b.segment == 0) continue;
        ++plan_.transitions;
        const size_t before = f.before * columns + b.before;
        const size_t segment = f.segment * backward_.segments.size() + b.segment;
        const double base = best_[before] + options_.barrier;
        if (base + bound(segment) >= best_[here]) continue;
        const double now = base + seconds(segment);
        if (now < best_[here]) {
          best_[here] = now;
          from_[here] = {static_cast<uint32_t>(before), segment};
        }
      }
    }
  }

  PairSet set_of(size_t segment) const {
    return {forward_.segments[segment / backward_.segments.size()],
            backward_.segments[segment % backward_.segments.size()]};
  }

  double bound(size_t segment) {
    double& known = bounds_[segment];
    if (known < 0) known = segment_bound(pair_, set_of(segment));
    return known;
  }

  double seconds(size_t segment) {
    double& known = seconds_[segment];
    if (known < 0) {
      known = segment_seconds(pair_, set_of(segment));
      bounds_[segment] = known;
      ++plan_.played;
    }
    return known;
  }

  void trace_back() {
    for (size_t state = best_.size() - 1; state != 0; state = from_[state].state) {
      const size_t segment = from_[state].segment;
      plan_.segments.push_back({set_of(segment), seconds_[segment]});
    }
    std::reverse(plan_.segments.begin(), plan_.segments.end());
  }

  const StrandPair& pair_;
  const SearchOptions& options_;
  Lattice forward_, backward_;
  std::vector<double> bounds_, seconds_;  // of each pair of segments, once known
  std::vector<double> best_;
  std::vector<From> from_;
  SegmentPlan plan_;
};

}  // namespace

SegmentPlan search_segments(const StrandPair& pair, const SearchOptions& options) {
  CHECK(options.segment_max >= 1, "segments of {} operators", options.segment_max);
  CHECK(options.barrier >= 0, "a barrier of {} s", options.barrier);
  if (pair.size() == 0) return {};
  return IdealSearch(pair, options).run();
}

double replay(const StrandPair& pair, const SegmentPlan& plan, double barrier,
              std::vector<OperatorRun>* runs) {
  double now = 0;
  for (const Segment& segment : plan.segments) {
    std::vector<OperatorRun> here;
    const double seconds = segment_seconds(pair, segment.operators, runs ? &here : nullptr);
    for (OperatorRun run : here) {
      run.start += now;
      run.end += now;
      runs->push_back(run);
    }
    now += seconds + barrier;
  }
  return now;
}

}  // namespace tombolo::strand
