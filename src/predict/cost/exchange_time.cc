#include "predict/cost/exchange_time.h"

#include <algorithm>

#include "base/check.h"
#include "spec/plan/resources.h"
#include "spec/schedule/gradient_exchange.h"

namespace tombolo::cost {

Seconds exchange_alone(const plan::Plan& plan, int32_t stage) {
  const std::vector<int32_t> ranks = plan.replicas_of(stage);
  const double element = plan::gradient_bytes(plan);
  const auto elements =
      static_cast<int64_t>(plan.stages[static_cast<size_t>(stage)].gradients.value / element);
  plan::Resources resources(plan);
  Seconds all;
  for (const auto& round : schedule::gradient_exchange(plan, stage, elements).rounds) {
    std::vector<Bytes> load(resources.all().size());
    Seconds slowest, latency;
    for (const schedule::ExchangeMessage& message : round) {
      const int32_t from = ranks[static_cast<size_t>(message.from)];
      const int32_t to = ranks[static_cast<size_t>(message.to)];
      const Bytes bytes{schedule::bytes_of(plan, message) *
                        real(plan.ranks[static_cast<size_t>(from)].shards)};
      const plan::Channel channel = plan::expected_channel(plan, from, to);
      slowest = std::max(slowest, channel.latency + channel.serialisation(bytes));
      latency = std::max(latency, channel.latency);
      const plan::Route route = resources.message(from, to);
      load.resize(resources.all().size());
      for (const plan::Use& use : route) load[use.resource] += bytes * use.share;
    }
    for (size_t r = 0; r < load.size(); ++r) {
      if (load[r].value == 0) continue;
      slowest = std::max(slowest, latency + load[r] / resources.all()[r].capacity);
    }
    all += slowest;
  }
  return all;
}

}  // namespace tombolo::cost
