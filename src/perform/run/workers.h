// The launcher's connections and processes: a connection per rank, one thread that listens to all of
// them, and a process and a watching thread for each rank that it starts itself. All feed one queue
// of events.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "perform/join/control_message.h"
#include "perform/join/security.h"
#include "perform/run/child_process.h"
#include "perform/run/spare.h"
#include "perform/run/worker_placement.h"
#include "perform/transport/endpoint.h"
#include "perform/transport/splice_listener.h"

namespace tombolo::run {

// The process ended; a wait status.
struct Exited {
  int status = 0;
};
// Its connection ended; no message of it comes after this.
struct Disconnected {
  Error error;
};
// A second process of this job claimed this rank, and was rejected.
struct Duplicate {};

struct Event {
  int32_t rank = 0;
  std::variant<join::ControlMessage, Exited, Disconnected, Duplicate> what;
};

// A listener that joins the calls of two ranks; it closes with its last owner.
struct Splice {
  std::shared_ptr<void> listener;
  uint16_t port = 0;
};
using OpenSplice = std::function<Result<Splice>(transport::SpliceListener::Options)>;
Result<Splice> open_system_splice(transport::SpliceListener::Options options);

class Workers {
 public:
  struct Options {
    int32_t ranks = 1;
    transport::Address at{"127.0.0.1", 0};  // where ranks reach it; port 0: any that is free
    std::string listen;                     // where that is on this host; empty: the same
    std::string here;                       // for processes of this host; empty: the same
    std::string network;                    // allowed in addition to loopback
    join::Security security;                // for its own connections and for its children's
    link::Token token;
    control::LeaseTerms terms;  // of its children
    std::function<void(const std::string&)> log;
    transport::Sockets* sockets = &transport::system_sockets();
    Processes* processes = &system_processes();
    OpenSplice open_splice = open_system_splice;
    // A rank connected; a rank's heartbeat, and the answer to it. Both are called on the listening
    // thread, so that heartbeats are answered however busy the launcher is.
    std::function<void(int32_t rank)> on_hello;
    std::function<control::Grant(int32_t rank, const control::Beat&)> on_beat;
  };

  // Accepts all ranks from now on, whether this launcher or another one starts them.
  static Result<std::unique_ptr<Workers>> listen(const Options& options, Threads& threads);
  // For pairs of ranks of which neither accepts calls (dialling.h): the port after the control port,
  // or any free one if the control port was.
  Result<uint16_t> open_splice();
  // Starts the process of one rank, once.
  Status spawn(int32_t rank, const std::string& program, const WorkerPlacement& placement);
  // Kills the processes that it started and that still run, and waits for them.
  ~Workers();

  uint16_t port() const { return endpoint_->port(); }  // where ranks reach it

  // The next event, in the order of arrival; nothing when none came in time.
  std::optional<Event> next(SimDuration patience);

  Status tell(int32_t rank, const join::ControlMessage& message);
  // Gives this vacant rank, of that datacenter, to a waiting spare (spare.h). Order: the process that
  // had the rank before comes first, or last if not `owner_first`; among the others, spares that had
  // no rank come before those that had another one. False: no suitable spare waits.
  bool give_seat(int32_t rank, const std::string& datacenter, bool owner_first = true);
  // Also to spares that connect later: it is the last message of this launcher to them.
  void tell_spares(const join::ControlMessage& message);
  // Kills a rank's process, if it was started here. A message would not do: it may be suspended.
  void kill_now(int32_t rank);
  // Sends Stop to all. A process of ours that has not disconnected by the deadline is killed; one that
  // has may be leaving its state behind, and gets until leave_deadline to exit. Processes started
  // elsewhere are not waited for beyond the deadline; next() tells of those that end later.
  void stop_all(const join::Stop& stop, SimTime deadline, SimTime leave_deadline);

 private:
  Workers(const Options& options, Threads& threads);
  void check_rank(int32_t rank) const;
  const std::string& listen_address() const {
    return options_.listen.empty() ? options_.at.host : options_.listen;
  }
  void hear();
  void heard_spare(int32_t spare, const transport::Endpoint::News::What& what);
  void take(int32_t rank, join::ControlMessage message);
  void call_back(int32_t rank, join::Hello hello);
  void connected(int32_t rank);
  void gone(int32_t rank, const Error& why);
  void watch(int32_t rank, pid_t pid);
  void post(Event event);
  // For a process of ours its exit counts: if the path is cut, the end of its connection never shows.
  bool is_over(int32_t rank) const {
    return spawned_[rank] ? running_[rank] < 0 : !connected_[rank];
  }

  const Options options_;
  Threads& threads_;
  std::unique_ptr<transport::Endpoint> endpoint_;
  Splice splice_;
  std::unique_ptr<Signal> changed_ = threads_.signal();
  std::vector<std::unique_ptr<Thread>> running_threads_;
  std::unique_ptr<Thread> listening_;

  std::mutex mutex_;
  std::deque<Event> events_;
  std::vector<pid_t> running_;                     // by rank; -1: not started, or waited for
  std::vector<bool> spawned_;                      // by rank: its process was started here
  std::vector<bool> connected_;                    // by rank, as long as it is
  std::vector<bool> came_;                         // it was
  std::atomic<bool> stopping_ = false;             // Stop was sent to all
  std::map<int32_t, join::Waiting> waiting_;       // spares, by their number, and for what
  std::optional<join::ControlMessage> last_word_;  // to spares
};

}  // namespace tombolo::run
