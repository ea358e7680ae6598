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

Result<Configuration> configuration_of(const layout::Parallelism& p, const plan::Training& training,
                                       const std::string& file) {
  Configuration out;
  static_cast<layout::Degrees&>(out) = p;
  out.micro_batch = training.micro_batch;
  out.global_batch = training.global_batch;
  out.schedule = p.schedule;
  out.recompute = training.recompute;
  out.order = TRY(layout::dimension_order(p, file));
  return out;
}

std::vector<int64_t> layers_at_positions(const layout::Parallelism& p) {
  const std::vector<int64_t>& given = p.layers_per_stage;
  if (std::ssize(given) == p.pipeline || given.empty()) return given;
  std::vector<int64_t> sums(static_cast<size_t>(p.pipeline));
  for (size_t stage = 0; stage < given.size(); ++stage) {
    const int32_t position = p.position_of(static_cast<int32_t>(stage));
    sums[static_cast<size_t>(position)] += given[stage];
  }
  return sums;
}

LawSettings settings_of(const plan::Decisions& decisions) {
  const plan::Training& training = decisions.training;
  return {.stack = training.stack,
          .element_bytes = plan::element_bytes(training.precision),
          .fp8 = training.precision == plan::Precision::kFp8,
          .bf16 = training.precision == plan::Precision::kBf16 ||
                  training.precision == plan::Precision::kFp8,
          .state_bytes = training.optimizer_bytes_per_parameter,
          .prefill = decisions.prefill_memory()};
}

}  // namespace tombolo::cost
