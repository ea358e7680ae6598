#include "perform/transport/probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

namespace tombolo::transport {
namespace {

using ::testing::HasSubstr;

ProbeCell cell(uint32_t connections, BytesPerSecond forth, BytesPerSecond back) {
  return {.connections = connections, .congestion_control = "cubic", .forth = forth, .back = back};
}

// 940 there and 100 back is worth 100. 8 and 16 are within 2 % of each other (931 and 945): 8.
TEST(Probe, RecommendsTheFewestConnectionsForTheMostInBothDirections) {
  const ProbeResult result{.cells = {cell(1, 940_Mbps, 100_Mbps), cell(4, 700_Mbps, 650_Mbps),
                                     cell(8, 931_Mbps, 940_Mbps), cell(16, 945_Mbps, 945_Mbps)}};
  EXPECT_EQ(result.best().connections, 8u);
}

TEST(Probe, WarmsUpForFifteenRoundTrips) {
  EXPECT_EQ(probe_warmup(100_ms), 1.5_s);
  EXPECT_EQ(probe_warmup(1_ms), 0.5_s);
}

TEST(Probe, RefusesNonsense) {
  const auto refused = [](auto change) {
    ProbeOptions options{.far = {"127.0.0.1", 1}};
    change(options);
    const Status status = options.check();
    return status ? ErrorCode::kFailed : status.error().code;
  };
  EXPECT_EQ(refused([](ProbeOptions& o) { o.connections = {0}; }), ErrorCode::kUnusable);
  EXPECT_EQ(refused([](ProbeOptions& o) { o.connections = {17}; }), ErrorCode::kUnusable);
  EXPECT_EQ(refused([](ProbeOptions& o) { o.connections = {}; }), ErrorCode::kUnusable);
  EXPECT_EQ(refused([](ProbeOptions& o) { o.counted = 61_s; }), ErrorCode::kUnusable);
  EXPECT_EQ(refused([](ProbeOptions& o) { o.rounds = 0; }), ErrorCode::kUnusable);
}

struct Sides {
  SystemClock clock;
  std::unique_ptr<ProbeServer> far;
  std::future<Status> served;

  explicit Sides(const link::Token& token) {
    Endpoint::Options options;
    options.identity.token = token;
    far = *ProbeServer::listen(std::move(options), clock);
    served = std::async(std::launch::async, [this] {
      return far->serve(clock.now() + SimDuration{20'000'000'000}, &stop);
    });
  }
  Result<ProbeResult> ask(const link::Token& token) {
    Endpoint::Options options;
    options.identity.token = token;
    return probe(
        {.endpoint = std::move(options),
         .far = {"127.0.0.1", far->port()},
         .connections = {1, 2},
         .congestion_controls = {"cubic"},
         .counted = 0.1_s,
         .rounds = 1},
        [this](int64_t done, int64_t) { cells = done; }, clock);
  }
  std::atomic<bool> stop = false;
  int64_t cells = 0;
};

// Two numbers of connections, both directions: four measurements. Loopback carries something.
TEST(Probe, MeasuresBothDirectionsOverLoopback) {
  const link::Token token = *link::Token::random();
  Sides sides(token);
  const auto result = sides.ask(token);
  ASSERT_TRUE(result) << result.error().text();
  EXPECT_EQ(sides.cells, 4);
  ASSERT_EQ(result->cells.size(), 2u);
  for (const ProbeCell& c : result->cells) {
    EXPECT_GT(c.forth.value, 0) << c.connections;
    EXPECT_GT(c.back.value, 0) << c.connections;
  }
  EXPECT_GT(result->round_trip.value, 0);
  EXPECT_TRUE(sides.served.get());
}

TEST(Probe, AnswersNobodyWithoutItsToken) {
  Sides sides(*link::Token::random());
  const auto result = sides.ask(*link::Token::random());
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().text(), HasSubstr("token"));
  sides.stop = true;
  EXPECT_FALSE(sides.served.get());
}

TEST(ProbeDeathTest, CallersKeepTheirPromises) {
  EXPECT_DEATH(ProbeResult{}.best(), "the best of no cells");
  EXPECT_DEATH(probe_warmup(-1_ms), "a round trip of -0.001 s");
  SystemClock clock;
  EXPECT_DEATH(static_cast<void>(probe({}, {}, clock)), "no receiver of the cells");
}

}  // namespace
}  // namespace tombolo::transport
