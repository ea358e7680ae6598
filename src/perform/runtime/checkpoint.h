// Checkpoints: what a run needs to go on bit-exactly after it was interrupted.
//
//   checkpoints/step-00000010/rank-0.safetensors      written by each rank, whole or not at all
//   checkpoints/step-00000010/rank-1.safetensors
//   checkpoints/step-00000010/manifest.json           written last: it makes the checkpoint exist
//
// The manifest vouches for size and digest of every shard, so a damaged file is found and named
// before anything is loaded. Tensors have global names; a checkpoint can therefore be loaded by
// another split of the layers over stages.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/fields.h"
#include "base/result.h"
#include "perform/runtime/kernels.h"
#include "spec/plan/plan.h"

namespace tombolo::runtime {

inline constexpr int kManifestVersion = 1;

// One rank's file, as the rank reports it and the manifest lists it.
struct Shard {
  std::string file;  // within the step's folder
  int64_t bytes = 0;
  std::string digest;
  std::vector<std::string> tensors;

  bool operator==(const Shard&) const = default;
};

struct Manifest {
  int64_t step = 0;  // iterations done
  uint64_t seed = 0;
  std::string plan_digest;
  std::string precision;
  model::Model model;  // whose weights these are
  std::vector<Shard> shards;

  bool operator==(const Manifest&) const = default;
};

// A manifest and the folder it was found in.
struct FoundCheckpoint {
  std::string folder;
  Manifest manifest;
};

std::string step_folder(const std::string& directory, int64_t step);

// Creates the step's folder and writes this rank's shard into it.
Result<Shard> write_shard(const std::string& directory, int64_t step, int32_t rank,
                          std::span<const NamedTensor> tensors);

// Makes the checkpoint exist; then, and only then, removes all but the newest `keep`. Fails where
// two shards hold a tensor of the same name.
Status commit_checkpoint(const std::string& directory, const Manifest& manifest, int64_t keep = 2);

// Removes the folders of steps from `first` on that have no manifest: what an interrupted run left
// there, whether or not it came to say so.
void discard_unfinished(const std::string& directory, int64_t first);

// The checkpoint with the largest step; nothing where there is none. Folders without a manifest do
// not count, nor do steps from `below` on. A manifest that cannot be read is an error: guessing an
// older one would lose work.
Result<std::optional<FoundCheckpoint>> latest_checkpoint(const std::string& directory,
                                                         int64_t below = INT64_MAX);

// Reads every shard, checks size and digest, and returns all tensors. Cost: the whole checkpoint
// passes through memory once.
Result<std::vector<NamedTensor>> load_checkpoint(const FoundCheckpoint& checkpoint);

// Every shard is there and undamaged.
Status verify_checkpoint(const FoundCheckpoint& checkpoint);

// Unusable, naming what differs, where the checkpoint is of another model, precision or seed. The
// split over stages, the schedule and the number of steps may differ.
Status check_fits(const FoundCheckpoint& checkpoint, const plan::Plan& plan);

template <class Archive>
void describe(Archive& a, Shard& shard) {
  a.required("file", shard.file);
  a.required("bytes", shard.bytes);
  a.required("digest", shard.digest);
  a.optional("tensors", shard.tensors);
  a.check(!shard.file.empty() && shard.file.find('/') == std::string::npos && shard.file[0] != '.',
          "file", "must be the name of a file in the same folder");
  a.check(shard.bytes >= 0, "bytes", "must not be negative");
}

}  // namespace tombolo::runtime
