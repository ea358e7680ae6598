#include "perform/generate/front_message.h"

#include <gtest/gtest.h>

namespace tombolo::generate {
namespace {

TEST(Message, WhatIsWrittenReadsBack) {
  const FrontMessage request{.request = {.id = 7,
                                         .tokens = {1, 2, 3},
                                         .tokens_max = 16,
                                         .stop = {2},
                                         .sampling = {.temperature = 0.5, .top_p = 0.9, .seed = 3},
                                         .flex = true}};
  EXPECT_EQ(parse_front(to_line(request)).value(), request);
  const FrontMessage cancel{.kind = FrontWord::kCancel, .request = {.id = 7}};
  EXPECT_EQ(parse_front(to_line(cancel)).value(), cancel);
  const FrontMessage beat{.kind = FrontWord::kBeat};
  EXPECT_EQ(parse_front(to_line(beat)).value(), beat);
  EXPECT_EQ(parse_worker(R"({"kind":"beat"})").value(), WorkerMessage{.kind = WorkerWord::kBeat});
  const WorkerMessage ready{.facts = WorkerFacts{.vocabulary = 10,
                                                 .positions = 64,
                                                 .weight_bytes = 100,
                                                 .kv_bytes_per_token = 8,
                                                 .kv_bytes_max = 800}};
  EXPECT_EQ(parse_worker(to_line(ready)).value(), ready);
  for (const StepKind kind :
       {StepKind::kToken, StepKind::kStop, StepKind::kLength, StepKind::kFailed}) {
    const WorkerMessage said = message_of({.id = 3, .kind = kind, .token = 4, .message = "why"});
    EXPECT_EQ(parse_worker(to_line(said)).value(), said);
    EXPECT_EQ(step_of(said.kind), kind);
  }
  EXPECT_FALSE(step_of(WorkerWord::kAdmitted));
}

TEST(Message, RefusesWhatIsNone) {
  EXPECT_FALSE(parse_front("hello"));
  EXPECT_FALSE(parse_front(R"({"kind":"token","id":1})"));
  EXPECT_FALSE(parse_front(R"({"kind":"request","id":1,"temperature":-1})"));
  EXPECT_FALSE(parse_front(R"({"kind":"request","id":1,"top_p":0})"));
  EXPECT_FALSE(parse_worker(R"({"kind":"ready"})"));
  EXPECT_FALSE(parse_worker(R"({"kind":"token","id":1,"surprise":2})"));
}

TEST(Lines, ComeWholeHoweverTheyWereCut) {
  Lines lines;
  EXPECT_TRUE(lines.add("on"));
  EXPECT_FALSE(lines.next());
  EXPECT_TRUE(lines.add("e\ntwo\nthr"));
  EXPECT_EQ(lines.next(), "one");
  EXPECT_EQ(lines.next(), "two");
  EXPECT_FALSE(lines.next());
  EXPECT_TRUE(lines.add("ee\n"));
  EXPECT_EQ(lines.next(), "three");
}

TEST(Lines, HaveAnEnd) {
  Lines lines;
  EXPECT_TRUE(lines.add(std::string(kLineMax, 'a') + "\n"));
  EXPECT_FALSE(lines.add(std::string(kLineMax + 1, 'a')));
}

}  // namespace
}  // namespace tombolo::generate
