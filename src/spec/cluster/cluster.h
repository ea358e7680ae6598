// The machines: devices, nodes, datacenters and the links between them.
//
// A datacenter has `nodes` equal nodes of `devices_per_node` equal devices. Devices of one node
// talk over the scale-up fabric, nodes of one datacenter over the scale-out network, datacenters
// over WAN links. All bandwidths are per device, except the two limits of a WAN link, which say
// what they limit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/fields.h"
#include "base/result.h"
#include "base/units.h"

namespace tombolo::cluster {

// How a device's time is made.
enum class DeviceKind {
  kAccelerator,  // priced and predicted, not run here
  kEmulated,     // "emulated:<catalog name>": runs as that device's predicted durations
  kCpu,          // "cpu": a core of this machine, with real kernels
};
constexpr auto enum_names(DeviceKind) {
  return std::to_array<EnumName<DeviceKind>>({{DeviceKind::kAccelerator, "accelerator"},
                                              {DeviceKind::kEmulated, "emulated"},
                                              {DeviceKind::kCpu, "cpu"}});
}

struct Device {
  std::string name;
  DeviceKind kind = DeviceKind::kAccelerator;
  FlopsPerSecond peak;                     // dense, at 16 bits (CPU: at 32 bits)
  std::optional<FlopsPerSecond> peak_fp8;  // dense, at 8 bits; left out: it has none
  Bytes memory;                            // usable: the catalog takes off what the framework keeps
  BytesPerSecond memory_bandwidth;
  double efficiency = 0.5;            // of peak, in large matrix products
  double attention_efficiency = 0.4;  // of peak, in attention scores

  bool operator==(const Device&) const = default;
};

// Devices known by name, with the source of each number (catalog.cc). "emulated:NAME" is NAME with
// kind kEmulated. Spellings that leave no doubt are understood ("A100", "h100_80gb"); the device
// then has the catalog's name.
std::vector<std::string> catalog_names();
Result<Device> catalog_device(const std::string& name);

// Whether its matrix units take bf16: all but the V100's, which the catalog alone can tell.
bool multiplies_bf16(const Device& device);

struct ScaleUp {
  int64_t domain = 1;  // devices that share it; left out: those of a node
  BytesPerSecond bandwidth = 300_GBps;
  Seconds latency = 1_us;
  std::string fabric;  // whose constants the law `tombolo` takes; left out: those of the device

  bool operator==(const ScaleUp&) const = default;
};

struct ScaleOut {
  BytesPerSecond bandwidth = 25_GBps;
  Seconds latency = 5_us;
  std::string fabric;  // as in ScaleUp

  bool operator==(const ScaleOut&) const = default;
};

struct Datacenter {
  std::string name;
  Device device;
  int64_t nodes = 1;
  int64_t devices_per_node = 1;
  ScaleUp scale_up;
  ScaleOut scale_out;
  DollarsPerSecond price;  // of one device

  int64_t devices() const { return nodes * devices_per_node; }
  bool operator==(const Datacenter&) const = default;
};

// A WAN link joins two datacenters, with the same figures in both directions.
struct WanLink {
  std::vector<std::string> between;  // two names
  Seconds one_way_latency;
  BytesPerSecond node_pair_limit;            // what one pair of nodes may have
  std::optional<BytesPerSecond> path_limit;  // what all pairs share; left out: no limit
  int64_t connections = 1;                   // TCP connections per node pair
  // connections = "auto": the transport chooses from what it measures, among up to `connections`,
  // which then is the most that a link can have. The laws count with all of them.
  bool connections_tuned = false;
  // Congestion control of these connections, such as "bbr", or "auto". Left out: "cubic", which the
  // law of a WAN flow assumes, or "auto" with connections = "auto". Laws and simulator ignore it.
  std::string congestion_control;
  std::optional<Bytes> tcp_window;  // per connection; left out: large enough
  // What only the emulator performs (tools/islands); the laws leave it out and say so, but for the trace, which the
  // simulator plays over several iterations.
  double loss = 0;             // share of packets lost
  double loss_burst = 1;       // packets lost in a row, mean; 1: one at a time
  Seconds jitter;              // standard deviation of the latency of a packet; order is kept
  std::optional<Bytes> queue;  // before the bottleneck, then packets drop; left out: one round trip
  std::string rate_trace;  // CSV "time_s,rate_mbps" for each node pair, instead of node_pair_limit
  DollarsPerByte price;

  bool joins(const std::string& a, const std::string& b) const;
  bool operator==(const WanLink&) const = default;
};

struct Cluster {
  std::vector<Datacenter> datacenters;
  std::vector<WanLink> wan;

  int64_t devices() const;
  const Datacenter* find(const std::string& name) const;
  const WanLink* link(const std::string& a, const std::string& b) const;
  bool operator==(const Cluster&) const = default;
};

// What one flow of a WAN link can have when it is alone: n connections of one node pair are limited
// by their windows, by the pair and by the path.
//
//   rate = min(n window / (2 one_way_latency), node_pair_limit, path_limit)
//
// Atlas table 1 is this law with n = 1 and a 3 MB window (within 2.4 %). docs/laws/wan_flow.md.
BytesPerSecond flow_rate(const WanLink& link);

// Reads [[datacenter]] and [[wan]] from a table (a cluster file, or [cluster] of a job); `path` is
// the table's own path, for messages. A device is a name of the catalog, a table with the fields of
// Device, or "NAME.toml": a file with that table, relative to `file` (`tombolo roofline`
// writes one).
Result<Cluster> read_cluster(const Value& table, const std::string& file, const std::string& path);

// As embedded in a Plan.
template <class Archive>
void describe(Archive& a, Device& device) {
  a.required("name", device.name, "what the device is called");
  a.optional("kind", device.kind,
             "accelerator: predicted only; emulated: waits as long as it is predicted to take; "
             "cpu: one rank of real kernels");
  a.required("peak", device.peak, "matrix products: dense, at 16 bits, of a CPU at 32 bits");
  a.optional("peak_fp8", device.peak_fp8, "dense, at 8 bits; left out: it multiplies no 8 bits");
  a.required("memory", device.memory, "usable by a rank");
  a.required("memory_bandwidth", device.memory_bandwidth, "of its memory");
  a.optional("efficiency", device.efficiency,
             "share of the peak that large matrix products reach (law roofline)");
  a.optional("attention_efficiency", device.attention_efficiency,
             "share of the peak that attention scores reach (law roofline)");
  a.check(device.peak.value > 0, "peak", "must be positive");
  a.check(!device.peak_fp8 || device.peak_fp8->value > 0, "peak_fp8", "must be positive");
  a.check(device.memory.value > 0, "memory", "must be positive");
  a.check(device.memory_bandwidth.value > 0, "memory_bandwidth", "must be positive");
  a.check(device.efficiency > 0 && device.efficiency <= 1, "efficiency", "must lie in (0, 1]");
  a.check(device.attention_efficiency > 0 && device.attention_efficiency <= 1,
          "attention_efficiency", "must lie in (0, 1]");
}

template <class Archive>
void describe(Archive& a, ScaleUp& fabric) {
  a.optional("domain", fabric.domain,
             "devices that share the fast links; left out: those of a node");
  a.required("bandwidth", fabric.bandwidth, "of a device, each way");
  a.optional("latency", fabric.latency, "of a message");
  a.optional("fabric", fabric.fabric,
             "whose constants the law tombolo takes; left out: those of the device");
  a.check(fabric.domain >= 1, "domain", "must be at least 1");
  a.check(fabric.bandwidth.value > 0, "bandwidth", "must be positive");
}

template <class Archive>
void describe(Archive& a, ScaleOut& fabric) {
  a.required("bandwidth", fabric.bandwidth,
             "of a device into the network of its datacenter, each way");
  a.optional("latency", fabric.latency, "of a message");
  a.optional("fabric", fabric.fabric,
             "whose constants the law tombolo takes; left out: those of the device");
  a.check(fabric.bandwidth.value > 0, "bandwidth", "must be positive");
}

template <class Archive>
void describe(Archive& a, Datacenter& datacenter) {
  a.required("name", datacenter.name, "by which links and jobs name it");
  a.required("device", datacenter.device,
             {"of the catalog (\"h100-80g\"; \"emulated:h100-80g\" waits instead of computing), or "
              "a device file, or its keys",
              "name, \"FILE.toml\" or table"});
  a.optional("nodes", datacenter.nodes, "identical machines");
  a.optional("devices_per_node", datacenter.devices_per_node, "in each machine");
  a.check(datacenter.devices_per_node >= 1 && datacenter.devices_per_node <= 10'000,
          "devices_per_node", "must lie between 1 and 10000");
  // What leaves a node crosses the network, unless the file extends the scale-up fabric beyond it.
  if constexpr (Archive::kReads) datacenter.scale_up.domain = datacenter.devices_per_node;
  a.optional("scale_up", datacenter.scale_up,
             "links between the devices of a domain, such as NVLink; left out: 300 GBps a device "
             "inside each node");
  a.optional("scale_out", datacenter.scale_out,
             "network between the nodes of the datacenter; left out: 25 GBps a device");
  a.optional("price", datacenter.price, "of one device");
  a.check(!datacenter.name.empty(), "name", "must not be empty");
  a.check(datacenter.nodes >= 1 && datacenter.nodes <= 10'000'000, "nodes",
          "must lie between 1 and 10000000");
}

constexpr int64_t kConnectionsTuned = 16;  // what a link of the transport has at most

// A number, or "auto".
template <class Archive>
void describe_connections(Archive& a, WanLink& link) {
  Value given = link.connections_tuned ? Value("auto") : Value(link.connections);
  a.optional("connections", given,
             {"TCP connections for each pair of nodes; \"auto\": the transport chooses among up to "
              "16, and laws count with 16; left out: 1",
              "whole number or \"auto\""});
  if constexpr (Archive::kReads) {
    const int64_t* count = given.template get<int64_t>();
    const std::string* word = given.template get<std::string>();
    link.connections_tuned = word && *word == "auto";
    a.check(count || link.connections_tuned, "connections", "wanted a whole number or \"auto\"",
            "connections = 8");
    link.connections = count ? *count : kConnectionsTuned;
    a.check(link.connections >= 1 && link.connections <= 1024, "connections",
            "must lie between 1 and 1024");
  }
}

template <class Archive>
void describe(Archive& a, WanLink& link) {
  a.required("between", link.between,
             "the two datacenters that it joins, with the same figures in both directions");
  a.required("one_way_latency", link.one_way_latency, "propagation, from one end to the other");
  a.required(
      "node_pair_limit", link.node_pair_limit,
      "what one node may send to one node of the other side: N pairs have N times as much, up "
      "to path_limit");
  a.optional("path_limit", link.path_limit, "what all pairs of nodes share; left out: no limit");
  describe_connections(a, link);
  a.optional("congestion_control", link.congestion_control,
             "of TCP, as the kernel names it, or \"auto\"; performed, not predicted; left out: "
             "cubic, or what connections = \"auto\" chooses");
  a.optional("tcp_window", link.tcp_window, "of one connection; left out: large enough");
  a.optional("loss", link.loss, "share of packets that the emulator loses; no law counts it");
  a.optional("loss_burst", link.loss_burst, "packets that the emulator loses in a row, mean");
  a.optional("jitter", link.jitter,
             "standard deviation of a packet's latency in the emulator; order is kept");
  a.optional("queue", link.queue,
             "of the emulator, in front of the bottleneck; left out: one round trip");
  a.optional(
      "rate_trace", link.rate_trace,
      "CSV file time_s,rate_mbps that the emulator and simulate --iterations play for each pair "
      "of nodes, instead of node_pair_limit");
  a.optional("price", link.price, "of bytes that cross");
  a.check(link.between.size() == 2 && link.between[0] != link.between[1], "between",
          "wanted two different datacenters", "between = [\"oregon\", \"paris\"]");
  a.check(link.node_pair_limit.value > 0, "node_pair_limit", "must be positive");
  a.check(!link.path_limit || link.path_limit->value > 0, "path_limit", "must be positive");
  a.check(!link.tcp_window || link.tcp_window->value > 0, "tcp_window", "must be positive");
  a.check(link.congestion_control.size() < 16 &&
              link.congestion_control.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_-") ==
                  std::string::npos,
          "congestion_control", "is no name of a congestion control",
          "\"cubic\", \"bbr\" or \"auto\"");
  a.check(link.loss >= 0 && link.loss < 1, "loss", "must lie in [0, 1)");
  a.check(link.loss_burst >= 1 && link.loss_burst <= 10'000, "loss_burst",
          "must lie between 1 and 10000");
  a.check(link.jitter.value >= 0, "jitter", "must not be negative");
  a.check(!link.queue || link.queue->value > 0, "queue", "must be positive");
}

template <class Archive>
void describe(Archive& a, Cluster& cluster) {
  a.required("datacenter", cluster.datacenters, "identical nodes in one place");
  a.optional("wan", cluster.wan, "a link between two datacenters");
}

}  // namespace tombolo::cluster
