#include "perform/generate/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "support/toy_shard.h"

namespace tombolo::generate {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr SimDuration kLayer{1000};

// What an engine said, by prompt.
struct Heard {
  std::map<int64_t, std::vector<int64_t>> tokens;
  std::map<int64_t, StepKind> ends;
  std::map<int64_t, std::string> messages;

  Engine::Tell ear() {
    return [this](const EngineEvent& event) {
      if (event.kind == StepKind::kToken) {
        tokens[event.id].push_back(event.token);
      } else {
        ends[event.id] = event.kind;
        messages[event.id] = event.message;
      }
    };
  }
};

// 3 + 4 = 7; 3 + 4 + 7 = 14; 3 + 4 + 7 + 4 = 18; 3 + 4 + 7 + 4 + 8 = 26.
const std::vector<int64_t> kAnswer = {7, 4, 8, 6};

TEST(Engine, AnswersTokenByToken) {
  ManualClock clock;
  const ToyShard shard(clock, kLayer);
  Engine engine(shard, {}, clock);
  Heard heard;
  EXPECT_FALSE(engine.admit({.id = 1, .tokens = {3, 4}, .tokens_max = 4}));
  EXPECT_EQ(engine.work_until(kNever, heard.ear()), 12);  // four passes of three layers
  EXPECT_EQ(heard.tokens[1], kAnswer);
  EXPECT_EQ(heard.ends[1], StepKind::kLength);
  EXPECT_TRUE(engine.idle());
  EXPECT_EQ(engine.kv_bytes_used(), 0);
}

TEST(Engine, StopsBeforeATokenThatEnds) {
  ManualClock clock;
  const ToyShard shard(clock, kLayer);
  Engine engine(shard, {}, clock);
  Heard heard;
  EXPECT_FALSE(engine.admit({.id = 1, .tokens = {3, 4}, .tokens_max = 9, .stop = {0, 8}}));
  engine.work_until(kNever, heard.ear());
  EXPECT_THAT(heard.tokens[1], ElementsAre(7, 4));
  EXPECT_EQ(heard.ends[1], StepKind::kStop);
}

// The answer 7, 4, 8 without an end (above): 8 and 4 may not be drawn before the second token.
TEST(Engine, DrawsNoEndBeforeTheAnswerIsLongEnough) {
  ManualClock clock;
  const ToyShard shard(clock, kLayer);
  Engine engine(shard, {}, clock);
  Heard heard;
  EXPECT_FALSE(engine.admit(
      {.id = 1, .tokens = {3, 4}, .tokens_max = 9, .stop = {7, -1, 99}, .tokens_min = 1}));
  engine.work_until(kNever, heard.ear());
  ASSERT_FALSE(heard.tokens[1].empty());
  EXPECT_NE(heard.tokens[1].front(), 7);
  EXPECT_FALSE(engine.admit({.id = 2, .tokens = {3, 4}, .tokens_max = 9, .stop = {7}}));
  engine.work_until(kNever, heard.ear());
  EXPECT_TRUE(heard.tokens[2].empty());
  EXPECT_EQ(engine.admit({.id = 3, .tokens = {3}, .tokens_max = 2, .tokens_min = 3})->why,
            Refusal::kInvalid);
}

// Passes take turns, and each prompt reads its own keys.
TEST(Engine, SeveralPromptsAnswerAsEachAlone) {
  ManualClock clock;
  const ToyShard shard(clock, kLayer);
  Engine engine(shard, {}, clock);
  Heard heard;
  EXPECT_FALSE(engine.admit({.id = 1, .tokens = {3, 4}, .tokens_max = 4}));
  EXPECT_FALSE(engine.admit({.id = 2, .tokens = {1}, .tokens_max = 3}));
  for (int i = 0; i < 6; ++i) engine.do_layer(heard.ear());
  EXPECT_EQ(heard.tokens[1].size(), 1U);
  EXPECT_EQ(heard.tokens[2].size(), 1U);
  EXPECT_FALSE(engine.admit({.id = 3, .tokens = {9, 9}, .tokens_max = 2}));
  engine.work_until(kNever, heard.ear());
  EXPECT_EQ(heard.tokens[1], kAnswer);
  EXPECT_THAT(heard.tokens[2], ElementsAre(1, 2, 4));
  EXPECT_THAT(heard.tokens[3], ElementsAre(8, 6));
}

// A window of 2.5 layers takes two once it is known how long one takes, and the answer is the same.
TEST(Engine, RestsBetweenLayersWhereTheNextDoesNotFit) {
  ManualClock clock;
  const ToyShard shard(clock, kLayer, toy_model(8));
  Engine engine(shard, {}, clock);
  Heard heard;
  EXPECT_FALSE(engine.admit({.id = 1, .tokens = {3, 4}, .tokens_max = 1}));
  engine.do_layer(heard.ear());
  EXPECT_EQ(engine.next_layer(), kLayer);
  EXPECT_EQ(engine.work_until(clock.now() + SimDuration{999}, heard.ear()), 0);
  EXPECT_EQ(engine.work_until(clock.now() + SimDuration{2500}, heard.ear()), 2);
  clock.advance(SimDuration{1'000'000});
  EXPECT_EQ(engine.work_until(clock.now(), heard.ear()), 0);
  EXPECT_EQ(engine.work_until(clock.now() + SimDuration{100'000}, heard.ear()), 5);
  EXPECT_THAT(heard.tokens[1], ElementsAre(7));
}

// Layers of a second, windows of 5 us: every eighth window takes one, and the prompt is answered.
TEST(Engine, APromptGetsOnWhereNoWindowIsLongEnough) {
  ManualClock clock;
  const ToyShard slow(clock, SimDuration{1'000'000'000}, toy_model(8));
  Engine engine(slow, {}, clock);
  Heard heard;
  EXPECT_FALSE(engine.admit({.id = 1, .tokens = {3, 4}, .tokens_max = 1}));
  engine.do_layer(heard.ear());
  for (int layer = 1; layer < 8; ++layer) {
    int refused = 0;
    while (!engine.work_once(clock.now() + SimDuration{5'000}, heard.ear())) {
      clock.advance({100'000});
      ASSERT_LE(++refused, 8);
    }
    EXPECT_EQ(refused, 8) << "layer " << layer;
  }
  EXPECT_THAT(heard.tokens[1], ElementsAre(7));
}

// Repeated calls with the same `until` count as one window, and an ended window does not count.
TEST(Engine, AWindowRefusesOnce) {
  ManualClock clock;
  const ToyShard slow(clock, SimDuration{1'000'000'000}, toy_model(8));
  Engine engine(slow, {}, clock);
  Heard heard;
  EXPECT_FALSE(engine.admit({.id = 1, .tokens = {3, 4}, .tokens_max = 1}));
  engine.do_layer(heard.ear());
  const SimTime end = clock.now() + SimDuration{5'000};
  for (int i = 0; i < 20; ++i) {
    EXPECT_FALSE(engine.work_once(end, heard.ear()));
    EXPECT_FALSE(engine.work_once(end - SimDuration{5'000 + i}, heard.ear()));
  }
}

// Of a toy: 2 x 3 layers x tokens x 1 number x 4 bytes. The last token of an answer needs none.
TEST(Engine, CountsKeysAndValuesBeforeItPromises) {
  ManualClock clock;
  const ToyShard shard(clock, kLayer);
  Engine engine(shard, {.kv_bytes = 24 * 8, .requests_max = 2}, clock);
  EXPECT_FALSE(engine.admit({.id = 1, .tokens = {1, 2, 3}, .tokens_max = 3}));
  EXPECT_EQ(engine.kv_bytes_used(), 24 * 5);
  auto refused = engine.admit({.id = 2, .tokens = {1, 2, 3}, .tokens_max = 2});
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->why, Refusal::kBusy);
  refused = engine.admit({.id = 2, .tokens = {1, 2, 3}, .tokens_max = 7});
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->why, Refusal::kTooLong);
  EXPECT_THAT(refused->message, HasSubstr("9 tokens take 216 bytes"));
  EXPECT_FALSE(engine.admit({.id = 2, .tokens = {1}, .tokens_max = 1}));
  EXPECT_EQ(engine.admit({.id = 3, .tokens = {1}, .tokens_max = 1})->why, Refusal::kBusy);
  engine.cancel(1);
  EXPECT_EQ(engine.kv_bytes_used(), 24);
  EXPECT_FALSE(engine.admit({.id = 3, .tokens = {1}, .tokens_max = 1}));
}

// Those that may wait leave half of places and memory to those that may not, unless they are alone.
TEST(Engine, LeavesRoomToThoseThatMayNotWait) {
  ManualClock clock;
  const ToyShard shard(clock, kLayer);
  Engine engine(shard, {.kv_bytes = 24 * 20, .requests_max = 4}, clock);
  const auto admits = [&](int64_t id, bool flex, int64_t answer = 1) {
    const auto refused =
        engine.admit({.id = id, .tokens = {3, 4}, .tokens_max = answer, .flex = flex});
    if (refused) {
      EXPECT_EQ(refused->why, Refusal::kBusy);
    }
    return !refused;
  };
  EXPECT_TRUE(admits(1, true));
  EXPECT_TRUE(admits(2, true));
  EXPECT_FALSE(admits(3, true));
  EXPECT_TRUE(admits(4, false));
  EXPECT_TRUE(admits(5, false));
  EXPECT_FALSE(admits(6, false));
  for (const int64_t id : {1, 2, 5}) engine.cancel(id);
  EXPECT_FALSE(admits(7, true, 10));  // 2 and 11 tokens of the 10 that it may have while others run
  EXPECT_TRUE(admits(7, true, 7));
  engine.cancel(4);
  engine.cancel(7);
  EXPECT_TRUE(admits(8, true, 19));  // alone: all of them
}

TEST(Engine, RefusesWhatCannotBeAnswered) {
  ManualClock clock;
  const ToyShard shard(clock, kLayer, toy_model(3, 8));
  Engine engine(shard, {}, clock);
  EXPECT_EQ(engine.admit({.id = 1, .tokens = {}})->why, Refusal::kInvalid);
  EXPECT_EQ(engine.admit({.id = 1, .tokens = {10}})->why, Refusal::kInvalid);
  EXPECT_EQ(engine.admit({.id = 1, .tokens = {-1}})->why, Refusal::kInvalid);
  EXPECT_EQ(engine.admit({.id = 1, .tokens = {1}, .tokens_max = 8})->why, Refusal::kTooLong);
  EXPECT_EQ(engine.admit({.id = 1, .tokens = {1}, .tokens_max = INT64_MAX})->why,
            Refusal::kTooLong);
  EXPECT_FALSE(engine.admit({.id = 1, .tokens = {1}, .tokens_max = 7}));
  EXPECT_EQ(engine.admit({.id = 1, .tokens = {1}})->why, Refusal::kInvalid);
}

TEST(Engine, AFailureEndsThePromptAndNoOther) {
  ManualClock clock;
  ToyShard shard(clock, kLayer);
  Engine engine(shard, {}, clock);
  Heard heard;
  EXPECT_FALSE(engine.admit({.id = 1, .tokens = {1}}));
  EXPECT_FALSE(engine.admit({.id = 2, .tokens = {2}}));
  shard.fails = true;
  engine.do_layer(heard.ear());
  shard.fails = false;
  engine.work_until(kNever, heard.ear());
  EXPECT_EQ(heard.ends[1], StepKind::kFailed);
  EXPECT_EQ(heard.messages[1], "the toy is broken");
  EXPECT_THAT(heard.tokens[2], ElementsAre(2));
  EXPECT_EQ(engine.kv_bytes_used(), 0);
}

// As one that is full of prompts that come and go.
TEST(Engine, TenThousandPromptsLeaveNothing) {
  ManualClock clock;
  const ToyShard shard(clock, kLayer);
  Engine engine(shard, {.kv_bytes = 24 * 40, .requests_max = 8}, clock);
  Heard heard;
  int64_t admitted = 0, refused = 0;
  for (int64_t id = 0; id < 10'000; ++id) {
    const auto no = engine.admit({.id = id, .tokens = {id % 10, 5}, .tokens_max = 1 + id % 5});
    (no ? refused : admitted) += 1;
    engine.do_layer(heard.ear());
    if (id % 7 == 0) engine.cancel(id);
    ASSERT_LE(engine.kv_bytes_used(), 24 * 40);
  }
  engine.work_until(kNever, heard.ear());
  EXPECT_GT(admitted, 1000);
  EXPECT_GT(refused, 1000);
  EXPECT_EQ(engine.kv_bytes_used(), 0);
}

}  // namespace
}  // namespace tombolo::generate
