#include "perform/state/file_pieces.h"

#include <algorithm>

#include "base/check.h"

namespace tombolo::state {

PieceWindow::PieceWindow(FileRequest range) : range_(std::move(range)), next_id_(range_.id) {
  CHECK(range_.offset >= 0 && range_.bytes >= 0, "{} bytes from {} on", range_.bytes,
        range_.offset);
}

int64_t PieceWindow::end_id() const {
  return range_.id + (range_.bytes + kPieceMax - 1) / kPieceMax;
}

std::optional<FileRequest> PieceWindow::ask() {
  if (asked_ == range_.bytes || sizes_.size() >= kPiecesAhead) return std::nullopt;
  FileRequest next = range_;
  next.id = next_id_++;
  next.offset = range_.offset + asked_;
  next.bytes = std::min(kPieceMax, range_.bytes - asked_);
  asked_ += next.bytes;
  sizes_.push_back(next.bytes);
  return next;
}

Status PieceWindow::add(const FilePiece& piece) {
  if (!piece.error.empty()) return failed(fmt::format("{}: {}", range_.file, piece.error));
  const int64_t due = next_id_ - static_cast<int64_t>(sizes_.size());
  if (sizes_.empty() || piece.id != due ||
      static_cast<int64_t>(piece.bytes.size()) != sizes_.front()) {
    return failed(fmt::format("{}: piece {} of {} bytes came, and piece {} was due", range_.file,
                              piece.id, piece.bytes.size(), due));
  }
  taken_ += sizes_.front();
  sizes_.pop_front();
  return {};
}

Result<link::Payload> PieceFetcher::fetch(FileRequest range) {
  range.id = next_id_;
  PieceWindow window(std::move(range));
  next_id_ = window.end_id();
  link::Payload out;
  out.reserve(static_cast<size_t>(window.range().bytes));
  while (!window.done()) {
    while (const auto next = window.ask()) TRY(say_(*next));
    std::unique_lock lock(mutex_);
    threads_.await(*changed_, lock, kNever, [&] { return stopped_ || !came_.empty(); });
    if (stopped_) return fail(*stopped_);
    const FilePiece piece = std::move(came_.front());
    came_.pop_front();
    lock.unlock();
    if (piece.id < window.range().id) continue;  // of a range that was given up
    TRY(window.add(piece));
    out.insert(out.end(), piece.bytes.begin(), piece.bytes.end());
  }
  return out;
}

void PieceFetcher::take(FilePiece piece) {
  std::lock_guard lock(mutex_);
  came_.push_back(std::move(piece));
  changed_->notify_all();
}

void PieceFetcher::stop(const Error& error) {
  std::lock_guard lock(mutex_);
  if (!stopped_) stopped_ = error;
  changed_->notify_all();
}

}  // namespace tombolo::state
