#include "ui/planner/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "base/json.h"

namespace tombolo::planner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kToy = R"(
[[cluster.datacenter]]
name = "here"
device = "a100-80g"
[training]
global_batch = 4
[parallelism]
pipeline = 1
[stage_times]
forward = "1 ms"
backward = "2 ms"
)";
constexpr const char* kJob = "<job>";

Answer asked(std::vector<std::string> words, const std::string& text = kToy) {
  Interruption interruption;
  return ask({.words = std::move(words), .name = kJob, .text = text}, interruption, {});
}

TEST(Planner, AnswersAsTheCommandDoes) {
  const Answer answer = asked({"simulate", kJob, "--json"});
  ASSERT_FALSE(answer.error) << answer.error->text();
  const Result<Value> json = parse_json(answer.text, "answer");
  ASSERT_TRUE(json);
  // Four microbatches of 1 + 2 ms on one stage.
  EXPECT_EQ(*json->find("iteration_ns")->get<int64_t>(), 12'000'000);
  EXPECT_EQ(answer.ending, Ending::kAnswered);
  EXPECT_FALSE(answer.stopped);
}

TEST(Planner, RefusesWithPlaceAndRemedy) {
  std::string job = kToy;
  job.replace(job.find("1 ms"), 4, "1 fortnight");
  const Answer answer = asked({"simulate", kJob}, job);
  ASSERT_TRUE(answer.error);
  EXPECT_EQ(answer.error->exit_code(), 2);
  EXPECT_EQ(answer.error->place.file, kJob);
  EXPECT_EQ(answer.error->place.line, 10);
  EXPECT_EQ(answer.error->place.key, "stage_times.forward");
  EXPECT_EQ(answer.error->place.value, "\"1 fortnight\"");
  EXPECT_EQ(answer.text, "");
}

TEST(Planner, RefusesWordsAsTheProgramDoes) {
  EXPECT_EQ(asked({"plan", kJob, "--objectiv=cost"}).error->text(),
            "tombolo plan: there is no option --objectiv\n  try --objective");
  EXPECT_EQ(asked({"plam", kJob}).error->text(),
            "tombolo: there is no command \"plam\"\n  try tombolo plan");
  EXPECT_THAT(asked({"plan", kJob, "--top=0"}).error->text(), HasSubstr("try tombolo plan --help"));
}

TEST(Planner, WhatIsAskedToStopStops) {
  Interruption interruption;
  interruption.ask();
  const Answer answer =
      ask({.words = {"simulate", kJob, "--iterations=2"}, .name = kJob, .text = kToy}, interruption,
          {});
  EXPECT_EQ(answer.ending, Ending::kInterrupted);
}

TEST(Planner, TellsHowFarASearchIs) {
  Interruption interruption;
  int64_t last = 0, of = 0;
  ask({.words = {"sweep", kJob, "--vary=training.global_batch=2,4,6", "--threads=1", "--json"},
       .name = kJob,
       .text = kToy},
      interruption, [&](int64_t done, int64_t all) {
        last = std::max(last, done);
        of = all;
      });
  EXPECT_EQ(last, 3);
  EXPECT_EQ(of, 3);
}

TEST(Planner, ABugEndsItsQuestionAlone) {
  answer_bugs();
  Interruption interruption;
  const Answer answer = ask({.words = {"plan", kJob}, .fails_a_check = true}, interruption, {});
  EXPECT_EQ(answer.ending, Ending::kBug);
  EXPECT_THAT(answer.bug, HasSubstr("does not hold: a test asked for it"));
  EXPECT_FALSE(asked({"simulate", kJob}).error);
}

TEST(Planner, ManyMayAskAtTheSameTime) {
  std::vector<std::thread> threads;
  std::vector<std::string> texts(4);
  for (size_t i = 0; i < texts.size(); ++i) {
    threads.emplace_back([&texts, i] {
      std::string job = kToy;
      job.replace(job.find("1 ms"), 1, std::to_string(i + 1));
      texts[i] = asked({"simulate", kJob}, job).text;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < texts.size(); ++i) {
    EXPECT_THAT(texts[i], HasSubstr(fmt::format("{} ms", 4 * (i + 3))));
  }
}

TEST(Planner, KnowsTheCommandsThatPlan) {
  EXPECT_THAT(command_names(), ElementsAre("plan", "select", "sweep", "fabric", "simulate",
                                           "estimate", "traffic", "strand", "report", "reproduce"));
}

}  // namespace
}  // namespace tombolo::planner
