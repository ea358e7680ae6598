#include "perform/launch/workers.h"

#include <signal.h>
#include <sys/wait.h>

#include <cerrno>
#include <chrono>

#include "base/check.h"
#include "perform/launch/child_process.h"
#include "perform/launch/reach.h"
#include "perform/runtime/messenger.h"

namespace tombolo::launch {

using transport::Endpoint;

namespace {
constexpr SimDuration kLookMax{2'000'000'000};  // whether a rank can be called
}

Workers::Workers(const Options& options, const Clock& clock)
    : options_(options),
      clock_(clock),
      running_(static_cast<size_t>(options.ranks), -1),
      spawned_(static_cast<size_t>(options.ranks), false),
      connected_(static_cast<size_t>(options.ranks), false),
      came_(static_cast<size_t>(options.ranks), false) {}

Result<std::unique_ptr<Workers>> Workers::listen(const Options& options, const Clock& clock) {
  CHECK(options.ranks >= 1, "workers for {} ranks", options.ranks);
  std::unique_ptr<Workers> workers(new Workers(options, clock));
  Workers* self = workers.get();
  auto credentials = TRY(credentials_of(options.security));
  Endpoint::Options door{
      .identity = {.rank = options.ranks, .ranks = options.ranks + 1, .token = options.token},
      .listen_address = options.at.host,
      .port = options.at.port,
      .network = options.network,
      .credentials = std::move(credentials),
      .plain_tcp = options.security.plain_tcp,
      .one_clock = !beyond_this_host(options.at.host, options.network),
      .log = options.log,
      .on_duplicate = [self](int32_t rank) {
        self->post({rank, Duplicate{}});
      }};
  workers->endpoint_ =
      TRY(during(Endpoint::create(std::move(door), clock), "opening the control port"));
  for (int32_t rank = 0; rank < options.ranks; ++rank) {
    workers->threads_.emplace_back([self, rank] { self->hear(rank); });
  }
  return workers;
}

Result<uint16_t> Workers::open_splice() {
  splice_ = TRY(
      during(transport::SpliceDoor::open(
                 {.listen_address = options_.at.host,
                  .port = static_cast<uint16_t>(options_.at.port == 0 ? 0 : options_.at.port + 1),
                  .network = options_.network,
                  .anywhere = options_.security.reaches_other_hosts(),
                  .token = options_.token,
                  .ranks = options_.ranks,
                  .log = options_.log}),
             "opening the door for ranks that nobody can call"));
  return splice_->port();
}

void Workers::check_rank(int32_t rank) const {
  CHECK(rank >= 0 && rank < options_.ranks, "rank {} of {}", rank, options_.ranks);
}

Status Workers::spawn(int32_t rank, const std::string& program, const Berth& berth) {
  check_rank(rank);
  CHECK(!spawned_[rank], "rank {} was started already", rank);
  const pid_t pid =
      TRY(launch::spawn(worker_child({.program = program,
                                      .rank = rank,
                                      .ranks = options_.ranks,
                                      .launcher = {options_.at.host, endpoint_->port()},
                                      .berth = berth,
                                      .security = options_.security,
                                      .token = options_.token})));
  std::lock_guard lock(mutex_);
  running_[rank] = pid;
  spawned_[rank] = true;
  threads_.emplace_back([this, rank, pid] { watch(rank, pid); });
  return {};
}

Workers::~Workers() {
  {
    // Under the lock a pid is still ours: watch() has not waited for it yet, or took it off.
    std::lock_guard lock(mutex_);
    for (const pid_t pid : running_) {
      if (pid > 0) kill(pid, SIGKILL);
    }
  }
  if (endpoint_) endpoint_->abort({ErrorCode::kFailed, "the run is over"});
  for (std::thread& thread : threads_) thread.join();
}

void Workers::post(Event event) {
  std::lock_guard lock(mutex_);
  events_.push_back(std::move(event));
  changed_.notify_all();
}

std::optional<Event> Workers::next(SimDuration patience) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::nanoseconds(patience.ns), [&] { return !events_.empty(); });
  if (events_.empty()) return std::nullopt;
  Event event = std::move(events_.front());
  events_.pop_front();
  return event;
}

void Workers::hear(int32_t rank) {
  Status linked = endpoint_->await_peer(rank, {}, runtime::kNever);
  if (!linked) return post({rank, Disconnected{linked.error()}});
  const auto connected = [&](bool is) {
    std::lock_guard lock(mutex_);
    connected_[rank] = is;
    came_[rank] = true;
    changed_.notify_all();
  };
  connected(true);
  while (true) {
    auto message =
        endpoint_->receive(rank, kControlTag, runtime::kNever).and_then([](const auto& received) {
          return decode(received.payload);
        });
    if (!message) {
      connected(false);
      return post({rank, Disconnected{message.error()}});
    }
    if (const auto* beat = std::get_if<BeatReport>(&*message); beat && options_.on_beat) {
      // Who cannot be told will be missed by its connection.
      static_cast<void>(tell(rank, LeaseGrant{options_.on_beat(rank, beat->beat)}));
      continue;
    }
    auto* hello = std::get_if<Hello>(&*message);
    if (hello && options_.on_hello) options_.on_hello(rank);
    if (hello && hello->reach == 0 && beyond_this_host(options_.at.host, options_.network)) {
      const auto at = transport::parse_address(hello->address);
      if (!at || !transport::takes_connections(*at, kLookMax))
        hello->reach = static_cast<int32_t>(Reach::kDatacenter);
    }
    post({rank, std::move(*message)});
  }
}

// waitid leaves the pid alone until running_ has forgotten it, so nobody signals a stranger.
void Workers::watch(int32_t rank, pid_t pid) {
  siginfo_t info{};
  while (waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
  }
  int status = 0;
  {
    std::lock_guard lock(mutex_);
    status = await_exit(pid);
    running_[rank] = -1;
  }
  post({rank, Exited{status}});
}

Status Workers::tell(int32_t rank, const ControlMessage& message) {
  check_rank(rank);
  return endpoint_->send(rank, kControlTag, encode(message));
}

void Workers::kill_now(int32_t rank) {
  check_rank(rank);
  std::lock_guard lock(mutex_);
  if (running_[rank] > 0) kill(running_[rank], SIGKILL);
}

void Workers::stop_all(const Stop& stop, SimTime deadline, SimTime leave_deadline) {
  for (int32_t rank = 0; rank < options_.ranks; ++rank) {
    // Who went away meanwhile does not hear it, and need not.
    static_cast<void>(tell(rank, stop));
  }
  std::unique_lock lock(mutex_);
  // Who never came does not hear it either; who was here and is gone ends by itself.
  for (size_t rank = 0; rank < running_.size(); ++rank) {
    if (running_[rank] > 0 && !came_[rank]) kill(running_[rank], SIGTERM);
  }
  const auto wait = [&](SimTime until, const auto& enough) {
    while (!enough() && clock_.now() < until) {
      changed_.wait_for(lock, std::chrono::nanoseconds((until - clock_.now()).ns));
    }
  };
  const auto all = [&](const auto& holds) {
    for (int32_t rank = 0; rank < options_.ranks; ++rank) {
      if (!holds(rank)) return false;
    }
    return true;
  };
  wait(deadline, [&] {
    return all([&](int32_t rank) { return is_over(rank) || (came_[rank] && !connected_[rank]); });
  });
  for (size_t rank = 0; rank < running_.size(); ++rank) {
    if (running_[rank] > 0 && (connected_[rank] || !came_[rank])) kill(running_[rank], SIGKILL);
  }
  wait(leave_deadline, [&] { return all([&](int32_t rank) { return is_over(rank); }); });
  for (const pid_t pid : running_) {
    if (pid > 0) kill(pid, SIGKILL);
  }
}

}  // namespace tombolo::launch
