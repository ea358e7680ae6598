#include "perform/state/state_snapshot.h"

#include <charconv>
#include <filesystem>
#include <map>
#include <new>
#include <utility>

#include "base/check.h"
#include "base/file.h"
#include "base/json.h"
#include "spec/plan/plan_file.h"

namespace tombolo::state {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEpochPrefix = "epoch-";

// "epoch-3": 3.
std::optional<uint64_t> epoch_of(const std::string& name) {
  if (!name.starts_with(kEpochPrefix)) return std::nullopt;
  uint64_t epoch = 0;
  const char* end = name.data() + name.size();
  const auto [at, error] = std::from_chars(name.data() + kEpochPrefix.size(), end, epoch);
  if (error != std::errc{} || at != end) return std::nullopt;
  return epoch;
}

std::optional<KeptShard> read_note(const fs::path& path) {
  const auto text = read_file(path.string());
  if (!text) return std::nullopt;
  const auto value = parse_json(*text, path.string());
  if (!value) return std::nullopt;
  const auto note = read_fields<KeptShard>(*value, path.string());
  if (!note) return std::nullopt;
  if (!check_shard_size((path.parent_path() / note->shard.file).string(), note->shard))
    return std::nullopt;
  return *note;
}

// Into the memory of the copy before, where there is one: never two copies at once. False, and no
// copy: there is no memory for it.
bool fill(std::vector<kernels::NamedTensor>& copy, std::span<const kernels::TensorView> state) {
  try {
    copy.resize(state.size());
    for (size_t i = 0; i < state.size(); ++i) {
      copy[i].name = state[i].name;
      copy[i].dtype = state[i].dtype;
      copy[i].shape = state[i].shape;
      copy[i].bytes.assign(state[i].bytes.begin(), state[i].bytes.end());
    }
    return true;
  } catch (const std::bad_alloc&) {
    std::vector<kernels::NamedTensor>().swap(copy);
    return false;
  }
}

Manifest manifest_of(const plan::Plan& plan, int64_t step) {
  return {.step = step,
          .seed = plan.run.seed,
          .plan_digest = plan::plan_digest(plan),
          .precision = std::string(to_name(plan.training.precision)),
          .model = plan.model,
          .exchange = plan.exchange,
          .layers_of_stages = layers_of_stages(plan)};
}

}  // namespace

StateSnapshot::StateSnapshot(std::string folder, int32_t rank, int64_t epoch, int64_t step,
                             Room has_room)
    : folder_(std::move(folder)),
      rank_(rank),
      epoch_(epoch),
      has_room_(std::move(has_room)),
      now_(step) {
  CHECK(!folder_.empty() && rank >= 0, "rank {} keeps its state nowhere", rank);
}

Status StateSnapshot::copy(int64_t step, const kernels::Kernels& kernels) {
  std::lock_guard lock(mutex_);
  CHECK(now_ && *now_ == step, "a copy of step {}, and the kernels hold {}", step,
        now_ ? fmt::format("step {}", *now_) : "half an update");
  const std::vector<kernels::TensorView> state =
      TRY(during(kernels.state(), "keeping the state before an update"));
  const int64_t bytes = kernels::bytes_of(state);
  if (copy_.empty() && too_large_ == 0 && has_room_ && !has_room_(bytes)) too_large_ = bytes;
  copied_.reset();
  if (too_large_ == 0 && fill(copy_, state)) copied_ = step;
  if (!copied_) too_large_ = bytes;
  now_.reset();
  return {};
}

int64_t StateSnapshot::too_large() const {
  std::lock_guard lock(mutex_);
  return too_large_;
}

void StateSnapshot::updated(int64_t step) {
  std::lock_guard lock(mutex_);
  CHECK(!copied_ || step == *copied_ + 1, "step {} is done, and step {} was the one before", step,
        *copied_);
  now_ = step;
}

Status StateSnapshot::leave(const kernels::Kernels& kernels) {
  std::lock_guard lock(mutex_);
  if (copied_) TRY(write(*copied_, kernels::views_of(copy_)));
  if (now_ && now_ != copied_ && *now_ > 0) TRY(write(*now_, TRY(kernels.state())));
  return {};
}

Status StateSnapshot::write(int64_t step, std::span<const kernels::TensorView> tensors) const {
  if (step < 1) return {};  // the beginning needs no state
  const KeptShard note{.step = step,
                       .rank = rank_,
                       .shard = TRY(write_shard(folder_, step, rank_, epoch_, tensors))};
  return write_file(fmt::format("{}/rank-{}.json", step_folder(folder_, step), rank_),
                    to_json(write_fields(note)) + "\n");
}

std::string kept_folder(const std::string& output) { return output + "/kept"; }
std::string kept_folder(const std::string& output, uint64_t epoch) {
  return fmt::format("{}/{}{}", kept_folder(output), kEpochPrefix, epoch);
}

void remove_kept(const std::string& output) {
  std::vector<fs::path> ours;
  std::error_code ec;
  for (const auto& folder : fs::directory_iterator(kept_folder(output), ec)) {
    if (epoch_of(folder.path().filename().string())) ours.push_back(folder.path());
  }
  for (const fs::path& folder : ours) fs::remove_all(folder, ec);
  const bool is_link = fs::is_symlink(kept_folder(output), ec);
  if (!ours.empty() && !is_link) fs::remove(kept_folder(output), ec);  // only where it is empty
}

std::vector<KeptShard> list_kept(const std::string& output, int32_t rank) {
  std::vector<KeptShard> out;
  const std::string own = fmt::format("rank-{}.json", rank);
  std::error_code ec;
  for (const auto& folder : fs::directory_iterator(kept_folder(output), ec)) {
    const auto epoch = epoch_of(folder.path().filename().string());
    if (!epoch) continue;
    std::error_code inner;
    for (const auto& entry : fs::recursive_directory_iterator(folder.path(), inner)) {
      const std::string name = entry.path().filename().string();
      if (!name.starts_with("rank-") || !name.ends_with(".json")) continue;
      if (rank >= 0 && name != own) continue;
      auto note = read_note(entry.path());
      if (note && note->shard.epoch == static_cast<int64_t>(*epoch)) out.push_back(*note);
    }
  }
  return out;
}

std::optional<KeptChoice> choose_kept(std::span<const KeptShard> kept, const plan::Plan& plan,
                                      int64_t first) {
  const bool whole = !kernels::shares_out_state(plan);  // each replica has all of its stages
  const size_t places =
      whole ? plan.ranks.size() / static_cast<size_t>(plan.replicas()) : plan.ranks.size();
  // By step and epoch, then by place in the pipeline, of replicas the first; or by rank.
  std::map<std::pair<int64_t, int64_t>, std::map<int32_t, const KeptShard*>> found;
  for (const KeptShard& each : kept) {
    if (each.rank < 0 || static_cast<size_t>(each.rank) >= plan.ranks.size()) continue;
    if (each.step < first || each.step >= plan.run.steps) continue;
    const KeptShard*& at =
        found[{each.step, each.shard.epoch}]
             [whole ? plan.ranks[static_cast<size_t>(each.rank)].stage : each.rank];
    if (!at || each.rank < at->rank) at = &each;
  }
  for (auto at = found.rbegin(); at != found.rend(); ++at) {
    if (at->second.size() < places) continue;
    KeptChoice choice{static_cast<uint64_t>(at->first.second), manifest_of(plan, at->first.first)};
    for (const auto& [place, each] : at->second) choice.manifest.shards.push_back(each->shard);
    return choice;
  }
  return std::nullopt;
}

}  // namespace tombolo::state
