#include "perform/stage/measure_link.h"

#include <algorithm>
#include <future>
#include <set>

#include "base/check.h"
#include "base/quantiles.h"
#include "perform/kernels/emulated_kernels.h"
#include "perform/kernels/messenger.h"

namespace tombolo::stage {
namespace {

using link::Tag;
using transport::Endpoint;

constexpr SimDuration kConnectMax{10'000'000'000};
constexpr size_t kSmallBytes = 8;

// Two linked endpoints, 0 and 1.
struct Pair {
  std::unique_ptr<Endpoint> from, to;
};

Result<Pair> link(const link::LinkShape& shape, const Clock& clock) {
  const link::Token token = TRY(link::Token::random());
  Pair pair;
  pair.from = TRY(Endpoint::create({.identity = {.rank = 0, .ranks = 2, .token = token}}, clock));
  pair.to = TRY(Endpoint::create({.identity = {.rank = 1, .ranks = 2, .token = token}}, clock));
  const SimTime deadline = clock.now() + kConnectMax;
  auto awaited =
      std::async(std::launch::async, [&] { return pair.to->await_peer(0, shape, deadline); });
  const Status dialed = pair.from->connect(1, "127.0.0.1", pair.to->port(), shape, deadline);
  const Status answered = awaited.get();
  TRY(dialed);
  TRY(answered);
  return pair;
}

// Seconds from the first byte's departure to the last byte's delivery, of messages sent one by one.
Result<double> median_flight(Pair& pair, size_t bytes, int64_t messages, uint64_t first) {
  std::vector<double> flights;
  for (int64_t i = 0; i < messages; ++i) {
    const Tag tag{first, static_cast<uint64_t>(i)};
    TRY(pair.from->send(1, tag, link::Payload(bytes)));
    const auto message = TRY(pair.to->receive(0, tag, kNever));
    flights.push_back(seconds(message.delivered - message.sent_start).value);
  }
  return median(std::move(flights));
}

}  // namespace

Result<plan::MeasuredLink> measure_link(const plan::Plan& plan, int32_t from, int32_t to,
                                        const Clock& clock, const MeasureLinkOptions& options) {
  CHECK(options.small_messages >= 1 && options.large_messages >= 1,
        "a link measured with {} small messages and {} large ones", options.small_messages,
        options.large_messages);
  Pair pair = TRY(link(kernels::shape_between(plan, from, to), clock));
  const auto bytes = static_cast<size_t>(kernels::payload_bytes(plan));
  const double latency = TRY(median_flight(pair, kSmallBytes, options.small_messages, 1));
  const double flight = TRY(median_flight(pair, bytes, options.large_messages, 2));
  // Both ends at once: a goodbye waits for the other's.
  const SimTime deadline = clock.now() + kConnectMax;
  auto closed = std::async(std::launch::async, [&] { return pair.to->close(deadline); });
  static_cast<void>(pair.from->close(deadline));
  static_cast<void>(closed.get());
  return plan::MeasuredLink{.between = {plan.ranks[from].datacenter, plan.ranks[to].datacenter},
                            .one_way_latency = Seconds{latency},
                            .rate = Bytes{static_cast<double>(bytes) * plan.run.byte_scale} /
                                    Seconds{std::max(flight - latency, 1e-9)}};
}

Result<std::vector<plan::MeasuredLink>> measure_links(const plan::Plan& plan, const Clock& clock,
                                                      const MeasureLinkOptions& options) {
  std::vector<plan::MeasuredLink> links;
  std::set<std::pair<std::string, std::string>> seen;
  for (int32_t s = 0; s + 1 < static_cast<int32_t>(plan.stages.size()); ++s) {
    const int32_t from = plan.rank_of(s, 0), to = plan.rank_of(s + 1, 0);
    if (from == to) continue;  // both stages are the same rank's
    const plan::Channel channel = plan::channel_between(plan, from, to);
    if (!channel.wan || channel.occupancy) continue;
    if (!seen.insert(std::minmax(plan.ranks[from].datacenter, plan.ranks[to].datacenter)).second) {
      continue;
    }
    links.push_back(TRY(during(measure_link(plan, from, to, clock, options),
                               "measuring the link " + channel.link)));
  }
  return links;
}

}  // namespace tombolo::stage
