#include "spec/chakra/outline.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/check.h"

namespace tombolo::chakra {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

}  // namespace

void Outline::add(int64_t id, SimDuration duration, std::span<const int64_t> data_deps,
                  std::span<const int64_t> ctrl_deps) {
  CHECK(duration.ns >= 0, "node {} lasts {} ns", id, duration.ns);
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

// Where the node with an id stands. Nodes nearly always come in the order of their ids, which are
// nearly always dense.
class Outline::Places {
 public:
  explicit Places(const std::vector<int64_t>& ids) : ids_(ids) {
    if (std::is_sorted(ids.begin(), ids.end())) return;
    order_.resize(ids.size());
    std::iota(order_.begin(), order_.end(), 0);
    std::stable_sort(order_.begin(), order_.end(),
                     [&](uint32_t a, uint32_t b) { return ids[a] < ids[b]; });
  }

  uint32_t count() const { return static_cast<uint32_t>(ids_.size()); }
  // The place of the node with the nth id from below.
  uint32_t nth(uint32_t n) const { return order_.empty() ? n : order_[n]; }

  std::optional<int64_t> id_of_two() const {
    for (uint32_t i = 1; i < count(); ++i) {
      if (ids_[nth(i)] == ids_[nth(i - 1)]) return ids_[nth(i)];
    }
    return std::nullopt;
  }

  // kNone: there is none.
  uint32_t find(int64_t id) const {
    if (count() == 0 || id < ids_[nth(0)]) return kNone;
    const uint64_t guess = static_cast<uint64_t>(id) - static_cast<uint64_t>(ids_[nth(0)]);
    if (guess < count() && ids_[nth(static_cast<uint32_t>(guess))] == id) {
      return nth(static_cast<uint32_t>(guess));
    }
    uint32_t low = 0;
    uint32_t high = static_cast<uint32_t>(std::min<uint64_t>(count(), guess + 1));
    while (low < high) {
      const uint32_t middle = low + (high - low) / 2;
      if (ids_[nth(middle)] < id) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low < count() && ids_[nth(low)] == id ? nth(low) : kNone;
  }

 private:
  const std::vector<int64_t>& ids_;
  std::vector<uint32_t> order_;  // of the places by id; empty where nodes came in that order
};

// A depth-first search through the edges, which finds the longest path to each node on its way.
class Outline::Examination {
 public:
  Examination(const Outline& outline, const Places& places)
      : outline_(outline),
        places_(places),
        finish_(places.count(), 0),
        before_(places.count(), kNone),
        state_(places.count(), kNew) {}

  Result<Verdict> run() {
    for (uint32_t n = 0; n < places_.count(); ++n) {
      if (state_[places_.nth(n)] != kNew) continue;
      enter(places_.nth(n));
      while (!path_.empty()) {
        if (path_.back().edge < outline_.ends_[path_.back().node]) {
          follow_edge();
        } else {
          TRY(leave());
        }
      }
    }
    std::sort(verdict_.bad.begin(), verdict_.bad.end(), [](const BadEdge& a, const BadEdge& b) {
      return std::pair(a.node, a.dependency) < std::pair(b.node, b.dependency);
    });
    if (last_ != kNone) verdict_.critical_path.ns = finish_[last_];
    for (uint32_t node = last_; node != kNone; node = before_[node]) {
      verdict_.critical_nodes.push_back(outline_.ids_[node]);
    }
    std::reverse(verdict_.critical_nodes.begin(), verdict_.critical_nodes.end());
    return std::move(verdict_);
  }

 private:
  enum State : uint8_t { kNew, kOpen, kDone };
  struct Visit {
    uint32_t node;
    uint32_t edge;  // the next to look at
  };

  void enter(uint32_t node) {
    state_[node] = kOpen;
    path_.push_back({node, node == 0 ? 0 : outline_.ends_[node - 1]});
  }

  // Enters what is new there, and looks at the edge again when that is done.
  void follow_edge() {
    const uint32_t node = path_.back().node;
    const int64_t own = outline_.ids_[node], id = outline_.deps_[path_.back().edge];
    const uint32_t other = id == own ? node : places_.find(id);
    if (other == kNone) {
      verdict_.bad.push_back({own, id, Fault::kMissing});
    } else if (other == node) {
      verdict_.bad.push_back({own, id, Fault::kItself});
    } else if (state_[other] == kOpen) {
      verdict_.bad.push_back({own, id, Fault::kCycle});
      if (verdict_.cycle.empty()) note_cycle(other);
    } else if (state_[other] == kNew) {
      return enter(other);
    } else if (before_[node] == kNone || finish_[other] > finish_[before_[node]]) {
      before_[node] = other;
    }
    ++path_.back().edge;
  }

  void note_cycle(uint32_t first) {
    auto at = path_.end();
    while (at != path_.begin() && (at - 1)->node != first) --at;
    for (--at; at != path_.end(); ++at) verdict_.cycle.push_back(outline_.ids_[at->node]);
  }

  Status leave() {
    const uint32_t node = path_.back().node;
    state_[node] = kDone;
    path_.pop_back();
    const int64_t ready = before_[node] == kNone ? 0 : finish_[before_[node]];
    if (outline_.durations_[node] > INT64_MAX - ready) {
      return unusable(
          fmt::format("node {}: the durations of the nodes it waits for add up to "
                      "more than 63 bits hold",
                      outline_.ids_[node]));
    }
    finish_[node] = ready + outline_.durations_[node];
    if (last_ == kNone || finish_[node] > finish_[last_]) last_ = node;
    return {};
  }

  const Outline& outline_;
  const Places& places_;
  std::vector<int64_t> finish_;   // of the longest path that ends with each node
  std::vector<uint32_t> before_;  // the node before on it
  std::vector<uint8_t> state_;
  std::vector<Visit> path_;
  uint32_t last_ = kNone;
  Verdict verdict_;
};

Result<Outline::Verdict> Outline::examine() const {
  if (overflow_) return unusable("it has more than 2^32 nodes or edges");
  const Places places(ids_);
  if (const auto id = places.id_of_two()) {
    return unusable(fmt::format("two nodes have the id {}", *id));
  }
  return Examination(*this, places).run();
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
  CHECK(false, "fault {} of node {}", static_cast<int>(edge.fault), edge.node);
}

}  // namespace tombolo::chakra
