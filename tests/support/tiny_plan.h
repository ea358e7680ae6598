// A small Plan for tests: a tiny decoder on a few stages and replicas, on a text made up on the
// spot.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "base/check.h"
#include "base/file.h"
#include "base/random.h"
#include "spec/plan/job.h"

namespace tombolo::train {

// Words of a small vocabulary, so that there is something to learn.
inline std::string made_up_text(int64_t bytes) {
  const char* words[] = {"tide ", "sand ", "island ", "bar ", "rope ", "mainland ", "wave\n"};
  Random random(7);
  std::string text;
  while (static_cast<int64_t>(text.size()) < bytes) text += words[random.below(std::size(words))];
  text.resize(static_cast<size_t>(bytes));
  return text;
}

inline std::string test_text_file() {
  // One per process: ctest runs several at once.
  const std::string path = fmt::format("{}tombolo_train_{}.txt", testing::TempDir(), getpid());
  const Status written = write_file(path, made_up_text(20'000));
  CHECK(written.has_value(), "{}", written.error().text());
  return path;
}

// Where it runs, and in which order.
struct TinyLayout {
  int pipeline = 1;
  int data = 1;
  std::string schedule = "1f1b";
  int virtual_stages = 1;
  bool over_a_wan = false;  // half of the pipeline each in two datacenters
  std::string recompute = "none";
  bool apart = false;      // half of the pipelines each in two datacenters, with all their stages
  std::string where = {};  // words of [parallelism] that say so otherwise
  int hidden = 32;  // 192: each layer is a group of gradients by itself (plan/gradient_groups.h)
};

inline plan::Plan tiny_plan(const TinyLayout& layout) {
  const bool two_places = layout.over_a_wan || layout.apart || !layout.where.empty();
  const int devices = layout.pipeline * layout.data / (two_places ? 2 : 1);
  std::string places = layout.where;
  for (int i = 0; i < (layout.apart ? layout.data : 0); ++i) {
    places += fmt::format("{}\"{}\"", i == 0 ? "datacenter_per_replica = [" : ", ",
                          i < layout.data / 2 ? "here" : "there");
  }
  if (layout.apart) places += "]\n";
  const std::string elsewhere = !two_places ? ""
                                            : fmt::format(R"([[cluster.datacenter]]
name = "there"
device = "cpu"
nodes = 1
devices_per_node = {}
[[cluster.wan]]
between = ["here", "there"]
one_way_latency = "1 ms"
node_pair_limit = "1 Gbps"
)",
                                                          devices);
  const std::string job = fmt::format(
      R"(
[model]
layers = 4
hidden = {}
heads = 4
kv_heads = 2
ffn = {}
vocabulary = 256
sequence = 32
[[cluster.datacenter]]
name = "here"
device = "cpu"
nodes = 1
devices_per_node = {}
{}[training]
global_batch = 8
micro_batch = 2
precision = "fp32"
recompute = "{}"
[optimizer]
learning_rate = 3e-3
warmup_steps = 5
[parallelism]
pipeline = {}
data = {}
schedule = "{}"
virtual_stages = {}
{}[run]
steps = 30
seed = 3
[data]
text = "{}"
)",
      layout.hidden, 2 * layout.hidden, devices, elsewhere, layout.recompute, layout.pipeline,
      layout.data, layout.schedule, layout.virtual_stages, places, test_text_file());
  const auto parsed = plan::parse_job(job, "test.toml");
  CHECK(parsed.has_value(), "{}", parsed.error().text());
  auto plan = plan::lay_out(*parsed);
  CHECK(plan.has_value(), "{}", plan.error().text());
  return std::move(*plan);
}

inline plan::Plan tiny_plan(int pipeline, int data = 1) {
  return tiny_plan({.pipeline = pipeline, .data = data});
}

// The same in the shape of a GPT-2, where it was that of a Llama.
inline plan::Plan as_gpt2(plan::Plan plan) {
  plan.model.kv_heads = plan.model.heads;
  plan.model.norm = model::Norm::kLayer;
  plan.model.activation = model::Activation::kGelu;
  plan.model.positions = model::Positions::kLearned;
  plan.model.bias = true;
  return plan;
}

}  // namespace tombolo::train
