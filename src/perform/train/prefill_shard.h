// Layers that answer prompts, on LibTorch: generate::Shard with pretrained weights.
//
// It computes what StageModule computes in training, with attention that reads keys and values of
// earlier passes: float32, any number of tokens up to the model's positions. One layer at a time
// keeps hidden states [rows, hidden] and nothing else between two calls.
//
// Memory: parameters x 4 bytes, counted exactly; while a layer runs, some [rows, ffn] and scores of
// at most 64 MiB (operations.h).
#pragma once

#include <memory>

#include "base/result.h"
#include "perform/generate/shard.h"
#include "perform/weights/weight_folder.h"
#include "spec/model/model.h"

namespace tombolo::train {

// Reads the slice's weights. `context`: the most tokens of prompt and answer, 0 for as many as the
// model has positions; models whose attention reaches back less far need less. Unusable for an empty slice, for what WeightFolder refuses, for shapes
// that we do not compute, and where the BLAS is the slow one.
Result<std::unique_ptr<generate::Shard>> load_shard(const weights::WeightFolder& folder,
                                                    const model::Slice& slice, int64_t context = 0);

}  // namespace tombolo::train
