#include "perform/generate/kv_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "support/toy_shard.h"

namespace tombolo::generate {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Who reads the prompts, and who answers them.
class KvHandOver : public testing::Test {
 protected:
  // A request to both. The messages of its cache, once it was read.
  std::vector<KvMessage> read(Request request) {
    request.share = Share::kDecode;
    EXPECT_FALSE(decode_.admit(request));
    request.share = Share::kPrefill;
    EXPECT_FALSE(prefill_.admit(request));
    prefill_.work_until(kNever, ear());
    std::vector<KvMessage> out;
    for (const HandedOver& each : prefill_.take_handed_over()) {
      EXPECT_TRUE(say_kv_rows(each, [&](KvMessage message) {
        out.push_back(std::move(message));
        return Status{};
      }));
      prefill_.release(each.number);
    }
    return out;
  }
  Engine::Tell ear() {
    return [this](const EngineEvent& event) {
      if (event.kind == StepKind::kToken) tokens_.push_back(event.token);
      last_ = event.kind;
    };
  }

  ManualClock clock_;
  ToyShard shard_{clock_, SimDuration{1000}};
  Engine prefill_{shard_, {}, clock_}, decode_{shard_, {}, clock_};
  KvIntake intake_{decode_};
  std::vector<int64_t> tokens_;
  StepKind last_ = StepKind::kToken;
};

// 3 + 4 = 7 is the first token; those behind it are of who has the rows. Three layers of two messages.
TEST_F(KvHandOver, AnswersAsOneEngineWould) {
  const auto messages = read({.id = 5, .tokens = {3, 4}, .tokens_max = 4});
  EXPECT_THAT(tokens_, ElementsAre(7));
  EXPECT_TRUE(prefill_.idle());
  EXPECT_EQ(prefill_.kv_bytes_used(), 0);
  ASSERT_EQ(messages.size(), 6U);
  for (const KvMessage& message : messages) {
    EXPECT_TRUE(decode_.idle());
    ASSERT_TRUE(intake_.take(message));
  }
  EXPECT_EQ(decode_.work_until(kNever, ear()), 9);  // three passes: the first token was given
  EXPECT_THAT(tokens_, ElementsAre(7, 4, 8, 6));
  EXPECT_EQ(last_, StepKind::kLength);
  EXPECT_EQ(decode_.kv_bytes_used(), 0);
}

// An answer whose tokens are drawn continues from the state of its generator.
TEST(SkipSample, LeavesTheGeneratorAsASampleDoes) {
  const std::vector<float> logits = {0.1F, 0.2F, 0.3F};
  for (const double temperature : {0.0, 0.7}) {
    Random sampled(3), skipped(3);
    ASSERT_TRUE(sample(logits, {.temperature = temperature, .top_p = 0.9}, sampled));
    skip_sample({.temperature = temperature, .top_p = 0.9}, skipped);
    EXPECT_EQ(sampled.next(), skipped.next());
  }
}

// Where the first token is the last, or the end, nothing is handed over.
TEST_F(KvHandOver, NothingAfterTheEnd) {
  EXPECT_FALSE(
      prefill_.admit({.id = 1, .tokens = {3, 4}, .tokens_max = 1, .share = Share::kPrefill}));
  EXPECT_FALSE(prefill_.admit(
      {.id = 2, .tokens = {3, 4}, .tokens_max = 9, .stop = {7}, .share = Share::kPrefill}));
  prefill_.work_until(kNever, ear());
  EXPECT_TRUE(prefill_.take_handed_over().empty());
  EXPECT_EQ(prefill_.kv_bytes_used(), 0);
  const auto refused =
      decode_.admit({.id = 3, .tokens = {3}, .tokens_max = 1, .share = Share::kDecode});
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->why, Refusal::kInvalid);
}

TEST_F(KvHandOver, RowsOfACancelledPromptAreDropped) {
  const auto messages = read({.id = 5, .tokens = {3, 4}, .tokens_max = 4});
  ASSERT_TRUE(intake_.take(messages[0]));
  decode_.cancel(5);
  EXPECT_EQ(decode_.kv_bytes_used(), 0);
  for (const KvMessage& message : messages) EXPECT_TRUE(intake_.take(message));
  EXPECT_TRUE(decode_.idle());
}

TEST_F(KvHandOver, BelievesNothing) {
  const auto messages = read({.id = 5, .tokens = {3, 4}, .tokens_max = 4});
  const auto refuses = [&](KvMessage message, const char* why) {
    const Status status = intake_.take(message);
    ASSERT_FALSE(status);
    EXPECT_THAT(status.error().message, HasSubstr(why));
  };
  const auto with = [&](size_t at, uint32_t value) {
    KvMessage out = messages[0];
    std::memcpy(out.data() + at, &value, sizeof value);
    return out;
  };
  refuses({}, "too short");
  refuses(KvMessage(kKvMessageMax + 1), "too long");
  refuses(with(0, 1), "something else");
  refuses(with(16, 3), "another prompt's");
  refuses(with(24, (1U << 31) + 1), "tokens out of range");
  refuses(with(32, 4), "another model's");
  refuses(with(36, 3), "a layer out of range");
  refuses(with(40, 2), "another length");
  refuses(with(44, 3), "rows out of range");
  refuses(with(44, 0xFFFFFFFF), "rows out of range");
  refuses(messages[1], "out of order");
  ASSERT_TRUE(intake_.take(messages[0]));
  refuses(messages[0], "out of order");
  refuses(with(24, 8), "another first token");
}

// A first token that is none is noticed with the last row.
TEST_F(KvHandOver, BelievesNoFirstToken) {
  auto messages = read({.id = 5, .tokens = {3, 4}, .tokens_max = 4});
  for (KvMessage& message : messages) message[24] = std::byte{10};
  for (size_t i = 0; i + 1 < messages.size(); ++i) ASSERT_TRUE(intake_.take(messages[i]));
  const Status last = intake_.take(messages.back());
  ASSERT_FALSE(last);
  EXPECT_THAT(last.error().message, HasSubstr("the vocabulary has 10"));
}

// As from several ranks, whose links are not ordered.
TEST_F(KvHandOver, LayersComeInAnyOrder) {
  const auto messages = read({.id = 5, .tokens = {3, 4}, .tokens_max = 4});
  for (const size_t i : {4, 0, 2, 3, 5, 1}) {
    EXPECT_TRUE(decode_.idle());
    ASSERT_TRUE(intake_.take(messages[i]));
  }
  decode_.work_until(kNever, ear());
  EXPECT_THAT(tokens_, ElementsAre(7, 4, 8, 6));
}

}  // namespace
}  // namespace tombolo::generate
