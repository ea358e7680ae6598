#include "perform/state/checkpoint_coordinator.h"

#include <algorithm>
#include <filesystem>
#include <memory>

#include "base/check.h"
#include "base/file_digest.h"
#include "base/hash.h"
#include "perform/state/checkpoint_agent.h"
#include "perform/state/resharded_state.h"

namespace tombolo::state {

std::string going_on_from(const Error& damage, const std::string& instead) {
  return fmt::format("{}; continuing from the older checkpoint {}", damage.message, instead);
}

CheckpointCoordinator::CheckpointCoordinator(const plan::Plan& plan, Options options)
    : plan_(plan),
      options_(std::move(options)),
      book_(plan, options_.epoch),
      newest_(options_.newest) {
  CHECK(options_.tell, "no way to send what concerns state");
}

void CheckpointCoordinator::tell_all(const StateMessage& message) {
  for (size_t rank = 0; rank < plan_.ranks.size(); ++rank)
    options_.tell(static_cast<int32_t>(rank), message);
}

// --- with what all begin -------------------------------------------------------------------------

Survey CheckpointCoordinator::survey() const {
  const bool takes = plan_.checkpoint && (plan_.checkpoint->every > 0 || options_.resume);
  return {.output = std::filesystem::absolute(options_.output).string(),
          .checkpoints = takes ? plan_.checkpoint->directory : "",
          .fresh = !options_.goes_on,
          .run = options_.run};
}

Status CheckpointCoordinator::add(int32_t rank, const Inventory& inventory) {
  if (sources_.said(rank)) return failed(fmt::format("rank {} said twice what it has", rank));
  sources_.add(rank, inventory);
  return {};
}

Result<std::optional<CheckpointCoordinator::Beginning>> CheckpointCoordinator::beginning() {
  if (sources_.how_many() < plan_.ranks.size()) return std::nullopt;
  if (!std::exchange(looked_, true)) {
    TRY(look_elsewhere());
    // What this host sees may be of ranks that sit elsewhere now.
    if (options_.goes_on) sources_.add(0, {.files = {}, .kept = state::list_kept(options_.output)});
  }
  while (pulls_.empty()) {
    Beginning begin = choose();
    leftovers_ = sources_.unfinished();
    // Ranks discard those that this epoch writes again.
    std::erase_if(leftovers_, [&](int64_t step) { return step >= begin.first_iteration; });
    if (!begin.state) return begin;
    if (begin.state_epoch == 0) leave_behind(*begin.state);
    const Status whole = sources_.check(*begin.state, static_cast<uint64_t>(begin.state_epoch));
    if (whole) return begin;
    if (!TRY(fall_back(begin, whole.error()))) return fail(whole.error());
  }
  return std::nullopt;
}

// The newest that all stages can supply.
CheckpointCoordinator::Beginning CheckpointCoordinator::choose() const {
  Beginning begin;
  if (newest_) {
    begin.first_iteration = newest_->manifest.step + 1;
    begin.state = newest_->manifest;
  }
  if (!options_.goes_on) return begin;
  if (auto kept = state::choose_kept(sources_.kept(), plan_, begin.first_iteration)) {
    begin.first_iteration = kept->manifest.step + 1;
    begin.state = std::move(kept->manifest);
    begin.state_epoch = static_cast<int64_t>(kept->epoch);
  }
  return begin;
}

// Where a shard is torn, or missing and no host may be late that has it. False: there is nothing to
// fall back to.
Result<bool> CheckpointCoordinator::fall_back(const Beginning& from, const Error& damage) {
  const bool may_come = damage.code == ErrorCode::kLostPeer && options_.elsewhere;
  if (from.state_epoch != 0 || may_come) return false;
  const int64_t step = from.state->step;
  const std::string& directory = plan_.checkpoint->directory;
  const auto note = [this](const Error& why, const std::string& instead) {
    note_instead(why, instead);
  };
  auto older = state::latest_readable_checkpoint(directory, step, note);
  if (older && *older) {
    TRY(state::check_fits(**older, plan_));
    note_instead(damage, (*older)->folder);
    newest_ = std::move(*older);
    return true;
  }
  return pull_below(step, damage);
}

// False: no other host has one, or none takes part.
Result<bool> CheckpointCoordinator::pull_below(int64_t step, const Error& damage) {
  const auto found = sources_.newest_manifest(step);
  if (!options_.elsewhere || !found) return false;
  note_instead(damage, state::step_folder(plan_.checkpoint->directory, found->step));
  newest_.reset();
  TRY(pull_manifest(*found));
  return true;
}

void CheckpointCoordinator::note_instead(const Error& damage, const std::string& instead) const {
  if (options_.note) options_.note(going_on_from(damage, instead));
}

bool CheckpointCoordinator::has_older(int64_t step) const {
  if (options_.elsewhere && sources_.newest_manifest(step)) return true;
  const auto older =
      state::latest_readable_checkpoint(plan_.checkpoint->directory, step, [](auto&&...) {});
  return older && *older;
}

// Drops shards that only departed datacenters had: no rank that takes part needs them.
void CheckpointCoordinator::leave_behind(state::Manifest& manifest) const {
  std::erase_if(manifest.shards, [&](const state::Shard& shard) {
    const bool gone = !sources_.has(shard, manifest.step) && state::is_left_behind(shard, plan_);
    if (gone && options_.note)
      options_.note(shard.file +
                    ": no host has this shard of a datacenter that takes part no more; "
                    "the run continues without it");
    return gone;
  });
}

// If this host's own folder has a checkpoint, that one counts: a person may have removed a damaged
// newer one here. Else those of the other hosts count.
Status CheckpointCoordinator::look_elsewhere() {
  if (newest_ || !options_.elsewhere || !plan_.checkpoint) return {};
  const auto found = sources_.newest_manifest(
      std::min(options_.below, options_.goes_on ? plan_.run.steps : INT64_MAX));
  const std::string& directory = plan_.checkpoint->directory;
  if (found && !options_.resume && !options_.goes_on) {
    return unusable(fmt::format("{}: an earlier run left a checkpoint of step {} on the host of "
                                "rank {}",
                                directory, found->step, found->rank),
                    "--resume to continue from it, or removing the folder to begin again");
  }
  if (found) return pull_manifest(*found);
  if (!options_.resume || options_.goes_on) return {};
  return unusable(fmt::format("{}: there is no checkpoint to resume from, on any host", directory),
                  "starting from the beginning, without --resume");
}

Status CheckpointCoordinator::pull_manifest(const StateSources::Found& found) {
  auto text = std::make_shared<std::string>();
  const std::string folder = state::step_folder(plan_.checkpoint->directory, found.step);
  pull(
      found.rank,
      {.what = FileKind::kCheckpoint,
       .step = found.step,
       .file = state::kManifestName,
       .bytes = found.bytes},
      [text](std::string_view bytes) -> Status {
        text->append(bytes);
        return {};
      },
      [this, text, folder, found]() -> Status {
        auto manifest = state::parse_manifest_to_resume(
            *text, fmt::format("{}/{} of rank {}", folder, state::kManifestName, found.rank));
        if (!manifest) return pull_instead(found, manifest.error());
        newest_ = {folder, std::move(*manifest)};
        return state::check_fits(*newest_, plan_);
      });
  return {};
}

// Another host has the same manifest, or an older one.
Status CheckpointCoordinator::pull_instead(const StateSources::Found& damaged,
                                           const Error& damage) {
  sources_.forget_manifest(damaged);
  if (const auto same = sources_.newest_manifest(damaged.step + 1);
      same && same->step == damaged.step) {
    if (options_.note)
      options_.note(fmt::format("{}; reading that of rank {}", damage.message, same->rank));
    return pull_manifest(*same);
  }
  if (TRY(pull_below(damaged.step, damage))) return {};
  return fail(damage);
}

// --- checkpoints ---------------------------------------------------------------------------------

// What was refused is as if it had never come: its rank is not what it was, or not the one.
void CheckpointCoordinator::add(int32_t rank, int64_t step, const state::Shard& shard) {
  auto manifest = book_.add(rank, step, shard);
  if (book_.is_missed(step)) return options_.tell(rank, Drop{step});  // it came too late to be told
  if (!manifest) {
    if (options_.note) options_.note(manifest.error().message);
  } else if (*manifest && step == plan_.run.steps) {
    last_ = std::move(**manifest);
  } else if (*manifest) {
    commit(**manifest);
  }
}

void CheckpointCoordinator::commit(const state::Manifest& manifest) {
  committing_[manifest.step] = manifest;
  complete_.insert(manifest.step);
  tell_all(Commit{manifest});
}

Status CheckpointCoordinator::committed(int32_t rank, int64_t step) {
  if (!TRY(book_.committed(rank, step))) return {};
  newest_ = {state::step_folder(plan_.checkpoint->directory, step), std::move(committing_[step])};
  committing_.erase(step);
  // Until all ranks have ended, one may be lost: then the run resumes from the checkpoint before.
  const int64_t keep = plan_.checkpoint->keep;
  tell_all(Retire{step, step == plan_.run.steps ? std::max<int64_t>(keep, 2) : keep});
  return {};
}

// If a shard is missing, the others are removed. If only a manifest is missing, they stay: a host that
// has committed may resume from them. Shards of earlier epochs that never became a checkpoint are
// removed as well, as they may be what fills the disk: else they would stay until the next one exists.
bool CheckpointCoordinator::missed(int64_t step) {
  if (!book_.missed(step)) return false;
  for (const int64_t each : std::exchange(leftovers_, {})) tell_all(Drop{each});
  if (committing_.erase(step) == 0) tell_all(Drop{step});
  return true;
}

void CheckpointCoordinator::all_finished() {
  if (last_) commit(*std::exchange(last_, std::nullopt));
}

// --- files ---------------------------------------------------------------------------------------

Status CheckpointCoordinator::asked(int32_t rank, const FileRequest& wanted) {
  const auto from = sources_.source(wanted, rank);
  if (!from) {
    options_.tell(rank, FilePiece{.id = wanted.id, .error = "no host has it"});
    return {};
  }
  FileRequest passed = wanted;
  passed.id = next_id_++;
  passed_on_[passed.id] = {rank, wanted.id, *from};
  options_.tell(*from, passed);
  return {};
}

Status CheckpointCoordinator::came(int32_t rank, const FilePiece& piece) {
  if (const auto asked = passed_on_.find(piece.id);
      asked != passed_on_.end() && asked->second.from == rank) {
    FilePiece passed = piece;
    passed.id = asked->second.id;
    options_.tell(asked->second.rank, passed);
    passed_on_.erase(asked);
    return {};
  }
  const auto ours = std::find_if(pulls_.begin(), pulls_.end(), [&](const Pull& each) {
    return each.rank == rank && piece.id >= each.window.range().id &&
           piece.id < each.window.end_id();
  });
  if (ours == pulls_.end())
    return failed(fmt::format("rank {} sent a piece of a file that was not asked for", rank));
  TRY(ours->window.add(piece));
  TRY(ours->take({reinterpret_cast<const char*>(piece.bytes.data()), piece.bytes.size()}));
  ask_on(*ours);
  if (!ours->window.done()) return {};
  const auto done = std::move(ours->done);
  pulls_.erase(ours);
  return done();
}

void CheckpointCoordinator::pull(int32_t rank, FileRequest range,
                                 std::function<Status(std::string_view)> take,
                                 std::function<Status()> done) {
  range.id = next_id_;
  pulls_.push_back({rank, PieceWindow(std::move(range)), std::move(take), std::move(done)});
  next_id_ = pulls_.back().window.end_id();
  ask_on(pulls_.back());
}

void CheckpointCoordinator::ask_on(Pull& pull) {
  while (const auto next = pull.window.ask()) options_.tell(pull.rank, *next);
}

// --- the parts of the Trace ----------------------------------------------------------------------

std::string CheckpointCoordinator::fetched_path(int32_t rank) const {
  return rank_trace_path(options_.output, rank) + ".fetched";
}

std::string CheckpointCoordinator::trace_path(int32_t rank) const {
  return std::count(fetched_.begin(), fetched_.end(), rank) > 0
             ? fetched_path(rank)
             : rank_trace_path(options_.output, rank);
}

// What this host sees under the name is the rank's, or it is on another host.
Status CheckpointCoordinator::finished(int32_t rank, const Finished& finished) {
  const FileDigest wanted{finished.trace_bytes, finished.trace_digest};
  const auto here = digest_of_file(rank_trace_path(options_.output, rank));
  if ((here && *here == wanted) || wanted.bytes == 0) return {};
  struct Copy {
    AtomicFile file;
    RunningDigest digest;
  };
  auto copy = std::make_shared<Copy>(Copy{TRY(AtomicFile::create(fetched_path(rank))), {}});
  pull(
      rank, {.what = FileKind::kTrace, .file = "trace", .bytes = wanted.bytes},
      [copy](std::string_view bytes) {
        copy->digest.add(bytes);
        return copy->file.write(bytes);
      },
      [this, copy, wanted, rank]() -> Status {
        if (copy->digest.text() != wanted.digest)
          return failed(fmt::format("rank {}'s part of the Trace is not what it wrote", rank));
        fetched_.push_back(rank);
        return copy->file.commit();
      });
  return {};
}

bool CheckpointCoordinator::take_fetched() {
  std::error_code ec;
  bool all = true;
  for (size_t r = 0; r < plan_.ranks.size(); ++r) {
    const auto rank = static_cast<int32_t>(r);
    if (std::filesystem::exists(fetched_path(rank), ec)) fetched_.push_back(rank);
    all = all && std::filesystem::exists(trace_path(rank), ec);
  }
  return all;
}

void CheckpointCoordinator::clear() const {
  std::error_code ec;
  for (size_t r = 0; r < plan_.ranks.size(); ++r) {
    const auto rank = static_cast<int32_t>(r);
    std::filesystem::remove(rank_trace_path(options_.output, rank), ec);
    std::filesystem::remove(fetched_path(rank), ec);
  }
}

}  // namespace tombolo::state
