#include "spec/schedule/policy.h"

namespace tombolo::schedule {

Rules atlas_rules(const PipelineShape& shape, const Times& times, layout::Discipline discipline) {
  Rules rules = cell_rules(shape, times, discipline);
  rules.recompute = RecomputeRule::kAfterForwards;
  return rules;
}

}  // namespace tombolo::schedule
