// Two passes at once on one set of parameters: the same bits as one after the other.
#include <gmock/gmock.h>

#include <algorithm>
#include <random>
#include <tuple>

#include "numerics/story.h"
#include "perform/train/layer_steps.h"
#include "perform/train/torch_kernels.h"

namespace tombolo::train {
namespace {

struct PairLayout {
  const char* name;
  const char* schedule;
  int data = 1;
  int64_t tensor = 1, expert = 1, zero = 0;
  bool sequence_parallel = false, recomputes = false, experts = false;
  bool in_order = false;  // of the Plan, else by turns
};

// Names of a layer's operators of both passes in some order that their dependencies allow.
std::vector<std::string> some_order(bool sequence_parallel, uint32_t seed) {
  const LayerForm form{.meeting = sequence_parallel ? Meeting::kRows : Meeting::kSums};
  std::vector<LayerStep> strands[] = {forward_steps(form), backward_steps(form)};
  std::vector<bool> done[] = {std::vector<bool>(strands[0].size()),
                              std::vector<bool>(strands[1].size())};
  std::mt19937 random(seed);
  std::vector<std::string> names;
  while (names.size() < strands[0].size() + strands[1].size()) {
    const size_t strand = random() % 2, number = random() % strands[strand].size();
    const LayerStep& step = strands[strand][number];
    const auto is_done = [&](size_t other) { return bool{done[strand][other]}; };
    if (done[strand][number] || !std::ranges::all_of(step.after, is_done)) continue;
    done[strand][number] = true;
    names.push_back(step.name);
  }
  return names;
}

// Of every two stages of a rank; kernels do not ask how long they take.
plan::Plan with_pairs(const PairLayout& how) {
  plan::Plan plan =
      tiny_plan({.pipeline = 2, .data = how.data, .schedule = how.schedule, .virtual_stages = 2});
  plan.parallelism.tensor = how.tensor;
  plan.parallelism.expert = how.expert;
  plan.parallelism.zero = how.zero;
  plan.parallelism.sequence_parallel = how.sequence_parallel;
  for (layout::Placement& each : plan.ranks) each.shards = how.tensor;
  if (how.recomputes) {
    plan.training.recompute = model::Recompute::kFull;
    for (plan::Stage& each : plan.stages) each.cost.recompute = 1_ms;
  }
  if (how.experts) plan.model.experts = model::Experts{.count = 4, .per_token = 2, .ffn = 24};
  plan.training.micro_batch = 1;
  plan.run.compare_replicas_every = 1;
  const schedule::PipelineShape shape = schedule::shape_of(plan);
  for (int32_t position = 0; position < shape.ranks(); ++position) {
    for (const int32_t forward : shape.stages_at(position)) {
      for (const int32_t backward : shape.stages_at(position))
        plan.pairs.push_back({forward, backward, 1_ms, 1_ms,
                              how.in_order
                                  ? some_order(how.sequence_parallel,
                                               static_cast<uint32_t>(forward * 100 + backward))
                                  : std::vector<std::string>()});
    }
  }
  std::sort(plan.pairs.begin(), plan.pairs.end(), [](const auto& a, const auto& b) {
    return std::tie(a.forward, a.backward) < std::tie(b.forward, b.backward);
  });
  return plan;
}

std::map<std::string, kernels::Payload> tensors_of(const Story& story) {
  std::map<std::string, kernels::Payload> out;
  for (const kernels::NamedTensor& each : story.checkpoint) out.emplace(each.name, each.bytes);
  return out;
}

const PairLayout kPairLayouts[] = {
    {"w", "w"},
    {"dualpipev", "dualpipev"},
    {"tensor 2", "w", 1, 2, 1, 0, true},
    {"tensor 2, sums", "w", 1, 2},
    {"tensor 2, halves", "dualpipev", 1, 2, 1, 0, true},
    {"tensor 2, in order", "w", 1, 2, 1, 0, true, false, false, true},
    {"tensor 2, sums, in order", "dualpipev", 1, 2, 1, 0, false, false, false, true},
    {"tensor 2, halves, in order", "dualpipev", 1, 2, 1, 0, true, false, false, true},
    {"tensor 2, recomputed", "w", 1, 2, 1, 0, true, true},
    {"tensor 2, recomputed, in order", "w", 1, 2, 1, 0, true, true, false, true},
    {"tensor 2, zero 2", "w", 2, 2, 1, 2, true},
    {"recomputed", "w", 1, 1, 1, 0, false, true},
    {"zero 2", "w", 2, 1, 1, 2},
    {"experts", "w", 1, 1, 1, 0, false, false, true},
    {"expert 2", "w", 2, 1, 2, 0, false, false, true},
    {"expert 2, tensor 2", "dualpipev", 2, 2, 2, 0, true, false, true},
    {"expert 2, zero 2", "w", 2, 1, 2, 2, false, false, true},
    {"expert 2, halves", "dualpipev", 2, 1, 2, 0, false, false, true},
    {"expert 2, recomputed", "w", 2, 1, 2, 0, false, true, true},
    {"expert 2, tensor 2, recomputed", "dualpipev", 2, 2, 2, 0, true, true, true},
    {"tensor 2, experts", "w", 1, 2, 1, 0, true, false, true},
    {"tensor 2, sums, recomputed halves", "dualpipev", 1, 2, 1, 0, false, true},
};

class Pairs : public testing::TestWithParam<PairLayout> {};
INSTANTIATE_TEST_SUITE_P(Numerics, Pairs, testing::ValuesIn(kPairLayouts), [](const auto& info) {
  std::string name = info.param.name;
  std::erase_if(name, [](char letter) { return letter == ' ' || letter == ','; });
  return name;
});

TEST_P(Pairs, HaveTheBitsOfOneAfterTheOther) {
  const plan::Plan plan = with_steps(with_pairs(GetParam()), 6);
  const auto schedule = schedule::build(plan);
  ASSERT_TRUE(schedule) << schedule.error().text();
  size_t pairs = 0;
  for (const auto& each : schedule->pairs) pairs += each.size();
  EXPECT_GT(pairs, 0u);
  EXPECT_EQ(std::ranges::count(schedule->ranks[0], action::ActionKind::kRecompute,
                               &action::Action::kind) > 0,
            GetParam().recomputes);
  const Story at_once = train(plan), one_by_one = train(plan, {.pair_by_pair = false});
  EXPECT_EQ(at_once.losses, one_by_one.losses);
  EXPECT_EQ(tensors_of(at_once), tensors_of(one_by_one));
  for (const auto& [step, digests] : at_once.compared) EXPECT_EQ(digests.size(), 1) << step.first;
  EXPECT_LT(at_once.losses.at(6), at_once.losses.at(1));
  // Operators that are arranged have the bits of one graph.
  plan::Plan alone = plan;
  alone.pairs.clear();
  EXPECT_EQ(train(alone).losses, at_once.losses);
}

TEST(PairOrder, IsRefusedWhereItLacksAnOperatorOrWouldWaitForEver) {
  const PairLayout how{"", "w", 1, 2, 1, 0, true, false, false, true};
  for (const bool lacks : {true, false}) {
    plan::Plan plan = with_pairs(how);
    std::vector<std::string>& order = plan.pairs.back().order;
    if (lacks) {
      std::erase(order, "FC1");
    } else {
      std::erase(order, "LN1");
      order.push_back("LN1");
    }
    const auto made = make_torch_kernels(plan, 0);
    ASSERT_FALSE(made);
    EXPECT_THAT(made.error().text(), testing::HasSubstr("the order of the pair of stages"));
    EXPECT_THAT(made.error().text(),
                testing::HasSubstr(lacks ? "the order lacks \"FC1\"" : "would wait for ever"));
  }
}

}  // namespace
}  // namespace tombolo::train
