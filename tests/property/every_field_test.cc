// One way from a job to everything: each key that a section describes, set to another value, is found in the Plan, in the Plan
// of another schedule, in the job that the Plan says, in the written job file and in the Plan's file.
//
// A key that is added to a section and not to the table below fails the first test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/field_catalog.h"
#include "base/json.h"
#include "base/toml.h"
#include "decide/schedule_search/schedule_variant.h"
#include "decide/sweep/sweep_path.h"
#include "predict/cost/price_plan.h"
#include "spec/plan/job.h"
#include "spec/plan/job_value.h"
#include "spec/plan/plan_file.h"

namespace tombolo {
namespace {

// Names of the keys of a section, without those of tables in it.
template <class Section>
std::set<std::string> key_names() {
  std::set<std::string> names;
  for (const KeyEntry& key : keys_of<Section>())
    if (key.table().empty()) names.insert(key.name());
  return names;
}

constexpr const char* kPipelinesAcross = R"(
[model]
layers = 8
hidden = 256
heads = 8
kv_heads = 8
ffn = 1024
vocabulary = 4096
sequence = 512
[[cluster.datacenter]]
name = "oslo"
device = "a100-80g"
nodes = 8
devices_per_node = 8
[[cluster.datacenter]]
name = "rome"
device = "a100-80g"
nodes = 8
devices_per_node = 8
[[cluster.wan]]
between = ["oslo", "rome"]
one_way_latency = "10 ms"
node_pair_limit = "5 Gbps"
[training]
global_batch = 64
[optimizer]
[parallelism]
pipeline = 2
data = 2
[data]
text = "a.txt"
[run]
[checkpoint]
directory = "kept"
every = 10
[prefill]
memory = "4 GB"
model = { preset = "llama3-8b" }
)";

// What is put into the job, `path = value` each: first the key in question, then what it needs.
struct Case {
  std::string section, key;
  std::vector<std::pair<std::string, std::string>> puts;
};

std::vector<Case> cases() {
  using Puts = std::vector<std::pair<std::string, std::string>>;
  const auto one = [](const std::string& section, const std::string& key, const std::string& value,
                      Puts more = {}) {
    Puts puts = std::move(more);
    puts.insert(puts.begin(), {section + "." + key, value});
    return Case{section, key, puts};
  };
  const Puts apart = {{"parallelism.datacenter_per_replica", "[\"oslo\", \"rome\"]"}};
  const auto exchange = [&](const std::string& key, const std::string& value, Puts more = {}) {
    more.push_back(apart[0]);
    return one("exchange", key, value, std::move(more));
  };
  const Puts sparse = {{"exchange.mode", "\"sparse\""}};
  const Puts local = {{"exchange.mode", "\"local\""}, {"exchange.steps", "10"}};
  const Puts sparse_local = {{"exchange.mode", "\"sparse-local\""}};
  return {
      one("training", "global_batch", "128"),
      one("training", "micro_batch", "2"),
      one("training", "precision", "\"fp32\""),
      one("training", "recompute", "\"full\""),
      one("training", "stack", "\"megatron\""),
      one("training", "optimizer_bytes_per_parameter", "12.0"),
      one("optimizer", "learning_rate", "0.001"),
      one("optimizer", "learning_rate_min", "0.00002"),
      one("optimizer", "warmup_steps", "11"),
      one("optimizer", "rule", "\"linear\""),
      one("optimizer", "decay_steps", "7", {{"optimizer.rule", "\"wsd\""}}),
      one("optimizer", "decay_embedding", "false"),
      one("optimizer", "name", "\"sgd\""),
      one("optimizer", "momentum", "0.8", {{"optimizer.name", "\"sgd\""}}),
      one("optimizer", "nesterov", "true", {{"optimizer.name", "\"sgd\""}}),
      one("optimizer", "clip_norm", "1.5"),
      one("optimizer", "beta1", "0.8"),
      one("optimizer", "beta2", "0.9"),
      one("optimizer", "epsilon", "0.001"),
      one("optimizer", "weight_decay", "0.2"),
      one("parallelism", "tensor", "2"),
      one("parallelism", "pipeline", "4"),
      one("parallelism", "data", "4"),
      one("parallelism", "context", "2"),
      one("parallelism", "expert", "2",
          {{"model.experts.count", "8"},
           {"model.experts.per_token", "2"},
           {"model.experts.ffn", "128"}}),
      one("parallelism", "virtual_stages", "2"),
      one("parallelism", "zero", "1"),
      one("parallelism", "sequence_parallel", "true"),
      one("parallelism", "order", "\"tp-dp-pp\""),
      one("parallelism", "schedule", "\"gpipe\""),
      one("parallelism", "layers_per_stage", "[5, 3]"),
      one("parallelism", "tensor_per_stage", "[2, 4]"),
      one("parallelism", "datacenter_per_stage", "[\"rome\", \"oslo\"]"),
      one("parallelism", "datacenter_per_replica", "[\"oslo\", \"rome\"]"),
      one("parallelism", "first_stage_in", "[\"oslo\"]"),
      one("parallelism", "last_stage_in", "[\"rome\"]"),
      one("parallelism", "microbatches_per_replica", "[40, 24]"),
      one("parallelism", "cell", "2", {{"parallelism.sharing", "\"temporal\""}}),
      one("parallelism", "sharing", "\"temporal\""),
      one("parallelism", "discipline", "\"greedy\""),
      exchange("mode", "\"sparse\""),
      exchange("overlap", "false"),
      exchange("order", "\"first-come\""),
      exchange("select", "\"chunks\"", sparse),
      exchange("density", "0.02", sparse),
      exchange("density_range", "[0.01, 0.03]", sparse),
      exchange("values", "\"int8\"", sparse),
      exchange("optimizer_visits", "\"all\"", sparse),
      exchange("staleness", "0", sparse),
      exchange("freshness", "\"fixed\"", sparse),
      exchange("steps", "12", {{"exchange.mode", "\"local\""}}),
      exchange("outer_rate", "0.6", local),
      exchange("outer_momentum", "0.5", local),
      exchange("fragments", "2", local),
      exchange("delay", "1", local),
      exchange("blend", "0.25", local),
      exchange("decay", "0.9", sparse_local),
      one("data", "text", "\"b.txt\""),
      one("data", "evaluation_fraction", "0.2"),
      one("run", "steps", "9"),
      one("run", "seed", "5"),
      one("run", "evaluate_every", "3"),
      one("run", "compare_replicas_every", "2"),
      one("run", "byte_scale", "10.0"),
      one("run", "init", "\"weights\""),
      one("run", "threads", "2"),
      one("checkpoint", "directory", "\"others\""),
      one("checkpoint", "every", "4"),
      one("checkpoint", "keep", "3"),
      one("prefill", "memory", "\"5 GB\""),
      one("prefill", "depth", "2"),
      one("prefill", "ttft_max", "\"3 s\""),
      one("prefill", "guard", "\"2 ms\""),
  };
}

// Keys of shards exclude a text (plan/job_value_test.cc), and adaptive_batch excludes prompts
// (plan/adaptive_batch_test.cc). The last three ask for a choice that is made before there is a Plan
// (schedule_search/strands_choice_test.cc, across/exchange_choice_test.cc).
const std::set<std::string> kTestedElsewhere = {
    "data.tokens",
    "data.share",
    "data.format",
    "data.dtype",
    "data.shuffle",
    "data.seed",
    "prefill.model",
    "parallelism.adaptive_batch",
    "parallelism.strands",
    "parallelism.strands_profile",
    "exchange.convergence_profile",
};

TEST(EveryField, HasACase) {
  std::set<std::string> wanted, there;
  const auto want = [&](const std::string& section, const std::set<std::string>& keys) {
    for (const std::string& key : keys) wanted.insert(section + "." + key);
  };
  want("training", key_names<plan::Training>());
  want("optimizer", key_names<plan::Optimizer>());
  want("parallelism", key_names<layout::Parallelism>());
  want("exchange", key_names<plan::Exchange>());
  want("data", key_names<plan::Data>());
  want("run", key_names<plan::Run>());
  want("checkpoint", key_names<plan::Checkpoint>());
  want("prefill", key_names<plan::Prefill>());
  for (const Case& c : cases()) there.insert(c.section + "." + c.key);
  there.insert(kTestedElsewhere.begin(), kTestedElsewhere.end());
  // Only what differs: gtest shows the first 32 elements of a container.
  std::vector<std::string> lacking, unknown;
  std::ranges::set_difference(wanted, there, std::back_inserter(lacking));
  std::ranges::set_difference(there, wanted, std::back_inserter(unknown));
  EXPECT_THAT(lacking, testing::IsEmpty());
  EXPECT_THAT(unknown, testing::IsEmpty());
}

Result<Value> with(const std::vector<std::pair<std::string, std::string>>& puts) {
  Value job = *parse_toml(kPipelinesAcross, "job.toml");
  for (const auto& [path, text] : puts) {
    const Value value = *TRY(parse_toml("x = " + text, "value")).find("x");
    if (path.starts_with("exchange.") && !job.find("exchange")) job.set("exchange", Value::Table{});
    if (path.starts_with("model.experts.") && !job.find("model")->find("experts")) {
      TRY(TRY(sweep::SweepPath::parse("model.experts")).put(job, Value::Table{}));
    }
    TRY(TRY(sweep::SweepPath::parse(path)).put(job, value));
  }
  return job;
}

// The key in a job or Plan, as text; "" where it is left out.
std::string said(const plan::Decisions& decisions, const Case& c) {
  Value section;
  if (c.section == "training") section = write_fields(decisions.training);
  if (c.section == "optimizer") section = write_fields(decisions.optimizer);
  if (c.section == "parallelism") section = write_fields(decisions.parallelism);
  if (c.section == "exchange" && decisions.exchange) section = write_fields(*decisions.exchange);
  if (c.section == "data" && decisions.data) section = write_fields(*decisions.data);
  if (c.section == "run") section = write_fields(decisions.run);
  if (c.section == "checkpoint" && decisions.checkpoint) {
    section = write_fields(*decisions.checkpoint);
  }
  if (c.section == "prefill" && decisions.prefill) section = write_fields(*decisions.prefill);
  if (!section.get<Value::Table>()) return "";
  const Value* value = section.find(c.key);
  return value ? to_json(*value, -1) : "";
}

TEST(EveryField, IsInPlanVariantAndFiles) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.section + "." + c.key);
    std::vector<std::pair<std::string, std::string>> needed(c.puts.begin() + 1, c.puts.end());
    const Result<plan::Job> base = plan::job_from_value(*with(needed), "job.toml");
    const Result<Value> changed = with(c.puts);
    EXPECT_TRUE(changed) << changed.error().text();
    if (!changed) continue;
    const Result<plan::Job> job = plan::job_from_value(*changed, "job.toml");
    EXPECT_TRUE(job) << job.error().text();
    if (!job) continue;
    const std::string wanted = said(*job, c);
    ASSERT_NE(wanted, "");
    if (base) {
      ASSERT_NE(wanted, said(*base, c)) << "the value changes nothing";
    }

    const Result<plan::Plan> plan = cost::make_plan(*job);
    EXPECT_TRUE(plan) << plan.error().text();
    if (!plan) continue;
    EXPECT_EQ(said(*plan, c), wanted) << "in the Plan";

    const std::string file = plan::to_json_text(*plan);
    const Result<plan::Plan> read = plan::parse_plan(file, "plan.json");
    EXPECT_TRUE(read) << read.error().text();
    if (!read) continue;
    EXPECT_EQ(said(*read, c), wanted) << "in the Plan's file";

    const Result<plan::Job> again = plan::parse_job(file, "plan.json");
    EXPECT_TRUE(again) << again.error().text();
    if (!again) continue;
    EXPECT_EQ(said(*again, c), wanted) << "in the Plan read as a job";

    const std::string text = plan::to_toml_text(*job, "job.toml", "");
    const Result<plan::Job> written = plan::parse_job(text, "job.toml");
    EXPECT_TRUE(written) << written.error().text() << text;
    if (!written) continue;
    EXPECT_EQ(said(*written, c), wanted) << "in the job's file";

    const Result<plan::Plan> varied = schedule_search::vary(*plan, plan->parallelism.variant());
    EXPECT_TRUE(varied) << varied.error().text();
    if (!varied) continue;
    EXPECT_EQ(said(*varied, c), wanted) << "in the Plan of a variant";
  }
}

}  // namespace
}  // namespace tombolo
