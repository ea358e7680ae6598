// Attention of a shard that has a part of each sequence (context parallelism).
#pragma once

#include "perform/train/operations.h"
#include "perform/train/shard_collectives.h"

namespace tombolo::train {

// As causal_attention (operations.h), of the shard's own tokens: keys are rotated where they are and gathered
// with the values, and each of its two parts of the sequence looks at the keys up to its end alone. So all
// shards compute 2 x context + 1 of (2 x context)^2 / context squares of scores, half of what is masked is
// left out. shape.sequence is that of the whole sequence; `tables` have the angles of the own tokens and the
// mask of all.
at::Tensor context_attention(const ShardPlace& place, const AttentionShape& shape,
                             const AttentionTables& tables, const at::Tensor& query,
                             const at::Tensor& key, const at::Tensor& value);

}  // namespace tombolo::train
