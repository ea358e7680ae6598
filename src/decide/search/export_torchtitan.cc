#include <algorithm>
#include <optional>
#include <string_view>

#include "decide/search/export_words.h"

namespace tombolo::search {
namespace {

// The schedule by the name that PyTorch knows it by (get_schedule_class in
// torch/distributed/pipelining/schedules.py), and what its class refuses. InterleavedZeroBubble
// would be zb-h1 with one stage per rank, but torchtitan gives it at least two.
std::string torchtitan_schedule(const plan::Job& job, Export& out) {
  const layout::Parallelism& p = job.parallelism;
  const int64_t count = detail::microbatches(job);
  const auto refuses = [&](std::string_view name, std::string_view why) {
    out.notes.push_back(
        fmt::format("{} microbatches per pipeline: {} of PyTorch refuses {}", count, name, why));
  };
  if (p.schedule == layout::ScheduleKind::kGpipe && p.virtual_stages == 1) return "GPipe";
  if (p.schedule == layout::ScheduleKind::kZbV && p.virtual_stages == 2) return "ZBVZeroBubble";
  if (p.schedule == layout::ScheduleKind::kDualPipeV && p.virtual_stages == 2) {
    if (count < 2 * p.pipeline) refuses("DualPipeV", "fewer than there are stages");
    if (p.expert > 1 && job.training.recompute != model::Recompute::kNone) {
      out.notes.push_back("recompute: torchtitan's DualPipeV refuses it with expert parallelism");
    }
    return "DualPipeV";
  }
  const bool interleaved = p.virtual_stages > 1;
  const char* name = interleaved ? "Interleaved1F1B" : "1F1B";
  if (p.schedule != layout::ScheduleKind::k1F1B &&
      !(interleaved && p.schedule == layout::ScheduleKind::kInterleaved)) {
    out.notes.push_back(fmt::format("schedule = \"{}\": torchtitan has none such and runs {}",
                                    to_name(p.schedule), name));
  }
  const int64_t rounds = std::max<int64_t>(1, count / p.pipeline);
  if (interleaved && count % rounds != 0) {
    refuses(name, fmt::format("what is no multiple of its {} rounds", rounds));
  }
  return name;
}

// For n layers in `chunks` chunks torchtitan takes the layers per chunk; the last may have fewer.
std::optional<int64_t> torchtitan_layers(int64_t n, int64_t chunks) {
  const auto rounded_up = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  const int64_t each = rounded_up(n, chunks);
  if (rounded_up(n, each) != chunks) return std::nullopt;
  return each;
}

class TorchtitanTables {
 public:
  explicit TorchtitanTables(const plan::Job& job) : job_(job) {}

  Export write() {
    out_.text =
        "# For torchtitan 0.2.2 (20 February 2026), the last release that reads TOML: from 23 "
        "February\n# on (commit 9810191bb) its configurations are Python.\n";
    note("[model].name and flavor are yours: torchtitan knows its models by name");
    training();
    parallelism();
    if (job_.parallelism.pipeline > 1) pipeline();
    section("activation_checkpoint");
    word("mode", std::string(to_name(job_.training.recompute)));
    if (job_.training.recompute == model::Recompute::kSelective) word("selective_ac_option", "op");
    leave_out();
    return std::move(out_);
  }

 private:
  void section(const char* name) { out_.text += fmt::format("\n[{}]\n", name); }
  void number(const char* key, int64_t value) { out_.text += fmt::format("{} = {}\n", key, value); }
  void word(const char* key, const std::string& value) {
    out_.text += fmt::format("{} = \"{}\"\n", key, value);
  }
  void note(std::string text) { out_.notes.push_back(std::move(text)); }

  void training() {
    const layout::Parallelism& p = job_.parallelism;
    const plan::Training& t = job_.training;
    section("training");
    // A pipeline takes all sequences of a replica at once; without one they are accumulated.
    number("local_batch_size", p.pipeline > 1 ? t.global_batch / p.data : t.micro_batch);
    number("global_batch_size", t.global_batch);
    number("seq_len", job_.model->sequence);
    if (t.precision == plan::Precision::kFp32) word("mixed_precision_param", "float32");
  }

  void parallelism() {
    const layout::Parallelism& p = job_.parallelism;
    section("parallelism");
    number("data_parallel_replicate_degree", p.zero == 0 ? p.data : 1);
    number("data_parallel_shard_degree", p.zero == 0 ? 1 : p.data);
    if (p.zero > 0) word("fsdp_reshard_after_forward", p.zero == 3 ? "always" : "never");
    number("tensor_parallel_degree", p.tensor);
    number("context_parallel_degree", p.context);
    if (job_.model->experts) number("expert_parallel_degree", p.expert);
    // Left out: experts are not cut, and their ranks include those of tensor parallelism.
    if (p.expert > 1 && p.tensor > 1) number("expert_tensor_parallel_degree", p.tensor);
    number("pipeline_parallel_degree", p.pipeline);
  }

  void pipeline() {
    const layout::Parallelism& p = job_.parallelism;
    word("pipeline_parallel_schedule", torchtitan_schedule(job_, out_));
    number("pipeline_parallel_microbatch_size", job_.training.micro_batch);
    // torchtitan counts embedding and head as a layer each, unless told otherwise.
    const int64_t chunks = p.pipeline * p.virtual_stages, layers = job_.model->layers;
    const int64_t ends = layers % chunks != 0 && (layers + 2) % chunks == 0 ? 1 : 0;
    number("pipeline_parallel_first_stage_less_layers", ends);
    number("pipeline_parallel_last_stage_less_layers", ends);
    // Left out: a stage per rank, or two with the schedules that interleave.
    if (p.virtual_stages > 2) {
      const std::optional<int64_t> each = torchtitan_layers(layers + 2 * ends, chunks);
      if (each) number("pipeline_parallel_layers_per_stage", *each);
      if (!each) {
        note(
            fmt::format("virtual_stages = {}: torchtitan cannot cut {} layers into {} stages and "
                        "takes two per rank",
                        p.virtual_stages, layers, chunks));
      }
    }
    layout::Parallelism even = p;
    even.layers_per_stage.clear();
    if (plan::split_layers(*job_.model, p) != plan::split_layers(*job_.model, even)) {
      note("layers_per_stage: torchtitan spreads the layers evenly");
    }
  }

  void leave_out() {
    const layout::Parallelism& p = job_.parallelism;
    if (p.zero == 1) {
      note(
          "zero = 1: torchtitan shards gradients and weights too, and keeps the "
          "weights between passes (\"never\")");
    }
    if (p.tensor > 1 && !p.sequence_parallel) {
      note("sequence_parallel = false: torchtitan's tensor parallelism includes it");
    }
    if (p.context > 1 && p.zero == 0) {
      note("context > 1: torchtitan shards weights over context ranks");
    }
    if (p.expert > p.context && p.zero == 0) {
      note("zero = 0: torchtitan spreads experts over ranks that share out weights only");
    }
    if (!detail::same_order(p, "tp-cp-dp-pp")) {
      note(fmt::format("order = \"{}\": torchtitan numbers ranks as tp-cp-dp-pp", p.order));
    }
    precision();
    detail::leave_out_for_all(job_, out_);
  }

  // Weights are kept in float32; passes are in bfloat16 where FSDP shards, or data parallelism is
  // all there is.
  void precision() {
    const layout::Parallelism& p = job_.parallelism;
    const plan::Precision precision = job_.training.precision;
    if (precision == plan::Precision::kFp8) {
      note("precision = \"fp8\": add the converter float8 to [model]");
    }
    if (precision == plan::Precision::kFp16) {
      note("precision = \"fp16\": torchtitan runs bfloat16");
    }
    const bool sharded = p.context > 1 || (p.zero > 0 && p.data > 1);
    if (precision != plan::Precision::kFp32 && !sharded && (p.tensor > 1 || p.pipeline > 1)) {
      note(
          fmt::format("precision = \"{}\": torchtitan computes in float32 where tensor or pipeline "
                      "parallelism comes without sharded weights",
                      to_name(precision)));
    }
  }

  const plan::Job& job_;
  Export out_;
};

}  // namespace

Export to_torchtitan(const plan::Job& job) { return TorchtitanTables(job).write(); }

}  // namespace tombolo::search
