#include "spec/schedule/sparse_exchange.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace tombolo::schedule {
namespace {

constexpr int64_t kBlock = 16;  // numbers
constexpr double kHeader = 24;

// Bytes of a block's values, and of its scale where they need one.
double value_bytes(plan::SentValues values) {
  switch (values) {
    case plan::SentValues::kBf16:
      return 32;
    case plan::SentValues::kInt8:
      return 17;
    case plan::SentValues::kInt4:
      return 9;
    case plan::SentValues::kTwoBit:
      return 5;
    case plan::SentValues::kFp32:
      return 64;
  }
  CHECK(false, "values {}", static_cast<int>(values));
}

// Of perform/compress/chunks.h: 12 bits for each number's position, values in sixteens.
double update_bytes_of_chunks(const plan::Exchange& exchange, int64_t elements) {
  constexpr int64_t kChunk = 4096;
  const auto whole = std::clamp<int64_t>(
      std::llround(exchange.density_in_use() * static_cast<double>(kChunk)), 1, kChunk);
  const int64_t rest = elements % kChunk;
  const int64_t of_rest = std::max<int64_t>(1, (rest * whole + kChunk / 2) / kChunk);
  const int64_t numbers = elements / kChunk * whole + (rest > 0 ? of_rest : 0);
  const int64_t blocks = (numbers + kBlock - 1) / kBlock;
  return kHeader + real((3 * numbers + 1) / 2) +
         real(blocks) * value_bytes(exchange.values_in_use());
}

// Of perform/compress/top_k.h: coordinates.
double update_bytes_of_top_k(const plan::Exchange& exchange, int64_t elements) {
  return 4 + 8 * std::max(1.0, std::round(real(elements) * exchange.density_in_use()));
}

}  // namespace

std::vector<int32_t> leaders_of(std::span<const int32_t> datacenters, int32_t group) {
  std::vector<int32_t> leaders;
  for (const std::vector<int32_t>& here : by_datacenter(datacenters))
    leaders.push_back(here[static_cast<size_t>(group) % here.size()]);
  return leaders;
}

GradientExchange sparse_exchange(std::span<const int32_t> datacenters, int64_t elements,
                                 int32_t group) {
  CHECK(elements >= 0 && group >= 0, "{} elements of group {}", elements, group);
  if (elements == 0) return {};
  const std::vector<std::vector<int32_t>> members = by_datacenter(datacenters);
  const std::vector<int32_t> leaders = leaders_of(datacenters, group);
  const auto others = [&](size_t d) {
    std::vector<int32_t> out = members[d];
    std::erase(out, leaders[d]);
    return out;
  };
  std::vector<std::vector<ExchangeMessage>> rounds(2 + members.size());
  for (size_t d = 0; d < members.size(); ++d) {
    const auto here = static_cast<int32_t>(d);
    for (const int32_t member : others(d)) {
      rounds[0].push_back({member, leaders[d], 0, elements, true});
      rounds[1].push_back({leaders[d], member, 0, elements, false, here});
    }
    for (size_t e = 0; e < members.size(); ++e) {
      if (e == d) continue;
      rounds[1].push_back({leaders[d], leaders[e], 0, elements, false, here});
      for (const int32_t member : others(e))
        rounds[2 + d].push_back({leaders[e], member, 0, elements, false, here});
    }
  }
  std::erase_if(rounds, [](const auto& round) { return round.empty(); });
  return {std::move(rounds)};
}

SparseRole sparse_role(const plan::Plan& plan, int32_t rank, int32_t stage, int32_t group) {
  const std::vector<int32_t> where = datacenters_of(plan, stage);
  const std::vector<std::vector<int32_t>> members = by_datacenter(where);
  const int32_t replica = plan.ranks[static_cast<size_t>(rank)].replica;
  const std::vector<int32_t> leaders = leaders_of(where, group);
  for (size_t d = 0; d < members.size(); ++d) {
    if (std::find(members[d].begin(), members[d].end(), replica) == members[d].end()) continue;
    return {static_cast<int32_t>(d), leaders[d] == replica, static_cast<int32_t>(members.size())};
  }
  CHECK(false, "replica {} of stage {} lies nowhere", replica, stage);
}

double expected_update_bytes(const plan::Exchange& exchange, int64_t elements) {
  if (elements == 0) return exchange.selects_top_k() ? 4 : kHeader;
  if (exchange.selects_chunks()) return update_bytes_of_chunks(exchange, elements);
  if (exchange.selects_top_k()) return update_bytes_of_top_k(exchange, elements);
  const double all = std::ceil(real(elements) / static_cast<double>(kBlock));
  if (!exchange.keeps_residuals()) return kHeader + all * value_bytes(exchange.values_in_use());
  const double blocks = std::max(1.0, std::round(all * exchange.density_in_use()));
  const double left_out = 1 - blocks / all;
  const double number = 1 + std::pow(left_out, 128) + std::pow(left_out, 16384);
  return kHeader + blocks * (number + value_bytes(exchange.values_in_use()));
}

}  // namespace tombolo::schedule
