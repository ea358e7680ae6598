// What launcher and ranks tell each other about files: checkpoints, snapshots, parts of the Trace.
//
//   launcher -> rank       survey, commit, drop, retire, over
//   rank     -> launcher   inventory, shard, committed, missed, finished, failure
//   both ways              request, piece (file_pieces.h)
//
// How they travel join/control_message.h says.
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

// All have come: what of earlier attempts is on your host?
struct Survey {
  static constexpr const char* kKind = "survey";
  std::string output;       // folder of this rank's files, unless its host says another
  std::string checkpoints;  // of its own ranks; empty: the Plan has none
  bool fresh = true;        // the run begins: what was kept of another one goes
  std::string run = {};     // what it is called in the lock of its checkpoints
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
// My part of it could not be written, or the manifest beside it: it will not exist everywhere.
struct Missed {
  static constexpr const char* kKind = "missed";
  int64_t step = 0;
  Error error;
};
// Another rank could not write its shard of it: yours is of no use.
struct Drop {
  static constexpr const char* kKind = "drop";
  int64_t step = 0;
};
// It exists everywhere: so many are enough, it included.
struct Retire {
  static constexpr const char* kKind = "retire";
  int64_t step = 0;
  int64_t keep = 1;
};
// Asks for a piece of a file: a rank for one of any rank that has it, the launcher for one of yours.
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
// All steps are done and the Trace is written: so many bytes, and these.
struct Finished {
  static constexpr const char* kKind = "finished";
  int64_t trace_bytes = 0;
  std::string trace_digest;
};
// All ranks have finished: it may end.
struct Over {
  static constexpr const char* kKind = "over";
  std::vector<int32_t> fetched;  // ranks of whose parts of the Trace the launcher has a copy
};
// I give up, and this is why.
struct Failure {
  static constexpr const char* kKind = "failure";
  Error error;
  int64_t damaged = 0;  // the step of a checkpoint: what I am to begin with is not what was written
};

using StateMessage = std::variant<Survey, Inventory, ShardReport, Commit, Committed, Missed, Drop,
                                  Retire, FileRequest, FilePiece, Finished, Failure, Over>;

}  // namespace tombolo::state
