// Files that travel over the control links, a piece at a time: shards that a host lacks, a
// manifest, a rank's part of the Trace.
//
// A rank that wants a file asks the launcher, which asks a rank that has it; pieces return the same
// way. Pieces are requested ahead, so that latency costs less, but at most kPiecesAhead: bytes in
// flight stay bounded however large the file is, and heartbeats on the same link wait for a few
// pieces at most.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "perform/state/state_message.h"

namespace tombolo::state {

inline constexpr int kPiecesAhead = 4;

// A range of one file, on its way. Pieces of it come in the order in which they were asked for.
// Pure.
class PieceWindow {
 public:
  // `range`: the file, and from where to where; its id is that of the first piece.
  explicit PieceWindow(FileRequest range);

  // The next piece to ask for now; nothing while enough are on their way, or when all are asked
  // for.
  std::optional<FileRequest> ask();
  // Fails if it is not the piece that is due, is not whole, or carries an error instead of bytes.
  Status add(const FilePiece& piece);
  bool done() const { return taken_ == range_.bytes; }
  const FileRequest& range() const { return range_; }
  // The pieces have the ids from the range's id on, up to this one exclusive.
  int64_t end_id() const;

 private:
  FileRequest range_;
  int64_t asked_ = 0;          // bytes
  int64_t taken_ = 0;          // bytes
  std::deque<int64_t> sizes_;  // of the pieces on their way
  int64_t next_id_;
};

// A rank's side: waits for the pieces of what it asks for.
class PieceFetcher {
 public:
  using Say = std::function<Status(const StateMessage&)>;
  PieceFetcher(Say say, Threads& threads)
      : say_(std::move(say)), threads_(threads), changed_(threads.signal()) {}

  // One caller at a time. Blocks until all is there, or stop().
  Result<link::Payload> fetch(FileRequest range);
  // From the thread that listens.
  void take(FilePiece piece);
  // fetch() fails with this error, now and later.
  void stop(const Error& error);

 private:
  const Say say_;
  Threads& threads_;
  const std::unique_ptr<Signal> changed_;
  int64_t next_id_ = 1;
  std::mutex mutex_;
  std::deque<FilePiece> came_;
  std::optional<Error> stopped_;
};

}  // namespace tombolo::state
