// BubbleTea: prefill in the bubbles of Atlas, simulated by the controller that a real run has.
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "base/quantiles.h"
#include "base/random.h"
#include "evidence/reproduce/papers.h"
#include "predict/cost/prefill_time.h"
#include "predict/cost/price_plan.h"
#include "predict/prefill_sim/prefill_run.h"
#include "predict/sim/simulate.h"
#include "spec/plan/job.h"
#include "steer/prefill/prefill_shards.h"

namespace tombolo::reproduce {
namespace {

// Prompts as long as those of the code trace that the paper replays, by its quantiles; they come by
// chance, 2.57 a second, which is its mean rate.
constexpr double kRecordedRate = 2.567;
constexpr auto kCodeTokens = std::to_array<std::pair<double, double>>({{0, 3},
                                                                       {0.05, 75},
                                                                       {0.1, 147},
                                                                       {0.2, 385},
                                                                       {0.3, 770},
                                                                       {0.4, 1075},
                                                                       {0.5, 1469},
                                                                       {0.6, 1909},
                                                                       {0.7, 2433},
                                                                       {0.8, 3192},
                                                                       {0.9, 5186},
                                                                       {0.95, 7302},
                                                                       {1, 7437}});

int64_t code_tokens(double share) {
  size_t i = 1;
  while (kCodeTokens[i].first < share) ++i;
  const auto [low, tokens_low] = kCodeTokens[i - 1];
  const auto [high, tokens_high] = kCodeTokens[i];
  return static_cast<int64_t>(tokens_low +
                              (share - low) / (high - low) * (tokens_high - tokens_low));
}

std::vector<prefill_sim::TracedRequest> code_requests(int count) {
  Random random = Random(1).stream("bubbletea/requests");
  std::vector<prefill_sim::TracedRequest> requests;
  double at = 0;
  for (int i = 0; i < count; ++i) {
    requests.push_back({{static_cast<int64_t>(at * 1e9)}, code_tokens(random.uniform())});
    at += -std::log(1 - random.uniform()) / kRecordedRate;
  }
  return requests;
}

// Twelve A100s in three datacenters, as examples/prefill has them: one DP-cell, so depth 1.
std::string testbed_job(bool gpt_b) {
  std::string text = fmt::format(
      "[model]\nlayers = 4\nhidden = {}\nheads = {}\nvocabulary = 51200\nsequence = {}\n"
      "norm = \"layernorm\"\nactivation = \"gelu\"\npositions = \"learned\"\n",
      gpt_b ? 8192 : 4096, gpt_b ? 64 : 32, gpt_b ? 6144 : 4096);
  for (const auto& [name, nodes] : {std::pair("a", 6), std::pair("b", 3), std::pair("c", 3)}) {
    text += fmt::format(
        "[[cluster.datacenter]]\nname = \"{}\"\ndevice = \"a100-80g\"\nnodes = {}\n"
        "devices_per_node = 1\nscale_out = {{ bandwidth = \"100 Gbps\", latency = \"5 us\" }}\n",
        name, nodes);
  }
  for (const char* pair : {"\"a\", \"b\"", "\"b\", \"c\""}) {
    text += fmt::format(
        "[[cluster.wan]]\nbetween = [{}]\none_way_latency = \"10 ms\"\nnode_pair_limit = \"5 "
        "Gbps\"\n"
        "connections = 5\ntcp_window = \"3 MB\"\n",
        pair);
  }
  return text + fmt::format(
                    "[training]\nglobal_batch = {}\nmicro_batch = 1\nprecision = \"fp16\"\n"
                    "recompute = \"full\"\n[parallelism]\npipeline = 4\ndata = 3\n"
                    "schedule = \"atlas\"\n{}[prefill]\nmodel = \"llama3-8b\"\n"
                    "memory = \"16.1 GB\"\n",
                    gpt_b ? 12 : 48, gpt_b ? "discipline = \"greedy\"\n" : "");
}

// A thousand GPUs in one datacenter: 50 cells of five pipelines of four stages.
constexpr const char* kThousandGpus = R"([model]
layers = 4
hidden = 4096
heads = 32
vocabulary = 51200
sequence = 4096
norm = "layernorm"
activation = "gelu"
positions = "learned"
[[cluster.datacenter]]
name = "a"
device = "a100-80g"
nodes = 1000
devices_per_node = 1
scale_out = { bandwidth = "100 Gbps", latency = "5 us" }
[training]
global_batch = 1000
micro_batch = 1
precision = "fp16"
recompute = "full"
[parallelism]
pipeline = 4
data = 250
cell = 5
schedule = "1f1b"
[prefill]
model = "llama3-8b"
memory = "2.2 GB"
)";

prefill_sim::PrefillReport prefilled(const std::string& job, int requests,
                                     const prefill_sim::PrefillRunOptions& options) {
  const auto plan = plan::parse_job(job, "bubbletea").and_then([](const plan::Job& read) {
    return cost::make_plan(read);
  });
  CHECK(plan, "{}\n{}", plan.error().text(), job);
  const auto trace = sim::simulate(*plan, {.iterations = prefill_sim::kIterationsMin});
  CHECK(trace, "{}", trace.error().text());
  auto report = prefill_sim::run_prefill(*plan, trace->trace, code_requests(requests), options,
                                         ManualClock());
  CHECK(report, "{}", report.error().text());
  return *std::move(report);
}

Table filled_bubbles() {
  Table table{"bubbletea/utilisation",
              std::string(kAtlas) +
                  "section 6.5: 45 % of the GPUs' time with Atlas alone, 94 % with prefill, on 12 "
                  "GPUs; simulated under a load of 100 times the code trace's",
              "7 %: the paper does not state its load, and prompts of many lengths fill more than "
              "its whole shards do",
              {}};
  for (const bool gpt_b : {false, true}) {
    const std::string name = gpt_b ? "GPT-B, M = 4" : "GPT-A, M = 16";
    const prefill_sim::PrefillRunOptions saturated{.scale = 100, .dedicated = false};
    prefill_sim::PrefillRunOptions whole = saturated;
    whole.suspension = false;
    const prefill_sim::PrefillReport report = prefilled(testbed_job(gpt_b), 6000, saturated);
    table.rows.push_back(
        row_or_miss({name + ", training alone", 100 * report.utilization_before, 45, "%", 0.06},
                    "the paper says neither the schedule's discipline nor layers per stage"));
    table.rows.push_back(row_or_miss(
        {name + ", suspended between layers", 100 * report.utilization_after, 94, "%", 0.07},
        "the gaps of this schedule are longer than the paper's"));
    table.rows.push_back(row_or_miss(
        {name + ", whole prompts",
         100 * prefilled(testbed_job(gpt_b), 6000, whole).utilization_after, 94, "%", 0.07},
        "gaps shorter than a prompt stay empty; with suspension they do not"));
  }
  return table;
}

Table prompts_that_wait() {
  Table table{"bubbletea/queueing",
              std::string(kAtlas) +
                  "section 6.5: queueing \"within 8 msec\", 1,000 GPUs in 50 DP-cells, the code "
                  "trace; simulated, medians and shares",
              "none is claimed: a bound, of an unstated statistic",
              {}};
  const auto say = [&](const std::string& name, const prefill_sim::PrefillReport& report) {
    table.rows.push_back({name + ", median", 1e3 * quantile(report.queueing_s, 0.5), 8, "ms", 0,
                          "the paper's is a bound; a bound that holds has no error"});
    table.rows.push_back({name + ", 99th percentile", 1e3 * quantile(report.queueing_s, 0.99), 8,
                          "ms", 0,
                          "the paper's is a bound without a share of prompts; the rarest of ours "
                          "find all GPUs busy"});
    table.rows.push_back({name + ", accepted", 100 * report.accepted_share(), 100, "%", 0.01});
  };
  const prefill_sim::PrefillRunOptions recorded{.dedicated = false};
  say("12 GPUs, GPT-A", prefilled(testbed_job(false), 2000, recorded));
  say("1,000 GPUs", prefilled(kThousandGpus, 2000, recorded));
  return table;
}

Table first_tokens() {
  Table table{"bubbletea/ttft-by-depth",
              std::string(kAtlas) +
                  "section 6.6, figure 14: first tokens of Llama 3 8B on A100s over NVLink",
              "10 % of the one duration that follows from the text; nothing was fitted",
              {}};
  cluster::Datacenter node{.name = "dgx", .device = *cluster::catalog_device("a100-80g")};
  node.devices_per_node = 8;
  const model::Model llama = *model::preset("llama3-8b");
  const auto ttft = [&](int64_t tokens, int64_t depth) {
    const auto time = cost::prefill_time(llama, node, cost::ShardHop::kScaleUp, tokens);
    CHECK(time, "{}", time.error().text());
    return time->ttft(llama.layers, depth);
  };
  const char* hops =
      "the paper's hop takes 2.3 ms, a hundred times what its bytes take over NVLink: software";
  table.rows.push_back(row_or_miss(
      {"512 tokens, one GPU: 16 ms are 29 %", ttft(512, 1) / 1_ms, 16 / 0.29, "ms", 0.1},
      "the host's time per layer and kernels are not the paper's"));
  table.rows.push_back(
      {"512 tokens, 8 GPUs over one", (ttft(512, 8) - ttft(512, 1)) / 1_ms, 16, "ms", 0, hops});
  table.rows.push_back(
      {"512 tokens, 8 GPUs over one", 100 * (ttft(512, 8) / ttft(512, 1) - 1), 29, "%", 0, hops});
  table.rows.push_back(
      {"8,192 tokens, one GPU over 8", 100 * (ttft(8192, 1) / ttft(8192, 8) - 1), 67, "%", 0,
       "layers run one after the other whatever the depth; the paper blames weights swapped in and "
       "out, which 16 GB on a GPU of 80 GB do not need"});
  return table;
}

Table shard_memory() {
  Table table{
      "bubbletea/memory",
      std::string(kAtlas) + "section 5.1: Llama 3 8B at 16 bits over 8 GPUs takes 2 GB of each",
      "printed to a digit",
      {}};
  const model::Model llama = *model::preset("llama3-8b");
  const Bytes whole = prefill::shard_bytes(llama, {0, llama.layers, true, true});
  table.rows.push_back({"an eighth of the weights", whole / 8_GB, 2, "GB", 0.25});
  Bytes largest;
  for (const model::Slice& slice : prefill::split_shards(llama, 8, 2.2_GB)) {
    largest = std::max(largest, prefill::shard_bytes(llama, slice));
  }
  table.rows.push_back({"the largest shard of whole layers", largest / 1_GB, 2, "GB", 0.25});
  return table;
}

Table loading_weights() {
  Table table{"bubbletea/loading",
              std::string(kAtlas) + "sections 5 and 5.1: loading weights instead of storing them",
              "printed to the hundredth, cut off and not rounded",
              {}};
  table.rows.push_back(
      {"60 GB over PCIe 5 at 64 GBps", cost::loading_time(60_GB, 64_GBps).value, 0.93, "s", 0.011});
  table.rows.push_back(
      {"a layer of a billion parameters, 16 bits", cost::loading_time(2_GB, 64_GBps) / 1_ms, 100,
       "ms", 0,
       "\"at least 100 ms\" was measured, of numbers whose width and bus the paper "
       "does not state; ours is PCIe 5 at its nominal rate"});
  return table;
}

}  // namespace

std::vector<Table> bubbletea() {
  return {filled_bubbles(), prompts_that_wait(), first_tokens(), shard_memory(), loading_weights()};
}

}  // namespace tombolo::reproduce
