// The weights of a checkpoint as a folder that Hugging Face's transformers reads: config.json and
// model.safetensors, or several files and their index.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "perform/weights/family.h"
#include "perform/weights/number_type.h"

namespace tombolo::weights {

struct ExportOptions {
  std::string checkpoint;  // folder of checkpoints, of which the newest is taken, or of one
  std::string out;         // folder; is created
  // Left out: `like`'s, or the first that the model is one of (family_of).
  std::optional<Family> family;
  // Folder whose config.json is taken over, with all that it says of tokens and lengths; empty: one
  // is made up from the model.
  std::string like;
  NumberType type = NumberType::kF32;
  int64_t file_bytes = 5'000'000'000;  // of weights in a file, but for tensors that are larger
};

struct ExportSummary {
  int64_t step = 0;
  Family family = Family::kLlama;
  std::vector<std::string> files;  // paths, config.json last
  int64_t tensors = 0;
  int64_t parameters = 0;
  int64_t bytes = 0;  // of weights
};

// Unusable where there is no checkpoint or it is damaged, where the model is of no family that can
// be written, where `like` is another model, and where `out` has weights already. Memory: one
// tensor of theirs, twice.
Result<ExportSummary> export_weights(const ExportOptions& options);

}  // namespace tombolo::weights
