#include "predict/prefill_sim/request_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tombolo::prefill_sim {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kHeader = "TIMESTAMP,ContextTokens,GeneratedTokens\n";

// As Azure writes it: CRLF, 100 ns digits, no end of the last line.
TEST(RequestTrace, CountsFromTheFirstRequest) {
  const auto requests = parse_request_trace(
      "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
      "2023-11-16 23:59:59.9799600,4808,10\r\n2023-11-17 00:00:00.0319600,3180,8",
      "code.csv");
  ASSERT_TRUE(requests) << requests.error().text();
  EXPECT_THAT(*requests,
              ElementsAre(TracedRequest{{0}, 4808, 10}, TracedRequest{{52'000'000}, 3180, 8}));
}

// As in Azure's trace of 2024, and over the end of a February with 29 days.
TEST(RequestTrace, KnowsTheCalendarAndUtc) {
  const auto requests = parse_request_trace(std::string(kHeader) +
                                                "2024-02-28 23:00:00+00:00,1,0\n"
                                                "2024-03-01T00:00:00.5Z,2,0\n",
                                            "t.csv");
  ASSERT_TRUE(requests) << requests.error().text();
  EXPECT_EQ((*requests)[1].arrival.ns, (25 * 3600) * 1'000'000'000LL + 500'000'000);
}

TEST(RequestTrace, BlamesTheCell) {
  const auto text_of = [](const std::string& rows) {
    const auto requests = parse_request_trace(kHeader + rows, "t.csv");
    return requests ? std::string("no error") : requests.error().text();
  };
  EXPECT_THAT(text_of("2023-11-16 18:17:03,0,1\n"),
              AllOf(HasSubstr("t.csv:2"), HasSubstr("ContextTokens"), HasSubstr("between 1")));
  for (const char* time :
       {"2023-02-30 00:00:00", "2023-11-16 24:00:00", "2023-11-16 18:17:3", "2023-11-16 18:17:03.",
        "2023-11-16 18:17:03+01:00", "yesterday", "-023-11-16 18:17:03"}) {
    EXPECT_THAT(text_of(std::string(time) + ",5,1\n"),
                AllOf(HasSubstr("TIMESTAMP"), HasSubstr("not a date")))
        << time;
  }
  EXPECT_THAT(text_of("2023-11-16 18:17:03,5,1\n2023-11-16 18:17:02,5,1\n"),
              AllOf(HasSubstr("t.csv:3"), HasSubstr("before the one above")));
  EXPECT_THAT(text_of(""), HasSubstr("no request"));
  EXPECT_FALSE(parse_request_trace("time,tokens\n1,2\n", "t.csv"));
}

}  // namespace
}  // namespace tombolo::prefill_sim
