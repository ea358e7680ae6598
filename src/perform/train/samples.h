// What a pipeline trains on, whichever its Plan names: bytes of a text, or files of token ids.
//
// A sample is sequence + 1 tokens. Which one it is depends on the Plan, the iteration and its place
// in the global batch only, never on which rank asks (byte_data.h, perform/data/token_data.h).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "perform/data/token_data.h"
#include "perform/kernels/kernels.h"
#include "perform/train/byte_data.h"
#include "spec/plan/plan.h"

namespace tombolo::train {

class Samples {
 public:
  // What this pipeline reads. Unusable where the Plan names neither, or a file cannot be used.
  static Result<Samples> open(const plan::Plan& plan, int32_t pipeline = 0);

  // Fills `out`, sequence + 1 long. Unusable where a file has become shorter, or has an id that the
  // model's vocabulary lacks.
  Status training(int64_t iteration, int64_t sample, std::span<int64_t> out) const;
  Status evaluation(int64_t window, std::span<int64_t> out) const;

  int64_t evaluation_windows() const;  // a multiple of micro_batch
  // Which of the pipelines that evaluate these windows together this one is.
  int64_t reader() const { return reader_; }
  int64_t readers() const { return readers_; }
  // What is read, in order. Unusable where a file has become shorter.
  Result<std::vector<kernels::DataFacts::File>> files() const;

 private:
  using Source = std::variant<ByteData, data::TokenData>;
  Samples(Source source, int64_t reader, int64_t readers)
      : source_(std::move(source)), reader_(reader), readers_(readers) {}
  Source source_;
  int64_t reader_;
  int64_t readers_;
};

}  // namespace tombolo::train
