#include "predict/engine/fair_share.h"

#include <algorithm>

#include "base/check.h"

namespace tombolo::engine {
namespace {

void check(const Flow& flow, std::span<const Link> links) {
  CHECK(flow.weight > 0 && flow.weight < kUnlimited.value, "weight {}", flow.weight);
  CHECK(flow.cap.value >= 0, "cap of {} B/s", flow.cap.value);
  CHECK(!flow.links.empty() || flow.cap < kUnlimited, "a flow without links needs a cap");
  CHECK(flow.shares.empty() || flow.shares.size() == flow.links.size(), "{} shares of {} links",
        flow.shares.size(), flow.links.size());
  for (const double share : flow.shares) CHECK(share > 0, "a share of {}", share);
  for (const uint32_t link : flow.links) {
    CHECK(link < links.size(), "link {} of {}", link, links.size());
    CHECK(links[link].capacity.value >= 0, "link {} has {} B/s", link, links[link].capacity.value);
  }
}

}  // namespace

FairShareSolver::FairShareSolver(std::span<const Link> links)
    : links_(links), left_(links.size()), growing_(links.size()) {}

std::span<const BytesPerSecond> FairShareSolver::solve(std::span<const Flow* const> flows) {
  rates_.assign(flows.size(), {});
  limits_.resize(flows.size());
  active_.clear();
  for (uint32_t i = 0; i < flows.size(); ++i) {
    check(*flows[i], links_);
    for (const uint32_t link : flows[i]->links) left_[link] = links_[link].capacity.value;
    active_.push_back(i);
  }

  double level = 0;  // rate / weight of every flow that still grows
  while (!active_.empty()) {
    for (const uint32_t i : active_) {
      for (const uint32_t link : flows[i]->links) growing_[link] = 0;
    }
    for (const uint32_t i : active_) {
      const Flow& flow = *flows[i];
      for (size_t l = 0; l < flow.links.size(); ++l) {
        growing_[flow.links[l]] += flow.weight * flow.share_on(l);
      }
    }
    // How far each flow may rise: to its cap, or to where its tightest link is full.
    double next = kUnlimited.value;
    for (const uint32_t i : active_) {
      const Flow& flow = *flows[i];
      double limit = flow.cap.value / flow.weight;
      for (const uint32_t link : flow.links) limit = std::min(limit, left_[link] / growing_[link]);
      limits_[i] = limit;
      next = std::min(next, limit);
    }
    level = std::max(level, next);  // a link may look overfull by a rounding error

    // Flows that cannot rise further stop here.
    rising_.clear();
    for (const uint32_t i : active_) {
      if (limits_[i] > level) {
        rising_.push_back(i);
        continue;
      }
      const Flow& flow = *flows[i];
      const bool capped = flow.cap.value / flow.weight <= level;  // then the cap, to the last bit
      const double rate = capped ? flow.cap.value : level * flow.weight;
      rates_[i] = {rate};
      for (size_t l = 0; l < flow.links.size(); ++l) {
        double& left = left_[flow.links[l]];
        left = std::max(0.0, left - rate * flow.share_on(l));
      }
    }
    std::swap(active_, rising_);
  }
  return rates_;
}

std::vector<BytesPerSecond> fair_shares(std::span<const Flow> flows, std::span<const Link> links) {
  std::vector<const Flow*> pointers;
  for (const Flow& flow : flows) pointers.push_back(&flow);
  FairShareSolver solver(links);
  const std::span<const BytesPerSecond> rates = solver.solve(pointers);
  return {rates.begin(), rates.end()};
}

}  // namespace tombolo::engine
