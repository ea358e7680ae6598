#include "perform/train/strand_executor.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <stdexcept>

namespace tombolo::train {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

// Notes in which order operators ended, each of which takes so long.
struct Story {
  std::mutex mutex;
  std::vector<std::string> told;
  std::vector<StrandOperator> operators;

  size_t add(const std::string& name, Stream stream, std::vector<size_t> after, int32_t strand = 0,
             bool async = false, std::chrono::microseconds takes = 0us) {
    operators.push_back({name, stream, strand, async, std::move(after), [this, name, takes] {
                           std::this_thread::sleep_for(takes);
                           const std::lock_guard lock(mutex);
                           told.push_back(name);
                         }});
    return operators.size() - 1;
  }
};

// Forward: A, gather, B. Backward: C, scatter (asynchronous) during W, D.
void two_strands(Story& story) {
  const size_t a = story.add("A", Stream::kCompute, {});
  const size_t gather = story.add("gather", Stream::kLocal, {a});
  story.add("B", Stream::kCompute, {gather});
  const size_t c = story.add("C", Stream::kCompute, {}, 1);
  const size_t scatter = story.add("scatter", Stream::kLocal, {c}, 1, true);
  story.add("W", Stream::kCompute, {c}, 1);
  story.add("D", Stream::kCompute, {scatter}, 1);
}

TEST(StrandExecutor, OneAfterTheOtherKeepsToTheNumbers) {
  Story story;
  two_strands(story);
  StrandExecutor executor;
  executor.run(story.operators, order_of(story.operators, Way::kOneAfterOther));
  EXPECT_THAT(story.told, ElementsAre("A", "gather", "B", "C", "scatter", "W", "D"));
}

// A, C, gather, scatter, B, W, D, where the gather holds up its strand and the scatter does not.
TEST(StrandExecutor, OperatorsOfBothComeInTurn) {
  Story story;
  two_strands(story);
  const StrandOrder order = order_of(story.operators, Way::kInTurn);
  EXPECT_THAT(order.operators, ElementsAre(0, 3, 1, 4, 2, 5, 6));
  EXPECT_THAT(order.after[2], ElementsAre(1));
  EXPECT_THAT(order.after[3], testing::IsEmpty());
  EXPECT_THAT(order.after[5], ElementsAre(3));  // W: after C and not after the scatter
  StrandExecutor executor;
  executor.run(story.operators, order);
  EXPECT_EQ(story.told.size(), 7u);
}

// The gather holds up its strand; the scatter runs during W, which does not need it.
TEST(StrandExecutor, WithinAStrandOnlyAsynchronousCommunicationOverlaps) {
  Story story;
  two_strands(story);
  const StrandOrder order = order_of(story.operators, Way::kIntraBatch);
  EXPECT_THAT(order.after[2], ElementsAre(1));           // B: after the gather
  EXPECT_THAT(order.after[3], ElementsAre(0, 1, 2));     // C: after the other strand
  EXPECT_THAT(order.after[5], ElementsAre(0, 1, 2, 3));  // W: after C and not after the scatter
  EXPECT_THAT(order.after[6],
              ElementsAre(0, 1, 2, 5));  // D: after W; of the scatter its strand knows
  StrandExecutor executor;
  const auto times = executor.run(story.operators, order);
  EXPECT_GE(times[3].start, times[2].end);
  EXPECT_GE(times[6].start, times[4].end);
}

// Each of the gather and C ends when the other has begun.
TEST(StrandExecutor, APlanPutsOneStrandBesideTheOther) {
  Story story;
  two_strands(story);
  std::atomic<bool> gathers = false, computes = false;
  story.operators[1].work = [&] {
    for (gathers = true; !computes;) std::this_thread::yield();
  };
  story.operators[3].work = [&] {
    for (computes = true; !gathers;) std::this_thread::yield();
  };
  const std::vector<std::string> names = {"A", "gather", "C", "scatter", "W", "B", "D"};
  const auto order = order_of(story.operators, names);
  ASSERT_TRUE(order) << order.error().text();
  StrandExecutor executor;
  const auto times = executor.run(story.operators, *order);
  EXPECT_LT(times[1].start, times[3].end);
  EXPECT_LT(times[3].start, times[1].end);
}

TEST(StrandExecutor, TurnsChangeWhereAStrandSends) {
  Story story;
  two_strands(story);
  const StrandOrder order = order_of(story.operators, Way::kByTurns);
  EXPECT_THAT(order.operators, ElementsAre(0, 1, 3, 4, 2, 5, 6));
  StrandExecutor().run(story.operators, order);
  EXPECT_EQ(story.told.size(), 7u);
  story.operators.resize(3);  // one strand alone
  EXPECT_THAT(order_of(story.operators, Way::kByTurns).operators, ElementsAre(0, 1, 2));
}

TEST(StrandExecutor, NamesWhatIsWrongWithAnOrder) {
  Story story;
  two_strands(story);
  const auto error = [&](std::vector<std::string> names) {
    const auto order = order_of(story.operators, names);
    return order ? std::string() : order.error().text();
  };
  EXPECT_THAT(error({"A", "A"}),
              HasSubstr("\"A\": no operator of these strands, or it comes twice"));
  EXPECT_THAT(error({"A", "gather", "B", "C", "scatter", "W"}), HasSubstr("lacks \"D\""));
  // The link would wait for C, which waits for B, which waits for the gather behind it.
  EXPECT_THAT(error({"A", "scatter", "gather", "B", "C", "W", "D"}), HasSubstr("wait for ever"));
}

TEST(StrandExecutor, WhatFailsIsThrownWhenAllStand) {
  Story story;
  two_strands(story);
  std::atomic<int> told = 0;
  StrandExecutor executor([&] { ++told; });
  story.operators[1].work = [] { throw std::runtime_error("the link is gone"); };
  for (const Way way : {Way::kOneAfterOther, Way::kIntraBatch}) {
    story.told.clear();
    try {
      executor.run(story.operators, order_of(story.operators, way));
      FAIL() << "it went on";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "the link is gone");
    }
    EXPECT_THAT(story.told, ElementsAre("A"));
  }
  EXPECT_EQ(told, 2);
  // And the next run is as good as the first.
  story.operators[1].work = [] {};
  executor.run(story.operators, order_of(story.operators, Way::kOneAfterOther));
}

// Random strands in random orders, with operators that take any time: none begins before what it waits for has ended,
// no stream performs two at once, and each keeps to its order.
TEST(StrandExecutor, KeepsToAnyOrder) {
  std::mt19937 random(1);
  const auto up_to = [&](size_t end) { return static_cast<size_t>(random() % end); };
  StrandExecutor executor;
  for (int round = 0; round < 200; ++round) {
    Story story;
    for (size_t i = 0; i < 30; ++i) {
      std::vector<size_t> after;
      for (size_t k = up_to(3); k-- > 0 && i > 1;) {
        const size_t other = up_to(i);
        if (other % 2 == i % 2) after.push_back(other);
      }
      story.add(fmt::format("{}", i), static_cast<Stream>(up_to(3)), after,
                static_cast<int32_t>(i % 2), up_to(2) == 0,
                std::chrono::microseconds(up_to(4) * 20));
    }
    // A topological order of both together: strands drawn one against the other.
    std::vector<std::string> names;
    for (size_t even = 0, odd = 1; even < 30 || odd < 30;) {
      size_t& next = odd >= 30 || (even < 30 && up_to(2) == 0) ? even : odd;
      names.push_back(story.operators[next].name);
      next += 2;
    }
    const auto order = order_of(story.operators, names);
    ASSERT_TRUE(order) << order.error().text();
    const auto times = executor.run(story.operators, *order);
    ASSERT_EQ(story.told.size(), 30u);
    for (size_t i = 0; i < 30; ++i) {
      for (const size_t before : story.operators[i].after)
        EXPECT_GE(times[i].start, times[before].end) << round;
    }
    std::vector<OperatorTime> last(kStreams);
    for (const size_t number : order->operators) {
      OperatorTime& before = last[static_cast<size_t>(story.operators[number].stream)];
      EXPECT_GE(times[number].start, before.end) << round;
      before = times[number];
    }
  }
}

}  // namespace
}  // namespace tombolo::train
