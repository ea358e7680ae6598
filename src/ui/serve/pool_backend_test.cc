#include "ui/serve/pool_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/fake_backend.h"

namespace tombolo::serve {
namespace {

using generate::Refusal;
using generate::Refused;
using ::testing::ElementsAre;

constexpr SimDuration kInstant{1'000'000};

// Three fakes, of which each says its own number.
class Pool : public testing::Test {
 protected:
  Pool() {
    std::vector<std::unique_ptr<Backend>> all;
    for (int64_t i = 0; i < 3; ++i) {
      auto fake = std::make_unique<FakeBackend>();
      fake->says = {i};
      fakes_.push_back(fake.get());
      all.push_back(std::move(fake));
    }
    pool_ = std::make_unique<PoolBackend>(std::move(all));
  }
  std::unique_ptr<Answer> ask() {
    auto answer = pool_->admit({.tokens = {1}, .tokens_max = 2});
    return answer ? std::move(*answer) : nullptr;
  }
  // How many each was asked for.
  std::vector<size_t> asked() const {
    std::vector<size_t> out;
    for (const FakeBackend* fake : fakes_) out.push_back(fake->requests().size());
    return out;
  }

  std::vector<FakeBackend*> fakes_;
  std::unique_ptr<PoolBackend> pool_;
};

TEST_F(Pool, TheIdlestIsAskedFirst) {
  auto a = ask(), b = ask(), c = ask(), d = ask();
  EXPECT_THAT(asked(), ElementsAre(2, 1, 1));
  EXPECT_EQ(b->next(kInstant).token, 1);
  b.reset();
  auto e = ask();
  EXPECT_THAT(asked(), ElementsAre(2, 2, 1));
  EXPECT_EQ(e->next(kInstant).token, 1);
}

TEST_F(Pool, WhoHasNoRoomIsPassedOver) {
  fakes_[0]->refuses = Refused{Refusal::kBusy, "no gaps"};
  EXPECT_EQ(ask()->next(kInstant).token, 1);
  fakes_[1]->refuses = fakes_[2]->refuses = Refused{Refusal::kBusy, "full"};
  const auto refused = pool_->admit({.tokens = {1}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "no gaps");
  fakes_[0]->refuses = Refused{Refusal::kTooLong, "long"};
  EXPECT_EQ(pool_->admit({.tokens = {1}}).error().why, Refusal::kTooLong);
}

// Once, and nothing that its reader has.
TEST_F(Pool, WhatIsLostIsAskedOfAnother) {
  fakes_[0]->lost_after = 0;
  const auto answer = ask();
  EXPECT_EQ(answer->next(kInstant).kind, StepKind::kWaiting);
  EXPECT_EQ(answer->next(kInstant).token, 1);
  fakes_[2]->lost_after = 0;
  const auto twice = ask();
  EXPECT_EQ(twice->next(kInstant).kind, StepKind::kWaiting);
  EXPECT_EQ(twice->next(kInstant).kind, StepKind::kLost);
  fakes_[0]->lost_after = 1;
  const auto begun = ask();
  EXPECT_EQ(begun->next(kInstant).token, 0);
  EXPECT_EQ(begun->next(kInstant).kind, StepKind::kLost);
}

TEST_F(Pool, AnswersAsLongAsOneDoes) {
  fakes_[0]->die();
  fakes_[1]->die();
  EXPECT_TRUE(pool_->alive());
  EXPECT_TRUE(pool_->ready());
  EXPECT_EQ(pool_->end(), "");
  EXPECT_EQ(ask()->next(kInstant).token, 2);
  fakes_[2]->die();
  EXPECT_FALSE(pool_->alive());
  EXPECT_EQ(pool_->end(), "the fake has gone; the fake has gone; the fake has gone");
}

}  // namespace
}  // namespace tombolo::serve
