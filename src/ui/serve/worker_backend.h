// A `tombolo-worker` as a backend, which has LibTorch and the weights, at the other end of a socket
// (generate/front_message.h): a child process (`generate`) that does nothing else, or the rank of a
// run that answers while it waits.
//
// With a decode worker (handover/decode_worker.h) each answer of more than one token is shared: the worker
// here reads the prompt and gives the first token, the other one gives those behind it. Both admit a prompt,
// or it is refused. Where either ends, all is over.
//
// The child ends with this object, or when this process does. Where it ends before, all answers
// fail, nothing is admitted any more, and alive() says so.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "perform/generate/front_message.h"
#include "perform/handover/decode_front.h"
#include "ui/serve/backend.h"

namespace tombolo::serve {

struct WorkerOptions {
  std::string run = {};  // path of a run's socket; empty: a child, as the others say
  std::string program;   // path of tombolo-worker; empty: the one beside this program
  std::string weights;   // folder
  int64_t context = 0;   // 0: the model's
  int64_t kv_bytes = int64_t{1} << 30;
  int64_t requests = 16;
  int64_t threads = 1;
  std::optional<generate::DecodePlace> decode = {};  // by address, not by name
};

class WorkerBackend final : public Backend {
 public:
  // Returns when the weights are there. Fails where the child ends before, which has said why on
  // standard error, and where a run does not greet within 10 s, as one that computes without a gap.
  static Result<std::unique_ptr<WorkerBackend>> start(const WorkerOptions& options);
  ~WorkerBackend() override;

  const generate::WorkerFacts& facts() const { return facts_; }
  tl::expected<std::unique_ptr<Answer>, generate::Refused> admit(
      generate::Request request) override;
  bool alive() const override;
  std::string end() const;  // why it is not alive

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

  WorkerBackend(int socket, int pid) : socket_(socket), pid_(pid) {}
  static Result<int> connect_to(const std::string& path);
  static Result<std::pair<int, int>> spawn(const WorkerOptions& options);  // socket and process
  Status greet();
  Result<generate::WorkerMessage> hear_one();
  Status link_decode_worker(const generate::DecodePlace& place);
  Error ended_early();
  void listen();  // until the worker ends
  void take(const generate::WorkerMessage& message);
  void take_decoded(const generate::WorkerMessage& message);
  void end_all(const std::string& why);
  bool ask(generate::Request request, bool Inbox::*answered);
  bool say(const generate::FrontMessage& message);
  Step next(int64_t id, SimDuration patience);
  void forget(int64_t id);

  int socket_ = -1;
  int pid_ = -1;
  generate::WorkerFacts facts_;
  generate::Lines lines_;
  mutable std::mutex mutex_;
  std::mutex writing_;
  std::condition_variable news_;
  std::map<int64_t, Inbox> inboxes_;
  int64_t next_id_ = 0;
  bool alive_ = false;
  std::string end_;
  std::thread listener_;
  std::unique_ptr<handover::DecodeFront> decode_;  // calls this object: gone first
};

}  // namespace tombolo::serve
