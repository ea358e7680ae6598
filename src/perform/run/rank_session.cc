#include "perform/run/rank_session.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/file_digest.h"
#include "base/units.h"
#include "perform/control/coordinator.h"
#include "perform/join/control_message.h"
#include "perform/join/dialling.h"
#include "perform/join/job_terms.h"
#include "perform/join/listen_address.h"
#include "perform/join/rendezvous.h"
#include "perform/join/unrecorded_reports.h"
#include "perform/kernels/neighbours.h"
#include "perform/run/neighbour_links.h"
#include "perform/run/worker_placement.h"
#include "perform/stage/cell_relay.h"
#include "perform/stage/machine_load.h"
#include "perform/stage/perform.h"
#include "perform/stage/realtime.h"
#include "perform/stage/recorded_filler.h"
#include "perform/state/checkpoint_agent.h"
#include "perform/state/file_pieces.h"
#include "perform/state/resharded_state.h"
#include "perform/state/state_reader.h"
#include "perform/state/state_snapshot.h"
#include "spec/plan/plan_file.h"
#include "spec/plan/rank_name.h"
#include "spec/trace/trace_file.h"

namespace tombolo::run {
namespace {

using transport::Endpoint;

constexpr SimDuration kLooksAgainMax{400'000'000};
constexpr SimDuration kLookAgain{50'000'000};       // for a token file, or a newer one
constexpr const char* kWanTcp = "cubic";            // which the law of a WAN flow models
constexpr SimDuration kFarewellMax{5'000'000'000};  // for the last bytes to leave
constexpr SimDuration kReportEvery{1'000'000'000};
constexpr SimDuration kCertificateEvery{60'000'000'000};
constexpr SimDuration kVerdictMax{2'000'000'000};

// Where a session is. Only the performing thread moves it, forwards, by advance(); a session that is
// destroyed is set to kEnded, too.
enum class Phase {
  kJoining,     // -> kPreparing with the Plan, -> kEnded where the run was over before
  kPreparing,   // folders, kernels, state, links -> kPerforming when the launcher says go
  kPerforming,  // until all ranks have finished
  kGivingUp,    // from any but kEnded: nothing is computed any more, the state may be left
  kEnded,       // nothing is left to do: a launcher that hangs up is expected
};

// Who knows how this rank's part in the run ended.
enum class Known {
  kUnknown,    // not ended yet, or known to this rank alone
  kTold,       // the launcher, which tells people
  kContinues,  // the launcher, and the run continues: this rank's state is wanted
  kDisplaced,  // the launcher has another process in this rank's place
  kUnheard,    // this rank alone: it failed, and could not report why to a launcher
};

class RankSession {
 public:
  RankSession(const RankSessionOptions& options, Threads& clock)
      : options_(options), clock_(clock), member_(options.terms) {}
  ~RankSession();

  Status run(const KernelsFactory& make_kernels);
  RankEnd end(Status status);

 private:
  int32_t launcher() const { return options_.ranks; }
  bool on_several_hosts() const {
    return join::beyond_this_host(options_.launcher.host, options_.network);
  }
  SimTime in(SimDuration span) const { return clock_.now() + span; }
  Status say(const join::ControlMessage& message);
  std::string with_launcher_named(std::string line) const;
  Result<Endpoint::Options> listener(const link::Token& token, uint64_t epoch) const;
  Status dial_launcher();
  Status open_listener();
  Error stopped(const join::Stop& stop);
  Result<link::Token> token(SimTime deadline);
  Error nobody_there() const;
  std::string called_at() const;
  Status join();
  Status take_stock(const state::Survey& survey);
  Result<join::ControlMessage> hear();
  struct Assignment;
  Status work(const KernelsFactory& make_kernels);
  Result<std::unique_ptr<Assignment>> prepare(const KernelsFactory& make_kernels);
  Status carry_out(Assignment& assignment);
  Status perform_all(Assignment& assignment);
  Status tell_unrecorded();
  Status report(int64_t step, const join::ControlMessage& message);
  void leave_state();
  Status link_neighbours(const plan::Plan& plan);
  void start_relay(const plan::Plan& plan, const schedule::Schedule& schedule);
  Status join_replicas(const plan::Plan& plan, kernels::Messenger& messenger,
                       kernels::Kernels& kernels);
  Status resume(const plan::Plan& plan, kernels::Kernels& kernels);
  std::string state_folder() const;
  Status write_trace(const trace::Trace& part);
  void tidy_up();
  stage::Hooks hooks(const kernels::Kernels& kernels);
  Status keep_state(int64_t step, const kernels::Kernels& kernels);
  int64_t ranks_of_this_host() const;
  state::Room room() const {
    return state::half_of_the_host(ranks_of_this_host(), options_.memory_available);
  }
  Status take_batch(const join::ControlMessage& word);
  Result<SimTime> wait_for_go();
  Status leave();
  void listen();
  bool for_the_files(join::ControlMessage& order);
  void report_links();
  void stop(const std::string& reason);
  Error explain(Error error);
  void advance(Phase to);  // from the performing thread
  void now_known(Known known);

  const RankSessionOptions& options_;
  Threads& clock_;
  std::atomic<bool> quiet_ = false;     // this rank is stopped; outlives the Endpoints
  std::unique_ptr<Endpoint> control_;   // to the launcher, in epoch 0
  std::unique_ptr<Endpoint> endpoint_;  // to the other ranks, in the run's epoch
  link::Token token_;                   // that the launcher took
  uint64_t incarnation_ = 0;            // which process this is, for the other ranks
  int64_t epoch_ = 0;                   // of endpoint_
  std::optional<join::Start> start_;    // with what all began
  std::optional<state::CheckpointAgent> keeper_;
  state::PieceFetcher fetcher_{
      [this](const state::StateMessage& message) { return say(join::control_message(message)); },
      clock_};
  std::unique_ptr<Thread> listener_;
  control::Member member_;  // the listener's, once there is one
  SimTime joined_at_;       // when it said hello
  std::mutex leave_mutex_;  // held while the state is left
  std::optional<state::StateSnapshot> kept_;
  const kernels::Kernels* kernels_ = nullptr;  // whose state is to be left; null: none, or done
  int64_t state_read_ = 0;      // bytes of the state that it began with, from this host's disk
  int64_t state_fetched_ = 0;   // and from other hosts
  state::Finished finished_;    // what it will say when all is done
  bool has_finished_ = false;   // and has said
  kernels::Activity activity_;  // lets the launcher see progress
  int64_t damaged_ = 0;         // the step of the checkpoint that it could not read
  std::optional<NeighbourLinks> neighbours_;  // from before the second thread listens
  std::unique_ptr<Thread> reporter_;          // from when all links are up
  std::unique_ptr<stage::RelayThread>
      relay_;  // where the pipelines of a cell share the WAN in time
  join::UnrecordedReports unrecorded_;
  exchange::DensitySchedule density_;   // as the launcher orders it
  stage::BatchSchedule batch_{clock_};  // the same

  std::mutex mutex_;
  const std::unique_ptr<Signal> changed_ = clock_.signal();
  Phase phase_ = Phase::kJoining;
  Known known_ = Known::kUnknown;
  std::optional<SimTime> origin_;
  std::optional<std::string> verdict_;  // why all ranks stop
  std::optional<state::Over> over_;     // all ranks have finished
};

void RankSession::advance(Phase to) {
  std::lock_guard lock(mutex_);
  CHECK(to > phase_, "a session in phase {} goes to {}", static_cast<int>(phase_),
        static_cast<int>(to));
  phase_ = to;
  changed_->notify_all();
}

// What the launcher said is never replaced by kUnheard.
void RankSession::now_known(Known known) {
  std::lock_guard lock(mutex_);
  if (known != Known::kUnheard || known_ == Known::kUnknown) known_ = known;
}

RankSession::~RankSession() {
  if (phase_ != Phase::kEnded) advance(Phase::kEnded);
  if (endpoint_) endpoint_->abort({ErrorCode::kFailed, "this rank ended"});
  if (control_) control_->abort({ErrorCode::kFailed, "this rank ended"});
  relay_.reset();
  listener_.reset();
  reporter_.reset();
  keeper_.reset();
}

Status RankSession::say(const join::ControlMessage& message) {
  return control_->send(launcher(), join::kControlTag, join::encode(message))
      .map_error([](Error error) {
        error.code = ErrorCode::kLostPeer;
        return error;
      });
}

// The file comes into being when the launcher listens.
Result<link::Token> RankSession::token(SimTime deadline) {
  if (options_.token_file.empty()) return options_.token;
  while (true) {
    if (const auto token = TRY(join::read_token_file(options_.token_file))) return *token;
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

// To an Endpoint the launcher is one more rank.
std::string RankSession::with_launcher_named(std::string line) const {
  const std::string rank = fmt::format(" to rank {} ", launcher());
  const size_t at = line.find(rank);
  return at == std::string::npos ? line : line.replace(at, rank.size(), " to the launcher ");
}

// The one place where this rank's Endpoints are described. Links to other ranks outlive their connections
// for as long as a silent rank is tolerated (the grace), that to the launcher for a moment
// (listen_address.h).
Result<Endpoint::Options> RankSession::listener(const link::Token& token, uint64_t epoch) const {
  auto credentials = TRY(join::credentials_of(options_.security));
  Endpoint::Options listener{.identity = {.rank = options_.rank,
                                          .ranks = options_.ranks + 1,
                                          .epoch = static_cast<uint32_t>(epoch),
                                          .token = token,
                                          .incarnation = incarnation_},
                             .listen_address = options_.at.listen,
                             .port = epoch > 0 ? options_.at.ports.first : uint16_t{0},
                             .port_last = epoch > 0 ? options_.at.ports.last : uint16_t{0},
                             .network = options_.network,
                             .credentials = std::move(credentials),
                             .plain_tcp = options_.security.plain_tcp,
                             .one_clock = !on_several_hosts(),
                             .congestion_control = options_.network.empty() ? "" : kWanTcp,
                             .grace = options_.terms.ceiling,
                             .log = [this](const std::string& line) {
                               // Once all stop, refused calls are expected.
                               if (options_.log && !quiet_) options_.log(with_launcher_named(line));
                             }};
  if (epoch == 0) join::outlive_cuts(listener, options_.terms);
  return listener;
}

// Retries where a refusal may pass. A refused token may be an earlier run's, and the right one is about to
// be written. A launcher that hangs up without an answer was killed, or is about to listen again for
// another epoch. A launcher that says that this rank is already connected notices the loss of the previous
// process when its lease expires, and then listens again, too.
Status RankSession::dial_launcher() {
  const SimTime deadline = in(options_.join_max);
  SimTime taken_until = kNever;  // by the process before, whose lease runs out
  SimDuration pause = kLookAgain;
  while (true) {
    token_ = TRY(token(deadline));
    control_ = TRY(options_.sockets->open(TRY(listener(token_, 0)), clock_));
    const transport::Address& at = options_.launcher;
    const Status linked = control_->connect(launcher(), at.host, at.port, {}, deadline);
    if (linked) return {};
    const Error& error = linked.error();
    const bool is_duplicate = error.cause == ErrorCause::kDuplicateRank;
    if (!is_duplicate) taken_until = kNever;
    if (is_duplicate && taken_until == kNever)
      taken_until = in(std::min(options_.join_max, options_.terms.ceiling));
    const bool hung_up = error.code == ErrorCode::kLostPeer;
    const bool early =
        hung_up || (options_.returns && (is_duplicate || error.cause == ErrorCause::kAboutToEnd)) ||
        (error.cause == ErrorCause::kTokenDiffers && !options_.token_file.empty());
    if (!early || clock_.now() >= (is_duplicate ? taken_until : deadline)) {
      if (is_duplicate) now_known(options_.returns ? Known::kDisplaced : Known::kTold);
      return hung_up ? fail(nobody_there()) : linked;
    }
    // The rank may stay taken for long; back off, because each call logs a line on both sides.
    clock_.sleep_until(in(pause));
    if (is_duplicate) pause = std::min(pause * 2, kLooksAgainMax);
  }
}

Error RankSession::stopped(const join::Stop& stop) {
  now_known(stop.again ? Known::kContinues : Known::kTold);
  return {ErrorCode::kLostPeer, "stopped: " + stop.reason};
}

// The launcher answers a heartbeat with its epoch, even before the rank said hello. Frames of any other
// epoch are refused from here on, so a process that is left over from an earlier epoch cannot be mistaken
// for a neighbour, even if it has the same token.
Status RankSession::open_listener() {
  TRY(say(join::BeatReport{member_.beat(clock_.now())}));
  const auto received =
      control_->receive(launcher(), join::kControlTag, in(options_.terms.ceiling));
  if (!received) return fail({ErrorCode::kLostPeer, "the launcher went away", {}, ""});
  const join::ControlMessage answer = TRY(join::decode(received->payload));
  if (const auto* stop = std::get_if<join::Stop>(&answer)) return fail(stopped(*stop));
  const auto* lease = std::get_if<join::LeaseGrant>(&answer);
  if (!lease) return failed("the launcher did not say which epoch this is");
  const link::Token drawn = TRY(link::Token::random());
  std::memcpy(&incarnation_, drawn.bytes().data(), sizeof incarnation_);
  epoch_ = static_cast<int64_t>(lease->grant.epoch);
  endpoint_ = TRY(options_.sockets->open(TRY(listener(token_, lease->grant.epoch)), clock_));
  return {};
}

std::string RankSession::called_at() const {
  const std::string& called = options_.at.advertised;
  if (transport::parse_address(called)) return called;
  const std::string& host = called.empty() ? options_.at.listen : called;
  return transport::Address{host, endpoint_->port()}.text();
}

// This thread alone listens to the launcher until the Plan has arrived; then listen() does.
Status RankSession::join() {
  TRY(dial_launcher());
  joined_at_ = clock_.now();
  TRY(open_listener());
  TRY(say(join::Hello{
      getpid(), called_at(),
      static_cast<int32_t>(options_.at.no_inbound ? join::Reach::kNobody : join::Reach::kAll)}));
  join::ControlMessage first = TRY(hear());
  if (const auto* survey = std::get_if<state::Survey>(&first)) {
    TRY(take_stock(*survey));
    first = TRY(hear());
    // The launcher's host may lack the manifest that this one has.
    while (for_the_files(first)) first = TRY(hear());
  }
  if (auto* stop = std::get_if<join::Stop>(&first)) return fail(stopped(*stop));
  if (auto* over = std::get_if<state::Over>(&first)) {
    over_ = std::move(*over);
    return {};
  }
  auto* start = std::get_if<join::Start>(&first);
  const auto ranks = static_cast<size_t>(options_.ranks);
  if (!start || !keeper_ || start->addresses.size() != ranks ||
      (!start->reach.empty() && start->reach.size() != ranks)) {
    return failed("the launcher did not begin with a start message for all ranks");
  }
  if (start->epoch != epoch_)
    return failed(
        fmt::format("the launcher began epoch {} with a rank of epoch {}", start->epoch, epoch_));
  if (start->first_iteration < 1)
    return failed(fmt::format("the launcher began with iteration {}", start->first_iteration));
  start_ = std::move(*start);
  if (start_->keep && options_.on_joined) options_.on_joined();
  return {};
}

// A rank that was started by its own host writes only where that host says; a rank that the launcher
// started writes where the launcher does.
Status RankSession::take_stock(const state::Survey& survey) {
  const bool is_own = !options_.output.empty();
  state::StatePlaces places{is_own ? options_.output : survey.output, "", survey.run};
  if (!survey.checkpoints.empty() && is_own && options_.checkpoints.empty()) {
    Error error{
        ErrorCode::kUnusable,
        fmt::format("the launcher's job has [checkpoint] directory = \"{}\", and on this host "
                    "neither the job nor --checkpoints names a folder",
                    survey.checkpoints),
        {},
        "[checkpoint] in this host's job file, too, or --checkpoints DIR"};
    if (say(state::Failure{error})) static_cast<void>(control_->flush(in(kFarewellMax)));
    return fail(std::move(error));
  }
  if (!survey.checkpoints.empty())
    places.checkpoints = options_.checkpoints.empty() ? survey.checkpoints : options_.checkpoints;
  keeper_.emplace(
      std::move(places), options_.rank,
      [this](const state::StateMessage& message) { return say(join::control_message(message)); },
      clock_);
  return say(keeper_->take_stock(survey.fresh));
}

// The next message that is not about leases. Meanwhile sends heartbeats; fails when this rank's lease
// expires.
Result<join::ControlMessage> RankSession::hear() {
  const SimDuration patience = options_.terms.ceiling;
  while (true) {
    const SimTime now = clock_.now();
    if (member_.over(now) || (member_.epoch() == 0 && now >= joined_at_ + patience)) {
      return fail(
          {ErrorCode::kLostPeer, "the launcher was silent until the lease of this rank was over"});
    }
    // To the endpoint the launcher is one more rank; to people it is the launcher.
    const Error gone{ErrorCode::kLostPeer, "the launcher went away", {}, ""};
    if (now >= member_.next_beat() && !say(join::BeatReport{member_.beat(now)})) return fail(gone);
    SimTime until = member_.next_beat();
    if (member_.epoch() > 0) until = std::min(until, member_.lease_end());
    const auto received = control_->receive(launcher(), join::kControlTag, until);
    if (!received && clock_.now() >= until) continue;  // a real error shows up again
    if (!received && received.error().code == ErrorCode::kLostPeer) return fail(gone);
    join::ControlMessage message = TRY(join::decode(TRY(received).payload));
    const auto* lease = std::get_if<join::LeaseGrant>(&message);
    if (!lease) return message;
    const bool knew = member_.epoch() > 0;
    member_.answered(lease->grant, clock_.now());
    // Acknowledge the epoch; work starts once all ranks have.
    if (!knew && member_.epoch() > 0) TRY(say(join::BeatReport{member_.beat(clock_.now())}));
  }
}

Status RankSession::run(const KernelsFactory& make_kernels) {
  TRY(during(join(), "joining the run"));
  if (over_) {  // the launcher was killed before it could tell this rank
    TRY(leave());
    tidy_up();
    return {};
  }
  neighbours_.emplace(
      NeighbourLinks::Options{
          .rank = options_.rank,
          .launcher = options_.launcher,
          .splice_port = start_->splice_port,
          .addresses = start_->addresses,
          .reach = start_->reach,
          .emulated_wan = !options_.network.empty() || on_several_hosts(),
          .several_hosts = on_several_hosts(),
          .report = [this](const join::Unreached& unreached) { return say(unreached); }},
      *endpoint_, clock_);
  advance(Phase::kPreparing);
  listener_ = clock_.start([this] { listen(); });
  TRY(work(make_kernels));
  TRY(leave());
  tidy_up();
  return {};
}

// All ranks are done: a launcher that hangs up is expected, and so is a neighbour that cannot be told
// goodbye.
Status RankSession::leave() {
  {
    std::lock_guard lock(mutex_);
    if (verdict_) return fail({ErrorCode::kLostPeer, "stopped: " + *verdict_});
    phase_ = Phase::kEnded;
  }
  static_cast<void>(endpoint_->close(in(kFarewellMax)));
  static_cast<void>(control_->close(in(kFarewellMax)));
  return {};
}

// What a rank has to do and what it does it with. The order of the members is that of their lifetimes:
// kernels may use the messenger, which uses the filler.
struct RankSession::Assignment {
  plan::Plan plan;
  schedule::Schedule schedule;
  std::unique_ptr<stage::Filler> filler;  // null: prompts do not fill its waits
  stage::RecordedFiller recorded;
  stage::FillingMessenger filling;
  kernels::WatchedMessenger messenger;
  std::unique_ptr<kernels::Kernels> kernels;

  Assignment(RankSession& session, plan::Plan plan_in, schedule::Schedule schedule_in,
             std::unique_ptr<stage::Filler> filler_in)
      : plan(std::move(plan_in)),
        schedule(std::move(schedule_in)),
        filler(std::move(filler_in)),
        recorded(filler.get(), session.clock_),
        filling(*session.endpoint_, filler ? &recorded : nullptr, session.clock_,
                session.options_.filling, plan.exchange.value_or(plan::Exchange{}).order_in_use()),
        messenger(filling, session.activity_) {}
};

Result<std::unique_ptr<RankSession::Assignment>> RankSession::prepare(
    const KernelsFactory& make_kernels) {
  plan::Plan plan = TRY(plan::from_value(start_->plan, "the launcher's Plan"));
  if (plan.ranks.size() != static_cast<size_t>(options_.ranks)) {
    return failed(fmt::format("a Plan of {} ranks for {}", plan.ranks.size(), options_.ranks));
  }
  if (!options_.job.empty()) TRY(join::check_job_terms(options_.job, plan));
  schedule::Schedule schedule = TRY(schedule::build(plan));
  std::unique_ptr<stage::Filler> filler;
  if (options_.make_filler)
    filler = TRY(during(options_.make_filler(options_.rank, *endpoint_), "preparing for prompts"));
  auto out =
      std::make_unique<Assignment>(*this, std::move(plan), std::move(schedule), std::move(filler));
  const bool takes_checkpoints = out->plan.checkpoint && out->plan.checkpoint->every > 0;
  if (takes_checkpoints && keeper_->places().checkpoints.empty())
    return failed("the launcher did not say where checkpoints go");
  const std::string self = plan::rank_name(out->plan, options_.rank);
  TRY(during(keeper_->prepare(takes_checkpoints), "preparing the folders of " + self));
  TRY(tell_unrecorded());
  out->kernels = TRY(during(make_kernels(out->plan, options_.rank), "loading " + self));
  if (out->plan.run.threads == 0 && options_.log) {
    const int64_t threads = out->kernels->threads();
    options_.log(fmt::format("computes with {} thread{}", threads, threads == 1 ? "" : "s"));
  }
  return out;
}

Status RankSession::carry_out(Assignment& assignment) {
  const plan::Plan& plan = assignment.plan;
  TRY(resume(plan, *assignment.kernels));
  // With staleness no state is kept: a copy before an update would have residuals of another step. Nor with
  // local steps: no other datacenter has the parameters of this one.
  const int64_t staleness = plan.exchange.value_or(plan::Exchange{}).staleness_in_use();
  if (start_->keep && staleness == 0 && !kernels::steps_locally(plan)) {
    std::lock_guard lock(leave_mutex_);
    kept_.emplace(
        state::kept_folder(keeper_->places().output, static_cast<uint64_t>(start_->epoch)),
        options_.rank, start_->epoch, start_->first_iteration - 1, room());
    kernels_ = assignment.kernels.get();
  }
  return perform_all(assignment);
}

Status RankSession::work(const KernelsFactory& make_kernels) {
  auto assignment = prepare(make_kernels);
  Status status = assignment ? carry_out(**assignment) : fail(std::move(assignment.error()));
  if (!status) {
    advance(Phase::kGivingUp);
    const bool trouble_elsewhere = status.error().code == ErrorCode::kLostPeer;
    status = fail(explain(std::move(status.error())));
    if (trouble_elsewhere) leave_state();
  }
  // The listening thread may be writing the state right now, and the kernels end here.
  std::lock_guard lock(leave_mutex_);
  kernels_ = nullptr;
  return status;
}

// Reports again what the previous process of this rank reported to a launcher that was lost. In the first
// epoch of a run there was none.
Status RankSession::tell_unrecorded() {
  const std::string path = join::UnrecordedReports::path(keeper_->places().output, options_.rank);
  if (start_->epoch <= 1) {
    unrecorded_.begin(path);
    return {};
  }
  for (const join::ControlMessage& message : unrecorded_.take_over(path, start_->first_iteration))
    TRY(say(message));
  return {};
}

Status RankSession::report(int64_t step, const join::ControlMessage& message) {
  unrecorded_.add(step, message);
  return say(message);
}

Status RankSession::perform_all(Assignment& assignment) {
  const plan::Plan& plan = assignment.plan;
  const schedule::Schedule& schedule = assignment.schedule;
  kernels::Kernels& kernels = *assignment.kernels;
  const stage::FillingMessenger& filling = assignment.filling;
  const bool emulated = plan.device_of(options_.rank).kind == cluster::DeviceKind::kEmulated;
  const bool realtime = emulated && options_.realtime && stage::make_realtime();
  TRY(link_neighbours(plan));
  if (plan.replicas() > 1) TRY(join_replicas(plan, assignment.messenger, kernels));
  reporter_ = clock_.start([this] { report_links(); });
  if (plan.batch_changes()) {
    batch_.check_with([plan, rank = options_.rank](const std::vector<int64_t>& each) -> Status {
      TRY(stage::divide(plan, rank, each));
      return {};
    });
  }
  TRY(say(join::Ready{}));
  const SimTime origin = TRY(wait_for_go());
  advance(Phase::kPerforming);
  const stage::ProcessMeter cpu;
  start_relay(plan, schedule);
  const auto replica = static_cast<size_t>(plan.ranks[options_.rank].replica);
  stage::CellMessenger in_cell(plan, options_.rank, assignment.messenger);
  trace::Trace part = TRY(stage::perform(
      plan, schedule.ranks[options_.rank],
      {.rank = options_.rank,
       .first_iteration = start_->first_iteration,
       .origin = origin,
       .release = schedule.release.empty() ? SimDuration{} : schedule.release[replica],
       .pairs = schedule.pairs.empty() ? std::vector<schedule::Pair>{}
                                       : schedule.pairs[static_cast<size_t>(options_.rank)],
       .emulated_wan = !options_.network.empty(),
       .one_clock = !on_several_hosts(),
       .has_room = room(),
       .windows = options_.filling.windows,
       .activity = &activity_,
       .density = &density_,
       .batch = plan.batch_changes() ? &batch_ : nullptr},
      kernels, in_cell, clock_, hooks(kernels)));
  const auto add = [&](const char* name, double value) {
    part.records.push_back({.name = name, .rank = options_.rank, .value = value});
  };
  if (start_->first_iteration > 1) {
    add("state_bytes_read", static_cast<double>(state_read_));
    add("state_bytes_fetched", static_cast<double>(state_fetched_));
  }
  if (options_.make_filler) {
    add("prompts_s", seconds(filling.filled()).value);
    add("prompt_layers", static_cast<double>(filling.pieces()));
    add("prompt_holds", static_cast<double>(filling.held().times));
    add("prompt_held_s", seconds(filling.held().sum).value);
    add("prompt_held_max_s", seconds(filling.held().longest).value);
    if (options_.filling.windows)
      add("prompt_guard_s", seconds(options_.filling.windows->guard()).value);
    const auto layers =
        assignment.recorded.intervals(options_.rank, plan.ranks[options_.rank].stage, origin);
    part.intervals.insert(part.intervals.end(), layers.begin(), layers.end());
  }
  if (kernels.state_bytes() > 0) add("state_bytes", static_cast<double>(kernels.state_bytes()));
  if (plan.run.threads) add("threads", static_cast<double>(kernels.threads()));
  if (emulated) add(trace::kRealtimeRecord, realtime ? 1 : 0);
  add(stage::kCoresUsedRecord, cpu.cores());
  TRY(during(write_trace(part), "writing the trace"));
  if (relay_) TRY(relay_->finish());
  // A slow link may need long for the last gradients; a stop, or a lost peer, ends the wait.
  TRY(endpoint_->flush(kNever));
  {
    const std::lock_guard lock(mutex_);
    has_finished_ = true;  // before it is sent, since the end may follow at once
  }
  TRY(say(finished_));
  // Until all have: if one is lost before, this rank's state is wanted.
  std::unique_lock lock(mutex_);
  clock_.await(*changed_, lock, kNever, [&] { return over_ || verdict_; });
  if (over_) return {};
  return fail({ErrorCode::kLostPeer, "stopped: " + *verdict_});
}

Status RankSession::write_trace(const trace::Trace& part) {
  const std::string path = state::rank_trace_path(keeper_->places().output, options_.rank);
  TRY(trace::write_trace(path, part));
  FileDigest file = TRY(digest_of_file(path));
  finished_ = {file.bytes, std::move(file.digest)};
  return {};
}

// All is done: removes files that are no longer needed.
void RankSession::tidy_up() {
  unrecorded_.forget();
  if (keeper_) keeper_->finish();
  std::error_code ec;
  const state::StatePlaces places =
      keeper_ ? keeper_->places() : state::StatePlaces{options_.output, options_.checkpoints};
  if (places.output.empty()) return;  // the launcher's folder, which it tidies up itself
  if (std::count(over_->fetched.begin(), over_->fetched.end(), options_.rank) > 0)
    std::filesystem::remove(state::rank_trace_path(places.output, options_.rank), ec);
  state::remove_kept(places.output);
}

// Writes this rank's state for the next epoch, unless the launcher said that the run has ended. Once: by
// the listening thread when it receives the verdict, however long the performing thread still computes, or
// by the performing thread before that.
void RankSession::leave_state() {
  {
    std::lock_guard lock(mutex_);
    if (known_ == Known::kTold) return unrecorded_.forget();
  }
  unrecorded_.leave();
  std::lock_guard lock(leave_mutex_);
  if (!kernels_) return;
  const Status left = kept_->leave(*std::exchange(kernels_, nullptr));
  if (!left && options_.log) options_.log("could not leave its state: " + left.error().text());
}

Status RankSession::link_neighbours(const plan::Plan& plan) {
  const std::vector<int32_t> neighbours = kernels::neighbours(plan, options_.rank);
  std::set<int32_t> peers(neighbours.begin(), neighbours.end());
  peers.insert(options_.filling_peers.begin(), options_.filling_peers.end());
  return neighbours_->link(plan, peers);
}

// A relay that fails reports to the launcher at once, because other ranks wait for it.
void RankSession::start_relay(const plan::Plan& plan, const schedule::Schedule& schedule) {
  std::vector<link::Passage> passages = stage::passages_of(plan, schedule, options_.rank);
  if (passages.empty()) return;
  link::Relay relay(std::move(passages), static_cast<uint64_t>(start_->first_iteration),
                    static_cast<uint64_t>(plan.run.steps));
  relay_ = std::make_unique<stage::RelayThread>(
      *endpoint_, std::move(relay),
      [this](const Error& error) { static_cast<void>(say(state::Failure{error})); }, clock_);
}

Status RankSession::join_replicas(const plan::Plan& plan, kernels::Messenger& messenger,
                                  kernels::Kernels& kernels) {
  const layout::Placement& own = plan.ranks[options_.rank];
  return during(kernels.join_replicas({.ranks = plan.replicas_of(own.stage),
                                       .own = static_cast<size_t>(own.replica),
                                       .messenger = &messenger,
                                       .lie_apart = plan.replicas_lie_apart(own.stage),
                                       .address = options_.at.listen,
                                       .one_clock = !on_several_hosts()}),
                fmt::format("joining the replicas of stage {}", own.stage));
}

std::string RankSession::state_folder() const {
  const state::StatePlaces& places = keeper_->places();
  const int64_t step = start_->state->step;
  if (start_->state_epoch == 0) return state::step_folder(places.checkpoints, step);
  return state::step_folder(
      state::kept_folder(places.output, static_cast<uint64_t>(start_->state_epoch)), step);
}

// Reads the tensors that the kernels ask for, one after the other: from this host's disk, or through a rank
// whose host has them.
Status RankSession::resume(const plan::Plan& plan, kernels::Kernels& kernels) {
  const std::string& checkpoints = keeper_->places().checkpoints;
  if (plan.checkpoint && plan.checkpoint->every > 0 && !checkpoints.empty())
    state::discard_unfinished(checkpoints, start_->first_iteration);
  if (!start_->state) return kernels.begin_anew();
  if (start_->state->step + 1 != start_->first_iteration)
    return failed(fmt::format("a state of step {} for iteration {}", start_->state->step,
                              start_->first_iteration));
  const state::FoundCheckpoint found{state_folder(), std::move(*start_->state)};
  TRY(state::check_fits(found, plan));
  const state::FileRequest range{
      .what = start_->state_epoch == 0 ? state::FileKind::kCheckpoint : state::FileKind::kKept,
      .epoch = start_->state_epoch,
      .step = found.manifest.step};
  state::StateReader reader(found, [&](const state::Shard& shard, int64_t offset, int64_t bytes) {
    state::FileRequest wanted = range;
    wanted.file = shard.file;
    wanted.offset = offset;
    wanted.bytes = bytes;
    return fetcher_.fetch(std::move(wanted));
  });
  const auto read = [&](const std::string& name) { return reader.read(name); };
  if (start_->state_epoch != 0) {  // of this very Plan
    TRY(during(kernels.load(read), "loading " + found.folder));
  } else {
    state::ReshardedState fitted(plan, options_.rank, state::shapes_of(found.manifest), read);
    Status loaded = kernels.load([&](const std::string& name) { return fitted.read(name); });
    if (!loaded && reader.damaged()) damaged_ = found.manifest.step;
    TRY(during(std::move(loaded), "loading " + found.folder));
    for (const std::string& note : fitted.notes())
      if (options_.log) options_.log(note);
  }
  state_read_ = reader.bytes_read();
  state_fetched_ = reader.bytes_fetched();
  return {};
}

Status RankSession::keep_state(int64_t step, const kernels::Kernels& kernels) {
  const bool known = kept_->too_large() > 0;
  TRY(kept_->copy(step, kernels));
  if (known || kept_->too_large() == 0 || !options_.log) return {};
  options_.log(
      fmt::format("keeps no copy of its state, for this host has no room for {}: when a rank "
                  "is lost during updates, the run goes back to a checkpoint",
                  brief(Bytes{static_cast<double>(kept_->too_large())})));
  return {};
}

// How many ranks share this host and its memory: those with the same host address.
int64_t RankSession::ranks_of_this_host() const {
  if (!on_several_hosts()) return options_.ranks;
  const auto host_of = [&](size_t rank) {
    const auto at = transport::parse_address(start_->addresses[rank]);
    return at ? at->host : start_->addresses[rank];
  };
  int64_t ranks = 0;
  for (size_t rank = 0; rank < start_->addresses.size(); ++rank)
    ranks += host_of(rank) == host_of(static_cast<size_t>(options_.rank));
  return ranks;
}

stage::Hooks RankSession::hooks(const kernels::Kernels& kernels) {
  stage::Hooks out;
  if (kept_) {
    out.before_update = [this, &kernels](int64_t step) { return keep_state(step, kernels); };
    out.updated = [this](int64_t step) -> Status {
      kept_->updated(step);
      return {};
    };
  }
  out.iteration = [this](const stage::IterationReport& done) {
    return report(done.iteration, join::ProgressReport{done});
  };
  // A failed exchange is reported to the launcher at once, because other ranks wait for it.
  out.exchange_failed = [this](const Error& error) {
    static_cast<void>(say(state::Failure{error}));
  };
  out.write = [this](int64_t step, state::CopyOnWriteState& state) {
    return state::write_shard(keeper_->places().checkpoints, step, options_.rank, start_->epoch,
                              state);
  };
  out.note = options_.log;
  out.shard = [this](int64_t step, const state::Shard& shard) {
    return say(state::ShardReport{step, shard});
  };
  out.missed = [this](int64_t step, const Error& error) { return say(state::Missed{step, error}); };
  out.evaluation = [this](const stage::Evaluation& evaluation) {
    return report(evaluation.step, join::EvaluationReport{evaluation});
  };
  return out;
}

Result<SimTime> RankSession::wait_for_go() {
  std::unique_lock lock(mutex_);
  clock_.await(*changed_, lock, kNever, [&] { return origin_ || verdict_; });
  if (verdict_) return fail({ErrorCode::kLostPeer, "stopped: " + *verdict_});
  return *origin_;
}

// The second thread. It ends when the Endpoint does.
void RankSession::listen() {
  while (true) {
    auto order = hear();
    if (!order) return stop(order.error().message);
    if (for_the_files(*order)) continue;
    if (const auto* last = std::get_if<join::Stop>(&*order)) {
      now_known(last->again ? Known::kContinues : Known::kTold);
      return stop(last->reason);
    }
    if (const auto* meet = std::get_if<join::Meet>(&*order)) neighbours_->take(*meet);
    if (const auto* ordered = std::get_if<join::DensityOrder>(&*order))
      density_.order(ordered->first_iteration, ordered->density);
    if (const Status taken = take_batch(*order); !taken) return stop(taken.error().text());
    std::lock_guard lock(mutex_);
    if (const auto* go = std::get_if<join::Go>(&*order)) {
      // Clocks of several hosts differ, so there it is the local arrival time of Go, which is late by one
      // message latency.
      origin_ = on_several_hosts() ? clock_.now() : SimTime{go->origin_ns};
    }
    if (const auto* over = std::get_if<state::Over>(&*order)) over_ = *over;
    if (const auto* recorded = std::get_if<join::Recorded>(&*order))
      unrecorded_.recorded(recorded->step);
    changed_->notify_all();
  }
}

// Handles orders and verdicts about the microbatches of each pipeline; ignores other messages.
Status RankSession::take_batch(const join::ControlMessage& word) {
  if (const auto* ordered = std::get_if<join::BatchOrder>(&word)) {
    const auto answer =
        TRY(batch_.ask(ordered->order, ordered->first_iteration, ordered->microbatches));
    return say(join::BatchAnswer{ordered->order, answer.in_time, answer.unusable});
  }
  const auto* decided = std::get_if<join::BatchVerdict>(&word);
  return decided ? batch_.decide(decided->order, decided->holds) : Status();
}

// Whether it is an order about files; if so it is passed to the threads that carry it out.
bool RankSession::for_the_files(join::ControlMessage& order) {
  if (auto* piece = std::get_if<state::FilePiece>(&order)) {
    fetcher_.take(std::move(*piece));
  } else if (const auto* asked = std::get_if<state::FileRequest>(&order)) {
    keeper_->take(*asked);
  } else if (auto* commit = std::get_if<state::Commit>(&order)) {
    keeper_->take(std::move(*commit));
  } else if (const auto* drop = std::get_if<state::Drop>(&order)) {
    keeper_->take(*drop);
  } else if (const auto* retire = std::get_if<state::Retire>(&order)) {
    keeper_->take(*retire);
  } else {
    return false;
  }
  return true;
}

// The third thread: reports the links, for people, and the first thread's activity, for the launcher to see
// a hang.
void RankSession::report_links() {
  SimTime certificate_due = clock_.now();
  std::unique_lock lock(mutex_);
  while (!clock_.await(*changed_, lock, in(kReportEvery),
                       [&] { return phase_ == Phase::kEnded || verdict_; })) {
    lock.unlock();
    join::LinksReport report{observe::link_reports(endpoint_->statistics(), launcher()),
                             activity_.report()};
    if (clock_.now() >= certificate_due) {
      report.certificate = join::certificate_of(options_.security);
      certificate_due = in(kCertificateEvery);
    }
    if (!say(report)) return;  // the other threads learn why
    lock.lock();
  }
}

// The state is written from here, because a kernel of the performing thread, or the shard that it writes,
// may take minutes. Their results are not needed any more, so that thread is waited for only as long as an
// ordinary end takes.
void RankSession::stop(const std::string& reason) {
  std::unique_lock lock(mutex_);
  // If all ranks have finished, the stop is expected. A rank that has not finished must stop, whatever it
  // was told, because it would wait for ever.
  if (phase_ == Phase::kEnded || (over_ && has_finished_)) return;
  verdict_ = reason;
  changed_->notify_all();
  lock.unlock();
  neighbours_->stop();
  batch_.stop({ErrorCode::kLostPeer, reason});
  fetcher_.stop({ErrorCode::kLostPeer, reason});
  quiet_ = true;
  endpoint_->abort({ErrorCode::kLostPeer, reason});
  control_->abort({ErrorCode::kLostPeer, reason});
  leave_state();
  if (options_.stuck_max.ns == 0) return;
  lock.lock();
  const auto leaves = [&] { return phase_ >= Phase::kGivingUp; };
  if (clock_.await(*changed_, lock, in(options_.stuck_max), leaves)) return;
  if (options_.log) options_.log("ended in the middle of a computation: " + reason);
  const bool again = known_ != Known::kTold;
  options_.end_process(options_.returns && again ? kComesAgain : 1);
}

// A failure of a peer has its cause elsewhere, and the launcher knows it: its reason is returned instead,
// if it arrives within kVerdictMax. Any other failure is this rank's own, and is reported to the launcher.
Error RankSession::explain(Error error) {
  std::unique_lock lock(mutex_);
  if (error.code == ErrorCode::kLostPeer || verdict_) {
    if (!verdict_) {
      lock.unlock();
      static_cast<void>(say(state::Failure{error}));
      lock.lock();
    }
    clock_.await(*changed_, lock, in(kVerdictMax), [&] { return verdict_.has_value(); });
    if (verdict_) return {ErrorCode::kLostPeer, "stopped: " + *verdict_, error.context};
    return error;
  }
  lock.unlock();
  if (say(state::Failure{error, damaged_})) static_cast<void>(control_->flush(in(kFarewellMax)));
  // The launcher answers with a stop; then its thread aborts the Endpoint.
  lock.lock();
  clock_.await(*changed_, lock, in(kVerdictMax), [&] { return verdict_.has_value(); });
  // If so the launcher knows the cause, and tells it once for all ranks.
  const bool heard = known_ == Known::kTold || known_ == Known::kContinues;
  if (verdict_ && heard) return {error.code, "gave up; the launcher says why"};
  lock.unlock();
  now_known(Known::kUnheard);
  return error;
}

// A member of the run that failed without being able to report it returns to the next launcher, which waits
// for it; so does one whose launcher is gone.
RankEnd RankSession::end(Status status) {
  std::lock_guard lock(mutex_);
  const bool told =
      known_ == Known::kTold || known_ == Known::kContinues || known_ == Known::kDisplaced;
  const bool unheard =
      known_ == Known::kUnheard || (!status && status.error().code == ErrorCode::kLostPeer);
  const bool returns = known_ == Known::kContinues || (joined_at_.ns != 0 && !told && unheard);
  return {.status = std::move(status),
          .told = told,
          .again = !status && returns,
          .began = start_.has_value(),
          .displaced = known_ == Known::kDisplaced};
}

}  // namespace

RankEnd serve_rank(const RankSessionOptions& options, const KernelsFactory& make_kernels,
                   Threads& clock) {
  CHECK(make_kernels, "no kernels for rank {}", options.rank);
  RankSession session(options, clock);
  Status status = session.run(make_kernels);
  return session.end(std::move(status));
}

int RankEnd::exit_code(bool returns) const {
  if (status) return 0;
  if (returns && again) return began ? kComesAgain : kComesAgainFromGathering;
  return displaced ? kDisplaced : status.error().exit_code();
}

}  // namespace tombolo::run
