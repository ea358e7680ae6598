#include "spec/schedule/bidirectional.h"

#include <algorithm>

#include "base/check.h"
#include "spec/schedule/dualpipe_order.h"
#include "spec/schedule/longest_path.h"
#include "spec/schedule/passes.h"

namespace tombolo::schedule {

PipelineShape bidirectional_shape(int32_t positions, int32_t microbatches) {
  CHECK(positions >= 2 && positions % 2 == 0 && microbatches >= 2 && microbatches % 2 == 0,
        "{} positions and {} microbatches for two copies", positions, microbatches);
  return {.stages = 2 * positions,
          .microbatches = microbatches / 2,
          .chunks = 2,
          .mapping = layout::StageMapping::kFold};
}

// The second half of the positions does with the second copy what the first does with the first one.
Schedule bidirectional(const PipelineShape& shape) {
  const int32_t positions = shape.positions();
  std::vector<RankActions> compute;
  std::vector<std::vector<Pair>> pairs;
  for (int32_t position = 0; position < positions; ++position) {
    const int32_t first = position, second = shape.stages - 1 - position;
    const bool near = position < positions / 2;
    detail::DualPipePosition made = detail::dualpipe_position(
        shape, near ? std::array{first, second} : std::array{second, first},
        near ? position : positions - 1 - position, positions / 2);
    compute.push_back(std::move(made.order));
    pairs.push_back(std::move(made.pairs));
  }
  const bool any = std::any_of(pairs.begin(), pairs.end(),
                               [](const auto& of_position) { return !of_position.empty(); });
  if (!any) pairs.clear();
  Schedule schedule{"dualpipe"};
  schedule.ranks =
      replicate(add_communication(compute, shape, RecomputeWhen::kWithGradient, pairs), shape);
  schedule.pairs = replicate(pairs, shape);
  add_update(schedule.ranks, shape);
  const Status sound = validate_copies(schedule, shape);
  CHECK(sound, "dualpipe made a broken schedule: {}", sound.error().text());
  return schedule;
}

trace::Trace evaluate_copies(const Schedule& schedule, const PipelineShape& shape,
                             const Times& times) {
  const Status sound = validate_copies(schedule, shape);
  CHECK(sound, "{}", sound.error().text());
  trace::Trace trace;
  detail::longest_path(schedule, shape, times, &trace);
  trace::normalize(trace);
  return trace;
}

}  // namespace tombolo::schedule
