#include "perform/join/control_message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tombolo::join {
namespace {

using ::testing::HasSubstr;

link::Payload bytes_of(std::string_view text) {
  link::Payload out;
  for (const char c : text) out.push_back(static_cast<std::byte>(c));
  return out;
}

TEST(ControlMessages, ComeBackAsTheyWere) {
  const auto hello = decode(encode(Hello{.pid = 42, .address = "127.0.0.1:4711"}));
  ASSERT_TRUE(hello) << hello.error().text();
  EXPECT_EQ(std::get<Hello>(*hello).address, "127.0.0.1:4711");

  const auto progress = decode(encode(
      ProgressReport{{.iteration = 3, .start = {5}, .end = {9}, .loss = 0.1, .wan_wait = {2}}}));
  ASSERT_TRUE(progress) << progress.error().text();
  EXPECT_EQ(std::get<ProgressReport>(*progress).report.loss, 0.1) << "to the last bit";
  EXPECT_EQ(std::get<ProgressReport>(*progress).report.end.ns, 9);
  EXPECT_EQ(std::get<ProgressReport>(*progress).report.wan_wait.ns, 2);

  const auto silent = decode(encode(ProgressReport{{.iteration = 3}}));
  EXPECT_FALSE(std::get<ProgressReport>(*silent).report.loss);

  const Error error{ErrorCode::kUnusable, "disk full", {"writing"}, "space"};
  const auto failure = decode(encode(state::Failure{error}));
  ASSERT_TRUE(failure) << failure.error().text();
  EXPECT_EQ(std::get<state::Failure>(*failure).error.text(), error.text());
  EXPECT_EQ(std::get<state::Failure>(*failure).error.code, ErrorCode::kUnusable);

  const auto missed = decode(encode(state::Missed{.step = 8, .error = error}));
  ASSERT_TRUE(missed) << missed.error().text();
  EXPECT_EQ(std::get<state::Missed>(*missed).step, 8);
  EXPECT_EQ(std::get<state::Missed>(*missed).error.text(), error.text());

  const auto lease = decode(
      encode(LeaseGrant{{.epoch = 3, .sent = {12}, .length = {3'000'000'000}, .working = true}}));
  ASSERT_TRUE(lease) << lease.error().text();
  EXPECT_EQ(std::get<LeaseGrant>(*lease).grant.epoch, 3u);
  EXPECT_EQ(std::get<LeaseGrant>(*lease).grant.length.ns, 3'000'000'000);
  EXPECT_TRUE(std::get<LeaseGrant>(*lease).grant.working);

  const auto unreached = decode(
      encode(Unreached{.peer = 2, .dialling = Dialling::kHigherCalls, .reason = "no answer"}));
  ASSERT_TRUE(unreached) << unreached.error().text();
  EXPECT_EQ(std::get<Unreached>(*unreached).dialling, Dialling::kHigherCalls);
  EXPECT_EQ(std::get<Unreached>(*unreached).reason, "no answer");
  const auto meet =
      decode(encode(Meet{.peer = 1, .dialling = Dialling::kSpliced, .splice_port = 4712}));
  ASSERT_TRUE(meet) << meet.error().text();
  EXPECT_EQ(std::get<Meet>(*meet).dialling, Dialling::kSpliced);
  EXPECT_EQ(std::get<Meet>(*meet).splice_port, 4712);

  observe::LinkReport quiet;
  quiet.silent = SimDuration{6'000'000'000};
  const auto links = decode(encode(LinksReport{{quiet}, {.done = 7, .waits = false}}));
  ASSERT_TRUE(links) << links.error().text();
  EXPECT_FALSE(std::get<LinksReport>(*links).certificate);
  const trust::WallTime begins{std::chrono::seconds{5}}, expires{std::chrono::seconds{90}};
  const auto certified = decode(encode(LinksReport{{}, {}, {{"paris", begins, expires}}}));
  ASSERT_TRUE(certified) << certified.error().text();
  EXPECT_EQ(std::get<LinksReport>(*certified).certificate->name, "paris");
  EXPECT_EQ(std::get<LinksReport>(*certified).certificate->begins, begins);
  EXPECT_EQ(std::get<LinksReport>(*certified).certificate->expires, expires);
  EXPECT_EQ(std::get<LinksReport>(*links).activity.done, 7);
  EXPECT_FALSE(std::get<LinksReport>(*links).activity.waits);
  EXPECT_EQ(std::get<LinksReport>(*links).links[0].silent, quiet.silent);
  link::Payload bytes = bytes_of("\n{not JSON}\n");
  const auto piece = decode(encode(state::FilePiece{.id = 9, .error = {}, .bytes = bytes}));
  ASSERT_TRUE(piece) << piece.error().text();
  EXPECT_EQ(std::get<state::FilePiece>(*piece).id, 9);
  EXPECT_EQ(std::get<state::FilePiece>(*piece).bytes, bytes);

  EXPECT_TRUE(std::holds_alternative<Ready>(*decode(encode(Ready{}))));
  EXPECT_TRUE(std::holds_alternative<state::Finished>(*decode(encode(state::Finished{}))));
}

TEST(ControlMessages, CarryWhatARankReportsOfItsLinks) {
  link::LinkStatistics link{.peer = 1, .tuned = true, .reason = "it \"won\""};
  link.connections = {
      {.connection = 0, .congestion_control = "bbr", .goodput = BytesPerSecond{3e6}},
      {.connection = 1, .pulls = false, .congestion_control = "cubic"}};
  link.queued_bytes = {{0, 5}, {1, 7}};
  const auto sent = observe::link_reports({link}, 99);
  const auto message = decode(encode(LinksReport{sent}));
  ASSERT_TRUE(message) << message.error().text();
  const auto& came = std::get<LinksReport>(*message).links;
  ASSERT_EQ(came.size(), 1u);
  EXPECT_EQ(came[0].link.reason, sent[0].link.reason);
  EXPECT_EQ(came[0].link.connections[0].goodput, BytesPerSecond{3e6});
  EXPECT_FALSE(came[0].link.connections[1].pulls);
  EXPECT_EQ(came[0].queue.size(), sent[0].queue.size());
}

TEST(ControlMessages, CarryWhatAnExchangeTookAndTheDensityThatFollows) {
  const ProgressReport sent{{.iteration = 3,
                             .exchange = stage::ExchangeReport{.computing = SimDuration{170},
                                                               .waited = SimDuration{5},
                                                               .bytes = 99,
                                                               .in_flight = SimDuration{120}}}};
  const auto report = decode(encode(sent));
  ASSERT_TRUE(report) << report.error().text();
  const auto& came = *std::get<ProgressReport>(*report).report.exchange;
  EXPECT_EQ(came.computing, SimDuration{170});
  EXPECT_EQ(came.waited, SimDuration{5});
  EXPECT_EQ(came.bytes, 99);
  EXPECT_EQ(came.in_flight, SimDuration{120});
  const auto none = decode(encode(ProgressReport{{.iteration = 3}}));
  EXPECT_FALSE(std::get<ProgressReport>(*none).report.exchange);
  const auto order = decode(encode(DensityOrder{7, 0.015}));
  ASSERT_TRUE(order) << order.error().text();
  EXPECT_EQ(std::get<DensityOrder>(*order).first_iteration, 7);
  EXPECT_EQ(std::get<DensityOrder>(*order).density, 0.015);
}

TEST(ControlMessages, CarryHowTheBatchIsDivided) {
  const ProgressReport sent{
      {.iteration = 3,
       .batch = stage::BatchReport{
           .microbatches = 8, .computing = SimDuration{170}, .passes = SimDuration{190}}}};
  const auto report = decode(encode(sent));
  ASSERT_TRUE(report) << report.error().text();
  const auto& came = *std::get<ProgressReport>(*report).report.batch;
  EXPECT_EQ(came.microbatches, 8);
  EXPECT_EQ(came.computing, SimDuration{170});
  EXPECT_EQ(came.passes, SimDuration{190});
  const auto none = decode(encode(ProgressReport{{.iteration = 3}}));
  EXPECT_FALSE(std::get<ProgressReport>(*none).report.batch);
  const auto order = decode(encode(BatchOrder{2, 40, {7, 7, 8, 6}}));
  ASSERT_TRUE(order) << order.error().text();
  EXPECT_EQ(std::get<BatchOrder>(*order).order, 2);
  EXPECT_EQ(std::get<BatchOrder>(*order).first_iteration, 40);
  EXPECT_EQ(std::get<BatchOrder>(*order).microbatches, (std::vector<int64_t>{7, 7, 8, 6}));
  const auto answer = decode(encode(BatchAnswer{2, true}));
  EXPECT_EQ(std::get<BatchAnswer>(*answer).order, 2);
  EXPECT_TRUE(std::get<BatchAnswer>(*answer).in_time);
  const auto unusable = decode(encode(BatchAnswer{2, false, "too many"}));
  EXPECT_EQ(std::get<BatchAnswer>(*unusable).unusable, "too many");
  EXPECT_FALSE(decode(encode(BatchAnswer{2, true, "too many"})));
  const auto verdict = decode(encode(BatchVerdict{2, true}));
  EXPECT_EQ(std::get<BatchVerdict>(*verdict).order, 2);
  EXPECT_TRUE(std::get<BatchVerdict>(*verdict).holds);
  for (const char* text :
       {R"({"batch": {"order": 1, "first_iteration": 4, "microbatches": []}})",
        R"({"batch": {"order": 1, "first_iteration": 4, "microbatches": [3, 0]}})",
        R"({"batch": {"order": 1, "first_iteration": 0, "microbatches": [3, 1]}})",
        R"({"batch": {"order": 0, "first_iteration": 4, "microbatches": [3, 1]}})",
        R"({"batch_answer": {"order": 1}})", R"({"batch_verdict": {"order": -1, "holds": true}})"})
    EXPECT_FALSE(decode(bytes_of(text))) << text;
}

TEST(ControlMessages, GarbageIsRefused) {
  EXPECT_FALSE(decode(bytes_of(R"({"density": {"first_iteration": 0, "density": 0.1}})")));
  EXPECT_FALSE(decode(bytes_of(R"({"density": {"first_iteration": 1, "density": 1.5}})")));
  EXPECT_FALSE(decode(bytes_of("")));
  EXPECT_FALSE(decode(bytes_of("[1]")));
  EXPECT_FALSE(decode(bytes_of(R"({"hello": {"pid": 1, "address": 70000}})")));
  EXPECT_FALSE(decode(bytes_of(R"({"beat": {"epoch": -1, "sent_ns": 0}})")));
  EXPECT_FALSE(decode(bytes_of(R"({"failure": {"code": 9, "message": ""}})")));
  EXPECT_FALSE(decode(bytes_of(R"({"meet": {"peer": 1, "way": 3}})")));
  EXPECT_FALSE(decode(bytes_of(R"({"piece": {"id": 1}})"))) << "as no rank writes it";
  EXPECT_FALSE(decode(bytes_of(R"({"piece":{"id":1}})"))) << "without its bytes";
  for (const char* file : {"../x", "a/b", ".hidden", ""}) {
    EXPECT_THAT(decode(bytes_of(fmt::format(
                           R"({{"request": {{"id": 1, "what": "kept", "file": "{}", "offset": 0,
                               "bytes": 1}}}})",
                           file)))
                    .error()
                    .text(),
                HasSubstr("without a folder"));
  }
  EXPECT_THAT(decode(bytes_of(R"({"dance": {}})")).error().text(),
              HasSubstr("unknown kind \"dance\""));
}

}  // namespace
}  // namespace tombolo::join
