// Ranks that share the layers of a toy, against one that has them all.
#include "perform/generate/later_layers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>

#include "perform/generate/engine.h"
#include "perform/generate/kv_rows.h"
#include "support/toy_shard.h"

namespace tombolo::generate {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr SimDuration kRingLayer{1000};

// A ring of ranks whose messages take no time.
class Ring {
 public:
  explicit Ring(int64_t shards, int64_t layers = 4, EngineLimits limits = {}) {
    const model::Model model = toy_model(layers);
    for (int64_t i = 0; i < shards; ++i) {
      const model::Slice slice = model::stage_slice(model, shards, i);
      limits.layers_counted = std::max(limits.layers_counted, slice.layers);
      shards_.push_back(std::make_unique<ToyShard>(clock_, kRingLayer, model, slice));
    }
    engine.emplace(*shards_[0], limits, clock_);
    for (int64_t i = 1; i < shards; ++i) {
      later.push_back(
          std::make_unique<LaterLayers>(*shards_[static_cast<size_t>(i)], limits.kv_bytes, clock_));
    }
  }

  // Each rank computes a layer of what it had before, if any; then messages are passed on. False: none
  // did.
  bool round() {
    bool done = engine->work_once(kNever, tell());
    for (size_t i = later.size(); i-- > 0;) done = later[i]->work_once(kNever, from(i)) || done;
    pass_on();
    return done;
  }
  void run() {
    while (round()) {
    }
  }
  void pass_on() {
    for (const ShardMessage& message : engine->take_departed()) give(0, message);
    for (const auto& each : later) {
      EXPECT_LE(each->kv_bytes_used(), engine->kv_bytes_used());
      EXPECT_LE(each->prompts(), engine->requests());
    }
  }

  // That rank's part of a prompt has gone to the decode worker.
  void left(size_t rank, int64_t prompt) {
    if (rank == 0) {
      give(0, {.word = ShardWord::kSent, .prompt = prompt});
    } else {
      later[rank - 1]->left(prompt, from(rank - 1));
    }
  }

  std::optional<Engine> engine;
  std::vector<std::unique_ptr<LaterLayers>> later;
  std::map<int64_t, std::vector<int64_t>> tokens;
  std::map<int64_t, std::string> ends;
  ToyShard& shard(size_t i) { return *shards_[i]; }

 private:
  Engine::Tell tell() {
    return [this](const EngineEvent& event) {
      if (event.kind == StepKind::kToken) {
        tokens[event.id].push_back(event.token);
      } else {
        ends[event.id] = event.kind == StepKind::kFailed ? event.message : "end";
      }
    };
  }
  LaterLayers::Say from(size_t i) {
    return [this, i](const ShardMessage& message) { give(i + 1, message); };
  }
  // To the later rank of that number, behind the last one to the first.
  void give(size_t to, const ShardMessage& message) {
    if (to == later.size()) {
      EXPECT_TRUE(engine->arrive(decode_shard_message(encode(message)).value(), tell()));
      return pass_on();
    }
    const Status taken = later[to]->take(encode(message), from(to));
    EXPECT_TRUE(taken) << (taken ? "" : taken.error().text());
  }

  ManualClock clock_;
  std::vector<std::unique_ptr<ToyShard>> shards_;
};

std::map<int64_t, std::vector<int64_t>> answers(int64_t shards, double temperature) {
  Ring ring(shards);
  for (int64_t id = 1; id <= 5; ++id) {
    EXPECT_FALSE(ring.engine->admit(
        {.id = id,
         .tokens = std::vector<int64_t>(static_cast<size_t>(id == 5 ? 40 : id), id),
         .tokens_max = 12 + id,
         .sampling = {.temperature = temperature, .seed = id}}));
  }
  ring.run();
  EXPECT_EQ(ring.ends.size(), 5U);
  EXPECT_EQ(ring.engine->kv_bytes_used(), 0);
  for (const auto& each : ring.later) EXPECT_EQ(each->kv_bytes_used() + each->prompts(), 0);
  return ring.tokens;
}

// The likeliest tokens and drawn ones, of prompts of one token and near the model's length.
TEST(LaterLayers, TheSameTextOverAnyNumberOfRanks) {
  for (const double temperature : {0.0, 1.5}) {
    const auto alone = answers(1, temperature);
    EXPECT_EQ(alone.at(5).size(), 17U);
    for (const int64_t shards : {2, 3, 4}) EXPECT_EQ(answers(shards, temperature), alone);
  }
}

// While a pass is elsewhere the next prompt's is computed: with as many prompts as ranks all are busy.
TEST(LaterLayers, SeveralPromptsFillTheRanks) {
  Ring ring(4);
  for (int64_t id = 1; id <= 4; ++id)
    EXPECT_FALSE(ring.engine->admit({.id = id, .tokens = {1}, .tokens_max = 5}));
  int rounds = 0;
  while (ring.round()) ++rounds;
  // 20 passes through four ranks of a layer each: 20 and three more to fill, not 80.
  EXPECT_EQ(rounds, 23);
}

// Every rank counts as the first one does, by the largest shard; who leaves makes room everywhere.
TEST(LaterLayers, OneBudgetIsEnough) {
  const KvShape largest{.layers = 2, .width = 1};  // of five layers: 2, 2, 1
  Ring ring(3, 5, {.kv_bytes = largest.bytes(20), .requests_max = 4});
  const auto ask = [&](int64_t id, size_t tokens) {
    return ring.engine->admit(
        {.id = id, .tokens = std::vector<int64_t>(tokens, 1), .tokens_max = 5});
  };
  EXPECT_EQ(ask(1, 17)->why, Refusal::kTooLong);
  EXPECT_FALSE(ask(1, 6));
  EXPECT_FALSE(ask(2, 6));
  EXPECT_EQ(ask(3, 1)->why, Refusal::kBusy);
  for (int i = 0; i < 3; ++i) ring.round();
  ring.engine->cancel(1);  // its pass is at the second rank
  ring.pass_on();
  EXPECT_FALSE(ask(3, 6));
  ring.run();
  EXPECT_EQ(ring.tokens.count(1), 0U);
  EXPECT_THAT(ring.tokens[3], ElementsAre(6, 2, 4, 8, 6));
}

// Nothing stays of a front that has left, and earlier messages about its prompts are ignored.
TEST(LaterLayers, AllAreDropped) {
  Ring ring(3);
  EXPECT_FALSE(ring.engine->admit({.id = 1, .tokens = {3, 4}, .tokens_max = 9}));
  for (int i = 0; i < 5; ++i) ring.round();
  EXPECT_GT(ring.later[0]->prompts(), 0);
  std::vector<ShardMessage> said;
  for (auto& each : ring.later) {
    EXPECT_TRUE(each->take(encode({.word = ShardWord::kDropAll}),
                           [&](const ShardMessage& message) { said.push_back(message); }));
    EXPECT_EQ(each->kv_bytes_used() + each->prompts(), 0);
    EXPECT_TRUE(each->idle());
  }
  EXPECT_THAT(said, ElementsAre(ShardMessage{.word = ShardWord::kDropAll}));  // not by the last
  const ShardMessage late{
      .word = ShardWord::kLogits, .prompt = 99, .rows = 1, .numbers = std::vector<float>(10)};
  EXPECT_TRUE(ring.engine->arrive(late, [](const EngineEvent&) { FAIL(); }));
}

// Each rank has the rows of its layers; the first one counts the prompt until all have sent theirs.
TEST(LaterLayers, KeysAndValuesGoToADecodeWorker) {
  Ring ring(3);
  ManualClock clock;
  const ToyShard whole(clock, kRingLayer, toy_model(4));
  Engine decode(whole, {}, clock);
  KvIntake intake(decode);
  const Request request{.id = 9, .tokens = {3, 4}, .tokens_max = 4, .share = Share::kDecode};
  EXPECT_FALSE(decode.admit(request));
  Request prompt = request;
  prompt.share = Share::kPrefill;
  EXPECT_FALSE(ring.engine->admit(prompt));
  ring.run();
  EXPECT_THAT(ring.tokens[9], ElementsAre(7));
  const auto send = [&](std::vector<HandedOver> caches) {
    ASSERT_EQ(caches.size(), 1U);
    EXPECT_TRUE(decode.idle());
    EXPECT_TRUE(say_kv_rows(caches[0], [&](const KvMessage& rows) { return intake.take(rows); }));
  };
  EXPECT_EQ(ring.engine->requests(), 0);
  send(ring.later[1]->take_handed_over());
  send(ring.engine->take_handed_over());
  send(ring.later[0]->take_handed_over());
  std::vector<int64_t> tokens;
  decode.work_until(kNever, [&](const EngineEvent& event) {
    if (event.kind == StepKind::kToken) tokens.push_back(event.token);
  });
  EXPECT_THAT(tokens, ElementsAre(4, 8, 6));
  // In any order: the last one is done when all before are.
  ring.left(2, 1);
  EXPECT_EQ(ring.later[1]->kv_bytes_used(), 0);
  ring.left(0, 1);
  EXPECT_GT(ring.engine->kv_bytes_used(), 0);
  ring.left(1, 1);
  EXPECT_EQ(ring.engine->kv_bytes_used(), 0);
  EXPECT_EQ(ring.later[0]->kv_bytes_used() + ring.later[0]->prompts(), 0);
}

// A rank that cannot compute a layer ends the prompt, and no other.
TEST(LaterLayers, AFailureEndsThePrompt) {
  Ring ring(3);
  EXPECT_FALSE(ring.engine->admit({.id = 1, .tokens = {3, 4}, .tokens_max = 9}));
  ring.shard(1).fails = true;
  ring.run();
  EXPECT_THAT(ring.ends[1], HasSubstr("the toy is broken"));
  for (const auto& each : ring.later) EXPECT_EQ(each->prompts(), 0);
  ring.shard(1).fails = false;
  EXPECT_FALSE(ring.engine->admit({.id = 2, .tokens = {3, 4}, .tokens_max = 4}));
  ring.run();
  EXPECT_THAT(ring.tokens[2], ElementsAre(7, 4, 8, 6));
}

class Believed : public testing::Test {
 protected:
  // How the second of two ranks takes that.
  std::string refusal(const ShardMessage& message) {
    const Status taken = later_.take(encode(message), [](const ShardMessage&) {});
    return taken ? "" : taken.error().message;
  }
  static ShardMessage hidden(int64_t prompt, int64_t past, int64_t rows, int64_t room) {
    return {.prompt = prompt,
            .past = past,
            .room = room,
            .rows = rows,
            .numbers = std::vector<float>(static_cast<size_t>(rows * 4))};
  }

  ManualClock clock_;
  const model::Model model_ = toy_model();
  const ToyShard shard_{clock_, kRingLayer, model_, model::stage_slice(model_, 2, 1)};
  LaterLayers later_{shard_, 8 * 20, clock_};  // one layer of three: 20 tokens
};

TEST_F(Believed, NothingThatTheRankBeforeCannotSay) {
  EXPECT_THAT(refusal(hidden(1, 2, 1, 8)), HasSubstr("not the tokens that come next"));
  EXPECT_THAT(refusal(hidden(1, 0, 1, 21)), HasSubstr("bytes of keys and values"));
  EXPECT_THAT(refusal(hidden(1, 0, 1, 65)), HasSubstr("64 positions"));
  ShardMessage narrow = hidden(1, 0, 2, 8);
  narrow.numbers.resize(6);
  EXPECT_THAT(refusal(narrow), HasSubstr("6 numbers in 2 rows"));
  EXPECT_EQ(refusal(hidden(1, 0, 2, 8)), "");
  EXPECT_THAT(refusal(hidden(1, 0, 2, 8)), HasSubstr("out of turn"));
  EXPECT_THAT(refusal(hidden(2, 0, 2, 13)), HasSubstr("64 of 160"));
  EXPECT_TRUE(later_.work_once(kNever, [](const ShardMessage&) {}));
  EXPECT_THAT(refusal(hidden(1, 2, 1, 9)), HasSubstr("out of turn"));  // another room
  EXPECT_THAT(refusal({.word = ShardWord::kLogits, .rows = 1, .numbers = {1}}),
              HasSubstr("draws no tokens"));
  EXPECT_EQ(refusal({.word = ShardWord::kDrop, .prompt = 77}), "");
  EXPECT_THAT(refusal({.word = ShardWord::kHandOver, .prompt = 77}),
              HasSubstr("before they were read"));
  EXPECT_EQ(refusal({.word = ShardWord::kSent, .prompt = 77}), "");
  EXPECT_THAT(refusal({.word = ShardWord::kDecode, .prompt = 77}), HasSubstr("a decode worker"));
  EXPECT_FALSE(later_.take(std::span<const std::byte>(), [](const ShardMessage&) {}));
}

// A layer that would not be over in time waits for a longer window.
TEST_F(Believed, LayersKeepToTheirWindows) {
  const auto nobody = [](const ShardMessage&) {};
  EXPECT_EQ(refusal(hidden(1, 0, 2, 8)), "");
  EXPECT_TRUE(later_.work_once(clock_.now(), nobody));  // nothing is known yet
  EXPECT_EQ(refusal(hidden(1, 2, 2, 8)), "");
  EXPECT_FALSE(later_.work_once(clock_.now() + kRingLayer - SimDuration{1}, nobody));
  EXPECT_TRUE(later_.work_once(clock_.now() + kRingLayer + kRingLayer, nobody));
}

TEST(Engine, BelievesLogitsOfItsModelOnly) {
  Ring ring(2);
  const auto tell = [](const EngineEvent&) { FAIL(); };
  const auto says = [&](const ShardMessage& message) {
    return ring.engine->arrive(message, tell).error().message;
  };
  EXPECT_THAT(says({.word = ShardWord::kLogits, .rows = 1, .numbers = {1}}),
              HasSubstr("1 logits: the vocabulary has 10"));
  EXPECT_THAT(says({.word = ShardWord::kDrop}), HasSubstr("the first one's to say"));
  EXPECT_FALSE(ring.engine->arrive({}, tell));
}

// Passes under way are bounded, so that no rank and no link holds more.
TEST(Engine, KeepsFewHiddenStatesUnderWay) {
  model::Model wide = toy_model(2, 1 << 20);
  wide.hidden = 1 << 12;
  ManualClock clock;
  const ToyShard first(clock, kRingLayer, wide, model::stage_slice(wide, 2, 0));
  Engine engine(first, {}, clock);
  const auto rows = static_cast<size_t>(kAwayBytesMax / (4 << 12));
  for (int64_t id = 1; id <= 2; ++id)
    EXPECT_FALSE(engine.admit({.id = id, .tokens = std::vector<int64_t>(rows, 1)}));
  const auto silent = [](const EngineEvent&) {};
  EXPECT_EQ(engine.work_until(kNever, silent), 1);
  EXPECT_EQ(engine.take_departed().size(), 1U);
  const ShardMessage logits{
      .word = ShardWord::kLogits, .prompt = 1, .rows = 1, .numbers = std::vector<float>(10)};
  EXPECT_TRUE(engine.arrive(logits, silent));
  EXPECT_EQ(engine.work_until(kNever, silent), 1);
}

}  // namespace
}  // namespace tombolo::generate
