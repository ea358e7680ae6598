#include "perform/runtime/group_sum.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace tombolo::runtime {

GroupSum::GroupSum(const schedule::GradientExchange& exchange, std::span<const int32_t> ranks,
                   size_t own, link::Tag first, std::span<float> values, DatacenterUpdates* updates)
    : first_(first), values_(values), updates_(updates) {
  CHECK(own < ranks.size(), "replica {} of {}", own, ranks.size());
  CHECK(exchange.rounds.size() < kRoundsMax, "{} rounds", exchange.rounds.size());
  const auto self = static_cast<int32_t>(own);
  for (const auto& messages : exchange.rounds) {
    Round& round = rounds_.emplace_back();
    for (const schedule::ExchangeMessage& each : messages) {
      const int32_t other = each.from == self ? each.to : each.from;
      const Part part{ranks[static_cast<size_t>(other)], each.first, each.count, each.adds,
                      each.update_of};
      CHECK(!each.is_update() || updates_, "a sparse update, and nobody to make it");
      CHECK(part.first >= 0 && part.first + part.count <= std::ssize(values),
            "elements {} to {} of {}", part.first, part.first + part.count, values.size());
      if (each.from == self) round.out.push_back(part);
      if (each.to == self) round.in.push_back(part);
    }
  }
}

std::span<float> GroupSum::values_of(const Part& part) const {
  return values_.subspan(static_cast<size_t>(part.first), static_cast<size_t>(part.count));
}

Result<link::Payload> GroupSum::payload_of(const Part& part) {
  if (part.update_of >= 0) return updates_->give(static_cast<size_t>(part.update_of));
  const auto bytes = std::as_bytes(values_of(part));
  return link::Payload{bytes.begin(), bytes.end()};
}

// Sends of this round, and of the next ones as long as nothing has to come before.
Result<std::vector<GroupSum::Parcel>> GroupSum::go_on() {
  std::vector<Parcel> out;
  for (; !done(); ++round_) {
    for (const Part& part : rounds_[round_].out)
      out.push_back({part.peer, tag(), TRY(payload_of(part))});
    if (!rounds_[round_].in.empty()) break;
  }
  return out;
}

Messenger::Awaited GroupSum::wanted() const {
  CHECK(!done(), "a sum that is done waits for nothing");
  return {rounds_[round_].in[taken_].peer, tag()};
}

Status GroupSum::add(const Part& part, const link::Payload& payload) {
  if (part.update_of >= 0) return updates_->take(static_cast<size_t>(part.update_of), payload);
  const std::span<float> own = values_of(part);
  const std::byte* theirs = payload.data();
  if (payload.size() != own.size_bytes()) {
    return failed(fmt::format("rank {} sent {} bytes of gradients where {} are summed", part.peer,
                              payload.size(), own.size_bytes()),
                  "start every rank with the same Plan");
  }
  if (!part.adds) {
    std::copy_n(theirs, own.size_bytes(), std::as_writable_bytes(own).data());
    return {};
  }
  for (size_t i = 0; i < own.size(); ++i) {
    float other = 0;
    std::memcpy(&other, theirs + i * sizeof other, sizeof other);
    own[i] += other;
  }
  return {};
}

Result<std::vector<GroupSum::Parcel>> GroupSum::take(const link::Received& message) {
  CHECK(!done(), "a message for a sum that is done");
  TRY(add(rounds_[round_].in[taken_], message.payload));
  if (++taken_ < rounds_[round_].in.size()) return std::vector<Parcel>{};
  taken_ = 0;
  ++round_;
  return go_on();
}

}  // namespace tombolo::runtime
