#include "perform/state/checkpoint_agent.h"

#include "base/file.h"
#include "perform/state/state_snapshot.h"

namespace tombolo::state {
namespace {

// Of checkpoints: those that are kept, one that comes into being, one that was never finished.
constexpr size_t kStepsListed = 8;

Result<std::string> path_of(const StatePlaces& places, int32_t rank, const FileRequest& asked) {
  switch (asked.what) {
    case FileKind::kTrace:
      return rank_trace_path(places.output, rank);
    case FileKind::kKept:
      return state::step_folder(
                 state::kept_folder(places.output, static_cast<uint64_t>(asked.epoch)),
                 asked.step) +
             "/" + asked.file;
    case FileKind::kCheckpoint:
      break;
  }
  if (places.checkpoints.empty()) return failed("there are no checkpoints here");
  return state::step_folder(places.checkpoints, asked.step) + "/" + asked.file;
}

Result<link::Payload> read_piece(const StatePlaces& places, int32_t rank,
                                 const FileRequest& asked) {
  const std::string path = TRY(path_of(places, rank, asked));
  link::Payload bytes(static_cast<size_t>(asked.bytes));
  TRY(read_part(path, asked.offset, bytes));
  return bytes;
}

}  // namespace

std::string rank_trace_path(const std::string& folder, int32_t rank) {
  return fmt::format("{}/trace-rank-{}.jsonl", folder, rank);
}

FilePiece answer(const StatePlaces& places, int32_t rank, const FileRequest& asked) {
  auto bytes = read_piece(places, rank, asked);
  if (bytes) return {.id = asked.id, .error = {}, .bytes = std::move(*bytes)};
  return {.id = asked.id, .error = bytes.error().message, .bytes = {}};
}

CheckpointAgent::CheckpointAgent(StatePlaces places, int32_t rank, Say say, Threads& threads)
    : places_(std::move(places)),
      rank_(rank),
      say_(std::move(say)),
      threads_(threads),
      changed_(threads.signal()),
      thread_(threads.start([this] { work(); })) {}

CheckpointAgent::~CheckpointAgent() { finish(); }

Inventory CheckpointAgent::take_stock(bool fresh) const {
  Inventory out;
  if (!places_.checkpoints.empty())
    out.files = state::list_checkpoints(places_.checkpoints, kStepsListed);
  if (fresh) {
    state::remove_kept(places_.output);
  } else {
    out.kept = state::list_kept(places_.output, rank_);
  }
  return out;
}

Status CheckpointAgent::prepare(bool takes_checkpoints) {
  TRY(check_writable(places_.output));
  if (!takes_checkpoints) return {};
  TRY(check_writable(places_.checkpoints));
  if (!places_.run.empty() && !lock_)
    lock_.emplace(TRY(CheckpointLock::take(places_.checkpoints, places_.run, threads_)));
  return {};
}

void CheckpointAgent::take(Order order) {
  std::lock_guard lock(mutex_);
  if (over_) return;
  orders_.push_back(std::move(order));
  changed_->notify_all();
}

void CheckpointAgent::finish() {
  {
    std::lock_guard lock(mutex_);
    over_ = true;
    changed_->notify_all();
  }
  thread_.reset();
}

void CheckpointAgent::work() {
  while (true) {
    std::unique_lock lock(mutex_);
    threads_.await(*changed_, lock, kNever, [&] { return over_ || !orders_.empty(); });
    if (orders_.empty()) return;
    const Order order = std::move(orders_.front());
    orders_.pop_front();
    lock.unlock();
    const Status done = std::visit([&](const auto& each) { return carry_out(each); }, order);
    if (!done) static_cast<void>(say_(Failure{done.error()}));
  }
}

Status CheckpointAgent::carry_out(const Commit& commit) {
  if (places_.checkpoints.empty()) return failed("a checkpoint of a Plan that has none");
  const int64_t step = commit.manifest.step;
  const Status done = state::commit_checkpoint(places_.checkpoints, commit.manifest, rank_);
  const bool is_missed = !done && done.error().code == ErrorCode::kUnusable;  // the disk is full
  if (!done && !is_missed) return done;
  // Who cannot be told is gone, which the other threads notice.
  static_cast<void>(is_missed ? say_(Missed{step, done.error()}) : say_(Committed{step}));
  return {};
}

Status CheckpointAgent::carry_out(const Drop& drop) {
  if (!places_.checkpoints.empty()) state::discard_step(places_.checkpoints, drop.step);
  return {};
}

Status CheckpointAgent::carry_out(const Retire& retire) {
  if (!places_.checkpoints.empty())
    state::retire_checkpoints(places_.checkpoints, retire.step, retire.keep);
  return {};
}

Status CheckpointAgent::carry_out(const FileRequest& asked) {
  static_cast<void>(say_(answer(places_, rank_, asked)));
  return {};
}

}  // namespace tombolo::state
