#include "predict/strand/layer_strands.h"

#include <gtest/gtest.h>

namespace tombolo::strand {
namespace {

LayerStrands dense(int64_t context, bool gather_again = false) {
  return layer_strands(
      {.tensor = true, .sequence_parallel = true, .context = context, .gather_again = gather_again},
      {});
}

// The counts of the DHelix paper (14 and 18), and those of orders and ideals worked out from the
// list of operators by an independent program.
TEST(LayerStrands, OperatorsOrdersAndIdealsOfADenseLayer) {
  struct Row {
    int64_t context;
    size_t forward, backward;
    double forward_orders, backward_orders;
    size_t forward_ideals, backward_ideals;
  };
  for (const Row& row : {Row{1, 14, 18, 1, 5'824, 15, 106}, Row{2, 16, 21, 2, 24'320, 18, 138},
                         Row{4, 20, 25, 14, 206'080, 27, 186}}) {
    const LayerStrands layer = dense(row.context);
    EXPECT_EQ(layer.forward.size(), row.forward);
    EXPECT_EQ(layer.backward.size(), row.backward);
    EXPECT_EQ(order_count(layer.forward), row.forward_orders);
    EXPECT_EQ(order_count(layer.backward), row.backward_orders);
    EXPECT_EQ(order_ideals(layer.forward).size(), row.forward_ideals);
    EXPECT_EQ(order_ideals(layer.backward).size(), row.backward_ideals);
  }
}

TEST(LayerStrands, GatheringAgainAddsTwoOperators) {
  const LayerStrands layer = dense(1, true);
  EXPECT_EQ(layer.forward.size(), 14U);
  EXPECT_EQ(layer.backward.size(), 20U);
}

TEST(LayerStrands, SumsStandForGatherAndScatter) {
  const LayerStrands layer = layer_strands({.tensor = true}, {.gather = 1});
  EXPECT_EQ(layer.forward.size(), 12U);
  EXPECT_EQ(layer.backward.size(), 16U);
  EXPECT_EQ(layer.forward.seconds(layer.forward.all()), 4);
}

// What a layer has is known before any of it is made, for every shape that a strand has room for.
TEST(LayerStrands, AreCountedBeforeTheyAreMade) {
  for (const bool experts : {false, true}) {
    for (const bool all_again : {false, true}) {
      cost::LayerOperators times{.all_again = all_again};
      if (experts) times.experts = 1;
      for (int64_t context = 1; context <= 8; ++context) {
        const LayerShape shape{.tensor = true,
                               .sequence_parallel = true,
                               .context = context,
                               .exchange = experts,
                               .gather_again = true};
        const OperatorCounts counts = operator_counts(shape, times);
        if (counts.backward > static_cast<int64_t>(kOperatorsMax)) break;
        const LayerStrands layer = layer_strands(shape, times);
        EXPECT_EQ(counts.forward, std::ssize(layer.forward.operators())) << context;
        EXPECT_EQ(counts.backward, std::ssize(layer.backward.operators())) << context;
      }
    }
  }
  // A dense layer has 14 and 18; the pieces of a million add 2 (c - 1) and 2 c - 1.
  const OperatorCounts wide =
      operator_counts({.tensor = true, .sequence_parallel = true, .context = 1'000'000}, {});
  EXPECT_EQ(wide.forward, 14 + 1'999'998);
  EXPECT_EQ(wide.backward, 18 + 1'999'999);
}

// Keys take 3 units forward on 4 ranks, 6 backward: 1, 2, 2, 1.
TEST(LayerStrands, KeysTravelTwiceInTheBackwardPass) {
  const LayerStrands layer = layer_strands({.context = 4}, {.keys = 3});
  EXPECT_EQ(layer.forward.seconds(layer.forward.all()), 3);
  std::vector<double> units;
  for (const Operator& op : layer.backward.operators()) {
    if (op.kind == Kind::kContext) units.push_back(op.seconds);
  }
  EXPECT_EQ(units, (std::vector<double>{1, 2, 2, 1}));
}

// Any job: operators add up to what the law counts, whatever is recomputed or exchanged.
struct Case {
  const char* preset;
  cost::Configuration configuration;
  const char* stack;
};

class LayerSums : public ::testing::TestWithParam<Case> {};

TEST_P(LayerSums, AreThoseOfTheLaw) {
  const Case& given = GetParam();
  const model::Model m = *model::preset(given.preset);
  cluster::Datacenter site;
  site.name = "site";
  site.device = *cluster::catalog_device("h100-80g");
  site.nodes = 64;
  site.devices_per_node = 8;
  const cost::Constants constants = *cost::find_constants(site, given.stack);
  const cost::LayerPricer pricer(m, site, constants, 2, false);
  const cost::GroupPlacement layout = cost::lay_out(given.configuration, 8);
  const bool experts = m.experts.has_value();
  const cost::LayerTime law = pricer.layer(given.configuration, layout, experts);
  const LayerStrands layer = layer_strands(shape_of(given.configuration, layout, false),
                                           pricer.operators(given.configuration, layout, experts));
  for (const auto& [dag, pass] :
       {std::pair(&layer.forward, &law.forward), std::pair(&layer.backward, &law.backward)}) {
    double compute = 0, tensor = 0, context = 0, expert = 0;
    for (const Operator& op : dag->operators()) {
      (op.kind == Kind::kTensor    ? tensor
       : op.kind == Kind::kContext ? context
       : op.kind == Kind::kExpert  ? expert
                                   : compute) += op.seconds;
    }
    EXPECT_NEAR(compute, pass->compute, 1e-12 * pass->compute);
    EXPECT_NEAR(tensor, pass->tensor, 1e-12 * pass->tensor);
    EXPECT_NEAR(context, pass->context, 1e-12 * pass->context);
    EXPECT_NEAR(expert, pass->expert, 1e-12 * pass->expert);
  }
}

cost::Configuration recomputing(const layout::Degrees& degrees, model::Recompute recompute) {
  cost::Configuration out{degrees};
  out.recompute = recompute;
  return out;
}

INSTANTIATE_TEST_SUITE_P(
    Jobs, LayerSums,
    ::testing::Values(
        Case{"llama3-70b", {{.tensor = 8, .sequence_parallel = true}}, "megatron"},
        Case{"llama3-70b", {{.tensor = 8, .context = 4, .sequence_parallel = true}}, "megatron"},
        Case{"gpt3-175b", recomputing({.tensor = 16}, model::Recompute::kFull), "megatron-2022"},
        Case{"gpt3-175b",
             recomputing({.tensor = 8, .sequence_parallel = true}, model::Recompute::kSelective),
             "megatron-deepspeed"},
        Case{"llama3-8b",
             recomputing({.tensor = 4, .sequence_parallel = true}, model::Recompute::kSelective),
             "torchtitan"},
        Case{"mixtral-8x7b", {{.data = 8, .expert = 8}}, "megatron"},
        Case{"deepseek-v3",
             {{.tensor = 2, .data = 32, .expert = 32, .sequence_parallel = true}},
             "megatron"}));

}  // namespace
}  // namespace tombolo::strand
