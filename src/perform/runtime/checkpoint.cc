#include "perform/runtime/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <set>

#include "base/check.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "perform/runtime/safetensors.h"

namespace tombolo::runtime {
namespace fs = std::filesystem;

template <class Archive>
void describe(Archive& a, Manifest& manifest) {
  int version = kManifestVersion;
  a.required("tombolo_checkpoint", version);
  a.check(version == kManifestVersion, "tombolo_checkpoint",
          fmt::format("this program reads version {}", kManifestVersion));
  a.required("step", manifest.step);
  // Seeds use all 64 bits; JSON readers elsewhere round such numbers.
  std::string seed = fmt::format("{}", manifest.seed);
  a.required("seed", seed);
  if constexpr (Archive::kReads) {
    const auto [end, ec] = std::from_chars(seed.data(), seed.data() + seed.size(), manifest.seed);
    a.check(ec == std::errc{} && end == seed.data() + seed.size(), "seed",
            "wanted decimal digits in quotes");
  }
  a.required("plan_digest", manifest.plan_digest);
  a.required("precision", manifest.precision);
  a.required("model", manifest.model);
  a.required("shards", manifest.shards);
  a.check(manifest.step >= 1, "step", "must be at least 1");
}

namespace {

constexpr const char* kManifestName = "manifest.json";
constexpr std::string_view kStepPrefix = "step-";
constexpr int64_t kShardMax = int64_t{1} << 40;

// Steps in a directory, ascending; only those with a manifest are checkpoints.
std::vector<int64_t> steps_in(const std::string& directory, bool with_manifest) {
  std::vector<int64_t> steps;
  std::error_code ec;
  for (const auto& entry : fs::directory_iterator(directory, ec)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kStepPrefix)) continue;
    int64_t step = 0;
    const char* first = name.data() + kStepPrefix.size();
    const auto [end, error] = std::from_chars(first, name.data() + name.size(), step);
    if (error != std::errc{} || end != name.data() + name.size()) continue;
    if (fs::exists(entry.path() / kManifestName, ec) == with_manifest) steps.push_back(step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

std::vector<int64_t> finished_steps(const std::string& directory) {
  return steps_in(directory, true);
}

Status check_names(const Manifest& manifest) {
  std::set<std::string> seen;
  for (const Shard& shard : manifest.shards) {
    for (const std::string& tensor : shard.tensors) {
      if (seen.insert(tensor).second) continue;
      return failed(
          fmt::format("two shards of step {} hold the tensor \"{}\"", manifest.step, tensor));
    }
  }
  return {};
}

// The shard's bytes, once they are known to be the ones that were written.
Result<std::string> read_shard(const FoundCheckpoint& checkpoint, const Shard& shard) {
  const std::string path = checkpoint.folder + "/" + shard.file;
  const char* hint = "an older checkpoint: remove this step's folder and resume again";
  std::error_code ec;
  const auto size = fs::file_size(path, ec);
  if (ec) {
    return unusable(
        fmt::format("{}: the checkpoint's shard cannot be read: {}", path, ec.message()), hint);
  }
  if (static_cast<int64_t>(size) != shard.bytes) {
    return unusable(fmt::format("{}: the shard is damaged: it has {} bytes, the manifest says {}",
                                path, size, shard.bytes),
                    hint);
  }
  std::string bytes = TRY(read_file(path, kShardMax));
  if (digest(bytes) != shard.digest) {
    return unusable(fmt::format("{}: the shard is damaged: its digest is not the manifest's", path),
                    hint);
  }
  return bytes;
}

// The first field of the model in which two differ, with both values.
std::string model_difference(const model::Model& theirs, const model::Model& ours) {
  const Value a = write_fields(theirs);
  const Value b = write_fields(ours);
  for (const auto& [key, value] : *a.get<Value::Table>()) {
    const Value* other = b.find(key);
    if (!other || *other == value || key == "name") continue;
    return fmt::format("{} = {}, this one has {}", key, to_json(value, -1), to_json(*other, -1));
  }
  return "";
}

}  // namespace

std::string step_folder(const std::string& directory, int64_t step) {
  return fmt::format("{}/{}{:08}", directory, kStepPrefix, step);
}

Result<Shard> write_shard(const std::string& directory, int64_t step, int32_t rank,
                          std::span<const NamedTensor> tensors) {
  const std::string folder = step_folder(directory, step);
  const std::string doing = fmt::format("writing the checkpoint of step {}", step);
  TRY(during(make_directories(folder), doing));
  Shard shard{.file = fmt::format("rank-{}.safetensors", rank)};
  const WrittenFile file =
      TRY(during(write_safetensors(folder + "/" + shard.file, tensors,
                                   {{"format", "tombolo"}, {"step", fmt::format("{}", step)}}),
                 doing));
  shard.bytes = file.bytes;
  shard.digest = file.digest;
  for (const NamedTensor& tensor : tensors) shard.tensors.push_back(tensor.name);
  return shard;
}

Status commit_checkpoint(const std::string& directory, const Manifest& manifest, int64_t keep) {
  CHECK(keep >= 1, "{} checkpoints are kept", keep);
  TRY(check_names(manifest));
  const std::string folder = step_folder(directory, manifest.step);
  TRY(during(write_file(folder + "/" + kManifestName, to_json(write_fields(manifest)) + "\n"),
             fmt::format("writing the checkpoint of step {}", manifest.step)));
  std::vector<int64_t> steps = finished_steps(directory);
  while (static_cast<int64_t>(steps.size()) > keep && steps.front() < manifest.step) {
    // The manifest goes first: a half-removed checkpoint does not exist.
    const std::string old = step_folder(directory, steps.front());
    std::error_code ec;
    fs::remove(old + "/" + kManifestName, ec);
    fs::remove_all(old, ec);
    steps.erase(steps.begin());
  }
  return {};
}

void discard_unfinished(const std::string& directory, int64_t first) {
  for (const int64_t step : steps_in(directory, false)) {
    std::error_code ec;
    if (step >= first) fs::remove_all(step_folder(directory, step), ec);
  }
}

Result<std::optional<FoundCheckpoint>> latest_checkpoint(const std::string& directory,
                                                         int64_t below) {
  std::vector<int64_t> steps = finished_steps(directory);
  std::erase_if(steps, [&](int64_t step) { return step >= below; });
  if (steps.empty()) return std::nullopt;
  FoundCheckpoint found{.folder = step_folder(directory, steps.back())};
  const std::string path = found.folder + "/" + kManifestName;
  const std::string text = TRY(read_file(path));
  const Value value = TRY(parse_json(text, path));
  found.manifest = TRY(read_fields<Manifest>(value, path));
  if (found.manifest.step != steps.back()) {
    return unusable(fmt::format("{}: the manifest is of step {}", path, found.manifest.step));
  }
  return found;
}

Result<std::vector<NamedTensor>> load_checkpoint(const FoundCheckpoint& checkpoint) {
  std::vector<NamedTensor> out;
  for (const Shard& shard : checkpoint.manifest.shards) {
    const std::string bytes = TRY(read_shard(checkpoint, shard));
    TensorFile file = TRY(parse_safetensors(bytes, checkpoint.folder + "/" + shard.file));
    for (NamedTensor& tensor : file.tensors) out.push_back(std::move(tensor));
  }
  return out;
}

Status verify_checkpoint(const FoundCheckpoint& checkpoint) {
  for (const Shard& shard : checkpoint.manifest.shards) TRY(read_shard(checkpoint, shard));
  return {};
}

Status check_fits(const FoundCheckpoint& checkpoint, const plan::Plan& plan) {
  const Manifest& manifest = checkpoint.manifest;
  const std::string where = fmt::format("the checkpoint {}", checkpoint.folder);
  const std::string hint = "the job that wrote it, or another checkpoint directory";
  const std::string difference = model_difference(manifest.model, plan.model);
  if (!difference.empty()) {
    return unusable(fmt::format("{} is of another model: it has {}", where, difference), hint);
  }
  if (manifest.precision != to_name(plan.training.precision)) {
    return unusable(fmt::format("{} is of precision {}, this job of {}", where, manifest.precision,
                                to_name(plan.training.precision)),
                    hint);
  }
  if (manifest.seed != plan.run.seed) {
    return unusable(
        fmt::format("{} is of seed {}, this job of {}: the order of the data would change", where,
                    manifest.seed, plan.run.seed),
        hint);
  }
  if (manifest.step >= plan.run.steps) {
    return unusable(fmt::format("{} is of step {}: nothing is left of run.steps = {}", where,
                                manifest.step, plan.run.steps),
                    fmt::format("run.steps larger than {}", manifest.step));
  }
  return {};
}

}  // namespace tombolo::runtime
