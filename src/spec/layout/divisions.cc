#include "spec/layout/divisions.h"

#include <numeric>

namespace tombolo::layout {
namespace {

// A degree of [parallelism] that cannot be.
Status refuse(const std::string& file, const char* key, int64_t value, const std::string& why) {
  if (why.empty()) return {};
  return unusable(fmt::format("{}: parallelism.{} = {}: {}", file, key, value, why),
                  fmt::format("another number, or {} = \"auto\" and tombolo plan", key));
}

Status check_batch(const Parallelism& p, const Batch& batch, const std::string& file) {
  CHECK(batch.micro >= 1 && p.data >= 1, "{}: microbatches of {} in {} pipelines", file,
        batch.micro, p.data);
  const int64_t together = batch.micro * p.data;
  if (p.microbatches_by_speed) {
    if (batch.global % batch.micro == 0 && batch.global >= together) return {};
    return unusable(
        fmt::format("{}: training.global_batch = {}: not a multiple of micro_batch = {} "
                    "with one for each of {} pipelines",
                    file, batch.global, batch.micro, p.data),
        fmt::format("{}", std::max(batch.global / batch.micro + 1, p.data) * batch.micro));
  }
  if (!p.microbatches_per_replica.empty() || batch.global % together == 0) return {};
  return unusable(fmt::format("{}: training.global_batch = {}: not a multiple of micro_batch x "
                              "data = {}",
                              file, batch.global, together),
                  fmt::format("{}", (batch.global / together + 1) * together));
}

Status check_chunks(const Parallelism& p, const std::string& file) {
  constexpr int64_t kStagesMax = 100'000;
  if (p.stages() > kStagesMax) {
    return unusable(fmt::format("{}: parallelism.virtual_stages = {}: {} stages in all are more "
                                "than {}",
                                file, p.virtual_stages, p.stages(), kStagesMax),
                    "fewer virtual_stages");
  }
  const ChunkRefusal no = why_not_chunks(p.schedule, p.virtual_stages);
  if (no.why.empty()) return {};
  return unusable(
      fmt::format("{}: parallelism.virtual_stages = {}: {}", file, p.virtual_stages, no.why),
      no.hint);
}

Status check_layers(const Parallelism& p, const model::Model* model, const std::string& file) {
  if (model && model->layers < p.stages() && !ends_stand_alone(p, model->layers)) {
    const std::string each =
        p.virtual_stages == 1 ? "" : fmt::format(" x virtual_stages = {}", p.virtual_stages);
    return unusable(fmt::format("{}: parallelism.pipeline = {}{}: the model has only {} layers",
                                file, p.pipeline, each, model->layers),
                    fmt::format("at most {} stages", model->layers));
  }
  const std::vector<int64_t>& given = p.layers_per_stage;
  if (given.empty()) return {};
  const bool each_is_a_number = std::all_of(
      given.begin(), given.end(), [](int64_t layers) { return layers >= 0 && layers <= 100'000; });
  const int64_t sum =
      each_is_a_number ? std::accumulate(given.begin(), given.end(), int64_t{0}) : -1;
  const bool as_many = std::ssize(given) == p.stages() || std::ssize(given) == p.pipeline;
  if (as_many && sum >= 0 && (!model || sum == model->layers)) return {};
  return unusable(
      fmt::format("{}: parallelism.layers_per_stage: wanted {} numbers that sum to "
                  "the model's layers",
                  file,
                  p.virtual_stages == 1 ? fmt::format("{}", p.pipeline)
                                        : fmt::format("{} or {}", p.pipeline, p.stages())));
}

Status check_experts(const Parallelism& p, const model::Model& m, const std::string& file) {
  if (p.expert == 1) return {};
  if (!m.experts) {
    return unusable(
        fmt::format("{}: parallelism.expert = {}: the model has no experts", file, p.expert),
        "expert = 1");
  }
  const bool of_experts = m.experts->count % p.expert == 0;
  const bool of_ranks = (p.data * p.context) % p.expert == 0;
  if (of_experts && of_ranks) return {};
  return unusable(fmt::format("{}: parallelism.expert = {}: divides neither {} experts nor "
                              "data x context = {} evenly, or only one of them",
                              file, p.expert, m.experts->count, p.data * p.context),
                  "a common divisor of both");
}

// The degrees of tensor parallelism that are in use, each once.
std::vector<int64_t> tensor_degrees(const Parallelism& p) {
  std::vector<int64_t> degrees = p.tensor_per_stage;
  if (degrees.empty()) degrees.push_back(p.tensor);
  std::sort(degrees.begin(), degrees.end());
  degrees.erase(std::unique(degrees.begin(), degrees.end()), degrees.end());
  return degrees;
}

}  // namespace

std::string why_not_tensor(const model::Model& m, int64_t tensor, const Cutting& cutting) {
  const bool whole = cutting.kv_heads_replicated && m.kv_heads > 0 && tensor % m.kv_heads == 0;
  const model::Experts experts = m.experts.value_or(model::Experts{});
  for (const auto& [name, number] :
       {std::pair("heads", m.heads), std::pair("kv_heads", whole ? int64_t{0} : m.kv_heads),
        std::pair("hidden", m.hidden), std::pair("ffn", m.ffn),
        std::pair("experts.ffn", experts.ffn),
        std::pair("experts.shared_ffn", experts.shared_ffn)}) {
    if (number % tensor != 0) return fmt::format("does not divide {} = {}", name, number);
  }
  if (cutting.sequence_parallel && m.sequence % tensor != 0) {
    return fmt::format("does not divide sequence = {}", m.sequence);
  }
  return {};
}

std::string why_not_context(const model::Model& m, int64_t context) {
  if (context == 1 || m.sequence % (2 * context) == 0) return {};
  return fmt::format("twice it does not divide sequence = {}", m.sequence);
}

std::string why_not_data(int64_t global_batch, int64_t data) {
  if (global_batch % data == 0) return {};
  return fmt::format("does not divide global_batch = {}", global_batch);
}

std::string why_not_expert_count(const model::Model& m, int64_t expert) {
  const int64_t experts = m.experts ? m.experts->count : 1;
  if (experts % expert == 0) return {};
  return m.experts ? fmt::format("does not divide {} experts", experts)
                   : "the model has no experts";
}

Status check_divisions(const Parallelism& p, const Batch& batch, const model::Model* model,
                       bool kv_heads_replicated, const std::string& file) {
  TRY(check_chunks(p, file));
  TRY(check_batch(p, batch, file));
  TRY(check_layers(p, model, file));
  if (!model) return {};
  for (const int64_t tensor : tensor_degrees(p)) {
    const char* key = p.tensor_per_stage.empty() ? "tensor" : "tensor_per_stage";
    TRY(refuse(file, key, tensor,
               why_not_tensor(*model, tensor, {p.sequence_parallel, kv_heads_replicated})));
  }
  TRY(refuse(file, "context", p.context, why_not_context(*model, p.context)));
  return check_experts(p, *model, file);
}

}  // namespace tombolo::layout
