// What launcher and ranks say to each other, over the same Endpoint that carries tensors.
//
//   rank     -> launcher   hello, inventory, unreached*, ready, progress*, evaluation*, shard*,
//                          committed*, missed*, links*, finished | failure
//   launcher -> rank       survey, start, meet*, go, commit*, drop*, retire*, over | stop
//
//   a spare  -> launcher   waiting;   launcher -> a spare   seat | over | stop
//
// and all the time, from before hello to the end, beats and leases (control/lease.h), and requests
// for pieces of files and the pieces, in both directions (file_pieces.h). The answer to the first
// beat says the epoch, which the rank's links to others carry from then on.
//
// The launcher has the rank after the last. A message is JSON with one key, its kind:
// {"progress": {"iteration": 3, ...}}; a piece of a file has its bytes behind that and a newline.
// All have one tag: they arrive in the order they were sent.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/fields.h"
#include "base/result.h"
#include "perform/control/lease.h"
#include "perform/launch/pairings.h"
#include "perform/launch/telemetry.h"
#include "perform/link/message.h"
#include "perform/runtime/activity.h"
#include "perform/runtime/checkpoint.h"
#include "perform/runtime/kept_state.h"
#include "perform/runtime/perform.h"

namespace tombolo::launch {

inline constexpr link::Tag kControlTag{0, 0};

// I am there, and my neighbours reach me at this address.
struct Hello {
  static constexpr const char* kKind = "hello";
  int64_t pid = 0;
  std::string address;  // "10.77.1.2:40123"
  int32_t reach = 0;    // Reach (reach.h), as the rank sees it, then as the launcher does
};
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
  std::vector<runtime::StepFile> files;  // of checkpoints
  std::vector<runtime::KeptShard> kept;  // this rank's
};
// The Plan, everybody's address, and where to begin.
struct Start {
  static constexpr const char* kKind = "start";
  Value plan;
  std::vector<std::string> addresses;  // by rank
  std::vector<int32_t> reach;          // by rank; empty: all can be reached
  int32_t splice_port = 0;             // of the launcher's host, where neither of two can be
  int64_t epoch = 0;                   // of the run; shards carry it
  int64_t first_iteration = 1;
  std::optional<runtime::Manifest> state;  // all begin with it; left out: from the beginning
  int64_t state_epoch = 0;                 // in which it was kept; 0: it is of a checkpoint
  bool keep = false;                       // leaves its state when stopped (kept_state.h)
};
// From a spare (spare.h): I wait for a seat of this datacenter; empty: of any. Or for this one alone.
struct Waiting {
  static constexpr const char* kKind = "waiting";
  std::string datacenter;
  int32_t rank = -1;  // -1: whichever is free
};
// To a spare: this rank's seat is free, take it.
struct VacantSeat {
  static constexpr const char* kKind = "seat";
  int32_t rank = 0;
};
// I tried in vain to reach this neighbour that way (pairings.h).
struct Unreached {
  static constexpr const char* kKind = "unreached";
  int32_t peer = 0;
  Way way = Way::kLowerCalls;
  std::string reason;
};
// Try to reach this neighbour that way from now on; it is told the same of you.
struct Meet {
  static constexpr const char* kKind = "meet";
  int32_t peer = 0;
  Way way = Way::kLowerCalls;
  int32_t splice_port = 0;  // of the launcher's host, for a splice
};
// Kernels are loaded, links are up.
struct Ready {
  static constexpr const char* kKind = "ready";
};
// Everybody is ready: time 0 of the Trace.
struct Go {
  static constexpr const char* kKind = "go";
  int64_t origin_ns = 0;
};
struct ProgressReport {
  static constexpr const char* kKind = "progress";
  runtime::IterationReport report;
};
struct EvaluationReport {
  static constexpr const char* kKind = "evaluation";
  runtime::Evaluation evaluation;
};
struct ShardReport {
  static constexpr const char* kKind = "shard";
  int64_t step = 0;
  runtime::Shard shard;
};
// The shards are all there: make the checkpoint exist on your host, and say so.
struct Commit {
  static constexpr const char* kKind = "commit";
  runtime::Manifest manifest;
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
// Somebody's shard of it could not be written: yours is of no use.
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
// A piece of a file, please. From a rank: of somebody's that has it; from the launcher: of yours.
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
// How my links are doing, and what my threads; every second or so. Now and then, with which
// certificate my host would connect.
struct LinksReport {
  static constexpr const char* kKind = "links";
  std::vector<LinkReport> links;
  runtime::Activity::Report activity = {};
  std::optional<trust::CertificateFacts> certificate = {};
};
// All steps are done and the Trace is written: so many bytes, and these.
struct Finished {
  static constexpr const char* kKind = "finished";
  int64_t trace_bytes = 0;
  std::string trace_digest;
};
// I give up, and this is why.
struct Failure {
  static constexpr const char* kKind = "failure";
  Error error;
  int64_t damaged = 0;  // the step of a checkpoint: what I am to begin with is not what was written
};
// All ranks have finished: it may end.
struct Over {
  static constexpr const char* kKind = "over";
  std::vector<int32_t> fetched;  // ranks of whose parts of the Trace the launcher has a copy
};
// Everybody stops, and this is why.
struct Stop {
  static constexpr const char* kKind = "stop";
  std::string reason;
  bool again = false;  // the run goes on with a new epoch: its state is wanted
};
struct BeatReport {
  static constexpr const char* kKind = "beat";
  control::Beat beat;
};
struct LeaseGrant {
  static constexpr const char* kKind = "lease";
  control::Grant grant;
};

using ControlMessage =
    std::variant<Hello, Survey, Inventory, Start, Ready, Go, ProgressReport, EvaluationReport,
                 ShardReport, Commit, Committed, Retire, FileRequest, FilePiece, LinksReport,
                 Finished, Failure, Over, Stop, BeatReport, LeaseGrant, Unreached, Meet, Waiting,
                 VacantSeat, Missed, Drop>;

link::Payload encode(const ControlMessage& message);
Result<ControlMessage> decode(const link::Payload& payload);

}  // namespace tombolo::launch
