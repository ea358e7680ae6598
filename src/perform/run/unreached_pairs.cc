#include "perform/run/unreached_pairs.h"

#include <algorithm>

#include "spec/plan/rank_name.h"

namespace tombolo::run {

UnreachedPairs::UnreachedPairs(const plan::Plan& plan, std::vector<std::string> addresses,
                               std::vector<int32_t> reach, Options options)
    : plan_(plan),
      addresses_(std::move(addresses)),
      reach_(std::move(reach)),
      options_(std::move(options)),
      dialling_(plan, reach_) {}

Result<int32_t> UnreachedPairs::first_splice() {
  const auto links = join::spliced_links(plan_, reach_);
  if (links.empty()) return 0;
  splice_port_ = TRY(options_.open_splice());
  note(join::spliced_note(links));
  return splice_port_;
}

Result<UnreachedPairs::Told> UnreachedPairs::unreached(int32_t rank, const join::Unreached& message,
                                                       SimTime now) {
  const int32_t peer = message.peer;
  if (peer < 0 || static_cast<size_t>(peer) >= plan_.ranks.size() || peer == rank)
    return failed(fmt::format("{} cannot reach rank {}, which is no neighbour",
                              plan::rank_name(plan_, rank), peer));
  const auto next = dialling_.failed(rank, peer, message.dialling);
  if (!next && !dialling_.hopeless(rank, peer)) return Told{};
  const bool is_new = std::none_of(apart_.begin(), apart_.end(), [&](const Apart& pair) {
    return std::minmax(pair.rank, pair.peer) == std::minmax(rank, peer);
  });
  if (is_new) apart_.push_back({rank, peer, now + options_.patience});
  if (!next) return Told{};
  if (*next == join::Dialling::kSpliced && splice_port_ == 0) {
    const auto port = options_.open_splice();
    if (!port) {
      note(port.error().text());
      for (const auto& [from, to] : {std::pair(rank, peer), std::pair(peer, rank)})
        dialling_.failed(from, to, join::Dialling::kSpliced);
      return Told{};
    }
    splice_port_ = *port;
  }
  note(fmt::format("{} ({}); {}", dialling_.describe(rank, peer, addresses_), message.reason,
                   *next == join::Dialling::kSpliced ? "their link goes through this host"
                                                     : "the other one calls now"));
  const auto meet = [&](int32_t other) {
    return join::Meet{.peer = other, .dialling = *next, .splice_port = splice_port_};
  };
  return Told{{rank, meet(peer)}, {peer, meet(rank)}};
}

Status UnreachedPairs::check(SimTime now) const {
  for (const Apart& pair : apart_) {
    if (!dialling_.hopeless(pair.rank, pair.peer) || now < pair.until) continue;
    return fail({ErrorCode::kLostPeer,
                 dialling_.describe(pair.rank, pair.peer, addresses_),
                 {},
                 "a path between these two hosts, or from both to the splice port next to the "
                 "rendezvous port"});
  }
  return {};
}

}  // namespace tombolo::run
