// A layer operator by operator, in any order and on two strands: the bits of the stage in one graph.
#include <gmock/gmock.h>

#include <cmath>

#include "perform/train/sharded_stage.h"
#include "perform/train/strand_layers.h"

// Of its own: other files of these tests have models and outcomes too.
namespace tombolo::train::operators {
namespace {

using model::Model;

constexpr int64_t kSamples = 2, kLayers = 3;

Model llama() {
  return {.name = "tiny",
          .layers = kLayers,
          .hidden = 16,
          .heads = 4,
          .kv_heads = 2,
          .ffn = 24,
          .vocabulary = 13,
          .sequence = 16};
}

Model gpt2() {
  Model m = llama();
  m.kv_heads = 4;
  m.norm = model::Norm::kLayer;
  m.activation = model::Activation::kGelu;
  m.positions = model::Positions::kLearned;
  m.bias = true;
  return m;
}

Model qwen3() {
  Model m = llama();
  m.qk_norm = true;
  m.qkv_bias = true;
  m.head_dim = 6;
  return m;
}

Model gemma2() {
  Model m = llama();
  m.activation = model::Activation::kGeglu;
  m.unit_offset_norms = m.output_norms = true;
  m.attention_softcap = 1.5;
  m.attention_window = 5;
  m.global_interval = 2;
  return m;
}

Model olmo2() {
  Model m = llama();
  m.input_norms = false;
  m.output_norms = m.whole_qk_norm = true;
  return m;
}

Model mixtral() {
  Model m = llama();
  m.experts = model::Experts{.count = 4, .per_token = 2, .ffn = 12};
  return m;
}

// Qwen2-MoE's shared expert and its gate, and a first layer without experts.
Model qwen2_moe() {
  Model m = mixtral();
  m.experts->shared_ffn = 20;
  m.experts->shared_gate = true;
  m.experts->dense_layers = 1;
  return m;
}

// Without gates of any kind, with norms after experts.
Model ungated() {
  Model m = mixtral();
  m.experts->shared_ffn = 20;
  m.activation = model::Activation::kGelu;
  m.output_norms = true;
  return m;
}

struct Case {
  Model model;
  std::optional<ShardDegrees> degrees = {};
  at::ScalarType type = at::kFloat;
  bool gather_again = false;
  int64_t expert = 1;  // ranks, all of which this one is itself
  bool again = false;
};

std::string told(const Case& c) {
  return fmt::format(
      "{} {} {}, {} {}, expert {}, again {}", c.model.bias, c.model.qk_norm.value_or(false),
      c.degrees ? fmt::format("{} x {} {}", c.degrees->tensor, c.degrees->context,
                              c.degrees->sequence_parallel)
                : "whole",
      c.type == at::kFloat ? "fp32" : "bf16",
      c.model.experts ? fmt::format("{} + {}", c.model.experts->count, c.model.experts->shared_ffn)
                      : "dense",
      c.expert, c.again);
}

// A stage of layers alone, cut and with two strands, off the starting point, where biases and norms are special.
class Stage {
 public:
  explicit Stage(const Case& c)
      : case_(c),
        exchanges_(exchanges_of(c)),
        whole_(*StageModule::create(c.model, {0, kLayers, false, false}, 1, at::kFloat,
                                    exchanges_[0].get())) {
    {
      const at::NoGradGuard no_gradients;
      double shift = 0;
      for (Parameter& each : whole_.parameters()) each.value.add_(0.01 * (shift += 0.1));
    }
    if (c.type == at::kBFloat16) whole_.compute_in_bf16();
    std::vector<ShardedStage::Strand> strands(2);
    for (size_t strand = 0; strand < 2; ++strand) {
      strands[strand].experts = exchanges_[strand].get();
      if (!c.degrees) continue;
      teams_.push_back(std::make_unique<ShardTeam>(static_cast<int32_t>(c.degrees->shards())));
      with_.push_back(std::make_unique<ShardCollectives>(*teams_.back(), *c.degrees));
      strands[strand].with = with_.back().get();
      if (c.expert > 1) exchanges_[strand]->serve(*with_.back());
    }
    sharded_ = std::move(*ShardedStage::create(whole_, strands, kSamples));
  }

  const Case& options() const { return case_; }
  ShardedStage& sharded() { return *sharded_; }
  ShardTeam* team(size_t strand) { return teams_.empty() ? nullptr : teams_[strand].get(); }
  size_t shards() const { return static_cast<size_t>(sharded_->shards()); }

  // Of a microbatch, cut.
  std::vector<at::Tensor> input(int64_t microbatch) const {
    return cut(at::sin(numbers() + microbatch));
  }
  std::vector<at::Tensor> gradient(int64_t microbatch) const {
    return cut(at::cos(numbers() * 3 + microbatch));
  }
  std::vector<at::Tensor> gradients() const {
    std::vector<at::Tensor> out;
    for (const Parameter& each : whole_.parameters()) out.push_back(each.value.grad().clone());
    return out;
  }

 private:
  using Exchanges = std::vector<std::unique_ptr<ExpertExchange>>;
  static Exchanges exchanges_of(const Case& c) {
    Exchanges out(2);
    for (int32_t strand = 0; strand < 2 && c.expert > 1; ++strand)
      out[static_cast<size_t>(strand)] =
          std::make_unique<ExpertExchange>(c.model.experts->count, c.expert, 0, strand);
    return out;
  }
  at::Tensor numbers() const {
    const Model& m = case_.model;
    return at::arange(kSamples * m.sequence * m.hidden, at::kDouble)
        .view({kSamples * m.sequence, m.hidden});
  }
  std::vector<at::Tensor> cut(const at::Tensor& all) const {
    std::vector<at::Tensor> out;
    for (int32_t shard = 0; shard < sharded_->shards(); ++shard)
      out.push_back(sharded_->hidden_of(shard, all.to(case_.type)));
    return out;
  }

  const Case case_;
  const Exchanges exchanges_;  // by strand
  StageModule whole_;
  std::vector<std::unique_ptr<ShardTeam>> teams_;
  std::vector<std::unique_ptr<ShardCollectives>> with_;
  std::unique_ptr<ShardedStage> sharded_;
};

// By shard, of one microbatch after the other.
struct Outcome {
  std::vector<at::Tensor> outputs, of_inputs, gradients;
};

constexpr int64_t kMicrobatches = 2;

Outcome in_one_graph(const Case& c) {
  Stage stage(c);
  Outcome out;
  stage.sharded().begin_gradients();
  for (int64_t microbatch = 0; microbatch < kMicrobatches; ++microbatch) {
    std::vector<at::Tensor> x = stage.input(microbatch), outputs(stage.shards());
    const std::vector<at::Tensor> gradient = stage.gradient(microbatch);
    std::vector<WeightGradients> products(stage.shards());
    for (at::Tensor& each : x) each = each.detach().set_requires_grad(true);
    stage.sharded().for_each([&](int32_t shard) {
      const auto i = static_cast<size_t>(shard);
      if (stage.sharded().is_cut()) products[i].add_in_place();
      outputs[i] = stage.sharded().module(shard).forward(x[i], &products[i]);
      torch::autograd::backward({outputs[i]}, {gradient[i]});
    });
    stage.sharded().fold();
    for (size_t i = 0; i < x.size(); ++i) {
      out.outputs.push_back(outputs[i].detach());
      out.of_inputs.push_back(x[i].grad());
    }
  }
  out.gradients = stage.gradients();
  return out;
}

// The passes of one microbatch on one shard of one strand.
struct Passes {
  Passes(Stage& stage, int32_t shard, int32_t strand) {
    for (size_t layer = 0; layer < kLayers; ++layer) {
      all.push_back(std::make_unique<LayerPass>(
          stage.sharded().module(shard, strand), layer,
          LayerPassOptions{stage.sharded().is_cut(), stage.options().gather_again,
                           stage.options().again}));
      forward.push_back(all.back().get());
    }
    backward.assign(forward.rbegin(), forward.rend());
  }
  std::vector<std::unique_ptr<LayerPass>> all;
  std::vector<LayerPass*> forward, backward;
};

enum class Weights { kAsNumbered, kFirst, kLast };

// Gradients of weights before those of inputs, or after all else.
void perform(const StrandLayers& layers, Weights when) {
  std::vector<StrandOperator> operators = operators_of(layers);
  const auto is_weights = [](const StrandOperator& op) {
    return op.name.substr(0, op.name.find('.')).back() == 'w';
  };
  std::vector<std::string> names, later;
  for (size_t i = 0; i < operators.size(); ++i) {
    if (when == Weights::kFirst && i + 1 < operators.size() && is_weights(operators[i + 1]) &&
        std::ranges::find(operators[i + 1].after, i) == operators[i + 1].after.end()) {
      names.push_back(operators[i + 1].name);
      names.push_back(operators[i++].name);
    } else {
      names.push_back(operators[i].name);
    }
  }
  if (when == Weights::kLast) {
    std::ranges::stable_partition(names, [](const std::string& name) {
      return name.find("w.") == std::string::npos || !name.ends_with(".3");
    });
  }
  const auto order = order_of(operators, names);
  CHECK(order, "{}", order.error().text());
  StrandExecutor().run(operators, *order);
}

Outcome by_operators(const Case& c, Weights when) {
  Stage stage(c);
  Outcome out;
  stage.sharded().begin_gradients();
  for (int64_t microbatch = 0; microbatch < kMicrobatches; ++microbatch) {
    const std::vector<at::Tensor> x = stage.input(microbatch);
    const std::vector<at::Tensor> gradient = stage.gradient(microbatch);
    std::vector<at::Tensor> outputs(x.size()), of_inputs(x.size());
    stage.sharded().for_each([&](int32_t shard) {
      const auto i = static_cast<size_t>(shard);
      Passes passes(stage, shard, 0);
      const Meeting meeting = passes.forward[0]->meeting();
      passes.forward[0]->begin(x[i]);
      perform({passes.forward, {}, meeting}, when);
      outputs[i] = passes.forward.back()->result();
      passes.backward[0]->begin_backward(gradient[i]);
      perform({{}, passes.backward, meeting}, when);
      of_inputs[i] = passes.backward.back()->result();
    });
    stage.sharded().fold();
    out.outputs.insert(out.outputs.end(), outputs.begin(), outputs.end());
    out.of_inputs.insert(out.of_inputs.end(), of_inputs.begin(), of_inputs.end());
  }
  out.gradients = stage.gradients();
  return out;
}

void expect_same(const std::vector<at::Tensor>& one, const std::vector<at::Tensor>& other,
                 double tolerance, const char* what) {
  ASSERT_EQ(one.size(), other.size());
  for (size_t i = 0; i < one.size(); ++i) {
    if (tolerance == 0) {
      EXPECT_TRUE(at::equal(one[i], other[i]))
          << what << " " << i << ": " << (one[i] - other[i]).abs().max().item<double>();
    } else {
      EXPECT_LE((one[i] - other[i]).norm().item<double>(),
                tolerance * std::max(1.0, one[i].norm().item<double>()))
          << what << " " << i;
    }
    EXPECT_GT(one[i].norm().item<double>(), 0) << what << " " << i;
  }
}

void expect_same(const Outcome& one, const Outcome& other, double tolerance = 0) {
  expect_same(one.outputs, other.outputs, tolerance, "output");
  expect_same(one.of_inputs, other.of_inputs, tolerance, "gradient of the input");
  expect_same(one.gradients, other.gradients, tolerance, "gradient of parameter");
}

const std::optional<ShardDegrees> kDegrees[] = {std::nullopt, ShardDegrees{2, 1, false},
                                                ShardDegrees{2, 1, true}, ShardDegrees{1, 2, false},
                                                ShardDegrees{2, 2, true}};

TEST(LayerOperators, HaveTheBitsOfTheStage) {
  for (const Model& m : {llama(), gpt2(), qwen3(), gemma2()}) {
    for (const auto& degrees : kDegrees) {
      for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
        Case c{m, degrees, type};
        SCOPED_TRACE(told(c));
        const Outcome expected = in_one_graph(c);
        for (const Weights when : {Weights::kAsNumbered, Weights::kFirst, Weights::kLast})
          expect_same(expected, by_operators(c, when));
        c.again = true;
        expect_same(expected, by_operators(c, Weights::kAsNumbered));
      }
    }
  }
}

TEST(LayerOperators, HaveTheBitsOfMixtures) {
  for (const Model& m : {mixtral(), qwen2_moe(), ungated()}) {
    for (const auto& degrees : kDegrees) {
      for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
        for (const int64_t expert : {1, 2}) {
          Case c{m, degrees, type, false, expert};
          SCOPED_TRACE(told(c));
          const Outcome expected = in_one_graph(c);
          for (const Weights when : {Weights::kAsNumbered, Weights::kFirst, Weights::kLast})
            expect_same(expected, by_operators(c, when));
          c.again = true;
          expect_same(expected, by_operators(c, Weights::kAsNumbered));
        }
      }
    }
  }
}

// Without a norm before attention the hidden states are read by four, whose gradients add up in another order.
TEST(LayerOperators, AddUpOtherwiseWithoutInputNorms) {
  const Case c{olmo2()};
  expect_same(in_one_graph(c), by_operators(c, Weights::kAsNumbered), 1e-6);
}

TEST(LayerOperators, GatherAgain) {
  Case c{llama(), ShardDegrees{2, 1, true}};
  const Outcome expected = in_one_graph(c);
  c.gather_again = true;
  expect_same(expected, by_operators(c, Weights::kAsNumbered));
}

TEST(LayerOperators, NameWhatTheyDoNotPerform) {
  const auto error = [](const Model& m, const ShardDegrees& degrees, bool again) {
    auto whole = StageModule::create(m, {0, kLayers, false, false}, 1);
    ShardTeam team(static_cast<int32_t>(degrees.shards()));
    ShardCollectives with(team, degrees);
    const ShardedStage::Strand strand{&with};
    const auto stage = ShardedStage::create(*whole, {&strand, 1}, kSamples);
    const Status status = LayerPass::check((*stage)->module(0), 1, {.gather_again = again});
    return status ? std::string() : status.error().text();
  };
  EXPECT_THAT(error(olmo2(), {2, 1, false}, false), testing::HasSubstr("whole_qk_norm"));
  EXPECT_THAT(error(llama(), {2, 2, true}, true), testing::HasSubstr("context"));
}

// --- a forward and a backward strand together

enum class Arranged { kOneAfterOther, kIntraBatch, kTurns };

// Turns: an operator of each strand by turns, so that almost all communication meets computation of the other.
StrandOrder arrange(const std::vector<StrandOperator>& operators, Arranged how) {
  if (how == Arranged::kOneAfterOther) return order_of(operators, Way::kOneAfterOther);
  if (how == Arranged::kIntraBatch) return order_of(operators, Way::kIntraBatch);
  std::vector<std::string> strands[2], names;
  for (const StrandOperator& op : operators) strands[op.strand].push_back(op.name);
  for (size_t i = 0; i < std::max(strands[0].size(), strands[1].size()); ++i) {
    for (const auto& strand : strands)
      if (i < strand.size()) names.push_back(strand[i]);
  }
  auto order = order_of(operators, names);
  CHECK(order, "{}", order.error().text());
  return *order;
}

// Microbatch 0 goes forward; then microbatch i backward beside i + 1 forward, layer L-1-l beside layer l.
Outcome in_pairs(const Case& c, Arranged how, int64_t microbatches = 4) {
  Stage stage(c);
  stage.sharded().begin_gradients();
  std::vector<std::vector<std::unique_ptr<Passes>>> passes(static_cast<size_t>(microbatches));
  std::vector<std::unique_ptr<StrandExecutor>> executors;
  for (size_t shard = 0; shard < stage.shards(); ++shard)
    executors.push_back(std::make_unique<StrandExecutor>([&] {
      for (size_t strand : {0, 1})
        if (stage.team(strand)) stage.team(strand)->abandon();
    }));
  Outcome out;
  for (int64_t microbatch = 0; microbatch <= microbatches; ++microbatch) {
    const bool forward = microbatch<microbatches, backward = microbatch> 0;
    std::vector<at::Tensor> x, gradient;
    if (forward) x = stage.input(microbatch);
    if (backward) gradient = stage.gradient(microbatch - 1);
    std::vector<at::Tensor> outputs(stage.shards()), of_inputs(stage.shards());
    if (forward) {
      for (size_t shard = 0; shard < stage.shards(); ++shard)
        passes[static_cast<size_t>(microbatch)].push_back(std::make_unique<Passes>(
            stage, static_cast<int32_t>(shard), static_cast<int32_t>(microbatch % 2)));
    }
    stage.sharded().for_each([&](int32_t shard) {
      const auto i = static_cast<size_t>(shard);
      StrandLayers layers;
      if (forward) {
        Passes& here = *passes[static_cast<size_t>(microbatch)][i];
        layers.forward = here.forward;
        layers.meeting = here.forward[0]->meeting();
        here.forward[0]->begin(x[i]);
      }
      if (backward) {
        Passes& there = *passes[static_cast<size_t>(microbatch - 1)][i];
        layers.backward = there.backward;
        layers.meeting = there.backward[0]->meeting();
        there.backward[0]->begin_backward(gradient[i]);
      }
      const std::vector<StrandOperator> operators = operators_of(layers);
      executors[i]->run(operators, arrange(operators, how));
      if (forward) outputs[i] = layers.forward.back()->result();
      if (backward) of_inputs[i] = layers.backward.back()->result();
    });
    stage.sharded().fold();
    if (forward) out.outputs.insert(out.outputs.end(), outputs.begin(), outputs.end());
    if (backward) out.of_inputs.insert(out.of_inputs.end(), of_inputs.begin(), of_inputs.end());
  }
  out.gradients = stage.gradients();
  return out;
}

TEST(StrandLayers, HaveTheBitsOfOneAfterTheOther) {
  for (const Model& m : {llama(), gpt2(), mixtral(), qwen2_moe()}) {
    for (const auto& degrees : kDegrees) {
      Case c{m, degrees};
      c.expert = m.experts ? 2 : 1;
      const Outcome expected = in_pairs(c, Arranged::kOneAfterOther);
      for (const bool again : {false, true}) {
        c.again = again;
        SCOPED_TRACE(told(c));
        for (const Arranged how : {Arranged::kIntraBatch, Arranged::kTurns})
          expect_same(expected, in_pairs(c, how));
      }
    }
  }
}

// Threads meet in another order each time, results do not depend on it.
TEST(StrandLayers, ManyTimes) {
  const Case c{llama(), ShardDegrees{2, 1, true}, at::kFloat, true};
  const Outcome expected = in_pairs(c, Arranged::kOneAfterOther);
  for (int round = 0; round < 20; ++round) expect_same(expected, in_pairs(c, Arranged::kTurns));
}

// One shard fails within the pair: the other is thrown out of its collective.
TEST(StrandLayers, AShardThatFailsHoldsUpNobody) {
  Stage stage({llama(), ShardDegrees{2, 1, true}});
  stage.sharded().begin_gradients();
  const std::vector<at::Tensor> x = stage.input(0);
  const auto all = [&] {
    stage.sharded().for_each([&](int32_t shard) {
      Passes passes(stage, shard, 1);  // its shards are no team's that runs
      passes.forward[0]->begin(x[static_cast<size_t>(shard)]);
      std::vector<StrandOperator> operators =
          operators_of({passes.forward, {}, passes.forward[0]->meeting()});
      if (shard == 1) operators[7].work = [] { throw std::runtime_error("no memory"); };
      StrandExecutor executor([&] { stage.team(1)->abandon(); });
      executor.run(operators, order_of(operators, Way::kIntraBatch));
    });
  };
  EXPECT_THROW(all(), std::runtime_error);
}

}  // namespace
}  // namespace tombolo::train::operators
