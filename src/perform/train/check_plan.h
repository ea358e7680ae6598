// Which Plans can be computed here; others are refused by name. Does not depend on LibTorch.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "perform/train/cpu_features.h"
#include "spec/plan/plan.h"

namespace tombolo::train {

// Unusable, naming key and value: devices other than "cpu"; precisions other than fp32 and bf16,
// and bf16 where `cpu` has no products of it; recompute = "selective"; tied embeddings on two ranks that no link
// joins. sharded_stage.h checks whether shards fit the model.
Status check_plan(const plan::Plan& plan, int32_t rank, const CpuFeatures& cpu);

}  // namespace tombolo::train
