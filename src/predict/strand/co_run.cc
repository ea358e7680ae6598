#include "predict/strand/co_run.h"

#include <algorithm>

#include "base/check.h"

namespace tombolo::strand {
namespace {

constexpr size_t kBoth = 2 * kOperatorsMax;

// Longest chain of work inside the set from the start of each of its operators.
void tails(const Dag& dag, OperatorSet set, double* tail) {
  for (OperatorSet left = set; left != 0;) {
    const size_t i = static_cast<size_t>(std::bit_width(left)) - 1;
    left &= ~only(i);
    tail[i] += dag[i].seconds;
    for (OperatorSet before = dag[i].after & set; before != 0; before &= before - 1) {
      const auto p = static_cast<size_t>(std::countr_zero(before));
      tail[p] = std::max(tail[p], tail[i]);
    }
  }
}

// One that has not started, with what it waits for.
struct Waiting {
  size_t op;
  PairSet after;

  bool ready(const PairSet& pending) const {
    return ((after.forward & pending.forward) | (after.backward & pending.backward)) == 0;
  }
};

// Those of the set in their order, each with what it waits for inside the set. How many there are.
size_t put_in_order(const StrandPair& pair, PairSet set, const LaunchOrder& order,
                    Waiting* waiting) {
  size_t count = 0;
  for (OperatorSet s = set.forward; s != 0; s &= s - 1) {
    const auto i = static_cast<size_t>(std::countr_zero(s));
    waiting[count++] = {i, {pair.forward()[i].after & set.forward, 0}};
  }
  for (OperatorSet s = set.backward; s != 0; s &= s - 1) {
    const auto i = static_cast<size_t>(std::countr_zero(s));
    waiting[count++] = {pair.forward().size() + i, {0, pair.backward()[i].after & set.backward}};
  }
  for (size_t at = 0; at < count && !order.waits.empty(); ++at) {
    waiting[at].after.forward |= order.waits[waiting[at].op].forward;
    waiting[at].after.backward |= order.waits[waiting[at].op].backward;
  }
  std::stable_sort(waiting, waiting + count, [&](const Waiting& a, const Waiting& b) {
    return order.rank[a.op] < order.rank[b.op];
  });
  return count;
}

}  // namespace

double co_run(const StrandPair& pair, PairSet set, const LaunchOrder& order,
              std::vector<OperatorRun>* runs) {
  CHECK(order.rank.size() >= pair.size(), "{} ranks for {} operators", order.rank.size(),
        pair.size());
  CHECK(order.waits.empty() || order.waits.size() == pair.size(), "{} waits for {} operators",
        order.waits.size(), pair.size());
  std::array<Waiting, kBoth> waiting;
  size_t left = put_in_order(pair, set, order, waiting.data());
  const size_t forwards = pair.forward().size();

  DeviceStreams streams;
  double now = 0;
  PairSet pending = set;
  while (!pending.empty()) {
    size_t kept = 0;
    std::array<bool, kStreams> held{};  // by one that waits
    for (size_t at = 0; at < left; ++at) {
      const Waiting& w = waiting[at];
      const Stream stream = pair[w.op].stream;
      if (w.ready(pending) && streams.free(stream) && !held[static_cast<size_t>(stream)]) {
        streams.start(pair, w.op, now);
      } else {
        held[static_cast<size_t>(stream)] = order.discipline == Discipline::kInOrder;
        waiting[kept++] = w;
      }
    }
    left = kept;
    CHECK(!streams.idle(), "operators that wait for each other");
    const DeviceStreams::Ended ended = streams.advance(pair, now);
    now += ended.step;
    for (size_t i = 0; i < ended.count; ++i) {
      pending.remove(ended.runs[i].op, forwards);
      if (runs) runs->push_back(ended.runs[i]);
    }
  }
  if (runs) {
    std::stable_sort(runs->begin(), runs->end(),
                     [](const OperatorRun& a, const OperatorRun& b) { return a.start < b.start; });
  }
  return now;
}

double segment_seconds(const StrandPair& pair, PairSet segment, std::vector<OperatorRun>* runs) {
  std::array<double, kBoth> rank{};
  tails(pair.forward(), segment.forward, rank.data());
  tails(pair.backward(), segment.backward, rank.data() + pair.forward().size());
  for (size_t i = 0; i < pair.size(); ++i) rank[i] = -rank[i];
  return co_run(pair, segment, {.rank = rank}, runs);
}

double segment_bound(const StrandPair& pair, PairSet segment) {
  std::array<double, kBoth> tail{};
  std::array<double, kStreams> sums{};
  double bound = 0;
  tails(pair.forward(), segment.forward, tail.data());
  tails(pair.backward(), segment.backward, tail.data() + pair.forward().size());
  const auto add = [&](OperatorSet set, size_t first) {
    for (; set != 0; set &= set - 1) {
      const size_t op = first + static_cast<size_t>(std::countr_zero(set));
      bound = std::max(bound, tail[op]);
      sums[static_cast<size_t>(pair[op].stream)] += pair[op].seconds;
    }
  };
  add(segment.forward, 0);
  add(segment.backward, pair.forward().size());
  return std::max(bound, *std::max_element(sums.begin(), sums.end()));
}

double strand_seconds(const StrandPair& pair, bool forward) {
  StrandPair alone = pair;
  alone.set_order(framework_order(pair.forward()), framework_order(pair.backward()));
  const std::array<double, kBoth> rank{};
  const PairSet set =
      forward ? PairSet{pair.forward().all(), 0} : PairSet{0, pair.backward().all()};
  return co_run(alone, set, {.rank = rank});
}

}  // namespace tombolo::strand
