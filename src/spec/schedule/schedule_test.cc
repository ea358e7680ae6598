#include "spec/schedule/schedule.h"

#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "spec/plan/job.h"
#include "spec/schedule/policy.h"
#include "spec/schedule/schedule_csv.h"

namespace tombolo::schedule {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string computations(const std::string& name, const PipelineShape& shape) {
  return to_csv(*build(*layout::find_schedule(name), shape), CsvContent::kComputations);
}

TEST(Schedule, GpipeRunsAllForwardsThenAllBackwards) {
  EXPECT_EQ(computations("gpipe", {2, 3, {}}),
            "0F0,0F1,0F2,0B0,0B1,0B2,0U\n"
            "1F0,1F1,1F2,1B0,1B1,1B2,1U\n");
}

// PipeDream-Flush with 3 stages and 4 microbatches: 2, 1 and 0 forwards to warm up.
TEST(Schedule, OneForwardOneBackwardWarmsUpAndAlternates) {
  EXPECT_EQ(computations("1f1b", {3, 4, {}}),
            "0F0,0F1,0F2,0B0,0F3,0B1,0B2,0B3,0U\n"
            "1F0,1F1,1B0,1F2,1B1,1F3,1B2,1B3,1U\n"
            "2F0,2B0,2F1,2B1,2F2,2B2,2F3,2B3,2U\n");
}

TEST(Schedule, OneForwardOneBackwardWithFewMicrobatchesIsGpipe) {
  EXPECT_EQ(computations("1f1b", {5, 1, {}}), computations("gpipe", {5, 1, {}}));
}

TEST(Schedule, RecomputationStandsRightBeforeItsBackward) {
  EXPECT_EQ(computations("1f1b", {2, 2, {true, false}}),
            "0F0,0F1,0R0,0B0,0R1,0B1,0U\n"
            "1F0,1B0,1F1,1B1,1U\n");
}

TEST(Schedule, MessagesStandBesideTheirComputations) {
  EXPECT_EQ(to_csv(*build(layout::ScheduleKind::k1F1B, {3, 1, {true, true, false}}),
                   CsvContent::kEverything),
            "0F0,0SEND_F0,0RECV_B0,0R0,0B0,0U\n"
            "1RECV_F0,1F0,1SEND_F0,1RECV_B0,1R0,1B0,1SEND_B0,1U\n"
            "2RECV_F0,2F0,2B0,2SEND_B0,2U\n");
}

// GPipe keeps all M microbatches everywhere; 1F1B at most P - s at stage s.
TEST(Schedule, PeakInFlight) {
  EXPECT_THAT(peak_in_flight(*build(layout::ScheduleKind::kGpipe, {3, 7, {}})),
              ElementsAre(7, 7, 7));
  EXPECT_THAT(peak_in_flight(*build(layout::ScheduleKind::k1F1B, {3, 7, {}})),
              ElementsAre(3, 2, 1));
  EXPECT_THAT(peak_in_flight(*build(layout::ScheduleKind::k1F1B, {3, 2, {}})),
              ElementsAre(2, 2, 1));
}

TEST(Schedule, EverySizeIsSound) {
  for (const std::string& name : layout::schedule_names()) {
    for (int32_t p = 1; p <= 6; ++p) {
      for (int32_t m = 1; m <= 13; ++m) {
        PipelineShape shape = shape_for(
            *layout::find_schedule(name), p, m,
            layout::mapping_of(*layout::find_schedule(name)) == layout::StageMapping::kLine ? 1
                                                                                            : 2);
        shape.replicas = 1 + m % 2;
        shape.recompute.assign(shape.stages, m % 4 == 0);
        shape.recompute.back() = false;
        const Status sound = validate(*build(*layout::find_schedule(name), shape), shape);
        EXPECT_TRUE(sound) << name << " " << p << " x " << m << ": " << sound.error().text();
      }
    }
  }
}

TEST(Schedule, TagsTellMessagesApart) {
  EXPECT_EQ(message_tag({action::ActionKind::kSendActivation, 0, 3}), 6);
  EXPECT_EQ(message_tag({action::ActionKind::kReceiveActivation, 1, 3}), 6);
  EXPECT_EQ(message_tag({action::ActionKind::kSendGradient, 1, 3}), 7);
}

TEST(Schedule, RefusesOtherMappingsAndHugeShapes) {
  const Result<Schedule> folded = build(layout::ScheduleKind::k1F1B, {4, 2, {}, 1, 2});
  ASSERT_FALSE(folded);
  EXPECT_THAT(folded.error().text(), HasSubstr("\"1f1b\" has one stage per rank"));
  const Result<Schedule> flat = build(layout::ScheduleKind::kInterleaved, {4, 2, {}});
  ASSERT_FALSE(flat);
  EXPECT_THAT(flat.error().text(), HasSubstr("virtual_stages = 1"));
  const Result<Schedule> huge = build(layout::ScheduleKind::k1F1B, {100'000, 100'000'000, {}});
  ASSERT_FALSE(huge);
  EXPECT_THAT(huge.error().text(), HasSubstr("too many to schedule"));
}

TEST(Schedule, PoliciesCiteTheirSource) {
  for (const layout::ScheduleTraits& row : layout::kSchedules) {
    EXPECT_FALSE(row.citation.empty()) << row.name;
  }
}

// --- memory
// ---------------------------------------------------------------------------------------

// A stage per node, each with this many bytes of state, of workspace and of activations.
plan::Plan plan_of_bytes(int64_t stages, Bytes state, Bytes workspace, Bytes activations,
                         int64_t global_batch = 8) {
  const std::string text = fmt::format(R"(
    [model]
    preset = "gpt3-175b"
    [[cluster.datacenter]]
    name = "oregon"
    device = "a100-80g"
    nodes = {}
    [training]
    global_batch = {}
    [parallelism]
    pipeline = {}
  )",
                                       stages, global_batch, stages);
  plan::Plan plan = *plan::lay_out(*plan::parse_job(text, "job.toml"));
  for (plan::Stage& stage : plan.stages) {
    stage.state = state;
    stage.workspace = workspace;
    stage.activations = activations;
  }
  return plan;
}

// 1F1B keeps 4, 3, 2 and 1 microbatches; of the workspace there is one, whatever is in flight.
TEST(Schedule, PeakMemoryByHand) {
  const plan::Plan plan = plan_of_bytes(4, 10_GB, 2_GB, 3_GB);
  EXPECT_EQ(peak_memory(plan, *build(plan)), (std::vector<Bytes>{24_GB, 21_GB, 18_GB, 15_GB}));
}

// What serves prompts from the bubbles is kept free of training.
TEST(Schedule, PeakMemoryHoldsTheModelOfPrefill) {
  plan::Plan plan = plan_of_bytes(4, 60_GB, 2_GB, 5_GB);
  EXPECT_TRUE(check_memory(plan, *build(plan)));
  plan.prefill = plan::Prefill{.memory = 3_GB};
  EXPECT_EQ(peak_memory(plan, *build(plan))[0], 60_GB + 2_GB + 4 * 5_GB + 3_GB);
  EXPECT_FALSE(check_memory(plan, *build(plan)));
  plan.prefill->memory = 61_GB;
  EXPECT_THAT(check_memory(plan, *build(plan)).error().text(),
              HasSubstr("it needs 143 GB, a100-80g has 83.8 GB; largest: the shard of the model of "
                        "[prefill], 61 GB\n  try a smaller memory in [prefill]"));
}

// Of the two stages of a rank both states count, all activations, and the larger workspace.
TEST(Schedule, PeakMemoryOfTwoStagesPerRankByHand) {
  const PipelineShape shape = shape_for(layout::ScheduleKind::kInterleaved, 2, 2, 2);
  plan::Plan plan = plan_of_bytes(2, 0_B, 0_B, 0_B, 2);
  plan.parallelism.schedule = layout::ScheduleKind::kInterleaved;
  plan.parallelism.virtual_stages = 2;
  plan.stages.clear();
  for (int32_t s = 0; s < 4; ++s) {
    plan.stages.push_back({.slice = {24 * s, 24, s == 0, s == 3},
                           .state = 10_GB,
                           .activations = s == 0 ? 1_GB : 100_GB,
                           .workspace = s == 2 ? 7_GB : 2_GB});
  }
  const Schedule schedule = *build(plan);
  ASSERT_EQ(schedule, *build(layout::ScheduleKind::kInterleaved, shape));
  // Rank 0 has stages 0 and 2: both microbatches pass stage 0, then stage 2, before any comes
  // back.
  EXPECT_EQ(peak_memory(plan, schedule)[0], 20_GB + 7_GB + 2 * 1_GB + 2 * 100_GB);
}

TEST(Schedule, WhatDoesNotFitIsInfeasibleAndSaysWhy) {
  const plan::Plan fits = plan_of_bytes(8, 40_GB, 3_GB, 5_GB);
  EXPECT_TRUE(check_memory(fits, *build(fits)));

  const plan::Plan state = plan_of_bytes(8, 80_GB, 3_GB, 1_GB);
  const Status too_much_state = check_memory(state, *build(state));
  ASSERT_FALSE(too_much_state);
  EXPECT_EQ(too_much_state.error().exit_code(), 3);
  EXPECT_THAT(too_much_state.error().text(),
              HasSubstr("stage 0 does not fit in memory: it needs 91 GB, a100-80g has 83.8 GB"));
  EXPECT_THAT(too_much_state.error().text(), HasSubstr("weights, gradients and optimizer, 80 GB"));

  plan::Plan activations = plan_of_bytes(8, 1_GB, 3_GB, 1_GB, 100);
  activations.parallelism.schedule = layout::ScheduleKind::kGpipe;
  const Status too_many = check_memory(activations, *build(activations));
  ASSERT_FALSE(too_many);
  EXPECT_THAT(too_many.error().text(),
              HasSubstr("activations of 100 microbatches in flight, 100 GB"));
  EXPECT_THAT(too_many.error().text(), HasSubstr("recompute = \"full\""));
}

// What is done already is not advised.
TEST(Schedule, RecomputationIsAdvisedToThoseWhoKeepActivations) {
  plan::Plan plan = plan_of_bytes(8, 1_GB, 3_GB, 20_GB);
  plan.training.recompute = model::Recompute::kFull;
  EXPECT_THAT(check_memory(plan, *build(plan)).error().text(),
              ::testing::Not(HasSubstr("recompute")));
}

TEST(Schedule, ImaginedTimesAreNotHeldAgainstMemory) {
  plan::Plan plan = plan_of_bytes(2, 100_GB, 3_GB, 5_GB);
  EXPECT_FALSE(check_memory(plan, *build(plan)));
  plan.cost_source = plan::CostSource::kStageTimes;
  EXPECT_TRUE(check_memory(plan, *build(plan)));
}

// Two stages, three pipelines: ranks 0 to 2 hold stage 0, and do the same.
TEST(Schedule, ReplicasFollowOneOrderAndSumTheirGradients) {
  const PipelineShape shape{.stages = 2, .microbatches = 2, .replicas = 3};
  const Schedule schedule = *build(layout::ScheduleKind::kGpipe, shape);
  ASSERT_EQ(schedule.ranks.size(), 6u);
  EXPECT_EQ(schedule.ranks[0], schedule.ranks[2]);
  EXPECT_EQ(schedule.ranks[3], schedule.ranks[5]);
  EXPECT_EQ(to_csv({"", {schedule.ranks[4]}}, CsvContent::kEverything),
            "1RECV_F0,1F0,1RECV_F1,1F1,1B0,1SEND_B0,1B1,1SEND_B1,1REDUCE_GRAD,1U\n");
  EXPECT_TRUE(validate(schedule, shape));
}

// --- graph
// ----------------------------------------------------------------------------------------

TEST(Schedule, ItsGraphIsSoundAndOrdersComputations) {
  plan::Plan plan = plan_of_bytes(2, 1_GB, 1_GB, 1_GB);
  plan.training.global_batch = 1;
  plan.stages[0].cost = {.forward = 1_ms, .backward = 2_ms, .recompute = 1_ms};
  const graph::Graphs graphs = to_graph(plan, *build(plan));
  ASSERT_TRUE(graph::validate(graphs));
  std::vector<std::string> drawn;
  for (const graph::Node& node : graphs[0].nodes) {
    drawn.push_back(fmt::format("{} {} data[{}] ctrl[{}]", node.id, node.name,
                                fmt::join(node.data_deps, ","), fmt::join(node.ctrl_deps, ",")));
  }
  EXPECT_THAT(drawn, ElementsAre("0 0F0 data[] ctrl[]", "1 0SEND_F0 data[0] ctrl[]",
                                 "2 0RECV_B0 data[] ctrl[]", "3 0R0 data[0,2] ctrl[0]",
                                 "4 0B0 data[0,2,3] ctrl[3]", "5 0SUM_TIED data[4] ctrl[]",
                                 "6 0SUM_TIED data[] ctrl[]", "7 0U data[6] ctrl[4]"));
  EXPECT_EQ(graphs[0].nodes[1].comm_size, 2048 * 12288 * 2);
  EXPECT_EQ(graphs[0].nodes[1].comm_peer, 1);
  EXPECT_EQ(graphs[0].nodes[2].comm_tag, 1);
  EXPECT_EQ(graphs[0].nodes[0].duration, round_to_ns(plan.stages[0].cost.forward));
}

TEST(Schedule, ItsGraphTalksWithinAPipelineAndSumsWithinAStage) {
  plan::Plan plan = plan_of_bytes(2, 1_GB, 1_GB, 1_GB);
  plan.model.tied_embeddings = false;
  plan.parallelism.data = 2;
  plan.training.global_batch = 2;
  plan.ranks = {{0, 0, "oregon", 0, 0, 0},
                {1, 0, "oregon", 1, 0, 1},
                {2, 1, "oregon", 2, 0, 0},
                {3, 1, "oregon", 3, 0, 1}};
  plan.stages[1].gradients = 12_MB;
  plan.stages[1].cost.reduce = 3_ms;
  const graph::Graphs graphs = to_graph(plan, *build(plan));
  ASSERT_TRUE(graph::validate(graphs)) << graph::validate(graphs).error().text();
  ASSERT_EQ(graphs.size(), 4u);
  EXPECT_EQ(graphs[1].nodes[1].name, "0SEND_F0");
  EXPECT_EQ(graphs[1].nodes[1].comm_peer, 3);
  const graph::Node& sum = graphs[3].nodes[graphs[3].nodes.size() - 2];
  EXPECT_EQ(sum.name, "1REDUCE_GRAD");
  EXPECT_EQ(sum.type, graph::NodeType::kCollective);
  EXPECT_THAT(sum.comm_group, ElementsAre(2, 3));
  EXPECT_EQ(sum.comm_size, 12'000'000);
  EXPECT_EQ(sum.duration, SimDuration{3'000'000});
  EXPECT_THAT(graphs[3].nodes.back().ctrl_deps, ElementsAre(sum.id));
}

// Two stages of each pipeline in each of two datacenters, or all in one.
plan::Plan three_pipelines(const std::string& parallelism, bool wan = true) {
  std::string text = "[training]\nglobal_batch = 6\n[parallelism]\npipeline = 4\ndata = 3\n" +
                     parallelism + "[stage_times]\nforward = \"1 ms\"\nbackward = \"2 ms\"\n";
  const auto datacenter = [](const char* name, int nodes) {
    return fmt::format("[[cluster.datacenter]]\nname = \"{}\"\ndevice = \"a100-80g\"\nnodes = {}\n",
                       name, nodes);
  };
  text += datacenter("a", wan ? 7 : 12);
  if (wan) {
    text += datacenter("b", 6) +
            "[[cluster.wan]]\nbetween = [\"a\", \"b\"]\none_way_latency = \"9 ms\"\n"
            "node_pair_limit = \"1 Gbps\"\n";
  }
  const auto job = plan::parse_job(text, "job.toml");
  EXPECT_TRUE(job) << job.error().text();
  const auto plan = plan::lay_out(*job);
  EXPECT_TRUE(plan) << plan.error().text();
  return *plan;
}

// a a b b for all three: shared. With one pipeline a a a b two share boundary 1, and that one crosses
// boundary 2 alone.
TEST(Schedule, PipelinesThatCrossAlikeShare) {
  const PipelineShape whole = shape_of(three_pipelines("sharing = \"temporal\"\n"));
  EXPECT_THAT(whole.shared, ElementsAre(false, true, false));
  EXPECT_THAT(whole.groups, IsEmpty());
  const PipelineShape parts = shape_of(
      three_pipelines("sharing = \"temporal\"\n"
                      "datacenter_per_stage = [\"a\", \"a\", [\"a\", \"b\", \"b\"], \"b\"]\n"));
  EXPECT_THAT(parts.shared, ElementsAre(false, true, false));
  EXPECT_THAT(parts.groups, ElementsAre(IsEmpty(), ElementsAre(-1, 1, 1), IsEmpty()));
  EXPECT_THAT(parts.sharers(1, 2), ElementsAre(1, 2));
  EXPECT_THAT(parts.sharers(1, 0), IsEmpty());
  EXPECT_THAT(parts.sharers(2, 0), IsEmpty());
}

// Boundaries 0 and 4 of eight stages on four ranks join the same two ranks. What the refusal suggests works.
TEST(Schedule, SeveralStagesPerRankDoNotShareInTime) {
  for (const char* schedule : {"interleaved", "zb-v"}) {
    const Result<Schedule> refused = build(three_pipelines(
        fmt::format("sharing = \"temporal\"\nschedule = \"{}\"\nvirtual_stages = 2\n", schedule)));
    ASSERT_FALSE(refused) << schedule;
    EXPECT_THAT(refused.error().text(),
                HasSubstr(fmt::format("schedule = \"{}\" holds 2 stages per rank", schedule)));
    EXPECT_THAT(refused.error().text(),
                HasSubstr("several boundaries would own one pair of nodes"));
    EXPECT_TRUE(build(three_pipelines(
        fmt::format("sharing = \"spatial\"\nschedule = \"{}\"\nvirtual_stages = 2\n", schedule))));
  }
  for (const char* schedule : {"atlas", "1f1b"}) {
    EXPECT_TRUE(build(three_pipelines(
        fmt::format("sharing = \"temporal\"\nschedule = \"{}\"\nvirtual_stages = 1\n", schedule))));
  }
}

TEST(NotesOnSharing, NameWhatHasNoEffect) {
  const auto notes = [](const std::string& parallelism, bool wan = true) {
    return notes_on_sharing(three_pipelines(parallelism, wan));
  };
  EXPECT_THAT(notes("schedule = \"atlas\"\n"), IsEmpty());
  EXPECT_THAT(notes("sharing = \"temporal\"\ncell = 3\n"), IsEmpty());
  const std::string unlike =
      "datacenter_per_stage = [\"a\", \"a\", [\"a\", \"b\", \"b\"], \"b\"]\n";
  EXPECT_THAT(
      notes("sharing = \"temporal\"\n" + unlike),
      ElementsAre("parallelism.sharing = \"temporal\" has no effect between stages 2 and 3: no two "
                  "pipelines of a cell cross there from one datacenter to the same other"));
  EXPECT_THAT(notes("schedule = \"atlas\"\n", false),
              ElementsAre("sharing in time, of parallelism.schedule = \"atlas\", has no effect: no "
                          "pipeline crosses the WAN"));
  EXPECT_THAT(
      notes("sharing = \"temporal\"\ncell = 1\n"),
      ElementsAre("parallelism.sharing = \"temporal\" has no effect: a cell has one pipeline"));
  EXPECT_THAT(
      notes("cell = 3\n"),
      ElementsAre("parallelism.cell = 3 has no effect: with schedule = \"1f1b\" every pipeline "
                  "sends separately; sharing = \"temporal\" lets cells share the WAN"));
  EXPECT_THAT(notes(""), IsEmpty());
}

}  // namespace
}  // namespace tombolo::schedule
