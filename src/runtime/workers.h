// The launcher's hands: one process, one connection and two threads per rank, all feeding one queue
// of events.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "runtime/control.h"
#include "transport/endpoint.h"

namespace tombolo::runtime {

// The process ended; a wait status.
struct Exited {
  int status = 0;
};
// Its connection ended; no message of it comes after this.
struct Disconnected {
  Error error;
};

struct Event {
  int32_t rank = 0;
  std::variant<ControlMessage, Exited, Disconnected> what;
};

class Workers {
 public:
  struct Options {
    std::string program;
    int32_t ranks = 1;
    uint16_t control_port = 0;
    std::function<void(const std::string&)> log;
  };

  // Listens, then starts all processes. On failure those already started are ended.
  static Result<std::unique_ptr<Workers>> start(const Options& options, const Clock& clock);
  // Ends what still runs and waits for it.
  ~Workers();

  // The next event, in the order of arrival; nothing when none came in time.
  std::optional<Event> next(SimDuration patience);

  Status tell(int32_t rank, const ControlMessage& message);
  // Says stop to all, gives them until the deadline to end, then kills the rest.
  void stop_all(const std::string& reason, SimTime deadline);
  bool all_exited();

 private:
  explicit Workers(const Clock& clock) : clock_(clock) {}
  Status spawn_all(const Options& options, const transport::Token& token);
  void hear(int32_t rank);
  void watch(int32_t rank, pid_t pid);
  void post(Event event);

  const Clock& clock_;
  std::unique_ptr<transport::Endpoint> endpoint_;
  std::vector<std::thread> threads_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Event> events_;
  std::vector<pid_t> running_;   // by rank; -1 once it was waited for
  std::vector<bool> connected_;  // by rank; stays true
};

}  // namespace tombolo::runtime
