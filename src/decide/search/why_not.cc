#include "decide/search/why_not.h"

#include <algorithm>

#include "base/check.h"

namespace tombolo::search {
namespace {

class Explainer {
 public:
  Explainer(const Pricer& pricer, const SearchOptions& options, const Preferred& preferred)
      : pricer_(pricer),
        options_(options),
        preferred_(preferred),
        best_(preferred.best),
        best_parts_(pricer.parts(best_.configuration)) {}

  WhyNot explain(Axis axis, int64_t value, const std::optional<Candidate>& family_best,
                 const Candidate& nearest) const {
    WhyNot why;
    why.axis = axis;
    why.value = value;
    why.nearest = nearest;
    if (!family_best) {
      why.obstacle = Obstacle::kMemory;
      why.text = fmt::format("needs {} of {}", brief(nearest.memory), brief(options_.memory));
      return why;
    }
    const bool cost = options_.objective == Objective::kCost;
    const Candidate* played = simulated(nearest);
    const Candidate* best_played = played ? simulated(best_) : nullptr;
    if (best_played) why.nearest = *played;
    const Candidate& best = best_played ? *best_played : best_;
    if (why.nearest.score == best.score) {
      why.obstacle = Obstacle::kEqual;
      why.text = "as good: " + score_text(best);
      return why;
    }
    why.obstacle = cost ? Obstacle::kCostlier : Obstacle::kSlower;
    find_part(why);
    why.text = fmt::format("{} against {}", score_text(why.nearest), score_text(best));
    if (!best_played && !preferred_.simulated.empty()) why.text += " by the closed form";
    if (why.more > 0) why.text += fmt::format(", +{} {}", amount_text(why.more), why.part);
    return why;
  }

 private:
  const Candidate* simulated(const Candidate& candidate) const {
    for (const Candidate& each : preferred_.simulated) {
      if (each.configuration == candidate.configuration) return &each;
    }
    return nullptr;
  }

  // A score, or a part of one.
  std::string amount_text(double amount) const {
    if (options_.objective != Objective::kCost) return brief(Seconds{amount});
    if (options_.price.value > 0) return brief(Dollars{amount});
    return fmt::format("{:.4g} device-seconds", amount);
  }

  std::string score_text(const Candidate& candidate) const {
    if (options_.objective != Objective::kCost) return amount_text(candidate.score);
    return fmt::format("{} ({} on {})", amount_text(candidate.score), brief(candidate.time),
                       candidate.configuration.devices());
  }

  void find_part(WhyNot& why) const {
    const auto parts = pricer_.parts(why.nearest.configuration);
    CHECK(parts.size() == best_parts_.size(), "an iteration has {} parts, and the best one {}",
          parts.size(), best_parts_.size());
    for (size_t i = 0; i < parts.size(); ++i) {
      const double more = score_of(options_, why.nearest.configuration, parts[i].second) -
                          score_of(options_, best_.configuration, best_parts_[i].second);
      if (more <= why.more) continue;
      why.more = more;
      why.part = parts[i].first;
    }
  }

  const Pricer& pricer_;
  const SearchOptions& options_;
  const Preferred& preferred_;
  const Candidate& best_;
  const std::vector<std::pair<std::string, Seconds>> best_parts_;
};

}  // namespace

std::string family_text(Axis axis, int64_t value) {
  if (axis == Axis::kRecompute) {
    return fmt::format("recompute = {}", to_name(static_cast<model::Recompute>(value)));
  }
  if (axis == Axis::kSequenceParallel) {
    return fmt::format("sequence_parallel = {}", value != 0);
  }
  return fmt::format("{} = {}", to_name(axis), value);
}

std::vector<WhyNot> why_not(const SearchSpace& space, const Pricer& pricer,
                            const SearchOptions& options, const std::vector<Family>& families,
                            const Preferred& preferred, std::optional<int64_t> beyond) {
  const Candidate& best = preferred.best;
  const Explainer explainer(pricer, options, preferred);
  std::vector<WhyNot> all;
  const auto examine_beyond = [&] {
    SearchOptions one = options;
    one.top = 1;
    one.families = false;
    one.progress = nullptr;
    one.stop = nullptr;
    const SearchResult found = search(restricted(space, Axis::kTensor, *beyond), pricer, one);
    if (found.top.empty() && !found.closest) return;
    const std::optional<Candidate> fits =
        found.top.empty() ? std::nullopt : std::optional(found.top.front());
    WhyNot why = explainer.explain(Axis::kTensor, *beyond, fits, fits ? *fits : *found.closest);
    why.beyond_domain = true;
    why.text = fmt::format("leaves the scale-up domain of {}: {}", space.domain, why.text);
    all.push_back(std::move(why));
  };
  for (const Family& family : families) {
    if (value_on(best.configuration, family.axis) == family.value) continue;
    if (!family.best && !family.closest) continue;
    all.push_back(explainer.explain(family.axis, family.value, family.best,
                                    family.best ? *family.best : *family.closest));
  }
  if (beyond) examine_beyond();
  std::stable_sort(all.begin(), all.end(),
                   [](const WhyNot& a, const WhyNot& b) { return a.axis < b.axis; });
  return all;
}

std::vector<WhyNot> short_list(const std::vector<WhyNot>& all) {
  CHECK(std::is_sorted(all.begin(), all.end(),
                       [](const WhyNot& a, const WhyNot& b) { return a.axis < b.axis; }),
        "{} reasons do not stand axis by axis", all.size());
  std::vector<WhyNot> chosen;
  for (size_t begin = 0; begin < all.size();) {
    size_t end = begin;
    while (end < all.size() && all[end].axis == all[begin].axis) ++end;
    const auto harder = [](const WhyNot& a, const WhyNot& b) {
      const bool a_fits = a.obstacle != Obstacle::kMemory, b_fits = b.obstacle != Obstacle::kMemory;
      if (a_fits != b_fits) return a_fits;
      if (a_fits) return better(a.nearest, b.nearest);
      return a.nearest.memory < b.nearest.memory;
    };
    const auto closest = std::min_element(all.begin() + static_cast<std::ptrdiff_t>(begin),
                                          all.begin() + static_cast<std::ptrdiff_t>(end), harder);
    for (size_t i = begin; i < end; ++i) {
      const bool plain = i == begin && all[i].value <= 1;
      if (plain || &all[i] == &*closest || all[i].beyond_domain) chosen.push_back(all[i]);
    }
    begin = end;
  }
  return chosen;
}

}  // namespace tombolo::search
