#include "perform/launch/rank_session.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "base/check.h"
#include "perform/control/coordinator.h"
#include "perform/launch/control.h"
#include "perform/launch/reach.h"
#include "perform/launch/rendezvous.h"
#include "perform/runtime/cell_relay.h"
#include "perform/runtime/kept_state.h"
#include "perform/runtime/machine_load.h"
#include "perform/runtime/realtime.h"
#include "spec/plan/plan_file.h"
#include "spec/trace/trace_file.h"

namespace tombolo::launch {
namespace {

using transport::Endpoint;

constexpr SimDuration kLookAgain{50'000'000};       // for a token file, or a newer one
constexpr const char* kWanTcp = "cubic";            // what the law of a WAN flow is about
constexpr SimDuration kFarewellMax{5'000'000'000};  // for the last bytes to leave
constexpr std::chrono::milliseconds kReportEvery{1000};
constexpr std::chrono::milliseconds kVerdictMax{2000};

class RankSession {
 public:
  RankSession(const RankSessionOptions& options, Clock& clock) : options_(options), clock_(clock) {}
  ~RankSession();

  Status run(const KernelsFactory& make_kernels);
  bool told() const { return told_; }
  // Of a rank that had its place: the launcher said so, or cannot say anything.
  bool comes_again(const Error& error) const {
    return again_ || (seated_.ns != 0 && !told_ && error.code == ErrorCode::kLostPeer);
  }

 private:
  int32_t launcher() const { return options_.ranks; }
  bool on_several_hosts() const {
    return beyond_this_host(options_.launcher.host, options_.network);
  }
  SimTime in(SimDuration span) const { return clock_.now() + span; }
  Status say(const ControlMessage& message);
  Status dial_launcher();
  Result<link::Token> token(SimTime deadline);
  Error nobody_there() const;
  Status join();
  Result<ControlMessage> hear();
  Status work(const KernelsFactory& make_kernels);
  Status perform_all(const plan::Plan& plan, const schedule::Schedule& schedule,
                     runtime::Kernels& kernels, runtime::Messenger& messenger);
  void leave_state(const Error& error, const runtime::Kernels& kernels);
  Status link_neighbours(const plan::Plan& plan);
  void start_relay(const plan::Plan& plan, const schedule::Schedule& schedule);
  Status join_replicas(const plan::Plan& plan, runtime::Messenger& messenger,
                       runtime::Kernels& kernels);
  Status resume(const plan::Plan& plan, runtime::Kernels& kernels);
  runtime::Hooks hooks(const runtime::Kernels& kernels);
  Result<SimTime> wait_for_go();
  Status leave();
  void listen();
  void report_links();
  void stop(const std::string& reason);
  Error explain(Error error);

  const RankSessionOptions& options_;
  Clock& clock_;
  std::unique_ptr<Endpoint> endpoint_;
  Start start_;
  std::thread listener_;
  control::Member member_{control::LeaseTerms{}};  // the listener's, once there is one
  SimTime seated_;                                 // when it said hello
  std::optional<runtime::KeptState> kept_;
  bool explained_ = false;  // how it ended
  std::thread reporter_;    // from when all links are up
  std::unique_ptr<runtime::RelayThread>
      relay_;  // where the pipelines of a cell share the WAN in time

  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<SimTime> origin_;
  std::optional<std::string> verdict_;  // why everybody stops
  std::atomic<bool> told_ = false;      // the launcher says why, to people too
  bool again_ = false;                  // the run goes on: our state is wanted
  bool over_ = false;                   // all ranks have finished
  bool leaving_ = false;                // the performing thread is not computing any more
  bool done_ = false;                   // it has nothing left to do
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
  if (reporter_.joinable()) reporter_.join();
}

Status RankSession::say(const ControlMessage& message) {
  return endpoint_->send(launcher(), kControlTag, encode(message)).map_error([](Error error) {
    error.code = ErrorCode::kLostPeer;
    return error;
  });
}

// The file comes into being when the launcher listens.
Result<link::Token> RankSession::token(SimTime deadline) {
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
    auto credentials = TRY(credentials_of(options_.security));
    Endpoint::Options options{.identity = {.rank = options_.rank,
                                           .ranks = options_.ranks + 1,
                                           .token = TRY(token(deadline))},
                              .listen_address = options_.listen_address,
                              .network = options_.network,
                              .credentials = std::move(credentials),
                              .plain_tcp = options_.security.plain_tcp,
                              .one_clock = !on_several_hosts(),
                              .congestion_control = options_.network.empty() ? "" : kWanTcp,
                              .log = options_.log};
    endpoint_ = TRY(Endpoint::create(std::move(options), clock_));
    const transport::Address& at = options_.launcher;
    const Status linked = endpoint_->connect(launcher(), at.host, at.port, {}, deadline);
    if (linked) return {};
    told_ = link::is_duplicate_refusal(linked.error());
    if (linked.error().code == ErrorCode::kLostPeer) return fail(nobody_there());
    const bool early = (told_ && options_.returns) ||
                       (link::is_token_refusal(linked.error()) && !options_.token_file.empty());
    if (!early || clock_.now() >= deadline) return linked;
    told_ = false;
    clock_.sleep_until(in(kLookAgain));
  }
}

// Until the launcher has handed out the Plan nobody else listens to it.
Status RankSession::join() {
  TRY(dial_launcher());
  TRY(say(Hello{getpid(), transport::Address{options_.listen_address, endpoint_->port()}.text(),
                static_cast<int32_t>(options_.no_inbound ? Reach::kNobody : Reach::kAll)}));
  seated_ = clock_.now();
  ControlMessage first = TRY(hear());
  if (auto* stop = std::get_if<Stop>(&first)) {
    told_ = true;
    again_ = stop->again;
    return fail({ErrorCode::kLostPeer, "stopped: " + stop->reason});
  }
  auto* start = std::get_if<Start>(&first);
  const auto ranks = static_cast<size_t>(options_.ranks);
  if (!start || start->addresses.size() != ranks ||
      (!start->reach.empty() && start->reach.size() != ranks)) {
    return failed("the launcher did not begin with a start message for all ranks");
  }
  start_ = std::move(*start);
  if (!start_.keep.empty() && options_.on_seated) options_.on_seated();
  return {};
}

// The next message that is not about leases. Meanwhile this rank says that it is alive, and stops
// when its lease is over.
Result<ControlMessage> RankSession::hear() {
  const SimDuration patience = control::LeaseTerms{}.ceiling;
  while (true) {
    const SimTime now = clock_.now();
    if (member_.over(now) || (member_.epoch() == 0 && now >= seated_ + patience)) {
      return fail(
          {ErrorCode::kLostPeer, "the launcher was silent until the lease of this rank was over"});
    }
    // To the endpoint the launcher is one more rank; to people it is the launcher.
    const Error gone{ErrorCode::kLostPeer, "the launcher went away", {}, ""};
    if (now >= member_.next_beat() && !say(BeatReport{member_.beat(now)})) return fail(gone);
    SimTime until = member_.next_beat();
    if (member_.epoch() > 0) until = std::min(until, member_.lease_end());
    const auto received = endpoint_->receive(launcher(), kControlTag, until);
    if (!received && clock_.now() >= until) continue;  // a real error comes again
    if (!received && received.error().code == ErrorCode::kLostPeer) return fail(gone);
    ControlMessage message = TRY(decode(TRY(received).payload));
    const auto* lease = std::get_if<LeaseGrant>(&message);
    if (!lease) return message;
    const bool knew = member_.epoch() > 0;
    member_.answered(lease->grant, clock_.now());
    // Nobody works before all have said that they know of the epoch.
    if (!knew && member_.epoch() > 0) TRY(say(BeatReport{member_.beat(clock_.now())}));
  }
}

Status RankSession::run(const KernelsFactory& make_kernels) {
  TRY(during(join(), "joining the run"));
  listener_ = std::thread([this] { listen(); });
  Status status = work(make_kernels);
  if (status) status = leave();
  if (status || explained_) return status;
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
  runtime::EndpointMessenger messenger(*endpoint_);  // outlives the kernels, which may use it
  const auto kernels =
      TRY(during(make_kernels(plan, options_.rank), "loading " + rank_name(plan, options_.rank)));
  Status status = resume(plan, *kernels);
  if (status && !start_.keep.empty()) {
    kept_.emplace(start_.keep, options_.rank, start_.first_iteration - 1);
  }
  if (status) status = perform_all(plan, schedule, *kernels, messenger);
  if (status) return {};
  {
    std::lock_guard lock(mutex_);
    leaving_ = true;
    changed_.notify_all();
  }
  const Error error = explain(std::move(status.error()));
  leave_state(error, *kernels);
  return fail(error);
}

Status RankSession::perform_all(const plan::Plan& plan, const schedule::Schedule& schedule,
                                runtime::Kernels& kernels, runtime::Messenger& messenger) {
  const bool emulated = plan.device_of(options_.rank).kind == cluster::DeviceKind::kEmulated;
  const bool realtime = emulated && runtime::make_realtime();
  TRY(link_neighbours(plan));
  if (plan.replicas() > 1) TRY(join_replicas(plan, messenger, kernels));
  reporter_ = std::thread([this] { report_links(); });
  TRY(say(Ready{}));
  const SimTime origin = TRY(wait_for_go());
  const runtime::ProcessMeter cpu;
  start_relay(plan, schedule);
  const auto replica = static_cast<size_t>(plan.ranks[options_.rank].replica);
  runtime::CellMessenger in_cell(plan, options_.rank, messenger);
  trace::Trace part = TRY(runtime::perform(
      plan, schedule.ranks[options_.rank],
      {.rank = options_.rank,
       .first_iteration = start_.first_iteration,
       .origin = origin,
       .release = schedule.release.empty() ? SimDuration{} : schedule.release[replica],
       .emulated_wan = !options_.network.empty(),
       .one_clock = !on_several_hosts()},
      kernels, in_cell, clock_, hooks(kernels)));
  if (emulated) {
    const auto add = [&](const char* name, double value) {
      part.records.push_back({.name = name, .rank = options_.rank, .value = value});
    };
    add(runtime::kRealtimeRecord, realtime ? 1 : 0);
    add(runtime::kCoresUsedRecord, cpu.cores());
  }
  TRY(during(trace::write_trace(rank_trace_path(start_.output, options_.rank), part),
             "writing the trace"));
  if (relay_) TRY(relay_->finish());
  // A slow link may need long for the last gradients; a stop, or a lost peer, ends the wait.
  TRY(endpoint_->flush(runtime::kNever));
  TRY(say(Finished{}));
  // Until all have: if one is lost before, this rank's state is wanted.
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return over_ || verdict_; });
  if (over_) return {};
  return fail({ErrorCode::kLostPeer, "stopped: " + *verdict_});
}

// Not where the launcher said that all is over, nor where this rank's own trouble is the cause.
void RankSession::leave_state(const Error& error, const runtime::Kernels& kernels) {
  {
    std::lock_guard lock(mutex_);
    if (!kept_ || (told_ && !again_)) return;
    if (!verdict_ && error.code != ErrorCode::kLostPeer) return;
  }
  const Status left = kept_->leave(kernels);
  if (!left && options_.log) options_.log("could not leave its state: " + left.error().text());
}

// Who dials: reach.h.
Status RankSession::link_neighbours(const plan::Plan& plan) {
  for (const int32_t peer : runtime::neighbours(plan, options_.rank)) {
    link::LinkShape shape = runtime::shape_between(plan, options_.rank, peer,
                                                   !options_.network.empty() || on_several_hosts());
    if (on_several_hosts()) {
      shape.rate.reset();
      shape.delay = {};
    }
    const transport::Address at = TRY(transport::parse_address(start_.addresses[peer]));
    // The peer may still be loading; whether it is alive is the launcher's business.
    const Meeting how = meeting(plan, start_.reach, options_.rank, peer);
    const Status linked =
        how.spliced
            ? endpoint_->meet(peer, options_.launcher.host,
                              static_cast<uint16_t>(start_.splice_port), shape, runtime::kNever)
        : how.dials ? endpoint_->connect(peer, at.host, at.port, shape, runtime::kNever)
                    : endpoint_->await_peer(peer, shape, runtime::kNever);
    if (!linked) {
      return fail(Error(linked.error()).during("linking to " + rank_name(plan, peer)));
    }
  }
  return {};
}

// What it cannot carry the launcher hears of at once, for others wait for it.
void RankSession::start_relay(const plan::Plan& plan, const schedule::Schedule& schedule) {
  std::vector<link::Passage> passages = runtime::passages_of(plan, schedule, options_.rank);
  if (passages.empty()) return;
  link::Relay relay(std::move(passages), static_cast<uint64_t>(start_.first_iteration),
                    static_cast<uint64_t>(plan.run.steps));
  relay_ = std::make_unique<runtime::RelayThread>(
      *endpoint_, std::move(relay),
      [this](const Error& error) { static_cast<void>(say(Failure{error})); });
}

Status RankSession::join_replicas(const plan::Plan& plan, runtime::Messenger& messenger,
                                  runtime::Kernels& kernels) {
  const plan::Placement& own = plan.ranks[options_.rank];
  return during(kernels.join_replicas({.ranks = plan.replicas_of(own.stage),
                                       .own = static_cast<size_t>(own.replica),
                                       .messenger = &messenger,
                                       .address = options_.listen_address}),
                fmt::format("joining the replicas of stage {}", own.stage));
}

Status RankSession::resume(const plan::Plan& plan, runtime::Kernels& kernels) {
  if (start_.resume.empty()) return {};
  const auto found = TRY(runtime::latest_checkpoint(start_.resume));
  if (!found || found->manifest.step + 1 != start_.first_iteration) {
    return failed(fmt::format("{} changed while the run began", start_.resume));
  }
  TRY(runtime::check_fits(*found, plan));
  const std::vector<runtime::NamedTensor> tensors = TRY(runtime::load_checkpoint(*found));
  return during(kernels.load(tensors), "loading " + found->folder);
}

runtime::Hooks RankSession::hooks(const runtime::Kernels& kernels) {
  runtime::Hooks out;
  if (kept_) {
    out.before_update = [this, &kernels](int64_t step) { return kept_->copy(step, kernels); };
  }
  out.iteration = [this](const runtime::IterationReport& report) {
    if (kept_) kept_->updated(report.iteration);
    return say(ProgressReport{report});
  };
  out.shard = [this](int64_t step, const runtime::Shard& shard) {
    return say(ShardReport{step, shard});
  };
  out.evaluation = [this](const runtime::Evaluation& evaluation) {
    return say(EvaluationReport{evaluation});
  };
  return out;
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
    const auto order = hear();
    if (!order) return stop(order.error().message);
    std::unique_lock lock(mutex_);
    if (const auto* last = std::get_if<Stop>(&*order)) {
      told_ = true;
      again_ = last->again;
      lock.unlock();
      return stop(last->reason);
    }
    if (const auto* go = std::get_if<Go>(&*order)) {
      // Clocks of hosts differ: then it is when the word came, late by the way of the word.
      origin_ = on_several_hosts() ? clock_.now() : SimTime{go->origin_ns};
    }
    if (std::holds_alternative<Over>(*order)) over_ = true;
    changed_.notify_all();
  }
}

// The third thread: for people who watch, beside everything else.
void RankSession::report_links() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kReportEvery, [&] { return done_ || verdict_; })) {
    lock.unlock();
    const Status said = say(LinksReport{link_reports(endpoint_->statistics(), launcher())});
    if (!said) return;  // the other threads learn why
    lock.lock();
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
  if (changed_.wait_for(lock, patience, [&] { return done_ || leaving_; })) return;
  if (options_.log) options_.log("stopped in the middle of a computation: " + reason);
  _exit(1);
}

// Trouble with a peer has its cause elsewhere, and the launcher knows it: its word comes instead,
// if it comes soon. Other trouble is this rank's own, and the launcher hears of it.
Error RankSession::explain(Error error) {
  explained_ = true;
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
  CHECK(make_kernels, "nobody makes kernels for rank {}", options.rank);
  RankSession session(options, clock);
  Status status = session.run(make_kernels);
  const bool again = !status && session.comes_again(status.error());
  return {std::move(status), session.told(), again};
}

std::string rank_trace_path(const std::string& folder, int32_t rank) {
  return fmt::format("{}/trace-rank-{}.jsonl", folder, rank);
}

std::string rank_name(const plan::Plan& plan, int32_t rank) {
  CHECK(rank >= 0 && static_cast<size_t>(rank) < plan.ranks.size(), "rank {} of {} has no name",
        rank, plan.ranks.size());
  return fmt::format("rank {} ({})", rank, plan.ranks[rank].datacenter);
}

}  // namespace tombolo::launch
