#include "perform/stage/perform.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "base/check.h"
#include "perform/exchange/exchange_thread.h"
#include "perform/kernels/emulated_kernels.h"
#include "perform/kernels/pair_kernels.h"
#include "perform/kernels/parameter_groups.h"
#include "perform/stage/cell_relay.h"
#include "perform/stage/dataset_fingerprint.h"
#include "perform/stage/machine_load.h"
#include "perform/stage/report_queue.h"
#include "perform/update/clip.h"
#include "spec/schedule/pass_parts.h"

namespace tombolo::stage {
namespace {

using action::Action;
using action::ActionKind;
using link::Tag;
using trace::Interval;
using trace::Lane;

// How many held-out batches may be on their way between two stages: enough to fill the link, and a
// bound on memory.
constexpr int64_t kEvaluationWindow = 16;
constexpr int64_t kSkippedMax = 10;  // updates in a row that may be left out

bool is_pass(ActionKind kind) {
  return kind == ActionKind::kForward || kind == ActionKind::kRecompute ||
         kind == ActionKind::kBackward || kind == ActionKind::kBackwardInput ||
         kind == ActionKind::kBackwardWeight;
}

void check_rank(const plan::Plan& plan, int32_t rank) {
  CHECK(rank >= 0 && static_cast<size_t>(rank) < plan.ranks.size(), "rank {} of a Plan for {}",
        rank, plan.ranks.size());
}

// What became of an iteration's gradients.
struct Clipping {
  double norm = 0;    // of all stages together
  bool skip = false;  // it is no finite number
};

class Performer {
 public:
  Performer(const plan::Plan& plan, const schedule::RankActions& order,
            const PerformOptions& options, kernels::Kernels& kernels, kernels::Messenger& messenger,
            Threads& clock, const Hooks& hooks)
      : plan_(plan),
        order_(order),
        options_(options),
        kernels_(kernels),
        messenger_(messenger),
        clock_(clock),
        hooks_(hooks),
        shape_(schedule::shape_of(plan)),
        stages_(shape_.stages_at(plan.ranks[options.rank].stage)),
        replica_(plan.ranks[options.rank].replica),
        microbatches_(plan.microbatches_of(replica_)),
        last_stage_(shape_.stages - 1),
        holds_last_(stages_.back() == last_stage_),
        exchanges_(plan.exchanges_gradients(plan.ranks[options.rank].stage)),
        updates_by_group_(exchanges_ && plan.updates_by_group()),
        waits_(plan.device_of(options.rank).kind == cluster::DeviceKind::kEmulated),
        sums_begin_(exchanges_ ? std::nullopt : schedule::sums_begin(plan, options.rank, order)),
        desk_(options.first_iteration, hooks.iteration),
        writer_({.write = hooks.write ? hooks.write : writing(),
                 .report = hooks.shard,
                 .miss = hooks.missed,
                 .has_room = options.has_room,
                 .note = hooks.note},
                clock) {}

  Result<trace::Trace> run();

 private:
  state::CheckpointWriter::Write writing() const {
    return [this](int64_t step, state::CopyOnWriteState& state) {
      return state::write_shard(plan_.checkpoint->directory, step, options_.rank, 0, state);
    };
  }
  Status start_exchange();
  void find_ends();
  Status divide_batch();
  Status before_update(int64_t step);
  Status updated(int64_t iteration);
  Status settle() { return exchange_ ? exchange_->await_all() : Status{}; }
  void draw_exchange();
  void record_freshness();
  std::optional<ExchangeReport> report_exchange();
  std::vector<exchange::ExchangeThread::Wait> take_waits();
  Status iterate(int64_t iteration);
  Status act_all();
  Status act(const Action& action);
  Status co_execute(const schedule::Pair& pair);
  Status hand_over(const Action& done, kernels::Payload result, SimTime start);
  Status compute(const Action& action);
  Status reduce(const Action& action);
  Status reduce_by_groups(const Action& action);
  Status send(const Action& action);
  Status receive(const Action& action);
  void pass_output(const Action& action, kernels::Payload output);
  void pass_gradient(const Action& action, kernels::Payload gradient);
  void await_release(const Action& action);
  void tell_begin(const Action& action) {
    if (options_.windows) options_.windows->begins(iteration_, action, clock_.now());
  }
  void tell_end(const Action& action) {
    if (options_.windows) options_.windows->ends(iteration_, action, clock_.now());
  }
  Status evaluate(int64_t step);
  Status evaluate_batch(int32_t stage, int64_t step, int64_t batch, int64_t batches);
  Status sum_tied_ends();
  Status clip_gradients();
  Result<double> sum_over_stages(double own);
  Status checkpoint(int64_t step);
  Status finish_write();
  void note_done() {
    if (options_.activity) options_.activity->add_done();
  }
  void record_writes();

  SimTime now() const { return SimTime{} + (clock_.now() - options_.origin); }
  bool is_beyond_wan(int32_t rank) const {
    return plan_.ranks[rank].datacenter != plan_.ranks[options_.rank].datacenter;
  }
  bool has_replicas() const { return plan_.replicas() > 1; }
  int32_t pipeline_rank(int32_t stage) const { return plan_.rank_of(stage, replica_); }
  Result<link::Received> await(int32_t peer, Tag tag);
  Result<IterationReport> report(int64_t iteration);
  std::optional<double> record_lateness(int64_t iteration);
  using Waiting =
      std::map<std::pair<int32_t, int32_t>, kernels::Payload>;  // by (stage, microbatch)
  static kernels::Payload take(Waiting& from, const Action& action);
  void draw(const Interval& interval);
  void draw_compute(const Action& action, int64_t iteration, SimTime start);
  bool stops_for_groups(const Action& action) const;
  void draw_parts(const Action& action, SimTime start);
  void draw_pass(const trace::Interval& pass, SimDuration before, SimDuration whole);
  size_t intervals_of_iteration() const;
  Status begin_sums();
  void draw_link(const Action& sent, int32_t sender, int64_t iteration,
                 const link::Received& message);
  void record(const char* name, int64_t iteration, double value);
  Tag tag(const Action& action) const {
    return {static_cast<uint64_t>(iteration_), kernels::pipeline_tensor(action)};
  }

  const plan::Plan& plan_;
  schedule::RankActions order_;  // of the iterations from here on
  const PerformOptions& options_;
  kernels::Kernels& kernels_;
  kernels::Messenger& messenger_;
  Threads& clock_;
  const Hooks& hooks_;
  const schedule::PipelineShape shape_;
  const std::vector<int32_t> stages_;  // of this rank, ascending
  const int32_t replica_;
  int64_t microbatches_;      // of this pipeline, in this iteration
  const int32_t last_stage_;  // of the model
  const bool holds_last_;
  const bool exchanges_;         // gradients, group by group
  const bool updates_by_group_;  // on the exchange's thread
  const bool waits_;             // instead of computing
  std::optional<schedule::SumsBegin> sums_begin_;
  size_t place_ = 0;                                         // in the order
  std::map<int32_t, Action> first_forward_, last_backward_;  // of an iteration, by stage

  int64_t iteration_ = 0;
  int64_t updating_ = 0;  // the newest iteration of which an update began
  SimTime begun_;         // on the clock
  bool drawing_ = true;   // this iteration fits into the Trace's bound
  std::optional<SimTime> first_computation_;
  BatchReport in_passes_;         // of this iteration so far
  SimDuration exposed_at_first_;  // what it had waited for gradients when its first pass began
  // What was received and not computed with yet, by the stage that will; what was computed and not sent yet, by the
  // stage that did.
  Waiting inputs_, output_gradients_, outputs_, input_gradients_;
  kernels::Lateness message_lateness_;  // of this iteration
  SimDuration wan_wait_;                // of this iteration
  SimDuration exposed_;                 // of it, for gradients
  SimTime reported_at_;                 // of the iteration before, on the clock
  std::optional<Clipping> clipping_;    // of this iteration
  int64_t skipped_in_a_row_ = 0;
  trace::Trace trace_;
  ReportQueue desk_;
  // Used by the exchange thread if that updates groups, and by this thread while that one is idle.
  state::CheckpointWriter writer_;
  std::unique_ptr<exchange::ExchangeThread> exchange_;  // the last one: it goes before what it uses
};

Status Performer::start_exchange() {
  kernels::ParameterGroups* parameters = kernels_.parameters();
  if (!parameters) {
    return unusable(
        "replicas lie in several datacenters, and these kernels cannot hand out their "
        "gradients group by group",
        "datacenter_per_stage, which keeps the replicas of a stage together");
  }
  find_ends();
  exchange_ = std::make_unique<exchange::ExchangeThread>(
      plan_,
      exchange::ExchangeOptions{.rank = options_.rank,
                                .first_iteration = options_.first_iteration,
                                .origin = options_.origin,
                                .overlap = plan_.exchange_overlaps(),
                                .updates = updates_by_group_,
                                .one_clock = options_.one_clock,
                                .activity = options_.activity,
                                .density = options_.density},
      *parameters, messenger_, clock_,
      exchange::ExchangeHooks{.before_update = [this](int64_t step) { return before_update(step); },
                              .updated = [this](int64_t iteration) { return updated(iteration); },
                              .failed = hooks_.exchange_failed});
  return {};
}

void Performer::find_ends() {
  first_forward_.clear();
  last_backward_.clear();
  for (const Action& action : order_) {
    if (action.kind == ActionKind::kBackward || action.kind == ActionKind::kBackwardWeight)
      last_backward_[action.stage] = action;
    if (action.kind == ActionKind::kForward) first_forward_.emplace(action.stage, action);
  }
}

// Divides the batch as the launcher has ordered it, from this iteration on. There are at least two pipelines, so
// replicas reduce their gradients.
Status Performer::divide_batch() {
  if (!options_.batch) return {};
  const auto each = TRY(during(options_.batch->begin(iteration_, options_.activity),
                               "waiting for the numbers of microbatches"));
  if (!each) return {};
  Division division = TRY(divide(plan_, options_.rank, *each));
  order_ = std::move(division.order);
  microbatches_ = division.plan.microbatches_of(replica_);
  if (exchange_) find_ends();
  if (sums_begin_) sums_begin_ = schedule::sums_begin(division.plan, options_.rank, order_);
  kernels_.divide_batch(*each);
  return {};
}

// before_update() and updated() are called by the thread that updates.
Status Performer::before_update(int64_t step) {
  if (updates_by_group_) TRY(writer_.check());
  {
    const kernels::Activity::Wait wait(options_.activity);
    writer_.before_update();
  }
  return hooks_.before_update ? hooks_.before_update(step) : Status{};
}

Status Performer::updated(int64_t iteration) {
  if (hooks_.updated) TRY(hooks_.updated(iteration));
  return desk_.updated(iteration, now());
}

Result<trace::Trace> Performer::run() {
  const int64_t steps = plan_.run.steps;
  if (options_.activity) options_.activity->begin();
  if (!options_.pairs.empty() && !kernels_.pairs()) {
    return unusable(
        "the schedule co-executes a forward with a backward, and these kernels run one pass at a "
        "time",
        "a Plan without pairs, or emulated devices");
  }
  TRY(during(agree_on_data(plan_, options_.rank, options_.first_iteration, kernels_, messenger_),
             "comparing the data of the pipeline's first and last stage"));
  if (exchanges_) TRY(start_exchange());
  for (int64_t i = options_.first_iteration; i <= steps; ++i) {
    TRY(iterate(i));
    if (!updates_by_group_) TRY(writer_.check());
    const bool end = i == steps;
    const int64_t every = plan_.run.evaluate_every;
    if (end || (every > 0 && i % every == 0)) TRY(evaluate(i));
    if (!plan_.checkpoint || plan_.checkpoint->every <= 0) continue;
    if (end || i % plan_.checkpoint->every == 0) TRY(checkpoint(i));
  }
  if (exchange_) TRY(exchange_->finish());
  draw_exchange();
  TRY(finish_write());
  record_writes();
  if (options_.activity) options_.activity->end();
  return std::move(trace_);
}

Status Performer::iterate(int64_t iteration) {
  iteration_ = iteration;
  TRY(divide_batch());
  begun_ = std::max(clock_.now(), options_.origin);
  first_computation_.reset();
  in_passes_ = {.microbatches = microbatches_};
  message_lateness_ = {};
  wan_wait_ = exposed_ = {};
  clipping_.reset();
  const auto room = options_.intervals_max - static_cast<int64_t>(trace_.intervals.size());
  drawing_ = room >= static_cast<int64_t>(intervals_of_iteration());
  if (exchange_) exchange_->begin_iteration(iteration);
  TRY(kernels_.begin_iteration(iteration));
  TRY(act_all());
  // A schedule sends all that it computes for others, and uses all that it receives.
  const size_t left =
      inputs_.size() + output_gradients_.size() + outputs_.size() + input_gradients_.size();
  CHECK(left == 0, "{} results of iteration {} were not used", left, iteration);
  take_waits();
  if (exchange_ && plan_.exchange_overlaps())
    record("exposed_s", iteration_, seconds(exposed_).value);
  record_freshness();
  const std::optional<ExchangeReport> exchanged = report_exchange();
  draw_exchange();
  IterationReport done = TRY(report(iteration));
  done.exchange = exchanged;
  if (!updates_by_group_) TRY(updated(iteration));
  return desk_.hand_in(std::move(done));
}

void Performer::draw_exchange() {
  if (!exchange_) return;
  for (const Interval& each : exchange_->take_intervals()) draw(each);
}

void Performer::record_freshness() {
  if (!exchange_ || plan_.exchange.value_or(plan::Exchange{}).staleness_in_use() == 0) return;
  const exchange::GroupVersions::Freshness here = exchange_->take_freshness();
  if (here.used == 0) return;
  record("fresh_share", iteration_, real(here.fresh) / real(here.used));
}

// Of a run whose density may change. Waits before an evaluation belong to the iteration after it.
std::optional<ExchangeReport> Performer::report_exchange() {
  if (!exchange_ || !plan_.exchange.value_or(plan::Exchange{}).density_changes())
    return std::nullopt;
  record("density", iteration_, exchange_->density_of(iteration_));
  const exchange::Arrivals::Sum came = exchange_->take_arrivals();
  const SimTime since = std::exchange(reported_at_, clock_.now());
  const SimDuration span = reported_at_ - (since.ns == 0 ? begun_ : since);
  return ExchangeReport{.computing = std::max(span - exposed_, SimDuration{}),
                        .waited = exposed_,
                        .bytes = came.bytes,
                        .in_flight = came.in_flight};
}

// Returns the waits for the gradient exchange since the last call, and adds them to this iteration's.
std::vector<exchange::ExchangeThread::Wait> Performer::take_waits() {
  std::vector<exchange::ExchangeThread::Wait> waits;
  if (exchange_) waits = exchange_->take_waits();
  for (const auto& [start, end] : waits) {
    exposed_ += end - start;
    wan_wait_ += end - start;
  }
  return waits;
}

Result<IterationReport> Performer::report(int64_t iteration) {
  IterationReport out{.iteration = iteration, .start = now(), .end = now(), .wan_wait = wan_wait_};
  if (first_computation_) out.start = *first_computation_;
  if (holds_last_) out.loss = kernels_.loss();
  out.update_skipped = clipping_ && clipping_->skip;
  if (holds_last_ && clipping_ && !clipping_->skip) out.gradient_norm = clipping_->norm;
  // A loss that is not finite is expected here: its gradients were left out.
  if (out.update_skipped && out.loss && !std::isfinite(*out.loss)) out.loss.reset();
  if (out.loss && !std::isfinite(*out.loss)) {
    return failed(
        fmt::format("the loss of iteration {} is no number: training diverged", iteration),
        "a smaller learning_rate, or more warmup_steps");
  }
  if (out.loss) record(has_replicas() ? "replica_loss" : "loss", iteration, *out.loss);
  if (replica_ == 0 && out.gradient_norm) record("gradient_norm", iteration, *out.gradient_norm);
  if (replica_ == 0 && holds_last_ && out.update_skipped) record("update_skipped", iteration, 1);
  out.late_s = record_lateness(iteration);
  if (plan_.batch_changes()) {
    out.batch = in_passes_;
    if (holds_last_) record("microbatches", iteration, static_cast<double>(microbatches_));
  }
  const int64_t every = plan_.run.compare_replicas_every;
  if (has_replicas() && every > 0 && (iteration % every == 0 || iteration == plan_.run.steps)) {
    TRY(settle());
    out.weights_digest = TRY(during(kernels_.weights_digest(), "comparing the replicas"));
  }
  return out;
}

// The sends that follow a pair are done as part of it: each result left when its side of the pair ended.
Status Performer::act_all() {
  size_t next_pair = 0;
  std::set<Action> sent;
  for (size_t i = 0; i < order_.size(); ++i) {
    const Action& action = order_[i];
    place_ = i;
    const bool pair =
        next_pair < options_.pairs.size() && options_.pairs[next_pair].forward == action;
    if (sent.erase(action) > 0) continue;
    TRY(during(pair ? co_execute(options_.pairs[next_pair]) : act(action),
               fmt::format("performing {} of iteration {}", action::to_text(action), iteration_)));
    note_done();
    if (!pair) continue;
    const auto& [forward, backward] = options_.pairs[next_pair++];
    if (shape_.crosses(forward.stage)) {
      sent.insert({ActionKind::kSendActivation, forward.stage, forward.microbatch});
    }
    if (shape_.crosses(backward.stage - 1)) {
      sent.insert({ActionKind::kSendGradient, backward.stage, backward.microbatch});
    }
    ++i;  // its backward
  }
  return {};
}

// The forward is not the first of its stage in the iteration and the backward not the last: the
// backward's microbatch has been through all forwards, the forward's through no backward. So no
// exchange of gradients waits for them, or they for one.
Status Performer::co_execute(const schedule::Pair& pair) {
  const Action &forward = pair.forward, &backward = pair.backward;
  CHECK(!exchange_ || last_backward_.at(backward.stage) != backward, "{} is the last of its stage",
        action::to_text(backward));
  take_waits();
  TRY(begin_sums());
  const SimTime start = now();
  tell_begin(forward);
  TRY(kernels_.pairs()->co_execute(
      {.forward_stage = forward.stage,
       .forward_microbatch = forward.microbatch,
       .input = take(inputs_, forward),
       .backward_stage = backward.stage,
       .backward_microbatch = backward.microbatch,
       .output_gradient = take(output_gradients_, backward)},
      {.forward =
           [&](kernels::Payload output) { return hand_over(forward, std::move(output), start); },
       .backward =
           [&](kernels::Payload gradient) {
             return hand_over(backward, std::move(gradient), start);
           }}));
  tell_end(forward);
  tell_end(backward);
  return {};
}

Status Performer::hand_over(const Action& done, kernels::Payload result, SimTime start) {
  draw_compute(done, iteration_, start);
  if (done.kind == ActionKind::kForward) {
    pass_output(done, std::move(result));
    if (!shape_.crosses(done.stage)) return {};
    return send({ActionKind::kSendActivation, done.stage, done.microbatch});
  }
  pass_gradient(done, std::move(result));
  if (!shape_.crosses(done.stage - 1)) return {};
  return send({ActionKind::kSendGradient, done.stage, done.microbatch});
}

Status Performer::act(const Action& action) {
  if (action.kind == ActionKind::kUpdate && updates_by_group_) return {};
  if (action.kind == ActionKind::kUpdate && updating_ < iteration_) {
    updating_ = iteration_;
    TRY(settle());
    TRY(sum_tied_ends());
    TRY(clip_gradients());
    TRY(before_update(iteration_ - 1));
  }
  if (action::is_send(action.kind)) return send(action);
  if (action::is_receive(action.kind)) return receive(action);
  if (action.kind == ActionKind::kReduceGradients)
    return exchange_ ? reduce_by_groups(action) : reduce(action);
  return compute(action);
}

// All updates of a rank are its last actions (schedule/validate.cc), so its gradients are complete.
// Both send at once, and add what comes.
Status Performer::sum_tied_ends() {
  const std::optional<int32_t> other = plan_.other_end(options_.rank);
  if (!other) return {};
  const Tag number{static_cast<uint64_t>(iteration_), kernels::kTiedTensor};
  TRY(messenger_.send(*other, number, TRY(kernels_.tied_gradient())));
  const link::Received theirs = TRY(await(*other, number));
  const int32_t sender = stages_.front() == 0 ? last_stage_ : 0;
  draw_link({ActionKind::kSumTied, sender, -1}, *other, iteration_, theirs);
  return kernels_.add_tied_gradient(theirs.payload);
}

// All updates of a rank are its last actions (schedule/validate.cc), so its gradients are complete.
// Every pipeline finds the same norm, because replicas have the same gradients by then.
Status Performer::clip_gradients() {
  if (!plan_.optimizer.clip_norm) return {};
  const std::optional<double> own = TRY(kernels_.gradient_squares());
  if (!own) return {};
  const double norm = std::sqrt(TRY(sum_over_stages(*own)));
  clipping_ = {.norm = norm, .skip = !std::isfinite(norm)};
  kernels_.scale_gradients(clipping_->skip ? 0
                                           : update::clip_factor(norm, *plan_.optimizer.clip_norm));
  skipped_in_a_row_ = clipping_->skip ? skipped_in_a_row_ + 1 : 0;
  if (skipped_in_a_row_ < kSkippedMax) return {};
  return failed(fmt::format("the gradients of {} iterations in a row were no finite numbers, up to "
                            "iteration {}: training diverged",
                            skipped_in_a_row_, iteration_),
                "a smaller learning_rate, or more warmup_steps");
}

// From the last position of the pipeline to the first, which knows the sum, and back: neighbours
// are linked anyway, and both ways together are as long as a microbatch's.
Result<double> Performer::sum_over_stages(double own) {
  const int32_t position = plan_.ranks[options_.rank].stage;
  const int32_t last = shape_.positions() - 1;
  const auto neighbour = [&](int32_t of) { return plan_.rank_of(of, replica_); };
  const auto number = [&](bool down) {
    return Tag{static_cast<uint64_t>(iteration_), kernels::kNormTensor + (down ? 1 : 0)};
  };
  const auto say = [&](int32_t to, bool down, double value) {
    const auto* begin = reinterpret_cast<const std::byte*>(&value);
    return messenger_.send(neighbour(to), number(down),
                           kernels::Payload(begin, begin + sizeof value));
  };
  const auto hear = [&](int32_t from, bool down) -> Result<double> {
    const link::Received message = TRY(await(neighbour(from), number(down)));
    double value = 0;
    if (message.payload.size() != sizeof value)
      return failed(fmt::format("a norm of {} bytes", message.payload.size()));
    std::memcpy(&value, message.payload.data(), sizeof value);
    return value;
  };
  double sum = own;
  if (position < last) sum += TRY(hear(position + 1, false));
  if (position > 0) {
    TRY(say(position - 1, false, sum));
    sum = TRY(hear(position - 1, true));
  }
  if (position < last) TRY(say(position + 1, true, sum));
  return sum;
}

Status Performer::compute(const Action& action) {
  const int32_t s = action.stage, m = action.microbatch;
  await_release(action);
  if (exchange_ && action.kind == ActionKind::kForward) TRY(exchange_->await_ready(s, 0));
  if (exchange_ && last_backward_.at(s) == action) {
    TRY(exchange_->await_taken(s));
    TRY(kernels_.parameters()->last_backward(s));
  }
  take_waits();
  if (exchange_) exchange_->take_borders();
  TRY(begin_sums());
  const SimTime start = now();
  const SimDuration exposed = exposed_;
  if (!first_computation_) {
    first_computation_ = start;
    exposed_at_first_ = exposed;
  }
  tell_begin(action);
  switch (action.kind) {
    case ActionKind::kForward:
      pass_output(action, TRY(kernels_.forward(s, m, take(inputs_, action))));
      break;
    case ActionKind::kBackward:
      pass_gradient(action, TRY(kernels_.backward(s, m, take(output_gradients_, action))));
      break;
    case ActionKind::kBackwardInput:
      pass_gradient(action, TRY(kernels_.backward_input(s, m, take(output_gradients_, action))));
      break;
    case ActionKind::kBackwardWeight:
      TRY(kernels_.backward_weight(s, m));
      break;
    case ActionKind::kRecompute:
      TRY(kernels_.recompute(s, m));
      break;
    case ActionKind::kUpdate:
      TRY(kernels_.update(s));
      break;
    default:
      CHECK(false, "{} is no computation of an iteration", action::to_text(action));
  }
  tell_end(action);
  draw_compute(action, iteration_, start);  // takes the waits for groups in the middle of the pass
  if (action.kind == ActionKind::kUpdate) return {};
  in_passes_.computing += now() - start - (exposed_ - exposed);
  in_passes_.passes = now() - *first_computation_ - (exposed_ - exposed_at_first_);
  return {};
}

void Performer::await_release(const Action& action) {
  const bool begins_pipeline =
      action.kind == ActionKind::kForward && action.stage == 0 && !first_computation_;
  if (begins_pipeline && options_.release.ns > 0) {
    clock_.sleep_until(begun_ + options_.release);
  }
}

void Performer::pass_output(const Action& action, kernels::Payload output) {
  if (action.stage == last_stage_) return;
  if (shape_.crosses(action.stage)) {
    outputs_[{action.stage, action.microbatch}] = std::move(output);
  } else {
    inputs_[{action.stage + 1, action.microbatch}] = std::move(output);
  }
}

void Performer::pass_gradient(const Action& action, kernels::Payload gradient) {
  if (action.stage == 0) return;
  if (shape_.crosses(action.stage - 1)) {
    input_gradients_[{action.stage, action.microbatch}] = std::move(gradient);
  } else {
    output_gradients_[{action.stage - 1, action.microbatch}] = std::move(gradient);
  }
}

Status Performer::reduce(const Action& action) {
  const SimTime start = now();
  TRY(kernels_.reduce_gradients(action.stage));
  const auto elsewhere = [this](int32_t replica) { return is_beyond_wan(replica); };
  const auto replicas = plan_.replicas_of(plan_.ranks[options_.rank].stage);
  if (std::any_of(replicas.begin(), replicas.end(), elsewhere)) wan_wait_ += now() - start;
  const auto on_clock = [this](SimTime at) { return SimTime{} + (at - options_.origin); };
  const std::optional<kernels::Kernels::Summed> really = kernels_.summed();
  draw({.lane = Lane::kCollective,
        .rank = options_.rank,
        .action = action,
        .iteration = iteration_,
        .start = really ? on_clock(really->start) : start,
        .end = really ? on_clock(really->end) : now(),
        .bytes = kernels::gradient_bytes(plan_, action.stage)});
  return {};
}

// Tells the kernels when the all-reduces of gradients begin, if that is within this pass.
Status Performer::begin_sums() {
  if (!sums_begin_ || sums_begin_->place != place_) return {};
  return kernels_.sums_begin(sums_begin_->after);
}

// With overlap all groups have already left, and this action does not wait for them.
Status Performer::reduce_by_groups(const Action& action) {
  if (plan_.exchange_overlaps()) return {};
  exchange_->release(action.stage);
  return exchange_->await_stage(action.stage);
}

Status Performer::send(const Action& action) {
  const bool activation = action.kind == ActionKind::kSendActivation;
  const int32_t peer = pipeline_rank(action.stage + (activation ? 1 : -1));
  return messenger_.send(peer, tag(action), take(activation ? outputs_ : input_gradients_, action));
}

Status Performer::receive(const Action& action) {
  const bool activation = action.kind == ActionKind::kReceiveActivation;
  const int32_t sender = action.stage + (activation ? -1 : 1);
  const int32_t peer = pipeline_rank(sender);
  link::Received message = TRY(await(peer, tag(action)));
  const ActionKind sent = activation ? ActionKind::kSendActivation : ActionKind::kSendGradient;
  draw_link({sent, sender, action.microbatch}, peer, iteration_, message);
  (activation ? inputs_ : output_gradients_)[{action.stage, action.microbatch}] =
      std::move(message.payload);
  return {};
}

// In groups of a window: the group passes through all stages before the next one begins, so that a
// rank with several stages keeps the others busy, and no two ranks wait for each other.
Status Performer::evaluate(int64_t step) {
  const int64_t batches = kernels_.evaluation_batches();
  if (batches == 0) return {};
  TRY(settle());
  drawing_ = options_.intervals_max - static_cast<int64_t>(trace_.intervals.size()) >= 2 * batches;
  for (int64_t first = 0; first < batches; first += kEvaluationWindow) {
    for (const int32_t stage : stages_) {
      for (int64_t batch = first; batch < std::min(batches, first + kEvaluationWindow); ++batch) {
        TRY(during(evaluate_batch(stage, step, batch, batches),
                   fmt::format("evaluating batch {} after step {}", batch, step)));
        note_done();
      }
    }
  }
  const std::optional<double> loss = holds_last_ ? kernels_.evaluation_loss() : std::nullopt;
  if (!loss) return {};
  record(has_replicas() ? "replica_evaluation_loss" : "evaluation_loss", step, *loss);
  if (has_replicas()) {
    record("replica_evaluation_batches", step, static_cast<double>(batches));
  }
  return hooks_.evaluation ? hooks_.evaluation({step, *loss, batches}) : Status{};
}

// The receiver acknowledges what the sender waits for: the batch that makes room in the window.
Status Performer::evaluate_batch(int32_t stage, int64_t step, int64_t batch, int64_t batches) {
  const auto tag = [&](uint64_t tensor, int32_t boundary, int64_t of) {
    return Tag{static_cast<uint64_t>(step),
               tensor + static_cast<uint64_t>(boundary) * kernels::kTensorsPerBoundary +
                   static_cast<uint64_t>(of)};
  };
  const Action forward{ActionKind::kEvaluate, stage, static_cast<int32_t>(batch)};
  kernels::Payload input;
  if (shape_.crosses(stage - 1)) {
    const int32_t peer = pipeline_rank(stage - 1);
    link::Received message =
        TRY(messenger_.receive(peer, tag(kernels::kEvaluationTensor, stage - 1, batch)));
    if (batch + kEvaluationWindow < batches) {
      TRY(messenger_.send(peer, tag(kernels::kAcknowledgeTensor, stage - 1, batch), {}));
    }
    draw_link({ActionKind::kSendActivation, stage - 1, forward.microbatch}, peer, 0, message);
    input = std::move(message.payload);
  } else {
    input = take(inputs_, forward);
  }
  const SimTime start = now();
  kernels::Payload output = TRY(kernels_.evaluate(stage, batch, std::move(input)));
  draw_compute(forward, 0, start);
  if (!shape_.crosses(stage)) {
    pass_output(forward, std::move(output));
    return {};
  }
  const int32_t peer = pipeline_rank(stage + 1);
  if (batch >= kEvaluationWindow) {
    TRY(messenger_.receive(peer,
                           tag(kernels::kAcknowledgeTensor, stage, batch - kEvaluationWindow)));
  }
  return messenger_.send(peer, tag(kernels::kEvaluationTensor, stage, batch), std::move(output));
}

Status Performer::checkpoint(int64_t step) {
  if (!state::writes_shard(plan_, options_.rank)) return {};
  if (exchange_) TRY(exchange_->await_arrivals());
  const SimTime start = now();
  TRY(finish_write());
  writer_.begin(step, TRY(kernels_.state()));
  drawing_ = static_cast<int64_t>(trace_.intervals.size()) < options_.intervals_max;
  draw_compute({ActionKind::kCheckpoint, stages_.front(), -1}, 0, start);
  return {};
}

Status Performer::finish_write() {
  const kernels::Activity::Wait wait(options_.activity);
  return writer_.finish();
}

void Performer::record_writes() {
  for (const state::CheckpointWriter::Written& each : writer_.take_written()) {
    record("checkpoint_write_s", each.step, seconds(each.end - each.start).value);
    record("checkpoint_held_s", each.step, seconds(each.held).value);
  }
}

// A message that wakes this rank late, or came late although its link was free, counts like a wait
// that ended late: it is not made up for.
Result<link::Received> Performer::await(int32_t peer, Tag tag) {
  const SimTime asked = clock_.now();
  link::Received message = TRY(messenger_.receive(peer, tag));
  const link::LinkShape shape = transfer_shape(plan_, peer, options_.rank, options_.emulated_wan);
  const SimTime due = options_.one_clock ? kernels::arrival_due(message, shape) : message.delivered;
  if (is_beyond_wan(peer)) wan_wait_ += clock_.now() - asked;
  message_lateness_.sum += std::max(clock_.now() - std::max(asked, due), SimDuration{0});
  ++message_lateness_.waits;
  return message;
}

std::optional<double> Performer::record_lateness(int64_t iteration) {
  const std::optional<kernels::Lateness> waits = kernels_.lateness();
  if (!waits) return std::nullopt;
  const auto stages = static_cast<int64_t>(plan_.stages.size());
  const Seconds late = lateness_of_iteration(*waits, message_lateness_, stages);
  record(kLateRecord, iteration, late.value);
  return late.value;
}

// Payloads of the first stage's inputs and the last stage's outputs are empty and never came.
kernels::Payload Performer::take(Waiting& from, const Action& action) {
  const auto node = from.extract({action.stage, action.microbatch});
  return node.empty() ? kernels::Payload{} : std::move(node.mapped());
}

void Performer::draw(const Interval& interval) {
  if (drawing_) trace_.intervals.push_back(interval);
}

void Performer::draw_compute(const Action& action, int64_t iteration, SimTime start) {
  take_waits();
  if (stops_for_groups(action)) return draw_parts(action, start);
  const SimTime end = now();
  draw_pass({.lane = Lane::kCompute,
             .rank = options_.rank,
             .action = action,
             .iteration = iteration,
             .start = start,
             .end = end},
            {}, end - start);
}

// A pass, or a part of one that began `before` into it. Communication inside the pass is drawn after its computation,
// as the simulator does: as planned if devices wait, else as measured; for a pair it is not drawn.
void Performer::draw_pass(const trace::Interval& pass, SimDuration before, SimDuration whole) {
  const auto is_in = [&](const schedule::Pair& pair) {
    return pair.forward == pass.action || pair.backward == pass.action;
  };
  const std::optional<plan::PassCommunication> measured =
      pass.iteration > 0 && is_pass(pass.action.kind) ? kernels_.communicated() : std::nullopt;
  const plan::PassCommunication* inside =
      waits_ ? schedule::communication_of(plan_.cost_on(options_.rank, pass.action.stage),
                                          pass.action.kind)
             : (measured ? &*measured : nullptr);
  if (!drawing_ || !inside || inside->total() == 0_s ||
      std::any_of(options_.pairs.begin(), options_.pairs.end(), is_in)) {
    return draw(pass);
  }
  schedule::add_pass(schedule::shares_of(*inside, whole), before, pass, trace_.intervals);
}

// At most, without parts.
size_t Performer::intervals_of_iteration() const {
  size_t count = order_.size();
  if (kernels_.communicated()) count *= 5;  // tensor, context, experts and data of each
  for (const Action& action : order_) {
    if (!waits_ || action::is_communication(action.kind)) continue;
    const plan::StageCost& cost = plan_.cost_on(options_.rank, action.stage);
    const plan::PassCommunication* inside = schedule::communication_of(cost, action.kind);
    if (inside)
      count += schedule::shares_of(*inside, round_to_ns(inside->total())).communicates.size();
  }
  return count;
}

// As the Graph cuts passes (schedule/exchange_graph.h).
bool Performer::stops_for_groups(const Action& action) const {
  if (!exchange_ || !plan_.exchange_overlaps()) return false;
  const auto is = [&](const std::map<int32_t, Action>& of_stage) {
    const auto found = of_stage.find(action.stage);
    return found != of_stage.end() && found->second == action;
  };
  return is(first_forward_) || is(last_backward_);
}

// A part for each group: from where a forward begins to use it, or until its gradient is complete. A part
// without a border of its own, because kernels do not tell it from its neighbour, takes no time.
void Performer::draw_parts(const Action& action, SimTime start) {
  const bool forward = action.kind == ActionKind::kForward;
  const auto borders = exchange_->take_borders();
  const auto groups = exchange_->groups_of(action.stage);
  const SimTime end = now();
  SimTime begin = start;
  std::vector<Interval> parts;
  for (int32_t i = 0; i < groups; ++i) {
    const int32_t part = forward ? i : groups - 1 - i;
    const int32_t until = forward ? part + 1 : part;  // the group at whose border it ends
    const auto border = std::find_if(borders.begin(), borders.end(),
                                     [&](const auto& each) { return each.group == until; });
    const bool last = i + 1 == groups;
    const SimTime reached = last || border == borders.end() ? end : border->reached;
    parts.push_back({.lane = Lane::kCompute,
                     .rank = options_.rank,
                     .action = action,
                     .iteration = iteration_,
                     .start = begin,
                     .end = std::max(begin, reached),
                     .part = part});
    begin = last || border == borders.end() ? end : std::max(begin, border->left);
  }
  SimDuration whole, before;
  for (const Interval& part : parts) whole += part.end - part.start;
  for (const Interval& part : parts) {
    draw_pass(part, before, whole);
    before += part.end - part.start;
  }
}

void Performer::draw_link(const Action& sent, int32_t sender, int64_t iteration,
                          const link::Received& message) {
  const SimTime zero;
  draw({.lane = Lane::kLink,
        .rank = sender,
        .peer = options_.rank,
        .action = sent,
        .iteration = iteration,
        .start = zero +
                 ((options_.one_clock ? message.sent_start : message.delivered) - options_.origin),
        .end = zero + (message.delivered - options_.origin),
        .bytes = plan_.has_model() ? static_cast<int64_t>(message.payload.size()) : 0});
}

void Performer::record(const char* name, int64_t iteration, double value) {
  trace_.records.push_back({name, iteration, options_.rank, now(), value});
}

}  // namespace

Result<trace::Trace> perform(const plan::Plan& plan, const schedule::RankActions& order,
                             const PerformOptions& options, kernels::Kernels& kernels,
                             kernels::Messenger& messenger, Threads& clock, const Hooks& hooks) {
  check_rank(plan, options.rank);
  return Performer(plan, order, options, kernels, messenger, clock, hooks).run();
}

}  // namespace tombolo::stage
