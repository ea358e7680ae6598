#include "spec/schedule/policy.h"

namespace tombolo::schedule {

Rules varuna_rules(const PipelineShape& shape, const Times& times, layout::Discipline discipline) {
  Rules rules = cell_rules(shape, times, discipline);
  rules.recompute = RecomputeRule::kJustInTime;
  return rules;
}

}  // namespace tombolo::schedule
