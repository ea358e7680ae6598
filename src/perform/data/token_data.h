// The samples of a run that trains on files of token ids, and their order.
//
// A sample is a window of sequence + 1 ids: all but the last are inputs, all but the first are
// targets. Window w of a file begins at its id w x sequence, so neighbours share one id; what is
// left at the end of a file, fewer than sequence + 1 ids, is not read. Windows count through the
// files in the order in which they are named. Documents follow each other as they lie in a file.
//
// The last evaluation_fraction of all windows is held out. The others are shown in the order of
// SampleOrder: sample s of iteration i, which both count from the start of the run and through the
// global batch, is position (i - 1) x global_batch + s. So the first and the last
// stage, any number of replicas, and a run that was resumed see the same samples.
//
// If [data] has shares, the pipelines of a share read it in this way as if they were the whole run:
// per iteration n samples, their part of the global batch, and epochs of its own. The
// batch is divided between pipelines in their order. For a pipeline whose samples begin with b, and
// which comes after a samples of its share, sample s has the position (i - 1) x n + a + s - b.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "perform/data/sample_order.h"
#include "perform/data/token_file.h"
#include "spec/plan/plan.h"

namespace tombolo::data {

class TokenData {
 public:
  // At most this many windows are evaluated, spread evenly over those held out (or one microbatch,
  // if that is more).
  static constexpr int64_t kEvaluationWindowsMax = 256;

  // Opens the files of this pipeline, plan.data->tokens or its share; one of them must be there.
  // Unusable, by file, where one cannot be read or all together are too short; and where
  // plan::data_readers is.
  static Result<TokenData> open(const plan::Plan& plan, int32_t pipeline = 0);

  // Each fills `out`, sequence + 1 long. Unusable at an id that the model's vocabulary lacks.
  // Iterations count from 1, samples through the global batch; they belong to one of readers().
  Status training_window(int64_t iteration, int64_t sample, std::span<int64_t> out) const;
  Status evaluation_window(int64_t window, std::span<int64_t> out) const;

  // A multiple of micro_batch; 0 if nothing is held out.
  int64_t evaluation_windows() const { return evaluation_windows_; }
  int64_t training_samples() const { return order_.samples(); }

  // The pipelines that go through these files together, ascending.
  const std::vector<int32_t>& readers() const { return readers_; }
  // In the order in which they are read.
  const std::vector<TokenFile>& files() const { return files_; }
  // Of one of them (TokenFile::content), with what it may have of kDigestBytesMax for all.
  static constexpr int64_t kDigestBytesMax = int64_t{64} << 20;
  Result<FileDigest> content(size_t file) const;

 private:
  TokenData(std::vector<TokenFile> files, std::vector<int64_t> ends, SampleOrder order,
            const plan::Plan& plan, std::vector<int32_t> readers);
  Status read(int64_t window, std::span<int64_t> out) const;

  std::vector<TokenFile> files_;
  std::vector<int64_t> ends_;  // windows of each file and those before it
  SampleOrder order_;
  std::vector<int32_t> readers_;
  int64_t sequence_;
  int64_t global_batch_;
  // Of an iteration's samples those of one reader: where they begin in the batch, how many there are,
  // and how many its share's readers before it have.
  struct Part {
    int64_t first = 0, count = 0, before = 0;
  };
  std::vector<Part> parts_;  // by reader
  int64_t per_iteration_ = 0;
  int64_t vocabulary_;
  int64_t evaluation_windows_ = 0;
  int64_t evaluation_stride_ = 0;
};

}  // namespace tombolo::data
