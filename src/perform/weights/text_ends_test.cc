#include "perform/weights/text_ends.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace tombolo::weights {
namespace {

Config config_of(Family family, const char* json) {
  Config out{.value = parse_json(json, "config.json").value(), .family = family};
  out.model.vocabulary = 200;
  return out;
}

TEST(TextEnds, AreThoseOfBothFiles) {
  const Config config = config_of(Family::kLlama, R"({"bos_token_id":1,"eos_token_id":2})");
  EXPECT_EQ(text_ends(config, Value()).value(), (TextEnds{{1}, {2}}));
  // As in Llama 3's Instruct models.
  const Value generation = parse_json(R"({"eos_token_id":[2,128,129]})", "g").value();
  EXPECT_EQ(text_ends(config, generation).value(), (TextEnds{{1}, {2, 128, 129}}));
}

TEST(TextEnds, GemmaBeginsAsLlamaDoes) {
  for (const Family family : {Family::kGemma, Family::kGemma2}) {
    const Config config = config_of(family, R"({"bos_token_id":2,"eos_token_id":1})");
    EXPECT_EQ(text_ends(config, Value()).value(), (TextEnds{{2}, {1}}));
  }
}

TEST(TextEnds, QwenAndGpt2BeginWithNothing) {
  for (const Family family : {Family::kQwen3, Family::kGpt2}) {
    const Config config = config_of(family, R"({"bos_token_id":5,"eos_token_id":null})");
    EXPECT_EQ(text_ends(config, Value()).value(), TextEnds{});
  }
}

TEST(TextEnds, RefusesWhatIsNoToken) {
  for (const char* json : {R"({"eos_token_id":200})", R"({"eos_token_id":-1})",
                           R"({"eos_token_id":"</s>"})", R"({"eos_token_id":[2,[3]]})"}) {
    EXPECT_FALSE(text_ends(config_of(Family::kLlama, json), Value())) << json;
  }
}

}  // namespace
}  // namespace tombolo::weights
