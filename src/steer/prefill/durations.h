// How long a prompt's prefill takes, by its length: a table, from a law
// (predict/cost/prefill_time.h) or from measurements.
//
// Prefill of one prompt runs every layer once over all of its tokens. Its time depends on nothing
// but the model, the device and the number of tokens, which is why it fits into a window.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "base/units.h"

namespace tombolo::prefill {

struct PromptTime {
  SimDuration layer;     // one layer; suspension is between layers
  SimDuration ends;      // embedding and head, charged with the last layer
  SimDuration transfer;  // activations from a shard to the next

  // From the first layer to the first token if nothing waits.
  SimDuration total(int64_t layers, int64_t depth) const {
    return layer * layers + ends + transfer * (depth - 1);
  }
  bool operator==(const PromptTime&) const = default;
};

class DurationTable {
 public:
  struct Row {
    int64_t tokens = 0;
    Seconds layer, ends, transfer;
  };

  // Unusable: no row, tokens that do not ascend from at least 1, times that are not positive
  // (transfer and ends may be 0) or fall as prompts grow, or times beyond an hour.
  static Result<DurationTable> make(std::vector<Row> rows);

  // Linear between rows, rounded up to the nanosecond; a prompt shorter than the first row takes as
  // long as that. The law is convex in the tokens, so what is interpolated is never too short.
  // CHECKs that the prompt is no longer than tokens_max(). O(log rows).
  PromptTime at(int64_t tokens) const;
  int64_t tokens_max() const { return rows_.back().tokens; }
  SimDuration layer_min() const { return at(1).layer; }

 private:
  explicit DurationTable(std::vector<Row> rows) : rows_(std::move(rows)) {}

  std::vector<Row> rows_;
};

}  // namespace tombolo::prefill
