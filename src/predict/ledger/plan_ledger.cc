#include "predict/ledger/plan_ledger.h"

#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "spec/schedule/exchange_graph.h"

namespace tombolo::ledger {
namespace {

using schedule::detail::StageExchange;

class Counter {
 public:
  explicit Counter(const plan::Plan& plan) : plan_(plan) {}

  void count_pipelines() {
    const double each = std::round(plan_.boundary.value);
    for (int32_t stage = 0; stage + 1 < std::ssize(plan_.stages); ++stage) {
      for (int32_t replica = 0; replica < plan_.replicas(); ++replica) {
        const double bytes = each * real(plan_.microbatches_of(replica));
        add_both_ways(plan_.rank_of(stage, replica), plan_.rank_of(stage + 1, replica),
                      MessageClass::kPipeline, bytes);
      }
    }
  }

  void count_exchanges() {
    for (const auto& [stage, exchange] : schedule::detail::exchanges_of(plan_)) {
      for (const MessageClass kind : {MessageClass::kGradients, MessageClass::kOuterSteps}) {
        count(exchange, kind);
      }
    }
  }

  void count_tied_ends() {
    for (const layout::Placement& rank : plan_.ranks) {
      const std::optional<int32_t> other = plan_.other_end(rank.rank);
      if (!other) continue;
      sums_[{rank.rank, *other, MessageClass::kTied}] +=
          std::round(plan::tied_bytes(plan_, plan_.model).value);
    }
  }

  std::vector<PairFlow> take() {
    std::vector<PairFlow> out;
    for (const auto& [key, bytes] : sums_) {
      const auto& [from, to, kind] = key;
      out.push_back({from, to, kind, Bytes{bytes}});
    }
    return out;
  }

 private:
  void add_both_ways(int32_t a, int32_t b, MessageClass kind, double bytes) {
    if (a == b) return;
    sums_[{a, b, kind}] += bytes;
    sums_[{b, a, kind}] += bytes;
  }

  // Of all groups of a stage. Replicas exchange with each other over and over: their sums stand in a
  // square until all are counted.
  void count(const StageExchange& stage, MessageClass kind) {
    const std::vector<int32_t> ranks = plan_.replicas_of(stage.stage);
    const size_t n = ranks.size();
    std::vector<double> sums(n * n);
    for (const StageExchange::Group& group : stage.groups) {
      const bool outer = kind == MessageClass::kOuterSteps;
      const double share = outer ? 1 / real(group.steps.every) : 1;
      for (const auto& round : (outer ? group.outer : group.exchange).rounds) {
        for (const schedule::ExchangeMessage& message : round) {
          const auto from = static_cast<size_t>(message.from);
          const int64_t shards = plan_.ranks[static_cast<size_t>(ranks[from])].shards;
          sums[from * n + static_cast<size_t>(message.to)] +=
              share * real(schedule::detail::message_bytes(stage, message, shards));
        }
      }
    }
    for (size_t i = 0; i < n * n; ++i) {
      if (sums[i] > 0) sums_[{ranks[i / n], ranks[i % n], kind}] += sums[i];
    }
  }

  const plan::Plan& plan_;
  std::map<std::tuple<int32_t, int32_t, MessageClass>, double> sums_;
};

std::vector<WanFlow> over_the_wan(const plan::Plan& plan, const std::vector<PairFlow>& pairs) {
  std::map<std::pair<std::string, std::string>, WanFlow> ways;
  for (const PairFlow& pair : pairs) {
    const std::string& from = plan.ranks[static_cast<size_t>(pair.from)].datacenter;
    const std::string& to = plan.ranks[static_cast<size_t>(pair.to)].datacenter;
    if (from == to) continue;
    WanFlow& way = ways[{from, to}];
    way.from = from;
    way.to = to;
    way.by_class[static_cast<size_t>(pair.kind)] += pair.bytes;
    if (const cluster::WanLink* link = plan.cluster.link(from, to)) {
      way.price += link->price * pair.bytes;
    }
  }
  std::vector<WanFlow> out;
  for (auto& entry : ways) out.push_back(std::move(entry.second));
  return out;
}

std::optional<DollarsPerSecond> price_of_devices(const plan::Plan& plan) {
  DollarsPerSecond all;
  for (size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    const DollarsPerSecond price = plan.datacenter_of(static_cast<int32_t>(rank)).price;
    if (price.value <= 0) return {};
    all += price * real(plan.ranks[rank].shards);
  }
  return all;
}

}  // namespace

Dollars egress_of(const cluster::WanLink& link, Bytes boundary, int64_t microbatches,
                  int64_t data) {
  return link.price * boundary * (2 * real(microbatches) * real(data));
}

Dollars tied_egress(const cluster::Cluster& cluster, const std::string& first,
                    const std::string& last, Bytes each, int64_t pipelines) {
  const cluster::WanLink* link = first == last ? nullptr : cluster.link(first, last);
  return link ? link->price * (2 * each) * real(pipelines) : Dollars{};
}

std::string note_on_tied_ends(const cluster::Cluster& cluster, const std::string& first,
                              const std::string& last, Bytes each) {
  if (each.value == 0 || first == last || cluster.link(first, last)) return {};
  return fmt::format(
      "the tied embedding lies in {} and in {}, which no WAN link joins: the {} of its gradients "
      "that each must send the other are left out, and training refuses",
      first, last, brief(each));
}

std::string note_on_tied_ends(const plan::Plan& plan) {
  if (!plan.has_model()) return {};
  const Bytes each = plan::tied_bytes(plan, plan.model);
  const auto last_stage = static_cast<int32_t>(plan.stages.size()) - 1;
  for (int32_t replica = 0; replica < plan.replicas(); ++replica) {
    std::string note =
        note_on_tied_ends(plan.cluster, plan.datacenter_of(plan.rank_of(0, replica)).name,
                          plan.datacenter_of(plan.rank_of(last_stage, replica)).name, each);
    if (!note.empty()) return note;
  }
  return {};
}

Bytes WanFlow::bytes() const {
  Bytes all;
  for (const Bytes each : by_class) all += each;
  return all;
}

Ledger Ledger::of(const plan::Plan& plan) {
  Counter counter(plan);
  counter.count_pipelines();
  counter.count_exchanges();
  counter.count_tied_ends();
  Ledger out;
  out.pairs_ = counter.take();
  out.wan_ = over_the_wan(plan, out.pairs_);
  out.devices_ = price_of_devices(plan);
  return out;
}

Dollars Ledger::egress() const {
  Dollars all;
  for (const WanFlow& way : wan_) all += way.price;
  return all;
}

Cost Ledger::cost(Seconds iteration) const {
  CHECK(iteration >= 0_s, "an iteration of {} s", iteration.value);
  Cost out{.devices = {}, .egress = egress()};
  if (devices_) out.devices = *devices_ * iteration;
  return out;
}

}  // namespace tombolo::ledger
