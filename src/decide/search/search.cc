#include "decide/search/search.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "base/check.h"
#include "base/parallel.h"

namespace tombolo::search {
namespace {

using cost::Configuration;

constexpr size_t kWaveMax = 256;  // outer points between two exchanges of thresholds

// Chunks of layers, one per stage and virtual stage, that are equal or nearly so.
bool divides_layers(const SearchSpace& space, int64_t pipeline, int64_t virtual_stages) {
  const int64_t chunks = pipeline * virtual_stages;
  if (chunks > space.layers) return false;
  if (space.layers % chunks == 0) return true;
  if (!space.uneven_stages) return false;
  return virtual_stages == 1 || (space.layers + 2) % chunks == 0;
}

bool stages_fit(const SearchSpace& space, const Configuration& c) {
  if (!divides_layers(space, c.pipeline, c.virtual_stages)) return false;
  return c.virtual_stages == 1 || (c.pipeline > 1 && !c.all_forwards_first());
}

bool batch_fits(const SearchSpace& space, const Configuration& c) {
  if (c.global_batch % (c.micro_batch * c.data) != 0) return false;
  return c.virtual_stages == 1 || !space.whole_rounds || c.microbatches() % c.pipeline == 0;
}

bool state_fits(const SearchSpace& space, const Configuration& c) {
  const int64_t replicas = c.data * c.context;
  if (c.zero > 0 && replicas == 1) return false;
  if (c.zero == 2 && c.pipeline > 1 && !space.zero2_with_pipeline) return false;
  if (c.sequence_parallel && c.tensor == 1) return false;
  if (space.always_sequence_parallel && c.sequence_parallel != (c.tensor > 1)) return false;
  return replicas % c.expert == 0;
}

bool devices_fit(const SearchSpace& space, const Configuration& c) {
  return space.all_devices ? c.devices() == space.devices : c.devices() <= space.devices;
}

// Outer points: configurations of which only these four are set.
std::vector<Configuration> outer_points(const SearchSpace& space) {
  std::vector<Configuration> points;
  Configuration c;
  c.global_batch = space.global_batch;
  c.order = space.order;
  c.schedule = space.schedule;
  for (const int64_t tensor : space.on(Axis::kTensor)) {
    for (const int64_t context : space.on(Axis::kContext)) {
      for (const int64_t pipeline : space.on(Axis::kPipeline)) {
        if (tensor * context * pipeline > space.devices) continue;
        if (!divides_layers(space, pipeline, 1)) continue;
        for (const int64_t data : space.on(Axis::kData)) {
          c.tensor = tensor;
          c.context = context;
          c.pipeline = pipeline;
          c.data = data;
          if (space.global_batch % data == 0 && devices_fit(space, c)) points.push_back(c);
        }
      }
    }
  }
  return points;
}

// The innermost axis is the microbatch: visit(configuration, index of the microbatch) may return
// false to leave out larger ones.
template <typename Visit>
void inside_point(const SearchSpace& space, Configuration c, const Visit& visit) {
  for (const int64_t v : space.on(Axis::kVirtualStages)) {
    c.virtual_stages = v;
    if (!stages_fit(space, c)) continue;
    for (const int64_t expert : space.on(Axis::kExpert)) {
      c.expert = expert;
      for (const int64_t zero : space.on(Axis::kZero)) {
        c.zero = zero;
        for (const int64_t sequence : space.on(Axis::kSequenceParallel)) {
          c.sequence_parallel = sequence != 0;
          if (!state_fits(space, c)) continue;
          for (const int64_t recompute : space.on(Axis::kRecompute)) {
            c.recompute = static_cast<model::Recompute>(recompute);
            bool go_on = true;
            const std::vector<int64_t>& sizes = space.on(Axis::kMicrobatch);
            for (size_t i = 0; i < sizes.size(); ++i) {
              c.micro_batch = sizes[i];
              if (batch_fits(space, c)) go_on = visit(c, i, go_on);
            }
          }
        }
      }
    }
  }
}

auto simplicity(const Configuration& c) {
  return std::tuple(c.context, c.expert, c.virtual_stages, c.zero, static_cast<int>(c.recompute),
                    c.pipeline, c.tensor, c.data, c.micro_batch, c.sequence_parallel);
}

// Indices of families: each axis has as many as values.
class FamilyIndex {
 public:
  explicit FamilyIndex(const SearchSpace& space) : space_(space) {
    size_t next = 0;
    for (size_t axis = 0; axis < kAxes; ++axis) {
      first_[axis] = next;
      next += space.values[axis].size();
    }
    count_ = next;
  }

  size_t count() const { return count_; }
  size_t of(const Configuration& c, size_t axis) const {
    const std::vector<int64_t>& values = space_.values[axis];
    const int64_t value = value_on(c, static_cast<Axis>(axis));
    // Few values: as quick as a binary search.
    size_t i = 0;
    while (values[i] != value) ++i;
    return first_[axis] + i;
  }
  std::vector<Family> families() const {
    std::vector<Family> all;
    for (size_t axis = 0; axis < kAxes; ++axis) {
      for (const int64_t value : space_.values[axis]) {
        Family family;
        family.axis = static_cast<Axis>(axis);
        family.value = value;
        all.push_back(family);
      }
    }
    return all;
  }

 private:
  const SearchSpace& space_;
  std::array<size_t, kAxes> first_{};
  size_t count_ = 0;
};

// What was found so far: of all points of the waves before, or of one point.
struct Findings {
  std::vector<Candidate> top;
  std::vector<Candidate> best;  // of each family; score infinite: none yet
  std::vector<int64_t> feasible;
  SearchCounts counts;

  explicit Findings(size_t families) : best(families), feasible(families, 0) {
    for (Candidate& candidate : best) candidate.score = kInfinity;
  }
};

void offer(std::vector<Candidate>& top, const Candidate& candidate, size_t limit) {
  if (top.size() == limit && !better(candidate, top.back())) return;
  const auto place = std::upper_bound(top.begin(), top.end(), candidate, better);
  top.insert(place, candidate);
  if (top.size() > limit) top.pop_back();
}

void merge(Findings& all, const Findings& one, size_t limit) {
  for (const Candidate& candidate : one.top) offer(all.top, candidate, limit);
  for (size_t i = 0; i < all.best.size(); ++i) {
    if (better(one.best[i], all.best[i])) all.best[i] = one.best[i];
    all.feasible[i] += one.feasible[i];
  }
  all.counts.covered += one.counts.covered;
  all.counts.evaluated += one.counts.evaluated;
  all.counts.feasible += one.counts.feasible;
  all.counts.over_memory += one.counts.over_memory;
  all.counts.pruned_by_memory += one.counts.pruned_by_memory;
  all.counts.pruned_by_bound += one.counts.pruned_by_bound;
}

class Search {
 public:
  Search(const SearchSpace& space, const Pricer& pricer, const SearchOptions& options)
      : space_(space),
        pricer_(pricer),
        options_(options),
        index_(space),
        limit_(static_cast<size_t>(std::max(1, options.top))) {}

  SearchResult run() {
    const std::vector<Configuration> points = promising_first();
    Findings all(index_.count());
    size_t wave = 1;
    for (size_t begin = 0; begin < points.size(); wave = std::min(kWaveMax, 2 * wave)) {
      const size_t end = std::min(points.size(), begin + wave);
      std::vector<Findings> found(end - begin, Findings(index_.count()));
      std::vector<double> left(end - begin, kInfinity);
      const bool may_stop = options_.stop && !all.top.empty();
      parallel_for(end - begin, options_.threads, [&](size_t i) {
        if (may_stop && options_.stop()) {
          left[i] = least_of(points[begin + i]);
        } else {
          examine(points[begin + i], all, found[i]);
        }
      });
      for (const Findings& one : found) merge(all, one, limit_);
      for (const double least : left) left_ = std::min(left_, least);
      begin = end;
      if (options_.progress) {
        options_.progress(static_cast<int64_t>(begin), static_cast<int64_t>(points.size()));
      }
    }
    return finish(all);
  }

 private:
  // So that thresholds are low early. The bound of a microbatch of the least size, with most
  // virtual stages, serves for this order and for nothing else.
  std::vector<Configuration> promising_first() const {
    std::vector<Configuration> points = outer_points(space_);
    std::vector<std::pair<double, size_t>> keys;
    for (size_t i = 0; i < points.size(); ++i) {
      Configuration c = points[i];
      c.micro_batch = space_.on(Axis::kMicrobatch).front();
      keys.emplace_back(score_of(options_, c, pricer_.lower_bound(c)), i);
    }
    std::sort(keys.begin(), keys.end());
    std::vector<Configuration> sorted;
    for (const auto& [key, i] : keys) sorted.push_back(points[i]);
    return sorted;
  }

  // No configuration of a point that fits the rules scores less.
  double least_of(const Configuration& point) const {
    double least = kInfinity;
    std::vector<double> bounds(space_.on(Axis::kMicrobatch).size());
    int64_t bounds_of = 0;
    inside_point(space_, point, [&](const Configuration& c, size_t size, bool) {
      if (bounds_of != c.virtual_stages) {
        bounds_of = c.virtual_stages;
        std::fill(bounds.begin(), bounds.end(), -1);
      }
      if (bounds[size] < 0) {
        bounds[size] = score_of(options_, c, pricer_.lower_bound(c));
        least = std::min(least, bounds[size]);
      }
      return true;
    });
    return least;
  }

  // All configurations of a point. `known` is what earlier waves found, the same for every thread.
  void examine(const Configuration& point, const Findings& known, Findings& found) const {
    std::vector<double> bounds(space_.on(Axis::kMicrobatch).size());
    int64_t bounds_of = 0;  // virtual stages for which they were computed; 0: none yet
    inside_point(space_, point, [&](const Configuration& c, size_t size, bool fits_so_far) {
      ++found.counts.covered;
      if (!options_.prune) return price(c, found), true;
      if (!fits_so_far) {
        ++found.counts.pruned_by_memory;
        return false;
      }
      if (bounds_of != c.virtual_stages) {
        bounds_of = c.virtual_stages;
        std::fill(bounds.begin(), bounds.end(), -1);
      }
      double& bound = bounds[size];
      if (bound < 0) bound = score_of(options_, c, pricer_.lower_bound(c));
      if (bound > threshold(c, known, found)) {
        ++found.counts.pruned_by_bound;
        return true;
      }
      return price(c, found);
    });
  }

  // Above it a configuration can enter neither the top N nor be the best of a family of its own.
  double threshold(const Configuration& c, const Findings& known, const Findings& found) const {
    double worst = kInfinity;
    if (known.top.size() == limit_) worst = known.top.back().score;
    if (found.top.size() == limit_) worst = std::min(worst, found.top.back().score);
    if (!options_.families) return worst;
    for (size_t axis = 0; axis < kAxes; ++axis) {
      const size_t i = index_.of(c, axis);
      worst = std::max(worst, std::min(known.best[i].score, found.best[i].score));
    }
    return worst;
  }

  // Whether it fits.
  bool price(const Configuration& c, Findings& found) const {
    Candidate candidate{.configuration = c, .memory = pricer_.memory(c)};
    const bool fits = candidate.memory <= options_.memory;
    if (!fits && options_.prune) {
      ++found.counts.over_memory;
      return false;
    }
    candidate.time = pricer_.time(c);
    candidate.score = score_of(options_, c, candidate.time);
    ++found.counts.evaluated;
    if (!fits) return false;
    ++found.counts.feasible;
    offer(found.top, candidate, limit_);
    if (!options_.families) return true;
    for (size_t axis = 0; axis < kAxes; ++axis) {
      const size_t i = index_.of(c, axis);
      ++found.feasible[i];
      if (better(candidate, found.best[i])) found.best[i] = candidate;
    }
    return true;
  }

  SearchResult finish(const Findings& all) const {
    SearchResult result;
    result.top = all.top;
    result.counts = all.counts;
    result.left = left_;
    result.stopped = left_ < kInfinity;
    if (result.top.empty()) result.closest = least_memory(space_, pricer_, options_);
    if (!options_.families) return result;
    result.families = index_.families();
    for (size_t i = 0; i < result.families.size(); ++i) {
      Family& family = result.families[i];
      family.feasible = all.feasible[i];
      if (all.best[i].score < kInfinity) family.best = all.best[i];
    }
    if (result.stopped) return result;
    parallel_for(result.families.size(), options_.threads, [&](size_t i) {
      Family& family = result.families[i];
      if (family.best) return;
      family.closest =
          least_memory(restricted(space_, family.axis, family.value), pricer_, options_);
    });
    return result;
  }

  const SearchSpace& space_;
  const Pricer& pricer_;
  const SearchOptions& options_;
  const FamilyIndex index_;
  const size_t limit_;
  double left_ = kInfinity;  // of what was not looked at
};

}  // namespace

int64_t value_on(const Configuration& c, Axis axis) {
  switch (axis) {
    case Axis::kTensor:
      return c.tensor;
    case Axis::kContext:
      return c.context;
    case Axis::kData:
      return c.data;
    case Axis::kPipeline:
      return c.pipeline;
    case Axis::kExpert:
      return c.expert;
    case Axis::kVirtualStages:
      return c.virtual_stages;
    case Axis::kMicrobatch:
      return c.micro_batch;
    case Axis::kRecompute:
      return static_cast<int64_t>(c.recompute);
    case Axis::kZero:
      return c.zero;
    case Axis::kSequenceParallel:
      return c.sequence_parallel ? 1 : 0;
  }
  return 0;
}

bool belongs(const SearchSpace& space, const Configuration& c) {
  for (size_t axis = 0; axis < kAxes; ++axis) {
    const std::vector<int64_t>& values = space.values[axis];
    if (!std::binary_search(values.begin(), values.end(), value_on(c, static_cast<Axis>(axis)))) {
      return false;
    }
  }
  return devices_fit(space, c) && stages_fit(space, c) && batch_fits(space, c) &&
         state_fits(space, c);
}

double score_of(const SearchOptions& options, const Configuration& c, Seconds time) {
  if (options.objective != Objective::kCost) return time.value;
  const double rate = options.price.value > 0 ? options.price.value : 1;
  return rate * static_cast<double>(c.devices()) * time.value;
}

bool better(const Candidate& a, const Candidate& b) {
  if (a.score != b.score) return a.score < b.score;
  const int64_t a_devices = a.configuration.devices(), b_devices = b.configuration.devices();
  if (a_devices != b_devices) return a_devices < b_devices;
  if (a.memory != b.memory) return a.memory < b.memory;
  return simplicity(a.configuration) < simplicity(b.configuration);
}

SearchSpace restricted(SearchSpace space, Axis axis, int64_t value) {
  space.on(axis) = {value};
  return space;
}

std::optional<Candidate> least_memory(const SearchSpace& space, const Pricer& pricer,
                                      const SearchOptions& options) {
  std::optional<Candidate> least;
  for (const Configuration& point : outer_points(space)) {
    inside_point(space, point, [&](const Configuration& c, size_t, bool first) {
      if (!first) return false;  // larger microbatches need more
      Candidate candidate{.configuration = c, .memory = pricer.memory(c)};
      if (!least || candidate.memory < least->memory ||
          (candidate.memory == least->memory && simplicity(c) < simplicity(least->configuration))) {
        least = candidate;
      }
      return false;
    });
  }
  if (least) {
    least->time = pricer.time(least->configuration);
    least->score = score_of(options, least->configuration, least->time);
  }
  return least;
}

void for_each(const SearchSpace& space, const std::function<void(const Configuration&)>& visit) {
  for (const Configuration& point : outer_points(space)) {
    inside_point(space, point, [&](const Configuration& c, size_t, bool) {
      visit(c);
      return true;
    });
  }
}

SearchResult search(const SearchSpace& space, const Pricer& pricer, const SearchOptions& options) {
  CHECK(options.top >= 1 && options.threads >= 1, "top {}, threads {}", options.top,
        options.threads);
  CHECK(space.devices >= 1 && space.domain >= 1 && space.layers >= 1 && space.global_batch >= 1,
        "{} devices in domains of {}, {} layers, a batch of {}", space.devices, space.domain,
        space.layers, space.global_batch);
  for (const Axis axis : {Axis::kTensor, Axis::kContext, Axis::kData, Axis::kPipeline,
                          Axis::kExpert, Axis::kVirtualStages, Axis::kMicrobatch}) {
    CHECK(space.on(axis).empty() || space.on(axis).front() >= 1, "{} = {}", to_name(axis),
          space.on(axis).front());
  }
  for (const std::vector<int64_t>& values : space.values) {
    CHECK(!values.empty() && std::is_sorted(values.begin(), values.end()),
          "an axis has no values, or not in ascending order");
  }
  return Search(space, pricer, options).run();
}

}  // namespace tombolo::search
