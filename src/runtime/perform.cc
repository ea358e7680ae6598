#include "runtime/perform.h"

#include <cmath>
#include <map>

#include "base/check.h"

namespace tombolo::runtime {
namespace {

using trace::Action;
using trace::ActionKind;
using trace::Interval;
using trace::Lane;
using transport::Tag;

// Tags of an iteration's micro-batches lie far below these.
constexpr uint64_t kEvaluationTensor = uint64_t{1} << 40;
constexpr uint64_t kAcknowledgeTensor = uint64_t{1} << 41;
// How many held-out batches may be on their way between two stages: enough to fill the link, and a
// bound on memory.
constexpr int64_t kEvaluationWindow = 16;

class Performer {
 public:
  Performer(const plan::Plan& plan, const schedule::Order& order, const PerformOptions& options,
            Kernels& kernels, Messenger& messenger, Clock& clock, const Hooks& hooks)
      : plan_(plan),
        order_(order),
        options_(options),
        kernels_(kernels),
        messenger_(messenger),
        clock_(clock),
        hooks_(hooks),
        stage_(plan.ranks[options.rank].stage),
        last_(stage_ + 1 == static_cast<int32_t>(plan.stages.size())) {}

  Result<trace::Trace> run();

 private:
  Status iterate(int64_t iteration);
  Status act(const Action& action);
  Status compute(const Action& action);
  Status send(const Action& action);
  Status receive(const Action& action);
  Status evaluate(int64_t step);
  Status evaluate_batch(int64_t step, int64_t batch, int64_t batches);
  Status checkpoint(int64_t step);

  SimTime now() const { return SimTime{} + (clock_.now() - options_.origin); }
  Payload take(std::map<int32_t, Payload>& from, int32_t microbatch);
  void draw(const Interval& interval);
  void draw_compute(const Action& action, int64_t iteration, SimTime start);
  void draw_link(const Action& sent, int32_t sender, int64_t iteration,
                 const transport::Received& message);
  void record(const char* name, int64_t iteration, double value);
  Tag tag(const Action& action) const {
    return {static_cast<uint64_t>(iteration_),
            static_cast<uint64_t>(schedule::message_tag(action))};
  }

  const plan::Plan& plan_;
  const schedule::Order& order_;
  const PerformOptions& options_;
  Kernels& kernels_;
  Messenger& messenger_;
  Clock& clock_;
  const Hooks& hooks_;
  const int32_t stage_;
  const bool last_;

  int64_t iteration_ = 0;
  bool drawing_ = true;  // this iteration fits into the Trace's bound
  std::optional<SimTime> first_computation_;
  // What came and was not computed with yet, what was computed and not sent yet; by micro-batch.
  std::map<int32_t, Payload> inputs_, output_gradients_, outputs_, input_gradients_;
  trace::Trace trace_;
};

Result<trace::Trace> Performer::run() {
  const int64_t steps = plan_.run.steps;
  for (int64_t i = options_.first_iteration; i <= steps; ++i) {
    TRY(iterate(i));
    const bool end = i == steps;
    const int64_t every = plan_.run.evaluate_every;
    if (end || (every > 0 && i % every == 0)) TRY(evaluate(i));
    if (!plan_.checkpoint || plan_.checkpoint->every <= 0) continue;
    if (end || i % plan_.checkpoint->every == 0) TRY(checkpoint(i));
  }
  return std::move(trace_);
}

Status Performer::iterate(int64_t iteration) {
  iteration_ = iteration;
  first_computation_.reset();
  const auto room = options_.intervals_max - static_cast<int64_t>(trace_.intervals.size());
  drawing_ = room >= static_cast<int64_t>(order_.size());
  TRY(kernels_.begin_iteration(iteration));
  for (const Action& action : order_) {
    TRY(during(act(action),
               fmt::format("performing {} of iteration {}", trace::to_text(action), iteration)));
  }
  IterationReport report{.iteration = iteration, .start = now(), .end = now()};
  if (first_computation_) report.start = *first_computation_;
  if (last_) report.loss = kernels_.loss();
  if (report.loss && !std::isfinite(*report.loss)) {
    return failed(
        fmt::format("the loss of iteration {} is no number: training diverged", iteration),
        "a smaller learning_rate, or more warmup_steps");
  }
  if (report.loss) record("loss", iteration, *report.loss);
  return hooks_.iteration ? hooks_.iteration(report) : Status{};
}

Status Performer::act(const Action& action) {
  if (trace::is_send(action.kind)) return send(action);
  if (trace::is_receive(action.kind)) return receive(action);
  return compute(action);
}

Status Performer::compute(const Action& action) {
  const int32_t m = action.microbatch;
  const SimTime start = now();
  if (!first_computation_) first_computation_ = start;
  switch (action.kind) {
    case ActionKind::kForward:
      outputs_[m] = TRY(kernels_.forward(m, take(inputs_, m)));
      break;
    case ActionKind::kBackward:
      input_gradients_[m] = TRY(kernels_.backward(m, take(output_gradients_, m)));
      break;
    case ActionKind::kRecompute:
      TRY(kernels_.recompute(m));
      break;
    case ActionKind::kUpdate:
      TRY(kernels_.update());
      break;
    default:
      CHECK(false, "{} is no computation of an iteration", trace::to_text(action));
  }
  draw_compute(action, iteration_, start);
  return {};
}

Status Performer::send(const Action& action) {
  const bool activation = action.kind == ActionKind::kSendActivation;
  const int32_t peer = rank_of_stage(plan_, stage_ + (activation ? 1 : -1));
  return messenger_.send(peer, tag(action),
                         take(activation ? outputs_ : input_gradients_, action.microbatch));
}

Status Performer::receive(const Action& action) {
  const bool activation = action.kind == ActionKind::kReceiveActivation;
  const int32_t stage = stage_ + (activation ? -1 : 1);
  const int32_t peer = rank_of_stage(plan_, stage);
  transport::Received message = TRY(messenger_.receive(peer, tag(action)));
  const ActionKind sent = activation ? ActionKind::kSendActivation : ActionKind::kSendGradient;
  draw_link({sent, stage, action.microbatch}, peer, iteration_, message);
  (activation ? inputs_ : output_gradients_)[action.microbatch] = std::move(message.payload);
  return {};
}

Status Performer::evaluate(int64_t step) {
  const int64_t batches = kernels_.evaluation_batches();
  if (batches == 0) return {};
  drawing_ = options_.intervals_max - static_cast<int64_t>(trace_.intervals.size()) >= 2 * batches;
  for (int64_t batch = 0; batch < batches; ++batch) {
    TRY(during(evaluate_batch(step, batch, batches),
               fmt::format("evaluating batch {} after step {}", batch, step)));
  }
  const std::optional<double> loss = last_ ? kernels_.evaluation_loss() : std::nullopt;
  if (!loss) return {};
  record("evaluation_loss", step, *loss);
  return hooks_.evaluation ? hooks_.evaluation(step, *loss) : Status{};
}

// The receiver acknowledges what the sender waits for: the batch that makes room in the window.
Status Performer::evaluate_batch(int64_t step, int64_t batch, int64_t batches) {
  const auto tag = [&](uint64_t tensor, int64_t of) {
    return Tag{static_cast<uint64_t>(step), tensor + static_cast<uint64_t>(of)};
  };
  Payload input;
  if (stage_ > 0) {
    const int32_t peer = rank_of_stage(plan_, stage_ - 1);
    transport::Received message = TRY(messenger_.receive(peer, tag(kEvaluationTensor, batch)));
    if (batch + kEvaluationWindow < batches) {
      TRY(messenger_.send(peer, tag(kAcknowledgeTensor, batch), {}));
    }
    draw_link({ActionKind::kSendActivation, stage_ - 1, static_cast<int32_t>(batch)}, peer, 0,
              message);
    input = std::move(message.payload);
  }
  const SimTime start = now();
  Payload output = TRY(kernels_.evaluate(batch, std::move(input)));
  draw_compute({ActionKind::kEvaluate, stage_, static_cast<int32_t>(batch)}, 0, start);
  if (last_) return {};
  const int32_t peer = rank_of_stage(plan_, stage_ + 1);
  if (batch >= kEvaluationWindow) {
    TRY(messenger_.receive(peer, tag(kAcknowledgeTensor, batch - kEvaluationWindow)));
  }
  return messenger_.send(peer, tag(kEvaluationTensor, batch), std::move(output));
}

Status Performer::checkpoint(int64_t step) {
  const SimTime start = now();
  const std::vector<NamedTensor> tensors = TRY(kernels_.save());
  const Shard shard = TRY(write_shard(plan_.checkpoint->directory, step, options_.rank, tensors));
  drawing_ = static_cast<int64_t>(trace_.intervals.size()) < options_.intervals_max;
  draw_compute({ActionKind::kCheckpoint, stage_, -1}, 0, start);
  return hooks_.shard ? hooks_.shard(step, shard) : Status{};
}

// Payloads of the first stage's inputs and the last stage's outputs are empty and never came.
Payload Performer::take(std::map<int32_t, Payload>& from, int32_t microbatch) {
  const auto node = from.extract(microbatch);
  return node.empty() ? Payload{} : std::move(node.mapped());
}

void Performer::draw(const Interval& interval) {
  if (drawing_) trace_.intervals.push_back(interval);
}

void Performer::draw_compute(const Action& action, int64_t iteration, SimTime start) {
  draw({.lane = Lane::kCompute,
        .rank = options_.rank,
        .action = action,
        .iteration = iteration,
        .start = start,
        .end = now()});
}

void Performer::draw_link(const Action& sent, int32_t sender, int64_t iteration,
                          const transport::Received& message) {
  const SimTime zero;
  draw({.lane = Lane::kLink,
        .rank = sender,
        .peer = options_.rank,
        .action = sent,
        .iteration = iteration,
        .start = zero + (message.sent_start - options_.origin),
        .end = zero + (message.delivered - options_.origin),
        .bytes = static_cast<int64_t>(message.payload.size())});
}

void Performer::record(const char* name, int64_t iteration, double value) {
  trace_.records.push_back({name, iteration, options_.rank, now(), value});
}

}  // namespace

Result<trace::Trace> perform(const plan::Plan& plan, const schedule::Order& order,
                             const PerformOptions& options, Kernels& kernels, Messenger& messenger,
                             Clock& clock, const Hooks& hooks) {
  return Performer(plan, order, options, kernels, messenger, clock, hooks).run();
}

int32_t rank_of_stage(const plan::Plan& plan, int32_t stage) {
  for (const plan::Placement& placement : plan.ranks) {
    if (placement.stage == stage) return placement.rank;
  }
  CHECK(false, "no rank holds stage {}", stage);
  return -1;
}

std::vector<int32_t> neighbours(const plan::Plan& plan, int32_t rank) {
  const int32_t stage = plan.ranks[rank].stage;
  std::vector<int32_t> out;
  if (stage > 0) out.push_back(rank_of_stage(plan, stage - 1));
  if (stage + 1 < static_cast<int32_t>(plan.stages.size())) {
    out.push_back(rank_of_stage(plan, stage + 1));
  }
  return out;
}

}  // namespace tombolo::runtime
