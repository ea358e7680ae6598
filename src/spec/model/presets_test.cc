// The presets against what their authors published, and their names.
#include <gtest/gtest.h>

#include <set>

#include "spec/model/model.h"

namespace tombolo::model {
namespace {

// As their authors' checkpoints count them.
TEST(Presets, EqualPublishedCounts) {
  const std::pair<const char*, int64_t> published[] = {{"gpt2", 124'439'808},
                                                       {"bloom", 176'247'271'424},
                                                       {"llama2-7b", 6'738'415'616},
                                                       {"llama2-13b", 13'015'864'320},
                                                       {"llama2-70b", 68'976'648'192},
                                                       {"llama3-8b", 8'030'261'248},
                                                       {"llama3-70b", 70'553'706'496},
                                                       {"llama3.1-405b", 405'853'388'800},
                                                       {"mixtral-8x7b", 46'702'792'704},
                                                       {"mixtral-8x22b", 140'620'634'112},
                                                       {"qwen3-30b-a3b", 30'532'122'624},
                                                       {"qwen3-235b-a22b", 235'093'634'560},
                                                       {"deepseek-v2", 235'741'434'880},
                                                       {"deepseek-v3", 671'026'419'200},
                                                       {"gpt-oss-120b", 116'829'156'672}};
  for (const auto& [name, count] : published) EXPECT_EQ(parameters(*preset(name)), count) << name;
}

// The number behind the A of their names, or of their papers: what a token meets.
TEST(Presets, ActiveParametersEqualPublishedOnes) {
  // Mixtral 8x7B: 46,702,792,704 less 32 layers x 6 idle experts x 3 x 4096 x 14336.
  EXPECT_EQ(active_parameters(*preset("mixtral-8x7b")), 12'879'925'248);
  const std::pair<const char*, double> printed[] = {{"mixtral-8x22b", 39e9},
                                                    {"deepseek-v2", 21e9},
                                                    {"deepseek-v3", 37e9},
                                                    {"qwen3-30b-a3b", 3.3e9},
                                                    {"qwen3-235b-a22b", 22e9}};
  for (const auto& [name, count] : printed) {
    EXPECT_NEAR(static_cast<double>(active_parameters(*preset(name))) / count, 1, 0.025) << name;
  }
  // The model card of gpt-oss leaves the embedding out: 5.13 B.
  const Model oss = *preset("gpt-oss-120b");
  const int64_t active = active_parameters(oss) - oss.vocabulary * oss.hidden;
  EXPECT_NEAR(static_cast<double>(active), 5.13e9, 0.005e9);
  EXPECT_EQ(active_parameters(*preset("llama3-8b")), parameters(*preset("llama3-8b")));
}

// NVIDIA 2024: 9.4 B in the embeddings, 331.6 B elsewhere. Parmar et al. 2024: 12.5 B elsewhere.
TEST(Presets, NemotronEqualsItsPapers) {
  const auto elsewhere = [](const char* name) {
    const Model m = *preset(name);
    return static_cast<double>(parameters(m) - 2 * m.vocabulary * m.hidden);
  };
  EXPECT_NEAR(elsewhere("nemotron4-340b"), 331.6e9, 0.05e9);
  EXPECT_NEAR(elsewhere("nemotron4-15b"), 12.5e9, 0.05e9);
}

// A layer of Grok-1: 6144 x (6144 + 2 x 1024) + 6144^2 of attention, 8 x 3 x 6144 x 32768 of
// experts, 6144 x 8 of the router, 4 x 6144 of norms; 64 of them, 131072 x 6144 of the embedding,
// which is the head too, and the last norm. The name says 314 B.
TEST(Presets, GrokByHand) {
  const int64_t layer = 88'080'384 + 4'831'838'208 + 49'152 + 24'576;
  EXPECT_EQ(parameters(*preset("grok-1")), 64 * layer + 805'306'368 + 6'144);
}

// DeepSeek-V3's second token: 11.5 B parameters besides embedding and head, says the description of
// its checkpoint. By hand: attention 187,107,328, router 1,835,264, 257 experts of 44,040,192, five
// norms of 7168 and 2 x 7168^2.
TEST(Presets, MultiTokenLayersCount) {
  Model m = *preset("deepseek-v3");
  const int64_t alone = parameters(m);
  m.multi_token_layers = 1;
  const int64_t more = parameters(m) - alone;
  EXPECT_EQ(more, 187'107'328 + 1'835'264 + 257L * 44'040'192 + 5 * 7'168 + 2L * 7'168 * 7'168);
  EXPECT_NEAR(static_cast<double>(more), 11.5e9, 0.15e9);
}

// num_params of MosaicML's benchmarks, one row per size and one per sequence length: positions are
// learned, so they count.
TEST(Presets, MptEqualsItsBenchmarks) {
  struct Row {
    const char* name;
    int64_t sequence, count;
  };
  const Row rows[] = {{"mpt-125m", 2048, 125'311'488},   {"mpt-125m", 512, 124'131'840},
                      {"mpt-125m", 1024, 124'525'056},   {"mpt-125m", 4096, 126'884'352},
                      {"mpt-125m", 8192, 130'030'080},   {"mpt-125m", 16384, 136'321'536},
                      {"mpt-125m", 32768, 148'904'448},  {"mpt-350m", 2048, 355'985'408},
                      {"mpt-760m", 2048, 760'470'528},   {"mpt-1b", 2048, 1'315'950'592},
                      {"mpt-1b", 65536, 1'445'974'016},  {"mpt-3b", 2048, 2'651'837'440},
                      {"mpt-7b", 2048, 6'658'859'008},   {"mpt-13b", 2048, 12'853'954'560},
                      {"mpt-30b", 2048, 29'975'214'080}, {"mpt-70b", 2048, 64'862'437'376}};
  for (const Row& row : rows) {
    Model m = *preset(row.name);
    m.sequence = row.sequence;
    EXPECT_EQ(parameters(m), row.count) << row.name << " with " << row.sequence;
  }
}

// As the tables of published measurements write them.
TEST(Presets, AreFoundHoweverTheyAreWritten) {
  const std::pair<const char*, const char*> written[] = {
      {"LLAMA3.1_405B", "llama3.1-405b"},   {"llama3_405b", "llama3.1-405b"},
      {"Llama3.1-405B", "llama3.1-405b"},   {"llama3_70b", "llama3-70b"},
      {"LLAMA2-13B", "llama2-13b"},         {"Qwen3_235B_a22B", "qwen3-235b-a22b"},
      {"Qwen3_30B_a3B", "qwen3-30b-a3b"},   {"GPT_OSS_120B", "gpt-oss-120b"},
      {"DeepSeekV3", "deepseek-v3"},        {"deepseekv2", "deepseek-v2"},
      {"GPT3-175B", "gpt3-175b"},           {"Grok1-314B", "grok-1"},
      {"Nemotron4-340B", "nemotron4-340b"}, {"Nemotron4-15B", "nemotron4-15b"},
      {"MT-NLG-530B", "mt-nlg-530b"},       {"BLOOM", "bloom-176b"},
      {"Mixtral 8x7B", "mixtral-8x7b"}};
  for (const auto& [name, meant] : written) {
    const Result<Model> found = preset(name);
    ASSERT_TRUE(found) << name;
    EXPECT_EQ(found->name, meant);
  }
}

// Each passes the checks of [model], comes back equal from a file, and is found under its own name.
TEST(Presets, AreModelsThatCanBeWritten) {
  std::set<std::string> names;
  for (const std::string& name : preset_names()) {
    EXPECT_TRUE(names.insert(name).second) << name << " twice";
    const Model m = *preset(name);
    EXPECT_EQ(m.name, name);
    const Result<Model> again = read_fields<Model>(write_fields(m), "plan.json");
    ASSERT_TRUE(again) << name << ": " << again.error().text();
    EXPECT_EQ(*again, m) << name;
  }
}

}  // namespace
}  // namespace tombolo::model
