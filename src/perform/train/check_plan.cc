#include "perform/train/check_plan.h"

namespace tombolo::train {
namespace {

// The two ranks that hold copies of a tied embedding must be able to talk to each other.
Status check_tied_ends(const plan::Plan& plan, int32_t rank) {
  const auto stages = static_cast<int32_t>(plan.stages.size());
  const int32_t replica = plan.ranks[static_cast<size_t>(rank)].replica;
  const int32_t first = plan.rank_of(0, replica), last = plan.rank_of(stages - 1, replica);
  if (!plan.model.tied_embeddings || first == last || plan.other_end(first)) return {};
  return unusable(
      fmt::format("model.tied_embeddings = true: the first stage (in {}) and the last one (in {}) "
                  "hold a copy each, and no link between them is described",
                  plan.datacenter_of(first).name, plan.datacenter_of(last).name),
      "a [[cluster.wan]] between the two, or parallelism.datacenter_per_stage");
}

Status check_precision(plan::Precision precision, const CpuFeatures& cpu) {
  if (precision == plan::Precision::kFp32) return {};
  if (precision != plan::Precision::kBf16) {
    return unusable(fmt::format("training.precision = \"{}\": a cpu computes in fp32 or bf16",
                                to_name(precision)),
                    "precision = \"fp32\" or \"bf16\"");
  }
  if (cpu.bf16_products) return {};
  return unusable(
      "training.precision = \"bf16\": this processor has no products of bf16 (/proc/cpuinfo names "
      "neither avx512_bf16 nor amx_bf16) and would be slower than in fp32",
      fmt::format("precision = \"fp32\", or {}=1 in the environment to train slowly all the same",
                  kSlowBf16Variable));
}

}  // namespace

Status check_plan(const plan::Plan& plan, int32_t rank, const CpuFeatures& cpu) {
  if (rank < 0 || static_cast<size_t>(rank) >= plan.ranks.size()) {
    return unusable(fmt::format("rank {}: the Plan has ranks 0 to {}", rank,
                                static_cast<int64_t>(plan.ranks.size()) - 1));
  }
  const cluster::Device& device = plan.device_of(rank);
  if (device.kind != cluster::DeviceKind::kCpu) {
    return unusable(
        fmt::format("datacenter \"{}\": device = \"{}\" cannot compute here",
                    plan.datacenter_of(rank).name, device.name),
        "device = \"cpu\", or \"emulated:<catalog name>\" for durations without results");
  }
  TRY(check_precision(plan.training.precision, cpu));
  if (plan.training.recompute == model::Recompute::kSelective) {
    return unusable(
        "training.recompute = \"selective\": a cpu recomputes a whole stage or nothing yet",
        "recompute = \"none\" or \"full\"");
  }
  return check_tied_ends(plan, rank);
}

}  // namespace tombolo::train
