#include "decide/search/space.h"

#include <algorithm>

#include "base/check.h"
#include "predict/cost/device_memory.h"
#include "predict/cost/law.h"

namespace tombolo::search {
namespace {

std::vector<int64_t> divisors(int64_t n, int64_t max) {
  std::vector<int64_t> small, large;
  for (int64_t k = 1; k * k <= n; ++k) {
    if (n % k != 0) continue;
    if (k <= max) small.push_back(k);
    if (k != n / k && n / k <= max) large.push_back(n / k);
  }
  small.insert(small.end(), large.rbegin(), large.rend());
  return small;
}

class SpaceMaker {
 public:
  SpaceMaker(const plan::OpenJob& open, cost::Law law, const SpaceLimits& limits)
      : job_(open.job),
        fixed_(open.fixed),
        rail_only_(law == cost::Law::kRailOnly),
        limits_(limits),
        m_(*open.job.model),
        datacenter_(open.job.cluster.datacenters[0]) {}

  Result<SearchSpace> make() {
    space_.devices = datacenter_.devices();
    space_.domain = datacenter_.scale_up.domain;
    space_.layers = m_.layers;
    space_.global_batch = job_.training.global_batch;
    const cost::Configuration given = TRY(cost::configuration_of(job_));
    space_.order = given.order;
    if (given.all_forwards_first()) space_.schedule = given.schedule;
    space_.all_devices = limits_.all_devices;
    space_.uneven_stages = !rail_only_;
    space_.whole_rounds = !rail_only_;
    space_.zero2_with_pipeline = fixed_.zero == 2;
    space_.always_sequence_parallel = rail_only_ && !fixed_.sequence_parallel;
    TRY(refuse_what_rail_only_does_not_know());
    TRY(plan::check_pipelines_are_free(job_));
    TRY(refuse_other_layers());
    TRY(degrees());
    knobs();
    return space_;
  }

 private:
  Status refuse_what_rail_only_does_not_know() const {
    if (!rail_only_) return {};
    for (const auto& [name, value, known] : {std::tuple("context", fixed_.context, int64_t{1}),
                                             std::tuple("expert", fixed_.expert, int64_t{1}),
                                             std::tuple("zero", fixed_.zero, int64_t{2})}) {
      if (value.value_or(0) <= known) continue;
      return unusable(fmt::format("{}: parallelism.{} = {}: the law rail-only does not know it",
                                  job_.file, name, *value),
                      fmt::format("{} = {}, or --law tombolo", name, known));
    }
    return {};
  }

  // Those that a search found itself, and wrote down, are as even as they can be.
  Status refuse_other_layers() const {
    const std::vector<int64_t>& given = job_.parallelism.layers_per_stage;
    for (size_t stage = 0; stage < given.size(); ++stage) {
      const auto stages = static_cast<int64_t>(given.size());
      const model::Slice even = model::stage_slice(m_, stages, static_cast<int64_t>(stage));
      if (given[stage] == even.layers) continue;
      return unusable(
          fmt::format("{}: parallelism.layers_per_stage = [{}]: a search spreads layers "
                      "as evenly as it can",
                      job_.file, fmt::join(given, ", ")),
          "tombolo simulate, which takes stages as they are, or without this key");
    }
    return {};
  }

  Status degrees() {
    TRY(set(
        Axis::kTensor, fixed_.tensor,
        [&] {
          return divisors(m_.heads, limits_.tensor_max > 0 ? limits_.tensor_max : space_.domain);
        },
        [&](int64_t t) -> std::string {
          // With or without sequence parallelism: both are tried.
          return layout::why_not_tensor(
              m_, t,
              {.sequence_parallel = true,
               .kv_heads_replicated = plan::find_stack(job_.training.stack)->replicates_kv_heads});
        }));
    TRY(set(
        Axis::kContext, fixed_.context,
        [&] {
          if (rail_only_) return std::vector<int64_t>{1};
          return divisors(m_.sequence,
                          std::max<int64_t>(1, m_.sequence / limits_.context_tokens_min));
        },
        [&](int64_t c) -> std::string { return layout::why_not_context(m_, c); }));
    TRY(set(
        Axis::kPipeline, fixed_.pipeline, [&] { return pipelines(); },
        [&](int64_t p) -> std::string {
          if (p > m_.layers) return fmt::format("the model has {} layers", m_.layers);
          if (space_.uneven_stages || m_.layers % p == 0) return {};
          return fmt::format(
              "does not divide {} layers, and the law rail-only knows equal "
              "stages only",
              m_.layers);
        }));
    TRY(set(
        Axis::kData, fixed_.data, [&] { return divisors(space_.global_batch, space_.devices); },
        [&](int64_t d) -> std::string { return layout::why_not_data(space_.global_batch, d); }));
    const int64_t experts = m_.experts && !rail_only_ ? m_.experts->count : 1;
    return set(
        Axis::kExpert, fixed_.expert, [&] { return divisors(experts, experts); },
        [&](int64_t e) -> std::string { return layout::why_not_expert_count(m_, e); });
  }

  std::vector<int64_t> pipelines() const {
    std::vector<int64_t> values;
    for (int64_t p = 1; p <= std::min(m_.layers, space_.devices); ++p) {
      const bool even = m_.layers % p == 0;
      const bool uneven =
          space_.uneven_stages && ((m_.layers + 2) % p == 0 || space_.devices % p == 0);
      if (even || uneven) values.push_back(p);
    }
    return values;
  }

  // Values by `all`, or the fixed one, of those that `wrong` has nothing to say against.
  template <typename All, typename Wrong>
  Status set(Axis axis, const std::optional<int64_t>& fixed, const All& all, const Wrong& wrong) {
    std::vector<int64_t>& values = space_.on(axis);
    if (fixed) {
      const std::string why = wrong(*fixed);
      if (!why.empty()) {
        return unusable(
            fmt::format("{}: parallelism.{} = {}: {}", job_.file, to_name(axis), *fixed, why),
            fmt::format("another number, or {} = \"auto\"", to_name(axis)));
      }
      values = {*fixed};
      return {};
    }
    for (const int64_t value : all()) {
      if (wrong(value).empty()) values.push_back(value);
    }
    return {};
  }

  void knobs() {
    const auto choose = [&](Axis axis, std::optional<int64_t> fixed, std::vector<int64_t> all) {
      space_.on(axis) = fixed ? std::vector<int64_t>{*fixed} : std::move(all);
    };
    choose(Axis::kVirtualStages, fixed_.virtual_stages, virtual_stages());
    choose(Axis::kMicrobatch, fixed_.micro_batch,
           divisors(space_.global_batch, limits_.microbatch_max));
    choose(Axis::kZero, fixed_.zero,
           rail_only_ ? std::vector<int64_t>{0} : std::vector<int64_t>{0, 1, 2, 3});
    choose(Axis::kSequenceParallel, fixed_.sequence_parallel, {0, 1});
    // The law rail-only counts the operations of selective recomputation.
    choose(Axis::kRecompute,
           fixed_.recompute ? std::optional(static_cast<int64_t>(*fixed_.recompute)) : std::nullopt,
           rail_only_ ? std::vector<int64_t>{1} : std::vector<int64_t>{0, 1, 2});
  }

  std::vector<int64_t> virtual_stages() const {
    if (traits_of(space_.schedule).has(layout::kAllForwardsFirst)) return {1};
    std::vector<int64_t> values;
    for (int64_t v = 1; v <= limits_.virtual_stages_max; ++v) {
      if (m_.layers % v == 0 || (space_.uneven_stages && (m_.layers + 2) % v == 0)) {
        values.push_back(v);
      }
    }
    return values;
  }

  const plan::Job& job_;
  const plan::Choices& fixed_;
  const bool rail_only_;
  const SpaceLimits& limits_;
  const model::Model& m_;
  const cluster::Datacenter& datacenter_;
  SearchSpace space_;
};

}  // namespace

std::string limits_text(const SpaceLimits& limits, int64_t domain) {
  return fmt::format(
      "tensor up to {}, at least {} tokens per context rank, up to {} virtual stages, "
      "microbatches "
      "up to {}{}",
      limits.tensor_max > 0 ? limits.tensor_max : domain, limits.context_tokens_min,
      limits.virtual_stages_max, limits.microbatch_max, limits.all_devices ? ", all devices" : "");
}

Result<SearchSpace> make_space(const plan::OpenJob& open, cost::Law law,
                               const SpaceLimits& limits) {
  CHECK(limits.tensor_max >= 0 && limits.context_tokens_min >= 1 &&
            limits.virtual_stages_max >= 1 && limits.microbatch_max >= 1,
        "limits that leave nothing: {}", limits_text(limits, 1));
  const plan::Job& job = open.job;
  if (!job.model) {
    return unusable(fmt::format("{}: model is missing", job.file),
                    "[model] with preset = \"gpt3-175b\" or config = \"config.json\"");
  }
  if (job.stage_times) {
    return unusable(fmt::format("{}: stage_times: a search prices stages by a law", job.file),
                    "no [stage_times], or tombolo simulate for this one pipeline");
  }
  if (job.cluster.datacenters.size() != 1) {
    return unusable(fmt::format("{}: cluster: {} datacenters; this search lays a job over one",
                                job.file, job.cluster.datacenters.size()),
                    "one [[cluster.datacenter]]");
  }
  return SpaceMaker(open, law, limits).make();
}

plan::Job with_configuration(plan::Job job, const cost::Configuration& c) {
  CHECK(job.model && c.pipeline >= 1 && c.pipeline <= job.model->layers, "{} stages of {}",
        c.pipeline, job.model ? fmt::format("{} layers", job.model->layers) : "no model");
  layout::Parallelism& p = job.parallelism;
  p.tensor = c.tensor;
  p.context = c.context;
  p.data = c.data;
  p.pipeline = c.pipeline;
  p.expert = c.expert;
  p.virtual_stages = c.virtual_stages;
  p.zero = c.zero;
  p.sequence_parallel = c.sequence_parallel;
  p.schedule = c.all_forwards_first() ? c.schedule : layout::default_schedule(c.virtual_stages);
  p.layers_per_stage.clear();
  // With virtual stages a number per stage would not say which chunk is the shorter one.
  if (job.model->layers % c.pipeline != 0 && c.virtual_stages == 1) {
    for (int64_t stage = 0; stage < c.pipeline; ++stage) {
      p.layers_per_stage.push_back(model::stage_slice(*job.model, c.pipeline, stage).layers);
    }
  }
  job.training.micro_batch = c.micro_batch;
  job.training.recompute = c.recompute;
  return job;
}

}  // namespace tombolo::search
