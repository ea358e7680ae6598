#include "perform/train/measure_overlap.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "perform/train/guarded.h"
#include "perform/train/layer_operators.h"
#include "perform/train/sharded_stage.h"
#include "perform/train/timed_strands.h"

namespace tombolo::train {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr int64_t kWarmUps = 2;
constexpr size_t kStrands = 2;

// Operators by number: those of the forward pass, then those of the backward pass. The second one, if any, is
// of the other pass and runs concurrently.
struct Visit {
  size_t op = 0;
  std::optional<size_t> beside = {};
};
using Visits = std::vector<Visit>;

// By number, forward first; each comes after both of the one before.
using Pairs = std::vector<std::pair<size_t, size_t>>;

// A layer of this rank, cut, and two microbatches that take turns: one goes forward while the other, which went
// forward before, goes backward.
class OverlapLayer {
 public:
  static Result<std::unique_ptr<OverlapLayer>> create(const plan::Plan& plan, int64_t layer) {
    auto module = TRY(StageModule::create(plan.model, {layer, 1, false, false}, /*seed*/ 1));
    if (plan.training.precision == plan::Precision::kBf16) module.compute_in_bf16();
    auto made = std::unique_ptr<OverlapLayer>(new OverlapLayer(plan, std::move(module)));
    TRY(made->cut(plan.training.micro_batch));
    return made;
  }

  const LayerStep& step(size_t op) const {
    return op < forward_.size() ? forward_[op] : backward_[op - forward_.size()];
  }
  size_t operators() const { return forward_.size() + backward_.size(); }

  // An operator of each class of computation with one that communicates; and two of those.
  Pairs classes() const {
    return {{number("FA"), number(back_ + "2")},
            {number(leave_ + "1"), number("bFA")},
            {number("FC1"), number(back_ + "1")},
            {number(leave_ + "2"), number("bLN1")}};
  }
  Pairs links() const { return {{number(leave_ + "1"), number(back_ + "2")}}; }

  // All operators, where those of each pair come one right after the other, or at the same time.
  Visits visits(const Pairs& pairs, bool beside) const {
    Visits out;
    size_t forward = 0, backward = forward_.size();
    const auto go_to = [&](size_t& at, size_t end) {
      for (; at < end; ++at) out.push_back({at});
    };
    for (const auto& [first, second] : pairs) {
      go_to(forward, first);
      go_to(backward, second);
      if (beside) {
        // On the shard's own thread the one that computes, as an executor has it.
        const bool swapped = step(first).communicates && !step(second).communicates;
        out.push_back(swapped ? Visit{second, first} : Visit{first, second});
      } else {
        out.insert(out.end(), {{first}, {second}});
      }
      forward = first + 1;
      backward = second + 1;
    }
    go_to(forward, forward_.size());
    go_to(backward, operators());
    return out;
  }

  std::vector<StepTime> run(const Visits& visits) {
    begin();
    std::vector<TimedStep> steps;
    for (const Visit& visit : visits) {
      steps.push_back({.first = work(visit.op)});
      if (visit.beside) steps.back().second = work(*visit.beside);
    }
    const std::vector<StepTime> times = timed_.run(steps);
    turn_ = 1 - turn_;
    return times;
  }

 private:
  OverlapLayer(const plan::Plan& plan, StageModule module)
      : whole_(std::move(module)),
        degrees_{plan.parallelism.tensor_at(0), plan.parallelism.context,
                 plan.parallelism.sequence_parallel},
        shards_(static_cast<int32_t>(degrees_.shards())),
        x_(at::arange(plan.training.micro_batch * plan.model.sequence * plan.model.hidden,
                      at::kFloat)
               .sin()
               .view({-1, plan.model.hidden})
               .to(whole_.activation_type())),
        timed_(shards_, [this] {
          for (const auto& team : teams_) team->abandon();
        }) {}

  Status cut(int64_t samples) {
    std::vector<ShardedStage::Strand> strands(kStrands);
    for (ShardedStage::Strand& strand : strands) {
      teams_.push_back(std::make_unique<ShardTeam>(shards_));
      with_.push_back(std::make_unique<ShardCollectives>(*teams_.back(), degrees_));
      strand.with = with_.back().get();
    }
    sharded_ = TRY(ShardedStage::create(whole_, strands, samples));
    const LayerPassOptions options{.in_place = true};
    TRY(LayerPass::check(sharded_->module(0), 0, options));
    if (LayerPass(sharded_->module(0), 0, options).form().experts)
      return unusable("a layer of experts is not measured operator by operator yet",
                      "a model without experts");
    sharded_->begin_gradients();
    for (int32_t shard = 0; shard < shards_; ++shard) {
      for (size_t strand = 0; strand < kStrands; ++strand)
        passes_[strand].push_back(std::make_unique<LayerPass>(
            sharded_->module(shard, static_cast<int32_t>(strand)), 0, options));
      parts_.push_back(sharded_->hidden_of(shard, x_));
    }
    const Meeting meeting = passes_[0][0]->meeting();
    CHECK(meeting != Meeting::kNone, "no tensor group meets within this layer");
    leave_ = meeting == Meeting::kRows ? "RS" : "AR";
    back_ = "b" + leave_;
    forward_ = forward_steps(passes_[0][0]->form());
    backward_ = backward_steps(passes_[0][0]->form());
    // Microbatch 1 goes forward, which is not measured.
    turn_ = 1;
    begin();
    std::vector<TimedStep> steps;
    for (size_t op = 0; op < forward_.size(); ++op) steps.push_back({.first = work(op)});
    timed_.run(steps);
    turn_ = 0;
    return {};
  }

  // Also where the backward one has no graph yet, for the first forward pass.
  void begin() {
    for (size_t shard = 0; shard < parts_.size(); ++shard) {
      passes_[turn_][shard]->begin(parts_[shard]);
      passes_[1 - turn_][shard]->begin_backward(parts_[shard]);
    }
  }

  std::function<void(int32_t)> work(size_t op) {
    auto& passes = passes_[op < forward_.size() ? turn_ : 1 - turn_];
    return [&passes, which = step(op).op](int32_t shard) {
      passes[static_cast<size_t>(shard)]->perform(which);
    };
  }

  size_t number(const std::string& name) const {
    for (size_t op = 0; op < operators(); ++op)
      if (step(op).name == name) return op;
    CHECK(false, "no operator {}", name);
  }

  StageModule whole_;
  const ShardDegrees degrees_;
  const int32_t shards_;
  const at::Tensor x_;
  std::vector<std::unique_ptr<ShardTeam>> teams_;  // by strand
  std::vector<std::unique_ptr<ShardCollectives>> with_;
  std::unique_ptr<ShardedStage> sharded_;
  std::array<std::vector<std::unique_ptr<LayerPass>>, kStrands> passes_;  // by microbatch and shard
  std::vector<at::Tensor> parts_;                                         // of x, by shard
  std::string leave_, back_;
  std::vector<LayerStep> forward_, backward_;
  size_t turn_ = 0;  // who goes forward
  TimedStrands timed_;
};

// Layers with experts have other operators; where they are every second one, one of the first two has none.
Result<std::unique_ptr<OverlapLayer>> first_layer(const plan::Plan& plan) {
  auto made = OverlapLayer::create(plan, 0);
  if (!made && plan.model.layers > 1 && plan.model.has_dense_layers()) {
    if (auto second = OverlapLayer::create(plan, 1)) return second;
  }
  return made;
}

// A clock may be too coarse for what takes nothing.
int64_t at_least_one(std::chrono::nanoseconds time) { return std::max<int64_t>(1, time.count()); }

class Repeats {
 public:
  explicit Repeats(OverlapLayer& layer)
      : layer_(layer),
        apart_(layer.visits(layer.classes(), false)),
        beside_{layer.visits(layer.classes(), true), layer.visits(layer.links(), true)} {
    for (size_t op = 0; op < layer.operators(); ++op)
      out_.operators.push_back({.name = layer.step(op).name});
    for (const Visits& visits : beside_) {
      for (const Visit& visit : visits) {
        if (!visit.beside) continue;
        out_.pairs.push_back(
            {.first = layer.step(visit.op).name, .second = layer.step(*visit.beside).name});
      }
    }
  }

  // All ways once, another one first each time, so that what comes and goes disturbs all of them.
  void add(int64_t number, bool counts) {
    constexpr int64_t kWays = 4;
    for (int64_t turn = 0; turn < kWays; ++turn) {
      switch ((number + turn) % kWays) {
        case 0:
          add_apart(&plan::OperatorSamples::alone_ns, counts);
          break;
        case 1:
          add_beside(beside_[0], 0, counts);
          break;
        case 2:
          add_apart(&plan::OperatorSamples::again_ns, counts);
          break;
        default:
          add_beside(beside_[1], layer_.classes().size(), counts);
      }
    }
  }
  plan::OverlapSamples take() { return std::move(out_); }

 private:
  void add_apart(std::vector<int64_t> plan::OperatorSamples::*list, bool counts) {
    const std::vector<StepTime> times = layer_.run(apart_);
    for (size_t i = 0; i < times.size() && counts; ++i)
      (out_.operators[apart_[i].op].*list).push_back(at_least_one(times[i].first));
  }
  void add_beside(const Visits& visits, size_t pair, bool counts) {
    const std::vector<StepTime> times = layer_.run(visits);
    for (size_t i = 0; i < times.size() && counts; ++i) {
      if (!visits[i].beside) continue;
      out_.pairs[pair].first_ns.push_back(at_least_one(times[i].first));
      out_.pairs[pair++].second_ns.push_back(at_least_one(times[i].second));
    }
  }

  OverlapLayer& layer_;
  const Visits apart_;
  const std::array<Visits, 2> beside_;
  plan::OverlapSamples out_;
};

}  // namespace

Result<plan::OverlapSamples> measure_overlap(const plan::Plan& plan, Seconds budget,
                                             int64_t repeats_min) {
  CHECK(plan.parallelism.tensor_at(0) > 1, "tensor = 1: nothing meets within a layer");
  return guarded("measuring operators", [&]() -> Result<plan::OverlapSamples> {
    const std::unique_ptr<OverlapLayer> layer = TRY(first_layer(plan));
    Repeats repeats(*layer);
    for (int64_t number = 0; number < kWarmUps; ++number) repeats.add(number, false);
    const SteadyClock::time_point begin = SteadyClock::now();
    for (int64_t number = 0; number < std::max(repeats_min, kOverlapRepeatsMax); ++number) {
      const std::chrono::duration<double> spent = SteadyClock::now() - begin;
      if (number >= repeats_min && spent.count() >= budget.value) break;
      repeats.add(number, true);
    }
    return repeats.take();
  });
}

}  // namespace tombolo::train
