#include "decide/search/rail_only_search.h"

#include <numeric>

#include "base/check.h"

namespace tombolo::search {
namespace {

// Ascending.
std::vector<int64_t> divisors(int64_t n) {
  std::vector<int64_t> small, large;
  for (int64_t k = 1; k * k <= n; ++k) {
    if (n % k != 0) continue;
    small.push_back(k);
    if (k != n / k) large.push_back(n / k);
  }
  small.insert(small.end(), large.rbegin(), large.rend());
  return small;
}

class RailOnlyChoice {
 public:
  RailOnlyChoice(const cost::RailOnlyModel& model, const cost::RailOnlyMachine& machine,
                 const RailOnlySpace& space)
      : model_(model), machine_(machine), space_(space) {}

  // Degrees: (11) and (18) without v.
  void run() {
    for (const int64_t t :
         divisors(std::gcd(space_.devices, std::gcd(model_.sequence, model_.hidden)))) {
      for (const int64_t p : divisors(std::gcd(space_.devices / t, model_.layers))) {
        const int64_t d = space_.devices / (t * p);
        if (space_.global_batch % d == 0) place(t, p, d);
      }
    }
  }

  RailOnlyOptimum best;
  Bytes memory_min;  // of all that were evaluated

 private:
  // What lies inside a domain: (12) and (14) to (16).
  void place(int64_t t, int64_t p, int64_t d) {
    for (const int64_t t_h : divisors(std::gcd(t, space_.domain))) {
      for (const int64_t p_h : divisors(std::gcd(p, space_.domain / t_h))) {
        const int64_t d_h = space_.domain / (t_h * p_h);
        if (d % d_h != 0) continue;
        cost::RailOnlySplit split;
        split.tensor = {t_h, t / t_h};
        split.pipeline = {p_h, p / p_h};
        split.data = {d_h, d / d_h};
        split.global_batch = space_.global_batch;
        interleave(split);
      }
    }
  }

  // Virtual stages and microbatches: (13) and the rest of (18).
  void interleave(cost::RailOnlySplit& split) {
    const int64_t p = split.pipeline.degree();
    for (const int64_t v : space_.virtual_stages) {
      if (p == 1 ? v != 1 : model_.layers % (p * v) != 0) continue;
      split.virtual_stages = v;
      for (const int64_t b : divisors(split.global_batch / split.data.degree())) {
        split.micro_batch = b;
        price(split);
      }
    }
  }

  void price(const cost::RailOnlySplit& split) {
    const Bytes memory = cost::rail_only_memory(model_, split, space_.state_bytes).total();
    if (++best.evaluated == 1 || memory < memory_min) memory_min = memory;
    if (memory > space_.memory) return;
    const cost::RailOnlyTime parts = cost::rail_only(model_, machine_, split);
    const Seconds time = parts.total();
    if (++best.feasible > 1 && !(time < best.time)) return;
    best.split = split;
    best.parts = parts;
    best.time = time;
    best.memory = memory;
  }

  const cost::RailOnlyModel& model_;
  const cost::RailOnlyMachine& machine_;
  const RailOnlySpace& space_;
};

Status check(const RailOnlySpace& space) {
  for (const auto& [name, number] :
       {std::pair("devices", space.devices), std::pair("domain", space.domain),
        std::pair("global_batch", space.global_batch)}) {
    if (number < 1) {
      return unusable(fmt::format("{} = {}: must be at least 1", name, number),
                      fmt::format("{} = 8", name));
    }
  }
  for (const int64_t v : space.virtual_stages) {
    if (v < 1) return unusable(fmt::format("virtual_stages = {}: must be at least 1", v), "1");
  }
  if (space.devices % space.domain != 0) {
    return unusable(
        fmt::format("{} devices are no whole domains of {}", space.devices, space.domain),
        fmt::format("{} devices, or a domain of {}",
                    (space.devices / space.domain + 1) * space.domain,
                    std::gcd(space.devices, space.domain)));
  }
  return {};
}

}  // namespace

Result<RailOnlyOptimum> fastest_rail_only(const cost::RailOnlyModel& model,
                                          const cost::RailOnlyMachine& machine,
                                          const RailOnlySpace& space) {
  CHECK(model.layers >= 1 && model.hidden >= 1 && model.sequence >= 1,
        "a model of {} layers, {} hidden and {} tokens", model.layers, model.hidden,
        model.sequence);
  TRY(check(space));
  RailOnlyChoice search(model, machine, space);
  search.run();
  if (search.best.evaluated == 0) {
    return infeasible(
        fmt::format("no t x p x d = {} with t dividing {} tokens and {} hidden, p dividing {} "
                    "layers and d dividing a batch of {} fills domains of {}",
                    space.devices, model.sequence, model.hidden, model.layers, space.global_batch,
                    space.domain),
        "a batch or a number of devices with more small factors, or v = 1 among the virtual "
        "stages");
  }
  if (search.best.feasible == 0) {
    return infeasible(
        fmt::format("none of {} splits fits: the smallest needs {}, a device has {}",
                    search.best.evaluated, brief(search.memory_min), brief(space.memory)),
        "more devices, or fewer bytes of state per parameter");
  }
  return search.best;
}

}  // namespace tombolo::search
