// The searches against brute force on small random strands.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>

#include "base/random.h"
#include "predict/strand/equation_2.h"
#include "predict/strand/ideal_search.h"
#include "predict/strand/stream_search.h"

namespace tombolo::strand {
namespace {

Dag random_dag(Random& random, size_t operators, double edges) {
  Dag dag;
  for (size_t i = 0; i < operators; ++i) {
    const auto stream = static_cast<Stream>(random.below(3));
    Operator op{.name = fmt::format("o{}", i),
                .kind = stream == Stream::kCompute ? Kind::kProduct : Kind::kTensor,
                .stream = stream,
                .seconds = static_cast<double>(1 + random.below(20))};
    for (size_t before = 0; before < i; ++before) {
      if (random.uniform() < edges) op.after |= only(before);
    }
    dag.add(std::move(op));
  }
  return dag;
}

OverlapTable random_paces(Random& random) {
  OverlapTable table;
  for (const auto& [first, second] : {std::pair("product", "local"), std::pair("product", "cross"),
                                      std::pair("local", "cross")}) {
    table.set(first, second, {0.5 + 0.5 * random.uniform(), 0.5 + 0.5 * random.uniform()});
  }
  return table;
}

// Every topological order, as a list of operators.
std::vector<std::vector<size_t>> orders_of(const Dag& dag) {
  std::vector<std::vector<size_t>> out;
  std::vector<size_t> so_far;
  const std::function<void(OperatorSet)> grow = [&](OperatorSet done) {
    if (done == dag.all()) out.push_back(so_far);
    for (size_t i = 0; i < dag.size(); ++i) {
      if (holds(done, i) || (dag[i].after & ~done) != 0) continue;
      so_far.push_back(i);
      grow(done | only(i));
      so_far.pop_back();
    }
  };
  grow(0);
  return out;
}

// Every way to cut an order into segments of at most `longest`.
void cut(const std::vector<size_t>& order, size_t from, size_t longest,
         std::vector<OperatorSet>& so_far,
         const std::function<void(const std::vector<OperatorSet>&)>& use) {
  if (from == order.size()) return use(so_far);
  OperatorSet segment = 0;
  for (size_t to = from; to < std::min(order.size(), from + longest); ++to) {
    segment |= only(order[to]);
    so_far.push_back(segment);
    cut(order, to + 1, longest, so_far, use);
    so_far.pop_back();
  }
}

// Different partitions of all orders, as lists of segments.
std::vector<std::vector<OperatorSet>> partitions_of(const Dag& dag, size_t longest) {
  std::vector<std::vector<OperatorSet>> out;
  for (const auto& order : orders_of(dag)) {
    std::vector<OperatorSet> so_far;
    cut(order, 0, longest, so_far, [&](const auto& partition) { out.push_back(partition); });
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

// Equation 2 over every pair of partitions of every pair of orders.
double best_by_hand(const StrandPair& pair, int longest, double barrier) {
  std::map<std::pair<OperatorSet, OperatorSet>, double> known;
  const auto seconds = [&](OperatorSet f, OperatorSet b) {
    const auto [at, fresh] = known.try_emplace({f, b}, 0);
    if (fresh) at->second = barrier + segment_seconds(pair, {f, b});
    return at->second;
  };
  double best = std::numeric_limits<double>::infinity();
  const auto backwards = partitions_of(pair.backward(), static_cast<size_t>(longest));
  for (const auto& f : partitions_of(pair.forward(), static_cast<size_t>(longest))) {
    for (const auto& b : backwards) {
      SegmentTimes p;
      for (const OperatorSet i : f) p.forward.push_back(seconds(i, 0));
      for (const OperatorSet j : b) p.backward.push_back(seconds(0, j));
      for (const OperatorSet i : f) {
        for (const OperatorSet j : b) p.paired.push_back(seconds(i, j));
      }
      best = std::min(best, equation_2(p).back());
    }
  }
  return best;
}

TEST(StrandOracle, BestOfAllOrdersPartitionsAndPairings) {
  Random random = Random(20).stream("strands");
  int compared = 0, of_eight = 0;
  while (compared < 500) {
    const size_t nf = 1 + random.below(8), nb = 1 + random.below(8);
    const double edges = 0.3 + 0.5 * random.uniform();
    StrandPair pair(random_dag(random, nf, edges), random_dag(random, nb, edges),
                    random_paces(random));
    const int longest = static_cast<int>(1 + random.below(3));
    // What brute force can do in the time there is.
    const double work =
        static_cast<double>(partitions_of(pair.forward(), static_cast<size_t>(longest)).size()) *
        static_cast<double>(partitions_of(pair.backward(), static_cast<size_t>(longest)).size());
    if (work > 8'000) continue;
    const SegmentPlan plan = search_segments(pair, {.segment_max = longest, .barrier = 0.5});
    const double best = best_by_hand(pair, longest, 0.5);
    EXPECT_NEAR(plan.seconds, best, 1e-9 * best) << nf << " and " << nb << " operators";
    EXPECT_NEAR(replay(pair, plan, 0.5), plan.seconds, 1e-9 * best);
    of_eight += nf == 8 || nb == 8 ? 1 : 0;
    ++compared;
  }
  EXPECT_GT(of_eight, 50);
}

// Every order on every stream, each operator as early as its queue lets it: no schedule without
// waiting on purpose is better than the best of these.
double best_queues(const StrandPair& pair) {
  std::array<std::vector<size_t>, kStreams> queues;
  for (size_t op = 0; op < pair.size(); ++op) {
    queues[static_cast<size_t>(pair[op].stream)].push_back(op);
  }
  double best = std::numeric_limits<double>::infinity();
  std::vector<double> rank(pair.size());
  const std::function<void(size_t)> try_from = [&](size_t stream) {
    if (stream == kStreams) {
      const double now = co_run(pair, pair.all(), {.rank = rank});
      best = std::min(best, now);
      return;
    }
    std::vector<size_t>& queue = queues[stream];
    std::sort(queue.begin(), queue.end());
    do {
      for (size_t i = 0; i < queue.size(); ++i) rank[queue[i]] = static_cast<double>(i);
      try_from(stream + 1);
    } while (std::next_permutation(queue.begin(), queue.end()));
  };
  try_from(0);
  return best;
}

TEST(StrandOracle, StreamsAreNoSlowerThanTheBestOrderOfEachQueue) {
  Random random = Random(21).stream("streams");
  int proved = 0;
  for (int i = 0; i < 200; ++i) {
    StrandPair pair(random_dag(random, 1 + random.below(4), 0.4),
                    random_dag(random, 1 + random.below(4), 0.4), random_paces(random));
    const SegmentPlan plan = search_segments(pair, {.barrier = 0});
    const StreamSchedule schedule = search_streams(pair, plan, 1'000'000);
    proved += schedule.proved ? 1 : 0;
    EXPECT_LE(schedule.seconds, best_queues(pair) * (1 + 1e-9));
    EXPECT_LE(schedule.seconds, schedule.seed_seconds * (1 + 1e-9));
    EXPECT_LE(schedule.seed_seconds, plan.seconds * (1 + 1e-9));
    EXPECT_NEAR(replay(pair, schedule), schedule.seconds, 1e-9 * schedule.seconds);
    // Nothing is shorter than a stream or a chain at full pace.
    EXPECT_GE(schedule.seconds * (1 + 1e-9), segment_bound(pair, pair.all()));
  }
  EXPECT_EQ(proved, 200);
}

}  // namespace
}  // namespace tombolo::strand
