#include "perform/run/workers.h"

#include <signal.h>

#include "base/check.h"
#include "perform/join/dialling.h"
#include "perform/join/listen_address.h"
#include "perform/kernels/messenger.h"

namespace tombolo::run {

using transport::Endpoint;

namespace {
constexpr SimDuration kLookMax{2'000'000'000};  // whether a rank can be called
}

Workers::Workers(const Options& options, Threads& threads)
    : options_(options),
      threads_(threads),
      running_(static_cast<size_t>(options.ranks), -1),
      spawned_(static_cast<size_t>(options.ranks), false),
      connected_(static_cast<size_t>(options.ranks), false),
      came_(static_cast<size_t>(options.ranks), false) {}

Result<std::unique_ptr<Workers>> Workers::listen(const Options& options, Threads& threads) {
  CHECK(options.ranks >= 1, "workers for {} ranks", options.ranks);
  std::unique_ptr<Workers> workers(new Workers(options, threads));
  Workers* self = workers.get();
  auto credentials = TRY(join::credentials_of(options.security));
  // In epoch 0, for ranks that do not know theirs yet.
  Endpoint::Options listener{.identity = {.rank = options.ranks,
                                          .ranks = ranks_with_spares(options.ranks),
                                          .token = options.token},
                             .listen_address = workers->listen_address(),
                             .port = options.at.port,
                             .network = options.network,
                             .credentials = std::move(credentials),
                             .plain_tcp = options.security.plain_tcp,
                             .one_clock = !join::beyond_this_host(options.at.host, options.network),
                             .log = options.log,
                             .on_duplicate = [self](int32_t rank) {
                               if (!is_spare(rank, self->options_.ranks))
                                 self->post({rank, Duplicate{}});
                             }};
  join::outlive_cuts(listener, options.terms);
  workers->endpoint_ =
      TRY(during(options.sockets->open(std::move(listener), threads), "opening the control port"));
  workers->endpoint_->welcome_all(join::kControlTag);
  workers->listening_ = threads.start([self] { self->hear(); });
  return workers;
}

Result<Splice> open_system_splice(transport::SpliceListener::Options options) {
  std::shared_ptr<transport::SpliceListener> listener =
      TRY(transport::SpliceListener::open(std::move(options)));
  const uint16_t port = listener->port();
  return Splice{std::move(listener), port};
}

Result<uint16_t> Workers::open_splice() {
  splice_ = TRY(during(options_.open_splice({.listen_address = listen_address(),
                                             .port = static_cast<uint16_t>(
                                                 options_.at.port == 0 ? 0 : options_.at.port + 1),
                                             .network = options_.network,
                                             .anywhere = options_.security.reaches_other_hosts(),
                                             .token = options_.token,
                                             .ranks = options_.ranks,
                                             .log = options_.log}),
                       "listening for ranks that no other rank can call"));
  return splice_.port;
}

void Workers::check_rank(int32_t rank) const {
  CHECK(rank >= 0 && rank < options_.ranks, "rank {} of {}", rank, options_.ranks);
}

Status Workers::spawn(int32_t rank, const std::string& program, const WorkerPlacement& placement) {
  check_rank(rank);
  CHECK(!spawned_[rank], "rank {} was started already", rank);
  const std::string& here = options_.here.empty() ? options_.at.host : options_.here;
  const pid_t pid =
      TRY(options_.processes->spawn(worker_child({.program = program,
                                                  .rank = rank,
                                                  .ranks = options_.ranks,
                                                  .launcher = {here, endpoint_->port()},
                                                  .placement = placement,
                                                  .security = options_.security,
                                                  .token = options_.token,
                                                  .terms = options_.terms})));
  std::lock_guard lock(mutex_);
  running_[rank] = pid;
  spawned_[rank] = true;
  running_threads_.push_back(threads_.start([this, rank, pid] { watch(rank, pid); }));
  return {};
}

Workers::~Workers() {
  {
    // Under the lock a pid is still ours: watch() has not waited for it yet, or took it off.
    std::lock_guard lock(mutex_);
    for (const pid_t pid : running_) {
      if (pid > 0) options_.processes->signal(pid, SIGKILL);
    }
  }
  if (endpoint_) endpoint_->abort({ErrorCode::kFailed, "the run is over"});
  listening_.reset();  // it starts others
  running_threads_.clear();
}

void Workers::post(Event event) {
  std::lock_guard lock(mutex_);
  events_.push_back(std::move(event));
  changed_->notify_all();
}

std::optional<Event> Workers::next(SimDuration patience) {
  std::unique_lock lock(mutex_);
  const SimTime until = threads_.now() + patience;
  if (!threads_.await(*changed_, lock, until, [&] { return !events_.empty(); }))
    return std::nullopt;
  Event event = std::move(events_.front());
  events_.pop_front();
  return event;
}

// Until the endpoint is aborted.
void Workers::hear() {
  while (true) {
    auto news = endpoint_->next(kNever);
    if (!news) return;
    const int32_t rank = news->peer;
    if (is_spare(rank, options_.ranks)) {
      heard_spare(rank, news->what);
    } else if (std::holds_alternative<Endpoint::Up>(news->what)) {
      connected(rank);
    } else if (const auto* end = std::get_if<Error>(&news->what)) {
      gone(rank, *end);
    } else {
      auto message = join::decode(std::get<link::Received>(news->what).payload);
      if (message) {
        take(rank, std::move(*message));
      } else {
        post({rank, Disconnected{message.error()}});
      }
    }
  }
}

// A spare sends only Waiting. Any other message is ignored, because a spare is no member of the
// run.
void Workers::heard_spare(int32_t spare, const Endpoint::News::What& what) {
  std::lock_guard lock(mutex_);
  if (std::holds_alternative<Error>(what)) waiting_.erase(spare);
  const auto* received = std::get_if<link::Received>(&what);
  if (!received) return;
  const auto message = join::decode(received->payload);
  const auto* waiting = message ? std::get_if<join::Waiting>(&*message) : nullptr;
  if (!waiting) return;
  waiting_[spare] = *waiting;
  if (last_word_)
    static_cast<void>(endpoint_->send(spare, join::kControlTag, join::encode(*last_word_)));
}

bool Workers::give_seat(int32_t rank, const std::string& datacenter, bool owner_first) {
  check_rank(rank);
  std::lock_guard lock(mutex_);
  // The lowest value goes first; of equal ones, the spare with the lowest number.
  constexpr int kUnfit = 4;
  const auto turn = [&](const join::Waiting& wants) {
    if (wants.rank == rank) return owner_first ? 0 : 3;
    const bool any_datacenter = wants.datacenter.empty() && wants.rank < 0;
    if (!any_datacenter && wants.datacenter != datacenter) return kUnfit;
    return wants.rank < 0 ? 1 : 2;
  };
  const auto first = std::min_element(
      waiting_.begin(), waiting_.end(),
      [&](const auto& a, const auto& b) { return turn(a.second) < turn(b.second); });
  if (first == waiting_.end() || turn(first->second) == kUnfit) return false;
  const int32_t spare = first->first;
  waiting_.erase(first);
  return endpoint_->send(spare, join::kControlTag, join::encode(join::VacantRank{rank}))
      .has_value();
}

void Workers::tell_spares(const join::ControlMessage& message) {
  std::map<int32_t, join::Waiting> waiting;
  {
    std::lock_guard lock(mutex_);
    waiting = waiting_;
    last_word_ = message;
  }
  for (const auto& [spare, wants] : waiting) {
    // A failed send: that spare has disconnected, and need not be told.
    static_cast<void>(endpoint_->send(spare, join::kControlTag, join::encode(message)));
  }
}

void Workers::take(int32_t rank, join::ControlMessage message) {
  if (stopping_) return;  // its messages belong to an epoch that has ended
  if (const auto* beat = std::get_if<join::BeatReport>(&message); beat && options_.on_beat) {
    // A failed send: the end of its connection will show that this rank is lost.
    static_cast<void>(tell(rank, join::LeaseGrant{options_.on_beat(rank, beat->beat)}));
    return;
  }
  auto* hello = std::get_if<join::Hello>(&message);
  if (hello && options_.on_hello) options_.on_hello(rank);
  const bool asks =
      hello && hello->reach == 0 && join::beyond_this_host(options_.at.host, options_.network);
  if (!asks) return post({rank, std::move(message)});
  // That may take seconds, and others' heartbeats wait here.
  std::lock_guard lock(mutex_);
  running_threads_.push_back(threads_.start(
      [this, rank, hello = std::move(*hello)]() mutable { call_back(rank, std::move(hello)); }));
}

void Workers::call_back(int32_t rank, join::Hello hello) {
  const auto at = transport::parse_address(hello.address);
  if (!at || !options_.sockets->takes_connections(*at, kLookMax))
    hello.reach = static_cast<int32_t>(join::Reach::kDatacenter);
  post({rank, std::move(hello)});
}

void Workers::connected(int32_t rank) {
  std::lock_guard lock(mutex_);
  connected_[rank] = true;
  came_[rank] = true;
  changed_->notify_all();
}

// Under one lock with its event, so that a thread that sees all ranks gone finds all their events.
void Workers::gone(int32_t rank, const Error& why) {
  std::lock_guard lock(mutex_);
  connected_[rank] = false;
  events_.push_back({rank, Disconnected{why}});
  changed_->notify_all();
}

void Workers::watch(int32_t rank, pid_t pid) {
  options_.processes->await_end(pid);
  int status = 0;
  {
    std::lock_guard lock(mutex_);
    status = options_.processes->await_exit(pid);
    running_[rank] = -1;
  }
  post({rank, Exited{status}});
}

Status Workers::tell(int32_t rank, const join::ControlMessage& message) {
  check_rank(rank);
  return endpoint_->send(rank, join::kControlTag, join::encode(message));
}

void Workers::kill_now(int32_t rank) {
  check_rank(rank);
  std::lock_guard lock(mutex_);
  if (running_[rank] > 0) options_.processes->signal(running_[rank], SIGKILL);
}

void Workers::stop_all(const join::Stop& stop, SimTime deadline, SimTime leave_deadline) {
  stopping_ = true;
  for (int32_t rank = 0; rank < options_.ranks; ++rank) {
    // A failed send: that rank has disconnected, and need not be told.
    static_cast<void>(tell(rank, stop));
  }
  tell_spares(stop);
  std::unique_lock lock(mutex_);
  // A process that never connected did not get the Stop, so it gets a SIGTERM. One that connected
  // and disconnected again is already ending.
  for (size_t rank = 0; rank < running_.size(); ++rank) {
    if (running_[rank] > 0 && !came_[rank]) options_.processes->signal(running_[rank], SIGTERM);
  }
  const auto all = [&](const auto& holds) {
    for (int32_t rank = 0; rank < options_.ranks; ++rank) {
      if (!holds(rank)) return false;
    }
    return true;
  };
  threads_.await(*changed_, lock, deadline, [&] {
    return all([&](int32_t rank) { return is_over(rank) || (came_[rank] && !connected_[rank]); });
  });
  for (size_t rank = 0; rank < running_.size(); ++rank) {
    if (running_[rank] > 0 && (connected_[rank] || !came_[rank]))
      options_.processes->signal(running_[rank], SIGKILL);
  }
  threads_.await(*changed_, lock, leave_deadline, [&] {
    return all([&](int32_t rank) { return !spawned_[rank] || is_over(rank); });
  });
  for (const pid_t pid : running_) {
    if (pid > 0) options_.processes->signal(pid, SIGKILL);
  }
}

}  // namespace tombolo::run
