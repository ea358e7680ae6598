#include "predict/strand/stream_search.h"

#include <algorithm>

#include "base/check.h"

namespace tombolo::strand {
namespace {

// How late each operator is among `runs`.
std::vector<double> ranks_of(const StrandPair& pair, const std::vector<OperatorRun>& runs) {
  std::vector<double> ranks(pair.size());
  for (size_t at = 0; at < runs.size(); ++at) ranks[runs[at].op] = static_cast<double>(at);
  return ranks;
}

class StreamSearch {
 public:
  StreamSearch(const StrandPair& pair, int64_t nodes_max)
      : pair_(pair), nodes_max_(nodes_max), tails_(chain_tails(pair)) {}

  StreamSchedule run(const SegmentPlan& seed) {
    best_.seconds = best_.seed_seconds = strand::replay(pair_, seed, 0, &best_.runs);
    consider(ranks_of(pair_, best_.runs));
    std::vector<double> urgent(pair_.size());
    for (size_t i = 0; i < urgent.size(); ++i) urgent[i] = -tails_[i];
    consider(urgent);
    order_ = ranks_of(pair_, best_.runs);

    const State start = first_state();
    for (int discrepancies = 1; !best_.proved && best_.nodes < nodes_max_; ++discrepancies) {
      cut_ = false;
      explore(start, discrepancies);
      best_.proved = !cut_ && best_.nodes < nodes_max_;
    }
    return std::move(best_);
  }

 private:
  struct State {
    double now = 0;
    PairSet unstarted, unfinished;
    DeviceStreams streams;
    std::array<double, kStreams> work;  // of what has not started
    uint8_t waiting = 0;                // streams that wait on purpose until something ends
  };

  static std::vector<double> chain_tails(const StrandPair& pair) {
    std::vector<double> tails(pair.size());
    const auto fill = [&](const Dag& dag, size_t first) {
      for (size_t i = dag.size(); i-- > 0;) {
        tails[first + i] += dag[i].seconds;
        for (OperatorSet before = dag[i].after; before != 0; before &= before - 1) {
          double& tail = tails[first + static_cast<size_t>(std::countr_zero(before))];
          tail = std::max(tail, tails[first + i]);
        }
      }
    };
    fill(pair.forward(), 0);
    fill(pair.backward(), pair.forward().size());
    return tails;
  }

  void consider(const std::vector<double>& ranks) {
    std::vector<OperatorRun> runs;
    const double seconds = co_run(pair_, pair_.all(), {.rank = ranks}, &runs);
    if (seconds < best_.seconds) {
      best_.seconds = seconds;
      best_.runs = std::move(runs);
    }
  }

  State first_state() const {
    State s;
    s.unstarted = s.unfinished = pair_.all();
    for (size_t stream = 0; stream < kStreams; ++stream) {
      s.work[stream] = pair_.stream_seconds(static_cast<Stream>(stream));
    }
    return s;
  }

  bool ready(const State& s, size_t op) const {
    const size_t forwards = pair_.forward().size();
    const OperatorSet unfinished = op < forwards ? s.unfinished.forward : s.unfinished.backward;
    return s.unstarted.has(op, forwards) && (pair_[op].after & unfinished) == 0;
  }

  double bound(const State& s) const {
    double most = 0;
    for (size_t stream = 0; stream < kStreams; ++stream) {
      const DeviceStreams::Running& r = s.streams.on(stream);
      if (r.op < 0) {
        most = std::max(most, s.work[stream]);
        continue;
      }
      const auto op = static_cast<size_t>(r.op);
      most = std::max({most, s.work[stream] + r.left, r.left + tails_[op] - pair_[op].seconds});
    }
    for (size_t op = 0; op < pair_.size(); ++op) {
      if (tails_[op] > most && ready(s, op)) most = tails_[op];
    }
    return s.now + most;
  }

  // The first stream that stands still, has something to do and has not decided to wait.
  int undecided(const State& s, std::vector<size_t>& choices) const {
    for (size_t stream = 0; stream < kStreams; ++stream) {
      if (s.streams.on(stream).op >= 0 || (s.waiting >> stream & 1) != 0) continue;
      for (size_t op = 0; op < pair_.size(); ++op) {
        if (static_cast<size_t>(pair_[op].stream) == stream && ready(s, op)) choices.push_back(op);
      }
      if (!choices.empty()) return static_cast<int>(stream);
    }
    return -1;
  }

  void explore(const State& s, int discrepancies) {
    if (++best_.nodes > nodes_max_) return;
    if (bound(s) >= best_.seconds) return;
    std::vector<size_t> choices;
    const int stream = undecided(s, choices);
    if (stream < 0) return advance(s, discrepancies);
    std::sort(choices.begin(), choices.end(),
              [&](size_t a, size_t b) { return order_[a] < order_[b]; });
    // The last choice is to wait.
    for (size_t k = 0; k <= choices.size(); ++k) {
      if (static_cast<int>(k) > discrepancies) {
        cut_ = true;
        return;
      }
      State next = s;
      if (k < choices.size()) {
        begin(next, choices[k]);
      } else {
        next.waiting |= static_cast<uint8_t>(1 << stream);
      }
      explore(next, discrepancies - static_cast<int>(k));
    }
  }

  void begin(State& s, size_t op) const {
    s.unstarted.remove(op, pair_.forward().size());
    s.streams.start(pair_, op, s.now);
    s.work[static_cast<size_t>(pair_[op].stream)] -= pair_[op].seconds;
  }

  // Until the next operator ends.
  void advance(const State& from, int discrepancies) {
    if (from.streams.idle()) return;  // everything waits for ever
    State s = from;
    const DeviceStreams::Ended ended = s.streams.advance(pair_, s.now);
    s.now += ended.step;
    s.waiting = 0;
    const size_t kept = path_.size();
    for (size_t i = 0; i < ended.count; ++i) {
      s.unfinished.remove(ended.runs[i].op, pair_.forward().size());
      path_.push_back(ended.runs[i]);
    }
    if (s.unfinished.empty()) {
      record(s.now);
    } else {
      explore(s, discrepancies);
    }
    path_.resize(kept);
  }

  void record(double seconds) {
    if (seconds >= best_.seconds) return;
    best_.seconds = seconds;
    best_.runs = path_;
    std::stable_sort(best_.runs.begin(), best_.runs.end(),
                     [](const OperatorRun& a, const OperatorRun& b) { return a.start < b.start; });
  }

  const StrandPair& pair_;
  int64_t nodes_max_;
  std::vector<double> tails_;
  std::vector<double> order_;
  std::vector<OperatorRun> path_;
  bool cut_ = false;
  StreamSchedule best_;
};

}  // namespace

StreamSchedule search_streams(const StrandPair& pair, const SegmentPlan& seed, int64_t nodes_max) {
  CHECK(nodes_max >= 0, "a search of {} nodes", nodes_max);
  if (pair.size() == 0) return {.proved = true};
  return StreamSearch(pair, nodes_max).run(seed);
}

std::vector<PairSet> events_of(const StrandPair& pair, const StreamSchedule& schedule) {
  std::vector<PairSet> events(pair.size());
  // Those that take no time end when they start: they wait for earlier ones of the list alone.
  for (size_t at = 0; at < schedule.runs.size(); ++at) {
    const OperatorRun& run = schedule.runs[at];
    for (size_t before = 0; before < at; ++before) {
      const OperatorRun& other = schedule.runs[before];
      if (other.end == run.start) events[run.op].add(other.op, pair.forward().size());
    }
  }
  return events;
}

double replay(const StrandPair& pair, const StreamSchedule& schedule,
              std::vector<OperatorRun>* runs) {
  const std::vector<double> ranks = ranks_of(pair, schedule.runs);
  const std::vector<PairSet> events = events_of(pair, schedule);
  return co_run(pair, pair.all(),
                {.rank = ranks, .discipline = Discipline::kInOrder, .waits = events}, runs);
}

}  // namespace tombolo::strand
