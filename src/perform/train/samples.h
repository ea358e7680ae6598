// What a Plan trains on, whichever it names: bytes of a text, or files of token ids.
//
// A sample is sequence + 1 tokens. Which one it is depends on the Plan, the iteration and its place
// in the global batch only, never on who asks (byte_data.h, perform/data/token_data.h).
#pragma once

#include <cstdint>
#include <span>
#include <variant>

#include "base/result.h"
#include "perform/data/token_data.h"
#include "perform/train/byte_data.h"
#include "spec/plan/plan.h"

namespace tombolo::train {

class Samples {
 public:
  // Unusable where the Plan names neither, or a file cannot be used.
  static Result<Samples> open(const plan::Plan& plan);

  // Fills `out`, sequence + 1 long. Unusable where a file has become shorter, or has an id that the
  // model's vocabulary lacks.
  Status training(int64_t iteration, int64_t sample, std::span<int64_t> out) const;
  Status evaluation(int64_t window, std::span<int64_t> out) const;

  int64_t evaluation_windows() const;  // a multiple of micro_batch

 private:
  using Source = std::variant<ByteData, data::TokenData>;
  explicit Samples(Source source) : source_(std::move(source)) {}
  Source source_;
};

}  // namespace tombolo::train
