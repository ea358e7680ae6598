// Jobs as people write them, for tests that read one.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

namespace tombolo::test {

// Datacenters by name, with so many nodes of one device each.
inline std::string datacenters(const std::vector<std::pair<std::string, int>>& nodes,
                               const std::string& device) {
  std::string out;
  for (const auto& [name, count] : nodes) {
    out += fmt::format("[[cluster.datacenter]]\nname = \"{}\"\ndevice = \"{}\"\nnodes = {}\n", name,
                       device, count);
  }
  return out;
}

inline constexpr const char* kTwoCpus = R"(
[model]
preset = "byte-3m"
[[cluster.datacenter]]
name = "west"
device = "cpu"
[[cluster.datacenter]]
name = "east"
device = "cpu"
[[cluster.wan]]
between = ["west", "east"]
one_way_latency = "20 ms"
node_pair_limit = "1 Gbps"
[training]
global_batch = 8
micro_batch = 2
precision = "fp32"
[parallelism]
pipeline = 2
)";

// Three stages with two replicas each: "a" has room for one and a half, so one; "b" for two.
inline constexpr const char* kReplicated = R"(
[model]
name = "m"
layers = 3
hidden = 64
heads = 4
vocabulary = 256
sequence = 32
[cluster]
[[cluster.datacenter]]
name = "a"
device = "a100-80g"
nodes = 3
scale_out = { bandwidth = "1 GBps", latency = "1 ms" }
[[cluster.datacenter]]
name = "b"
device = "a100-80g"
nodes = 2
devices_per_node = 2
scale_out = { bandwidth = "1 GBps", latency = "1 ms" }
scale_up = { bandwidth = "10 GBps", latency = "2 us" }
[[cluster.wan]]
between = ["a", "b"]
one_way_latency = "20 ms"
node_pair_limit = "1 Gbps"
[training]
global_batch = 8
[parallelism]
pipeline = 3
data = 2
)";

// Two pipelines of two stages, one in each of two datacenters.
inline constexpr const char* kApart = R"(
[model]
name = "m"
layers = 4
hidden = 64
heads = 4
vocabulary = 256
sequence = 32
[[cluster.datacenter]]
name = "lab"
device = "a100-80g"
nodes = 2
[[cluster.datacenter]]
name = "cloud"
device = "a100-80g"
nodes = 2
[[cluster.wan]]
between = ["lab", "cloud"]
one_way_latency = "20 ms"
node_pair_limit = "1 Mbps"
[training]
global_batch = 8
[parallelism]
pipeline = 2
data = 2
datacenter_per_replica = ["cloud", "lab"]
)";

// kApart at 3.60 USD an hour for a device and 0.1 USD for a GB that crosses, and what is said of [exchange].
inline std::string priced_apart(const std::string& exchange = "") {
  std::string text = kApart;
  for (const char* line : {"nodes = 2\n[[cluster.datacenter]]", "nodes = 2\n[[cluster.wan]]"}) {
    text.insert(text.find(line), "price = \"3.60 USD/device-hour\"\n");
  }
  text.insert(text.find("node_pair_limit"), "price = \"0.1 USD/GB\"\n");
  text.insert(text.find("global_batch"), "stack = \"megatron\"\n");  // sums gradients in fp32
  return text + exchange;
}

inline constexpr const char* kOpenJob = R"(
[model]
preset = "llama3-8b"
[[cluster.datacenter]]
name = "oregon"
device = "h100-80g"
[training]
global_batch = 64
)";

// 175B on 64 A100, row two of the paper's table 4.
inline constexpr const char* kGptOn64 = R"(
[model]
preset = "gpt3-175b"
[[cluster.datacenter]]
name = "here"
device = "a100-80g"
nodes = 8
devices_per_node = 8
scale_up = { domain = 8, bandwidth = "600 GBps", latency = "1 us" }
scale_out = { bandwidth = "200 Gbps", latency = "1 us" }
price = "2 USD/device-hour"
[training]
global_batch = 64
micro_batch = 1
recompute = "selective"
[parallelism]
tensor = 8
pipeline = 8
virtual_stages = 3
sequence_parallel = true
)";

// 32,768 GPUs in domains of 256: row one of the rail-only paper's table 2.
inline constexpr const char* kGptOn32768 = R"(
[model]
preset = "gpt3-175b"
[[cluster.datacenter]]
name = "here"
device = "h100-80g"
nodes = 4096
devices_per_node = 8
scale_up = { domain = 256, bandwidth = "900 GBps" }
scale_out = { bandwidth = "400 Gbps" }
price = "2 USD/device-hour"
[training]
global_batch = 4096
micro_batch = 1
recompute = "selective"
[parallelism]
tensor = 8
pipeline = 8
data = 512
sequence_parallel = true
)";

// 64 GPUs in domains of 8, groups of 16 experts: 8 in each of 2 domains. One sequence of 1024
// tokens of 4096 hidden at 2 bytes, each to 2 experts; 8 layers on 2 stages; m = 4.
inline constexpr const char* kExpertsOn64 = R"(
[model]
layers = 8
hidden = 4096
heads = 32
sequence = 1024
vocabulary = 32000
experts = { count = 16, per_token = 2 }
[[cluster.datacenter]]
name = "here"
device = "h100-80g"
nodes = 8
devices_per_node = 8
scale_up = { domain = 8, bandwidth = "900 GBps" }
scale_out = { bandwidth = "400 Gbps" }
price = "2 USD/device-hour"
[training]
global_batch = 128
micro_batch = 1
[parallelism]
pipeline = 2
data = 32
expert = 16
)";

// Eight ranks: tensor 2, pipeline 2, data 2.
inline constexpr const char* kForChakra = R"(
[model]
preset = "gpt-22b"
[[cluster.datacenter]]
name = "here"
device = "a100-80g"
nodes = 1
devices_per_node = 8
scale_up = { domain = 8, bandwidth = "600 GBps", latency = "1 us" }
scale_out = { bandwidth = "200 Gbps", latency = "1 us" }
[training]
global_batch = 8
[parallelism]
tensor = 2
pipeline = 2
data = 2
)";

}  // namespace tombolo::test
