// Checkpoints: what a run needs to resume bit-exactly after it was interrupted.
//
//   checkpoints/step-00000010/rank-0.5d8c1f0a93b2e764.safetensors   written by each rank, whole or
//   checkpoints/step-00000010/rank-1.02f7c0de41a95b83.safetensors   not at all, each on its host
//   checkpoints/step-00000010/manifest.json    written last, next to the shards on each host: it
//                                              makes the checkpoint exist
//
// The folder need not be shared: each host has the shards of its ranks, and all have the manifest,
// which lists every tensor with its shard, its place there and its digest. So a rank reads
// the tensors that it needs and no more (state_reader.h), and a damaged one is found and named
// before it is used. Tensors have global names; a checkpoint can therefore be loaded by another
// split of the layers over stages.
//
// A shard's name contains the digest of its bytes. So a late writer, such as a rank of an ended epoch
// that could not be reached, writes the same bytes under the same name; a shard with other bytes has
// another name and replaces nothing. docs/formats/checkpoint.md is the format,
// docs/decisions/0026-state-without-a-shared-folder.md says why.
#pragma once

#include <charconv>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/fields.h"
#include "base/result.h"
#include "perform/kernels/kernels.h"
#include "perform/kernels/state_layout.h"
#include "perform/state/copy_on_write_state.h"
#include "perform/state/safetensors.h"
#include "spec/plan/plan.h"

namespace tombolo::state {

inline constexpr int kManifestVersion = 3;
inline constexpr int kManifestWithoutDigest = 2;  // also read

// One rank's file, as the rank reports it and the manifest lists it.
struct Shard {
  std::string file;  // within the step's folder
  int64_t bytes = 0;
  std::string digest;
  int64_t epoch = 0;  // of the run, in which it was written
  std::vector<TensorPlace> tensors;

  bool operator==(const Shard&) const = default;
};

struct Manifest {
  int64_t step = 0;  // iterations done
  uint64_t seed = 0;
  std::string plan_digest;
  std::string precision;
  model::Model model;  // whose weights these are; empty for a Plan without one
  std::optional<plan::Exchange> exchange;
  std::vector<int64_t> layers_of_stages;  // in the order of stages
  std::vector<Shard> shards;

  bool operator==(const Manifest&) const = default;
};

// A manifest and the folder it was found in.
struct FoundCheckpoint {
  std::string folder;
  Manifest manifest;
};

// The same source, with `suffix` appended to every name that is asked for.
kernels::TensorSource with_suffix(const kernels::TensorSource& tensors, const std::string& suffix);
bool writes_shard(const plan::Plan& plan, int32_t rank);
std::vector<int64_t> layers_of_stages(const plan::Plan& plan);

std::string step_folder(const std::string& directory, int64_t step);

// "rank-3.5d8c1f0a93b2e764.safetensors".
std::string shard_file(int32_t rank, const std::string& digest);

// Creates the step's folder, writes this rank's shard into it, and reads it back from the disk:
// what it returns is there, whole, whatever happens to the machine. Fails where what is read is not
// what was written. Cost: the shard is written once and read once, and no tensor is copied.
Result<Shard> write_shard(const std::string& directory, int64_t step, int32_t rank, int64_t epoch,
                          std::span<const kernels::TensorView> tensors);
Result<Shard> write_shard(const std::string& directory, int64_t step, int32_t rank, int64_t epoch,
                          std::span<const kernels::NamedTensor> tensors);
// The state is read by this call, and closed before the file is made durable.
Result<Shard> write_shard(const std::string& directory, int64_t step, int32_t rank, int64_t epoch,
                          CopyOnWriteState& state);

// Makes the checkpoint exist on this host: writes the manifest, and makes its folder and those
// above durable. Removes nothing. Does nothing where it exists already. Fails where two shards hold
// a tensor of the same name, where a shard that is here has another size, and where `rank` is given
// and its own is not here: a later epoch has removed it, and the checkpoint is no longer this
// one's.
Status commit_checkpoint(const std::string& directory, const Manifest& manifest, int32_t rank = -1);

// Once the checkpoint of `step` exists wherever it should: removes all before it but the newest,
// so that `keep` are left, it included. What is newer stays.
void retire_checkpoints(const std::string& directory, int64_t step, int64_t keep);

// Removes the folders of steps from `first` on that have no manifest, except those in `complete`:
// what an interrupted run left there, reported or not.
void discard_unfinished(const std::string& directory, int64_t first,
                        const std::set<int64_t>& complete = {});

// Removes the folder of one step, unless the checkpoint exists here.
void discard_step(const std::string& directory, int64_t step);

// The files in a directory of checkpoints, newest step first: at most `most` steps that have a manifest
// and as many that have none, so that unfinished steps never crowd out finished ones. Sizes are those
// of the files, whatever a manifest says.
struct StepFile {
  int64_t step = 0;
  std::string file;
  int64_t bytes = 0;

  bool operator==(const StepFile&) const = default;
};
std::vector<StepFile> list_checkpoints(const std::string& directory, size_t most);
inline constexpr const char* kManifestName = "manifest.json";

// The checkpoint with the largest step; nothing where there is none. Folders without a manifest do
// not count, nor do steps from `below` on. A manifest that cannot be read is an error: guessing an
// older one would lose work.
Result<std::optional<FoundCheckpoint>> latest_checkpoint(const std::string& directory,
                                                         int64_t below = INT64_MAX);

// For a run that resumes automatically: the newest checkpoint whose manifest can be read. If newer ones
// cannot be, `passed_over` receives the newest one's error and the folder that is used instead. If none
// can be read, fails with the newest one's error.
using PassedOver = std::function<void(const Error& damage, const std::string& instead)>;
Result<std::optional<FoundCheckpoint>> latest_readable_checkpoint(const std::string& directory,
                                                                  int64_t below,
                                                                  const PassedOver& passed_over);

// The bytes of its file: its fields, and a digest of them, by which a change of any of them is found.
std::string manifest_text(const Manifest& manifest);
// The manifest that these bytes are; `name` stands in messages.
Result<Manifest> parse_manifest(std::string_view text, const std::string& name);
// The same for a run that is resumed, which may begin with an older one.
Result<Manifest> parse_manifest_to_resume(std::string_view text, const std::string& name);

// Every shard is here and undamaged. Cost: all of it is read, a piece at a time.
Status verify_checkpoint(const FoundCheckpoint& checkpoint);

// Unusable where a shard is missing, or has another size than the manifest says.
Status check_shard_size(const std::string& path, const Shard& shard);
// What to try then.
inline constexpr const char* kOlderCheckpoint =
    "an older checkpoint: remove this step's folder and resume again";

// Unusable, naming what differs, where the checkpoint is of another model, precision or seed, or lies
// within an outer step that this Plan does not know. The split over stages, the schedule and the number
// of steps may differ; so may datacenters and [exchange] (resharded_state.h).
Status check_fits(const FoundCheckpoint& checkpoint, const plan::Plan& plan);

// A name that stays in its folder.
inline bool is_plain_file(const std::string& name) {
  return !name.empty() && name[0] != '.' && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

template <class Archive>
void describe(Archive& a, TensorPlace& place) {
  a.required("name", place.name);
  a.required("dtype", place.dtype);
  a.optional("shape", place.shape);
  a.required("offset", place.offset);
  a.required("bytes", place.bytes);
  a.required("digest", place.digest);
  a.check(place.offset >= 0, "offset", "must not be negative");
  a.check(place.bytes >= 0, "bytes", "must not be negative");
}

template <class Archive>
void describe(Archive& a, Shard& shard) {
  a.required("file", shard.file);
  a.required("bytes", shard.bytes);
  a.required("digest", shard.digest);
  a.required("epoch", shard.epoch);
  a.optional("tensors", shard.tensors);
  a.check(is_plain_file(shard.file), "file", "must be the name of a file in the same folder");
  a.check(shard.bytes >= 0, "bytes", "must not be negative");
  for (const TensorPlace& place : shard.tensors) {
    a.check(place.bytes <= shard.bytes && place.offset <= shard.bytes - place.bytes, "tensors",
            "a tensor lies outside of its shard");
  }
}

template <class Archive>
void describe(Archive& a, Manifest& manifest) {
  int version = kManifestVersion;
  a.required("tombolo_checkpoint", version);
  a.check(version == kManifestVersion, "tombolo_checkpoint",
          fmt::format("this program reads the versions {} and {}", kManifestWithoutDigest,
                      kManifestVersion));
  a.required("step", manifest.step);
  // Seeds use all 64 bits; JSON readers elsewhere round such numbers.
  std::string seed = fmt::format("{}", manifest.seed);
  a.required("seed", seed);
  if constexpr (Archive::kReads) {
    const auto [end, ec] = std::from_chars(seed.data(), seed.data() + seed.size(), manifest.seed);
    a.check(ec == std::errc{} && end == seed.data() + seed.size() &&
                seed == fmt::format("{}", manifest.seed),
            "seed", "wanted decimal digits in quotes");
  }
  a.required("plan_digest", manifest.plan_digest);
  a.required("precision", manifest.precision);
  if (Archive::kReads || manifest.model.layers > 0) a.optional("model", manifest.model);
  a.optional("exchange", manifest.exchange);
  a.optional("layers_of_stages", manifest.layers_of_stages);
  a.required("shards", manifest.shards);
  a.check(manifest.step >= 1, "step", "must be at least 1");
}

}  // namespace tombolo::state
