#include "spec/schedule/gradient_exchange.h"

#include <algorithm>
#include <set>

#include "base/check.h"
#include "spec/schedule/sparse_exchange.h"

namespace tombolo::schedule {
namespace {

using Round = std::vector<ExchangeMessage>;

// Elements [first, end).
struct Range {
  int64_t first = 0;
  int64_t end = 0;
};

// Part `i` of `n`, as even as possible: the first ones have one more.
Range part_of(const Range& whole, size_t i, size_t n) {
  const int64_t all = whole.end - whole.first;
  const auto parts = static_cast<int64_t>(n), part = static_cast<int64_t>(i);
  const auto begin = [&](int64_t p) {
    return whole.first + all / parts * p + std::min(p, all % parts);
  };
  return {begin(part), begin(part + 1)};
}

void send(Round& round, int32_t from, int32_t to, const Range& range, bool adds) {
  if (range.first < range.end) {
    round.push_back({from, to, range.first, range.end - range.first, adds});
  }
}

// Everyone's chunk from all others of the datacenter, or to them. In each step everyone sends one
// message and gets one.
void exchange_inside(const std::vector<int32_t>& members, const Range& all, bool sums,
                     Round& round) {
  const size_t n = members.size();
  for (size_t step = 1; step < n; ++step) {
    for (size_t owner = 0; owner < n; ++owner) {
      const int32_t other = members[(owner + step) % n];
      const Range chunk = part_of(all, owner, n);
      if (sums) {
        send(round, other, members[owner], chunk, true);
      } else {
        send(round, members[owner], other, chunk, false);
      }
    }
  }
}

// Elements that one replica of each datacenter holds the sum of.
struct Piece {
  Range range;
  std::vector<int32_t> holders;  // by datacenter
};

std::vector<Piece> pieces_of(const std::vector<std::vector<int32_t>>& members, const Range& all) {
  std::set<int64_t> borders;
  for (const auto& here : members) {
    for (size_t i = 0; i < here.size(); ++i) borders.insert(part_of(all, i, here.size()).end);
  }
  std::vector<Piece> pieces;
  std::vector<size_t> holder(members.size());  // the chunk that the piece lies in
  int64_t first = all.first;
  for (const int64_t border : borders) {
    if (border == first) continue;
    Piece piece{{first, border}, {}};
    for (size_t d = 0; d < members.size(); ++d) {
      while (part_of(all, holder[d], members[d].size()).end <= first) ++holder[d];
      piece.holders.push_back(members[d][holder[d]]);
    }
    pieces.push_back(std::move(piece));
    first = border;
  }
  return pieces;
}

// Both add the other's piece to theirs.
std::vector<Round> swap(const std::vector<Piece>& pieces) {
  std::vector<Round> rounds(1);
  for (const Piece& piece : pieces) {
    send(rounds[0], piece.holders[0], piece.holders[1], piece.range, true);
    send(rounds[0], piece.holders[1], piece.holders[0], piece.range, true);
  }
  return rounds;
}

// Each holder owns a part: it gets the part from all others, and hands out the sum.
std::vector<Round> exchange_directly(const std::vector<Piece>& pieces) {
  std::vector<Round> rounds(2);
  for (const Piece& piece : pieces) {
    exchange_inside(piece.holders, piece.range, /*sums=*/true, rounds[0]);
    exchange_inside(piece.holders, piece.range, /*sums=*/false, rounds[1]);
  }
  return rounds;
}

// docs/laws/ring_all_reduce.md: in step t holder i passes on part i - t.
std::vector<Round> exchange_in_a_ring(const std::vector<Piece>& pieces, size_t n) {
  std::vector<Round> rounds(2 * (n - 1));
  for (size_t t = 0; t < rounds.size(); ++t) {
    for (const Piece& piece : pieces) {
      for (size_t i = 0; i < n; ++i) {
        const Range part = part_of(piece.range, (i + 2 * n - t) % n, n);
        send(rounds[t], piece.holders[i], piece.holders[(i + 1) % n], part, t < n - 1);
      }
    }
  }
  return rounds;
}

}  // namespace

std::vector<std::vector<int32_t>> by_datacenter(std::span<const int32_t> datacenters) {
  std::vector<std::vector<int32_t>> members;
  std::vector<int32_t> names;
  for (size_t replica = 0; replica < datacenters.size(); ++replica) {
    const auto at = std::find(names.begin(), names.end(), datacenters[replica]);
    const auto index = static_cast<size_t>(at - names.begin());
    if (at == names.end()) {
      names.push_back(datacenters[replica]);
      members.emplace_back();
    }
    members[index].push_back(static_cast<int32_t>(replica));
  }
  return members;
}

std::vector<int32_t> datacenters_of(const plan::Plan& plan, int32_t stage) {
  std::vector<int32_t> datacenters;
  for (const int32_t rank : plan.replicas_of(stage)) {
    datacenters.push_back(static_cast<int32_t>(plan.datacenter_index(rank)));
  }
  return datacenters;
}

GradientExchange gradient_exchange(std::span<const int32_t> datacenters, int64_t elements,
                                   Across across, bool sharded) {
  CHECK(!datacenters.empty() && elements >= 0, "{} elements of {} replicas", elements,
        datacenters.size());
  const std::vector<std::vector<int32_t>> members = by_datacenter(datacenters);
  const Range all{0, elements};
  std::vector<Round> rounds(1);
  for (const auto& here : members) exchange_inside(here, all, /*sums=*/true, rounds[0]);
  if (members.size() > 1) {
    const std::vector<Piece> pieces = pieces_of(members, all);
    const std::vector<Round> between = members.size() == 2 ? swap(pieces)
                                       : across == Across::kRing
                                           ? exchange_in_a_ring(pieces, members.size())
                                           : exchange_directly(pieces);
    rounds.insert(rounds.end(), between.begin(), between.end());
  }
  rounds.emplace_back();
  for (const auto& here : members) exchange_inside(here, all, /*sums=*/false, rounds.back());
  for (ExchangeMessage& message : rounds.back()) message.parameters = sharded;
  std::erase_if(rounds, [](const Round& round) { return round.empty(); });
  return {std::move(rounds)};
}

GradientExchange sum_inside(std::span<const int32_t> datacenters, int64_t elements) {
  std::vector<Round> rounds(2);
  for (const auto& here : by_datacenter(datacenters)) {
    exchange_inside(here, {0, elements}, /*sums=*/true, rounds[0]);
    exchange_inside(here, {0, elements}, /*sums=*/false, rounds[1]);
  }
  std::erase_if(rounds, [](const Round& round) { return round.empty(); });
  return {std::move(rounds)};
}

Across faster_across(const plan::Plan& plan, int32_t stage) {
  const std::vector<std::vector<int32_t>> members = by_datacenter(datacenters_of(plan, stage));
  const size_t n = members.size();
  if (n < 3) return Across::kDirect;
  size_t widest = 0;
  for (const auto& here : members) widest = std::max(widest, here.size());
  // What a holder sends to each of the others, or in each step of a ring.
  const Bytes gradients = plan.stages[static_cast<size_t>(stage)].gradients *
                          real(plan.ranks[static_cast<size_t>(plan.rank_of(stage, 0))].shards);
  const Bytes part = gradients / (real(std::ssize(members)) * static_cast<double>(widest));
  Seconds direct, ring;
  for (size_t a = 0; a < n; ++a) {
    for (size_t b = 0; b < n; ++b) {
      if (a == b) continue;
      const plan::Channel way = plan::channel_between(plan, plan.rank_of(stage, members[a][0]),
                                                      plan.rank_of(stage, members[b][0]));
      const Seconds takes = way.latency + way.serialisation(part);
      direct = std::max(direct, takes);
      if (b == (a + 1) % n) ring = std::max(ring, takes);
    }
  }
  return 2 * real(std::ssize(members) - 1) * ring < 2 * direct ? Across::kRing : Across::kDirect;
}

GradientExchange gradient_exchange(const plan::Plan& plan, int32_t stage, int64_t elements,
                                   int32_t group) {
  const std::vector<int32_t> datacenters = datacenters_of(plan, stage);
  if (plan.exchange && plan.exchange->is_sparse())
    return sparse_exchange(datacenters, elements, group);
  if (plan.exchange && plan.exchange->is_local()) return sum_inside(datacenters, elements);
  return gradient_exchange(datacenters, elements, faster_across(plan, stage),
                           plan.parallelism.zero == 1);
}

double bytes_of(const plan::Plan& plan, const ExchangeMessage& message) {
  if (message.is_update()) return expected_update_bytes(*plan.exchange, message.count);
  return real(message.count) * (message.parameters ? plan::element_bytes(plan.training.precision)
                                                   : plan::gradient_bytes(plan));
}

}  // namespace tombolo::schedule
