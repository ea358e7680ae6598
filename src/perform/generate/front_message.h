// Messages between a front, which knows texts and users, and a worker, which knows tensors:
// one JSON object a line, over a socket whose input neither side trusts.
//
//   worker  {"kind":"ready","facts":{...}}             once, when its weights are there
//   front   {"kind":"request","id":7,"tokens":[...],"tokens_max":16,...}
//   worker  {"kind":"admitted","id":7}  or  {"kind":"refused","id":7,"why":"busy","message":"..."}
//   worker  {"kind":"token","id":7,"token":42} ... {"kind":"stop","id":7}
//   front   {"kind":"cancel","id":7}                   its reader has left
//   front   {"kind":"beat","id":0}                     liveness check
//   worker  {"kind":"beat"}
//
// Where a decode worker finishes the answers, the front tells the worker where it is, once
//
//   front   {"kind":"decode","id":0,"decode":{"host":"10.0.0.2","port":29610,...}}
//   worker  {"kind":"linked"}  or  {"kind":"failed","message":"..."}
//
// and sends both the same request, each for its share (engine.h). The decode worker uses these
// messages as well; keys and values go from the worker to it (kv_rows.h).
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fields.h"
#include "perform/generate/engine.h"

namespace tombolo::generate {

inline constexpr size_t kLineMax = size_t{4} << 20;  // a prompt of 400,000 tokens

enum class FrontWord { kRequest, kCancel, kDecode, kBeat };
constexpr auto enum_names(FrontWord) {
  return std::to_array<EnumName<FrontWord>>({{FrontWord::kRequest, "request"},
                                             {FrontWord::kCancel, "cancel"},
                                             {FrontWord::kDecode, "decode"},
                                             {FrontWord::kBeat, "beat"}});
}

// Where a decode worker is, and how it is reached; both are of one user on one host.
struct DecodePlace {
  std::string host;
  int64_t port = 0;
  std::string token;             // 32 hexadecimal digits; a secret
  std::string credentials = {};  // folder: TLS; empty: none
  bool plain_tcp = false;        // to other hosts, too
  int64_t connections = 4;       // that carry keys and values side by side

  bool operator==(const DecodePlace&) const = default;
};

struct FrontMessage {
  FrontWord kind = FrontWord::kRequest;
  Request request;  // of kCancel the id alone
  std::optional<DecodePlace> decode = {};

  bool operator==(const FrontMessage&) const = default;
};

// What a front must know of the model.
struct WorkerFacts {
  int64_t vocabulary = 0;
  int64_t positions = 0;  // prompt and answer together
  int64_t weight_bytes = 0;
  int64_t kv_bytes_per_token = 0;
  int64_t kv_bytes_max = 0;
  std::string weights_digest = {};  // equal where the weights are (shard.h); empty: not known

  bool operator==(const WorkerFacts&) const = default;
};

enum class WorkerWord {
  kReady,
  kLinked,
  kAdmitted,
  kRefused,
  kToken,
  kStop,
  kLength,
  kFailed,
  kBeat
};
constexpr auto enum_names(WorkerWord) {
  return std::to_array<EnumName<WorkerWord>>({{WorkerWord::kReady, "ready"},
                                              {WorkerWord::kLinked, "linked"},
                                              {WorkerWord::kAdmitted, "admitted"},
                                              {WorkerWord::kRefused, "refused"},
                                              {WorkerWord::kToken, "token"},
                                              {WorkerWord::kStop, "stop"},
                                              {WorkerWord::kLength, "length"},
                                              {WorkerWord::kFailed, "failed"},
                                              {WorkerWord::kBeat, "beat"}});
}
struct WorkerMessage {
  WorkerWord kind = WorkerWord::kReady;
  int64_t id = 0;
  int64_t token = 0;                 // of kToken
  Refusal why = Refusal::kBusy;      // of kRefused
  std::string message = {};          // of kRefused and kFailed
  std::optional<WorkerFacts> facts;  // of kReady

  bool operator==(const WorkerMessage&) const = default;
};
WorkerMessage message_of(const EngineEvent& event);
// What a message adds to the answer with its id; nothing where it is about something else.
std::optional<StepKind> step_of(WorkerWord word);

// Without the line feed.
std::string to_line(const FrontMessage& message);
std::string to_line(const WorkerMessage& message);
// Fails on a malformed message.
Result<FrontMessage> parse_front(std::string_view line);
Result<WorkerMessage> parse_worker(std::string_view line);

// Bytes as they come, into lines. Fails, and stays so, where one is longer than kLineMax.
class Lines {
 public:
  Status add(std::string_view bytes);
  std::optional<std::string> next();

 private:
  std::string pending_;
  size_t taken_ = 0;  // of pending_
};

}  // namespace tombolo::generate
