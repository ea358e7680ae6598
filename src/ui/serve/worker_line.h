// The line to a `tombolo-worker` (generate/front_message.h): to a child process (`generate`) that does
// nothing else, or to the rank of a run that answers while it waits.
//
// One thread hears; any thread may say something or hang up.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/clock.h"
#include "perform/generate/front_message.h"

namespace tombolo::serve {

class WorkerLine {
 public:
  struct Child {
    std::string program;  // path of tombolo-worker; empty: the one next to this program
    std::string weights;  // folder
    int64_t context = 0;
    int64_t kv_bytes = 0;
    int64_t requests = 0;
    int64_t threads = 1;
  };
  static Result<std::unique_ptr<WorkerLine>> to_child(const Child& child);
  // Connects to the socket at `path`, within 200 ms and without retries.
  static Result<std::unique_ptr<WorkerLine>> to_run(const std::string& path);
  ~WorkerLine();  // a child ends with it
  WorkerLine(const WorkerLine&) = delete;

  bool is_child() const { return pid_ >= 0; }
  // The next message, within `patience`; nothing if none has come. Fails if the other end has gone, or
  // sends a malformed message.
  Result<std::optional<generate::WorkerMessage>> hear(SimDuration patience);
  // The next message but beats, until then or until `stop`.
  Result<generate::WorkerMessage> await(SimTime until, const std::atomic<bool>& stop,
                                        const Clock& clock);
  // False: the other end has gone, or has read nothing for 10 s.
  bool say(const generate::FrontMessage& message);
  // Sends a heartbeat, if that is possible without waiting.
  void say_beat();
  // Closes the line for both directions; the other end sees that.
  void hang_up();
  // Where a child has ended before it was ready: how. Waits for it.
  Error ended_early();

 private:
  WorkerLine(int socket, int pid) : socket_(socket), pid_(pid) {}

  const int socket_;
  int pid_;
  generate::Lines lines_;
  std::mutex writing_;
};

}  // namespace tombolo::serve
