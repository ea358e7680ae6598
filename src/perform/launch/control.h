// What launcher and ranks say to each other, over the same Endpoint that carries tensors.
//
//   rank     -> launcher   hello, ready, progress*, evaluation*, shard*, links*, finished | failure
//   launcher -> rank       start, go, over | stop
//
// and all the time, from hello to the end, beats and leases (control/lease.h).
//
// The launcher has the rank after the last. A message is JSON with one key, its kind:
// {"progress": {"iteration": 3, ...}}. All have one tag: they arrive in the order they were sent.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/fields.h"
#include "base/result.h"
#include "perform/control/lease.h"
#include "perform/launch/telemetry.h"
#include "perform/link/message.h"
#include "perform/runtime/checkpoint.h"
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
// The Plan, everybody's address, and where to begin.
struct Start {
  static constexpr const char* kKind = "start";
  Value plan;
  std::vector<std::string> addresses;  // by rank
  std::vector<int32_t> reach;          // by rank; empty: all can be reached
  int32_t splice_port = 0;             // of the launcher's host, where neither of two can be
  std::string output;                  // folder of this rank's part of the Trace
  int64_t first_iteration = 1;
  std::string resume;  // the checkpoint's directory; empty: from the beginning
  std::string keep;    // where to leave the state when stopped (kept_state.h); empty: nowhere
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
// How my links are doing; every second or so.
struct LinksReport {
  static constexpr const char* kKind = "links";
  std::vector<LinkReport> links;
};
// All steps are done and the Trace is written.
struct Finished {
  static constexpr const char* kKind = "finished";
};
// I give up, and this is why.
struct Failure {
  static constexpr const char* kKind = "failure";
  Error error;
};
// All ranks have finished: it may end.
struct Over {
  static constexpr const char* kKind = "over";
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
    std::variant<Hello, Start, Ready, Go, ProgressReport, EvaluationReport, ShardReport,
                 LinksReport, Finished, Failure, Over, Stop, BeatReport, LeaseGrant>;

link::Payload encode(const ControlMessage& message);
Result<ControlMessage> decode(const link::Payload& payload);

}  // namespace tombolo::launch
