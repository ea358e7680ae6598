#include "decide/geo/mixed_scout.h"

#include <algorithm>
#include <queue>

#include "decide/geo/mixed_chain.h"

namespace tombolo::geo {
namespace {

constexpr int kAsksMax = 40;  // of one setting in one look

class Scout {
 public:
  Scout(const MixedTask& task, const MixedSetting& setting, SetSizes sizes, double bar,
        Prospect& prospect)
      : cluster_(task.open.job.cluster),
        priced_(task.open.job, task.law, setting, task.open.fixed.sequence_parallel),
        chains_(priced_, cluster_, sizes, task.open.fixed.pipeline, task.options.stop),
        bar_(bar),
        known_(prospect) {
    found_.with.resize(cluster_.datacenters.size());
  }

  MixedFindings run(const Look& look) {
    if (priced_.microbatches() <= 1) return std::move(found_);  // a period is nothing then
    look_at_periods(look.period);
    if (look.round) look_at_round_trips(look.period);
    return std::move(found_);
  }

 private:
  bool ended() const { return known_.least >= bar_ || gave_up_; }

  // Bisects between the highest period known to be impossible and one that may be possible.
  void look_at_periods(double share) {
    known_.low = std::max(known_.low, chains_.period_min());
    double high = std::min(known_.high, chains_.period_for(bar_));
    if (known_.high >= high && !possible(high)) return;
    high = std::min(high, known_.high);
    for (int ask = 0; ask < kAsksMax && !ended() && high - known_.low > share * high; ++ask) {
      const double middle = (known_.low + high) / 2;
      if (possible(middle)) high = std::min(middle, known_.high);
    }
  }

  bool possible(double period) {
    if (ended()) return false;
    const ChainAnswer answer = chains_.any(period);
    if (!known(answer)) return false;
    if (!answer.chain) {
      known_.low = std::max(known_.low, period);
      raise(chains_.time_from(period));
      return false;
    }
    known_.high = std::min({known_.high, period, work_out(*answer.chain)});
    return true;
  }

  // Of all plans with a period from `from` to `to`, the least time.
  struct Span {
    double least, from, to;
    bool operator<(const Span& other) const { return least > other.least; }
  };

  // A period in a span, with the shortest round trip that the span's end allows, is a bound; the span
  // with the lowest is halved.
  void look_at_round_trips(double share) {
    std::priority_queue<Span> spans;
    spans.push({known_.least, known_.low, chains_.period_for(bar_)});
    for (int ask = 0; ask < kAsksMax && !ended() && !spans.empty(); ++ask) {
      const Span span = spans.top();
      raise(span.least);
      if (span.least >= bar_ * (1 - share)) return;
      const double periods = (chains_.microbatches() - 1) * span.from;
      const ChainAnswer answer = chains_.shortest(span.to, bar_ - periods);
      if (!known(answer)) return;
      spans.pop();
      if (!answer.chain) continue;
      work_out(*answer.chain);
      const double middle = (span.from + span.to) / 2;
      const auto least_from = [&](double period) {
        return std::max(span.least, answer.once + (chains_.microbatches() - 1) * period);
      };
      spans.push({least_from(span.from), span.from, middle});
      spans.push({least_from(middle), middle, span.to});
    }
    if (!gave_up_) raise(spans.empty() ? bar_ : spans.top().least);
  }

  bool known(const ChainAnswer& answer) {
    gave_up_ = gave_up_ || !answer.known;
    return answer.known;
  }

  void raise(double least) { known_.least = std::max(known_.least, std::min(least, bar_)); }

  // The layers of a chain, exactly, if that is a plan. Returns its period.
  double work_out(const Chain& chain) {
    std::vector<cost::Hop> hops;
    for (size_t i = 1; i < chain.order.size(); ++i) {
      const size_t a = chain.order[i - 1], b = chain.order[i];
      hops.push_back(priced_.wan(
          *cluster_.link(cluster_.datacenters[a].name, cluster_.datacenters[b].name), a, b));
    }
    ++found_.evaluated;
    std::optional<Partition> partition =
        best_partition(partition_problem(priced_, chain.order, chain.stages, hops), kInfinity);
    if (!partition) return kInfinity;
    ++found_.feasible;
    MixedSplit split{.setting = priced_.setting(),
                     .order = chain.order,
                     .stages = chain.stages,
                     .partition = *partition,
                     .score = partition->total};
    found_.all.found = std::min(found_.all.found, split.score);
    for (const size_t z : split.order) {
      found_.with[z].found = std::min(found_.with[z].found, split.score);
    }
    const double period = split.partition.period;
    found_.top.push_back(std::move(split));
    return period;
  }

  const cluster::Cluster& cluster_;
  PricedSetting priced_;
  Chains chains_;
  double bar_;
  Prospect& known_;
  MixedFindings found_;
  bool gave_up_ = false;  // asked to stop, or too many paths
};

}  // namespace

MixedFindings scout(const MixedTask& task, const MixedSetting& setting, SetSizes sizes, double bar,
                    const Look& look, Prospect& prospect) {
  return Scout(task, setting, sizes, bar, prospect).run(look);
}

}  // namespace tombolo::geo
