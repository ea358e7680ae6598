#include "perform/kernels/emulated_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/hash.h"
#include "spec/plan/resources.h"
#include "spec/schedule/schedule.h"

namespace tombolo::kernels {
namespace {

constexpr int64_t kImaginedBytes = 64 * 1024;
constexpr int64_t kPayloadMin = 1024;              // rounding to whole bytes stays below 0.05 %
constexpr int64_t kMessageMax = int64_t{1} << 30;  // what a device that only imagines makes up
constexpr int32_t kGradientPlace = 1 << 30;        // where no boundary is
constexpr SimDuration kLatenessMax{10'000'000};
constexpr double kRingMargin = 1.001;  // what a ring may last longer than the Plan says

// SplitMix64's finaliser (Steele, Lea and Flood, 2014): neighbours come out far apart.
uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

uint64_t first_word(int64_t iteration, int64_t microbatch, int32_t boundary, bool gradient) {
  const uint64_t place = mix(static_cast<uint64_t>(boundary) * 2 + (gradient ? 1 : 0));
  return mix(mix(place ^ static_cast<uint64_t>(microbatch)) ^ static_cast<uint64_t>(iteration));
}

// Of the chunk that a replica sends in one step of the ring.
uint64_t ring_word(int64_t iteration, int32_t stage, const RingStep& step, size_t sender) {
  const auto place = static_cast<int32_t>(kGradientPlace + sender);
  const int64_t within = (step.step << 32) + static_cast<int64_t>(step.chunk);
  return mix(first_word(iteration, within, place, true) ^ static_cast<uint64_t>(stage));
}

// Of a tied embedding, from the first stage of a pipeline or from its last.
uint64_t tied_word(int64_t iteration, bool from_first) {
  return first_word(iteration, 0, kGradientPlace - (from_first ? 1 : 2), true);
}

// From the predecessor in the ring of this rank's replicas.
link::LinkShape hop_before(const plan::Plan& plan, int32_t rank) {
  if (plan.replicas() == 1) return {};
  const layout::Placement& own = plan.ranks[rank];
  const int32_t before = (own.replica + plan.replicas() - 1) % plan.replicas();
  return shape_between(plan, plan.rank_of(own.stage, before), rank);
}

// As docs/laws/ring_all_reduce.md has it; the slowest hop decides.
Seconds ring_time(const plan::Plan& plan, int32_t stage) {
  const std::vector<int32_t> ring = plan.replicas_of(stage);
  const auto n = static_cast<double>(ring.size());
  const double shards = real(plan.ranks[static_cast<size_t>(ring.front())].shards);
  const Bytes chunk = plan.stages[static_cast<size_t>(stage)].gradients * (shards / n);
  Seconds hop;
  for (size_t i = 0; i < ring.size(); ++i) {
    const plan::Channel channel = channel_between(plan, ring[i], ring[(i + 1) % ring.size()]);
    hop = std::max(hop, channel.latency + channel.serialisation(chunk));
  }
  return 2 * (n - 1) * hop;
}

// What the Plan says, and no less than its bytes need to pass the ports of the rank's devices.
SimDuration sum_alone(const plan::Plan& plan, int32_t rank, int32_t stage) {
  const plan::StageCost& cost = plan.cost_on(rank, stage);
  const SimDuration said = round_to_ns(cost.reduce) + round_to_ns(cost.reduce_hidden);
  if (said.ns == 0) return said;
  plan::Resources resources(plan);
  const Bytes bytes = plan.stages[static_cast<size_t>(stage)].gradients;
  SimDuration takes = said;
  for (const plan::Use& use : resources.sum_of_gradients(rank))
    takes =
        std::max(takes, round_to_ns(bytes * use.share / resources.all()[use.resource].capacity));
  return takes;
}

Payload pattern_of(int64_t bytes, uint64_t word) {
  Payload out(static_cast<size_t>(bytes));
  for (size_t at = 0; at < out.size(); at += 8, ++word) {
    std::memcpy(out.data() + at, &word, std::min<size_t>(8, out.size() - at));
  }
  return out;
}

// The eight bytes at a multiple of eight, or what is left of them.
bool word_fits(const Payload& payload, size_t at, uint64_t first) {
  const uint64_t word = first + at / 8;
  return std::memcmp(payload.data() + at, &word, std::min<size_t>(8, payload.size() - at)) == 0;
}

std::string tensor_name(int64_t layer) { return fmt::format("layers.{}.emulated.updates", layer); }

}  // namespace

int64_t payload_bytes(const plan::Plan& plan) {
  const auto bytes = static_cast<int64_t>(std::llround(plan.boundary.value));
  const auto whole = static_cast<double>(bytes > 0 ? bytes : kImaginedBytes);
  return std::max<int64_t>(std::llround(whole / plan.run.byte_scale), 1);
}

int64_t gradient_bytes(const plan::Plan& plan, int32_t stage) {
  CHECK(stage >= 0 && static_cast<size_t>(stage) < plan.stages.size(), "stage {} of {}", stage,
        plan.stages.size());
  return std::llround(plan.stages[stage].gradients.value / plan.run.byte_scale);
}

bool sums_in_a_ring(const plan::Plan& plan, int32_t stage) {
  const layout::Parallelism& p = plan.parallelism;
  const int64_t n = plan.replicas();
  const auto& own = plan.stages[static_cast<size_t>(stage)];
  if (n == 1 || plan.cost_source == plan::CostSource::kStageTimes) return false;
  if (p.context > 1 || p.expert > 1 || p.zero > 0) return false;
  if (own.cost.reduce_hidden > 0_s || own.gradients.value <= 0) return false;
  return ring_time(plan, stage) <= own.cost.reduce * kRingMargin;
}

int64_t tied_gradient_bytes(const plan::Plan& plan) {
  const double bytes = plan::tied_bytes(plan, plan.model).value;
  return bytes > 0 ? std::max<int64_t>(std::llround(bytes / plan.run.byte_scale), 1) : 0;
}

namespace {

// Of all shards of a rank.
int64_t ring_bytes(const plan::Plan& plan, int32_t stage) {
  return gradient_bytes(plan, stage) *
         plan.ranks[static_cast<size_t>(plan.rank_of(stage, 0))].shards;
}

// The largest message in which gradients are summed.
int64_t largest_of_gradients(const plan::Plan& plan) {
  int64_t largest = plan.other_end(0) ? tied_gradient_bytes(plan) : 0;
  for (int32_t s = 0; s < static_cast<int32_t>(plan.stages.size()); ++s) {
    if (plan.exchanges_gradients(s)) {
      const double shards = real(plan.ranks[static_cast<size_t>(plan.rank_of(s, 0))].shards);
      for (const plan::GradientGroup& each : plan::gradient_groups(plan, s))
        largest = std::max<int64_t>(largest,
                                    std::llround(shards * each.bytes.value / plan.run.byte_scale));
    } else if (sums_in_a_ring(plan, s)) {
      largest = std::max(largest, share_of(ring_bytes(plan, s), 0, plan.replicas()).count);
    }
  }
  return largest;
}

}  // namespace

Status check_byte_scale(const plan::Plan& plan) {
  const double scale = plan.run.byte_scale;
  bool emulated = false;
  for (const layout::Placement& placement : plan.ranks) {
    const cluster::Device& device = plan.device_of(placement.rank);
    emulated = emulated || device.kind == cluster::DeviceKind::kEmulated;
    if (scale == 1 || device.kind == cluster::DeviceKind::kEmulated) continue;
    return unusable(fmt::format("run.byte_scale = {:g}: rank {} computes on \"{}\", and computing "
                                "needs every byte",
                                scale, placement.rank, device.name),
                    fmt::format("byte_scale = 1, or device = \"emulated:{}\"", device.name));
  }
  if (scale > 1 && payload_bytes(plan) < kPayloadMin) {
    return unusable(
        fmt::format("run.byte_scale = {:g} leaves {} bytes of what a microbatch sends: too few "
                    "to last as long as they should",
                    scale, payload_bytes(plan)),
        fmt::format("byte_scale of at most {:g}",
                    std::max(1.0, std::floor(static_cast<double>(payload_bytes(plan)) * scale /
                                             static_cast<double>(kPayloadMin)))));
  }
  if (!emulated) return {};
  const int64_t largest = std::max(payload_bytes(plan), largest_of_gradients(plan));
  if (largest <= kMessageMax) return {};
  const auto times = static_cast<double>(largest) / static_cast<double>(kMessageMax);
  return unusable(fmt::format("a message of {} bytes is larger than the {} that are sent at once",
                              largest, kMessageMax),
                  fmt::format("run.byte_scale = {:g}", std::ceil(scale * times)));
}

Payload pattern(int64_t bytes, int64_t iteration, int64_t microbatch, int32_t boundary,
                bool gradient) {
  return pattern_of(bytes, first_word(iteration, microbatch, boundary, gradient));
}

EmulatedKernels::EmulatedKernels(const plan::Plan& plan, int32_t rank, Clock& clock,
                                 Options options)
    : clock_(clock),
      options_(options),
      pairs_(plan.pairs),
      payload_(payload_bytes(plan)),
      tied_(tied_gradient_bytes(plan)),
      hop_(hop_before(plan, rank)) {
  for (const int32_t stage : schedule::shape_of(plan).stages_at(plan.ranks[rank].stage)) {
    const bool ring = !plan.exchanges_gradients(stage) && sums_in_a_ring(plan, stage);
    stages_[stage] = {plan.stages[stage], ring_bytes(plan, stage), ring};
    if (ring)
      stages_[stage].beyond_ring =
          round_to_ns(plan.stages[stage].cost.reduce) - round_to_ns(ring_time(plan, stage));
    stages_[stage].stage.cost = plan.cost_on(rank, stage);
    stages_[stage].sum = sum_alone(plan, rank, stage);
  }
  if (!plan.exchanges_gradients(plan.ranks[rank].stage)) return;
  groups_.emplace(plan, rank, clock, options.check_every_byte,
                  [this](int32_t stage) { ++held(stage).updates; });
}

EmulatedKernels::Held& EmulatedKernels::held(int32_t stage) {
  const auto found = stages_.find(stage);
  CHECK(found != stages_.end(), "stage {} is not of this rank", stage);
  return found->second;
}

// What was due when the wait began is the start less the lateness carried over.
void EmulatedKernels::wait(SimTime start, SimDuration duration) {
  const SimTime due = start + duration - lateness_;
  clock_.sleep_until(due);
  const SimTime end = clock_.now();
  lateness_ = std::clamp(end - due, SimDuration{0}, kLatenessMax);
  iteration_lateness_.sum += std::max(end - due, SimDuration{0});
  iteration_lateness_.kept += end - start - duration;
  ++iteration_lateness_.waits;
}

void EmulatedKernels::wait_until(SimTime due) {
  const SimTime start = clock_.now();
  if (start < due) wait(start + lateness_, due - start);
}

void EmulatedKernels::make_gradients(int32_t stage, SimTime start, SimDuration duration) {
  if (groups_) return groups_->backward(stage, start, duration, waiting());
  wait(start, duration);
}

Status EmulatedKernels::check(const Payload& payload, int32_t stage, int64_t microbatch,
                              bool gradient) const {
  const auto wrong = [&](const std::string& what) {
    return failed(
        fmt::format("stage {} received another {} than was sent: iteration {}, "
                    "microbatch {}: {}",
                    stage, gradient ? "gradient" : "activation", iteration_, microbatch, what));
  };
  if (static_cast<int64_t>(payload.size()) != payload_) {
    return wrong(fmt::format("{} bytes instead of {}", payload.size(), payload_));
  }
  const int32_t boundary = gradient ? stage : stage - 1;
  const Status same =
      check_pattern(payload, first_word(iteration_, microbatch, boundary, gradient));
  return same ? same : wrong(same.error().message);
}

Status EmulatedKernels::check_pattern(const Payload& payload, uint64_t first) const {
  if (payload.empty()) return {};
  const size_t last = (payload.size() - 1) / 8 * 8;
  const size_t step = options_.check_every_byte ? 8 : std::max<size_t>(last, 8);
  for (size_t at = 0; at < payload.size(); at += step) {
    if (!word_fits(payload, at, first)) return failed(fmt::format("differs at byte {}", at));
  }
  return {};
}

Status EmulatedKernels::begin_iteration(int64_t iteration) {
  iteration_ = iteration;
  iteration_lateness_ = {};
  begun_.reset();
  sums_at_.reset();
  if (groups_) groups_->begin_iteration(iteration);
  return {};
}

// Checking and filling happen within the time that the emulated kernel takes.
Result<Payload> EmulatedKernels::forward(int32_t stage, int64_t microbatch, Payload input) {
  const SimTime start = clock_.now();
  const plan::Stage& own = held(stage).stage;
  if (!own.slice.embedding) TRY(check(input, stage, microbatch, false));
  input = {};
  Payload output;
  if (!own.slice.head) output = pattern(payload_, iteration_, microbatch, stage, false);
  const SimDuration duration = round_to_ns(own.cost.forward);
  if (groups_) {
    TRY(groups_->forward(stage, start, duration, waiting()));
  } else {
    wait(start, duration);
  }
  return output;
}

Status EmulatedKernels::recompute(int32_t stage, int64_t) {
  wait(clock_.now(), round_to_ns(held(stage).stage.cost.recompute));
  return {};
}

Result<Payload> EmulatedKernels::go_back(int32_t stage, int64_t microbatch, Payload output_gradient,
                                         const Spend& spend) {
  const SimTime start = clock_.now();
  const plan::Stage& own = held(stage).stage;
  if (!own.slice.head) TRY(check(output_gradient, stage, microbatch, true));
  output_gradient = {};
  Payload gradient;
  if (!own.slice.embedding) {
    gradient = pattern(payload_, iteration_, microbatch, stage - 1, true);
  }
  spend(start);
  return gradient;
}

Result<Payload> EmulatedKernels::backward(int32_t stage, int64_t microbatch,
                                          Payload output_gradient) {
  const SimDuration duration = round_to_ns(held(stage).stage.cost.backward);
  return go_back(stage, microbatch, std::move(output_gradient),
                 [&](SimTime start) { make_gradients(stage, start, duration); });
}

Result<Payload> EmulatedKernels::backward_input(int32_t stage, int64_t microbatch,
                                                Payload output_gradient) {
  const SimDuration duration = schedule::durations_of(held(stage).stage.cost).backward_input;
  return go_back(stage, microbatch, std::move(output_gradient),
                 [&](SimTime start) { wait(start, duration); });
}

Status EmulatedKernels::backward_weight(int32_t stage, int64_t) {
  make_gradients(stage, clock_.now(),
                 schedule::durations_of(held(stage).stage.cost).backward_weight);
  return {};
}

// Neither side is the first forward of its stage nor its last backward, so no groups of parameters or
// gradients are waited for.
Status EmulatedKernels::co_execute(PairOfPasses passes, const PairResults& results) {
  const SimTime start = clock_.now();
  const int32_t f = passes.forward_stage, b = passes.backward_stage;
  const auto cost = std::find_if(pairs_.begin(), pairs_.end(), [&](const plan::PairCost& pair) {
    return pair.forward == f && pair.backward == b;
  });
  CHECK(cost != pairs_.end(), "the Plan has no pair of stages {} and {}", f, b);
  const plan::Stage &forward = held(f).stage, &backward = held(b).stage;
  if (!forward.slice.embedding) TRY(check(passes.input, f, passes.forward_microbatch, false));
  if (!backward.slice.head) {
    TRY(check(passes.output_gradient, b, passes.backward_microbatch, true));
  }
  Payload output, gradient;
  if (!forward.slice.head) {
    output = pattern(payload_, iteration_, passes.forward_microbatch, f, false);
  }
  if (!backward.slice.embedding) {
    gradient = pattern(payload_, iteration_, passes.backward_microbatch, b - 1, true);
  }
  const SimDuration forward_end = round_to_ns(cost->forward_end);
  const SimDuration backward_end = round_to_ns(cost->backward_end);
  const bool forward_first = forward_end <= backward_end;
  const SimDuration first_end = std::min(forward_end, backward_end);
  const auto hand_over = [&](bool of_forward) {
    return of_forward ? results.forward(std::move(output)) : results.backward(std::move(gradient));
  };
  wait(start, first_end);
  const SimTime between = clock_.now();
  TRY(hand_over(forward_first));
  wait(between, std::max(forward_end, backward_end) - first_end);
  return hand_over(!forward_first);
}

Status EmulatedKernels::join_replicas(const Replicas& replicas) {
  CHECK(std::is_sorted(replicas.ranks.begin(), replicas.ranks.end()),
        "the {} replicas are not in the order of their ranks", replicas.ranks.size());
  replicas_ = replicas;
  return {};
}

Status EmulatedKernels::reduce_gradients(int32_t stage) {
  const Held& own = held(stage);
  summed_.reset();
  if (own.in_a_ring) {
    TRY(reduce_in_a_ring(stage));
    if (own.beyond_ring.ns > 0) wait(clock_.now(), own.beyond_ring);
    return {};
  }
  // One after the other, of the same stages at all replicas: they meet once.
  const SimTime before = clock_.now() - lateness_;
  if (!begun_) TRY(say_begin(before));
  const SimTime start = sums_at_ ? *sums_at_ : *begun_;
  if (!sums_at_) TRY(await_begins());
  sums_at_ = *sums_at_ + own.sum;
  summed_ = Summed{start, *sums_at_};
  wait_until(*sums_at_);
  if (sums_at_ > before) summed_->end = clock_.now();
  return {};
}

// Of two numbers: when, and how long ago that was when it was said.
Status EmulatedKernels::say_begin(SimTime begin) {
  begun_ = begin;
  const int64_t said[] = {begin.ns, (clock_.now() - begin).ns};
  const auto bytes = std::as_bytes(std::span(said));
  const link::Tag tag{static_cast<uint64_t>(iteration_), replica_tensor(stages_.begin()->first)};
  for (size_t i = 0; i < replicas_.ranks.size(); ++i) {
    if (i == replicas_.own) continue;
    TRY(replicas_.messenger->send(replicas_.ranks[i], tag, Payload(bytes.begin(), bytes.end())));
  }
  return {};
}

// The sum begins when the last of the replicas does.
Status EmulatedKernels::await_begins() {
  SimTime last = *begun_;
  const link::Tag tag{static_cast<uint64_t>(iteration_), replica_tensor(stages_.begin()->first)};
  for (size_t i = 0; i < replicas_.ranks.size(); ++i) {
    if (i == replicas_.own) continue;
    const link::Received message = TRY(replicas_.messenger->receive(replicas_.ranks[i], tag));
    int64_t said[2] = {};
    if (message.payload.size() != sizeof said) {
      return failed(
          fmt::format("rank {} sent {} bytes where it says when its gradient all-reduce began",
                      replicas_.ranks[i], message.payload.size()),
          "start every rank with the same Plan");
    }
    std::memcpy(said, message.payload.data(), sizeof said);
    last = std::max(
        last, replicas_.one_clock ? SimTime{said[0]} : message.delivered - SimDuration{said[1]});
  }
  sums_at_ = last;
  return {};
}

Status EmulatedKernels::sums_begin(SimDuration after) {
  return say_begin(clock_.now() - lateness_ + after);
}

// Chunks that say who sends which in which step; nothing is summed. Each step waits for the one
// before, so whatever is late here stays late: filling the first chunk, and messages that come, or
// wake this rank, after their time.
Status EmulatedKernels::reduce_in_a_ring(int32_t stage) {
  Payload next;
  SimTime asked = clock_.now();
  const auto fill = [&](const RingStep& step) {
    next = pattern_of(chunk_bytes(stage, step), ring_word(iteration_, stage, step, replicas_.own));
  };
  const auto late = [&](SimTime due) {
    iteration_lateness_.kept += std::max(clock_.now() - std::max(asked, due), SimDuration{0});
    asked = clock_.now();
  };
  return ring_exchange(replicas_, static_cast<uint64_t>(iteration_),
                       {.give =
                            [&](const RingStep& step) {
                              if (step.step == 0) fill(step);
                              late(asked);
                              return std::move(next);
                            },
                        .take =
                            [&](const RingStep& step, const link::Received& message) {
                              late(arrival_due(message, hop_));
                              return check_chunk(stage, step, message.payload);
                            },
                        .prepare = fill},
                       replica_tensor(stage));
}

int64_t EmulatedKernels::chunk_bytes(int32_t stage, const RingStep& step) const {
  return share_of(stages_.at(stage).gradients, static_cast<int64_t>(step.chunk),
                  static_cast<int64_t>(replicas_.ranks.size()))
      .count;
}

Status EmulatedKernels::check_chunk(int32_t stage, const RingStep& step,
                                    const Payload& payload) const {
  const size_t n = replicas_.ranks.size();
  const size_t predecessor = (replicas_.own + n - 1) % n;
  const auto wrong = [&](const std::string& what) {
    return failed(
        fmt::format("stage {} received another chunk of gradients from rank {} than was sent: "
                    "iteration {}, step {}: {}",
                    stage, replicas_.ranks[predecessor], iteration_, step.step, what));
  };
  if (static_cast<int64_t>(payload.size()) != chunk_bytes(stage, step)) {
    return wrong(fmt::format("{} bytes instead of {}", payload.size(), chunk_bytes(stage, step)));
  }
  const Status same = check_pattern(payload, ring_word(iteration_, stage, step, predecessor));
  return same ? same : wrong(same.error().message);
}

// Each end knows the other's by where it comes from.
Result<Payload> EmulatedKernels::tied_gradient() {
  return pattern_of(tied_, tied_word(iteration_, stages_.begin()->first == 0));
}

Status EmulatedKernels::add_tied_gradient(const Payload& theirs) {
  const bool from_first = stages_.begin()->first != 0;
  const Status same = check_pattern(theirs, tied_word(iteration_, from_first));
  if (same && static_cast<int64_t>(theirs.size()) == tied_) return {};
  return failed(fmt::format(
      "the {} end of a pipeline received another gradient of the tied "
      "embedding than was sent: iteration {}: {}",
      from_first ? "last" : "first", iteration_,
      same ? fmt::format("{} bytes instead of {}", theirs.size(), tied_) : same.error().message));
}

Status EmulatedKernels::update(int32_t stage) {
  Held& own = held(stage);
  wait(clock_.now(), round_to_ns(own.stage.cost.update));
  ++own.updates;
  return {};
}

Result<Payload> EmulatedKernels::evaluate(int32_t, int64_t, Payload) { return Payload{}; }

Result<std::string> EmulatedKernels::weights_digest() const {
  std::string updates;
  for (const auto& [stage, own] : stages_) updates += fmt::format("{} updates ", own.updates);
  if (!groups_ || !groups_->has_parameters()) return digest(updates);
  RunningDigest all;
  all.add(updates);
  groups_->add_to(all);
  return all.text();
}

Result<std::vector<TensorView>> EmulatedKernels::state() const {
  std::vector<TensorView> out;
  if (groups_) groups_->add_views(out);
  if (groups_ && groups_->has_parameters() && !groups_->is_first()) return out;
  for (const auto& [stage, own] : stages_) {
    const model::Slice& slice = own.stage.slice;
    for (int64_t i = 0; i < slice.layers; ++i) {
      out.push_back({tensor_name(slice.first_layer + i),
                     "I64",
                     {1},
                     std::as_bytes(std::span(&own.updates, 1))});
    }
  }
  return out;
}

Status EmulatedKernels::load(const TensorSource& tensors) {
  if (groups_) TRY(groups_->load(tensors));
  for (auto& [stage, own] : stages_) {
    const model::Slice& slice = own.stage.slice;
    for (int64_t i = 0; i < slice.layers; ++i) {
      const NamedTensor tensor = TRY(tensors(tensor_name(slice.first_layer + i)));
      if (tensor.dtype != "I64" || tensor.bytes.size() != 8) {
        return unusable(
            fmt::format("the checkpoint's tensor \"{}\" is no single I64", tensor.name));
      }
      std::memcpy(&own.updates, tensor.bytes.data(), 8);
    }
  }
  return {};
}

}  // namespace tombolo::kernels
