// Spares and the launcher's listener, over loopback.
#include "perform/run/spare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <set>

#include "perform/join/control_message.h"
#include "perform/run/workers.h"
#include "perform/transport/receive_timeout.h"
#include "support/ocean_sockets.h"
#include "support/own_process.h"

namespace tombolo::run {
namespace {

using testing::HasSubstr;
using Seat = Result<std::optional<int32_t>>;

constexpr SimDuration kSecond{1'000'000'000};

bool is_over(const std::future<Seat>& spare) {
  return spare.wait_for(std::chrono::milliseconds(5)) == std::future_status::ready;
}

class SpareTest : public testing::Test {
 protected:
  // At the same port every time.
  std::unique_ptr<Workers> listen() {
    auto workers =
        Workers::listen({.ranks = 4, .at = {"127.0.0.1", port_}, .token = token_}, clock_);
    CHECK(workers, "{}", workers.error().text());
    port_ = (*workers)->port();
    return std::move(*workers);
  }
  std::future<Seat> wait(const std::string& datacenter, SimDuration patience = kSecond * 20,
                         int32_t seat = -1) {
    SpareOptions options{.start = {.ranks = 4,
                                   .launcher = {"127.0.0.1", port_},
                                   .token = token_,
                                   .join_max = patience},
                         .datacenter = datacenter,
                         .seat = seat,
                         .asked_to_end = [this] { return ends_.load(); }};
    return std::async(std::launch::async,
                      [options, this] { return wait_for_seat(options, clock_); });
  }
  // Until a spare takes it.
  void give(Workers& workers, int32_t rank, const std::string& datacenter) {
    const SimTime deadline = clock_.now() + kSecond * 20;
    while (!workers.give_seat(rank, datacenter)) {
      ASSERT_LT(clock_.now(), deadline);
      clock_.sleep_until(clock_.now() + SimDuration{5'000'000});
    }
  }

  SystemClock clock_;
  const link::Token token_ = *link::Token::random();
  uint16_t port_ = 0;
  std::atomic<bool> ends_ = false;
};

TEST_F(SpareTest, ASeatGoesToASpareOfItsDatacenter) {
  const auto launcher = listen();
  EXPECT_FALSE(launcher->give_seat(2, "paris")) << "nobody waits";
  auto oregon = wait("oregon"), paris = wait("paris");
  give(*launcher, 2, "paris");
  EXPECT_EQ(*paris.get(), 2);
  EXPECT_FALSE(launcher->give_seat(3, "paris")) << "there is none of paris any more";
  give(*launcher, 0, "oregon");
  EXPECT_EQ(*oregon.get(), 0);
}

TEST_F(SpareTest, OneThatDoesNotSayWhereItIsTakesAnySeat) {
  const auto launcher = listen();
  auto anywhere = wait("");
  give(*launcher, 3, "paris");
  EXPECT_EQ(*anywhere.get(), 3);
}

// A process that returned while another one had its rank.
TEST_F(SpareTest, OneWhoseSeatItWasTakesThatAlone) {
  const auto launcher = listen();
  auto owner = wait("", kSecond * 20, 2);
  auto anywhere = wait("");
  give(*launcher, 2, "paris");  // one of them is here by now; the other one soon
  const auto both = [&] { return is_over(owner) && is_over(anywhere); };
  const SimTime deadline = clock_.now() + kSecond * 20;
  while (!both() && clock_.now() < deadline)
    static_cast<void>(launcher->give_seat(is_over(owner) ? 3 : 2, "paris", is_over(anywhere)));
  EXPECT_EQ(*owner.get(), 2);
  EXPECT_THAT(*anywhere.get(), testing::AnyOf(2, 3));
}

// The next epoch's launcher has the same address; all that wait call it.
TEST_F(SpareTest, WaitsAtTheNextLauncherToo) {
  auto launcher = listen();
  std::vector<std::future<Seat>> spares;
  for (int i = 0; i < 3; ++i) spares.push_back(wait("oregon"));
  const auto until_seated = [&](int64_t wanted) {
    const SimTime deadline = clock_.now() + kSecond * 20;
    while (std::count_if(spares.begin(), spares.end(), is_over) < wanted) {
      ASSERT_LT(clock_.now(), deadline);
    }
  };
  give(*launcher, 0, "oregon");
  until_seated(1);
  launcher.reset();
  launcher = listen();
  give(*launcher, 1, "oregon");
  until_seated(2);
  launcher->tell_spares(join::Stop{.reason = "rank 1 was lost", .again = true});
  launcher.reset();
  launcher = listen();
  give(*launcher, 2, "oregon");
  std::set<int32_t> seats;
  for (auto& spare : spares) seats.insert(**spare.get());
  EXPECT_EQ(seats, (std::set<int32_t>{0, 1, 2}));
}

TEST_F(SpareTest, EndsWithTheRunOrWhenItIsAsked) {
  const auto launcher = listen();
  auto first = wait("oregon"), second = wait("oregon");
  give(*launcher, 0, "oregon");  // one of them is there, the other one soon
  while (!is_over(first) && !is_over(second)) continue;
  auto& other = is_over(first) ? second : first;
  const SimTime deadline = clock_.now() + kSecond * 20;
  while (!is_over(other) && clock_.now() < deadline) launcher->tell_spares(state::Over{});
  EXPECT_EQ(*other.get(), std::nullopt);
  auto third = wait("oregon");
  ends_ = true;
  EXPECT_EQ(*third.get(), std::nullopt);
}

TEST_F(SpareTest, SaysThatThereIsNoRun) {
  port_ = listen()->port();  // and not any more
  const Seat seat = wait("oregon", SimDuration{300'000'000}).get();
  ASSERT_FALSE(seat);
  EXPECT_THAT(seat.error().text(),
              HasSubstr(fmt::format("no run at 127.0.0.1:{}: no answer for 0.3 s", port_)));
}

// One call of a spare: how it goes, and what the launcher says then.
struct Call {
  Status linked, sent;
  std::vector<join::ControlMessage> says;  // after these it is gone
  SimDuration after{};                     // and so long after the call
};

class ScriptedEndpoint final : public transport::Endpoint {
 public:
  ScriptedEndpoint(Call call, Clock& clock)
      : call_(std::move(call)), clock_(clock), until_(clock.now() + call_.after) {}
  uint16_t port() const override { return 1; }
  Status connect(int32_t, const std::string&, uint16_t, const link::LinkShape&, SimTime) override {
    return call_.linked;
  }
  Status send(int32_t, link::Tag, link::Payload, link::Urgency) override { return call_.sent; }
  Result<Came> receive_any(std::span<const Awaited> wanted, SimTime deadline) override {
    clock_.sleep_until(std::min(deadline, until_));
    if (clock_.now() < until_)
      return fail(transport::receive_timeout(wanted.front().peer, wanted.front().tag));
    if (said_ == call_.says.size()) return fail({ErrorCode::kLostPeer, "it is gone", {}, {}});
    return Came{0, {.payload = join::encode(call_.says[said_++])}};
  }
  Status await_peer(int32_t, const link::LinkShape&, SimTime) override { return {}; }
  Status meet(int32_t, const std::string&, uint16_t, const link::LinkShape&, SimTime) override {
    return {};
  }
  void welcome_all(link::Tag) override {}
  Result<News> next(SimTime) override { return failed("there is no news"); }
  uint64_t queued_bytes() const override { return 0; }
  std::vector<link::LinkStatistics> statistics() override { return {}; }
  Status flush(SimTime) override { return {}; }
  void abort(Error) override {}
  Status close(SimTime) override { return {}; }

 private:
  const Call call_;
  Clock& clock_;
  const SimTime until_;
  size_t said_ = 0;
};

// What becomes of a spare whose calls go like these, one after the other.
class Script final : public transport::Sockets {
 public:
  explicit Script(std::vector<Call> calls) : calls_(std::move(calls)) {}
  Result<std::unique_ptr<transport::Endpoint>> open(transport::Endpoint::Options,
                                                    Clock& clock) override {
    CHECK(opened_ < calls_.size(), "it calls a {}th time", opened_ + 1);
    return std::make_unique<ScriptedEndpoint>(calls_[opened_++], clock);
  }
  bool takes_connections(const transport::Address&, SimDuration) override { return true; }
  Seat play(SpareOptions options = {}) {
    ManualClock clock;
    options.start = {.ranks = 4, .token = *link::Token::random()};
    options.sockets = this;
    return wait_for_seat(options, clock);
  }
  size_t opened() const { return opened_; }

 private:
  const std::vector<Call> calls_;
  size_t opened_ = 0;
};

Status gone() { return fail({ErrorCode::kLostPeer, "it is gone", {}, {}}); }

// At every point of a call the launcher may go away, for the next epoch or for a while.
TEST(ScriptedSpare, CallsAgainWheneverTheLauncherGoesAway) {
  Script script({{.linked = gone()},
                 {.sent = gone()},
                 {},
                 {.says = {join::Stop{.reason = "rank 1 was lost", .again = true}}},
                 {.says = {join::VacantRank{3}}}});
  EXPECT_EQ(*script.play(), 3);
  EXPECT_EQ(script.opened(), 5u);
}

// However long it has waited there before.
TEST(ScriptedSpare, CallsAgainAfterHours) {
  const join::Stop again{.reason = "rank 1 was lost", .again = true};
  Script script({{.says = {again}, .after = kSecond * 7200}, {.says = {join::VacantRank{3}}}});
  EXPECT_EQ(*script.play(), 3);
}

TEST(ScriptedSpare, IsDoneWhenTheRunIs) {
  EXPECT_EQ(*Script({{.says = {state::Over{}}}}).play(), std::nullopt);
  EXPECT_EQ(*Script({{.says = {join::Stop{.reason = "the run failed"}}}}).play(), std::nullopt);
}

TEST(ScriptedSpare, BelievesNoSeatThatThePlanLacks) {
  EXPECT_EQ(Script({{.says = {join::VacantRank{4}}}}).play().error().message,
            "the launcher offered rank 4 of 4");
}

// It comes in the moment in which the run ends.
TEST_F(SpareTest, WhoComesAfterTheLastWordHearsIt) {
  const auto launcher = listen();
  launcher->tell_spares(state::Over{});
  EXPECT_EQ(*wait("oregon").get(), std::nullopt);
}

// Its rank was taken while it was away; the host is as good as any other spare's.
TEST(ScriptedSpare, OneThatHadARankTakesAnotherOfItsDatacenter) {
  const auto offered = [](const std::string& datacenter, int32_t rank) {
    Script script({{.says = {join::VacantRank{rank}}}});
    return script.play({.datacenter = datacenter, .seat = 2});
  };
  EXPECT_EQ(*offered("paris", 2), 2);
  EXPECT_EQ(*offered("paris", 3), 3);
  EXPECT_EQ(*offered("", 2), 2);
  EXPECT_EQ(offered("", 3).error().message, "the launcher offered rank 3 of 4");
}

// Who waits says for what, and the launcher then offers rank 2 of paris, again and again.
std::string order_of(std::vector<join::Waiting> all, bool owner_first) {
  return ocean::in_a_process([&]() -> std::string {
    auto* ocean = new ocean::Ocean(1);  // kept: threads are parked in it
    auto* sea = new ocean::Sea(*ocean);
    const link::Token token = *link::Token::parse("000102030405060708090a0b0c0d0e0f");
    std::string order;
    bool is_done = false;
    for (size_t i = 0; i < all.size(); ++i) {
      ocean->start(0, [&, i](ocean::Waters& waters) {
        ocean::OceanSockets sockets(*sea, waters);
        waters.sleep_until(waters.now() + kSecond);
        auto endpoint = *sockets.open({.identity = {.rank = 5 + static_cast<int32_t>(i),
                                                    .ranks = ranks_with_spares(4),
                                                    .token = token}},
                                      waters);
        CHECK(endpoint->connect(4, "127.0.0.1", 29500, {}, waters.now() + kSecond), "no launcher");
        CHECK(endpoint->send(4, join::kControlTag, join::encode(all[i])), "not sent");
        if (endpoint->receive(4, join::kControlTag, kNever)) order += fmt::format("{} ", i);
        waters.sleep_until(kNever);
        return 0;
      });
    }
    ocean->start(0, [&](ocean::Waters& waters) {
      ocean::OceanSockets sockets(*sea, waters);
      const auto workers = Workers::listen(
          {.ranks = 4, .at = {"127.0.0.1", 29500}, .token = token, .sockets = &sockets}, waters);
      waters.sleep_until(waters.now() + kSecond * 5);  // all wait by then
      while ((*workers)->give_seat(2, "paris", owner_first))
        waters.sleep_until(waters.now() + kSecond);
      is_done = true;
      waters.sleep_until(kNever);
      return 0;
    });
    ocean->sail([&] { return is_done; });
    return order;
  });
}

TEST(SimulatedSpares, TheOneThatHadTheRankThenSparesThenThoseThatHadAnother) {
#ifdef TOMBOLO_NO_FORKS
  GTEST_SKIP() << "under ThreadSanitizer";
#endif
  const std::vector<join::Waiting> all = {{"paris", 3}, {"paris"}, {"oregon"},    {"", 3},
                                          {"paris", 2}, {""},      {"oregon", 1}, {"", 2}};
  EXPECT_EQ(order_of(all, true), "4 7 1 5 0 ");
  EXPECT_EQ(order_of(all, false), "1 5 0 4 7 ");
}

// A process without the run's token is refused, whatever it sends.
TEST_F(SpareTest, AnotherTokenIsRefused) {
  const auto launcher = listen();
  SpareOptions stranger{.start = {.ranks = 4,
                                  .launcher = {"127.0.0.1", port_},
                                  .token = *link::Token::random(),
                                  .join_max = kSecond * 20}};
  const Seat seat = wait_for_seat(stranger, clock_);
  ASSERT_FALSE(seat);
  EXPECT_THAT(seat.error().text(), HasSubstr("token"));
}

}  // namespace
}  // namespace tombolo::run
