// Two copies of the model in one pipeline, whose microbatches meet: the baseline that folding
// saves (figure 6b of DHelix), in the order of DualPipe.
//
// Position r holds stage r of one copy and stage P - 1 - r of the other, so that forwards of either
// copy run concurrently with backwards of the other. No Plan can express it: there a stage lies at
// one position of each pipeline. It is therefore a Schedule of the folded shape, which has as many
// boundaries that cross as both copies together: its stages 0 to P - 1 are those of the first copy,
// P + s is stage s of the second, and between P - 1 and P nothing is handed over. `microbatches` of
// that shape are those of each copy, half of all. The functions below take the place of build(),
// validate() and evaluate(). One iteration takes
//
//   T = M (f + B) - (M - P)(f + B - F&B) + (P/2 - 1)(F&B + B - 3 w + max(0, f - i) + max(0, w - i))
//
// of M microbatches in all, f, i, w and F&B of a whole stage, B = i + w, transfers and the
// all-reduce of both copies' gradients free. A rank holds at most P + 1 microbatches of a stage (P
// and a layer with pairs), twice the parameters and gradients, and sends what 1F1B sends.
// docs/laws/dualpipe.md.
// Source: DeepSeek-AI, "DualPipe", github.com/deepseek-ai/DualPipe (dualpipe.py), 2025.
#pragma once

#include "spec/schedule/schedule.h"

namespace tombolo::schedule {

// `microbatches` of both copies together. Positions and microbatches are even (CHECKed).
PipelineShape bidirectional_shape(int32_t positions, int32_t microbatches);

// With pairs where the shape has them. Fewer microbatches than P of each copy are ordered as P, the
// missing ones left out. The updates at the end are of each copy; what sums their gradients before
// is not part of it.
Schedule bidirectional(const PipelineShape& shape);

// validate() for it: the same, except that the copies hand nothing to one another.
Status validate_copies(const Schedule& schedule, const PipelineShape& shape);

// evaluate() of it.
trace::Trace evaluate_copies(const Schedule& schedule, const PipelineShape& shape,
                             const Times& times);

}  // namespace tombolo::schedule
