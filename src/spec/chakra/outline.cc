#include "spec/chakra/outline.h"

#include <algorithm>
#include <numeric>

namespace tombolo::chakra {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

}  // namespace

void Outline::add(int64_t id, SimDuration duration, std::span<const int64_t> data_deps,
                  std::span<const int64_t> ctrl_deps) {
  const size_t edges = data_deps.size() + ctrl_deps.size();
  overflow_ = overflow_ || ids_.size() >= kNone - 1 || edges > kNone - deps_.size();
  if (overflow_) return;
  ids_.push_back(id);
  durations_.push_back(duration.ns);
  const auto begin = static_cast<ptrdiff_t>(deps_.size());
  deps_.insert(deps_.end(), data_deps.begin(), data_deps.end());
  deps_.insert(deps_.end(), ctrl_deps.begin(), ctrl_deps.end());
  std::sort(deps_.begin() + begin, deps_.end());
  deps_.erase(std::unique(deps_.begin() + begin, deps_.end()), deps_.end());
  ends_.push_back(static_cast<uint32_t>(deps_.size()));
}

Result<Outline::Verdict> Outline::examine() {
  if (overflow_) return unusable("it has more than 2^32 nodes or edges");
  const auto count = static_cast<uint32_t>(ids_.size());

  // Places in order of ids; empty where nodes came in that order.
  std::vector<uint32_t> order;
  if (!std::is_sorted(ids_.begin(), ids_.end())) {
    order.resize(count);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return ids_[a] < ids_[b]; });
  }
  const auto nth = [&](uint32_t rank) { return order.empty() ? rank : order[rank]; };
  for (uint32_t i = 1; i < count; ++i) {
    if (ids_[nth(i)] == ids_[nth(i - 1)]) {
      return unusable(fmt::format("two nodes have the id {}", ids_[nth(i)]));
    }
  }
  // The place of an id: nearly always as far from the lowest as it is larger.
  const auto find = [&](int64_t id) {
    if (count == 0 || id < ids_[nth(0)]) return kNone;
    const uint64_t guess = static_cast<uint64_t>(id) - static_cast<uint64_t>(ids_[nth(0)]);
    if (guess < count && ids_[nth(static_cast<uint32_t>(guess))] == id) {
      return nth(static_cast<uint32_t>(guess));
    }
    uint32_t low = 0;
    uint32_t high = static_cast<uint32_t>(std::min<uint64_t>(count, guess + 1));
    while (low < high) {
      const uint32_t middle = low + (high - low) / 2;
      if (ids_[nth(middle)] < id) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low < count && ids_[nth(low)] == id ? nth(low) : kNone;
  };

  Verdict verdict;
  // Longest path that ends with each node, and the node before on it.
  std::vector<int64_t> finish(count, 0);
  std::vector<uint32_t> before(count, kNone);
  enum : uint8_t { kNew, kOpen, kDone };
  std::vector<uint8_t> state(count, kNew);
  struct Visit {
    uint32_t node;
    uint32_t edge;  // the next to look at
  };
  std::vector<Visit> path;
  uint32_t last = kNone;
  for (uint32_t root = 0; root < count; ++root) {
    if (state[nth(root)] != kNew) continue;
    const auto enter = [&](uint32_t node) {
      state[node] = kOpen;
      path.push_back({node, node == 0 ? 0 : ends_[node - 1]});
    };
    enter(nth(root));
    while (!path.empty()) {
      const uint32_t node = path.back().node;
      if (path.back().edge < ends_[node]) {
        const int64_t id = deps_[path.back().edge];
        const uint32_t other = id == ids_[node] ? node : find(id);
        if (other == kNone || other == node) {
          verdict.bad.push_back(
              {ids_[node], id, other == kNone ? Fault::kMissing : Fault::kItself});
        } else if (state[other] == kOpen) {
          verdict.bad.push_back({ids_[node], id, Fault::kCycle});
          if (verdict.cycle.empty()) {
            auto at = path.end();
            while (at != path.begin() && (at - 1)->node != other) --at;
            for (--at; at != path.end(); ++at) verdict.cycle.push_back(ids_[at->node]);
          }
        } else if (state[other] == kNew) {
          enter(other);
          continue;  // and look at this edge again when it is done
        } else if (before[node] == kNone || finish[other] > finish[before[node]]) {
          before[node] = other;
        }
        ++path.back().edge;
        continue;
      }
      state[node] = kDone;
      path.pop_back();
      const int64_t ready = before[node] == kNone ? 0 : finish[before[node]];
      if (durations_[node] > INT64_MAX - ready) {
        return unusable(
            fmt::format("node {}: the durations of the nodes it waits for add up to "
                        "more than 63 bits hold",
                        ids_[node]));
      }
      finish[node] = ready + durations_[node];
      if (last == kNone || finish[node] > finish[last]) last = node;
    }
  }
  std::sort(verdict.bad.begin(), verdict.bad.end(), [](const BadEdge& a, const BadEdge& b) {
    return std::pair(a.node, a.dependency) < std::pair(b.node, b.dependency);
  });
  if (last != kNone) verdict.critical_path.ns = finish[last];
  for (uint32_t node = last; node != kNone; node = before[node]) {
    verdict.critical_nodes.push_back(ids_[node]);
  }
  std::reverse(verdict.critical_nodes.begin(), verdict.critical_nodes.end());
  return verdict;
}

std::string to_text(const Outline::BadEdge& edge) {
  switch (edge.fault) {
    case Outline::Fault::kMissing:
      return fmt::format("node {} depends on node {}, which does not exist", edge.node,
                         edge.dependency);
    case Outline::Fault::kItself:
      return fmt::format("node {} depends on itself", edge.node);
    case Outline::Fault::kCycle:
      return fmt::format("node {} depends on node {}, which waits for it", edge.node,
                         edge.dependency);
  }
  return "";
}

}  // namespace tombolo::chakra
