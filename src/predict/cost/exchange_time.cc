#include "predict/cost/exchange_time.h"

#include <algorithm>

#include "base/check.h"
#include "spec/plan/resources.h"
#include "spec/schedule/gradient_exchange.h"

namespace tombolo::cost {

namespace {

// A stage's rounds: each message with its bytes and its route.
template <typename Visit, typename EndOfRound>
void for_each_message(const plan::Plan& plan, int32_t stage, plan::Resources& resources,
                      const Visit& visit, const EndOfRound& end_of_round) {
  const std::vector<int32_t> ranks = plan.replicas_of(stage);
  const double element = plan::gradient_bytes(plan);
  const auto elements =
      static_cast<int64_t>(plan.stages[static_cast<size_t>(stage)].gradients.value / element);
  for (const auto& round : schedule::gradient_exchange(plan, stage, elements).rounds) {
    for (const schedule::ExchangeMessage& message : round) {
      const int32_t from = ranks[static_cast<size_t>(message.from)];
      const int32_t to = ranks[static_cast<size_t>(message.to)];
      const Bytes bytes{schedule::bytes_of(plan, message) *
                        real(plan.ranks[static_cast<size_t>(from)].shards)};
      visit(from, to, bytes, resources.message(from, to));
    }
    end_of_round();
  }
}

// What resources carry, and how long the fullest takes for it.
class Load {
 public:
  void add(const plan::Route& route, Bytes bytes) {
    for (const plan::Use& use : route) {
      if (bytes_.size() <= use.resource) bytes_.resize(use.resource + 1);
      bytes_[use.resource] += bytes * use.share;
    }
  }
  Seconds fullest(const plan::Resources& resources) const {
    Seconds longest;
    for (size_t r = 0; r < bytes_.size(); ++r)
      if (bytes_[r].value > 0) longest = std::max(longest, bytes_[r] / resources.all()[r].capacity);
    return longest;
  }

 private:
  std::vector<Bytes> bytes_;
};

}  // namespace

Seconds exchange_alone(const plan::Plan& plan, int32_t stage) {
  plan::Resources resources(plan);
  Seconds all, slowest, latency;
  Load load;
  for_each_message(
      plan, stage, resources,
      [&](int32_t from, int32_t to, Bytes bytes, const plan::Route& route) {
        const plan::Channel channel = plan::expected_channel(plan, from, to);
        slowest = std::max(slowest, channel.latency + channel.serialisation(bytes));
        latency = std::max(latency, channel.latency);
        load.add(route, bytes);
      },
      [&] {
        const Seconds fullest = load.fullest(resources);
        if (fullest.value > 0) slowest = std::max(slowest, latency + fullest);
        all += slowest;
        slowest = latency = {};
        load = {};
      });
  return all;
}

Seconds exchange_of_all(const plan::Plan& plan) {
  plan::Resources resources(plan);
  Seconds longest;
  Load load;
  for (int32_t stage = 0; stage < std::ssize(plan.stages); ++stage) {
    longest = std::max(longest, exchange_alone(plan, stage));
    for_each_message(
        plan, stage, resources,
        [&](int32_t, int32_t, Bytes bytes, const plan::Route& route) { load.add(route, bytes); },
        [] {});
  }
  return std::max(longest, load.fullest(resources));
}

}  // namespace tombolo::cost
