#include "perform/exchange/group_sum.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "perform/compress/quantise.h"

namespace tombolo::exchange {
namespace {

// The payload as bf16; the numbers are rounded to the same values in place.
link::Payload bf16_of(std::span<float> numbers) {
  link::Payload payload(numbers.size() * sizeof(uint16_t));
  for (size_t i = 0; i < numbers.size(); ++i) {
    const uint16_t upper = compress::to_bf16(numbers[i]);
    numbers[i] = compress::from_bf16(upper);
    std::memcpy(payload.data() + i * sizeof upper, &upper, sizeof upper);
  }
  return payload;
}

float number_of(float number) { return number; }
float number_of(uint16_t upper) { return compress::from_bf16(upper); }

// Adds what was received to the numbers, or replaces them by it.
template <class Wire>
void take_in(const std::byte* payload, bool adds, std::span<float> numbers) {
  for (size_t i = 0; i < numbers.size(); ++i) {
    Wire wire{};
    std::memcpy(&wire, payload + i * sizeof wire, sizeof wire);
    numbers[i] = adds ? numbers[i] + number_of(wire) : number_of(wire);
  }
}

}  // namespace

GroupSum::GroupSum(const schedule::GradientExchange& exchange, std::span<const int32_t> ranks,
                   size_t own, link::Tag first, std::span<float> values, DatacenterUpdates* updates,
                   size_t bytes_of_number, double parameter_share)
    : first_(first),
      values_(values),
      updates_(updates),
      in_bf16_(bytes_of_number == sizeof(uint16_t)) {
  CHECK(in_bf16_ || bytes_of_number == sizeof(float), "numbers of {} bytes", bytes_of_number);
  CHECK(own < ranks.size(), "replica {} of {}", own, ranks.size());
  CHECK(exchange.rounds.size() < kernels::kRoundsMax, "{} rounds", exchange.rounds.size());
  const auto self = static_cast<int32_t>(own);
  for (const auto& messages : exchange.rounds) {
    Round& round = rounds_.emplace_back();
    for (const schedule::ExchangeMessage& each : messages) {
      const int32_t other = each.from == self ? each.to : each.from;
      const double share = each.parameters ? parameter_share : 1;
      const Part part{ranks[static_cast<size_t>(other)],
                      each.first,
                      each.count,
                      each.adds,
                      each.update_of,
                      std::llround(std::ceil(real(each.count) * share))};
      CHECK(!each.is_update() || updates_, "a sparse update without an updater");
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

std::span<float> GroupSum::travelling(const Part& part) const {
  return values_of(part).first(static_cast<size_t>(part.travels));
}

Result<link::Payload> GroupSum::payload_of(const Part& part) {
  if (part.update_of >= 0) return updates_->give(static_cast<size_t>(part.update_of));
  if (in_bf16_) return bf16_of(travelling(part));
  const auto bytes = std::as_bytes(travelling(part));
  return link::Payload{bytes.begin(), bytes.end()};
}

// Returns the sends of this round, and of the next ones as long as nothing has to be received
// before.
Result<std::vector<GroupSum::Parcel>> GroupSum::go_on() {
  std::vector<Parcel> out;
  for (; !done(); ++round_) {
    for (const Part& part : rounds_[round_].out)
      out.push_back({part.peer, tag(), TRY(payload_of(part))});
    if (!rounds_[round_].in.empty()) break;
  }
  return out;
}

kernels::Messenger::Awaited GroupSum::wanted() const {
  CHECK(!done(), "a sum that is done waits for nothing");
  return {rounds_[round_].in[taken_].peer, tag()};
}

Status GroupSum::add(const Part& part, const link::Payload& payload) {
  if (part.update_of >= 0) return updates_->take(static_cast<size_t>(part.update_of), payload);
  const std::span<float> own = travelling(part);
  const size_t wanted = own.size() * (in_bf16_ ? sizeof(uint16_t) : sizeof(float));
  if (payload.size() != wanted) {
    return failed(fmt::format("rank {} sent {} bytes of gradients where {} are summed", part.peer,
                              payload.size(), wanted),
                  "start every rank with the same Plan");
  }
  in_bf16_ ? take_in<uint16_t>(payload.data(), part.adds, own)
           : take_in<float>(payload.data(), part.adds, own);
  const std::span<float> left = values_of(part).subspan(own.size());
  std::fill(left.begin(), left.end(), std::numeric_limits<float>::quiet_NaN());
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

}  // namespace tombolo::exchange
