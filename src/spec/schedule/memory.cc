// What a schedule asks of the devices' memory, and what they have room for.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "base/check.h"
#include "spec/schedule/exchange_memory.h"
#include "spec/schedule/schedule.h"

namespace tombolo::schedule {
namespace {

// Whether the activations of a microbatch may go after it.
bool closes(action::ActionKind kind) {
  return kind == action::ActionKind::kBackward || kind == action::ActionKind::kBackwardWeight;
}

// What a rank holds whatever is in flight: weights, gradients and optimizer of all its stages, what it
// keeps of their exchange, the largest workspace, and the shard of the model that serves prompts from
// the bubbles.
struct Standing {
  Bytes state;
  Bytes exchange;
  Bytes workspace;
  Bytes prefill;
  Bytes total() const { return state + exchange + workspace + prefill; }
};
Standing standing_of(const plan::Plan& plan, const PipelineShape& shape, size_t rank) {
  Standing out;
  out.prefill = plan.prefill_memory();
  for (const int32_t stage : shape.stages_at(plan.ranks[rank].stage)) {
    out.state += plan.stages[stage].state;
    out.exchange += exchange_memory(plan, static_cast<int32_t>(rank), stage).total();
    out.workspace = std::max(out.workspace, plan.stages[stage].workspace);
  }
  return out;
}

}  // namespace

Memory memory_of(const plan::Plan& plan, int32_t replica) {
  const PipelineShape shape = shape_of(plan);
  Memory memory;
  if (plan.cost_source == plan::CostSource::kStageTimes) {
    if (!plan.in_flight) return memory;
    const int64_t most = std::min<int64_t>(*plan.in_flight, shape.microbatches) * shape.chunks;
    memory.in_flight.assign(static_cast<size_t>(shape.positions()), static_cast<int32_t>(most));
    return memory;
  }
  for (int32_t position = 0; position < shape.positions(); ++position) {
    Bytes each;
    for (const int32_t stage : shape.stages_at(position)) {
      each = std::max(each, plan.stages[static_cast<size_t>(stage)].activations);
    }
    const int32_t rank = position * shape.replicas + replica;
    const Bytes room =
        plan.device_of(rank).memory - standing_of(plan, shape, static_cast<size_t>(rank)).total();
    const double most = int64_t{shape.microbatches} * shape.chunks;
    const double held = each.value > 0 ? std::floor(room / each) : most;
    memory.in_flight.push_back(static_cast<int32_t>(std::clamp(held, 0.0, most)));
  }
  return memory;
}

Memory memory_of(const plan::Plan& plan) {
  Memory tightest = memory_of(plan, 0);
  if (!plan.on_unlike_devices()) return tightest;
  for (int32_t replica = 1; replica < plan.replicas(); ++replica) {
    const Memory other = memory_of(plan, replica);
    for (size_t i = 0; i < other.in_flight.size(); ++i) {
      tightest.in_flight[i] = std::min(tightest.in_flight[i], other.in_flight[i]);
    }
  }
  return tightest;
}

std::vector<int64_t> peak_in_flight(const Schedule& schedule) {
  std::vector<int64_t> peaks;
  for (const RankActions& order : schedule.ranks) {
    int64_t now = 0;
    int64_t peak = 0;
    for (const action::Action& action : order) {
      if (action.kind == action::ActionKind::kForward) peak = std::max(peak, ++now);
      if (closes(action.kind)) --now;
    }
    peaks.push_back(peak);
  }
  return peaks;
}

Bytes activations_of_pair(const plan::Plan& plan, const Pair& pair) {
  const plan::Stage& forward = plan.stages[static_cast<size_t>(pair.forward.stage)];
  const plan::Stage& backward = plan.stages[static_cast<size_t>(pair.backward.stage)];
  const auto layers = [](const plan::Stage& stage) {
    return static_cast<double>(std::max<int64_t>(1, stage.slice.layers));
  };
  return std::max(
      forward.activations / layers(forward),
      forward.activations - backward.activations + backward.activations / layers(backward));
}

namespace {

// What a rank keeps, action by action.
class Replay {
 public:
  Replay(const plan::Plan& plan, const std::vector<Pair>& pairs) : plan_(plan), pairs_(pairs) {}

  void act(const action::Action& action) {
    if (closes(action.kind)) --in_flight_[action.stage];
    if (action.kind != action::ActionKind::kForward) return;
    const bool begins_pair = next_ < pairs_.size() && pairs_[next_].forward == action;
    if (begins_pair) peak_ = std::max(peak_, kept() + activations_of_pair(plan_, pairs_[next_]));
    ++in_flight_[action.stage];
    if (begins_pair) {
      ++next_;  // its backward, which is next, closes another microbatch
    } else {
      peak_ = std::max(peak_, kept());
    }
  }
  Bytes peak() const { return peak_; }

 private:
  Bytes kept() const {
    Bytes now;
    for (const auto& [stage, count] : in_flight_) {
      now += plan_.stages[static_cast<size_t>(stage)].activations * static_cast<double>(count);
    }
    return now;
  }

  const plan::Plan& plan_;
  const std::vector<Pair>& pairs_;
  std::map<int32_t, int64_t> in_flight_;  // by stage
  size_t next_ = 0;
  Bytes peak_;
};

}  // namespace

std::vector<Bytes> peak_memory(const plan::Plan& plan, const Schedule& schedule) {
  const PipelineShape shape = shape_of(plan);
  const auto positions = static_cast<size_t>(shape.positions());
  const size_t pipelines = schedule.ranks.size() / positions;
  const bool all = schedule.ranks.size() == plan.ranks.size();
  CHECK(all || (pipelines * positions == schedule.ranks.size() && !plan.exchanges_gradients()),
        "a schedule for {} ranks and a Plan for {}", schedule.ranks.size(), plan.ranks.size());
  std::vector<Bytes> peaks;
  const std::vector<Pair> none;
  for (size_t r = 0; r < schedule.ranks.size(); ++r) {
    // Where pipelines are left out, none keeps anything for an exchange: what stands is the position's.
    const size_t rank = all ? r : r / pipelines * static_cast<size_t>(shape.replicas);
    Replay replay(plan, schedule.pairs.empty() ? none : schedule.pairs[r]);
    for (const action::Action& action : schedule.ranks[r]) replay.act(action);
    peaks.push_back(standing_of(plan, shape, rank).total() + replay.peak());
  }
  return peaks;
}

namespace {

// Against [stage_times].in_flight: in microbatches, for imagined models have no bytes.
Status check_in_flight(const plan::Plan& plan, const Schedule& schedule) {
  const Memory memory = memory_of(plan);
  if (memory.in_flight.empty()) return {};
  const std::vector<int64_t> needs = peak_in_flight(schedule);
  const auto limit = [&](size_t r) {
    return memory.in_flight[static_cast<size_t>(plan.ranks[r].stage)];
  };
  size_t worst = 0;
  for (size_t r = 1; r < needs.size(); ++r) {
    if (needs[r] - limit(r) > needs[worst] - limit(worst)) worst = r;
  }
  if (needs.empty() || needs[worst] <= limit(worst)) return {};
  const auto chunks = static_cast<double>(plan.parallelism.virtual_stages);
  return infeasible(
      fmt::format("stage {} does not fit in memory: {} keeps {:.3g} microbatches in flight there, "
                  "and [stage_times].in_flight is {}",
                  plan.ranks[worst].stage, schedule.name,
                  static_cast<double>(needs[worst]) / chunks, *plan.in_flight),
      "a larger in_flight, or tombolo simulate --policy best, which keeps to it");
}

// A part of what a rank needs, and what makes it smaller.
struct Part {
  Bytes size;
  std::string name;
  std::string remedy;
};

// Whether ZeRO 1 has anything to share out.
bool may_shard(const plan::Plan& plan) {
  if (!plan.replicas_lie_apart()) return plan.replicas() > 1;
  if (plan.exchange && plan.exchange->mode != plan::ExchangeMode::kDense) return false;
  for (int32_t position = 0; position < plan.parallelism.pipeline; ++position) {
    if (plan.replicas_that_shard(position) < 2) return false;
  }
  return true;
}

// For weights, gradients and optimizer that leave too little room by `excess`: only what this Plan may
// still take.
std::string remedy_for_state(const plan::Plan& plan, Bytes excess, Bytes activations) {
  const bool recomputes = plan.training.recompute == model::Recompute::kFull;
  std::string out = recomputes || activations < excess ? "" : "recompute = \"full\", ";
  out += "more stages, tensor parallelism, ";
  if (plan.parallelism.zero == 0 && may_shard(plan)) out += "zero = 1, ";
  return out + "or a smaller model";
}

Part largest_part(const plan::Plan& plan, const Standing& standing, Bytes activations, Bytes excess,
                  int64_t in_flight) {
  const bool recomputes = plan.training.recompute == model::Recompute::kFull;
  const std::string smaller = plan.training.micro_batch > 1 ? "a smaller micro_batch, " : "";
  const std::array parts = {
      Part{activations, fmt::format("activations of {} microbatches in flight", in_flight),
           smaller + (recomputes ? "tensor parallelism, or more stages"
                                 : "recompute = \"full\", or more stages")},
      Part{standing.state, "weights, gradients and optimizer",
           remedy_for_state(plan, excess, activations)},
      Part{standing.prefill, "the shard of the model of [prefill]",
           "a smaller memory in [prefill], with more stages or a smaller model there"}};
  return *std::max_element(parts.begin(), parts.end(),
                           [](const Part& a, const Part& b) { return a.size < b.size; });
}

}  // namespace

Status check_memory(const plan::Plan& plan, const Schedule& schedule) {
  if (plan.cost_source == plan::CostSource::kStageTimes) return check_in_flight(plan, schedule);
  const std::vector<Bytes> needs = peak_memory(plan, schedule);
  // The stage that is furthest from fitting, where a remedy helps most.
  size_t worst = 0;
  const auto share = [&](size_t r) {
    return needs[r] / plan.device_of(static_cast<int32_t>(r)).memory;
  };
  for (size_t r = 1; r < needs.size(); ++r) {
    if (share(r) > share(worst)) worst = r;
  }
  const auto& device = plan.device_of(static_cast<int32_t>(worst));
  if (needs.empty() || needs[worst] <= device.memory) return {};

  const Standing standing = standing_of(plan, shape_of(plan), worst);
  const int64_t in_flight = peak_in_flight(schedule)[worst];
  const Bytes activations = needs[worst] - standing.total();
  const Part largest =
      largest_part(plan, standing, activations, needs[worst] - device.memory, in_flight);
  std::string text = fmt::format("{}, {}", largest.name, brief(largest.size));
  if (standing.exchange > Bytes{})
    text += fmt::format("; kept for [exchange], {}", brief(standing.exchange));
  return infeasible(
      fmt::format("stage {} does not fit in memory: it needs {}, {} has {}; largest: {}",
                  plan.ranks[worst].stage, brief(needs[worst]), device.name, brief(device.memory),
                  text),
      largest.remedy);
}

}  // namespace tombolo::schedule
