// A `tombolo-worker`, which has LibTorch and the weights, as a backend at the other end of a line
// (worker_line.h): a child process, or the rank of a run that answers while it waits.
//
// With a decode worker (handover/decode_worker.h) each answer of more than one token is shared: the worker
// here reads the prompt and gives the first token, the other one gives those after it. Both admit a prompt,
// or it is refused. If either ends, this backend ends: answers under way are lost (StepKind::kLost), nothing
// is admitted any more, and alive() says so. Whether another one may take this one's place:
//
//   the child ends                                no: it has said why on standard error
//   the rank ends, or its run restarts            yes
//   the decode worker ends, or its link is silent yes (5 s, and 3 s of grace: handover/decode_link.h)
//   one of the two says nothing for `silence`     yes: they are asked for a sign of life once a second
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/clock.h"
#include "perform/generate/front_message.h"
#include "perform/handover/decode_front.h"
#include "ui/serve/backend.h"
#include "ui/serve/worker_line.h"

namespace tombolo::serve {

struct WorkerOptions {
  std::string run = {};  // path of a run's socket; empty: a child, as the others say
  std::string program;   // path of tombolo-worker; empty: the one next to this program
  std::string weights;   // folder
  int64_t context = 0;   // 0: the model's
  int64_t kv_bytes = int64_t{1} << 30;
  int64_t requests = 16;
  int64_t threads = 1;
  std::optional<generate::DecodePlace> decode = {};  // by address, not by name
  SimDuration greeting{10'000'000'000};  // of a run, which greets as soon as it waits for a message
  SimDuration silence{30'000'000'000};   // of a rank, and of a decode worker
};

class WorkerBackend final : public Backend {
 public:
  // Returns when the worker has its weights. Fails if the child ends before (it has said why on
  // standard error), if a run does not greet in time, such as one that computes without a gap, and
  // when `stop` is set.
  static Result<std::unique_ptr<WorkerBackend>> start(const WorkerOptions& options,
                                                      const std::atomic<bool>& stop);
  ~WorkerBackend() override;

  const generate::WorkerFacts& facts() const { return facts_; }
  tl::expected<std::unique_ptr<Answer>, generate::Refused> admit(
      generate::Request request) override;
  bool alive() const override;
  std::string end() const override;
  bool may_return() const override;
  void hang_up() override;

 private:
  class Stream;
  // What came for one request and was not read yet. Bounded: a worker sends no more tokens than
  // were asked for.
  struct Inbox {
    std::deque<Step> steps;
    std::optional<generate::Refused> refused;
    bool admitted = false;
    // Of a shared answer: the decode worker has room, and what it said before the first token was here.
    bool shared = false, has_room = false, has_first = false;
    std::deque<Step> early = {};
  };

  WorkerBackend() = default;
  Status open_line(const WorkerOptions& options, const std::atomic<bool>& stop);
  Status call_decode_worker(const generate::DecodePlace& place);
  Status link_both(const generate::DecodePlace& place, SimTime until,
                   const std::atomic<bool>& stop);
  // Runs until the worker ends, or `beats_max` heartbeats have no answer.
  void listen(int64_t beats_max);
  bool beat(int64_t beats_max);  // false: this backend has ended
  void take(const generate::WorkerMessage& message);
  void take_decoded(const generate::WorkerMessage& message);
  void end_all(const std::string& why, bool may_return = true);
  bool ask(generate::Request request, bool Inbox::*answered);
  Step next(int64_t id, SimDuration patience);
  void forget(int64_t id);

  SystemClock clock_;
  generate::WorkerFacts facts_;
  std::unique_ptr<WorkerLine> line_;
  mutable std::mutex mutex_;
  std::condition_variable news_;
  std::map<int64_t, Inbox> inboxes_;
  int64_t next_id_ = 0;
  int64_t line_beats_ = 0;                // without an answer; of the listener
  std::atomic<int64_t> decode_beats_{0};  // the same of the decode worker
  bool alive_ = false, may_return_ = true;
  std::string end_;
  std::thread listener_;
  std::unique_ptr<handover::DecodeFront> decode_;  // calls this object: gone first
};

}  // namespace tombolo::serve
