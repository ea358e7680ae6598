#include "ui/serve/lasting_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

namespace tombolo::serve {
namespace {

using generate::Refusal;
using generate::Refused;
using ::testing::HasSubstr;

constexpr SimDuration kMoment{20'000'000};
constexpr SimDuration kLong{60'000'000'000};  // a hang is a failure

// Gives these tokens and waits then; its answers are lost when it goes.
struct Script {
  std::vector<int64_t> tokens;
  bool ends = false;  // with kLength
  std::optional<Refused> refuses = {};
  bool may_return = true;
};

class Scripted final : public Backend {
 public:
  explicit Scripted(Script script) : script_(std::move(script)) {}
  tl::expected<std::unique_ptr<Answer>, Refused> admit(generate::Request) override {
    if (script_.refuses) return tl::unexpected(*script_.refuses);
    return std::make_unique<Said>(*this);
  }
  bool alive() const override { return !gone_; }
  std::string end() const override { return "the scripted one has gone"; }
  bool may_return() const override { return script_.may_return; }
  void hang_up() override { gone_ = true; }

 private:
  class Said final : public Answer {
   public:
    explicit Said(const Scripted& by) : by_(by) {}
    Step next(SimDuration) override {
      const Script& script = by_.script_;
      if (at_ < script.tokens.size())
        return {.kind = StepKind::kToken, .token = script.tokens[at_++]};
      if (by_.gone_) return {.kind = StepKind::kLost, .message = "It has gone."};
      if (script.ends) return {.kind = StepKind::kLength};
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return {};
    }

   private:
    const Scripted& by_;
    size_t at_ = 0;
  };

  const Script script_;
  std::atomic<bool> gone_{false};
};

class Lasts : public testing::Test {
 protected:
  // The first one of these computes; another one comes each time that `come` is called.
  void start(std::deque<Script> scripts, SimDuration patience = kLong,
             SimDuration prompt_patience = kLong) {
    scripts_ = std::move(scripts);
    backend_ = std::make_unique<LastingBackend>(
        next(), [this](SimDuration, const std::atomic<bool>&) { return open(); },
        LastingOptions{
            .patience = patience, .prompt_patience = prompt_patience, .pause = {1'000'000}},
        clock_);
  }
  void TearDown() override { backend_.reset(); }  // it may still be opening the next one
  void go() { now_.load()->hang_up(); }
  void come() { comes_ = true; }
  std::unique_ptr<Answer> ask() {
    auto answer = backend_->admit({.id = 1, .tokens = {1}, .tokens_max = 9});
    EXPECT_TRUE(answer) << answer.error().message;
    return answer ? std::move(*answer) : nullptr;
  }
  // The next step that is not kWaiting.
  static Step step(Answer& answer) {
    for (;;) {
      if (Step out = answer.next(kMoment); out.kind != StepKind::kWaiting) return out;
    }
  }
  static int64_t token(Answer& answer) {
    const Step out = step(answer);
    EXPECT_EQ(out.kind, StepKind::kToken) << out.message;
    return out.token;
  }
  template <class Holds>
  static void await(const Holds& holds) {
    while (!holds()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  SystemClock clock_;
  std::unique_ptr<LastingBackend> backend_;

 private:
  std::unique_ptr<Backend> next() {
    auto out = std::make_unique<Scripted>(std::move(scripts_.front()));
    scripts_.pop_front();
    now_ = out.get();
    return out;
  }
  Result<std::unique_ptr<Backend>> open() {
    if (!comes_.exchange(false)) return failed("nobody is there");
    return next();
  }

  std::deque<Script> scripts_;
  std::atomic<Scripted*> now_{nullptr};
  std::atomic<bool> comes_{false};
};

TEST_F(Lasts, APromptOfWhichNothingWasReadIsAskedAgain) {
  start({{.tokens = {}}, {.tokens = {7, 8}, .ends = true}});
  const auto answer = ask();
  EXPECT_EQ(answer->next(kMoment).kind, StepKind::kWaiting);
  go();
  await([&] { return !backend_->ready(); });
  EXPECT_TRUE(backend_->alive());
  EXPECT_EQ(answer->next(kMoment).kind, StepKind::kWaiting);
  come();
  EXPECT_EQ(token(*answer), 7);
  EXPECT_EQ(token(*answer), 8);
  EXPECT_EQ(step(*answer).kind, StepKind::kLength);
  EXPECT_TRUE(backend_->ready());
}

// Tokens that were given are not given again, and what is committed is not begun again.
TEST_F(Lasts, AnAnswerGoesOnWhereItWas) {
  start({{.tokens = {7, 8}}, {.tokens = {7, 8, 9}}, {.tokens = {7, 8, 9}}});
  const auto answer = ask();
  EXPECT_EQ(token(*answer), 7);
  EXPECT_EQ(token(*answer), 8);
  go();
  come();
  EXPECT_EQ(token(*answer), 9);
  answer->commit();
  go();
  come();
  EXPECT_EQ(step(*answer).kind, StepKind::kLost);
}

TEST_F(Lasts, AnAnswerThatBecomesAnotherOneFails) {
  for (const Script& other : {Script{.tokens = {6}}, Script{.tokens = {}, .ends = true}}) {
    start({{.tokens = {7}}, other});
    const auto answer = ask();
    EXPECT_EQ(token(*answer), 7);
    go();
    come();
    const Step end = step(*answer);
    EXPECT_EQ(end.kind, StepKind::kFailed);
    EXPECT_THAT(end.message, HasSubstr("another one"));
  }
}

TEST_F(Lasts, NobodyIsAdmittedMeanwhile) {
  start({{.tokens = {7}}, {.tokens = {7}}});
  go();
  const auto refused = backend_->admit({.id = 1, .tokens = {1}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().why, Refusal::kBusy);
  EXPECT_FALSE(backend_->ready());
  come();
  await([&] { return backend_->ready(); });
  EXPECT_EQ(token(*ask()), 7);
}

// The next one has its own gaps and memory.
TEST_F(Lasts, ARefusalOfTheNextOneEndsAPrompt) {
  start({{.tokens = {}}, {.tokens = {}, .refuses = Refused{Refusal::kBusy, "no gaps"}}});
  const auto answer = ask();
  go();
  come();
  const Step end = step(*answer);
  EXPECT_EQ(end.kind, StepKind::kLost);
  EXPECT_THAT(end.message, HasSubstr("no gaps"));
}

TEST_F(Lasts, APromptWaitsForSoLong) {
  start({{.tokens = {}}}, kLong, kMoment);
  const auto answer = ask();
  go();
  EXPECT_EQ(step(*answer).kind, StepKind::kLost);
  EXPECT_TRUE(backend_->alive());
}

TEST_F(Lasts, TheEndComesWhereNobodyReturns) {
  start({{.tokens = {}}}, kMoment);
  const auto answer = ask();
  go();
  EXPECT_EQ(step(*answer).kind, StepKind::kLost);
  await([&] { return !backend_->alive(); });
  EXPECT_THAT(backend_->end(), HasSubstr("the scripted one has gone, and was not back within"));
  EXPECT_THAT(backend_->end(), HasSubstr("nobody is there"));
  EXPECT_FALSE(backend_->admit({.id = 2, .tokens = {1}}));
}

TEST_F(Lasts, TheEndComesAtOnceWhereNobodyMayReturn) {
  start({{.tokens = {}, .may_return = false}});
  go();
  await([&] { return !backend_->alive(); });
  EXPECT_EQ(backend_->end(), "the scripted one has gone");
}

}  // namespace
}  // namespace tombolo::serve
