// What launcher and ranks tell each other about files: checkpoints, snapshots, parts of the Trace.
//
//   launcher -> rank       survey, commit, drop, retire, over
//   rank     -> launcher   inventory, shard, committed, missed, finished, failure
//   both ways              request, piece (file_pieces.h)
//
// join/control_message.h says how they travel.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/fields.h"
#include "base/result.h"
#include "perform/link/message.h"
#include "perform/state/checkpoint.h"
#include "perform/state/state_snapshot.h"

namespace tombolo::state {

// All ranks have joined: which files of earlier attempts are on your host?
struct Survey {
  static constexpr const char* kKind = "survey";
  std::string output;       // folder of this rank's files, unless its host sets another
  std::string checkpoints;  // of its own ranks; empty: the Plan has none
  bool fresh = true;        // the run begins: kept states of another run are removed
  std::string run = {};     // its name in the lock of its checkpoints
};
struct Inventory {
  static constexpr const char* kKind = "inventory";
  std::vector<StepFile> files;  // of checkpoints
  std::vector<KeptShard> kept;  // this rank's
};
struct ShardReport {
  static constexpr const char* kKind = "shard";
  int64_t step = 0;
  Shard shard;
};
// The shards are all there: make the checkpoint exist on your host, and say so.
struct Commit {
  static constexpr const char* kKind = "commit";
  Manifest manifest;
};
struct Committed {
  static constexpr const char* kKind = "committed";
  int64_t step = 0;
};
// My shard or my manifest could not be written: the checkpoint will not exist everywhere.
struct Missed {
  static constexpr const char* kKind = "missed";
  int64_t step = 0;
  Error error;
};
// Another rank could not write its shard of this checkpoint: remove yours.
struct Drop {
  static constexpr const char* kKind = "drop";
  int64_t step = 0;
};
// The checkpoint exists everywhere: keep `keep` checkpoints, this one included.
struct Retire {
  static constexpr const char* kKind = "retire";
  int64_t step = 0;
  int64_t keep = 1;
};
// Asks for a piece of a file: a rank asks for a file of any rank, the launcher for one of yours.
enum class FileKind { kCheckpoint, kKept, kTrace };
constexpr auto enum_names(FileKind) {
  return std::to_array<EnumName<FileKind>>({{FileKind::kCheckpoint, "checkpoint"},
                                            {FileKind::kKept, "kept"},
                                            {FileKind::kTrace, "trace"}});
}
inline constexpr int64_t kPieceMax = 256 * 1024;  // bytes
struct FileRequest {
  static constexpr const char* kKind = "request";
  int64_t id = 0;  // comes back with the piece
  FileKind what = FileKind::kCheckpoint;
  int64_t epoch = 0;  // of kept states
  int64_t step = 0;   // of both
  std::string file;   // its name within the step's folder; of a Trace for messages only
  int64_t offset = 0;
  int64_t bytes = 0;
};
struct FilePiece {
  static constexpr const char* kKind = "piece";
  int64_t id = 0;
  std::string error;  // why there are no bytes
  link::Payload bytes = {};
};
// All steps are done and the Trace is written: its size in bytes and its digest.
struct Finished {
  static constexpr const char* kKind = "finished";
  int64_t trace_bytes = 0;
  std::string trace_digest;
};
// All ranks have finished: the rank may end.
struct Over {
  static constexpr const char* kKind = "over";
  std::vector<int32_t> fetched;  // ranks whose part of the Trace the launcher has copied
};
// I give up, and this is why.
struct Failure {
  static constexpr const char* kKind = "failure";
  Error error;
  int64_t damaged = 0;  // step of the checkpoint to begin with, if it is not as it was written
};

using StateMessage = std::variant<Survey, Inventory, ShardReport, Commit, Committed, Missed, Drop,
                                  Retire, FileRequest, FilePiece, Finished, Failure, Over>;

}  // namespace tombolo::state
