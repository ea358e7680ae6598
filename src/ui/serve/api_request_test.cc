#include "ui/serve/api_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tombolo::serve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ApiRequest, ReadsACompletion) {
  const auto got = parse_completion(
      R"({"model":"m","prompt":"Hello","max_tokens":7,"temperature":0.5,"top_p":0.9,"seed":-3,
          "stop":["a","b"],"stream":true,"stream_options":{"include_usage":true},"user":"x"})");
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->model, "m");
  EXPECT_EQ(got->text, "Hello");
  EXPECT_EQ(got->tokens_max, 7);
  EXPECT_EQ(got->temperature, 0.5);
  EXPECT_EQ(got->top_p, 0.9);
  EXPECT_EQ(got->seed, -3);
  EXPECT_THAT(got->stop, ElementsAre("a", "b"));
  EXPECT_TRUE(got->stream && got->stream_usage);
  EXPECT_FALSE(got->flex);
}

TEST(ApiRequest, KnowsThoseThatMayWait) {
  for (const auto& [tier, flex] : {std::pair{R"("flex")", true},
                                   {R"("auto")", false},
                                   {R"("default")", false},
                                   {"null", false}}) {
    const auto got =
        parse_completion(fmt::format(R"({{"model":"m","prompt":"x","service_tier":{}}})", tier));
    ASSERT_TRUE(got) << tier;
    EXPECT_EQ(got->flex, flex) << tier;
  }
}

TEST(ApiRequest, TakesPromptsAsTheApiDoes) {
  EXPECT_EQ(parse_completion(R"({"model":"m","prompt":["Hello"]})")->text, "Hello");
  EXPECT_THAT(parse_completion(R"({"model":"m","prompt":[1,2]})")->tokens, ElementsAre(1, 2));
  EXPECT_THAT(parse_completion(R"({"model":"m","prompt":[[1,2]]})")->tokens, ElementsAre(1, 2));
  for (const char* prompt : {"[]", "[[]]", R"(["a","b"])", "[[1],[2]]", "[[[1]]]", "[-1]", "[1.5]",
                             R"([1,"a"])", "true", "null"}) {
    const auto got = parse_completion(fmt::format(R"({{"model":"m","prompt":{}}})", prompt));
    ASSERT_FALSE(got) << prompt;
    EXPECT_EQ(got.error().param, "prompt") << prompt;
    EXPECT_EQ(got.error().status, 400);
  }
}

TEST(ApiRequest, ReadsAChat) {
  const auto got = parse_chat(
      R"({"model":"m","max_tokens":5,"max_completion_tokens":6,"n":1,"presence_penalty":0.0,
          "tools":[],"response_format":{"type":"text"},"logprobs":null,"messages":[
          {"role":"developer","content":"Be short."},
          {"role":"user","content":[{"type":"text","text":"Hel"},{"type":"text","text":"lo"}]}]})");
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->tokens_max, 6);
  EXPECT_THAT(got->messages,
              ElementsAre(ChatMessage{"developer", "Be short."}, ChatMessage{"user", "Hello"}));
}

// Who asks for more than is computed is told, not given something else.
TEST(ApiRequest, RefusesByNameWhatIsNotComputed) {
  for (const auto& [field, param] : std::vector<std::pair<const char*, const char*>>{
           {R"("n":2)", "n"},
           {R"("logprobs":true)", "logprobs"},
           {R"("presence_penalty":0.5)", "presence_penalty"},
           {R"("tools":[{"type":"function"}])", "tools"},
           {R"("response_format":{"type":"json_object"})", "response_format"},
           {R"("temperature":3)", "temperature"},
           {R"("top_p":-0.1)", "top_p"},
           {R"("max_tokens":0)", "max_tokens"},
           {R"("seed":"x")", "seed"},
           {R"("service_tier":"priority")", "service_tier"},
           {R"("service_tier":1)", "service_tier"},
           {R"("stream":1)", "stream"},
           {R"("stop":[""])", "stop"},
           {R"("stop":["a","b","c","d","e"])", "stop"}}) {
    const auto got = parse_chat(
        fmt::format(R"({{"model":"m",{},"messages":[{{"role":"user","content":"x"}}]}})", field));
    ASSERT_FALSE(got) << field;
    EXPECT_EQ(got.error().param, param);
  }
  for (const char* message :
       {R"({"role":"tool","content":"x"})", R"({"content":"x"})", R"({"role":"user"})",
        R"({"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]})", "3"}) {
    EXPECT_FALSE(parse_chat(fmt::format(R"({{"model":"m","messages":[{}]}})", message))) << message;
  }
}

TEST(ApiRequest, SaysWhereABodyIsNoJson) {
  const auto got = parse_chat(R"({"model":)");
  ASSERT_FALSE(got);
  EXPECT_THAT(got.error().message, HasSubstr("not valid JSON"));
  EXPECT_FALSE(parse_chat("[1]"));
  EXPECT_FALSE(parse_completion(""));
  EXPECT_EQ(parse_completion(R"({"prompt":"x"})").error().param, "model");
}

}  // namespace
}  // namespace tombolo::serve
