// Gradients between datacenters, played tick by tick: the whole model on every replica, replicas
// on nodes of their own in two or three datacenters. Of the product the oracle takes which groups
// there are and which messages (both have brute-force tests of their own); when things happen, who
// goes first and how flows share cards, node pairs and paths it finds out by itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/random.h"
#include "predict/cost/price_plan.h"
#include "predict/sim/simulate.h"
#include "spec/plan/gradient_groups.h"
#include "spec/plan/job.h"
#include "spec/schedule/gradient_exchange.h"
#include "support/seeds.h"

namespace tombolo {
namespace {

constexpr double kTick = 5e-6;  // seconds
// Within a datacenter. Above some ticks, so that a channel that is free does not have to choose at
// the very moment at which what it brought makes something more urgent ready.
constexpr double kInside = 1e-4;
constexpr int kIterations = 5;

struct Layout {
  std::vector<int32_t> where;  // datacenter of each replica
  int layers = 3, microbatches = 2, latency_ms = 5;
  double pair_gbps = 1, path_gbps = 0, card_gbps = 10;  // no path limit: 0
  double forward_ms = 10, backward_ms = 20, update_ms = 2;
  bool first_come = false;
};

class ExchangeOracle {
 public:
  ExchangeOracle(const Layout& layout, std::vector<plan::GradientGroup> groups)
      : layout_(layout), groups_(std::move(groups)), ranks_(layout.where.size()) {
    for (const plan::GradientGroup& group : groups_) {
      exchanges_.push_back(
          schedule::gradient_exchange(layout.where, static_cast<int64_t>(group.bytes.value / 4)));
      bytes_ += group.bytes.value;
    }
    make_order();
  }

  // From the first computation of the third iteration to that of the fourth.
  double period() {
    for (int64_t tick = 0; starts_[3] < 0; ++tick) {
      now_ = static_cast<double>(tick) * kTick;
      CHECK(now_ < 60, "the oracle waits forever");
      arrive();
      for (size_t r = 0; r < ranks_.size(); ++r) pick(r);
      start_messages();
      drain();
      compute();
    }
    return starts_[3] - starts_[2];
  }

 private:
  // A part of a pass: what it waits for, what it completes, in groups; -1: nothing.
  struct Part {
    double seconds = 0;
    int needs = -1, completes = -1;
  };
  using Key = std::pair<int, int>;  // iteration, group: who goes first
  struct Rank {
    int iteration = 0;
    size_t next = 0;  // in the order
    double left = 0;  // of what it computes
    bool busy = false, updates = false;
    Key update = {};
    std::set<Key> pending, updated;                     // updates
    std::map<Key, size_t> round;                        // of each group under way
    std::map<Key, int> missing;                         // messages of that round that are to come
    std::map<std::tuple<int, int, size_t>, int> early;  // came before their round
  };
  struct Message {
    Key key;
    size_t round = 0;
    int from = 0, to = 0;
    double left = 0, rate = 0;
  };
  struct Flight {
    double there = 0;
    Message message;
  };

  void make_order() {
    const size_t n = groups_.size();
    for (int m = 0; m < layout_.microbatches; ++m) {
      for (size_t g = 0; g < n && m == 0; ++g) {
        const double end = g + 1 < n ? groups_[g + 1].needed_at : 1;
        order_.push_back(
            {layout_.forward_ms * 1e-3 * (end - groups_[g].needed_at), static_cast<int>(g), -1});
      }
      if (m > 0) order_.push_back({layout_.forward_ms * 1e-3});
      const bool last = m + 1 == layout_.microbatches;
      double before = 0;
      for (size_t g = n; g-- > 0 && last;) {
        order_.push_back({layout_.backward_ms * 1e-3 * (groups_[g].complete_at - before), -1,
                          static_cast<int>(g)});
        before = groups_[g].complete_at;
      }
      if (!last) order_.push_back({layout_.backward_ms * 1e-3});
    }
  }

  // The next part of a pass, or before the next iteration's an update that may run.
  void pick(size_t r) {
    Rank& rank = ranks_[r];
    if (rank.busy) return;
    const Part& part = order_[rank.next];
    const bool possible = rank.iteration == 0 || part.needs < 0 ||
                          rank.updated.contains({rank.iteration - 1, part.needs});
    const bool update_first =
        !rank.pending.empty() && (!possible || rank.pending.begin()->first < rank.iteration);
    if (update_first) {
      const auto next = next_update(rank.pending);
      rank.update = *next;
      rank.pending.erase(next);
      const auto& group = groups_[static_cast<size_t>(rank.update.second)];
      rank.left = layout_.update_ms * 1e-3 * group.bytes.value / bytes_;
      rank.busy = rank.updates = true;
    } else if (possible) {
      if (rank.next == 0 && rank.iteration < kIterations && starts_[rank.iteration] < 0) {
        starts_[rank.iteration] = now_;
      }
      rank.left = part.seconds;
      rank.busy = true;
    }
  }

  // Of the earliest iteration what is needed first, or what was complete first.
  std::set<Key>::iterator next_update(const std::set<Key>& pending) const {
    if (!layout_.first_come) return pending.begin();
    return std::prev(pending.lower_bound({pending.begin()->first + 1, 0}));
  }

  void compute() {
    for (size_t r = 0; r < ranks_.size(); ++r) {
      Rank& rank = ranks_[r];
      if (!rank.busy || (rank.left -= kTick) > 1e-12) continue;
      rank.busy = false;
      if (rank.updates) {
        rank.updates = false;
        rank.updated.insert(rank.update);
        continue;
      }
      const int completes = order_[rank.next].completes;
      if (completes >= 0) begin(r, {rank.iteration, completes}, 0);
      if (++rank.next == order_.size()) {
        rank.next = 0;
        ++rank.iteration;
      }
    }
  }

  const auto& rounds(const Key& key) const {
    return exchanges_[static_cast<size_t>(key.second)].rounds;
  }

  // Hands over what the replica sends in this round, and goes on if nothing is to come.
  void begin(size_t r, const Key& key, size_t round) {
    Rank& rank = ranks_[r];
    if (round == rounds(key).size()) {
      rank.pending.insert(key);
      return;
    }
    rank.round[key] = round;
    int missing = -rank.early[{key.first, key.second, round}];
    for (const schedule::ExchangeMessage& m : rounds(key)[round]) {
      if (m.to == static_cast<int>(r)) ++missing;
      if (m.from != static_cast<int>(r)) continue;
      waiting_[{m.from, m.to}].push_back(
          {key, round, m.from, m.to, static_cast<double>(m.count) * 4});
    }
    rank.missing[key] = missing;
    if (missing == 0) begin(r, key, round + 1);
  }

  void arrive() {
    const std::vector<Flight> flights = std::move(flights_);
    flights_.clear();
    for (const Flight& flight : flights) {
      if (flight.there > now_ + 1e-12) {
        flights_.push_back(flight);
        continue;
      }
      const Message& m = flight.message;
      Rank& rank = ranks_[static_cast<size_t>(m.to)];
      const auto at = rank.round.find(m.key);
      if (at == rank.round.end() || at->second < m.round) {
        ++rank.early[{m.key.first, m.key.second, m.round}];
      } else if (--rank.missing[m.key] == 0) {
        begin(static_cast<size_t>(m.to), m.key, m.round + 1);
      }
    }
  }

  // One at a time from a replica to another: the earliest iteration, then what is needed first or what
  // came first.
  void start_messages() {
    for (auto& [pair, waiting] : waiting_) {
      if (waiting.empty() || active_.contains(pair)) continue;
      const auto first =
          std::min_element(waiting.begin(), waiting.end(), [&](const auto& a, const auto& b) {
            return layout_.first_come ? a.key.first < b.key.first : a.key < b.key;
          });
      active_[pair] = *first;
      waiting.erase(first);
      shared_ = false;
    }
    if (!shared_) share();
  }

  bool apart(const std::pair<int, int>& pair) const {
    return layout_.where[static_cast<size_t>(pair.first)] !=
           layout_.where[static_cast<size_t>(pair.second)];
  }

  // Rates grow together until something is full; who crosses it stops.
  void share() {
    std::map<std::string, double> left;
    std::map<std::pair<int, int>, std::vector<std::string>> uses;
    for (const auto& [pair, message] : active_) {
      auto& names = uses[pair];
      names = {fmt::format("out {}", pair.first), fmt::format("in {}", pair.second)};
      for (const std::string& name : names) left[name] = layout_.card_gbps * 125e6;
      if (!apart(pair)) continue;
      names.push_back(fmt::format("pair {} {}", pair.first, pair.second));
      left[names.back()] = layout_.pair_gbps * 125e6;
      if (layout_.path_gbps == 0) continue;
      names.push_back(fmt::format("path {} {}", layout_.where[static_cast<size_t>(pair.first)],
                                  layout_.where[static_cast<size_t>(pair.second)]));
      left[names.back()] = layout_.path_gbps * 125e6;
    }
    for (auto& [pair, message] : active_) message.rate = 0;
    while (!uses.empty()) {
      std::map<std::string, int> users;
      for (const auto& [pair, names] : uses) {
        for (const std::string& name : names) ++users[name];
      }
      double step = 1e18;
      for (const auto& [name, count] : users) step = std::min(step, left[name] / count);
      for (const auto& [pair, names] : uses) {
        active_[pair].rate += step;
        for (const std::string& name : names) left[name] -= step;
      }
      std::erase_if(uses, [&](const auto& use) {
        return std::any_of(use.second.begin(), use.second.end(),
                           [&](const auto& name) { return left[name] < 1; });
      });
    }
    shared_ = true;
  }

  void drain() {
    for (auto at = active_.begin(); at != active_.end();) {
      Message& message = at->second;
      if ((message.left -= message.rate * kTick) > 1e-6) {
        ++at;
        continue;
      }
      const double latency = apart(at->first) ? layout_.latency_ms * 1e-3 : kInside;
      flights_.push_back({now_ + kTick + latency, message});
      at = active_.erase(at);
      shared_ = false;
    }
  }

  const Layout& layout_;
  std::vector<plan::GradientGroup> groups_;
  std::vector<schedule::GradientExchange> exchanges_;
  double bytes_ = 0;
  std::vector<Part> order_;
  std::vector<Rank> ranks_;
  std::map<std::pair<int, int>, std::vector<Message>> waiting_;
  std::map<std::pair<int, int>, Message> active_;
  std::vector<Flight> flights_;
  bool shared_ = true;
  double now_ = 0;
  double starts_[kIterations] = {-1, -1, -1, -1, -1};
};

Layout layout_of_any_kind(Random& random) {
  const auto below = [&](uint64_t n) { return static_cast<int>(random.below(n)); };
  Layout out;
  const int datacenters = 2 + below(2);
  const int replicas = datacenters + below(3);
  for (int r = 0; r < replicas; ++r) out.where.push_back(r < datacenters ? r : below(2));
  out.layers = 1 + below(4);
  out.microbatches = 1 + below(3);
  out.latency_ms = 1 + below(12);
  out.pair_gbps = 1 << below(3);
  if (below(2) == 0) out.path_gbps = out.pair_gbps * (1 + 0.5 * below(3));
  out.card_gbps = 2 << below(3);
  out.forward_ms = 4 + below(20);
  out.backward_ms = 4 + below(40);
  out.update_ms = 1 + below(5);
  return out;
}

plan::Plan plan_of_layout(const Layout& layout) {
  std::string text = fmt::format(
      "[model]\nlayers = {}\nhidden = 320\nheads = 8\nvocabulary = 64\nsequence = 64\n"
      "[training]\nglobal_batch = {}\n[parallelism]\npipeline = 1\ndata = {}\n"
      "datacenter_per_replica = [",
      layout.layers, layout.microbatches * std::ssize(layout.where), layout.where.size());
  for (const int32_t where : layout.where) text += fmt::format("\"dc{}\", ", where);
  text += fmt::format("]\n[stage_times]\nforward = \"{} ms\"\nbackward = \"{} ms\"\n",
                      layout.forward_ms, layout.backward_ms);
  if (layout.first_come) text += "[exchange]\norder = \"first-come\"\n";
  for (int d = 0; d <= *std::max_element(layout.where.begin(), layout.where.end()); ++d) {
    text += fmt::format(
        "[[cluster.datacenter]]\nname = \"dc{}\"\ndevice = \"h100-80g\"\nnodes = 8\n"
        "devices_per_node = 1\nscale_out = {{ bandwidth = \"{} Gbps\", latency = \"100 us\" }}\n",
        d, layout.card_gbps);
    for (int other = 0; other < d; ++other) {
      text += fmt::format(
          "[[cluster.wan]]\nbetween = [\"dc{}\", \"dc{}\"]\none_way_latency = \"{} ms\"\n"
          "node_pair_limit = \"{} Gbps\"\nconnections = 256\n",
          other, d, layout.latency_ms, layout.pair_gbps);
      if (layout.path_gbps > 0) text += fmt::format("path_limit = \"{} Gbps\"\n", layout.path_gbps);
    }
  }
  auto plan = plan::parse_job(text, "job.toml").and_then([](const plan::Job& job) {
    return cost::make_plan(job);
  });
  CHECK(plan, "{}\n{}", plan.error().text(), text);
  // Imagined times would leave nothing to the network of a datacenter.
  plan->cost_source = plan::CostSource::kProfile;
  plan->stages[0].cost.update = Seconds{layout.update_ms * 1e-3};
  return *plan;
}

void expect_agreement(uint64_t all, bool first_come) {
  for (uint64_t seed = 0; seed < all; ++seed) {
    Random random(seed + 190'000);
    Layout layout = layout_of_any_kind(random);
    layout.first_come = first_come;
    SCOPED_TRACE(fmt::format("seed {}: replicas in {}, {} layers", seed,
                             fmt::join(layout.where, " "), layout.layers));
    const plan::Plan plan = plan_of_layout(layout);
    const sim::Simulation answer = *sim::simulate(plan, {.iterations = kIterations});
    SimTime third{INT64_MAX}, fourth{INT64_MAX};
    for (const trace::Interval& each : answer.trace.intervals) {
      if (each.iteration == 3) third = std::min(third, each.start);
      if (each.iteration == 4) fourth = std::min(fourth, each.start);
    }
    ExchangeOracle oracle(layout, plan::gradient_groups(plan, 0));
    // Each of some hundred steps may end up to a tick late.
    EXPECT_NEAR(seconds(fourth - third).value, oracle.period(), 100 * kTick);
  }
}

TEST(ExchangeOracle, AgreesWithTheSimulator) { expect_agreement(seeds(100, 1000), false); }

TEST(ExchangeOracle, AgreesFirstComeFirstServed) { expect_agreement(seeds(50, 500), true); }

}  // namespace
}  // namespace tombolo
