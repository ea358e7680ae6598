#include "perform/state/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <functional>
#include <set>

#include "base/check.h"
#include "base/file.h"
#include "base/file_digest.h"
#include "base/hash.h"
#include "base/json.h"
#include "spec/plan/gradient_groups.h"
#include "spec/schedule/local_steps.h"

namespace tombolo::state {
namespace fs = std::filesystem;

namespace {

constexpr std::string_view kStepPrefix = "step-";
constexpr size_t kNameDigits = 16;  // of a shard's digest, in its file's name

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
    for (const TensorPlace& tensor : shard.tensors) {
      if (seen.insert(tensor.name).second) continue;
      return failed(
          fmt::format("two shards of step {} hold the tensor \"{}\"", manifest.step, tensor.name));
    }
  }
  return {};
}

constexpr const char* kDigestKey = "digest";

// To the fields of the newest version, without a digest. What all else was before that was written is what it is written
// as again.
Status take_off_digest(Value& manifest, const std::string& name) {
  const Value* version = manifest.find("tombolo_checkpoint");
  if (version && *version == Value(kManifestWithoutDigest)) {
    manifest.set("tombolo_checkpoint", kManifestVersion);
    return {};
  }
  if (!version || *version != Value(kManifestVersion)) return {};  // which reading it refuses
  auto& fields = *manifest.get<Value::Table>();
  const auto at = std::find_if(fields.begin(), fields.end(),
                               [](const auto& field) { return field.first == kDigestKey; });
  const Value said = at == fields.end() ? Value() : std::move(at->second);
  if (at != fields.end()) fields.erase(at);
  if (said == Value(digest(to_json(manifest)))) return {};
  return unusable(name + ": the manifest is damaged: its digest is of other content", "");
}

std::string parent_of(const std::string& path) {
  const std::string parent = fs::path(path).lexically_normal().parent_path().string();
  return parent.empty() ? "." : parent;
}

// Who says that shards are here must not find others.
Status check_shards(const std::string& folder, const Manifest& manifest, int32_t rank) {
  const std::string own = fmt::format("rank-{}.", rank);
  for (const Shard& shard : manifest.shards) {
    const std::string path = folder + "/" + shard.file;
    std::error_code ec;
    const auto size = fs::file_size(path, ec);
    if (ec && shard.file.starts_with(own))
      return failed(fmt::format("{}: it was written, and is gone", path));
    if (ec || static_cast<int64_t>(size) == shard.bytes) continue;  // it may be another host's
    return failed(fmt::format("{}: it has {} bytes, its rank wrote {}", path, size, shard.bytes));
  }
  return {};
}

Status commit_manifest(const std::string& directory, const Manifest& manifest, int32_t rank) {
  const std::string folder = step_folder(directory, manifest.step);
  TRY(make_directories(folder));
  TRY(check_shards(folder, manifest, rank));
  const std::string path = folder + "/" + kManifestName;
  const std::string text = manifest_text(manifest);
  const auto there = read_file(path);
  // Ranks that share a folder all come here, with the same words.
  if (!there || *there != text) TRY(write_file(path, text));
  TRY(sync_folder(folder));
  TRY(sync_folder(directory));
  return sync_folder(parent_of(directory));
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

// `add_all` adds the bytes of all tensors.
Result<Shard> write_shard(const std::string& directory, int64_t step, int32_t rank, int64_t epoch,
                          std::vector<TensorShape> tensors,
                          const std::function<Status(SafetensorsWriter&)>& add_all) {
  const std::string folder = step_folder(directory, step);
  const auto path = [&](const std::string& digest) {
    return folder + "/" + shard_file(rank, digest);
  };
  const auto write = [&]() -> Result<WrittenFile> {
    TRY(make_directories(folder));
    SafetensorsWriter writer =
        TRY(SafetensorsWriter::create(path("unfinished"), std::move(tensors),
                                      {{"format", "tombolo"}, {"step", fmt::format("{}", step)}}));
    TRY(add_all(writer));
    WrittenFile file = TRY(writer.finish(path));
    const FileDigest there = TRY(digest_on_disk(file.path));
    if (there == FileDigest{file.bytes, file.digest}) return file;
    return unusable(fmt::format("{}: what was written is not what can be read: {} bytes with the "
                                "digest {}, instead of {} with {}",
                                file.path, there.bytes, there.digest, file.bytes, file.digest),
                    "another disk for the checkpoints");
  };
  WrittenFile file = TRY(during(write(), fmt::format("writing the checkpoint of step {}", step)));
  return Shard{.file = shard_file(rank, file.digest),
               .bytes = file.bytes,
               .digest = std::move(file.digest),
               .epoch = epoch,
               .tensors = std::move(file.tensors)};
}

}  // namespace

Status check_shard_size(const std::string& path, const Shard& shard) {
  std::error_code ec;
  const auto size = fs::file_size(path, ec);
  if (ec) {
    return unusable(
        fmt::format("{}: the checkpoint's shard cannot be read: {}", path, ec.message()),
        kOlderCheckpoint);
  }
  if (static_cast<int64_t>(size) == shard.bytes) return {};
  return unusable(fmt::format("{}: the shard is damaged: it has {} bytes, the manifest says {}",
                              path, size, shard.bytes),
                  kOlderCheckpoint);
}

std::string step_folder(const std::string& directory, int64_t step) {
  return fmt::format("{}/{}{:08}", directory, kStepPrefix, step);
}

std::string shard_file(int32_t rank, const std::string& digest) {
  return fmt::format("rank-{}.{}.safetensors", rank, digest.substr(0, kNameDigits));
}

Result<Shard> write_shard(const std::string& directory, int64_t step, int32_t rank, int64_t epoch,
                          std::span<const kernels::TensorView> tensors) {
  std::vector<TensorShape> shapes;
  for (const kernels::TensorView& each : tensors)
    shapes.push_back({each.name, each.dtype, each.shape});
  return write_shard(directory, step, rank, epoch, std::move(shapes),
                     [&](SafetensorsWriter& writer) -> Status {
                       for (const kernels::TensorView& each : tensors) TRY(writer.add(each.bytes));
                       return {};
                     });
}

Result<Shard> write_shard(const std::string& directory, int64_t step, int32_t rank, int64_t epoch,
                          std::span<const kernels::NamedTensor> tensors) {
  return write_shard(directory, step, rank, epoch,
                     std::span<const kernels::TensorView>(kernels::views_of(tensors)));
}

Result<Shard> write_shard(const std::string& directory, int64_t step, int32_t rank, int64_t epoch,
                          CopyOnWriteState& state) {
  return write_shard(directory, step, rank, epoch, state.shapes(),
                     [&](SafetensorsWriter& writer) -> Status {
                       for (auto piece = state.next(); !piece.empty(); piece = state.next())
                         TRY(writer.append(piece));
                       state.close();
                       return {};
                     });
}

kernels::TensorSource with_suffix(const kernels::TensorSource& tensors, const std::string& suffix) {
  if (suffix.empty()) return tensors;
  return [&tensors, suffix](const std::string& name) { return tensors(name + suffix); };
}

std::vector<int64_t> layers_of_stages(const plan::Plan& plan) {
  std::vector<int64_t> out;
  for (const plan::Stage& stage : plan.stages) out.push_back(stage.slice.layers);
  return out;
}

bool writes_shard(const plan::Plan& plan, int32_t rank) {
  return plan.ranks[static_cast<size_t>(rank)].replica == 0 || kernels::shares_out_state(plan);
}

Status commit_checkpoint(const std::string& directory, const Manifest& manifest, int32_t rank) {
  TRY(check_names(manifest));
  return during(commit_manifest(directory, manifest, rank),
                fmt::format("writing the checkpoint of step {}", manifest.step));
}

void retire_checkpoints(const std::string& directory, int64_t step, int64_t keep) {
  CHECK(keep >= 1, "{} checkpoints are kept", keep);
  std::vector<int64_t> steps = finished_steps(directory);
  std::erase_if(steps, [&](int64_t each) { return each > step; });
  if (steps.empty() || steps.back() != step) return;  // not here: then nothing replaces the others
  const auto left = std::min(static_cast<size_t>(keep), steps.size());
  const int64_t oldest = steps[steps.size() - left];
  std::vector<int64_t> gone = steps_in(directory, false);  // those that never came to exist, too
  gone.insert(gone.end(), steps.begin(), steps.end());
  for (const int64_t each : gone) {
    if (each >= oldest) continue;
    // The manifest goes first: a half-removed checkpoint does not exist.
    const std::string old = step_folder(directory, each);
    std::error_code ec;
    fs::remove(old + "/" + kManifestName, ec);
    fs::remove_all(old, ec);
  }
}

void discard_unfinished(const std::string& directory, int64_t first,
                        const std::set<int64_t>& complete) {
  for (const int64_t step : steps_in(directory, false)) {
    std::error_code ec;
    if (step >= first && !complete.contains(step)) fs::remove_all(step_folder(directory, step), ec);
  }
}

void discard_step(const std::string& directory, int64_t step) {
  const std::string folder = step_folder(directory, step);
  std::error_code ec;
  if (!fs::exists(folder + "/" + kManifestName, ec)) fs::remove_all(folder, ec);
}

std::vector<StepFile> list_checkpoints(const std::string& directory, size_t most) {
  std::vector<int64_t> steps;
  for (const bool finished : {true, false}) {
    const std::vector<int64_t> all = steps_in(directory, finished);
    const size_t newest = std::min(most, all.size());
    steps.insert(steps.end(), all.end() - static_cast<ptrdiff_t>(newest), all.end());
  }
  std::sort(steps.rbegin(), steps.rend());
  std::vector<StepFile> out;
  for (const int64_t step : steps) {
    std::error_code ec;
    std::vector<StepFile> files;
    for (const auto& entry : fs::directory_iterator(step_folder(directory, step), ec)) {
      const std::string name = entry.path().filename().string();
      if (!is_plain_file(name) || name.ends_with(".tmp")) continue;
      const auto bytes = entry.file_size(ec);
      if (!ec) files.push_back({step, name, static_cast<int64_t>(bytes)});
    }
    std::sort(files.begin(), files.end(),
              [](const StepFile& a, const StepFile& b) { return a.file < b.file; });
    out.insert(out.end(), files.begin(), files.end());
  }
  return out;
}

std::string manifest_text(const Manifest& manifest) {
  Value value = write_fields(manifest);
  value.set(kDigestKey, digest(to_json(value)));
  return to_json(value) + "\n";
}

Result<Manifest> parse_manifest(std::string_view text, const std::string& name) {
  Value value = TRY(parse_json(text, name));
  TRY(take_off_digest(value, name));
  auto manifest = read_fields<Manifest>(value, name);
  // A program wrote it: how a key is spelled right is no help.
  if (!manifest) manifest.error().hint = "the version of Tombolo that wrote it";
  return manifest;
}

Result<Manifest> parse_manifest_to_resume(std::string_view text, const std::string& name) {
  auto manifest = parse_manifest(text, name);
  if (!manifest) {
    std::string& hint = manifest.error().hint;
    hint += (hint.empty() ? "" : ", or ") + std::string(kOlderCheckpoint);
  }
  return manifest;
}

namespace {

// Of the steps below that one, ascending.
std::vector<int64_t> finished_steps_below(const std::string& directory, int64_t below) {
  std::vector<int64_t> steps = finished_steps(directory);
  std::erase_if(steps, [&](int64_t step) { return step >= below; });
  return steps;
}

Result<FoundCheckpoint> open_checkpoint(const std::string& directory, int64_t step) {
  FoundCheckpoint found{.folder = step_folder(directory, step)};
  const std::string path = found.folder + "/" + kManifestName;
  found.manifest = TRY(parse_manifest_to_resume(TRY(read_file(path)), path));
  if (found.manifest.step != step)
    return unusable(fmt::format("{}: the manifest is of step {}", path, found.manifest.step),
                    kOlderCheckpoint);
  return found;
}

}  // namespace

Result<std::optional<FoundCheckpoint>> latest_checkpoint(const std::string& directory,
                                                         int64_t below) {
  const std::vector<int64_t> steps = finished_steps_below(directory, below);
  if (steps.empty()) return std::nullopt;
  return TRY(open_checkpoint(directory, steps.back()));
}

Result<std::optional<FoundCheckpoint>> latest_readable_checkpoint(const std::string& directory,
                                                                  int64_t below,
                                                                  const PassedOver& passed_over) {
  std::vector<int64_t> steps = finished_steps_below(directory, below);
  std::optional<Error> damage;  // of the newest
  for (; !steps.empty(); steps.pop_back()) {
    auto found = open_checkpoint(directory, steps.back());
    if (found && damage) passed_over(*damage, found->folder);
    if (found) return std::move(*found);
    if (!damage) damage = std::move(found.error());
  }
  if (damage) return fail(std::move(*damage));
  return std::nullopt;
}

Status verify_checkpoint(const FoundCheckpoint& checkpoint) {
  for (const Shard& shard : checkpoint.manifest.shards) {
    const std::string path = checkpoint.folder + "/" + shard.file;
    TRY(check_shard_size(path, shard));
    const FileDigest there = TRY(digest_of_file(path));
    if (there.digest == shard.digest) continue;
    return unusable(fmt::format("{}: the shard is damaged: its digest is not the manifest's", path),
                    kOlderCheckpoint);
  }
  return {};
}

namespace {

// A mean that has arrived belongs to the outer step that it was made for.
Status check_outer_steps(const Manifest& manifest, const plan::Plan& plan,
                         const std::string& where) {
  if (!manifest.exchange || !manifest.exchange->is_local() || !kernels::steps_locally(plan))
    return {};
  plan::Plan before = plan;
  before.exchange = manifest.exchange;
  const auto streams = [](const plan::Exchange& exchange) {
    return exchange.fragments_in_use() > 1 && exchange.delay_in_use() > 0;
  };
  // Each stage is cut into fragments separately: other stages have other parameters under way.
  if ((streams(*before.exchange) || streams(*plan.exchange)) &&
      manifest.layers_of_stages != layers_of_stages(plan)) {
    return unusable(
        fmt::format("{} has fragments on their way, of stages of {} layers, and this job has "
                    "stages of {}",
                    where, fmt::join(manifest.layers_of_stages, ", "),
                    fmt::join(layers_of_stages(plan), ", ")),
        "the stages that wrote it");
  }
  const int64_t next = manifest.step + 1;
  for (int32_t stage = 0; stage < std::ssize(plan.stages); ++stage) {
    const auto groups = static_cast<int32_t>(plan::gradient_groups(plan, stage).size());
    for (int32_t group = 0; group < groups; ++group) {
      const auto then = schedule::outer_steps(before, stage, group).under_way(next);
      const auto now = schedule::outer_steps(plan, stage, group).under_way(next);
      if (then == now) continue;
      return unusable(
          fmt::format("{} lies within an outer step of steps = {}, fragments = {}, delay = {} that "
                      "began in step {}",
                      where, before.exchange->steps_in_use(), before.exchange->fragments_in_use(),
                      before.exchange->delay_in_use(), then.value_or(*now)),
          "the [exchange] that wrote it, or a checkpoint between outer steps");
    }
  }
  return {};
}

}  // namespace

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
  return check_outer_steps(manifest, plan, where);
}

}  // namespace tombolo::state
