#include "perform/runtime/kept_state.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/check.h"
#include "base/file.h"
#include "base/json.h"
#include "spec/plan/plan_file.h"

namespace tombolo::runtime {
namespace {

namespace fs = std::filesystem;

// What stands beside a kept shard, and makes it exist.
struct Note {
  int64_t step = 0;
  int32_t rank = 0;
  Shard shard;
};

template <class Archive>
void describe(Archive& a, Note& note) {
  a.required("step", note.step);
  a.required("rank", note.rank);
  a.required("shard", note.shard);
}

// All notes in a folder that can be read; others were torn when their rank was killed.
std::vector<Note> notes_in(const std::string& folder) {
  std::vector<Note> notes;
  std::error_code ec;
  for (const auto& entry : fs::recursive_directory_iterator(folder, ec)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("rank-") || !name.ends_with(".json")) continue;
    const auto text = read_file(entry.path().string());
    if (!text) continue;
    const auto value = parse_json(*text, name);
    if (!value) continue;
    const auto note = read_fields<Note>(*value, name);
    if (note) notes.push_back(*note);
  }
  return notes;
}

Manifest manifest_of(const plan::Plan& plan, int64_t step) {
  return {.step = step,
          .seed = plan.run.seed,
          .plan_digest = plan::plan_digest(plan),
          .precision = std::string(to_name(plan.training.precision)),
          .model = plan.model};
}

}  // namespace

KeptState::KeptState(std::string folder, int32_t rank, int64_t step)
    : folder_(std::move(folder)), rank_(rank), now_(step) {
  CHECK(!folder_.empty() && rank >= 0, "rank {} keeps its state nowhere", rank);
}

Status KeptState::copy(int64_t step, const Kernels& kernels) {
  CHECK(now_ && *now_ == step, "a copy of step {}, and the kernels hold {}", step,
        now_ ? fmt::format("step {}", *now_) : "half an update");
  copy_ = TRY(during(kernels.save(), "keeping the state before an update"));
  copied_ = step;
  now_.reset();
  return {};
}

void KeptState::updated(int64_t step) {
  CHECK(!copied_ || step == *copied_ + 1, "step {} is done, and step {} was the one before", step,
        *copied_);
  now_ = step;
}

Status KeptState::leave(const Kernels& kernels) const {
  if (copied_) TRY(write(*copied_, copy_));
  if (now_ && now_ != copied_ && *now_ > 0) TRY(write(*now_, TRY(kernels.save())));
  return {};
}

Status KeptState::write(int64_t step, std::span<const NamedTensor> tensors) const {
  if (step < 1) return {};  // the beginning needs no state
  const Note note{
      .step = step, .rank = rank_, .shard = TRY(write_shard(folder_, step, rank_, tensors))};
  return write_file(fmt::format("{}/rank-{}.json", step_folder(folder_, step), rank_),
                    to_json(write_fields(note)) + "\n");
}

std::string kept_folder(const std::string& output) { return output + "/kept"; }
std::string kept_folder(const std::string& output, uint64_t epoch) {
  return fmt::format("{}/epoch-{}", kept_folder(output), epoch);
}

Result<std::optional<FoundCheckpoint>> gather_kept(const std::string& folder,
                                                   const plan::Plan& plan) {
  const size_t places = plan.ranks.size() / static_cast<size_t>(plan.replicas());
  std::map<int64_t, std::map<int32_t, Note>> by_step;  // then by place in the pipeline
  for (const Note& note : notes_in(folder)) {
    if (note.rank < 0 || static_cast<size_t>(note.rank) >= plan.ranks.size()) continue;
    const int32_t place = plan.ranks[note.rank].stage;
    const auto [at, is_new] = by_step[note.step].try_emplace(place, note);
    if (!is_new && note.rank < at->second.rank) at->second = note;
  }
  for (auto at = by_step.rbegin(); at != by_step.rend(); ++at) {
    const auto& [step, notes] = *at;
    if (notes.size() < places || step >= plan.run.steps) continue;
    FoundCheckpoint found{step_folder(folder, step), manifest_of(plan, step)};
    for (const auto& [place, note] : notes) found.manifest.shards.push_back(note.shard);
    if (!verify_checkpoint(found)) continue;  // damaged: an older one, or none
    TRY(commit_checkpoint(folder, found.manifest, 1));
    return found;
  }
  return std::nullopt;
}

}  // namespace tombolo::runtime
