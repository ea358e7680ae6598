#include "runtime/rank_session.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "plan/plan_file.h"
#include "runtime/cell_relay.h"
#include "runtime/control.h"
#include "runtime/machine_load.h"
#include "runtime/realtime.h"
#include "runtime/rendezvous.h"
#include "trace/trace_file.h"

namespace tombolo::runtime {
namespace {

using transport::Endpoint;

constexpr SimDuration kLookAgain{50'000'000};       // for a token file, or a newer one
constexpr const char* kWanTcp = "cubic";            // what the law of a WAN flow is about
constexpr SimDuration kFarewellMax{5'000'000'000};  // for the last bytes to leave
constexpr std::chrono::milliseconds kVerdictMax{2000};

class RankSession {
 public:
  RankSession(const RankSessionOptions& options, Clock& clock) : options_(options), clock_(clock) {}
  ~RankSession();

  Status run(const KernelsFactory& make_kernels);
  bool told() const { return told_; }

 private:
  int32_t launcher() const { return options_.ranks; }
  bool on_several_hosts() const {
    return beyond_this_host(options_.launcher.host, options_.network);
  }
  SimTime in(SimDuration span) const { return clock_.now() + span; }
  Status say(const ControlMessage& message);
  Status dial_launcher();
  Result<transport::Token> token(SimTime deadline);
  Error nobody_there() const;
  Status join();
  Status work(const KernelsFactory& make_kernels);
  Status link_neighbours(const plan::Plan& plan);
  void start_relay(const plan::Plan& plan, const schedule::Schedule& schedule);
  Status join_replicas(const plan::Plan& plan, Messenger& messenger, Kernels& kernels);
  Status resume(const plan::Plan& plan, Kernels& kernels);
  Hooks hooks();
  Result<SimTime> wait_for_go();
  Status leave();
  void listen();
  void stop(const std::string& reason);
  Error explain(Error error);

  const RankSessionOptions& options_;
  Clock& clock_;
  std::unique_ptr<Endpoint> endpoint_;
  Start start_;
  std::thread listener_;
  std::unique_ptr<RelayThread> relay_;  // where the pipelines of a cell share the WAN in time

  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<SimTime> origin_;
  std::optional<std::string> verdict_;  // why everybody stops
  std::atomic<bool> told_ = false;      // the launcher says why, to people too
  bool done_ = false;                   // the performing thread has nothing left to do
};

RankSession::~RankSession() {
  {
    std::lock_guard lock(mutex_);
    done_ = true;
    changed_.notify_all();
  }
  if (endpoint_) endpoint_->abort({ErrorCode::kFailed, "this rank ended"});
  relay_.reset();
  if (listener_.joinable()) listener_.join();
}

Status RankSession::say(const ControlMessage& message) {
  return endpoint_->send(launcher(), kControlTag, encode(message)).map_error([](Error error) {
    error.code = ErrorCode::kLostPeer;
    return error;
  });
}

// The file comes into being when the launcher listens.
Result<transport::Token> RankSession::token(SimTime deadline) {
  if (options_.token_file.empty()) return options_.token;
  while (true) {
    if (const auto token = TRY(read_token_file(options_.token_file))) return *token;
    if (clock_.now() >= deadline) return fail(nobody_there());
    clock_.sleep_until(in(kLookAgain));
  }
}

Error RankSession::nobody_there() const {
  Error error{ErrorCode::kLostPeer,
              fmt::format("the launcher did not answer at {} within {:g} s",
                          options_.launcher.text(), seconds(options_.join_max).value)};
  if (!options_.token_file.empty()) {
    error.hint = fmt::format("rank 0 with the same --rendezvous and the same --out (its token: {})",
                             options_.token_file);
  }
  return error;
}

// A token that was refused may be an earlier run's; then the right one is about to be written.
Status RankSession::dial_launcher() {
  const SimTime deadline = in(options_.join_max);
  while (true) {
    Endpoint::Options options{.identity = {.rank = options_.rank,
                                           .ranks = options_.ranks + 1,
                                           .token = TRY(token(deadline))},
                              .listen_address = options_.listen_address,
                              .network = options_.network,
                              .credentials = TRY(credentials_of(options_.security)),
                              .plain_tcp = options_.security.plain_tcp,
                              .one_clock = !on_several_hosts(),
                              .congestion_control = options_.network.empty() ? "" : kWanTcp,
                              .log = options_.log};
    endpoint_ = TRY(Endpoint::create(std::move(options), clock_));
    const transport::Address& at = options_.launcher;
    const Status linked = endpoint_->connect(launcher(), at.host, at.port, {}, deadline);
    if (linked) return {};
    told_ = transport::is_duplicate_refusal(linked.error());
    if (linked.error().code == ErrorCode::kLostPeer) return fail(nobody_there());
    if (!transport::is_token_refusal(linked.error()) || options_.token_file.empty() ||
        clock_.now() >= deadline) {
      return linked;
    }
    clock_.sleep_until(in(kLookAgain));
  }
}

// Until the launcher has handed out the Plan nobody else listens to it.
Status RankSession::join() {
  TRY(dial_launcher());
  TRY(say(Hello{getpid(), transport::Address{options_.listen_address, endpoint_->port()}.text()}));
  const auto received = endpoint_->receive(launcher(), kControlTag, kNever);
  // To the endpoint the launcher is one more rank; to people it is the launcher.
  if (!received && received.error().code == ErrorCode::kLostPeer) {
    return fail({ErrorCode::kLostPeer, "the launcher went away"});
  }
  const auto message = TRY(received);
  ControlMessage first = TRY(decode(message.payload));
  if (auto* stop = std::get_if<Stop>(&first)) {
    told_ = true;
    return fail({ErrorCode::kLostPeer, "stopped: " + stop->reason});
  }
  auto* start = std::get_if<Start>(&first);
  if (!start || start->addresses.size() != static_cast<size_t>(options_.ranks)) {
    return failed("the launcher did not begin with a start message for all ranks");
  }
  start_ = std::move(*start);
  return {};
}

Status RankSession::run(const KernelsFactory& make_kernels) {
  TRY(during(join(), "joining the run"));
  listener_ = std::thread([this] { listen(); });
  Status status = work(make_kernels);
  if (status) status = leave();
  if (status) return {};
  return fail(explain(std::move(status.error())));
}

// From here on a launcher that hangs up is no news.
Status RankSession::leave() {
  {
    std::lock_guard lock(mutex_);
    if (verdict_) return fail({ErrorCode::kLostPeer, "stopped: " + *verdict_});
    done_ = true;
  }
  return during(endpoint_->close(in(kFarewellMax)), "saying goodbye");
}

Status RankSession::work(const KernelsFactory& make_kernels) {
  const plan::Plan plan = TRY(plan::from_value(start_.plan, "the launcher's Plan"));
  if (plan.ranks.size() != static_cast<size_t>(options_.ranks)) {
    return failed(fmt::format("a Plan of {} ranks for {}", plan.ranks.size(), options_.ranks));
  }
  const schedule::Schedule schedule = TRY(schedule::build(plan));
  EndpointMessenger messenger(*endpoint_);  // outlives the kernels, which may use it
  const auto kernels =
      TRY(during(make_kernels(plan, options_.rank), "loading " + rank_name(plan, options_.rank)));
  TRY(resume(plan, *kernels));
  const bool emulated = plan.device_of(options_.rank).kind == cluster::DeviceKind::kEmulated;
  const bool realtime = emulated && make_realtime();
  TRY(link_neighbours(plan));
  if (plan.replicas() > 1) TRY(join_replicas(plan, messenger, *kernels));
  TRY(say(Ready{}));
  const SimTime origin = TRY(wait_for_go());
  const ProcessMeter cpu;
  start_relay(plan, schedule);
  const auto replica = static_cast<size_t>(plan.ranks[options_.rank].replica);
  CellMessenger in_cell(plan, options_.rank, messenger);
  trace::Trace part =
      TRY(perform(plan, schedule.ranks[options_.rank],
                  {.rank = options_.rank,
                   .first_iteration = start_.first_iteration,
                   .origin = origin,
                   .release = schedule.release.empty() ? SimDuration{} : schedule.release[replica],
                   .emulated_wan = !options_.network.empty(),
                   .one_clock = !on_several_hosts()},
                  *kernels, in_cell, clock_, hooks()));
  if (emulated) {
    const auto add = [&](const char* name, double value) {
      part.records.push_back({.name = name, .rank = options_.rank, .value = value});
    };
    add(kRealtimeRecord, realtime ? 1 : 0);
    add(kCoresUsedRecord, cpu.cores());
  }
  TRY(during(trace::write_trace(rank_trace_path(start_.output, options_.rank), part),
             "writing the trace"));
  if (relay_) TRY(relay_->finish());
  // A slow link may need long for the last gradients; a stop, or a lost peer, ends the wait.
  TRY(endpoint_->flush(kNever));
  return say(Finished{});
}

// Of two neighbours the lower rank dials.
Status RankSession::link_neighbours(const plan::Plan& plan) {
  for (const int32_t peer : neighbours(plan, options_.rank)) {
    transport::LinkShape shape =
        shape_between(plan, options_.rank, peer, !options_.network.empty() || on_several_hosts());
    if (on_several_hosts())
      shape = {.slow_network = shape.slow_network, .connections = shape.connections};
    const transport::Address at = TRY(transport::parse_address(start_.addresses[peer]));
    // The peer may still be loading; whether it is alive is the launcher's business.
    const Status linked = options_.rank < peer
                              ? endpoint_->connect(peer, at.host, at.port, shape, kNever)
                              : endpoint_->await_peer(peer, shape, kNever);
    if (!linked) {
      return fail(Error(linked.error()).during("linking to " + rank_name(plan, peer)));
    }
  }
  return {};
}

// What it cannot carry the launcher hears of at once, for others wait for it.
void RankSession::start_relay(const plan::Plan& plan, const schedule::Schedule& schedule) {
  std::vector<transport::Passage> passages = passages_of(plan, schedule, options_.rank);
  if (passages.empty()) return;
  transport::Relay relay(std::move(passages), static_cast<uint64_t>(start_.first_iteration),
                         static_cast<uint64_t>(plan.run.steps));
  relay_ = std::make_unique<RelayThread>(*endpoint_, std::move(relay), [this](const Error& error) {
    static_cast<void>(say(Failure{error}));
  });
}

Status RankSession::join_replicas(const plan::Plan& plan, Messenger& messenger, Kernels& kernels) {
  const plan::Placement& own = plan.ranks[options_.rank];
  const bool emulated = plan.device_of(options_.rank).kind == cluster::DeviceKind::kEmulated;
  if (!emulated && !options_.security.plain_tcp)
    TRY(during(transport::check_stays_here(options_.listen_address, options_.network),
               "looking where gradients are summed, which is plain TCP; --plain-tcp allows it"));
  return during(kernels.join_replicas({.ranks = plan.replicas_of(own.stage),
                                       .own = static_cast<size_t>(own.replica),
                                       .messenger = &messenger,
                                       .address = options_.listen_address}),
                fmt::format("joining the replicas of stage {}", own.stage));
}

Status RankSession::resume(const plan::Plan& plan, Kernels& kernels) {
  if (start_.resume.empty()) return {};
  const auto found = TRY(latest_checkpoint(start_.resume));
  if (!found || found->manifest.step + 1 != start_.first_iteration) {
    return failed(fmt::format("{} changed while the run began", start_.resume));
  }
  TRY(check_fits(*found, plan));
  const std::vector<NamedTensor> tensors = TRY(load_checkpoint(*found));
  return during(kernels.load(tensors), "loading " + found->folder);
}

Hooks RankSession::hooks() {
  return {
      .iteration = [this](const IterationReport& report) { return say(ProgressReport{report}); },
      .shard =
          [this](int64_t step, const Shard& shard) {
            return say(ShardReport{step, shard});
          },
      .evaluation =
          [this](const Evaluation& evaluation) { return say(EvaluationReport{evaluation}); }};
}

Result<SimTime> RankSession::wait_for_go() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return origin_ || verdict_; });
  if (verdict_) return fail({ErrorCode::kLostPeer, "stopped: " + *verdict_});
  return *origin_;
}

// The second thread. It ends when the Endpoint does.
void RankSession::listen() {
  while (true) {
    const auto message = endpoint_->receive(launcher(), kControlTag, kNever);
    if (!message) return stop("the launcher went away");
    const auto order = decode(message->payload);
    if (!order) return stop(order.error().text());
    if (const auto* last = std::get_if<Stop>(&*order)) {
      told_ = true;
      return stop(last->reason);
    }
    if (const auto* go = std::get_if<Go>(&*order)) {
      std::lock_guard lock(mutex_);
      // Clocks of hosts differ: then it is when the word came, late by the way of the word.
      origin_ = on_several_hosts() ? clock_.now() : SimTime{go->origin_ns};
      changed_.notify_all();
    }
  }
}

void RankSession::stop(const std::string& reason) {
  std::unique_lock lock(mutex_);
  if (done_) return;
  verdict_ = reason;
  changed_.notify_all();
  lock.unlock();
  endpoint_->abort({ErrorCode::kLostPeer, reason});
  if (options_.stuck_max.ns == 0) return;
  lock.lock();
  const std::chrono::nanoseconds patience(options_.stuck_max.ns);
  if (changed_.wait_for(lock, patience, [&] { return done_; })) return;
  if (options_.log) options_.log("stopped in the middle of a computation: " + reason);
  _exit(1);
}

// Trouble with a peer has its cause elsewhere, and the launcher knows it: its word comes instead,
// if it comes soon. Other trouble is this rank's own, and the launcher hears of it.
Error RankSession::explain(Error error) {
  std::unique_lock lock(mutex_);
  if (error.code == ErrorCode::kLostPeer || verdict_) {
    if (!verdict_) {
      lock.unlock();
      static_cast<void>(say(Failure{error}));
      lock.lock();
    }
    changed_.wait_for(lock, kVerdictMax, [&] { return verdict_.has_value(); });
    if (verdict_) return {ErrorCode::kLostPeer, "stopped: " + *verdict_, error.context};
    return error;
  }
  lock.unlock();
  if (say(Failure{error})) static_cast<void>(endpoint_->flush(in(kFarewellMax)));
  // The launcher answers with a stop; then its thread aborts the Endpoint.
  lock.lock();
  changed_.wait_for(lock, kVerdictMax, [&] { return verdict_.has_value(); });
  // Then the launcher has the whole story, and tells it once for all ranks.
  if (verdict_) return {error.code, "gave up; the launcher says why"};
  return error;
}

}  // namespace

RankEnd serve_rank(const RankSessionOptions& options, const KernelsFactory& make_kernels,
                   Clock& clock) {
  RankSession session(options, clock);
  Status status = session.run(make_kernels);
  return {std::move(status), session.told()};
}

std::string rank_trace_path(const std::string& folder, int32_t rank) {
  return fmt::format("{}/trace-rank-{}.jsonl", folder, rank);
}

std::string rank_name(const plan::Plan& plan, int32_t rank) {
  return fmt::format("rank {} ({})", rank, plan.ranks[rank].datacenter);
}

}  // namespace tombolo::runtime
