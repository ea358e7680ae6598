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

// vLLM's and TGI's fields, and unknown ones: they would have given another answer.
TEST(ApiRequest, RefusesWhatOtherServersCompute) {
  const auto refused = [](const std::string& field) {
    const auto got =
        parse_completion(fmt::format(R"({{"model":"m","prompt":"a","max_tokens":3,{}}})", field));
    return got ? "" : got.error().param + " " + got.error().code;
  };
  for (const auto& [field, param] : std::vector<std::pair<const char*, const char*>>{
           {R"("repetition_penalty":5)", "repetition_penalty"},
           {R"("top_k":1)", "top_k"},
           {R"("min_p":0.5)", "min_p"},
           {R"("guided_regex":"[0-9]+")", "guided_regex"},
           {R"("prompt_logprobs":1)", "prompt_logprobs"},
           {R"("stop_token_ids":[2])", "stop_token_ids"},
           {R"("structured_outputs":{"json":{}})", "structured_outputs"},
           {R"("truncate_prompt_tokens":5)", "truncate_prompt_tokens"},
           {R"("use_beam_search":true)", "use_beam_search"},
           {R"("max_new_tokens":5)", "max_new_tokens"},
           {R"("typical_p":0.9)", "typical_p"},
           {R"("watermark":true)", "watermark"},
           {R"("grammar":{"type":"json"})", "grammar"},
           {R"("reasoning_effort":"high")", "reasoning_effort"}}) {
    EXPECT_EQ(refused(field), fmt::format("{} unsupported_parameter", param));
  }
  EXPECT_EQ(refused(R"("logits_bias":{})"), "logits_bias unknown_parameter");
  EXPECT_EQ(refused(R"("Max_tokens":3)"), "Max_tokens unknown_parameter");
  for (const char* usual :
       {R"("top_k":-1)", R"("top_k":0)", R"("min_p":0.0)", R"("repetition_penalty":1.0)",
        R"("repetition_penalty":1)", R"("skip_special_tokens":true)", R"("guided_regex":null)",
        R"("bad_words":[])", R"("tool_choice":"none")", R"("typical_p":1.0)",
        R"("metadata":{"a":1})", R"("store":true)", R"("no_such_field":null)"}) {
    EXPECT_EQ(refused(usual), "") << usual;
  }
}

TEST(ApiRequest, KnowsHowLongAnAnswerMustBe) {
  const auto got =
      parse_completion(R"({"model":"m","prompt":"a","ignore_eos":true,"min_tokens":50})");
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_TRUE(got->ignore_eos);
  EXPECT_EQ(got->tokens_min, 50);
  EXPECT_FALSE(parse_completion(R"({"model":"m","prompt":"a"})")->ignore_eos);
  EXPECT_EQ(parse_completion(R"({"model":"m","prompt":"a","min_tokens":-1})").error().param,
            "min_tokens");
  EXPECT_EQ(parse_completion(R"({"model":"m","prompt":"a","ignore_eos":1})").error().param,
            "ignore_eos");
}

TEST(ApiRequest, NamesNumbersBeyond64Bits) {
  EXPECT_THAT(
      parse_completion(R"({"model":"m","prompt":"a","seed":18446744073709551615})").error().message,
      HasSubstr("\"seed\": 18446744073709551615 is beyond 64 bits"));
  EXPECT_THAT(
      parse_completion(R"({"model":"m","prompt":[1,99999999999999999999]})").error().message,
      HasSubstr("\"prompt\": 99999999999999999999 is beyond 64 bits"));
}

TEST(ApiRequest, SaysWhereABodyIsNoJson) {
  const auto got = parse_chat(R"({"model":)");
  ASSERT_FALSE(got);
  EXPECT_THAT(got.error().message, HasSubstr("not JSON at byte"));
  EXPECT_FALSE(parse_chat("[1]"));
  EXPECT_FALSE(parse_completion(""));
  EXPECT_EQ(parse_completion(R"({"prompt":"x"})").error().param, "model");
}

}  // namespace
}  // namespace tombolo::serve
