#include "predict/cost/law.h"

#include <vector>

#include "base/check.h"

namespace tombolo::cost {

Result<Law> find_law(std::string_view name) {
  if (name.empty()) return Law::kTombolo;
  if (const auto law = from_name<Law>(name)) return *law;
  std::vector<std::string_view> known;
  for (const auto& [law, known_name] : enum_names(Law{})) known.push_back(known_name);
  return unusable(fmt::format("--law {}: there is no such law", name),
                  fmt::format("--law {}", fmt::join(known, ", --law ")));
}

Result<Configuration> configuration_of(const plan::Job& job) {
  return configuration_of(job.parallelism, job.training, job.file);
}

Result<Configuration> configuration_of(const plan::Parallelism& p, const plan::Training& training,
                                       const std::string& file) {
  Result<Order> order = parse_order(p.order);
  if (!order) {
    return unusable(
        fmt::format("{}: parallelism.order = \"{}\": {}", file, p.order, order.error().message),
        order.error().hint);
  }
  return Configuration{.tensor = p.tensor,
                       .context = p.context,
                       .data = p.data,
                       .pipeline = p.pipeline,
                       .expert = p.expert,
                       .virtual_stages = p.virtual_stages,
                       .micro_batch = training.micro_batch,
                       .global_batch = training.global_batch,
                       .zero = p.zero,
                       .sequence_parallel = p.sequence_parallel,
                       .gpipe = p.schedule == "gpipe",
                       .recompute = training.recompute,
                       .order = *order};
}

std::vector<int64_t> layers_at_positions(const plan::Parallelism& p) {
  const std::vector<int64_t>& given = p.layers_per_stage;
  if (std::ssize(given) == p.pipeline || given.empty()) return given;
  std::vector<int64_t> sums(static_cast<size_t>(p.pipeline));
  for (size_t stage = 0; stage < given.size(); ++stage) {
    const int32_t position = plan::position_of(
        plan::layout_of(p.schedule), static_cast<int32_t>(stage), static_cast<int32_t>(p.pipeline));
    sums[static_cast<size_t>(position)] += given[stage];
  }
  return sums;
}

LawSettings settings_of(const plan::Training& training) {
  return {.stack = training.stack,
          .element_bytes = plan::element_bytes(training.precision),
          .fp8 = training.precision == plan::Precision::kFp8,
          .bf16 = training.precision == plan::Precision::kBf16 ||
                  training.precision == plan::Precision::kFp8,
          .state_bytes = training.optimizer_bytes_per_parameter};
}

Status check_divisions(const plan::Job& job) {
  const plan::Parallelism& p = job.parallelism;
  const plan::Training& t = job.training;
  CHECK(job.model, "{}: a job without a model", job.file);
  CHECK(t.micro_batch >= 1 && p.data >= 1, "{}: micro-batches of {} in {} pipelines", job.file,
        t.micro_batch, p.data);
  const int64_t together = t.micro_batch * p.data;
  if (t.global_batch % together != 0) {
    return unusable(fmt::format("{}: training.global_batch = {}: not a multiple of micro_batch x "
                                "data = {}",
                                job.file, t.global_batch, together),
                    fmt::format("{}", (t.global_batch / together + 1) * together));
  }
  if (job.model->layers < p.pipeline * p.virtual_stages &&
      !plan::ends_stand_alone(p, job.model->layers)) {
    return unusable(fmt::format("{}: parallelism: {} stages x {} virtual stages, but the model has "
                                "only {} layers",
                                job.file, p.pipeline, p.virtual_stages, job.model->layers),
                    fmt::format("pipeline x virtual_stages of at most {}", job.model->layers));
  }
  if (!p.layers_per_stage.empty()) {
    int64_t sum = 0;
    for (const int64_t layers : p.layers_per_stage) sum += layers;
    const auto numbers = std::ssize(p.layers_per_stage);
    if ((numbers != p.pipeline && numbers != p.pipeline * p.virtual_stages) ||
        sum != job.model->layers) {
      return unusable(
          fmt::format("{}: parallelism.layers_per_stage: {} numbers that add up to {}; "
                      "the pipeline has {} stages and the model {} layers",
                      job.file, p.layers_per_stage.size(), sum, p.pipeline, job.model->layers),
          "one number per stage");
    }
  }
  return check_experts(job);
}

Status check_experts(const plan::Job& job) {
  const plan::Parallelism& p = job.parallelism;
  if (p.expert > 1) {
    if (!job.model->experts) {
      return unusable(
          fmt::format("{}: parallelism.expert = {}: the model has no experts", job.file, p.expert),
          "expert = 1");
    }
    if (job.model->experts->count % p.expert != 0 || (p.data * p.context) % p.expert != 0) {
      return unusable(
          fmt::format("{}: parallelism.expert = {}: divides neither {} experts nor "
                      "data x context = {} evenly, or only one of them",
                      job.file, p.expert, job.model->experts->count, p.data * p.context),
          "a common divisor of both");
    }
  }
  return {};
}

}  // namespace tombolo::cost
