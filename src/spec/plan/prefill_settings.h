// [prefill]: the model whose prompts are processed in the bubbles of this training, and its limits.
//
//   [prefill]
//   model = "llama3-8b"        # a preset, or a table as [model] is
//   memory = "2.2 GB"          # of each GPU, for the weights of its shard
//
// BubbleTea (Palak et al. 2024, section 5): the weights are stored beforehand, sharded over the GPUs
// of the same stage and place in the DP-cells of one datacenter.
#pragma once

#include <cstdint>
#include <optional>

#include "base/fields.h"
#include "base/units.h"
#include "spec/model/model.h"

namespace tombolo::plan {

struct Prefill {
  model::Model model;  // resolved; its `sequence` is the longest prompt
  Bytes memory;        // of each GPU; added to what training takes (schedule::check_memory)
  // Stages of a prefill pipeline; left out: as few as `memory` allows.
  std::optional<int64_t> depth;
  // A prompt is refused unless its first token and its KV cache are there within this time of its
  // arrival.
  Seconds ttft_max{2};
  // Kept free before each computation of training, until enough of them were seen to learn it.
  Seconds guard{1e-3};

  bool operator==(const Prefill&) const = default;
};

// All but the model, which jobs and Plans say differently.
template <class Archive>
void describe_limits(Archive& a, Prefill& p) {
  a.required("memory", p.memory,
             "of each GPU, for the weights of its shard; added to what training takes");
  a.optional("depth", p.depth,
             "stages of a prefill pipeline; left out: as few as the memory allows");
  a.optional("ttft_max", p.ttft_max,
             "a prompt is refused unless its first token and its KV cache are there that long "
             "after its arrival");
  a.optional(
      "guard", p.guard,
      "kept free before each computation of training, until enough of them were seen to learn it");
  a.check(p.memory.value > 0, "memory", "must be positive");
  a.check(!p.depth || (*p.depth >= 1 && *p.depth <= 1000), "depth", "must lie between 1 and 1000");
  a.check(p.ttft_max.value > 0 && p.ttft_max.value <= 3600, "ttft_max",
          "must be positive and at most an hour");
  a.check(p.guard.value >= 0 && p.guard.value <= 10, "guard", "must lie between 0 and 10 s");
}

// As embedded in a Plan.
template <class Archive>
void describe(Archive& a, Prefill& p) {
  a.required("model", p.model, "resolved; its sequence is the longest prompt");
  describe_limits(a, p);
}

// [prefill] of a job. `file` is for messages, and what paths in the table are relative to.
Result<Prefill> read_prefill(const Value& table, const std::string& file);
std::vector<KeyEntry> prefill_keys();

}  // namespace tombolo::plan
