#include "steer/prefill/prefill_controller.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "steer/prefill/placement_check.h"

namespace tombolo::prefill {
namespace {

using ::testing::ElementsAre;

// A layer takes as many nanoseconds as the prompt has tokens, the head `ends`, a transfer 2.
DurationTable table(double ends = 0) {
  return *DurationTable::make({{1, 1_ns, ends * 1_ns, 2_ns}, {1000, 1000_ns, ends * 1_ns, 2_ns}});
}

// Two pipelines of two GPUs with two layers each, in one datacenter; training has [20, 30) and
// [50, 80) of 100 on all of them. A line takes no time worth speaking of.
PrefillSetting two_pipelines(bool suspension) {
  PrefillSetting s;
  s.period = {100};
  s.busy.assign(4, {{{20}, {30}}, {{50}, {80}}});
  s.pipelines = {{{{0, 2}, {1, 2}}, 0, 0}, {{{2, 2}, {3, 2}}, 0, 0}};
  s.tables = {table()};
  s.lines = {{{1000_TBps, 0_s}}};
  s.kv_per_token_and_layer = 1_B;
  s.within = {400};
  s.guard = {2};
  s.suspension = suspension;
  return s;
}

// Layers of 8: two in [0, 18), then the transfer, so that the next shard begins at 18. [30, 48) has
// room for two layers of its own.
TEST(PrefillController, SpreadsAPromptOverWindows) {
  PrefillController controller(two_pipelines(true));
  const Admission first = controller.submit({.id = 1, .tokens = 8}, {0});
  ASSERT_EQ(first.verdict, Verdict::kPlaced);
  EXPECT_THAT(first.placement.runs,
              ElementsAre(PrefillRun{0, 0, 0, 2, {0}, {16}}, PrefillRun{1, 1, 2, 2, {30}, {46}}));
  EXPECT_EQ(first.placement.first_token.ns, 46);

  // Layers of 12 at 5: one in what is left of each window, on the other pipeline.
  const Admission second = controller.submit({.id = 2, .arrival = {3}, .tokens = 12}, {5});
  ASSERT_EQ(second.verdict, Verdict::kPlaced);
  EXPECT_EQ(second.placement.pipeline, 1);
  EXPECT_THAT(second.placement.runs,
              ElementsAre(PrefillRun{2, 0, 0, 1, {5}, {17}}, PrefillRun{2, 0, 1, 1, {30}, {42}},
                          PrefillRun{3, 1, 2, 2, {80}, {104}}));
}

// The same with each shard in one window: 24 fits [80, 118) only.
TEST(PrefillController, WithoutSuspensionAShardTakesOneWindow) {
  PrefillController controller(two_pipelines(false));
  const Admission answer = controller.submit({.id = 1, .tokens = 12}, {0});
  ASSERT_EQ(answer.verdict, Verdict::kPlaced);
  EXPECT_THAT(answer.placement.runs, ElementsAre(PrefillRun{0, 0, 0, 2, {80}, {104}},
                                                 PrefillRun{1, 1, 2, 2, {180}, {204}}));
  // Layers of 20 fit no window twice; suspended they do.
  EXPECT_EQ(controller.submit({.id = 2, .tokens = 20}, {0}).verdict, Verdict::kNoWindow);
  PrefillController suspending(two_pipelines(true));
  EXPECT_EQ(suspending.submit({.id = 2, .tokens = 20}, {0}).verdict, Verdict::kPlaced);
}

TEST(PrefillController, RefusesAtOnceWhatComesTooLate) {
  PrefillSetting setting = two_pipelines(true);
  setting.within = {46};
  PrefillController controller(setting);
  EXPECT_EQ(controller.submit({.id = 1, .tokens = 8}, {0}).verdict, Verdict::kPlaced);
  EXPECT_EQ(controller.submit({.id = 2, .tokens = 8}, {0}).verdict, Verdict::kPlaced);
  EXPECT_EQ(controller.submit({.id = 3, .tokens = 8}, {0}).verdict, Verdict::kNoWindow);
  EXPECT_EQ(controller.submit({.id = 4, .tokens = 1001}, {0}).verdict, Verdict::kTooLong);
  EXPECT_EQ(controller.submit({.id = 5, .tokens = 8, .decode = 3}, {0}).verdict, Verdict::kNoLine);
}

TEST(PrefillController, BatchRequestsWaitInOrder) {
  PrefillSetting setting = two_pipelines(true);
  setting.within = {46};
  setting.queue_max = 2;
  PrefillController controller(setting);
  for (int64_t id = 1; id <= 2; ++id) controller.submit({.id = id, .tokens = 8}, {0});
  EXPECT_EQ(controller.submit({.id = 3, .tokens = 8, .batch = true}, {0}).verdict,
            Verdict::kQueued);
  // Short enough for what is left, but not its turn.
  EXPECT_EQ(controller.submit({.id = 4, .tokens = 2, .batch = true}, {0}).verdict,
            Verdict::kQueued);
  EXPECT_EQ(controller.submit({.id = 5, .tokens = 8, .batch = true}, {0}).verdict,
            Verdict::kNoWindow);
  EXPECT_TRUE(controller.advance({1}).empty());
  const std::vector<PrefillPlacement> placed = controller.advance({80});
  ASSERT_EQ(placed.size(), 2);
  EXPECT_EQ(placed[0].id, 3);
  EXPECT_EQ(placed[0].start().ns, 80);
  EXPECT_EQ(controller.queued(), 0);
}

// 4 layers of 8 tokens are 32 bytes. At 1 byte/ns towards the far datacenter: the first layer is done
// at 8, so the last byte has left at 40, or a layer after the last one is done at 46: at 54, and is
// there 10 later. The next prompt's bytes wait for the line until 54.
TEST(PrefillController, AdmitsByTheLineToTheDecodeWorker) {
  PrefillSetting setting = two_pipelines(true);
  setting.lines = {{{1000_TBps, 0_s}, {1_GBps, 10_ns}}, {{0_MBps, 0_s}, {1_GBps, 0_s}}};
  PrefillController controller(setting);
  const Admission first = controller.submit({.id = 1, .tokens = 8, .decode = 1}, {0});
  ASSERT_EQ(first.verdict, Verdict::kPlaced);
  EXPECT_EQ(first.placement.first_token.ns, 46);
  EXPECT_EQ(first.placement.handed_over.ns, 46 + 8 + 10);
  const Admission second = controller.submit({.id = 2, .tokens = 8, .decode = 1}, {0});
  EXPECT_EQ(second.placement.first_token.ns, 46);
  EXPECT_EQ(second.placement.handed_over.ns, 54 + 32 + 10);
  // A line that takes 3,200 ns for a prompt is passed by: refused within 400.
  setting.lines[0][1].rate = 10_MBps;
  PrefillController slow(setting);
  EXPECT_EQ(slow.submit({.id = 1, .tokens = 8, .decode = 1}, {0}).verdict, Verdict::kNoWindow);
}

// Training on GPU 1 turns out 6 later at 10: [30, 48) becomes [36, 54). The second shard, to run in
// [30, 46), continues in [36, 52).
TEST(PrefillController, MovesPromptsWhereTrainingIsLate) {
  PrefillController controller(two_pipelines(true));
  const PrefillPlacement before = controller.submit({.id = 1, .tokens = 8}, {0}).placement;
  const std::vector<PrefillPlacement> moved = controller.shift(1, {6}, {2}, {10});
  ASSERT_EQ(moved.size(), 1);
  EXPECT_THAT(moved[0].runs, ElementsAre(before.runs[0], PrefillRun{1, 1, 2, 2, {36}, {52}}));
  EXPECT_EQ(moved[0].first_token.ns, 52);
  // Where nothing is in the way nothing is moved.
  EXPECT_TRUE(controller.shift(3, {6}, {2}, {10}).empty());
}

// --- against an oracle, and the validator ------------------------------------------------------

// Obviously right and slow: every nanosecond of every GPU, free or not.
class Oracle {
 public:
  Oracle(const PrefillSetting& setting, int64_t horizon) : s_(setting) {
    for (const Busy& busy : s_.busy) {
      std::vector<bool> free(static_cast<size_t>(horizon), true);
      for (int64_t t = 0; t < horizon; ++t) {
        for (const Span& span : busy) {
          for (int64_t k = -1; k <= 1; ++k) {
            const int64_t at = t % s_.period.ns - k * s_.period.ns;
            if (at >= span.start.ns - s_.guard.ns && at < span.end.ns) free[t] = false;
          }
        }
      }
      free_.push_back(std::move(free));
    }
  }

  // The earliest end of `length` nanoseconds in one piece from t on. `take`: occupies the GPU.
  int64_t run(int32_t gpu, int64_t t, int64_t length, bool take) {
    std::vector<bool>& free = free_[static_cast<size_t>(gpu)];
    for (; t + length <= std::ssize(free); ++t) {
      bool fits = true;
      for (int64_t i = 0; i < length && fits; ++i) fits = free[t + i];
      if (!fits) continue;
      for (int64_t i = 0; take && i < length; ++i) free[t + i] = false;
      return t + length;
    }
    return INT64_MAX / 2;
  }

  // When the last layer is done if the pipeline takes the prompt at `now`.
  int64_t prefill(const PrefillPipeline& pipeline, int64_t tokens, int64_t now, bool take) {
    const PromptTime time = s_.tables[pipeline.table].at(tokens);
    int64_t t = now;
    for (size_t stage = 0; stage < pipeline.stages.size(); ++stage) {
      if (stage > 0) t += time.transfer.ns;
      const auto [gpu, layers] = pipeline.stages[stage];
      const bool last = stage + 1 == pipeline.stages.size();
      const int64_t ends = last ? time.ends.ns : 0;
      if (!s_.suspension) {
        t = run(gpu, t, layers * time.layer.ns + ends, take);
      }
      for (int64_t layer = 0; s_.suspension && layer < layers; ++layer) {
        t = run(gpu, t, time.layer.ns + (layer + 1 == layers ? ends : 0), take);
      }
    }
    return t;
  }

 private:
  const PrefillSetting& s_;
  std::vector<std::vector<bool>> free_;
};

PrefillSetting random_setting(Random& random) {
  PrefillSetting s;
  s.period = {static_cast<int64_t>(60 + random.below(100))};
  s.guard = {static_cast<int64_t>(random.below(4))};
  s.suspension = random.below(3) > 0;
  s.within = {static_cast<int64_t>(300 + random.below(500))};
  s.tables = {table(static_cast<double>(random.below(5)))};
  s.lines = {{{1000_TBps, 0_s}}};
  int32_t gpus = 0;
  const auto depth = static_cast<int32_t>(1 + random.below(3));
  for (uint64_t p = 1 + random.below(3); p > 0; --p) {
    PrefillPipeline pipeline;
    for (int32_t d = 0; d < depth; ++d) {
      pipeline.stages.push_back({gpus++, static_cast<int64_t>(1 + random.below(4))});
    }
    // The oracle's pipelines hold one model: the same number of layers in all.
    if (!s.pipelines.empty()) {
      for (int32_t d = 0; d < depth; ++d) {
        pipeline.stages[d].layers = s.pipelines[0].stages[d].layers;
      }
    }
    s.pipelines.push_back(pipeline);
  }
  for (int32_t g = 0; g < gpus; ++g) {
    Busy busy;
    for (int64_t t = static_cast<int64_t>(random.below(20)); t < s.period.ns;) {
      const int64_t end = std::min(s.period.ns, t + 1 + static_cast<int64_t>(random.below(25)));
      busy.push_back({{t}, {end}});
      t = end + 1 + static_cast<int64_t>(random.below(40));
    }
    s.busy.push_back(busy);
  }
  return s;
}

TEST(PlacementOracle, EveryPromptIsPlacedAsEarlyAsCanBe) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    Random random = Random(seed).stream("prefill");
    const PrefillSetting setting = random_setting(random);
    PrefillController controller(setting);
    Oracle oracle(setting, 4000);
    std::vector<PlacedPrompt> placed;
    int64_t now = 0;
    for (int64_t id = 0; id < 40; ++id) {
      now += static_cast<int64_t>(random.below(30));
      const PrefillRequest request{
          .id = id,
          .arrival = {now - static_cast<int64_t>(random.below(2)) * std::min<int64_t>(now, 5)},
          .tokens = static_cast<int64_t>(1 + random.below(30))};
      int64_t best = INT64_MAX;
      int32_t first = -1;
      for (size_t p = 0; p < setting.pipelines.size(); ++p) {
        const int64_t end = oracle.prefill(setting.pipelines[p], request.tokens, now, false);
        if (end < best) first = static_cast<int32_t>(p);
        best = std::min(best, end);
      }
      const bool fits = best <= request.arrival.ns + setting.within.ns;
      const Admission answer = controller.submit(request, {now});
      ASSERT_EQ(answer.verdict == Verdict::kPlaced, fits) << "seed " << seed << " prompt " << id;
      if (!fits) continue;
      ASSERT_EQ(answer.placement.first_token.ns, best) << "seed " << seed << " prompt " << id;
      ASSERT_EQ(answer.placement.pipeline, first) << "seed " << seed << " prompt " << id;
      const PrefillPipeline& pipeline = setting.pipelines[static_cast<size_t>(first)];
      ASSERT_EQ(oracle.prefill(pipeline, request.tokens, now, true), best);
      placed.push_back({request, answer.placement});
    }
    const Status sound = check_placements(setting, placed);
    ASSERT_TRUE(sound) << "seed " << seed << ": " << sound.error().text();
  }
}

// Whatever training does: what has not begun lies in windows as they are known, and apart.
TEST(PlacementOracle, ShiftsKeepPromptsApartAndOutOfTraining) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    Random random = Random(seed).stream("shift");
    const PrefillSetting setting = random_setting(random);
    PrefillController controller(setting);
    std::vector<int64_t> late(setting.busy.size());
    std::vector<std::optional<PrefillPlacement>> known(60);
    int64_t now = 0;
    for (int64_t id = 0; id < 60; ++id) {
      now += static_cast<int64_t>(random.below(20));
      const Admission answer = controller.submit(
          {.id = id, .arrival = {now}, .tokens = static_cast<int64_t>(1 + random.below(20))},
          {now});
      if (answer.verdict == Verdict::kPlaced) known[id] = answer.placement;
      const auto gpu = static_cast<int32_t>(random.below(setting.busy.size()));
      const int64_t by = static_cast<int64_t>(random.below(21)) - 10;
      late[gpu] += by;
      for (const PrefillPlacement& moved : controller.shift(gpu, {by}, setting.guard, {now})) {
        ASSERT_LT(moved.id, id + 1);
        known[moved.id] = moved;
      }
      std::vector<std::pair<int64_t, int64_t>> runs;  // of the GPU
      for (const auto& placement : known) {
        if (!placement) continue;
        for (const PrefillRun& run : placement->runs) {
          if (run.gpu != gpu || run.start.ns < now) continue;
          runs.emplace_back(run.start.ns, run.end.ns);
          for (const Span& span : setting.busy[gpu]) {
            for (int64_t k = -2; k < 60; ++k) {
              const int64_t shift = late[gpu] + k * setting.period.ns;
              const bool apart = run.end.ns <= span.start.ns + shift - setting.guard.ns ||
                                 run.start.ns >= span.end.ns + shift;
              ASSERT_TRUE(apart) << "seed " << seed << " prompt " << placement->id;
            }
          }
        }
      }
      std::sort(runs.begin(), runs.end());
      for (size_t i = 1; i < runs.size(); ++i) {
        ASSERT_LE(runs[i - 1].second, runs[i].first) << "seed " << seed;
      }
    }
  }
}

TEST(PlacementCheck, SeesEveryKindOfFault) {
  const PrefillSetting setting = two_pipelines(true);
  PrefillController controller(setting);
  std::vector<PlacedPrompt> good;
  for (int64_t id = 0; id < 3; ++id) {
    const PrefillRequest request{.id = id, .tokens = 6};
    good.push_back({request, controller.submit(request, {0}).placement});
  }
  ASSERT_TRUE(check_placements(setting, good));
  const auto fails = [&](auto&& spoil) {
    std::vector<PlacedPrompt> bad = good;
    spoil(bad);
    return !check_placements(setting, bad);
  };
  EXPECT_TRUE(fails([](auto& p) { p[1].placement.runs = p[0].placement.runs; }));
  EXPECT_TRUE(fails([](auto& p) { p[0].placement.runs.pop_back(); }));
  EXPECT_TRUE(fails([](auto& p) { p[0].request.arrival = {1}; }));
  EXPECT_TRUE(fails([](auto& p) { p[0].request.tokens = 7; }));
  EXPECT_TRUE(fails([](auto& p) { p[0].placement.runs[1].start = {5}; }));
  EXPECT_TRUE(fails([](auto& p) { p[0].placement.runs[0].gpu = 3; }));
  EXPECT_TRUE(fails([](auto& p) { p[0].placement.first_token = {3}; }));
  EXPECT_TRUE(fails([](auto& p) {
    for (PrefillRun& run : p[0].placement.runs) {
      run.start = run.start + SimDuration{9};
      run.end = run.end + SimDuration{9};
    }
    p[0].placement.first_token = p[0].placement.first_token + SimDuration{9};
  }));
  PrefillSetting late = setting;
  late.within = {20};
  EXPECT_FALSE(check_placements(late, good));
}

TEST(PrefillControllerDeathTest, ChecksWhatItIsGiven) {
  PrefillSetting setting = two_pipelines(true);
  setting.pipelines[1].stages[0].gpu = 0;
  EXPECT_DEATH(PrefillController{setting}, "layers on GPU 0");
  PrefillController controller(two_pipelines(true));
  controller.submit({.id = 1, .tokens = 8}, {0});
  EXPECT_DEATH(controller.submit({.id = 1, .tokens = 8}, {0}), "prompt 1 twice");
}

}  // namespace
}  // namespace tombolo::prefill
