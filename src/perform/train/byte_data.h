// Byte tokens from a text file: training windows drawn at random, evaluation windows in a row.
//
// A window is sequence + 1 bytes: all but the last are inputs, all but the first are targets. Which
// window a sample is depends on (seed, iteration, sample) only, so the first stage, which needs the
// inputs, and the last, which needs the targets, draw the same without talking to each other, and
// so does any other split of the model.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/file_digest.h"
#include "base/hash.h"
#include "base/result.h"
#include "spec/plan/plan.h"

namespace tombolo::train {

class ByteData {
 public:
  // At most this many windows are evaluated, spread evenly over the held-out text: 65,536 tokens
  // at sequence 256, which cost as much as the forward passes of 16 steps of 4,096 tokens.
  static constexpr int64_t kEvaluationWindowsMax = 256;

  // Reads plan.data->text. Unusable where the Plan names no text, the text cannot be read or is too
  // short for one window, or the vocabulary cannot hold 256 bytes.
  static Result<ByteData> open(const plan::Plan& plan);
  static Result<ByteData> make(std::string text, const std::string& file, const plan::Plan& plan);

  // Valid as long as this object. `sample` counts through the global batch from 0.
  std::span<const uint8_t> training_window(int64_t iteration, int64_t sample) const;
  std::span<const uint8_t> evaluation_window(int64_t window) const;

  // A multiple of micro_batch, so that every evaluation batch is full; 0 if nothing is held out.
  int64_t evaluation_windows() const { return evaluation_windows_; }
  int64_t training_bytes() const { return training_bytes_; }
  const std::string& file() const { return file_; }
  FileDigest content() const {
    return {static_cast<int64_t>(text_.size()), tombolo::digest(text_)};
  }

 private:
  std::string file_;
  std::string text_;
  int64_t sequence_ = 0;
  uint64_t seed_ = 0;
  int64_t training_bytes_ = 0;
  int64_t evaluation_windows_ = 0;
  int64_t evaluation_stride_ = 0;
};

}  // namespace tombolo::train
