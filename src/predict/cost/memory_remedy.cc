#include "predict/cost/memory_remedy.h"

#include <fmt/ranges.h>

#include <functional>
#include <optional>
#include <vector>

#include "predict/cost/price_plan.h"
#include "spec/schedule/schedule.h"

namespace tombolo::cost {
namespace {

constexpr int kTriesMax = 1000;  // of few changes at once, and as many of all layouts

int64_t passes_of(const plan::Job& job) {
  return job.parallelism.stages() * job.training.global_batch / job.training.micro_batch;
}

// What may still be tried: jobs, and all that their schedules hold, as a schedule of 100,000 passes
// takes some 30 ms.
class Budget {
 public:
  explicit Budget(int64_t passes) : passes_(passes) {}
  bool spent() const { return spent_; }
  bool allows(const plan::Job& job) {
    passes_ -= passes_of(job);
    spent_ = spent_ || tries_-- == 0 || passes_ < 0;
    return !spent_;
  }

 private:
  int64_t passes_;
  int tries_ = kTriesMax;
  bool spent_ = false;
};

struct Change {
  std::string words;
  std::function<void(plan::Job&)> make;
};
// The values that one key may take instead, the mildest first.
using Key = std::vector<Change>;

bool fits_in_memory(const plan::Job& job) {
  if (!plan::check_divisions(job)) return false;
  const Result<plan::Plan> plan = make_plan(job);
  if (!plan) return false;
  const Result<schedule::Schedule> schedule = schedule::build(*plan);
  return schedule && schedule::check_memory(*plan, *schedule);
}

template <typename Value>
Change change_of(const char* key, Value value, std::function<void(plan::Job&, Value)> set) {
  return {fmt::format("{} = {}", key, value), [=](plan::Job& job) { set(job, value); }};
}

Key more_zero(const plan::Job& job) {
  Key out;
  const layout::Parallelism& p = job.parallelism;
  for (int64_t zero = p.zero + 1; zero <= 3 && p.data * p.context > 1; ++zero) {
    out.push_back(change_of<int64_t>(
        "zero", zero, [](plan::Job& to, int64_t value) { to.parallelism.zero = value; }));
  }
  return out;
}

Key smaller_microbatches(const plan::Job& job) {
  Key out;
  const int64_t now = job.training.micro_batch;
  for (int64_t size = now / 2; size >= 1; size /= 2) {
    if (now % size != 0) continue;
    out.push_back(change_of<int64_t>("micro_batch", size, [](plan::Job& to, int64_t value) {
      to.training.micro_batch = value;
    }));
  }
  return out;
}

Key more_recomputation(const plan::Job& job) {
  if (job.training.recompute == model::Recompute::kFull) return {};
  return {{"recompute = \"full\"",
           [](plan::Job& to) { to.training.recompute = model::Recompute::kFull; }}};
}

Key fewer_in_flight(const plan::Job& job) {
  if (!traits_of(job.parallelism.schedule).has(layout::kAllForwardsFirst)) return {};
  const layout::ScheduleKind kind = layout::default_schedule(job.parallelism.virtual_stages);
  return {{fmt::format("schedule = \"{}\"", to_name(kind)),
           [kind](plan::Job& to) { to.parallelism.schedule = kind; }}};
}

Key more_of(const char* key, int64_t layout::Parallelism::*degree, int64_t now, int64_t most) {
  Key out;
  for (int64_t factor = 2; factor <= most; factor *= 2) {
    out.push_back(change_of<int64_t>(key, now * factor, [degree](plan::Job& to, int64_t value) {
      to.parallelism.*degree = value;
    }));
  }
  return out;
}

Key fewer_replicas(const plan::Job& job) {
  Key out;
  const int64_t now = job.parallelism.data;
  for (int64_t data = now / 2; data >= 1 && now % data == 0; data /= 2) {
    out.push_back(change_of<int64_t>(
        "data", data, [](plan::Job& to, int64_t value) { to.parallelism.data = value; }));
  }
  return out;
}

std::vector<Key> keys_of(const plan::Job& job) {
  const layout::Parallelism& p = job.parallelism;
  return {more_zero(job),
          fewer_in_flight(job),
          smaller_microbatches(job),
          more_recomputation(job),
          more_of("tensor", &layout::Parallelism::tensor, p.tensor, 8),
          more_of("pipeline", &layout::Parallelism::pipeline, p.pipeline, 16),
          fewer_replicas(job)};
}

using Words = std::vector<std::string>;

// The first combination of `count` changes that fits, of keys from `from` on.
std::optional<Words> with_changes(const plan::Job& job, const std::vector<Key>& keys, size_t from,
                                  size_t count, Budget& budget) {
  if (count == 0) {
    if (job.parallelism.devices() > job.cluster.devices()) return std::nullopt;
    if (!budget.allows(job) || !fits_in_memory(job)) return std::nullopt;
    return Words();
  }
  for (size_t k = from; k + count <= keys.size(); ++k) {
    for (const Change& each : keys[k]) {
      if (budget.spent()) return std::nullopt;
      plan::Job next = job;
      each.make(next);
      if (auto rest = with_changes(next, keys, k + 1, count - 1, budget)) {
        rest->insert(rest->begin(), each.words);
        return rest;
      }
    }
  }
  return std::nullopt;
}

// With all that costs time alone, over every layout that the devices have room for.
std::optional<Words> with_everything(plan::Job job, const std::vector<Key>& keys, Budget& budget) {
  Words words;
  std::vector<Key> layouts;
  for (size_t k = 0; k < keys.size(); ++k) {
    const bool costs_time = k >= 1 && k <= 3;
    if (!costs_time || keys[k].empty()) {
      layouts.push_back(costs_time ? Key() : keys[k]);
      continue;
    }
    keys[k].back().make(job);
    words.push_back(keys[k].back().words);
  }
  for (size_t count = 0; count <= layouts.size(); ++count) {
    const auto more = with_changes(job, layouts, 0, count, budget);
    if (!more) continue;
    words.insert(words.end(), more->begin(), more->end());
    return words;
  }
  return std::nullopt;
}

}  // namespace

std::string memory_remedy(const plan::Job& job, int64_t passes_max) {
  if (!job.model || job.stage_times) return "";
  const std::vector<Key> keys = keys_of(job);
  Budget budget(passes_max / 2);
  const std::optional<Words> most = with_everything(job, keys, budget);
  if (!most) {
    if (job.prefill || budget.spent()) return "";
    return "more devices, larger ones or a smaller model: this one fits with no zero, micro_batch, "
           "recompute, tensor, pipeline and data that the cluster has devices for";
  }
  Budget of_few(passes_max / 2);
  for (size_t count = 1; count < most->size(); ++count) {
    if (const auto few = with_changes(job, keys, 0, count, of_few)) {
      return fmt::format("{}", fmt::join(*few, " and "));
    }
  }
  return fmt::format("{}", fmt::join(*most, " and "));
}

}  // namespace tombolo::cost
