// What launcher and ranks say to each other, over the same Endpoint that carries tensors.
//
//   rank     -> launcher   hello, inventory, unreached*, ready, progress*, evaluation*, shard*,
//                          committed*, missed*, links*, finished | failure
//   launcher -> rank       survey, start, density*, meet*, go, recorded*, commit*, drop*, retire*,
//                          over | stop
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
#include "perform/join/dialling.h"
#include "perform/kernels/activity.h"
#include "perform/link/message.h"
#include "perform/observe/link_report.h"
#include "perform/stage/iteration_report.h"
#include "perform/state/state_message.h"
#include "perform/trust/credentials.h"

namespace tombolo::join {

inline constexpr link::Tag kControlTag{0, 0};

// I am there, and my neighbours reach me at this address.
struct Hello {
  static constexpr const char* kKind = "hello";
  int64_t pid = 0;
  std::string address;  // "10.77.1.2:40123"
  int32_t reach = 0;    // Reach (dialling.h), as the rank sees it, then as the launcher does
};
// The Plan, the addresses of all ranks, and where to begin.
struct Start {
  static constexpr const char* kKind = "start";
  Value plan;
  std::vector<std::string> addresses;  // by rank
  std::vector<int32_t> reach;          // by rank; empty: all can be reached
  int32_t splice_port = 0;             // of the launcher's host, if neither of two can be reached
  int64_t epoch = 0;                   // of the run; shards carry it
  int64_t first_iteration = 1;
  std::optional<state::Manifest> state;  // all begin with it; left out: from the beginning
  int64_t state_epoch = 0;               // in which it was kept; 0: it is of a checkpoint
  bool keep = false;                     // leaves its state when stopped (state_snapshot.h)
};
// From a spare (spare.h): I wait for a vacant rank of this datacenter; empty: of any. Or for this rank,
// which was mine: before others of the datacenter, or alone where no datacenter is named.
struct Waiting {
  static constexpr const char* kKind = "waiting";
  std::string datacenter;
  int32_t rank = -1;  // -1: whichever is free
};
// To a spare: this rank is vacant, take it.
struct VacantRank {
  static constexpr const char* kKind = "seat";
  int32_t rank = 0;
};
// I failed to reach this neighbour that way (dialling.h).
struct Unreached {
  static constexpr const char* kKind = "unreached";
  int32_t peer = 0;
  Dialling dialling = Dialling::kLowerCalls;
  std::string reason;
};
// Try to reach this neighbour that way from now on; it receives the same about you.
struct Meet {
  static constexpr const char* kKind = "meet";
  int32_t peer = 0;
  Dialling dialling = Dialling::kLowerCalls;
  int32_t splice_port = 0;  // of the launcher's host, for a splice
};
// Kernels are loaded, links are up.
struct Ready {
  static constexpr const char* kKind = "ready";
};
// All ranks are ready: time 0 of the Trace.
struct Go {
  static constexpr const char* kKind = "go";
  int64_t origin_ns = 0;
};
struct ProgressReport {
  static constexpr const char* kKind = "progress";
  stage::IterationReport report;
};
struct EvaluationReport {
  static constexpr const char* kKind = "evaluation";
  stage::Evaluation evaluation;
};
// All that ranks report up to this step is recorded: after a loss of the launcher a rank repeats only
// what comes after it (unrecorded_reports.h).
struct Recorded {
  static constexpr const char* kKind = "recorded";
  int64_t step = 0;
};
// How my links are doing, and what my threads; every second or so. Now and then, with which
// certificate my host would connect.
struct LinksReport {
  static constexpr const char* kKind = "links";
  std::vector<observe::LinkReport> links;
  kernels::Activity::Report activity = {};
  std::optional<trust::CertificateFacts> certificate = {};
};
// From this iteration on your sparse updates have this share of all numbers. A rank that hears of it too
// late uses it from its next update on: updates say themselves what they hold.
struct DensityOrder {
  static constexpr const char* kKind = "density";
  int64_t first_iteration = 1;
  double density = 0.01;
};
// Asks a rank whether it can run these numbers of microbatches, one per pipeline, from that iteration on. A rank that
// can does not begin the iteration before the verdict (stage/batch_schedule.h).
struct BatchOrder {
  static constexpr const char* kKind = "batch";
  int64_t order = 1;  // counts within an epoch
  int64_t first_iteration = 1;
  std::vector<int64_t> microbatches;
};
// Whether it can: it has not begun that iteration, and nothing is wrong with these numbers.
struct BatchAnswer {
  static constexpr const char* kKind = "batch_answer";
  int64_t order = 1;
  bool in_time = false;
  std::string unusable = {};  // what is wrong; then it is not in time either
};
// Whether the order holds: all ranks could. Else nothing changes.
struct BatchVerdict {
  static constexpr const char* kKind = "batch_verdict";
  int64_t order = 1;
  bool holds = false;
};
// All ranks stop, and this is why.
struct Stop {
  static constexpr const char* kKind = "stop";
  std::string reason;
  bool again = false;  // the run continues with a new epoch: its state is wanted
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
    std::variant<Hello, state::Survey, state::Inventory, Start, Ready, Go, ProgressReport,
                 EvaluationReport, state::ShardReport, state::Commit, state::Committed,
                 state::Retire, state::FileRequest, state::FilePiece, LinksReport, state::Finished,
                 state::Failure, state::Over, Stop, BeatReport, LeaseGrant, Unreached, Meet,
                 Waiting, VacantRank, state::Missed, state::Drop, Recorded, DensityOrder,
                 BatchOrder, BatchAnswer, BatchVerdict>;

// What is said about files, as one of them.
ControlMessage control_message(const state::StateMessage& message);

link::Payload encode(const ControlMessage& message);
Result<ControlMessage> decode(const link::Payload& payload);

}  // namespace tombolo::join
