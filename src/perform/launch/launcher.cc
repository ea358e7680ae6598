#include "perform/launch/launcher.h"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/check.h"
#include "base/file.h"
#include "perform/launch/berths.h"
#include "perform/launch/child_process.h"
#include "perform/launch/membership.h"
#include "perform/launch/rank_session.h"
#include "perform/launch/reach.h"
#include "perform/launch/vacancy.h"
#include "perform/launch/workers.h"
#include "perform/runtime/emulated_kernels.h"
#include "perform/runtime/kept_state.h"
#include "spec/plan/plan_file.h"
#include "spec/schedule/schedule.h"
#include "spec/trace/trace_file.h"

namespace tombolo::launch {
namespace {

constexpr SimDuration kPatience{50'000'000};      // between two looks at the stop flag
constexpr SimDuration kCauseMax{1'500'000'000};   // for the cause to show behind its effect
constexpr SimDuration kStopMax{5'000'000'000};    // for workers to end by themselves
constexpr SimDuration kLeaveMax{60'000'000'000};  // for those that leave their state behind
constexpr SimDuration kReturnMax{1'000'000'000};  // for survivors to come again, before spares may

// What attempts before this one leave to it: of this launcher, or of one that was killed.
struct Past {
  std::string why;                   // there is another; empty: this is the first
  std::map<int64_t, double> losses;  // by iteration
};

class Launch {
 public:
  Launch(const plan::Plan& plan, const LaunchOptions& options, Membership& membership, Past past,
         Clock& clock)
      : plan_(plan),
        options_(options),
        membership_(membership),
        past_(std::move(past)),
        goes_on_(!past_.why.empty()),
        clock_(clock),
        ranks_(plan.ranks.size()),
        losses_(past_.losses) {}

  Result<RunSummary> run();

  // After run(): a worker was lost, another run may fare better.
  bool lost_a_worker() const { return lost_a_worker_; }
  int64_t began_after() const { return first_iteration_ - 1; }
  const std::map<int64_t, double>& losses() const { return losses_; }
  std::optional<double> first_loss() const {
    return book_ ? book_->summary().first_loss : std::nullopt;
  }

 private:
  // One per rank.
  struct Seat {
    std::string address;  // empty: no hello yet
    int32_t reach = 0;    // reach.h
    bool ready = false;
    bool finished = false;
    bool failed = false;  // it said why; its end is no news
    std::optional<int> status;
    std::optional<std::string> disconnected;  // why
  };
  // A cause, or an effect that counts as one if nothing better shows until `due`.
  struct Trouble {
    Error error;
    SimTime due;
  };

  Status prepare();
  Status find_checkpoint();
  Status find_state();
  Status wait_for_members();
  Status start();
  Status supervise();
  Status all_came();
  Status handle(int32_t rank, const Event& event);
  Status handle(int32_t rank, const Hello& hello);
  Status handle(int32_t rank, const Ready&);
  Status handle(int32_t rank, const ProgressReport& message);
  Status handle(int32_t rank, const EvaluationReport& message);
  Status handle(int32_t rank, const ShardReport& message);
  Status handle(int32_t rank, const LinksReport& message);
  Status handle(int32_t rank, const Finished&);
  Status handle(int32_t rank, const Failure& message);
  Status handle(int32_t rank, const Exited& exit);
  Status handle(int32_t rank, const Disconnected& end);
  Status handle(int32_t rank, const Duplicate&);
  template <typename Unexpected>
  Status handle(int32_t rank, const Unexpected&) {
    return failed(fmt::format("{} sent a message that only a launcher sends", name(rank)));
  }
  Status commit(int64_t step);
  Status lose(int32_t rank);
  Status tell_all(const ControlMessage& message);
  Status check_stop();
  Status check_joined() const;
  Status check_leases();
  Status check_ended();
  Status offer_seats();
  Status go_if_ready();
  void stop_workers(const Error& error);
  std::string keep_folder() const;
  void suspect(Error error);
  void clean_up();
  Result<RunSummary> conclude();

  std::string name(int32_t rank) const { return rank_name(plan_, rank); }
  bool is_child(int32_t rank) const { return !options_.rendezvous || rank == 0; }
  std::string resume_hint() const;

  const plan::Plan& plan_;
  const LaunchOptions& options_;
  Membership& membership_;
  const Past past_;
  const bool goes_on_;
  Clock& clock_;
  const size_t ranks_;
  std::string program_;
  std::vector<Berth> berths_;
  std::optional<TokenFile> token_file_;
  SimTime join_deadline_ = runtime::kNever;
  SimTime offer_at_ = runtime::kNever;  // the seats of those who have not come
  bool offered_ = false;                // in this epoch: a spare may sit where another comes late
  bool joined_ = false;                 // all ranks said hello
  bool went_ = false;                   // all ranks were ready
  bool told_over_ = false;
  SimTime end_deadline_ = runtime::kNever;  // for all to end, once they were told
  bool lost_a_worker_ = false;
  int64_t first_iteration_ = 1;
  std::optional<runtime::FoundCheckpoint> checkpoint_;  // the newest that exists
  std::string resume_;                                  // where the state lies that all begin with
  std::map<int64_t, double> losses_;                    // by iteration
  int32_t lost_rank_ = 0;
  std::unique_ptr<Workers> workers_;
  std::unique_ptr<RunBook> book_;
  std::vector<Seat> seats_;
  std::map<int64_t, std::map<int32_t, runtime::Shard>>
      shards_;  // of checkpoints that are not whole yet
  std::optional<Trouble> trouble_;
  runtime::CpuMeter cpu_;           // from when all ranks go,
  std::optional<double> cpu_busy_;  // to the end of the last iteration
};

// Everything that can be known to be wrong before a process starts.
Status Launch::prepare() {
  TRY(check_performable(plan_));
  berths_ = TRY(berths_of(plan_, options_.islands));
  if (options_.rendezvous && !options_.islands)
    berths_[0].address = TRY(transport::own_address_towards(options_.rendezvous->at.host));
  for (Berth& berth : berths_) berth.no_inbound = options_.no_inbound;
  program_ = options_.worker_program;
  if (program_.empty()) program_ = TRY(sibling_program("tombolo-worker"));
  TRY(during(make_directories(options_.output), "creating the output folder"));
  return find_checkpoint();
}

Status Launch::find_checkpoint() {
  const bool takes_checkpoints = plan_.checkpoint && plan_.checkpoint->every > 0;
  const bool wanted = options_.resume || goes_on_;
  if (options_.resume && !plan_.checkpoint) {
    return unusable("there is nothing to resume from: the job has no [checkpoint]",
                    "[checkpoint] with directory = \"checkpoints\" and every = 10");
  }
  if (!takes_checkpoints && !options_.resume) return {};
  const std::string& directory = plan_.checkpoint->directory;
  // A run that lost somebody when it was all but done still has its last steps to do.
  const auto found =
      TRY(runtime::latest_checkpoint(directory, goes_on_ ? plan_.run.steps : INT64_MAX));
  if (options_.resume && !goes_on_ && !found) {
    return unusable(fmt::format("{}: there is no checkpoint to resume from", directory),
                    "starting from the beginning, without --resume");
  }
  if (!wanted && found) {
    return unusable(fmt::format("{}: an earlier run left a checkpoint of step {} here", directory,
                                found->manifest.step),
                    "--resume to go on from it, or removing the folder to begin again");
  }
  if (!found) return {};
  TRY(runtime::check_fits(*found, plan_));
  TRY(runtime::verify_checkpoint(*found));
  checkpoint_ = found;
  first_iteration_ = found->manifest.step + 1;
  resume_ = directory;
  return {};
}

// Once nobody of the epochs before works any more: what they kept, if it is newer.
Status Launch::find_state() {
  if (!goes_on_) return {};
  std::error_code ec;
  for (uint64_t epoch = membership_.epoch(); epoch-- > 1;) {
    const std::string folder =
        std::filesystem::absolute(runtime::kept_folder(options_.output, epoch)).string();
    if (!std::filesystem::exists(folder, ec)) continue;
    const auto found = TRY(runtime::gather_kept(folder, plan_));
    if (!found || found->manifest.step < first_iteration_) continue;
    first_iteration_ = found->manifest.step + 1;
    resume_ = folder;
  }
  return {};
}

Result<RunSummary> Launch::run() {
  TRY(prepare());
  book_ = std::make_unique<RunBook>(plan_, first_iteration_);
  seats_.resize(ranks_);
  TRY(wait_for_members());
  Status status = start();
  if (status) status = supervise();
  if (!status && !workers_) return fail(status.error());
  if (!status) {
    stop_workers(status.error());
    clean_up();
    return fail(status.error());
  }
  workers_.reset();
  return conclude();
}

// Before the next epoch nobody of the last one may work any more.
Status Launch::wait_for_members() {
  bool told = false;
  while (const auto span = membership_.wait()) {
    TRY(check_stop());
    if (!std::exchange(told, true) && span->ns > 1'000'000'000 && options_.on_note) {
      options_.on_note(
          fmt::format("waiting {:.0f} s at most, until the workers of the launcher "
                      "before are certain to have stopped",
                      seconds(*span).value));
    }
    clock_.sleep_until(clock_.now() + std::min(*span, kPatience));
    membership_.tick();
  }
  return membership_.status();
}

// Those that are left keep their states where the run goes on.
void Launch::stop_workers(const Error& error) {
  lost_a_worker_ =
      (went_ || goes_on_) && error.code == ErrorCode::kLostPeer && options_.restarts > 0;
  const SimTime now = clock_.now();
  workers_->stop_all({error.message, lost_a_worker_}, now + kStopMax,
                     now + (lost_a_worker_ ? kLeaveMax : kStopMax));
  while (const auto event = workers_->next({})) {
    if (const auto* end = std::get_if<Disconnected>(&event->what))
      seats_[event->rank].disconnected = end->error.message;
  }
  workers_.reset();
  membership_.ended(lost_rank_, error.message);
  for (size_t r = 0; r < ranks_; ++r) {
    // Of another's child it is known once its connection has ended, because the other end did that;
    // else its lease has to run out.
    const auto rank = static_cast<int32_t>(r);
    if (is_child(rank) || seats_[r].disconnected) membership_.ended(rank, "stopped");
  }
}

// First the door, then the token: whoever finds the port taken does not touch another run's token.
Status Launch::start() {
  const auto& rendezvous = options_.rendezvous;
  Workers::Options door{
      .ranks = static_cast<int32_t>(ranks_), .security = options_.security, .log = options_.log};
  if (options_.islands) door.network = options_.islands->network;
  door.at = rendezvous
                ? rendezvous->at
                : transport::Address{TRY(own_address(options_.islands)), options_.control_port};
  if (options_.islands) TRY(check_reach(plan_, *options_.islands, door.at.host));
  door.token = rendezvous && rendezvous->token ? *rendezvous->token : TRY(link::Token::random());
  door.on_hello = [this](int32_t rank) { membership_.came(rank); };
  door.on_beat = [this](int32_t rank, const control::Beat& beat) {
    return membership_.beat(rank, beat);
  };
  workers_ = TRY(Workers::listen(door, clock_));
  if (rendezvous) {
    join_deadline_ = clock_.now() + rendezvous->join_max;
    // Who was part of the run comes again at once; at the start ranks may come one after the other.
    const SimDuration patience = goes_on_ ? kReturnMax : SimDuration{rendezvous->join_max.ns / 2};
    if (options_.restarts > 0) offer_at_ = clock_.now() + patience;
    if (!rendezvous->token) {
      token_file_.emplace(TRY(TokenFile::create(token_path(options_.output), door.token)));
    }
  }
  for (size_t r = 0; r < ranks_; ++r) {
    const auto rank = static_cast<int32_t>(r);
    if (is_child(rank)) TRY(workers_->spawn(rank, program_, berths_[r]));
  }
  return {};
}

// Until every worker has finished and ended, or the first error.
Status Launch::supervise() {
  while (true) {
    size_t over = 0, finished = 0;
    for (size_t r = 0; r < ranks_; ++r) {
      const Seat& seat = seats_[r];
      const bool ended = is_child(static_cast<int32_t>(r)) ? seat.status.has_value()
                                                           : seat.disconnected.has_value();
      over += seat.finished && ended;
      finished += seat.finished;
    }
    if (finished == ranks_ && !std::exchange(told_over_, true)) {
      TRY(tell_all(Over{}));
      end_deadline_ = clock_.now() + options_.end_max;
    }
    if (over == ranks_) return plan_.checkpoint ? commit(plan_.run.steps) : Status();
    const auto event = workers_->next(kPatience);
    TRY(check_stop());  // an interrupt that reached the workers as well is no loss
    if (event) TRY(handle(event->rank, *event));
    if (trouble_ && clock_.now() >= trouble_->due) return fail(trouble_->error);
    TRY(check_joined());
    TRY(offer_seats());
    TRY(check_leases());
    TRY(check_ended());
    TRY(go_if_ready());
  }
}

// Who was silent too long may be stopped, or cut off. As a process it may hear nothing.
Status Launch::check_leases() {
  const auto lost = membership_.tick();
  TRY(membership_.status());
  if (!lost || told_over_) return {};
  lost_rank_ = lost->rank;
  workers_->kill_now(lost->rank);
  return fail({ErrorCode::kLostPeer, lost->reason, {}, resume_hint()});
}

// Whoever knows that all is over asks for no lease any more. It may be stopped, or cut off, all the
// same; and its neighbours wait for its goodbye.
Status Launch::check_ended() {
  if (clock_.now() < end_deadline_) return {};
  std::vector<std::string> missing;
  for (size_t r = 0; r < ranks_; ++r) {
    const auto rank = static_cast<int32_t>(r);
    if (is_child(rank) ? seats_[r].status.has_value() : seats_[r].disconnected.has_value())
      continue;
    if (missing.empty()) lost_rank_ = rank;
    missing.push_back(name(rank));
    workers_->kill_now(rank);
  }
  return fail({ErrorCode::kLostPeer,
               fmt::format("{} did not end within {:g} s of the last step",
                           fmt::join(missing, " and "), seconds(options_.end_max).value),
               {},
               resume_hint()});
}

// The seats of those who have not come are for spares.
Status Launch::offer_seats() {
  if (joined_ || clock_.now() < offer_at_) return {};
  offer_at_ = runtime::kNever;
  offered_ = true;
  Vacancy vacancy{.epoch = membership_.epoch()};
  for (size_t r = 0; r < ranks_; ++r) {
    if (seats_[r].address.empty()) vacancy.ranks.push_back(static_cast<int32_t>(r));
  }
  return during(write_vacancy(options_.output, vacancy), "offering a seat to spares");
}

// Who is missing when the time to join is over.
Status Launch::check_joined() const {
  if (joined_ || clock_.now() < join_deadline_) return {};
  std::string missing;
  size_t count = 0;
  for (size_t r = 0; r < ranks_; ++r) {
    if (!seats_[r].address.empty()) continue;
    missing += fmt::format("{}{}", count++ == 0 ? "" : ", ", r);
  }
  return fail(
      {ErrorCode::kLostPeer,
       fmt::format("rank{} {} did not come within {:g} s: {} of {} are here", count == 1 ? "" : "s",
                   missing, seconds(options_.rendezvous->join_max).value, ranks_ - count, ranks_),
       {},
       fmt::format("starting all {} ranks, with the same --out; --join-timeout gives them longer",
                   ranks_)});
}

Status Launch::check_stop() {
  if (!options_.stop || !options_.stop->load()) return {};
  return failed(
      fmt::format("interrupted after step {} of {}", book_->steps_done(), plan_.run.steps),
      resume_hint());
}

Status Launch::handle(int32_t rank, const Event& event) {
  if (options_.telemetry && std::holds_alternative<ControlMessage>(event.what))
    options_.telemetry->heard(rank);
  return std::visit(
      [&](const auto& what) -> Status {
        if constexpr (std::is_same_v<std::decay_t<decltype(what)>, ControlMessage>) {
          return std::visit([&](const auto& message) { return handle(rank, message); }, what);
        } else {
          return handle(rank, what);
        }
      },
      event.what);
}

Status Launch::handle(int32_t rank, const Hello& hello) {
  seats_[rank].address = hello.address;
  seats_[rank].reach = hello.reach;
  if (options_.on_start) options_.on_start(rank, hello.pid);
  for (const Seat& seat : seats_) {
    if (seat.address.empty()) return {};
  }
  return all_came();
}

Status Launch::all_came() {
  joined_ = true;
  token_file_.reset();
  if (options_.rendezvous) remove_vacancies(options_.output);
  TRY(find_state());
  book_ = std::make_unique<RunBook>(plan_, first_iteration_);
  if (goes_on_ && options_.on_note) {
    options_.on_note(fmt::format("{}; starting again {}", past_.why,
                                 first_iteration_ > 1
                                     ? fmt::format("after step {}", first_iteration_ - 1)
                                     : "from the beginning"));
  }
  Start start{.plan = plan::to_value(plan_),
              .output = std::filesystem::absolute(options_.output).string(),
              .first_iteration = first_iteration_,
              .resume = resume_,
              .keep = keep_folder()};
  for (const Seat& seat : seats_) start.addresses.push_back(seat.address);
  for (const Seat& seat : seats_) start.reach.push_back(seat.reach);
  if (const auto links = spliced_links(plan_, start.reach); !links.empty()) {
    start.splice_port = TRY(workers_->open_splice());
    if (options_.on_note) options_.on_note(spliced_note(links));
  }
  return tell_all(start);
}

std::string Launch::keep_folder() const {
  if (options_.restarts == 0 || !options_.keep_state.value_or(plan_.replicas() > 1)) return "";
  return std::filesystem::absolute(runtime::kept_folder(options_.output, membership_.epoch()))
      .string();
}

Status Launch::handle(int32_t rank, const Ready&) {
  seats_[rank].ready = true;
  return {};
}

// When all are ready, and all have said that they know of this epoch.
Status Launch::go_if_ready() {
  if (went_ || !membership_.begun()) return {};
  for (const Seat& seat : seats_) {
    if (!seat.ready) return {};
  }
  cpu_ = runtime::CpuMeter();
  went_ = true;
  return tell_all(Go{clock_.now().ns});
}

Status Launch::handle(int32_t rank, const ProgressReport& message) {
  const auto progress = TRY(book_->add(rank, message.report));
  if (progress) {
    cpu_busy_ = cpu_.busy();
    membership_.stepped(progress->step);
    if (progress->loss) losses_[progress->step] = *progress->loss;
  }
  if (options_.telemetry) options_.telemetry->add(rank, message.report);
  if (progress && options_.telemetry) options_.telemetry->add(*progress);
  if (progress && options_.on_progress) options_.on_progress(*progress);
  return {};
}

Status Launch::handle(int32_t rank, const EvaluationReport& message) {
  book_->add_evaluation(rank, message.evaluation);
  return {};
}

// With the last stage's shard the checkpoint comes into being; one replica writes for all. That of
// the last step waits until all ranks have ended: who is lost before leaves something to go on
// from.
Status Launch::handle(int32_t rank, const ShardReport& message) {
  shards_[message.step][rank] = message.shard;
  return message.step == plan_.run.steps ? Status() : commit(message.step);
}

Status Launch::commit(int64_t step) {
  const auto& shards = shards_[step];
  if (shards.size() < ranks_ / static_cast<size_t>(plan_.replicas())) return {};
  runtime::FoundCheckpoint found{
      .folder = runtime::step_folder(plan_.checkpoint->directory, step),
      .manifest = {.step = step,
                   .seed = plan_.run.seed,
                   .plan_digest = plan::plan_digest(plan_),
                   .precision = std::string(to_name(plan_.training.precision)),
                   .model = plan_.model}};
  for (const auto& [owner, shard] : shards) found.manifest.shards.push_back(shard);
  TRY(runtime::commit_checkpoint(plan_.checkpoint->directory, found.manifest,
                                 plan_.checkpoint->keep));
  shards_.erase(step);
  checkpoint_ = std::move(found);
  return {};
}

Status Launch::handle(int32_t rank, const LinksReport& message) {
  if (options_.telemetry) options_.telemetry->add(rank, message.links);
  return {};
}

Status Launch::handle(int32_t rank, const Finished&) {
  seats_[rank].finished = true;
  return {};
}

Status Launch::handle(int32_t rank, const Failure& message) {
  seats_[rank].failed = true;
  Error error = message.error;
  error.message = fmt::format("{}: {}", name(rank), error.message);
  // Trouble with a neighbour has its cause there; that shows in a moment.
  if (error.code == ErrorCode::kLostPeer) {
    suspect(std::move(error));
    return {};
  }
  return fail(std::move(error));
}

Status Launch::handle(int32_t rank, const Exited& exit) {
  seats_[rank].status = exit.status;
  if (seats_[rank].finished && exit.status == 0) return {};
  return lose(rank);
}

Status Launch::handle(int32_t rank, const Disconnected& end) {
  seats_[rank].disconnected = end.error.message;
  if (seats_[rank].finished) return {};
  return lose(rank);
}

// Before all are here it is a mistake in how the ranks were started; later it is somebody else's,
// or a rank that comes again while its seat is still that of the process before, or a spare's.
Status Launch::handle(int32_t rank, const Duplicate&) {
  if (options_.rendezvous && options_.restarts > 0 && (joined_ || goes_on_ || offered_)) return {};
  if (!joined_) {
    return unusable(fmt::format("two processes say they are rank {} of {}", rank, ranks_),
                    "giving each process a rank of its own: RANK, or one mpirun, srun or torchrun");
  }
  if (options_.on_note) {
    options_.on_note(fmt::format("a second process said it was rank {}; it was turned away", rank));
  }
  return {};
}

// A rank is going without having finished. Killed: that is the cause, unless it was asked to go,
// as everybody is when this run is interrupted. Otherwise its own words may still be on the way, or
// its exit status.
Status Launch::lose(int32_t rank) {
  const Seat& seat = seats_[rank];
  if (seat.failed) return {};
  if (!trouble_) lost_rank_ = rank;
  std::string how = seat.status ? describe_exit(*seat.status) : *seat.disconnected;
  const std::string prefix = fmt::format("lost rank {}: ", rank);
  if (how.starts_with(prefix)) how.erase(0, prefix.size());
  Error error{
      ErrorCode::kLostPeer, fmt::format("{} was lost: {}", name(rank), how), {}, resume_hint()};
  const bool asked = seat.status && WIFSIGNALED(*seat.status) && WTERMSIG(*seat.status) == SIGTERM;
  if (seat.status && !asked && (WIFSIGNALED(*seat.status) || seat.disconnected)) {
    return fail(std::move(error));
  }
  // Of a rank that is nobody's child here no more will be heard: that beats a neighbour's
  // complaint.
  if (!is_child(rank)) trouble_.reset();
  suspect(std::move(error));
  return {};
}

void Launch::suspect(Error error) {
  if (!trouble_) trouble_ = Trouble{std::move(error), clock_.now() + kCauseMax};
}

Status Launch::tell_all(const ControlMessage& message) {
  for (size_t rank = 0; rank < ranks_; ++rank) {
    // Who cannot be told is about to be lost, which names the cause better.
    const Status told = workers_->tell(static_cast<int32_t>(rank), message);
    if (!told) suspect(told.error());
  }
  return {};
}

std::string Launch::resume_hint() const {
  if (checkpoint_) {
    return fmt::format("going on after step {}: the same command with --resume",
                       checkpoint_->manifest.step);
  }
  if (plan_.checkpoint && plan_.checkpoint->every > 0) {
    return "starting it again; there was no checkpoint to go on from yet";
  }
  return "[checkpoint] with every = 10 in the job: then an interrupted run can go on";
}

// Nothing half-written: neither shards without a manifest nor parts of a Trace.
void Launch::clean_up() {
  // Also those of which the report never came, because its rank was killed or stopped before.
  if (plan_.checkpoint) runtime::discard_unfinished(plan_.checkpoint->directory, first_iteration_);
  if (options_.rendezvous) remove_vacancies(options_.output);
  std::error_code ec;
  for (size_t rank = 0; rank < ranks_; ++rank) {
    std::filesystem::remove(rank_trace_path(options_.output, static_cast<int32_t>(rank)), ec);
  }
}

Result<RunSummary> Launch::conclude() {
  std::vector<trace::Trace> parts;
  for (size_t rank = 0; rank < ranks_; ++rank) {
    parts.push_back(
        TRY(trace::read_trace(rank_trace_path(options_.output, static_cast<int32_t>(rank)))));
  }
  RunSummary summary = book_->summary();
  summary.trace = merge_parts(plan_, std::move(parts), options_.command, options_.version);
  // Of the iterations before, the losses are all that is left.
  const int32_t last = plan_.rank_of(static_cast<int32_t>(plan_.stages.size()) - 1, 0);
  for (const auto& [iteration, loss] : losses_) {
    if (iteration >= first_iteration_) break;
    summary.trace.records.push_back({"loss", iteration, last, {}, loss});
  }
  trace::normalize(summary.trace);
  summary.machine = runtime::machine_load(
      plan_, summary.trace, cpu_busy_, static_cast<int64_t>(std::thread::hardware_concurrency()));
  runtime::add_records(summary.machine, summary.trace);
  summary.trace_path = options_.output + "/trace.jsonl";
  const Status written =
      during(trace::write_trace(summary.trace_path, summary.trace), "writing the trace");
  clean_up();
  TRY(written);
  if (checkpoint_) summary.checkpoint = checkpoint_->folder;
  return summary;
}

}  // namespace

Status check_performable(const plan::Plan& plan) {
  TRY(plan::validate(plan));
  for (const plan::Placement& placement : plan.ranks) {
    const cluster::Device& device = plan.device_of(placement.rank);
    if (device.kind != cluster::DeviceKind::kAccelerator) continue;
    return unusable(fmt::format("rank {} sits on \"{}\", which can be predicted but not run here",
                                placement.rank, device.name),
                    fmt::format("device = \"cpu\" or \"emulated:{}\"", device.name));
  }
  TRY(runtime::check_byte_scale(plan));
  if (plan.stages.size() > runtime::kStagesMax) {
    return unusable(fmt::format("{} stages: messages can be told apart for {} of them",
                                plan.stages.size(), runtime::kStagesMax),
                    "a smaller parallelism.virtual_stages");
  }
  TRY(schedule::build(plan));
  return {};
}

Result<RunSummary> launch(const plan::Plan& plan, const LaunchOptions& options, Clock& clock) {
  CHECK(options.restarts >= 0 && options.end_max.ns > 0, "{} restarts, {} ns for workers to end",
        options.restarts, options.end_max.ns);
  TRY(check_performable(plan));
  TRY(during(make_directories(options.output), "creating the output folder"));
  const bool lasting = options.restarts > 0;
  const auto membership =
      TRY(Membership::open(plan, lasting ? options.output : "", options.all_ended, clock));
  const std::string kept = runtime::kept_folder(options.output);
  std::error_code ec;
  Past past;
  if (membership->goes_on()) past.why = "the launcher of this run was killed";
  if (past.why.empty()) std::filesystem::remove_all(kept, ec);
  std::optional<double> first_loss;
  int restarts = 0, in_a_row = 0;
  const auto end = [&](Result<RunSummary> summary) {
    membership->close(summary ? "all steps are done" : summary.error().message);
    std::filesystem::remove_all(kept, ec);
    if (lasting) std::filesystem::remove(Membership::journal_path(options.output), ec);
    return summary;
  };
  for (int64_t from = -1;;) {
    Launch run(plan, options, *membership, past, clock);
    Result<RunSummary> summary = run.run();
    if (!first_loss) first_loss = run.first_loss();
    if (summary) {
      summary->restarts = restarts;
      summary->first_loss = first_loss;
      return end(std::move(summary));
    }
    if (!run.lost_a_worker()) return end(std::move(summary));
    const int64_t step = run.began_after();
    in_a_row = step == from ? in_a_row + 1 : 1;
    if (in_a_row > options.restarts) return end(std::move(summary));
    from = step;
    ++restarts;
    past = {summary.error().message, run.losses()};
  }
}

}  // namespace tombolo::launch
