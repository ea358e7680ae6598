#include "ui/serve/api_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <future>
#include <thread>
#include <vector>

#include "base/json.h"
#include "perform/text/tokenizer.h"
#include "support/fake_backend.h"
#include "support/tokenizer_texts.h"

namespace tombolo::serve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kKey = "correct-horse-battery";

class Served : public testing::Test {
 protected:
  // "abc" as tokens of its bytes: GPT-2's ids of printable ASCII count from '!'.
  void SetUp() override { backend_.says = {64, 65, 66}; }

  ServeOptions options() {
    return {.listen = {"127.0.0.1", 0}, .model = "m", .positions = 64, .unix_time = [] {
              return int64_t{1'700'000'000};
            }};
  }
  void open(ServeOptions options) {
    auto server = ApiServer::open(std::move(options), backend_, tokenizer_, clock_);
    ASSERT_TRUE(server) << server.error().text();
    server_ = std::move(*server);
  }
  httplib::Client client() {
    httplib::Client out("127.0.0.1", server_->address().port);
    out.set_read_timeout(60);
    return out;
  }
  httplib::Result post(const std::string& body, const httplib::Headers& headers = {},
                       const char* path = "/v1/completions") {
    return client().Post(path, headers, body, "application/json");
  }
  static std::string error_code(const httplib::Result& answer) {
    const Value body = parse_json(answer->body, "answer").value();
    const std::string* code = body.find("error")->find("code")->get<std::string>();
    return code ? *code : "null";
  }

  FakeBackend backend_;
  text::Tokenizer tokenizer_ = text::Tokenizer::parse(test::tokenizer_json({}), "t").value();
  SystemClock clock_;
  std::unique_ptr<ApiServer> server_;
};

constexpr const char* kHello = R"({"model":"m","prompt":"Hi","max_tokens":9,"temperature":0})";

TEST_F(Served, AnswersWhole) {
  ServeOptions wanted = options();
  wanted.begin = {5};
  wanted.end = {7};
  open(std::move(wanted));
  const auto answer = post(kHello);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 200);
  const Value body = parse_json(answer->body, "answer").value();
  const Value& choice = (*body.find("choices")->get<Value::Array>())[0];
  EXPECT_EQ(*choice.find("text"), Value("abc"));
  EXPECT_EQ(*choice.find("finish_reason"), Value("stop"));
  EXPECT_EQ(*body.find("created"), Value(int64_t{1'700'000'000}));
  EXPECT_EQ(*body.find("usage")->find("total_tokens"), Value(6));
  const auto asked = backend_.requests();
  ASSERT_EQ(asked.size(), 1U);
  EXPECT_THAT(asked[0].tokens, ElementsAre(5, 'H' - '!', 'i' - '!'));
  EXPECT_THAT(asked[0].stop, ElementsAre(7));
  EXPECT_EQ(asked[0].tokens_max, 9);
  EXPECT_EQ(asked[0].sampling.temperature, 0);
}

// What stands around texts stands around none that came as ids; a chat has what its template says, and
// where that says nothing the begin.
TEST_F(Served, PutsWhatTheTokenizerSaysAroundTexts) {
  ServeOptions wanted = options();
  wanted.begin = {5};
  wanted.after = {7};
  open(std::move(wanted));
  const auto asked = [&](const char* body, const char* path = "/v1/completions") {
    EXPECT_EQ(post(body, {}, path)->status, 200) << body;
    return backend_.requests().back().tokens;
  };
  EXPECT_THAT(asked(R"({"model":"m","prompt":"H","max_tokens":3})"), ElementsAre(5, 'H' - '!', 7));
  EXPECT_THAT(asked(R"({"model":"m","prompt":[9,8],"max_tokens":3})"), ElementsAre(9, 8));
  const auto chat =
      asked(R"({"model":"m","max_tokens":3,"messages":[{"role":"user","content":"x"}]})",
            "/v1/chat/completions");
  EXPECT_EQ(chat.front(), 5);
  EXPECT_EQ(chat.back(), ':' - '!');
}

TEST_F(Served, ChatsThatBeginBySayingSoBeginOnce) {
  Value::Array added;
  for (const char* token : {"<|im_start|>", "<|im_end|>"})
    added.push_back(
        Value::Table{{"id", 300 + std::ssize(added)}, {"content", token}, {"special", true}});
  tokenizer_ =
      text::Tokenizer::parse(test::tokenizer_json({}, {{"added_tokens", std::move(added)}}), "t")
          .value();
  ServeOptions wanted = options();
  wanted.begin = {300};
  wanted.chat = ChatTemplate::kChatml;
  open(std::move(wanted));
  EXPECT_EQ(post(R"({"model":"m","max_tokens":3,"messages":[{"role":"user","content":"x"}]})", {},
                 "/v1/chat/completions")
                ->status,
            200);
  const auto tokens = backend_.requests().back().tokens;
  EXPECT_THAT(std::vector(tokens.begin(), tokens.begin() + 2), ElementsAre(300, 'u' - '!'));
}

TEST_F(Served, StreamsPieceByPiece) {
  open(options());
  const auto answer = post(R"({"model":"m","prompt":"Hi","max_tokens":2,"stream":true})");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->get_header_value("Content-Type"), "text/event-stream");
  EXPECT_THAT(answer->body, HasSubstr(R"("text":"a")"));
  EXPECT_THAT(answer->body, HasSubstr(R"("finish_reason":"length")"));
  EXPECT_TRUE(answer->body.ends_with("\n\ndata: [DONE]\n\n"));
}

// Benchmarks want answers of a length that they choose.
TEST_F(Served, EndsNoSoonerThanWasAskedFor) {
  ServeOptions wanted = options();
  wanted.end = {7};
  open(std::move(wanted));
  EXPECT_EQ(post(R"({"model":"m","prompt":"Hi","max_tokens":9,"ignore_eos":true})")->status, 200);
  EXPECT_THAT(backend_.requests().back().stop, ElementsAre());
  EXPECT_EQ(post(R"({"model":"m","prompt":"Hi","max_tokens":9,"min_tokens":5})")->status, 200);
  EXPECT_THAT(backend_.requests().back().stop, ElementsAre(7));
  EXPECT_EQ(backend_.requests().back().tokens_min, 5);
  const auto beyond = post(R"({"model":"m","prompt":"Hi","max_tokens":3,"min_tokens":4})");
  EXPECT_EQ(beyond->status, 400);
  EXPECT_THAT(beyond->body, HasSubstr("\"min_tokens\""));
  // A stop string ends the text, but not before the second token.
  const auto text = [&](int64_t least) {
    const auto answer = post(fmt::format(
        R"({{"model":"m","prompt":"Hi","max_tokens":9,"stop":["a","c"],"min_tokens":{}}})", least));
    return *(*parse_json(answer->body, "answer")->find("choices")->get<Value::Array>())[0]
                .find("text")
                ->get<std::string>();
  };
  EXPECT_EQ(text(0), "");
  EXPECT_EQ(text(1), "ab");
  EXPECT_EQ(text(3), "abc");
}

// A browser asks first, without a key, whether its page may ask.
TEST_F(Served, AnswersPreflightRequests) {
  const auto preflight = [&](const char* origin) {
    httplib::Client asking = client();
    return asking.Options("/v1/chat/completions",
                          {{"Origin", origin},
                           {"Access-Control-Request-Method", "POST"},
                           {"Access-Control-Request-Headers", "authorization,content-type"}});
  };
  open(options());
  for (const char* origin : {"http://localhost:3000", "http://127.0.0.1", "https://[::1]:8443"}) {
    const auto answer = preflight(origin);
    EXPECT_EQ(answer->status, 204) << origin;
    EXPECT_EQ(answer->get_header_value("Access-Control-Allow-Origin"), origin);
    EXPECT_EQ(answer->get_header_value("Access-Control-Allow-Headers"),
              "authorization,content-type");
    EXPECT_THAT(answer->get_header_value("Access-Control-Allow-Methods"), HasSubstr("POST"));
  }
  for (const char* origin : {"https://example.com", "http://localhost.example.com", "null",
                             "http://127.0.0.1.example.com:80"}) {
    const auto answer = preflight(origin);
    EXPECT_EQ(answer->status, 403) << origin;
    EXPECT_FALSE(answer->has_header("Access-Control-Allow-Origin"));
  }
  const auto answer = post(kHello, {{"Origin", "http://localhost:3000"}});
  EXPECT_EQ(answer->get_header_value("Access-Control-Allow-Origin"), "http://localhost:3000");
  EXPECT_FALSE(
      post(kHello, {{"Origin", "https://example.com"}})->has_header("Access-Control-Allow-Origin"));
  server_.reset();
  // With keys any page may ask that has one.
  ServeOptions wanted = options();
  wanted.keys = ApiKeys::parse(kKey, "keys").value();
  open(std::move(wanted));
  EXPECT_EQ(preflight("https://example.com")->status, 204);
  const auto without = post(kHello, {{"Origin", "https://example.com"}});
  EXPECT_EQ(without->status, 401);  // and the page may read why
  EXPECT_EQ(without->get_header_value("Access-Control-Allow-Origin"), "https://example.com");
}

// Before a byte of a body is read, and without a word about it.
TEST_F(Served, AsksForAKey) {
  ServeOptions wanted = options();
  wanted.keys = ApiKeys::parse(kKey, "keys").value();
  open(std::move(wanted));
  EXPECT_EQ(post(kHello)->status, 401);
  const auto wrong = post(kHello, {{"Authorization", "Bearer correct-horse-batterx"}});
  EXPECT_EQ(wrong->status, 401);
  EXPECT_EQ(error_code(wrong), "invalid_api_key");
  EXPECT_THAT(wrong->body, Not(HasSubstr("horse")));
  EXPECT_EQ(client().Get("/metrics")->status, 401);
  EXPECT_EQ(client().Get("/v1/nothing")->status, 401);
  EXPECT_EQ(client().Get("/health")->status, 200);
  EXPECT_EQ(post(kHello, {{"Authorization", std::string("Bearer ") + kKey}})->status, 200);
}

TEST_F(Served, RefusesWithTheRightStatus) {
  ServeOptions wanted = options();
  wanted.limits.body_bytes = 200;
  wanted.limits.prompt_tokens = 50;
  open(std::move(wanted));
  EXPECT_EQ(error_code(post(R"({"model":"other","prompt":"x"})")), "model_not_found");
  const auto too_long = post(R"({"model":"m","prompt":")" + std::string(51, 'x') + "\"}");
  EXPECT_EQ(too_long->status, 400);
  EXPECT_EQ(error_code(too_long), "context_length_exceeded");
  EXPECT_EQ(post(R"({"model":"m","prompt":"x","max_tokens":64})")->status, 400);
  EXPECT_EQ(post(R"({"model":"m","prompt":""})")->status, 400);
  EXPECT_EQ(post(std::string(300, ' '))->status, 413);
  EXPECT_EQ(post(kHello, {{"Content-Encoding", "gzip"}})->status, 415);
  EXPECT_EQ(client().Get("/v1/completions")->status, 404);
  EXPECT_TRUE(backend_.requests().empty());
  backend_.refuses = generate::Refused{generate::Refusal::kBusy, "full"};
  const auto full = post(kHello);
  EXPECT_EQ(full->status, 503);
  EXPECT_EQ(full->get_header_value("Retry-After"), "1");
  backend_.refuses = generate::Refused{generate::Refusal::kTooLong, "long"};
  EXPECT_EQ(post(kHello)->status, 400);
}

TEST_F(Served, NoMoreAtOnceThanWasSaid) {
  ServeOptions wanted = options();
  wanted.limits.requests = 1;
  open(std::move(wanted));
  backend_.waits = true;
  std::thread first([&] { EXPECT_EQ(post(kHello)->status, 200); });
  while (backend_.requests().empty()) std::this_thread::yield();
  const auto second = post(kHello);
  EXPECT_EQ(second->status, 429);
  EXPECT_EQ(second->get_header_value("Retry-After"), "1");
  EXPECT_THAT(client().Get("/metrics")->body, HasSubstr("requests_running 1"));
  backend_.go_on();
  first.join();
  EXPECT_EQ(post(kHello)->status, 200);
}

// Each of them hears a status, whatever it is.
TEST_F(Served, OfABurstAllAreAnswered) {
  open(options());
  std::vector<std::future<int>> answers;
  for (int i = 0; i < 150; ++i) {
    answers.push_back(std::async(std::launch::async, [this] {
      const auto answer = post(kHello);
      return answer ? answer->status : 0;
    }));
  }
  for (auto& answer : answers) EXPECT_THAT(answer.get(), ::testing::AnyOf(200, 429));
  EXPECT_EQ(post(kHello)->status, 200);
}

// Each of 1,000 ranges would be a copy of the page.
TEST_F(Served, PagesAreWholeWhateverRangesAreAskedFor) {
  open(options());
  std::string ranges = "bytes=0-";
  for (int i = 1; i < 1000; ++i) ranges += ",0-";
  const auto page = client().Get("/metrics", {{"Range", ranges}});
  EXPECT_EQ(page->status, 200);
  EXPECT_THAT(page->body, ::testing::StartsWith("#"));
}

// One that may wait has a place of its own, and says so in its answer.
TEST_F(Served, ThoseThatMayWaitHavePlacesOfTheirOwn) {
  ServeOptions wanted = options();
  wanted.limits.requests = 1;
  wanted.limits.flex_requests = 1;
  open(std::move(wanted));
  constexpr const char* kFlex = R"({"model":"m","prompt":"Hi","service_tier":"flex"})";
  backend_.waits = true;
  std::thread first([&] { EXPECT_EQ(post(kHello)->status, 200); });
  std::thread flex([&] {
    const auto answer = post(kFlex);
    EXPECT_EQ(answer->status, 200);
    EXPECT_THAT(answer->body, HasSubstr(R"("service_tier":"flex")"));
  });
  while (backend_.requests().size() < 2) std::this_thread::yield();
  EXPECT_EQ(post(kHello)->status, 429);
  EXPECT_EQ(post(kFlex)->status, 429);
  EXPECT_THAT(client().Get("/metrics")->body, HasSubstr("requests_waiting 0"));
  backend_.go_on();
  first.join();
  flex.join();
  const auto asked = backend_.requests();
  EXPECT_EQ(std::ranges::count(asked, true, &generate::Request::flex), 1);
  EXPECT_THAT(post(kHello)->body, Not(HasSubstr("service_tier")));
}

// Streaming or not: its prompt is given up.
TEST_F(Served, NoticesWhoLeaves) {
  open(options());
  for (const bool stream : {false, true}) {
    backend_.waits = true;
    httplib::Client leaves("127.0.0.1", server_->address().port);
    leaves.set_read_timeout(std::chrono::milliseconds(300));
    EXPECT_FALSE(leaves.Post("/v1/completions",
                             fmt::format(R"({{"model":"m","prompt":"x","stream":{}}})", stream),
                             "application/json"));
    backend_.await_none_open();
    backend_.go_on();
  }
  EXPECT_THAT(client().Get("/metrics")->body, HasSubstr("clients_left_total 2"));
}

TEST_F(Served, AnswersHaveAnEndInTime) {
  ServeOptions wanted = options();
  wanted.limits.answer_time = SimDuration{200'000'000};
  open(std::move(wanted));
  backend_.waits = true;
  const auto answer = post(kHello);
  EXPECT_EQ(answer->status, 500);
  EXPECT_THAT(answer->body, HasSubstr("took too long"));
  backend_.await_none_open();
}

TEST_F(Served, SaysWhatBroke) {
  open(options());
  backend_.fails = true;
  EXPECT_EQ(post(kHello)->status, 500);
  const auto stream = post(R"({"model":"m","prompt":"Hi","stream":true})");
  EXPECT_EQ(stream->status, 200);  // it had begun
  EXPECT_THAT(stream->body, HasSubstr(R"({"error":{"message":"It broke.")"));
  EXPECT_EQ(client().Get("/health")->status, 200);
  backend_.die();
  EXPECT_EQ(client().Get("/health")->status, 503);
}

// As long as the client has nothing, it may ask again: a stream has a status of its own until then.
TEST_F(Served, SaysThatWhoComputedHasGone) {
  open(options());
  constexpr const char* kStream = R"({"model":"m","prompt":"Hi","stream":true})";
  for (const char* question : {kHello, kStream}) {
    backend_.lost_after = 0;
    const auto answer = post(question);
    EXPECT_EQ(answer->status, 503);
    EXPECT_EQ(answer->get_header_value("Retry-After"), "1");
    EXPECT_EQ(error_code(answer), "overloaded");
  }
  backend_.lost_after = 1;
  EXPECT_EQ(post(kHello)->status, 503);
  const auto stream = post(kStream);
  EXPECT_EQ(stream->status, 200);
  EXPECT_THAT(stream->body, HasSubstr(R"({"error":{"message":"It has gone.")"));
  EXPECT_TRUE(stream->body.ends_with("\n\ndata: [DONE]\n\n"));
  backend_.await_none_open();
}

// Otherwise keys and prompts would cross a network in clear text.
TEST_F(Served, OpensToOthersOnlyWithTlsAndKeys) {
  ServeOptions wanted = options();
  wanted.listen.host = "0.0.0.0";
  const auto refused = ApiServer::open(wanted, backend_, tokenizer_, clock_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnusable);
  EXPECT_THAT(refused.error().text(), HasSubstr("clear text"));
  wanted.certificate = "cert.pem";
  const auto anybody = ApiServer::open(wanted, backend_, tokenizer_, clock_);
  ASSERT_FALSE(anybody);
  EXPECT_THAT(anybody.error().text(), HasSubstr("any client could ask"));
  wanted.keys = ApiKeys::parse(kKey, "keys").value();
  const auto no_file = ApiServer::open(wanted, backend_, tokenizer_, clock_);
  ASSERT_FALSE(no_file);
  EXPECT_THAT(no_file.error().text(), HasSubstr("cert.pem: no certificate in PEM"));
}

// A destructor in the middle of an answer.
TEST_F(Served, StopsWhileItAnswers) {
  open(options());
  backend_.waits = true;
  const uint16_t port = server_->address().port;
  std::thread asks([port] {
    httplib::Client client("127.0.0.1", port);
    const auto answer = client.Post("/v1/completions", kHello, "application/json");
    EXPECT_TRUE(!answer || answer->status == 500);
  });
  while (backend_.requests().empty()) std::this_thread::yield();
  server_.reset();
  asks.join();
  backend_.await_none_open();
}

}  // namespace
}  // namespace tombolo::serve
