#include "predict/engine/event_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "base/random.h"

namespace tombolo::engine {
namespace {

TEST(EventQueue, GivesEventsInOrderOfTime) {
  EventQueue queue;
  queue.push({30}, 1, 3);
  queue.push({10}, 1, 1);
  queue.push({20}, 1, 2);
  EXPECT_EQ(queue.next_time(), SimTime{10});
  EXPECT_EQ(queue.pop().subject, 1u);
  EXPECT_EQ(queue.pop().subject, 2u);
  EXPECT_EQ(queue.now(), SimTime{20});
  EXPECT_EQ(queue.pop().subject, 3u);
  EXPECT_TRUE(queue.empty());
}

TEST(EventQueue, EventsOfOneInstantComeInTheOrderTheyWerePushed) {
  EventQueue queue;
  for (uint64_t i = 0; i < 100; ++i) queue.push({5}, 0, i);
  EXPECT_EQ(queue.pop().subject, 0u);
  queue.push({5}, 0, 100);  // pushed while the instant is under way: comes last
  for (uint64_t i = 1; i <= 100; ++i) EXPECT_EQ(queue.pop().subject, i);
}

// Oracle: a stable sort by time of everything that was pushed.
TEST(EventQueue, AgreesWithAStableSort) {
  Random random(7);
  EventQueue queue;
  std::vector<std::pair<int64_t, uint64_t>> expected;
  for (uint64_t i = 0; i < 2000; ++i) {
    const auto time = static_cast<int64_t>(random.below(50));
    queue.push({time}, 0, i);
    expected.emplace_back(time, i);
  }
  std::stable_sort(expected.begin(), expected.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [time, subject] : expected) {
    const Event event = queue.pop();
    ASSERT_EQ(std::tuple(event.time.ns, event.subject), std::tuple(time, subject));
  }
  EXPECT_EQ(queue.popped(), 2000u);
}

// Pushed while others are popped, near and far, and often at this very instant.
TEST(EventQueue, AgreesWithAStableSortWhileItIsWorkedOff) {
  Random random(8);
  EventQueue queue;
  std::vector<std::pair<int64_t, uint64_t>> waiting;
  const auto push = [&](uint64_t subject) {
    const uint64_t digits = random.below(40);
    const auto ahead = static_cast<int64_t>(random.below(uint64_t{1} << digits));
    const SimTime time{queue.now().ns + (random.below(4) == 0 ? 0 : ahead)};
    queue.push(time, 0, subject);
    const std::pair entry{time.ns, subject};
    waiting.insert(std::upper_bound(waiting.begin(), waiting.end(), entry,
                                    [](const auto& a, const auto& b) { return a.first < b.first; }),
                   entry);
  };
  uint64_t subject = 0;
  for (int step = 0; step < 20000; ++step) {
    if (waiting.empty() || (waiting.size() < 300 && random.below(2) == 0)) {
      push(subject++);
      continue;
    }
    ASSERT_EQ(queue.next_time().ns, waiting[0].first);
    const Event event = queue.pop();
    ASSERT_EQ(std::pair(event.time.ns, event.subject), waiting[0]) << "step " << step;
    waiting.erase(waiting.begin());
    ASSERT_EQ(queue.size(), waiting.size());
  }
}

TEST(EventQueue, LookingAheadDoesNotCloseTheTimeBetween) {
  EventQueue queue;
  queue.push({1'000'000}, 0, 1);
  EXPECT_EQ(queue.next_time(), SimTime{1'000'000});
  queue.push({3}, 0, 2);
  EXPECT_EQ(queue.next_time(), SimTime{3});
  EXPECT_EQ(queue.pop().subject, 2u);
  queue.push({999'999}, 0, 3);
  EXPECT_EQ(queue.pop().subject, 3u);
  EXPECT_EQ(queue.pop().subject, 1u);
}

TEST(EventQueue, HoldsTheEndOfTime) {
  EventQueue queue;
  queue.push({INT64_MAX}, 0, 1);
  queue.push({INT64_MAX - 1}, 0, 2);
  queue.push({0}, 0, 3);
  EXPECT_EQ(queue.pop().subject, 3u);
  EXPECT_EQ(queue.pop().subject, 2u);
  EXPECT_EQ(queue.pop().subject, 1u);
}

std::string fingerprint_of(std::vector<Event> events) {
  EventQueue queue;
  for (const Event& event : events) queue.push(event.time, event.kind, event.subject);
  while (!queue.empty()) queue.pop();
  return queue.fingerprint();
}

TEST(EventQueue, TheFingerprintSeesTimeKindSubjectAndOrder) {
  const std::string one = fingerprint_of({{{1}, 0, 1, 1}, {{2}, 0, 2, 2}});
  EXPECT_EQ(one.size(), 16u);
  EXPECT_EQ(one, fingerprint_of({{{2}, 0, 2, 2}, {{1}, 0, 1, 1}}));  // same order of happening
  EXPECT_NE(one, fingerprint_of({{{1}, 0, 1, 1}, {{3}, 0, 2, 2}}));
  EXPECT_NE(one, fingerprint_of({{{1}, 0, 1, 1}, {{2}, 0, 3, 2}}));
  EXPECT_NE(one, fingerprint_of({{{1}, 0, 1, 1}, {{2}, 0, 2, 3}}));
  EXPECT_NE(fingerprint_of({{{1}, 0, 1, 1}, {{1}, 0, 1, 2}}),
            fingerprint_of({{{1}, 0, 1, 2}, {{1}, 0, 1, 1}}));
}

TEST(EventQueueDeathTest, RefusesThePast) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EventQueue queue;
  queue.push({10}, 0, 0);
  queue.pop();
  EXPECT_DEATH(queue.push({9}, 4, 2), "kind 4 for subject 2 at 9 ns, but it is 10 ns already");
}

}  // namespace
}  // namespace tombolo::engine
