#include "perform/transport/driver_states.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace tombolo::transport {
namespace {

// The states that can be reached from the first one, and those that nothing follows.
template <typename State>
void check_graph(const std::vector<State>& all, const std::vector<State>& last) {
  std::set<State> reached = {all.front()};
  for (size_t i = 0; i < all.size(); ++i)
    for (const auto& each : transitions(all.front()))
      if (reached.contains(each.from)) reached.insert(each.to);
  EXPECT_EQ(reached, std::set<State>(all.begin(), all.end()));
  std::set<State> left(all.begin(), all.end());
  std::set<std::string> texts;
  for (const auto& each : transitions(all.front())) left.erase(each.from);
  EXPECT_EQ(left, std::set<State>(last.begin(), last.end()));
  for (const State state : all) {
    texts.insert(text(state));
    EXPECT_FALSE(may_follow(state, state)) << text(state);
  }
  EXPECT_EQ(texts.size(), all.size());
}

TEST(DriverStates, EveryStateIsReachedAndHasATextOfItsOwn) {
  {
    using enum ConnectionState;
    check_graph<ConnectionState>({kHandshake, kLinked, kParked, kOver}, {kOver});
  }
  {
    using enum Incoming;
    check_graph<Incoming>({kNothing, kRead, kIgnored, kGoodbye}, {kIgnored, kGoodbye});
  }
  {
    using enum Outgoing;
    check_graph<Outgoing>({kOpen, kLastWords, kShut}, {kShut});
  }
  {
    using enum Writing;
    check_graph<Writing>({kIdle, kBusy, kFailed}, {kFailed});
  }
  {
    using enum LinkState;
    check_graph<LinkState>({kDown, kUp, kParting, kEnded}, {kEnded});
  }
  {
    using enum Told;
    check_graph<Told>({kUnclaimed, kClaimed, kUp, kEnd}, {kEnd});
  }
}

TEST(DriverStates, WhatHasEndedDoesNotComeBack) {
  EXPECT_FALSE(may_follow(ConnectionState::kParked, ConnectionState::kLinked));
  EXPECT_FALSE(may_follow(ConnectionState::kHandshake, ConnectionState::kParked));
  EXPECT_FALSE(may_follow(Incoming::kGoodbye, Incoming::kIgnored));
  EXPECT_FALSE(may_follow(Outgoing::kOpen, Outgoing::kShut));
  EXPECT_FALSE(may_follow(LinkState::kDown, LinkState::kEnded));
  EXPECT_FALSE(may_follow(LinkState::kDown, LinkState::kParting));
}

using DriverStatesDeathTest = ::testing::Test;

TEST(DriverStatesDeathTest, AStepThatIsNoneEndsTheProgramAndNamesBothStates) {
  LinkState state = LinkState::kDown;
  advance(state, LinkState::kUp);
  EXPECT_EQ(state, LinkState::kUp);
  advance(state, LinkState::kEnded);
  EXPECT_DEATH(advance(state, LinkState::kDown),
               "a link that has ended became a link that is not up");
}

}  // namespace
}  // namespace tombolo::transport
