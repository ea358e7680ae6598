#include "perform/run/epoch.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <thread>

#include "base/check.h"
#include "base/file.h"
#include "perform/observe/progress_watch.h"
#include "perform/observe/silence_watch.h"
#include "perform/run/child_process.h"
#include "perform/run/first_checkpoint.h"
#include "perform/run/step_reports.h"
#include "perform/run/takeover_shutdown.h"
#include "perform/run/unreached_pairs.h"
#include "perform/run/worker_placement.h"
#include "perform/run/workers.h"
#include "perform/state/checkpoint_coordinator.h"
#include "perform/state/checkpoint_lock.h"
#include "perform/state/state_snapshot.h"
#include "spec/plan/plan_file.h"
#include "spec/plan/rank_name.h"
#include "spec/trace/trace_file.h"

namespace tombolo::run {
namespace {

constexpr SimDuration kPatience{50'000'000};     // between two looks at the stop flag
constexpr SimDuration kCauseMax{1'500'000'000};  // for the cause to show behind its effect
constexpr SimDuration kStopMax{5'000'000'000};   // for workers to end after a Stop
constexpr SimDuration kSayWaitsAfter{1'000'000'000};
constexpr SimDuration kLeaveMax{600'000'000'000};  // for those that leave their state behind
constexpr SimDuration kSeatMax{10'000'000'000};    // for a spare to connect as its new rank
constexpr SimDuration kReturnMax{5'000'000'000};   // for survivors to reconnect, before spares may
constexpr int kLackingMax = 6;  // gatherings that wait for a host which alone has some of the state

using observe::RunPhase;

class Epoch {
 public:
  Epoch(const plan::Plan& plan, const LaunchOptions& options, join::Membership& membership,
        observe::StepRecord& record, DensityControl& density, BatchControl& batch, Past past,
        Threads& clock, std::function<Status()> begin)
      : plan_(plan),
        options_(options),
        begin_(std::move(begin)),
        membership_(membership),
        record_(record),
        density_(density),
        batch_(batch),
        past_(std::move(past)),
        goes_on_(!past_.why.empty()),
        clock_(clock),
        ranks_(plan.ranks.size()),
        damaged_(past_.damaged),
        certificates_(past_.certificates) {}

  EpochEnd run();

 private:
  // How far a rank's process is, by its own messages, which move it forwards only. Whether it has ended
  // is kept separately (Slot::status), because ranks that have finished end, too.
  enum class SlotState {
    kAwaited,   // no hello yet
    kHere,      // it has said where it can be reached
    kReady,     // it is linked to its neighbours
    kFinished,  // behind the last step
    kFailed,    // it said why; its end is expected
  };
  // One per rank.
  struct Slot {
    SlotState state = SlotState::kAwaited;
    std::string address;
    int32_t reach = 0;  // dialling.h
    std::optional<int> status;
    std::optional<std::string> disconnected;  // why
    SimTime given_until;                      // to a spare, which is to come by then
  };
  // A cause, or an effect that counts as one if nothing better shows until `due`.
  struct Trouble {
    Error error;
    SimTime due;
  };

  Result<observe::RunSummary> perform();
  bool all_had_come() const { return reached(RunPhase::kTakingStock); }
  Status prepare();
  Status wait_for_members();
  Status open_listener();
  Status start();
  Result<observe::RunSummary> finish_for_another();
  void take_last_checkpoint();
  observe::RunSummary done_summary(trace::Trace trace) const;
  void add_decisions(observe::RunSummary& summary) const;
  Status supervise();
  Status all_came();
  void open_desk();
  Status begin_if_known();
  Status handle(int32_t rank, const Event& event);
  Status handle(int32_t rank, const join::Hello& hello);
  Status handle(int32_t rank, const join::Unreached& message);
  Status handle(int32_t rank, const state::Inventory& message);
  Status handle(int32_t rank, const join::Ready&);
  Status handle(int32_t rank, const join::ProgressReport& message);
  Status handle(int32_t rank, const join::BatchAnswer& message);
  Status handle(int32_t rank, const join::EvaluationReport& message);
  Status handle(int32_t rank, const state::ShardReport& message);
  Status handle(int32_t rank, const state::Committed& message);
  Status handle(int32_t rank, const state::Missed& message);
  Status handle(int32_t rank, const state::FileRequest& message);
  Status handle(int32_t rank, const state::FilePiece& message);
  Status handle(int32_t rank, const join::LinksReport& message);
  Status handle(int32_t rank, const state::Finished& message);
  Status handle(int32_t rank, const state::Failure& message);
  Status handle(int32_t rank, const Exited& exit);
  Status handle(int32_t rank, const Disconnected& end);
  Status handle(int32_t rank, const Duplicate&);
  template <typename Unexpected>
  Status handle(int32_t rank, const Unexpected&) {
    return failed(fmt::format("{} sent a message that only a launcher sends", name(rank)));
  }
  Status announce(const tune::DensityDecision& change);
  Status end_if_done();
  Status lose(int32_t rank);
  Status tell_all(const join::ControlMessage& message);
  Status check_stop();
  Status check_membership();
  void check_ended();
  Status check_pairs();
  void offer_seats();
  Status go_if_ready();
  bool falls_back(const state::Failure& message) const;
  std::string beginning_note(const state::CheckpointCoordinator::Beginning& beginning) const;
  Outcome halt(Error error);
  void stop_workers(const Outcome& outcome);
  void await_others(bool again);
  void note_waits(SimDuration lease);
  bool keeps_state() const;
  void suspect(Error error);
  void clean_up();
  void add_losses_before(trace::Trace& trace) const;
  Result<observe::RunSummary> conclude();

  bool reached(RunPhase phase) const { return phase_ >= phase; }
  void advance(RunPhase next);
  void reach(int32_t rank, SlotState state) {
    slots_[rank].state = std::max(slots_[rank].state, state);
  }
  std::string name(int32_t rank) const { return plan::rank_name(plan_, rank); }
  bool is_child(int32_t rank) const { return !options_.rendezvous || rank == 0; }
  std::string resume_hint() const;

  const plan::Plan& plan_;
  const LaunchOptions& options_;
  const std::function<Status()> begin_;
  join::Membership& membership_;
  observe::StepRecord& record_;
  DensityControl& density_;
  BatchControl& batch_;
  const Past past_;
  const bool goes_on_;
  Threads& clock_;
  const size_t ranks_;
  std::string program_;
  std::vector<WorkerPlacement> placements_;
  RunPhase phase_ = RunPhase::kGathering;
  link::Token token_;  // of this epoch's listener
  std::optional<join::TokenFile> token_file_;
  SimTime offer_at_ = kNever;      // vacant ranks to spares
  SimTime end_deadline_ = kNever;  // for all to end, once they were told
  // What would be the setback if this epoch ended now, once all have come.
  Setback setback_ = Setback::kLoss;
  int64_t first_iteration_ = 1;
  std::optional<state::FoundCheckpoint> checkpoint_;  // the newest in this host's folder
  std::optional<state::CheckpointCoordinator> desk_;  // from when all have come
  int64_t damaged_;                                   // as in Past
  observe::CertificateWatch certificates_;
  // The rank that was lost first and how it ended, once that is known.
  struct Culprit {
    int32_t rank = 0;
    std::string how;
  };
  std::optional<Culprit> culprit_;
  std::unique_ptr<Workers> workers_;
  std::optional<StepReports> steps_;
  std::vector<Slot> slots_;
  std::optional<Trouble> trouble_;
  std::optional<UnreachedPairs> pairs_;  // from the start message on
  observe::SilenceWatch silence_{plan_};
  observe::ProgressWatch progress_{plan_};
  stage::CpuMeter cpu_;             // from when all ranks go,
  std::optional<double> cpu_busy_;  // to the end of the last iteration
};

void Epoch::advance(RunPhase next) {
  CHECK(static_cast<int>(next) == static_cast<int>(phase_) + 1, "a run that is {} is {} next",
        to_name(phase_), to_name(next));
  phase_ = next;
  if (options_.telemetry) options_.telemetry->add(next);
}

// Everything that can be known to be wrong before a process starts.
Status Epoch::prepare() {
  TRY(check_performable(plan_));
  placements_ = TRY(worker_placements_of(plan_, options_.islands));
  if (options_.rendezvous && !options_.islands) {
    join::ListenAddress& own = placements_[0].at = options_.rendezvous->listen;
    if (own.listen.empty())
      own.listen = TRY(transport::own_address_towards(options_.rendezvous->at.host));
  }
  for (WorkerPlacement& placement : placements_) {
    placement.at.no_inbound = options_.no_inbound;
    if (!options_.advertise.empty()) placement.at.advertised = options_.advertise;
  }
  program_ = options_.worker_program;
  if (program_.empty()) program_ = TRY(sibling_program("tombolo-worker"));
  if (access(program_.c_str(), X_OK) != 0) {
    return unusable(fmt::format("{}: there is no such program", program_),
                    "the path of tombolo-worker");
  }
  TRY(during(make_directories(options_.output), "creating the output folder"));
  if (membership_.was_done()) {
    take_last_checkpoint();
  } else {
    checkpoint_ = TRY(first_checkpoint(plan_, options_, goes_on_, damaged_, options_.on_note));
  }
  if (checkpoint_) first_iteration_ = checkpoint_->manifest.step + 1;
  return {};
}

EpochEnd Epoch::run() {
  Result<observe::RunSummary> summary = perform();
  EpochEnd end;
  if (summary) {
    end.outcome = std::move(*summary);
  } else if (!workers_) {
    end.outcome = std::move(summary.error());
  } else {
    end.outcome = halt(std::move(summary.error()));
    stop_workers(end.outcome);
    clean_up();
  }
  end.damaged = damaged_;
  end.certificates = certificates_;
  return end;
}

// If it fails, workers_ may be set: then run() stops the workers.
Result<observe::RunSummary> Epoch::perform() {
  TRY(prepare());
  steps_.emplace(plan_, record_, first_iteration_,
                 StepReports::Callbacks{options_.on_progress, options_.on_note});
  if (membership_.was_done()) return finish_for_another();
  slots_.resize(ranks_);
  TRY(wait_for_members());
  TRY(start());
  TRY(supervise());
  workers_.reset();
  return conclude();
}

// The previous launcher was killed after the last step: all that ranks had to deliver is on this host,
// and ranks that have not yet been told that all is done reconnect to be told.
Result<observe::RunSummary> Epoch::finish_for_another() {
  if (options_.on_note) options_.on_note(past_.why + "; all steps are done");
  open_desk();
  observe::RunSummary summary;
  if (desk_->take_fetched()) {
    summary = TRY(conclude());
  } else {
    const std::string path = options_.output + "/trace.jsonl";
    trace::Trace trace = TRY(trace::read_trace(path));
    if (trace.header.plan_digest != plan::plan_digest(plan_))
      return failed(
          fmt::format("{}: this Trace is of another Plan", path),
          fmt::format("removing it and {}; the run is done, and its last checkpoint stays",
                      join::Membership::journal_path(options_.output)));
    summary = done_summary(std::move(trace));
    add_decisions(summary);
    summary.trace_path = path;
    if (checkpoint_) summary.checkpoint = checkpoint_->folder;
  }
  if (!options_.rendezvous) return summary;
  phase_ = RunPhase::kEnding;  // which the launcher before had reached
  TRY(open_listener());
  say_farewell(*workers_, ranks_, desk_->over(), options_.end_max, clock_);
  workers_.reset();
  return summary;
}

// The run is done, so a manifest that cannot be read is worth a note, not an error.
void Epoch::take_last_checkpoint() {
  if (!takes_checkpoints(plan_)) return;
  auto last = state::latest_checkpoint(plan_.checkpoint->directory, plan_.run.steps + 1);
  if (last) {
    checkpoint_ = std::move(*last);
  } else if (options_.on_note) {
    options_.on_note(last.error().message);
  }
}

// This launcher has heard no report of a step: the journal says that all are done, and the Trace how.
observe::RunSummary Epoch::done_summary(trace::Trace trace) const {
  observe::RunSummary summary = observe::summary_of_done(plan_, trace);
  summary.trace = std::move(trace);
  return summary;
}

void Epoch::add_decisions(observe::RunSummary& summary) const {
  summary.density_decisions = density_.history().newest();
  summary.density_changed = density_.history().made();
  summary.batch_decisions = batch_.history().newest();
  summary.batch_changed = batch_.history().made();
}

// Before the next epoch begins, no rank of the last one may still work.
Status Epoch::wait_for_members() {
  bool told = false;
  while (const auto span = membership_.wait()) {
    TRY(check_stop());
    if (!std::exchange(told, true) && span->ns > 1'000'000'000 && options_.on_note) {
      options_.on_note(
          fmt::format("waiting {:.0f} s at most, until the workers of the launcher "
                      "before have certainly stopped",
                      std::ceil(seconds(*span).value)));
    }
    clock_.sleep_until(clock_.now() + std::min(*span, kPatience));
    membership_.tick();
  }
  membership_.begin();
  return membership_.status();
}

// The coordinator decides what a loss means; tell it, unless it found the loss itself. A first start that
// fails is no loss: restarts need ranks that had all been ready once.
Outcome Epoch::halt(Error error) {
  const bool falls_back = setback_ == Setback::kDamage;
  if (error.code != ErrorCode::kLostPeer && !falls_back) return error;
  if (culprit_) membership_.ended(culprit_->rank, culprit_->how);
  if (!membership_.halted()) membership_.halt(error.message);
  const auto halted = membership_.halted();
  if (!halted) {
    const Status written = membership_.status();
    if (written) return error;
    Error unwritten = Error(written.error()).during("writing down that " + error.message);
    unwritten.hint = "freeing space; then the same command resumes the run";
    return unwritten;
  }
  const bool again = halted->again && (reached(RunPhase::kPerforming) || goes_on_ || falls_back);
  if (again) return Again{all_had_come() ? setback_ : Setback::kNotAllCame, halted->reason};
  if (!falls_back) error.message = halted->reason;
  return error;
}

// Survivors keep their states if the run restarts.
void Epoch::stop_workers(const Outcome& outcome) {
  const SimTime now = clock_.now();
  const auto* again = std::get_if<Again>(&outcome);
  const std::string& reason = again ? again->why : std::get<Error>(outcome).message;
  workers_->stop_all({reason, again != nullptr}, now + kStopMax,
                     now + (again ? kLeaveMax : kStopMax));
  for (size_t r = 0; r < ranks_; ++r) {
    const auto rank = static_cast<int32_t>(r);
    if (is_child(rank) || slots_[r].disconnected) membership_.ended(rank, "stopped");
  }
  await_others(again != nullptr);
  workers_.reset();
}

// A rank that we did not start is known to have stopped once its connection has closed, because the other
// end closes it; otherwise its lease has to expire. So keep listening for that long.
void Epoch::await_others(bool again) {
  const auto take = [this](const Event& event) {
    const auto* end = std::get_if<Disconnected>(&event.what);
    if (!end) return;
    slots_[event.rank].disconnected = end->error.message;
    membership_.ended(event.rank, "stopped");
  };
  while (const auto event = workers_->next({})) take(*event);
  SimTime tell_at = clock_.now() + kSayWaitsAfter;
  while (again && check_stop()) {
    const auto lease = membership_.wait();
    if (!lease) return;
    if (const auto event = workers_->next(std::min(*lease, kPatience))) take(*event);
    membership_.tick();
    if (clock_.now() < tell_at) continue;
    tell_at = kNever;
    note_waits(*lease);
  }
}

void Epoch::note_waits(SimDuration lease) {
  std::vector<std::string> here;
  for (size_t r = 0; r < ranks_; ++r) {
    const auto rank = static_cast<int32_t>(r);
    if (!is_child(rank) && !slots_[r].disconnected) here.push_back(name(rank));
  }
  if (here.empty() || !options_.on_note) return;
  options_.on_note(fmt::format(
      "waiting {:.0f} s at most, until {} certainly stopped", std::ceil(seconds(lease).value),
      fmt::format("{} {}", fmt::join(here, " and "), here.size() == 1 ? "has" : "have")));
}

Status Epoch::open_listener() {
  const auto& rendezvous = options_.rendezvous;
  Workers::Options listener{.ranks = static_cast<int32_t>(ranks_),
                            .security = options_.security,
                            .terms = options_.terms,
                            .log = options_.log,
                            .sockets = options_.sockets,
                            .processes = options_.processes,
                            .open_splice = options_.open_splice};
  if (options_.islands) listener.network = options_.islands->network;
  listener.at = rendezvous
                    ? rendezvous->at
                    : transport::Address{TRY(own_address(options_.islands)), options_.control_port};
  if (rendezvous) {
    listener.listen = rendezvous->listen.listen;
    listener.here = rendezvous->listen.here;
  }
  if (options_.islands) TRY(check_reach(plan_, *options_.islands, listener.at.host));
  if (options_.telemetry) options_.telemetry->add(phase_);
  listener.token =
      rendezvous && rendezvous->token ? *rendezvous->token : TRY(link::Token::random());
  listener.on_hello = [this](int32_t rank) { membership_.came(rank); };
  listener.on_beat = [this](int32_t rank, const control::Beat& beat) {
    return membership_.beat(rank, beat);
  };
  workers_ = TRY(Workers::listen(listener, clock_));
  token_ = listener.token;
  return {};
}

// Listen first, then write the token: a launcher that finds the port taken must not overwrite the token
// of the run that has it.
Status Epoch::start() {
  TRY(open_listener());
  TRY(begin_());
  const auto& rendezvous = options_.rendezvous;
  if (rendezvous) {
    // Members of the run reconnect at once; at the first start ranks may connect one by one.
    const bool at_once = goes_on_ && past_.lacking == 0;
    const SimDuration patience = at_once ? kReturnMax : SimDuration{rendezvous->join_max.ns / 2};
    if (options_.restarts > 0) offer_at_ = clock_.now() + patience;
    if (!rendezvous->token) {
      token_file_.emplace(TRY(join::TokenFile::create(join::token_path(options_.output), token_)));
    }
  }
  for (size_t r = 0; r < ranks_; ++r) {
    const auto rank = static_cast<int32_t>(r);
    if (is_child(rank)) TRY(workers_->spawn(rank, program_, placements_[r]));
  }
  return {};
}

// Until every worker has finished and ended, or the first error.
Status Epoch::supervise() {
  while (true) {
    size_t over = 0, finished = 0;
    for (size_t r = 0; r < ranks_; ++r) {
      const Slot& slot = slots_[r];
      const bool ended = is_child(static_cast<int32_t>(r)) ? slot.status.has_value()
                                                           : slot.disconnected.has_value();
      over += slot.state == SlotState::kFinished && ended;
      finished += slot.state == SlotState::kFinished;
    }
    if (finished == ranks_) TRY(end_if_done());
    if (over == ranks_) return {};
    const auto event = workers_->next(kPatience);
    TRY(check_stop());  // an interrupt that reached the workers as well is no loss
    if (event) TRY(handle(event->rank, *event));
    if (trouble_ && clock_.now() >= trouble_->due) return fail(trouble_->error);
    offer_seats();
    TRY(check_membership());
    check_ended();
    TRY(check_pairs());
    TRY(go_if_ready());
  }
}

// No rank has anything left to do once the last checkpoint exists on all hosts and all parts of the Trace
// have been fetched from other hosts. A rank that ends from then on is not a loss.
Status Epoch::end_if_done() {
  if (reached(RunPhase::kEnding)) return {};
  desk_->all_finished();
  if (!desk_->idle()) return {};
  membership_.done();
  TRY(membership_.status());
  advance(RunPhase::kEnding);
  end_deadline_ = clock_.now() + options_.end_max;
  workers_->tell_spares(state::Over{});
  return tell_all(desk_->over());
}

// Losses that the coordinator found itself: a rank was silent for too long, or did not connect. Kill its
// process, because a silent one may be suspended and not receive a message.
Status Epoch::check_membership() {
  membership_.tick();
  TRY(membership_.status());
  const auto halted = membership_.halted();
  if (!halted || reached(RunPhase::kEnding)) return {};
  if (halted->lost) workers_->kill_now(*halted->lost);
  Error error{ErrorCode::kLostPeer, halted->reason, {}, resume_hint()};
  if (!all_had_come() && options_.rendezvous)
    error.hint = fmt::format(
        "starting all {} ranks, with the same --out; --join-timeout gives them longer", ranks_);
  return fail(std::move(error));
}

// A rank that was told Over no longer renews its lease, so a hang or a cut path does not show there. Do
// not wait for it beyond the deadline: nothing more is needed from it.
void Epoch::check_ended() {
  if (clock_.now() < end_deadline_) return;
  end_deadline_ = kNever;
  std::vector<std::string> missing;
  for (size_t r = 0; r < ranks_; ++r) {
    const auto rank = static_cast<int32_t>(r);
    if (is_child(rank) ? slots_[r].status.has_value() : slots_[r].disconnected.has_value())
      continue;
    missing.push_back(name(rank));
    workers_->kill_now(rank);
    slots_[r].disconnected = "it did not end";
  }
  if (!options_.on_note || missing.empty()) return;
  options_.on_note(fmt::format("{} did not end within {:g} s of the last step; all is done without",
                               fmt::join(missing, " and "), seconds(options_.end_max).value));
}

// Gives each rank that has not connected to a spare; if that does not connect within kSeatMax, to the
// next one.
void Epoch::offer_seats() {
  if (all_had_come() || clock_.now() < offer_at_) return;
  for (size_t r = 0; r < ranks_; ++r) {
    Slot& slot = slots_[r];
    const auto rank = static_cast<int32_t>(r);
    const bool came = slot.state != SlotState::kAwaited;
    if (is_child(rank) || came || clock_.now() < slot.given_until) continue;
    // The process that had the rank last has its newest state, but whether that is the original or a
    // spare is not known, so alternate.
    const bool owner_first = past_.lacking % 2 == 0;
    if (!workers_->give_seat(rank, plan_.ranks[r].datacenter, owner_first)) continue;
    slot.given_until = clock_.now() + kSeatMax;
    if (options_.on_note)
      options_.on_note(fmt::format("a spare takes the place of {}", name(rank)));
  }
}

Status Epoch::check_stop() {
  if (!options_.stop || !options_.stop->load()) return {};
  return failed(fmt::format("interrupted after step {} of {}", steps_->tracker().steps_done(),
                            plan_.run.steps),
                resume_hint());
}

Status Epoch::handle(int32_t rank, const Event& event) {
  if (options_.telemetry && std::holds_alternative<join::ControlMessage>(event.what))
    options_.telemetry->heard(rank);
  return std::visit(
      [&](const auto& what) -> Status {
        if constexpr (std::is_same_v<std::decay_t<decltype(what)>, join::ControlMessage>) {
          return std::visit([&](const auto& message) { return handle(rank, message); }, what);
        } else {
          return handle(rank, what);
        }
      },
      event.what);
}

Status Epoch::handle(int32_t rank, const join::Hello& hello) {
  if (slots_[rank].state != SlotState::kAwaited)
    return failed(fmt::format("{} said hello twice", name(rank)));
  slots_[rank].address = hello.address;
  slots_[rank].reach = hello.reach;
  reach(rank, SlotState::kHere);
  if (options_.on_start) options_.on_start(rank, hello.pid);
  if (options_.telemetry) options_.telemetry->add(rank, std::optional<observe::Hang>());
  for (const Slot& slot : slots_) {
    if (slot.state == SlotState::kAwaited) return {};
  }
  return all_came();
}

Status Epoch::all_came() {
  advance(RunPhase::kTakingStock);
  token_file_.reset();
  open_desk();
  if (goes_on_) desk_->clear();  // of a launcher that was killed
  return tell_all(desk_->survey());
}

void Epoch::open_desk() {
  desk_.emplace(plan_,
                state::CheckpointCoordinator::Options{
                    .output = options_.output,
                    .run = state::run_name(options_.output, options_.restarts > 0),
                    .epoch = static_cast<int64_t>(membership_.epoch()),
                    .goes_on = goes_on_,
                    .resume = options_.resume,
                    .elsewhere = options_.rendezvous.has_value(),
                    .newest = checkpoint_,
                    .below = damaged_,
                    .tell =
                        [this](int32_t rank, const state::StateMessage& message) {
                          // A failed send: the loss of that rank is about to be reported.
                          static_cast<void>(workers_->tell(rank, join::control_message(message)));
                        },
                    .note = options_.on_note});
}

Status Epoch::handle(int32_t rank, const state::Inventory& message) {
  if (!desk_) return failed(fmt::format("{} said what it has before it was asked", name(rank)));
  TRY(desk_->add(rank, message));
  return begin_if_known();
}

// Sends Start once the coordinator of checkpoints knows with which state all ranks begin.
Status Epoch::begin_if_known() {
  if (reached(RunPhase::kPreparing)) return {};
  auto found = desk_->beginning();
  if (!found && found.error().code == ErrorCode::kLostPeer) {
    // A spare may have the place of the only process with this state, which may merely be late.
    const bool may_come = goes_on_ && options_.rendezvous && past_.lacking < kLackingMax;
    if (may_come) setback_ = Setback::kLacksState;
    if (!may_come) found.error().code = ErrorCode::kUnusable;
  }
  auto beginning = TRY(std::move(found));
  if (!beginning) return {};
  advance(RunPhase::kPreparing);
  first_iteration_ = beginning->first_iteration;
  checkpoint_ = desk_->checkpoint();
  steps_->begin(first_iteration_, goes_on_);
  if (goes_on_ && options_.on_note) options_.on_note(beginning_note(*beginning));
  join::Start start{.plan = plan::to_value(batch_.begin()),
                    .epoch = static_cast<int64_t>(membership_.epoch()),
                    .first_iteration = first_iteration_,
                    .state = std::move(beginning->state),
                    .state_epoch = beginning->state_epoch,
                    .keep = keeps_state()};
  for (const Slot& slot : slots_) start.addresses.push_back(slot.address);
  for (const Slot& slot : slots_) start.reach.push_back(slot.reach);
  pairs_.emplace(plan_, start.addresses, start.reach,
                 UnreachedPairs::Options{
                     // From its first failure on, a pair has as long as ranks have to connect.
                     .patience = options_.rendezvous.value_or(Rendezvous{}).join_max,
                     .open_splice = [this] { return workers_->open_splice(); },
                     .note = options_.on_note});
  start.splice_port = TRY(pairs_->first_splice());
  TRY(tell_all(start));
  const auto ordered = density_.begin(first_iteration_);
  return ordered ? tell_all(*ordered) : Status{};
}

std::string Epoch::beginning_note(const state::CheckpointCoordinator::Beginning& beginning) const {
  std::string line = past_.why + "; starting again ";
  if (beginning.first_iteration == 1) return line + "from the beginning";
  line += fmt::format("after step {}", beginning.first_iteration - 1);
  const bool is_older = damaged_ < INT64_MAX && beginning.state_epoch == 0 && checkpoint_;
  return is_older ? line + ", from the older checkpoint " + checkpoint_->folder : line;
}

// Two ranks that both reach this process need not reach each other.
Status Epoch::handle(int32_t rank, const join::Unreached& message) {
  if (!pairs_)
    return failed(
        fmt::format("{} cannot reach rank {}, which is no neighbour", name(rank), message.peer));
  for (const auto& [to, meet] : TRY(pairs_->unreached(rank, message, clock_.now()))) {
    const Status told = workers_->tell(to, meet);
    if (!told) suspect(told.error());
  }
  return {};
}

Status Epoch::check_pairs() {
  return pairs_ && !reached(RunPhase::kPerforming) ? pairs_->check(clock_.now()) : Status();
}

bool Epoch::keeps_state() const {
  return options_.restarts > 0 && options_.keep_state.value_or(plan_.replicas() > 1);
}

Status Epoch::handle(int32_t rank, const join::Ready&) {
  reach(rank, SlotState::kReady);
  return {};
}

// Sends Go when all are ready and all have acknowledged this epoch.
Status Epoch::go_if_ready() {
  if (phase_ != RunPhase::kPreparing || !membership_.begun()) return {};
  for (const Slot& slot : slots_) {
    if (slot.state < SlotState::kReady) return {};
  }
  steps_->end_past();
  cpu_ = stage::CpuMeter();
  advance(RunPhase::kPerforming);
  return tell_all(join::Go{clock_.now().ns});
}

Status Epoch::handle(int32_t rank, const join::ProgressReport& message) {
  if (steps_->is_past(message.report)) {
    steps_->take_past(rank, message.report);
    return {};
  }
  const auto progress = TRY(steps_->add(rank, message.report));
  if (progress) {
    cpu_busy_ = cpu_.busy();
    membership_.stepped(progress->step);
  }
  if (options_.telemetry) options_.telemetry->add(rank, message.report);
  if (const auto change = density_.add(rank, message.report)) TRY(announce(*change));
  if (const auto order = batch_.add(rank, message.report)) TRY(tell_all(*order));
  if (!progress) return {};
  if (options_.telemetry) options_.telemetry->add(*progress);
  steps_->record(*progress);
  const auto recorded = steps_->recorded_to_tell(clock_.now());
  for (size_t r = 0; r < ranks_ && recorded; ++r) {
    // A failed send: the loss of that rank is about to be reported.
    static_cast<void>(workers_->tell(static_cast<int32_t>(r), join::Recorded{*recorded}));
  }
  return {};
}

// Usually reaches every rank before it begins the first of the change's iterations; replicas stay equal
// in any case (density_schedule.h).
Status Epoch::announce(const tune::DensityDecision& change) {
  if (options_.telemetry) options_.telemetry->add(change);
  if (options_.on_note) options_.on_note(to_line(change));
  return tell_all(join::DensityOrder{change.first_iteration, change.density});
}

// If a rank can no longer be told the verdict, this epoch ends, and the order with it.
Status Epoch::handle(int32_t rank, const join::BatchAnswer& message) {
  const auto decided =
      TRY(during(batch_.add(rank, message), fmt::format("hearing {}", name(rank))));
  if (!decided) return {};
  if (decided->decision) {
    if (options_.telemetry) options_.telemetry->add(*decided->decision);
    if (options_.on_note) options_.on_note(to_line(*decided->decision));
  }
  if (options_.on_note && !decided->refused.empty()) options_.on_note(decided->refused);
  return tell_all(decided->verdict);
}

Status Epoch::handle(int32_t rank, const join::EvaluationReport& message) {
  steps_->add_evaluation(rank, message.evaluation);
  return {};
}

Status Epoch::handle(int32_t rank, const state::ShardReport& message) {
  if (desk_) desk_->add(rank, message.step, message.shard);
  return {};
}

Status Epoch::handle(int32_t rank, const state::Committed& message) {
  if (!desk_)
    return failed(fmt::format("{} committed a checkpoint that was not asked for", name(rank)));
  TRY(desk_->committed(rank, message.step));
  checkpoint_ = desk_->checkpoint();
  if (checkpoint_ && checkpoint_->manifest.step == message.step) damaged_ = INT64_MAX;
  return {};
}

// A missed checkpoint does not stop training: the next one is tried when it is due. After the last step
// there is no next one, so there it is a failure.
Status Epoch::handle(int32_t rank, const state::Missed& message) {
  if (!desk_)
    return failed(fmt::format("{} missed a checkpoint that was not asked for", name(rank)));
  if (message.step >= plan_.run.steps) return handle(rank, state::Failure{message.error});
  if (!desk_->missed(message.step) || !options_.on_note) return {};
  Error error = message.error;
  error.message = fmt::format("{}: {}", name(rank), error.message);
  options_.on_note(fmt::format(
      "{}\n  training continues without the checkpoint of step {}; {}", error.text(), message.step,
      checkpoint_ ? fmt::format("that of step {} stays", checkpoint_->manifest.step)
                  : "there is none to resume from yet"));
  return {};
}

Status Epoch::handle(int32_t rank, const state::FileRequest& message) {
  return desk_ ? desk_->asked(rank, message) : Status();
}

Status Epoch::handle(int32_t rank, const state::FilePiece& message) {
  if (!desk_) return {};
  TRY(desk_->came(rank, message));
  return begin_if_known();
}

Status Epoch::handle(int32_t rank, const join::LinksReport& message) {
  if (options_.telemetry) options_.telemetry->add(rank, message.links);
  for (const std::string& line : silence_.add(rank, message.links, clock_.now())) {
    if (options_.on_note) options_.on_note(line);
  }
  const auto line =
      progress_.add(rank, message.activity, clock_.now(), steps_->tracker().usual_iteration());
  if (line && options_.on_note) options_.on_note(*line);
  if (options_.telemetry) options_.telemetry->add(rank, progress_.hang(rank));
  if (!message.certificate) return {};
  if (options_.telemetry) options_.telemetry->add(rank, *message.certificate);
  const std::string expiry = certificates_.add(*message.certificate, trust::wall_time());
  if (options_.on_note && !expiry.empty()) options_.on_note(expiry);
  return {};
}

Status Epoch::handle(int32_t rank, const state::Finished& message) {
  if (!desk_) return failed(fmt::format("{} finished before it began", name(rank)));
  reach(rank, SlotState::kFinished);
  return desk_->finished(rank, message);
}

Status Epoch::handle(int32_t rank, const state::Failure& message) {
  if (reached(RunPhase::kEnding)) return {};
  reach(rank, SlotState::kFailed);
  Error error = message.error;
  error.message = fmt::format("{}: {}", name(rank), error.message);
  // A failure to reach a neighbour has its cause there, which shows in a moment.
  if (error.code == ErrorCode::kLostPeer) {
    suspect(std::move(error));
    return {};
  }
  if (falls_back(message)) {  // all ranks stop, and restart from the older one
    setback_ = Setback::kDamage;
    damaged_ = message.damaged;
  }
  return fail(std::move(error));
}

// Whether to fall back to an older checkpoint. The one that a rank could not read was whole when it was
// written, and so was the one before. A rank can only complain about the checkpoint that it was told to
// begin with.
bool Epoch::falls_back(const state::Failure& message) const {
  return message.damaged > 0 && message.damaged == first_iteration_ - 1 && options_.restarts > 0 &&
         desk_ && desk_->has_older(message.damaged);
}

Status Epoch::handle(int32_t rank, const Exited& exit) {
  slots_[rank].status = exit.status;
  return lose(rank);
}

Status Epoch::handle(int32_t rank, const Disconnected& end) {
  slots_[rank].disconnected = end.error.message;
  return lose(rank);
}

// Where ranks return, one may do so while its previous process, or a spare, still has the rank: it
// retries until that is vacant. Otherwise, before all are connected, it is a mistake in how the ranks
// were started; later it is a process that does not belong to the run, and the run continues.
Status Epoch::handle(int32_t rank, const Duplicate&) {
  if (options_.rendezvous && options_.restarts > 0) return {};
  if (!all_had_come()) {
    return unusable(fmt::format("two processes say they are rank {} of {}", rank, ranks_),
                    "giving each process a rank of its own: RANK, or one mpirun, srun or torchrun");
  }
  if (options_.on_note) {
    options_.on_note(fmt::format("a second process said it was rank {}; it was turned away", rank));
  }
  return {};
}

// A rank ended before it finished. If it was killed, that is the cause, unless by SIGTERM, which all
// ranks get when this run is interrupted. Otherwise its error message, or its exit status, may still be
// on the way.
Status Epoch::lose(int32_t rank) {
  const Slot& slot = slots_[rank];
  if (slot.state == SlotState::kFailed || reached(RunPhase::kEnding)) return {};
  std::string how = slot.status ? describe_exit(*slot.status) : *slot.disconnected;
  const std::string prefix = fmt::format("lost rank {}: ", rank);
  if (how.starts_with(prefix)) how.erase(0, prefix.size());
  Error error{
      ErrorCode::kLostPeer, fmt::format("{} was lost: {}", name(rank), how), {}, resume_hint()};
  const bool asked = slot.status && WIFSIGNALED(*slot.status) && WTERMSIG(*slot.status) == SIGTERM;
  const bool certain =
      slot.status && !asked && (WIFSIGNALED(*slot.status) || slot.disconnected.has_value());
  // A disconnect of a rank that we did not start is final, so it outranks a neighbour's report.
  if (!is_child(rank)) trouble_.reset();
  if (certain || !trouble_) culprit_ = Culprit{rank, std::move(how)};
  if (certain) return fail(std::move(error));
  suspect(std::move(error));
  return {};
}

void Epoch::suspect(Error error) {
  if (!trouble_) trouble_ = Trouble{std::move(error), clock_.now() + kCauseMax};
}

Status Epoch::tell_all(const join::ControlMessage& message) {
  for (size_t rank = 0; rank < ranks_; ++rank) {
    // A rank that cannot be told is about to be lost, which names the cause better.
    const Status told = workers_->tell(static_cast<int32_t>(rank), message);
    if (!told) suspect(told.error());
  }
  return {};
}

// Looks into the checkpoint folder, because a checkpoint may exist here before all hosts have reported
// that they have it.
std::string Epoch::resume_hint() const {
  const auto found = plan_.checkpoint ? state::latest_checkpoint(plan_.checkpoint->directory)
                                      : std::optional<state::FoundCheckpoint>();
  if (found && *found) {
    return fmt::format("to continue after step {}: the same command with --resume",
                       (*found)->manifest.step);
  }
  if (plan_.checkpoint && plan_.checkpoint->every > 0) {
    return "starting it again; there was no checkpoint to resume from yet";
  }
  return "[checkpoint] with every = 10 in the job: then an interrupted run can be resumed";
}

// Removes what is half-written: shards without a manifest, and parts of a Trace.
void Epoch::clean_up() {
  // Also shards that were never reported, because their rank was killed or stopped before. But where all
  // shards of a step were written, another host may have the manifest and resume from them; and if the
  // epoch never began, other hosts may have a manifest that this one lacks.
  if (takes_checkpoints(plan_) && (reached(RunPhase::kPreparing) || !options_.rendezvous)) {
    state::discard_unfinished(plan_.checkpoint->directory, first_iteration_,
                              desk_ ? desk_->complete() : std::set<int64_t>());
  }
  if (desk_) desk_->clear();
}

// Of the iterations before this epoch only the loss values are left.
void Epoch::add_losses_before(trace::Trace& trace) const {
  std::set<int64_t> known;
  for (const trace::Record& record : trace.records) {
    if (record.name == "loss") known.insert(record.iteration);
  }
  const int32_t last = plan_.rank_of(static_cast<int32_t>(plan_.stages.size()) - 1, 0);
  for (const auto& [iteration, loss] : record_.losses()) {
    if (!known.contains(iteration)) trace.records.push_back({"loss", iteration, last, {}, loss});
  }
}

Result<observe::RunSummary> Epoch::conclude() {
  std::vector<trace::Trace> parts;
  for (size_t rank = 0; rank < ranks_; ++rank) {
    parts.push_back(TRY(trace::read_trace(desk_->trace_path(static_cast<int32_t>(rank)))));
  }
  trace::Trace merged =
      observe::merge_parts(plan_, std::move(parts), options_.command, options_.version);
  add_losses_before(merged);
  observe::RunSummary summary;
  if (membership_.was_done()) {
    summary = done_summary(std::move(merged));
  } else {
    summary = steps_->tracker().summary();
    summary.trace = std::move(merged);
  }
  density_.add_records(summary.trace.records);
  batch_.add_records(summary.trace.records);
  trace::normalize(summary.trace);
  summary.machine = stage::machine_load(plan_, summary.trace, cpu_busy_,
                                        static_cast<int64_t>(std::thread::hardware_concurrency()));
  stage::add_records(summary.machine, summary.trace);
  add_decisions(summary);
  summary.trace_path = options_.output + "/trace.jsonl";
  const Status written =
      during(trace::write_trace(summary.trace_path, summary.trace), "writing the trace");
  clean_up();
  TRY(written);
  if (checkpoint_) summary.checkpoint = checkpoint_->folder;
  if (checkpoint_ && takes_checkpoints(plan_)) {
    // No rank can fail any more, so delete old checkpoints. Other hosts already did, except for one that
    // was kept as a fallback until now.
    state::retire_checkpoints(plan_.checkpoint->directory, checkpoint_->manifest.step,
                              plan_.checkpoint->keep);
  }
  return summary;
}

}  // namespace

EpochEnd perform_epoch(const plan::Plan& plan, const LaunchOptions& options,
                       join::Membership& membership, observe::StepRecord& record,
                       DensityControl& density, BatchControl& batch, Past past, Threads& clock,
                       std::function<Status()> begin) {
  return Epoch(plan, options, membership, record, density, batch, std::move(past), clock,
               std::move(begin))
      .run();
}

}  // namespace tombolo::run
