// Spares and the launcher's door, over loopback.
#include "perform/launch/spare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <set>

#include "perform/launch/workers.h"

namespace tombolo::launch {
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
  std::future<Seat> wait(const std::string& datacenter, SimDuration patience = kSecond * 20) {
    SpareOptions options{.start = {.ranks = 4,
                                   .launcher = {"127.0.0.1", port_},
                                   .token = token_,
                                   .join_max = patience},
                         .datacenter = datacenter,
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
  launcher->tell_spares(Stop{.reason = "rank 1 was lost", .again = true});
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
  while (!is_over(other) && clock_.now() < deadline) launcher->tell_spares(Over{});
  EXPECT_EQ(*other.get(), std::nullopt);
  auto third = wait("oregon");
  ends_ = true;
  EXPECT_EQ(*third.get(), std::nullopt);
}

TEST_F(SpareTest, SaysThatThereIsNoRun) {
  port_ = listen()->port();  // and not any more
  const Seat seat = wait("oregon", SimDuration{300'000'000}).get();
  ASSERT_FALSE(seat);
  EXPECT_THAT(
      seat.error().text(),
      HasSubstr(fmt::format("no run goes on at 127.0.0.1:{}: nobody answered for 0.3 s", port_)));
}

// Whoever is no member of the run can say what it likes.
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
}  // namespace tombolo::launch
