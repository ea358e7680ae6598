// Single cases; failure scenarios are in control_ocean_test.cc.
#include "perform/control/coordinator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/test_times.h"

namespace tombolo::control {
namespace {

using ::testing::HasSubstr;
using State = Coordinator::State;

class CoordinatorTest : public ::testing::Test {
 protected:
  CoordinatorTest() {
    options_.terms = {
        .beat = ms(100), .floor = ms(1000), .ceiling = ms(4000), .multiple = 8, .drift = 0};
    options_.seats = {{"rank 0 (oregon)", "oregon"}, {"rank 1 (paris)", "paris"}};
  }
  Coordinator make(SimTime now = {}) { return Coordinator(options_, journal_, now); }
  // Carries its orders out, and says which there were.
  std::string carry_out(Coordinator& coordinator) {
    std::string said;
    for (const Instruction& order : coordinator.orders()) {
      if (const auto* write = std::get_if<Write>(&order)) journal_.push_back(write->entry);
      if (const auto* begin = std::get_if<Begin>(&order))
        said += fmt::format("begin {}; ", begin->epoch);
      if (const auto* halt = std::get_if<Halt>(&order)) said += "halt: " + halt->reason + "; ";
      if (const auto* give_up = std::get_if<GiveUp>(&order)) said += "over: " + give_up->reason;
    }
    return said;
  }
  void sit(Coordinator& c, MemberId member, size_t seat, SimTime now) {
    EXPECT_TRUE(c.came(member, seat, options_.seats[seat].datacenter, now));
    c.beat(member, {.epoch = c.epoch(), .sent = now}, now);
  }

  CoordinatorOptions options_;
  std::vector<Entry> journal_;
};

TEST_F(CoordinatorTest, AllComeThenALostOneStopsAllAndTheNextEpochBegins) {
  Coordinator c = make();
  sit(c, 10, 0, at_ms(0));
  EXPECT_EQ(carry_out(c), "");
  EXPECT_EQ(c.missing(), (std::vector<std::string>{"rank 1 (paris)"}));
  sit(c, 11, 1, at_ms(0));
  EXPECT_EQ(carry_out(c), "begin 1; ");
  c.stepped(7);
  c.ended(11, "killed", at_ms(50));
  EXPECT_EQ(carry_out(c), "halt: rank 1 (paris) was lost: killed; ");
  EXPECT_EQ(c.state(), State::kStopping) << "rank 0 may still work";
  EXPECT_FALSE(c.came(12, 1, "paris", at_ms(60)));
  c.ended(10, "stopped", at_ms(80));
  EXPECT_EQ(c.state(), State::kGathering);
  sit(c, 12, 1, at_ms(90));
  sit(c, 13, 0, at_ms(90));
  EXPECT_EQ(carry_out(c), "begin 2; ");
  // run(1) of the story on disk: begun 1, lost, ended 1, begun 2.
  ASSERT_EQ(journal_.size(), 4u);
  EXPECT_EQ(journal_[3],
            (Entry{.kind = Entry::Kind::kBegun, .epoch = 2, .step = 7, .lease = ms(4000)}));
}

// Beats at 0 and 100 ms: a lease of the floor, 1 s, hence lost at 1.1 s.
TEST_F(CoordinatorTest, ASilentMemberIsLostWhenItsLeaseIsOver) {
  Coordinator c = make();
  sit(c, 10, 0, at_ms(0));
  sit(c, 11, 1, at_ms(0));
  c.beat(11, {1, at_ms(100)}, at_ms(100));
  for (int64_t t = 100; t <= 1000; t += 100) c.beat(10, {1, at_ms(t)}, at_ms(t));
  carry_out(c);
  c.tick(at_ms(1099));
  EXPECT_EQ(c.state(), State::kWorking);
  EXPECT_EQ(c.due(), at_ms(1100));
  c.tick(at_ms(1100));
  EXPECT_THAT(carry_out(c), HasSubstr("rank 1 (paris) was lost: it was silent"));
  c.tick(at_ms(1999));
  EXPECT_EQ(c.state(), State::kStopping) << "rank 0 has a lease until 2 s";
  c.tick(at_ms(2000));
  EXPECT_EQ(c.state(), State::kGathering);
}

// That it is heard does not mean that it hears: a path may be cut in one direction.
TEST_F(CoordinatorTest, NobodyWorksBeforeAllKnowThatTheyBelong) {
  Coordinator c = make();
  sit(c, 10, 0, at_ms(0));
  ASSERT_TRUE(c.came(11, 1, "paris", at_ms(0)));
  c.beat(11, {.epoch = 0, .sent = at_ms(0)}, at_ms(0));
  EXPECT_EQ(carry_out(c), "");
  EXPECT_EQ(c.state(), State::kGathering);
  c.beat(11, {.epoch = 1, .sent = at_ms(10)}, at_ms(10));
  EXPECT_EQ(carry_out(c), "begin 1; ");
}

// A rank is taken by a process of its own datacenter, and by one at a time.
TEST_F(CoordinatorTest, ASeatIsTakenOnce) {
  Coordinator c = make();
  EXPECT_FALSE(c.came(91, 0, "paris", at_ms(0)));
  sit(c, 10, 0, at_ms(0));
  EXPECT_TRUE(c.came(10, 0, "oregon", at_ms(1))) << "it asks again";
  EXPECT_FALSE(c.came(12, 0, "oregon", at_ms(1)));
  EXPECT_FALSE(c.came(10, 1, "oregon", at_ms(1))) << "it has one";
  c.ended(10, "killed", at_ms(2));
  EXPECT_THAT(carry_out(c), "") << "nobody worked";
  EXPECT_TRUE(c.came(12, 0, "oregon", at_ms(3)));
}

// It is unknown which leases the coordinator before it gave: 4 s are the longest.
TEST_F(CoordinatorTest, ARestartedCoordinatorWaitsForEveryLeaseThatThereMayBe) {
  {
    Coordinator c = make();
    sit(c, 10, 0, at_ms(0));
    sit(c, 11, 1, at_ms(0));
    carry_out(c);
  }
  Coordinator c = make(at_ms(100));
  EXPECT_EQ(c.state(), State::kFencing);
  c.beat(10, {1, at_ms(200)}, at_ms(200));
  const auto orders = c.orders();
  ASSERT_EQ(orders.size(), 1u);
  EXPECT_EQ(std::get<Answer>(orders[0]).grant.length, SimDuration{}) << "no lease";
  c.tick(at_ms(4099));
  EXPECT_EQ(c.state(), State::kFencing);
  c.tick(at_ms(4100));
  EXPECT_EQ(c.state(), State::kGathering);
  EXPECT_EQ(c.epoch(), 2u);
  carry_out(c);

  Coordinator told = make(at_ms(5000));
  told.all_ended(at_ms(5001));
  EXPECT_EQ(told.state(), State::kGathering);
  EXPECT_EQ(told.epoch(), 3u);
}

TEST_F(CoordinatorTest, LossesWithoutAStepInBetweenAreCounted) {
  options_.losses_max = 1;
  Coordinator c = make();
  const auto lose_one = [&](MemberId id, SimTime now) {
    sit(c, id, 0, now);
    sit(c, id + 1, 1, now);
    carry_out(c);
    c.ended(id, "killed", now);
    c.ended(id + 1, "stopped", now);
    return carry_out(c);
  };
  EXPECT_THAT(lose_one(10, at_ms(0)), ::testing::Not(HasSubstr("over")));
  c.stepped(1);
  EXPECT_THAT(lose_one(20, at_ms(10)), ::testing::Not(HasSubstr("over")));
  EXPECT_THAT(lose_one(30, at_ms(20)), HasSubstr("over: rank 0 (oregon) was lost: killed"));
  EXPECT_EQ(c.state(), State::kOver);
  EXPECT_EQ(journal_.back().kind, Entry::Kind::kClosed);
}

TEST_F(CoordinatorTest, WhoDoesNotComeIsNamed) {
  options_.gather_max = ms(2000);
  Coordinator c = make();
  sit(c, 10, 0, at_ms(0));
  for (int64_t t = 100; t <= 2000; t += 100) c.beat(10, {1, at_ms(t)}, at_ms(t));
  EXPECT_THAT(carry_out(c), HasSubstr("over: rank 1 (paris) did not come within 2 s"));
}

// A host that reboots for longer than one window costs windows, not the run.
TEST_F(CoordinatorTest, WhoWasThereOnceIsWaitedForAsOftenAsLossesAreBorne) {
  options_.gather_max = ms(2000);
  options_.losses_max = 2;
  Coordinator c = make();
  sit(c, 10, 0, at_ms(0));
  sit(c, 11, 1, at_ms(0));
  c.stepped(7);
  c.ended(11, "killed", at_ms(10));  // the first loss
  c.ended(10, "stopped", at_ms(10));
  EXPECT_THAT(carry_out(c), HasSubstr("begin 1; halt: rank 1 (paris) was lost: killed"));
  EXPECT_EQ(c.epoch(), 2u);
  c.tick(at_ms(2010));  // none came within two seconds: the second
  EXPECT_EQ(carry_out(c),
            "halt: rank 0 (oregon), rank 1 (paris) did not come within 2 s: 0 of 2 are here; ");
  EXPECT_EQ(c.epoch(), 3u);
  sit(c, 20, 0, at_ms(2100));
  sit(c, 21, 1, at_ms(3000));
  EXPECT_EQ(carry_out(c), "begin 3; ");
  c.stepped(8);
  c.ended(21, "killed", at_ms(3100));
  EXPECT_THAT(carry_out(c), ::testing::Not(HasSubstr("over"))) << "a step in between";
}

TEST_F(CoordinatorTest, AnOwnerMayHaltAnEpochAndNobodyIsBlamed) {
  options_.losses_max = 1;
  Coordinator c = make();
  sit(c, 10, 0, at_ms(0));
  c.halt("two ranks cannot reach each other", at_ms(10));
  EXPECT_EQ(carry_out(c), "halt: two ranks cannot reach each other; ");
  EXPECT_EQ(c.state(), State::kStopping) << "rank 0 has a lease";
  c.ended(10, "stopped", at_ms(20));
  EXPECT_EQ(c.state(), State::kGathering);
  EXPECT_EQ(c.epoch(), 2u);
  c.halt("again", at_ms(30));
  EXPECT_EQ(carry_out(c), "halt: again; over: again");
  c.halt("too late", at_ms(40));
  EXPECT_EQ(carry_out(c), "");
}

// The one before may have been told of longer leases than this one grants.
TEST_F(CoordinatorTest, ARestartedCoordinatorWaitsForTheLeasesThatTheJournalSpeaksOf) {
  {
    Coordinator c = make();
    carry_out(c);
  }
  options_.terms.ceiling = ms(2000);
  Coordinator c = make(at_ms(100));
  c.tick(at_ms(4099));
  EXPECT_EQ(c.state(), State::kFencing);
  c.tick(at_ms(4100));
  EXPECT_EQ(c.state(), State::kGathering);
}

using CoordinatorDeathTest = CoordinatorTest;

TEST_F(CoordinatorDeathTest, ItsOwnerKeepsItsPromises) {
  Coordinator c = make(at_ms(100));
  c.tick(at_ms(200));
  EXPECT_DEATH(c.tick(at_ms(199)), "it is 199000000 ns, and was 200000000 ns already");
  EXPECT_DEATH(c.came(10, 0, "oregon", at_ms(150)), "and was 200000000 ns already");
  EXPECT_DEATH(c.came(10, 2, "oregon", at_ms(200)), "rank 2 of 2");
  EXPECT_DEATH(static_cast<void>(c.seat(2)), "rank 2 of 2");
  options_.terms.drift = 0.5;
  EXPECT_DEATH(make(), "a lease with multiple 8 and drift 0.5");
  options_ = {};
  EXPECT_DEATH(make(), "a run without ranks");
}

}  // namespace
}  // namespace tombolo::control
