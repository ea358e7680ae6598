#include <algorithm>
#include <numeric>
#include <utility>

#include "decide/search/export_words.h"
#include "predict/cost/constants.h"

namespace tombolo::search {
namespace {

class MegatronArguments {
 public:
  explicit MegatronArguments(const plan::Job& job) : job_(job), m_(*job.model) {}

  Export write() {
    parallelism();
    training();
    shape();
    if (m_.experts) experts();
    if (m_.latent_attention) latent_attention();
    if (m_.linear_attention) linear_attention();
    leave_out();
    return std::move(out_);
  }

 private:
  void flag(const char* name) { out_.text += fmt::format("--{}\n", name); }
  template <typename T>
  void flag(const char* name, const T& value) {
    out_.text += fmt::format("--{} {}\n", name, value);
  }
  void note(std::string text) { out_.notes.push_back(std::move(text)); }

  void parallelism() {
    const layout::Parallelism& p = job_.parallelism;
    flag("tensor-model-parallel-size", p.tensor);
    if (p.sequence_parallel) flag("sequence-parallel");
    flag("pipeline-model-parallel-size", p.pipeline);
    flag("context-parallel-size", p.context);
    if (m_.experts) flag("expert-model-parallel-size", p.expert);
    if (p.pipeline > 1) schedule();
    if (p.zero >= 2) {
      flag("use-megatron-fsdp");
      flag("data-parallel-sharding-strategy", p.zero == 2 ? "optim_grads" : "optim_grads_params");
      flag("no-gradient-accumulation-fusion");
      flag("ckpt-format", "fsdp_dtensor");
      if (p.pipeline > 1)
        note(fmt::format("zero = {}: Megatron-FSDP runs without a pipeline", p.zero));
    }
    if (p.zero >= 1) flag("use-distributed-optimizer");
    // Megatron waits for these unless told otherwise, and predictions may count them as hidden.
    if (p.data * p.context > 1 && hides_gradients()) {
      flag("overlap-grad-reduce");
      if (p.zero >= 1) flag("overlap-param-gather");
    }
    const size_t data = p.order.find("dp"), pipeline = p.order.find("pp");
    if (pipeline < data) flag("use-tp-pp-dp-mapping");
    if (!detail::same_order(p, "tp-cp-dp-pp") && !detail::same_order(p, "tp-cp-pp-dp")) {
      note(
          fmt::format("order = \"{}\": Megatron numbers ranks as tp-cp-ep-dp-pp or "
                      "tp-cp-ep-pp-dp",
                      p.order));
    }
  }

  bool hides_gradients() const {
    for (const cost::StackConstants& stack : cost::constant_files().stacks) {
      if (stack.name == job_.training.stack) return stack.gradient_overlap > 0;
    }
    return false;
  }

  // Megatron runs 1F1B, interleaved where a rank has several stages, and no other schedule.
  void schedule() {
    const layout::Parallelism& p = job_.parallelism;
    const bool interleaved = p.virtual_stages > 1;
    if (detail::uneven(job_)) {
      flag("pipeline-model-parallel-layout", layout());
    } else if (interleaved) {
      flag("num-virtual-stages-per-pipeline-rank", p.virtual_stages);
    }
    // "1f1b" of several stages per rank is interleaved to us, too.
    if (p.schedule != layout::ScheduleKind::k1F1B &&
        !(interleaved && p.schedule == layout::ScheduleKind::kInterleaved)) {
      note(fmt::format("schedule = \"{}\": Megatron runs {}", to_name(p.schedule),
                       interleaved ? "interleaved 1F1B" : "1F1B"));
    }
    const int64_t count = detail::microbatches(job_);
    if (interleaved && count % p.pipeline != 0) {
      note(
          fmt::format("{} microbatches per pipeline: Megatron refuses to interleave what is no "
                      "multiple of pipeline = {}",
                      count, p.pipeline));
    }
  }

  // "Et*3|t*4|t*4|t*3mL": E embedding, t a layer, m a multi-token layer, L the loss; chunks in the
  // order of the forward pass.
  std::string layout() const {
    const std::vector<model::Slice> slices = plan::split_layers(m_, job_.parallelism);
    std::string text;
    for (size_t chunk = 0; chunk < slices.size(); ++chunk) {
      const int64_t layers = slices[chunk].layers;
      if (chunk > 0) text += "|";
      if (chunk == 0) text += "E";
      if (layers > 0) text += fmt::format("t*{}", layers);
      if (!slices[chunk].head) continue;
      text += std::string(static_cast<size_t>(m_.multi_token_layers.value_or(0)), 'm') + "L";
    }
    return text;
  }

  void training() {
    const plan::Training& t = job_.training;
    flag("micro-batch-size", t.micro_batch);
    flag("global-batch-size", t.global_batch);
    if (t.recompute == model::Recompute::kSelective) flag("recompute-granularity", "selective");
    if (t.recompute == model::Recompute::kFull) {
      flag("recompute-granularity", "full");
      flag("recompute-method", "uniform");
      flag("recompute-num-layers", 1);
    }
    switch (t.precision) {
      case plan::Precision::kFp32:
        break;
      case plan::Precision::kBf16:
        flag("bf16");
        break;
      case plan::Precision::kFp16:
        flag("fp16");
        break;
      case plan::Precision::kFp8:
        flag("bf16");
        flag("fp8-format", "hybrid");
        break;
    }
  }

  void shape() {
    flag("num-layers", m_.layers);
    flag("hidden-size", m_.hidden);
    flag("ffn-hidden-size", m_.ffn);
    flag("num-attention-heads", m_.heads);
    if (m_.kv_heads != m_.heads) {
      flag("group-query-attention");
      flag("num-query-groups", m_.kv_heads);
    }
    if (m_.head_dim) flag("kv-channels", *m_.head_dim);
    flag("seq-length", m_.sequence);
    flag("max-position-embeddings", m_.positions_max.value_or(m_.sequence));
    vocabulary();
    positions();
    norms();
    if (m_.activation == model::Activation::kSwiglu) flag("swiglu");
    if (m_.activation == model::Activation::kSquaredRelu) flag("squared-relu");
    if (m_.activation == model::Activation::kGeglu) {
      flag("quick-geglu");
      note("activation = \"geglu\": Megatron's gate takes x sigmoid(1.702 x) for GELU");
    }
    biases();
    // A model here has no dropout, and Megatron drops a tenth unless told otherwise.
    flag("attention-dropout", "0.0");
    flag("hidden-dropout", "0.0");
    if (!m_.tied_embeddings) flag("untie-embeddings-and-output-weights");
    if (m_.attention_sinks.value_or(false)) flag("softmax-type", "learnable");
    if (m_.has_windows()) windows();
    if (m_.attention_gate.value_or(false)) flag("attention-output-gate");
    if (m_.multi_token_layers.value_or(0) > 0) flag("mtp-num-layers", *m_.multi_token_layers);
  }

  // What stands before a token and behind it, itself not counted.
  void windows() {
    flag("window-size", fmt::format("{},0", *m_.attention_window - 1));
    if (m_.global_interval) flag("window-attn-skip-freq", *m_.global_interval);
  }

  // Megatron pads the vocabulary to a multiple of 128 per tensor rank, unless told otherwise.
  void vocabulary() {
    const int64_t tensor = job_.parallelism.tensor, each = m_.vocabulary / tensor;
    flag("vocab-size", m_.vocabulary);
    if (m_.vocabulary % (128 * tensor) == 0) return;
    if (m_.vocabulary % tensor == 0) {
      return flag("make-vocab-size-divisible-by", std::gcd(each, int64_t{128}));
    }
    flag("make-vocab-size-divisible-by", 1);
    note(fmt::format("vocabulary = {}: Megatron pads it to {}, a multiple of tensor = {}",
                     m_.vocabulary, (each + 1) * tensor, tensor));
  }

  void positions() {
    switch (m_.positions) {
      case model::Positions::kRotary:
        flag("position-embedding-type", "rope");
        return rotations();
      case model::Positions::kLearned:
        return flag("position-embedding-type", "learned_absolute");
      case model::Positions::kAlibi:
        flag("position-embedding-type", "none");
        return note("positions = \"alibi\": Megatron has none such");
    }
  }

  void rotations() {
    const auto base = static_cast<int64_t>(m_.rope_theta);
    flag("rotary-base", base);
    if (static_cast<double>(base) != m_.rope_theta) {
      note(fmt::format("rope_theta = {}: Megatron's is a whole number", m_.rope_theta));
    }
    if (m_.rotary_share) flag("rotary-percent", *m_.rotary_share);
    if (m_.nope_interval) no_rotations();
    if (m_.window_rope_theta) note("model.window_rope_theta: no argument says so");
    if (!m_.rope_scaling) return;
    const model::RopeScaling& r = *m_.rope_scaling;
    if (m_.latent_attention) {
      return note("rope_scaling: Megatron's latent attention has none such");
    }
    flag("use-rope-scaling");
    flag("rope-scaling-factor", r.factor);
    const model::RopeScaling fixed{.factor = r.factor,
                                   .low_frequency_factor = 1,
                                   .high_frequency_factor = 4,
                                   .first_sequence = 8192};
    if (r != fixed) {
      note(
          "rope_scaling: Megatron has low_frequency_factor = 1, high_frequency_factor = 4, "
          "first_sequence = 8192");
    }
  }

  // A number of layers that it does not divide is refused.
  void no_rotations() {
    const int64_t each = *m_.nope_interval, rest = m_.layers % each;
    if (rest == 0) return flag("no-rope-freq", each);
    const int64_t turns = m_.layers / each;
    flag("no-rope-freq", fmt::format("([0]*{}+[1])*{}+[0]*{}", each - 1, turns, rest));
  }

  void norms() {
    flag("normalization", m_.norm == model::Norm::kRms ? "RMSNorm" : "LayerNorm");
    flag("norm-epsilon", m_.norm_epsilon);
    if (m_.unit_offset_norms.value_or(false)) flag("apply-layernorm-1p");
    // Of latent attention the norms of what is compressed, which it always has here.
    if (m_.latent_attention || m_.qk_norm.value_or(false)) flag("qk-layernorm");
    if (m_.latent_attention && m_.qk_norm.value_or(false)) {
      note("qk_norm: Megatron's latent attention normalizes what is compressed, not each head");
    }
    if (m_.norm == model::Norm::kLayer && !m_.norm_bias.value_or(true)) {
      note("norm_bias = false: Megatron's LayerNorm has biases");
    }
  }

  // Megatron has one switch for the biases of all linear layers, the router's with them, and one
  // for those of queries, keys and values alone.
  void biases() {
    const bool qkv = m_.qkv_bias.value_or(m_.bias), mlp = m_.mlp_bias.value_or(m_.bias);
    const bool has_mlp = m_.has_dense_layers();
    std::vector<std::pair<const char*, bool>> others = {
        {"the projection after attention", m_.output_bias.value_or(m_.bias)}};
    if (has_mlp) others.emplace_back("the MLP", mlp);
    if (m_.experts) others.emplace_back("experts and router", m_.experts->bias);
    const bool all = std::all_of(others.begin(), others.end(), [](auto& b) { return b.second; });
    std::vector<const char*> lost;
    if (qkv && m_.latent_attention) lost.push_back("compressed queries, keys and values");
    if (all && (qkv || m_.latent_attention)) {
      if (m_.activation == model::Activation::kSquaredRelu) flag("no-bias-gelu-fusion");
      if (m_.experts && job_.parallelism.tensor > 1) {
        note("experts.bias: Megatron has it with --expert-tensor-parallel-size 1 only");
      }
    } else {
      flag("disable-bias-linear");
      if (qkv && !m_.latent_attention) flag("add-qkv-bias");
      for (const auto& [where, wanted] : others) {
        if (wanted) lost.push_back(where);
      }
    }
    if (lost.empty()) return;
    note(fmt::format("biases of {} are left out: no argument gives them alone",
                     fmt::join(lost, " and of ")));
  }

  void experts() {
    const model::Experts& e = *m_.experts;
    flag("num-experts", e.count);
    flag("moe-router-topk", e.per_token);
    flag("moe-ffn-hidden-size", e.ffn);
    if (job_.parallelism.expert > 1) flag("moe-token-dispatcher-type", "alltoall");
    if (e.shared_ffn > 0) flag("moe-shared-expert-intermediate-size", e.shared_ffn);
    if (e.shared_gate) flag("moe-shared-expert-gate");
    if (e.dense_layers > 0) {
      flag("moe-layer-freq",
           fmt::format("[0]*{}+[1]*{}", e.dense_layers, m_.layers - e.dense_layers));
    } else if (e.every > 1) {  // as a number it would begin with a layer of experts
      flag("moe-layer-freq", fmt::format("([0]*{}+[1])*{}+[0]*{}", e.every - 1, m_.layers / e.every,
                                         m_.layers % e.every));
    }
    router();
    if (job_.parallelism.tensor > 1 && !job_.parallelism.sequence_parallel) {
      note("sequence_parallel = false: Megatron refuses to train experts so with tensor > 1");
    }
  }

  // A model here says how wide the router is, not how it scores, balances or groups.
  void router() {
    const model::Experts& e = *m_.experts;
    if (e.score_bias) {
      flag("moe-router-enable-expert-bias");
      flag("moe-router-score-function", "sigmoid");
      return note(
          "experts: groups of experts and factors on their scores are yours; DeepSeek-V3 has "
          "--moe-router-num-groups 8 --moe-router-group-topk 4 "
          "--moe-router-topk-scaling-factor 2.5");
    }
    if (e.per_token == 1) flag("moe-router-pre-softmax");  // refused without
    note(
        "experts: how scores are normalized, balanced and grouped is yours; Megatron's defaults "
        "are a softmax over the chosen ones and no auxiliary loss");
  }

  void latent_attention() {
    const model::LatentAttention& l = *m_.latent_attention;
    flag("multi-latent-attention");
    if (l.query_rank > 0) flag("q-lora-rank", l.query_rank);
    flag("kv-lora-rank", l.kv_rank);
    flag("qk-head-dim", l.nope_dim);
    flag("qk-pos-emb-head-dim", l.rope_dim);
    flag("v-head-dim", l.value_dim);
    // Its latent attention has YaRN, which by a factor of 1 is plain RoPE.
    flag("rotary-scaling-factor", "1.0");
  }

  void linear_attention() {
    const model::LinearAttention& l = *m_.linear_attention;
    flag("experimental-attention-variant", "gdn");
    flag("linear-attention-freq", l.every);
    flag("linear-num-key-heads", l.key_heads);
    flag("linear-num-value-heads", l.value_heads);
    flag("linear-key-head-dim", l.key_dim);
    flag("linear-value-head-dim", l.value_dim);
    flag("linear-conv-kernel-dim", l.kernel);
  }

  void leave_out() {
    const auto left_out = [&](const std::optional<bool>& field, const char* name) {
      if (field.value_or(false)) note(fmt::format("model.{}: no argument says so", name));
    };
    left_out(m_.parallel_residual, "parallel_residual");
    left_out(m_.output_norms, "output_norms");
    left_out(m_.shared_norm, "shared_norm");
    left_out(m_.whole_qk_norm, "whole_qk_norm");
    left_out(m_.head_bias, "head_bias");
    if (!m_.input_norms.value_or(true)) note("model.input_norms = false: no argument says so");
    left_out(m_.embedding_norm, "embedding_norm");
    left_out(m_.scaled_embedding, "scaled_embedding");
    for (const auto& [number, name] : {std::pair(m_.query_scalar, "query_scalar"),
                                       std::pair(m_.attention_softcap, "attention_softcap"),
                                       std::pair(m_.logit_softcap, "logit_softcap")}) {
      if (number) note(fmt::format("model.{} = {}: no argument says so", name, *number));
    }
    if (m_.attention_sinks.value_or(false)) {
      note(
          "attention_sinks: what else GPT-OSS has is not part of a model here: its SwiGLU "
          "(--quick-geglu --glu-linear-offset 1.0 --activation-func-clamp-value 7.0), YaRN");
      if (!m_.attention_window) {
        note(
            "attention_window: the model has none; GPT-OSS has --window-size 127,0 "
            "--window-attn-skip-freq 2");
      }
    }
    detail::leave_out_for_all(job_, out_);
  }

  const plan::Job& job_;
  const model::Model& m_;
  Export out_;
};

}  // namespace

Export to_megatron(const plan::Job& job) { return MegatronArguments(job).write(); }

}  // namespace tombolo::search
