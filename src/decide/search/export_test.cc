#include "decide/search/export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

namespace tombolo::search {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::SizeIs;

plan::Job preset_job(const char* preset) {
  plan::Job job;
  job.file = "job.toml";
  job.model = *model::preset(preset);
  job.training.global_batch = 256;
  return job;
}

plan::Job llama_on_64(int64_t virtual_stages, int64_t zero) {
  plan::Job j = preset_job("llama3-8b");
  j.model->sequence = 8192;
  j.training.micro_batch = 2;
  j.training.recompute = model::Recompute::kSelective;
  j.parallelism.tensor = 2;
  j.parallelism.pipeline = 4;
  j.parallelism.data = 8;
  j.parallelism.virtual_stages = virtual_stages;
  j.parallelism.zero = zero;
  j.parallelism.sequence_parallel = true;
  return j;
}

TEST(Export, MegatronGetsArgumentsOfADenseModel) {
  plan::Job j = llama_on_64(2, 1);
  j.parallelism.schedule = layout::ScheduleKind::kInterleaved;
  const Export out = to_megatron(j);
  EXPECT_EQ(out.text,
            "--tensor-model-parallel-size 2\n"
            "--sequence-parallel\n"
            "--pipeline-model-parallel-size 4\n"
            "--context-parallel-size 1\n"
            "--num-virtual-stages-per-pipeline-rank 2\n"
            "--use-distributed-optimizer\n"
            "--overlap-grad-reduce\n"
            "--overlap-param-gather\n"
            "--micro-batch-size 2\n"
            "--global-batch-size 256\n"
            "--recompute-granularity selective\n"
            "--bf16\n"
            "--num-layers 32\n"
            "--hidden-size 4096\n"
            "--ffn-hidden-size 14336\n"
            "--num-attention-heads 32\n"
            "--group-query-attention\n"
            "--num-query-groups 8\n"
            "--seq-length 8192\n"
            "--max-position-embeddings 8192\n"
            "--vocab-size 128256\n"
            "--position-embedding-type rope\n"
            "--rotary-base 500000\n"
            "--normalization RMSNorm\n"
            "--norm-epsilon 1e-05\n"
            "--swiglu\n"
            "--disable-bias-linear\n"
            "--attention-dropout 0.0\n"
            "--hidden-dropout 0.0\n"
            "--untie-embeddings-and-output-weights\n");
  EXPECT_TRUE(out.notes.empty());
}

TEST(Export, MegatronGetsALayoutWhereStagesDiffer) {
  // 126 layers, embedding and head are 128 pieces: 8 stages of 16, two of which hold an end.
  plan::Job j = preset_job("llama3.1-405b");
  j.parallelism.pipeline = 8;
  j.parallelism.layers_per_stage = {15, 16, 16, 16, 16, 16, 16, 15};
  EXPECT_THAT(to_megatron(j).text, HasSubstr("--pipeline-model-parallel-layout "
                                             "Et*15|t*16|t*16|t*16|t*16|t*16|t*16|t*15L\n"));
  // In 16 chunks of 8, of two virtual stages each.
  j.parallelism.virtual_stages = 2;
  EXPECT_THAT(to_megatron(j).text, HasSubstr("Et*7|t*8|"));
  EXPECT_THAT(to_megatron(j).text, HasSubstr("|t*8|t*7L\n"));
}

TEST(Export, MegatronGetsExpertsAndLatentAttention) {
  plan::Job j = preset_job("deepseek-v3");
  j.parallelism.expert = 8;
  j.parallelism.data = 8;
  const Export out = to_megatron(j);
  for (const char* argument :
       {"--expert-model-parallel-size 8\n", "--num-experts 256\n", "--moe-router-topk 8\n",
        "--moe-ffn-hidden-size 2048\n", "--moe-token-dispatcher-type alltoall\n",
        "--moe-shared-expert-intermediate-size 2048\n", "--moe-layer-freq [0]*3+[1]*58\n",
        "--moe-router-enable-expert-bias\n--moe-router-score-function sigmoid\n",
        "--multi-latent-attention\n", "--qk-layernorm\n", "--q-lora-rank 1536\n",
        "--kv-lora-rank 512\n", "--qk-head-dim 128\n", "--qk-pos-emb-head-dim 64\n",
        "--v-head-dim 128\n", "--rotary-scaling-factor 1.0\n"}) {
    EXPECT_THAT(out.text, HasSubstr(argument));
  }
  EXPECT_THAT(out.notes, ElementsAre(HasSubstr("--moe-router-topk-scaling-factor 2.5")));
}

TEST(Export, MegatronsRouterScoresByDefault) {
  plan::Job j = preset_job("mixtral-8x7b");
  EXPECT_THAT(to_megatron(j).text, Not(HasSubstr("score-function")));
  EXPECT_THAT(to_megatron(j).notes, ElementsAre(HasSubstr("no auxiliary loss")));
  // A softmax over the one chosen expert would be 1.
  j.model->experts->per_token = 1;
  EXPECT_THAT(to_megatron(j).text, HasSubstr("--moe-router-pre-softmax\n"));
  j.parallelism.tensor = 2;
  EXPECT_THAT(to_megatron(j).notes, Contains(HasSubstr("sequence_parallel = false")));
}

// Lists, which begin with the first layer: as a number Megatron's begins with experts.
TEST(Export, MegatronGetsLayersThatTakeTurns) {
  plan::Job j = preset_job("mixtral-8x7b");
  j.model->experts->every = 2;
  EXPECT_THAT(to_megatron(j).text, HasSubstr("--moe-layer-freq ([0]*1+[1])*16+[0]*0\n"));
  j = preset_job("llama3-8b");
  j.model->nope_interval = 4;
  EXPECT_THAT(to_megatron(j).text, HasSubstr("--no-rope-freq 4\n"));
  j.model->nope_interval = 5;
  EXPECT_THAT(to_megatron(j).text, HasSubstr("--no-rope-freq ([0]*4+[1])*6+[0]*2\n"));
  EXPECT_THAT(to_megatron(j).notes, IsEmpty());
}

TEST(Export, MegatronGetsLinearAttention) {
  plan::Job j = preset_job("llama3-8b");
  j.model->linear_attention = model::LinearAttention{};
  j.model->attention_gate = true;
  const Export out = to_megatron(j);
  EXPECT_THAT(out.text, HasSubstr("--attention-output-gate\n"));
  EXPECT_THAT(out.text, HasSubstr("--experimental-attention-variant gdn\n"
                                  "--linear-attention-freq 4\n"
                                  "--linear-num-key-heads 16\n"
                                  "--linear-num-value-heads 32\n"
                                  "--linear-key-head-dim 128\n"
                                  "--linear-value-head-dim 128\n"
                                  "--linear-conv-kernel-dim 4\n"));
  EXPECT_THAT(out.notes, IsEmpty());
}

TEST(Export, MegatronSaysWhichNormsItHasNot) {
  plan::Job j = preset_job("llama3-8b");
  j.model->activation = model::Activation::kGeglu;
  j.model->input_norms = false;
  j.model->output_norms = j.model->whole_qk_norm = j.model->head_bias = true;
  const Export out = to_megatron(j);
  EXPECT_THAT(out.text, HasSubstr("--quick-geglu\n"));
  EXPECT_THAT(out.notes, ElementsAre(HasSubstr("activation"), HasSubstr("output_norms"),
                                     HasSubstr("whole_qk_norm"), HasSubstr("head_bias"),
                                     HasSubstr("input_norms = false")));
}

// Gemma 2's norms and windows have arguments; its scales and caps have none.
TEST(Export, MegatronGetsWindowsAndNormsOfGemma) {
  plan::Job j = preset_job("llama3-8b");
  model::Model& m = *j.model;
  m.unit_offset_norms = m.scaled_embedding = true;
  m.query_scalar = 144;
  m.attention_softcap = 50;
  m.logit_softcap = 30;
  m.attention_window = 4096;
  m.global_interval = 2;
  const Export out = to_megatron(j);
  EXPECT_THAT(out.text, HasSubstr("--apply-layernorm-1p\n"));
  EXPECT_THAT(out.text, HasSubstr("--window-size 4095,0\n--window-attn-skip-freq 2\n"));
  EXPECT_THAT(out.notes,
              ElementsAre(HasSubstr("scaled_embedding"), HasSubstr("query_scalar = 144"),
                          HasSubstr("attention_softcap = 50"), HasSubstr("logit_softcap = 30")));
  m.sequence = 4096;  // as long as the window
  EXPECT_THAT(to_megatron(j).text, Not(HasSubstr("--window-size")));
  EXPECT_THAT(to_megatron(preset_job("gpt-oss-120b")).notes,
              Contains(HasSubstr("--window-size 127,0 --window-attn-skip-freq 2")));
}

TEST(Export, MegatronGetsTheRopeScalingOfLlama3) {
  plan::Job j = preset_job("llama3-8b");
  EXPECT_THAT(to_megatron(j).text, Not(HasSubstr("rope-scaling")));
  j.model->rope_scaling = model::RopeScaling{.factor = 32};
  EXPECT_THAT(to_megatron(j).text,
              HasSubstr("--rotary-base 500000\n--use-rope-scaling\n--rope-scaling-factor 32\n"));
  EXPECT_THAT(to_megatron(j).notes, IsEmpty());
  j.model->rope_scaling->first_sequence = 4096;  // its other numbers are constants there
  EXPECT_THAT(to_megatron(j).notes, ElementsAre(HasSubstr("first_sequence = 8192")));
  j = preset_job("deepseek-v2");
  j.model->rope_scaling = model::RopeScaling{};
  EXPECT_THAT(to_megatron(j).text, Not(HasSubstr("use-rope-scaling")));
  EXPECT_THAT(to_megatron(j).notes, Contains(HasSubstr("rope_scaling")));
}

TEST(Export, MegatronsBasesAreWhole) {
  plan::Job j = preset_job("llama3-8b");
  j.model->rope_theta = 10000.5;
  EXPECT_THAT(to_megatron(j).notes, ElementsAre(HasSubstr("rope_theta = 10000.5")));
}

// Which of the two switches, and what neither can say.
TEST(Export, MegatronLosesBiasesOfSomeLayersOnly) {
  plan::Job j = preset_job("llama3-8b");
  j.model->qkv_bias = true;  // as Qwen2
  Export out = to_megatron(j);
  EXPECT_THAT(out.text, HasSubstr("--disable-bias-linear\n--add-qkv-bias\n"));
  EXPECT_THAT(out.notes, IsEmpty());
  j.model->output_bias = true;  // as "attention_bias": true
  out = to_megatron(j);
  EXPECT_THAT(out.text, HasSubstr("--disable-bias-linear\n--add-qkv-bias\n"));
  EXPECT_THAT(out.notes, ElementsAre("biases of the projection after attention are left out: no "
                                     "argument gives them alone"));
  j.model->mlp_bias = true;  // all there are
  out = to_megatron(j);
  EXPECT_THAT(out.text, Not(HasSubstr("bias")));
  EXPECT_THAT(out.notes, IsEmpty());
}

TEST(Export, MegatronGetsBiasesOfGptOssByDefault) {
  plan::Job j = preset_job("gpt-oss-120b");
  j.parallelism.tensor = 2;
  j.parallelism.sequence_parallel = true;
  Export out = to_megatron(j);
  EXPECT_THAT(out.text, Not(HasSubstr("bias")));
  EXPECT_THAT(out.text, HasSubstr("--softmax-type learnable\n"));
  EXPECT_THAT(out.notes, Contains(HasSubstr("--expert-tensor-parallel-size 1")));
  EXPECT_THAT(out.notes, Contains(HasSubstr("its SwiGLU")));
  j.model->experts->bias = false;
  out = to_megatron(j);
  EXPECT_THAT(out.text, HasSubstr("--disable-bias-linear\n--add-qkv-bias\n"));
  EXPECT_THAT(out.notes, Contains(HasSubstr("biases of the projection after attention")));
}

TEST(Export, MegatronCompressesWithoutBiases) {
  plan::Job j = preset_job("deepseek-v3");
  j.model->qkv_bias = j.model->output_bias = true;
  const Export out = to_megatron(j);
  EXPECT_THAT(out.text, HasSubstr("--disable-bias-linear\n"));
  EXPECT_THAT(out.text, Not(HasSubstr("--add-qkv-bias")));
  EXPECT_THAT(out.notes, Contains("biases of compressed queries, keys and values and of the "
                                  "projection after attention are left out: no argument gives "
                                  "them alone"));
}

// 128256 = 128 x 1002 = 8 x 16032, and 16032 = 32 x 501. 50257 is odd.
TEST(Export, MegatronPadsNoVocabularyThatDivides) {
  plan::Job j = preset_job("llama3-8b");
  EXPECT_THAT(to_megatron(j).text, Not(HasSubstr("divisible")));
  j.parallelism.tensor = 8;
  EXPECT_THAT(to_megatron(j).text,
              HasSubstr("--vocab-size 128256\n--make-vocab-size-divisible-by 32\n"));
  EXPECT_THAT(to_megatron(j).notes, IsEmpty());
  j = preset_job("gpt2");
  EXPECT_THAT(to_megatron(j).text, HasSubstr("--make-vocab-size-divisible-by 1\n"));
  EXPECT_THAT(to_megatron(j).notes, IsEmpty());
  j.parallelism.tensor = 2;
  EXPECT_THAT(to_megatron(j).notes, ElementsAre("vocabulary = 50257: Megatron pads it to 50258, a "
                                                "multiple of tensor = 2"));
}

// Where the stack's constants hide gradients, and where there are any to sum.
TEST(Export, MegatronHidesWhatThePredictionHides) {
  const auto overlaps = [](int64_t data, int64_t zero, const char* stack) {
    plan::Job j = preset_job("llama3-8b");
    j.training.stack = stack;
    j.parallelism.data = data;
    j.parallelism.zero = zero;
    const std::string text = to_megatron(j).text;
    return std::pair(text.find("--overlap-grad-reduce\n") != text.npos,
                     text.find("--overlap-param-gather\n") != text.npos);
  };
  EXPECT_EQ(overlaps(8, 1, "megatron"), std::pair(true, true));
  EXPECT_EQ(overlaps(8, 0, "megatron"), std::pair(true, false));
  EXPECT_EQ(overlaps(1, 0, "megatron"), std::pair(false, false));
  EXPECT_EQ(overlaps(8, 1, "megatron-2022"), std::pair(false, false));
}

TEST(Export, MegatronHasNoLayerNormWithoutBiases) {
  plan::Job j = preset_job("mpt-7b");
  EXPECT_THAT(to_megatron(j).notes, IsEmpty());
  j.model->norm_bias = false;
  EXPECT_THAT(to_megatron(j).notes, ElementsAre(HasSubstr("norm_bias = false")));
}

TEST(Export, MegatronShardsWeightsByItsFsdp) {
  plan::Job j = preset_job("llama3-8b");
  j.parallelism.zero = 3;
  j.parallelism.data = 8;
  const Export out = to_megatron(j);
  EXPECT_THAT(out.text, HasSubstr("--use-megatron-fsdp\n--data-parallel-sharding-strategy "
                                  "optim_grads_params\n--no-gradient-accumulation-fusion\n"
                                  "--ckpt-format fsdp_dtensor\n--use-distributed-optimizer\n"));
  EXPECT_TRUE(out.notes.empty());
  j.parallelism.pipeline = 2;
  EXPECT_THAT(to_megatron(j).notes, ElementsAre("zero = 3: Megatron-FSDP runs without a pipeline"));
}

TEST(Export, TorchtitanGetsItsConfiguration) {
  plan::Job j = llama_on_64(4, 3);
  // A replica has 256/8 sequences; 32 layers are 16 chunks of two.
  EXPECT_EQ(to_torchtitan(j).text,
            "# For torchtitan 0.2.2 (20 February 2026), the last release that reads TOML: from 23 "
            "February\n# on (commit 9810191bb) its configurations are Python.\n"
            "\n[training]\n"
            "local_batch_size = 32\n"
            "global_batch_size = 256\n"
            "seq_len = 8192\n"
            "\n[parallelism]\n"
            "data_parallel_replicate_degree = 1\n"
            "data_parallel_shard_degree = 8\n"
            "fsdp_reshard_after_forward = \"always\"\n"
            "tensor_parallel_degree = 2\n"
            "context_parallel_degree = 1\n"
            "pipeline_parallel_degree = 4\n"
            "pipeline_parallel_schedule = \"Interleaved1F1B\"\n"
            "pipeline_parallel_microbatch_size = 2\n"
            "pipeline_parallel_first_stage_less_layers = 0\n"
            "pipeline_parallel_last_stage_less_layers = 0\n"
            "pipeline_parallel_layers_per_stage = 2\n"
            "\n[activation_checkpoint]\n"
            "mode = \"selective\"\n"
            "selective_ac_option = \"op\"\n");
}

TEST(Export, TorchtitanSaysWhatItDoesDifferently) {
  plan::Job j = preset_job("llama3-8b");
  j.parallelism.tensor = 2;
  j.parallelism.data = 8;
  j.parallelism.zero = 1;
  const Export out = to_torchtitan(j);
  EXPECT_THAT(out.text, HasSubstr("local_batch_size = 1\n"));
  EXPECT_THAT(out.text, HasSubstr("fsdp_reshard_after_forward = \"never\"\n"));
  EXPECT_THAT(out.text, Not(HasSubstr("pipeline_parallel_schedule")));
  ASSERT_EQ(out.notes.size(), 3u);
  EXPECT_THAT(out.notes[1], HasSubstr("zero = 1"));
  EXPECT_THAT(out.notes[2], HasSubstr("sequence_parallel = false"));
}

// Of `schedule` in 4 stages, or 8 where a rank has two.
plan::Job pipeline_of(const char* schedule, int64_t virtual_stages) {
  plan::Job j = preset_job("llama3-8b");
  j.parallelism.pipeline = 4;
  j.parallelism.virtual_stages = virtual_stages;
  j.parallelism.schedule = *layout::find_schedule(schedule);
  j.training.precision = plan::Precision::kFp32;  // as torchtitan has it where nothing is sharded
  return j;
}

TEST(Export, MegatronSaysWhichSchedulesItHasNot) {
  for (const char* schedule : {"gpipe", "zb-h1", "varuna", "atlas"}) {
    EXPECT_THAT(to_megatron(pipeline_of(schedule, 1)).notes,
                ElementsAre(fmt::format("schedule = \"{}\": Megatron runs 1F1B", schedule)));
  }
  for (const char* schedule : {"zb-v", "w", "dualpipev"}) {
    EXPECT_THAT(
        to_megatron(pipeline_of(schedule, 2)).notes,
        ElementsAre(fmt::format("schedule = \"{}\": Megatron runs interleaved 1F1B", schedule)));
  }
  EXPECT_THAT(to_megatron(pipeline_of("1f1b", 1)).notes, IsEmpty());
  EXPECT_THAT(to_megatron(pipeline_of("interleaved", 2)).notes, IsEmpty());
  EXPECT_THAT(to_megatron(pipeline_of("interleaved", 1)).notes, SizeIs(1));
}

TEST(Export, MegatronInterleavesWholeGroupsOfMicrobatches) {
  plan::Job j = pipeline_of("interleaved", 2);
  j.training.global_batch = 6;
  EXPECT_THAT(to_megatron(j).notes,
              ElementsAre("6 microbatches per pipeline: Megatron refuses to interleave what is no "
                          "multiple of pipeline = 4"));
  j.parallelism.virtual_stages = 1;
  j.parallelism.schedule = layout::ScheduleKind::k1F1B;
  EXPECT_THAT(to_megatron(j).notes, IsEmpty());
}

TEST(Export, OneStageHasNoSchedule) {
  plan::Job j = pipeline_of("dualpipev", 2);
  j.parallelism.pipeline = 1;
  EXPECT_THAT(to_megatron(j).notes, IsEmpty());
  EXPECT_THAT(to_megatron(j).text, Not(HasSubstr("virtual")));
  EXPECT_THAT(to_torchtitan(j).notes, SizeIs(1));  // whose the model's name is
}

TEST(Export, TorchtitanKnowsSchedulesByPyTorchsNames) {
  const std::tuple<const char*, int64_t, const char*> known[] = {
      {"gpipe", 1, "GPipe"},
      {"1f1b", 1, "1F1B"},
      {"interleaved", 2, "Interleaved1F1B"},
      {"zb-v", 2, "ZBVZeroBubble"},
      {"dualpipev", 2, "DualPipeV"}};
  for (const auto& [schedule, stages, name] : known) {
    const Export out = to_torchtitan(pipeline_of(schedule, stages));
    EXPECT_THAT(out.text, HasSubstr(fmt::format("pipeline_parallel_schedule = \"{}\"\n", name)));
    EXPECT_THAT(out.notes, SizeIs(1)) << schedule;
  }
  const std::tuple<const char*, int64_t, const char*> unknown[] = {{"zb-h1", 1, "1F1B"},
                                                                   {"varuna", 1, "1F1B"},
                                                                   {"atlas", 1, "1F1B"},
                                                                   {"w", 2, "Interleaved1F1B"}};
  for (const auto& [schedule, stages, name] : unknown) {
    EXPECT_THAT(to_torchtitan(pipeline_of(schedule, stages)).notes,
                Contains(fmt::format("schedule = \"{}\": torchtitan has none such and runs {}",
                                     schedule, name)));
  }
}

TEST(Export, TorchtitanSaysWhichMicrobatchesPyTorchRefuses) {
  plan::Job j = pipeline_of("interleaved", 2);
  j.training.global_batch = 11;  // two rounds
  EXPECT_THAT(to_torchtitan(j).notes, Contains(HasSubstr("no multiple of its 2 rounds")));
  j.training.global_batch = 10;
  EXPECT_THAT(to_torchtitan(j).notes, SizeIs(1));
  j.parallelism.schedule = layout::ScheduleKind::kDualPipeV;
  j.training.global_batch = 7;  // of 8 stages
  EXPECT_THAT(to_torchtitan(j).notes, Contains(HasSubstr("fewer than there are stages")));
}

// 32 layers in 12 chunks: 3 each make 11 of them, 2 each make 16. In 20: 2 each make 16.
TEST(Export, TorchtitanSaysWhatItCannotCut) {
  plan::Job j = pipeline_of("interleaved", 4);
  EXPECT_THAT(to_torchtitan(j).text, HasSubstr("layers_per_stage = 2\n"));
  j.parallelism.virtual_stages = 3;
  EXPECT_THAT(to_torchtitan(j).text, Not(HasSubstr("layers_per_stage = ")));
  EXPECT_THAT(to_torchtitan(j).notes, Contains(HasSubstr("cannot cut 32 layers into 12 stages")));
  j.model->layers = 35;  // 3 each, and 2
  EXPECT_THAT(to_torchtitan(j).text, HasSubstr("layers_per_stage = 3\n"));
}

TEST(Export, TorchtitanComputesInFloat32WithoutFsdp) {
  plan::Job j = pipeline_of("1f1b", 1);
  j.training.precision = plan::Precision::kBf16;
  EXPECT_THAT(to_torchtitan(j).notes, Contains(HasSubstr("precision = \"bf16\"")));
  j.training.precision = plan::Precision::kFp32;
  EXPECT_THAT(to_torchtitan(j).text, HasSubstr("mixed_precision_param = \"float32\"\n"));
  EXPECT_THAT(to_torchtitan(j).notes, SizeIs(1));
  j.training.precision = plan::Precision::kFp16;
  j.parallelism.data = 2;
  j.parallelism.zero = 3;
  EXPECT_THAT(to_torchtitan(j).notes, Contains(HasSubstr("precision = \"fp16\"")));
  EXPECT_THAT(to_torchtitan(j).notes, SizeIs(2));
}

TEST(Export, TorchtitanCutsExpertsAsWeDo) {
  plan::Job j = preset_job("mixtral-8x7b");
  j.parallelism.tensor = 2;
  j.parallelism.sequence_parallel = true;
  j.parallelism.data = 8;
  j.parallelism.expert = 8;
  j.parallelism.zero = 3;
  EXPECT_THAT(to_torchtitan(j).text,
              HasSubstr("expert_parallel_degree = 8\nexpert_tensor_parallel_degree = 2\n"));
  EXPECT_THAT(to_torchtitan(j).notes, SizeIs(1));
  j.parallelism.zero = 0;
  EXPECT_THAT(to_torchtitan(j).notes, Contains(HasSubstr("spreads experts over ranks")));
}

// Only the order of ranks that there are several of tells.
TEST(Export, OrdersThatAreNotTheirsAreNoted) {
  plan::Job j = preset_job("llama3-8b");
  j.parallelism.order = "tp-dp-cp-ep-pp";
  j.parallelism.tensor = j.parallelism.data = 2;
  j.parallelism.sequence_parallel = true;
  j.parallelism.zero = 3;
  EXPECT_THAT(to_megatron(j).notes, IsEmpty());
  EXPECT_THAT(to_torchtitan(j).notes, SizeIs(1));
  j.parallelism.context = 2;
  EXPECT_THAT(to_megatron(j).notes, ElementsAre(HasSubstr("order = \"tp-dp-cp-ep-pp\"")));
  EXPECT_THAT(to_torchtitan(j).notes, Contains(HasSubstr("order = \"tp-dp-cp-ep-pp\"")));
}

TEST(Export, WhatIsTheUsersIsNoted) {
  plan::Job j = preset_job("llama3-8b");
  j.optimizer.name = plan::OptimizerName::kMuon;
  j.parallelism.data = 2;
  j.parallelism.microbatches_per_replica = {100, 156};
  EXPECT_THAT(to_megatron(j).notes, ElementsAre(HasSubstr("optimizer.name = \"muon\""),
                                                HasSubstr("microbatches_per_replica")));
  EXPECT_THAT(to_torchtitan(j).notes, IsSupersetOf(to_megatron(j).notes));
}

TEST(Export, OtherFormatsAreRefusedByName) {
  const Result<Export> out = export_job(preset_job("llama3-8b"), "megatrn");
  ASSERT_FALSE(out);
  EXPECT_EQ(out.error().exit_code(), 2);
  EXPECT_THAT(out.error().text(), HasSubstr("--export megatron or --export torchtitan"));
}

TEST(Export, WhatHasNoWordsIsRefusedByName) {
  plan::Job j = preset_job("llama3-8b");
  j.model.reset();
  EXPECT_THAT(export_job(j, "megatron").error().text(), HasSubstr("job.toml: model is missing"));
  j = preset_job("llama3-8b");
  j.parallelism.pipeline = 2;
  j.parallelism.tensor_per_stage = {2, 4};
  EXPECT_THAT(export_job(j, "torchtitan").error().text(), HasSubstr("tensor_per_stage = [2, 4]"));
  j.cluster.datacenters.resize(2);
  EXPECT_THAT(export_job(j, "megatron").error().text(), HasSubstr("2 datacenters"));
}

// 32 layers divide by 4, but the job divides them otherwise.
TEST(Export, LayersThatAreGivenAreKept) {
  plan::Job j = preset_job("llama3-8b");
  j.parallelism.pipeline = 4;
  j.parallelism.layers_per_stage = {9, 9, 8, 6};
  EXPECT_THAT(to_megatron(j).text, HasSubstr("Et*9|t*9|t*8|t*6L"));
  EXPECT_THAT(to_torchtitan(j).notes, Contains(HasSubstr("layers_per_stage")));
  j.parallelism.layers_per_stage = {8, 8, 8, 8};
  EXPECT_THAT(to_megatron(j).text, Not(HasSubstr("layout")));
}

}  // namespace
}  // namespace tombolo::search
