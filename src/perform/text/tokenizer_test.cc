#include "perform/text/tokenizer.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>

#include "base/json.h"
#include "base/random.h"
#include "support/tokenizer_texts.h"

namespace tombolo::text {
namespace {

using test::Pairs;
using test::tokenizer_json;
using testing::ElementsAre;
using testing::HasSubstr;

Tokenizer tokenizer(const std::string& json) {
  auto made = Tokenizer::parse(json, "t.json");
  EXPECT_TRUE(made) << made.error().text();
  return std::move(*made);
}

std::vector<int64_t> ids(Tokenizer& from, std::string_view text) {
  const auto out = from.encode(text);
  EXPECT_TRUE(out) << (out ? "" : out.error().text());
  return out ? *out : std::vector<int64_t>{};
}

std::string refusal(const std::string& json) {
  const auto made = Tokenizer::parse(json, "t.json");
  EXPECT_FALSE(made) << json;
  return made ? "" : made.error().text();
}

// The beginning of GPT-2's published vocabulary (openai/gpt-2: encoder.json, vocab.bpe): 256 bytes,
// then its first 35 merges. What these make of a text are GPT-2's own ids.
TEST(Tokenizer, GivesGpt2sIds) {
  Tokenizer gpt2 = tokenizer(tokenizer_json(test::gpt2_merges()));
  EXPECT_THAT(ids(gpt2, "!"), ElementsAre(0));
  EXPECT_THAT(ids(gpt2, "\n"), ElementsAre(198));
  EXPECT_THAT(ids(gpt2, " "), ElementsAre(220));
  EXPECT_THAT(ids(gpt2, " the"), ElementsAre(262));
  EXPECT_THAT(ids(gpt2, " to in the and a, of."),
              ElementsAre(284, 287, 262, 290, 257, 11, 286, 13));
  // "the" at the begin of a text: "he" was learned before "Ġthe", "th" was not.
  EXPECT_THAT(ids(gpt2, "the"), ElementsAre(83, 258));
}

// Hugging Face's course, chapter 6, has the words of this text under GPT-2's pattern: Hello|,| how|
// are| | you|?. Between two words no pair is joined: "o h" is one here, and across the comma not.
TEST(Tokenizer, JoinsNoPairAcrossWords) {
  Tokenizer made = tokenizer(tokenizer_json({{"Ġ", "h"}, {"Ġ", "Ġ"}, {"o", ","}, {"u", "?"}}));
  const auto byte = [](char c) { return int64_t{c} - '!'; };
  EXPECT_THAT(ids(made, "Hello, how are  you?"),
              ElementsAre(byte('H'), byte('e'), byte('l'), byte('l'), byte('o'), byte(','), 256,
                          byte('o'), byte('w'), 220, byte('a'), byte('r'), byte('e'), 220, 220,
                          byte('y'), byte('o'), byte('u'), byte('?')));
}

// The pair that was learned first is joined first, wherever it stands; of equals the leftmost.
TEST(Tokenizer, JoinsPairsInTheOrderInWhichTheyWereLearned) {
  Tokenizer made = tokenizer(tokenizer_json({{"b", "c"}, {"a", "b"}, {"a", "bc"}, {"a", "a"}}));
  EXPECT_THAT(ids(made, "abc"), ElementsAre(258));  // bc, then a+bc: never ab
  EXPECT_THAT(ids(made, "ab"), ElementsAre(257));
  EXPECT_THAT(ids(made, "aaa"), ElementsAre(259, 64));  // 'a' is 64
  EXPECT_THAT(ids(made, "aabc"), ElementsAre(64, 258));
}

// One pair at a time, found by looking through all of them.
std::vector<std::string> joined_slowly(const std::string& word, const Pairs& merges) {
  std::vector<std::string> parts;
  for (const char letter : word) parts.emplace_back(1, letter);
  for (;;) {
    size_t best = merges.size(), at = 0;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto found = std::find(merges.begin(), merges.end(), std::pair(parts[i], parts[i + 1]));
      const auto rank = static_cast<size_t>(found - merges.begin());
      if (rank < best) best = rank, at = i;
    }
    if (best == merges.size()) return parts;
    parts[at] += parts[at + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

TEST(Tokenizer, JoinsAsTheSlowWayDoes) {
  Random random(20);
  for (int round = 0; round < 40; ++round) {
    std::vector<std::string> words{"a", "b", "c"};
    Pairs merges;
    while (merges.size() < 12) {
      std::pair<std::string, std::string> pair{words[random.below(words.size())],
                                               words[random.below(words.size())]};
      const std::string joined = pair.first + pair.second;
      if (std::find(words.begin(), words.end(), joined) != words.end()) continue;
      words.push_back(joined);
      merges.push_back(pair);
    }
    Tokenizer made = tokenizer(tokenizer_json(merges));
    for (int i = 0; i < 20; ++i) {
      std::string word;
      for (uint64_t n = 1 + random.below(100); n > 0; --n) {
        word += static_cast<char>('a' + random.below(3));
      }
      std::vector<int64_t> expected;
      for (const std::string& part : joined_slowly(word, merges)) {
        expected.push_back(*made.id_of(part));
      }
      ASSERT_EQ(ids(made, word), expected) << word;
    }
  }
}

TEST(Tokenizer, AddedTokensStandAsAWhole) {
  Tokenizer made = tokenizer(tokenizer_json(test::gpt2_merges()));
  EXPECT_EQ(made.vocabulary(), 292);
  EXPECT_EQ(made.id_of("<|endoftext|>"), 291);
  EXPECT_EQ(made.id_of("Ġthe"), 262);
  EXPECT_EQ(made.id_of("nothing"), std::nullopt);
  EXPECT_THAT(ids(made, " the<|endoftext|> and<|endoftext|>"), ElementsAre(262, 291, 290, 291));
  EXPECT_THAT(ids(made, "<|end"), ElementsAre(27, 91, 268, 67));  // "<" "|" "en" "d"
  EXPECT_THAT(ids(made, ""), ElementsAre());
  // The longest of those that fit.
  AddedTokens added;
  added.add("<a>", 1);
  added.add("<a><b>", 2);
  EXPECT_EQ(added.next("x<a><b>", 0)->id, 2);
  EXPECT_EQ(added.next("x<a><a>", 0)->id, 1);
  EXPECT_FALSE(added.next("x<a>", 2));
}

// They are looked for in what the normalizer has changed, so they are changed as well.
TEST(Tokenizer, AddedTokensAreNormalizedWithTheText) {
  const Value cafe(Value::Table{
      {"id", 300}, {"content", "cafe\u0301"}, {"normalized", true}, {"special", false}});
  Tokenizer made = tokenizer(tokenizer_json(
      {}, {{"normalizer", Value::Table{{"type", "NFC"}}}, {"added_tokens", Value::Array{cafe}}}));
  EXPECT_THAT(ids(made, "caf\u00e9 cafe\u0301"), ElementsAre(300, 220, 300));
  EXPECT_EQ(made.id_of("cafe\u0301"), 300);
  EXPECT_EQ(made.bytes_of(300), "cafe\u0301");
}

// Spelt in two ways, of which the text has the other one, in each form; but as it is where it shall
// not be normalized, or where nothing is.
TEST(Tokenizer, AddedTokensAreFoundInEachNormalForm) {
  const auto finds = [](const char* form, const char* content, bool normalized, const char* text) {
    const Value token(Value::Table{
        {"id", 300}, {"content", content}, {"normalized", normalized}, {"special", false}});
    const Value normalizer = form ? Value(Value::Table{{"type", form}}) : Value();
    Tokenizer made = tokenizer(
        tokenizer_json({}, {{"normalizer", normalizer}, {"added_tokens", Value::Array{token}}}));
    return ids(made, text) == std::vector<int64_t>{300};
  };
  EXPECT_TRUE(finds("NFD", "caf\u00e9", true, "cafe\u0301"));
  EXPECT_TRUE(finds("NFKC", "\ufb01n", true, "fin"));
  EXPECT_TRUE(finds("NFKD", "\u2460", true, "1"));
  EXPECT_TRUE(finds("NFC", "\u1112\u1161\u11ab", true, "\ud55c"));
  EXPECT_TRUE(finds("NFC", "cafe\u0301", false, "cafe\u0301"));
  EXPECT_FALSE(finds("NFC", "cafe\u0301", false, "caf\u00e9"));
  EXPECT_TRUE(finds(nullptr, "cafe\u0301", true, "cafe\u0301"));
  EXPECT_FALSE(finds(nullptr, "cafe\u0301", true, "caf\u00e9"));
}

// What the post-processor adds is told, whatever the family of the model.
TEST(Tokenizer, SaysWhatStandsAroundATextAsThePostProcessorDoes) {
  const auto around = [&](const Value& post_processor) {
    return *tokenizer(tokenizer_json({}, {{"post_processor", post_processor}})).around();
  };
  const auto parsed = [](const char* json) { return parse_json(json, "p").value(); };
  EXPECT_EQ(around(Value()), TextFrame{});
  EXPECT_EQ(around(parsed(R"({"type":"ByteLevel","trim_offsets":true})")), TextFrame{});
  const std::string begin =
      R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<|begin|>","type_id":0}},
          {"Sequence":{"id":"A","type_id":0}}],"pair":[],
          "special_tokens":{"<|begin|>":{"id":"<|begin|>","ids":[256],"tokens":["<|begin|>"]}}})";
  EXPECT_EQ(around(parsed(begin.c_str())), (TextFrame{{256}, {}}));
  const std::string steps =
      R"({"type":"Sequence","processors":[{"type":"ByteLevel"},)" + begin + "]}";
  EXPECT_EQ(around(parsed(steps.c_str())), (TextFrame{{256}, {}}));
  EXPECT_EQ(around(parsed(R"({"type":"RobertaProcessing","sep":["</s>",2],"cls":["<s>",0]})")),
            (TextFrame{{0}, {2}}));
  for (const char* wrong :
       {R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"x"}}]})",
        R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"x"}},{"Sequence":{}}]})",
        R"({"type":"TemplateProcessing"})", R"({"type":"BertProcessing","cls":["a"]})",
        R"({"type":"Another"})"}) {
    const auto refused =
        Tokenizer::parse(tokenizer_json({}, {{"post_processor", parsed(wrong)}}), "t.json");
    ASSERT_FALSE(refused) << wrong;
    EXPECT_THAT(refused.error().text(), HasSubstr("t.json: post_processor")) << wrong;
  }
}

// Qwen's way: NFC, its own pattern, ByteLevel without one.
TEST(Tokenizer, GoesThroughNormalizerAndSequence) {
  const Value split(Value::Table{{"type", "Split"},
                                 {"pattern", Value::Table{{"Regex", "\\p{N}"}}},
                                 {"behavior", "Isolated"},
                                 {"invert", false}});
  const Value steps(Value::Table{{"type", "Sequence"},
                                 {"pretokenizers", Value::Array{split, test::byte_level(false)}}});
  const Pairs merges{{"1", "2"}, {"Ã", "¼"}, {"Ġ", "Ã¼"}};
  Tokenizer made = tokenizer(tokenizer_json(
      merges, {{"normalizer", Value::Table{{"type", "NFC"}}}, {"pre_tokenizer", steps}}));
  EXPECT_THAT(ids(made, "12"), ElementsAre(16, 17));     // digits stand alone
  EXPECT_THAT(ids(made, " u\u0308"), ElementsAre(258));  // as U+00FC
  EXPECT_THAT(ids(made, " \u00fc"), ElementsAre(258));
}

TEST(Tokenizer, KnowsPrefixSpaceRemovedPiecesAndWholeWords) {
  Tokenizer prefixed = tokenizer(
      tokenizer_json(test::gpt2_merges(), {{"pre_tokenizer", test::byte_level(true, true)}}));
  EXPECT_THAT(ids(prefixed, "the"), ElementsAre(262));
  EXPECT_THAT(ids(prefixed, " the"), ElementsAre(262));

  const Value split(Value::Table{
      {"type", "Split"}, {"pattern", Value::Table{{"String", "."}}}, {"behavior", "Removed"}});
  const Value steps(Value::Table{{"type", "Sequence"},
                                 {"pretokenizers", Value::Array{split, test::byte_level(false)}}});
  Tokenizer removed = tokenizer(tokenizer_json({}, {{"pre_tokenizer", steps}}));
  EXPECT_THAT(ids(removed, "a.b."), ElementsAre(64, 65));

  // ignore_merges, as in Llama 3: "abc" is a word, though its pairs do not lead there.
  Value model = test::model_table({{"a", "b"}, {"b", "c"}});
  Value vocabulary = *model.find("vocab");
  vocabulary.set("abc", 258);
  model.set("vocab", vocabulary);
  Tokenizer joined = tokenizer(tokenizer_json({}, {{"model", model}}));
  EXPECT_THAT(ids(joined, "abc"), ElementsAre(256, 66));
  model.set("ignore_merges", true);
  Tokenizer whole = tokenizer(tokenizer_json({}, {{"model", model}}));
  EXPECT_THAT(ids(whole, "abc"), ElementsAre(258));
  EXPECT_THAT(ids(whole, "abcc"), ElementsAre(256, 66, 66));
}

TEST(Tokenizer, TakesPairsAsListsToo) {
  Value model = test::model_table({{"a", "b"}});
  model.set("merges", Value::Array{Value(Value::Array{Value("a"), Value("b")})});
  Tokenizer made = tokenizer(tokenizer_json({}, {{"model", model}}));
  EXPECT_THAT(ids(made, "ab"), ElementsAre(256));
}

TEST(Tokenizer, RefusesWhatItDoesNotKnowByName) {
  const auto with = [](const char* key, Value value) {
    return refusal(tokenizer_json({{"a", "b"}}, {{key, std::move(value)}}));
  };
  const auto model_with = [&](const char* key, Value value) {
    Value model = test::model_table({{"a", "b"}});
    model.set(key, std::move(value));
    return with("model", model);
  };
  const auto step = [](const char* type) { return Value(Value::Table{{"type", type}}); };
  EXPECT_THAT(refusal("{"), HasSubstr("t.json"));
  EXPECT_THAT(refusal("[]"), HasSubstr("t.json: there is no model"));
  EXPECT_THAT(with("model", 3), HasSubstr("t.json: model: wanted a table"));
  EXPECT_THAT(model_with("type", "Unigram"), HasSubstr("model.type is Unigram"));
  EXPECT_THAT(model_with("byte_fallback", true), HasSubstr("model.byte_fallback"));
  EXPECT_THAT(model_with("dropout", 0.1), HasSubstr("model.dropout"));
  EXPECT_THAT(model_with("end_of_word_suffix", "</w>"), HasSubstr("model.end_of_word_suffix"));
  EXPECT_THAT(model_with("vocab", 1), HasSubstr("model.vocab: wanted a table"));
  EXPECT_THAT(model_with("vocab", Value(Value::Table{{"a", -1}})), HasSubstr("model.vocab[\"a\"]"));
  EXPECT_THAT(model_with("merges", Value(Value::Array{Value("a b"), Value("a z z")})),
              HasSubstr("model.merges[1]: wanted two words"));
  EXPECT_THAT(model_with("merges", Value(Value::Array{Value("a z")})),
              HasSubstr("model.merges[0]: \"az\" is not in model.vocab"));
  EXPECT_THAT(with("normalizer", step("Lowercase")), HasSubstr("normalizer: \"Lowercase\""));
  EXPECT_THAT(with("pre_tokenizer", step("Metaspace")), HasSubstr("pre_tokenizer: \"Metaspace\""));
  EXPECT_THAT(with("pre_tokenizer", Value()), HasSubstr("no step is ByteLevel"));
  EXPECT_THAT(with("pre_tokenizer", Value(Value::Table{{"type", "Split"},
                                                       {"pattern", Value::Table{{"Regex", "("}}},
                                                       {"behavior", "Isolated"}})),
              HasSubstr("while reading t.json: pre_tokenizer"));
  const Value strips(Value::Table{{"id", 300}, {"content", "<mask>"}, {"lstrip", true}});
  EXPECT_THAT(with("added_tokens", Value(Value::Array{strips})),
              HasSubstr("added_tokens[0]: \"<mask>\" asks for lstrip"));
}

TEST(Tokenizer, SaysWhatOfATextItCannotEncode) {
  Tokenizer made = tokenizer(tokenizer_json({}));
  EXPECT_THAT(made.encode("caf\xe9").error().text(), HasSubstr("byte 3 (0xe9) is no UTF-8"));
  const Value model(Value::Table{{"vocab", Value::Table{{"a", 0}}}, {"merges", Value::Array{}}});
  Tokenizer small = tokenizer(tokenizer_json({}, {{"model", model}}));
  EXPECT_THAT(small.encode("ab").error().text(), HasSubstr("no token for the byte 0x62 of \"ab\""));
}

// Whatever a text is cut into, its parts are the text: also where a character lies in two tokens.
TEST(Tokenizer, TokensAreTheBytesOfTheirText) {
  Tokenizer made = tokenizer(tokenizer_json(test::gpt2_merges()));
  for (const std::string text :
       {" to in the and a, of.", "the\n\ttide 12", "\u00fcber \u65e5\u672c", "\x7f\u00a0!"}) {
    std::string bytes;
    for (const int64_t id : ids(made, text)) bytes += made.bytes_of(id);
    EXPECT_EQ(bytes, text);
  }
  EXPECT_EQ(made.bytes_of(262), " the");
  EXPECT_EQ(made.bytes_of(198), "\n");
  EXPECT_EQ(made.bytes_of(*made.id_of("<|endoftext|>")), "");  // special: no text
  EXPECT_EQ(made.bytes_of(100'000), "");
  EXPECT_EQ(made.bytes_of(-1), "");
}

// Who writes a prompt must not be able to end it.
TEST(Tokenizer, PlainTextHasNoSpecialTokens) {
  Tokenizer made = tokenizer(tokenizer_json(test::gpt2_merges()));
  const int64_t end = *made.id_of("<|endoftext|>");
  EXPECT_THAT(ids(made, "a<|endoftext|>"), ElementsAre(64, end));
  const auto plain = made.encode_plain("a<|endoftext|>");
  ASSERT_TRUE(plain);
  EXPECT_THAT(*plain, testing::Not(testing::Contains(end)));
  std::string bytes;
  for (const int64_t id : *plain) bytes += made.bytes_of(id);
  EXPECT_EQ(bytes, "a<|endoftext|>");
  EXPECT_FALSE(made.encode_plain("\xff"));
}

}  // namespace
}  // namespace tombolo::text
