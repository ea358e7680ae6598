// Jobs over several datacenters, and a law for them that can be worked out by hand.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "decide/geo/mixed_law.h"
#include "spec/plan/open_job.h"

namespace tombolo::geo {

// A law that can be worked out by hand: a layer of a microbatch of b takes b x `layer` of its
// datacenter, divided by tensor parallelism with 10 % lost at each doubling; half as much again is
// the backward pass, and as much as the forward pass if it is done again. Embedding and head take a
// quarter of a layer each. A layer keeps one unit of memory for its state and one for each
// sequence in flight, none of it with full recomputation.
class HandLaw : public MixedLaw {
 public:
  std::vector<double> layer;
  double end = 0.1;  // per layer, once
  double odd = 1;    // times as long as the others do layers 1, 3, 5 and so on take

  cost::StagePrice stage(size_t z, const cost::Configuration& c,
                         const model::Slice& slice) const override {
    const auto t = static_cast<double>(c.tensor);
    const double scale = static_cast<double>(c.micro_batch) * layer[z] * (0.9 + 0.1 * t) / t;
    double layers = (slice.embedding ? 0.25 : 0) + (slice.head ? 0.25 : 0);
    for (int64_t i = 0; i < slice.layers; ++i) {
      layers += (slice.first_layer + i) % 2 == 1 ? odd : 1;
    }
    const double again = c.recompute == model::Recompute::kFull ? 1 : 0;
    const auto replicas = static_cast<double>(c.data);
    return {Seconds{scale * layers + 0.01}, Seconds{scale * layers * (1.5 + again) + 0.01},
            Seconds{end * static_cast<double>(slice.layers)},
            Seconds{0.05 * (replicas - 1) * static_cast<double>(slice.layers)}};
  }
  cost::DeviceMemory memory(size_t, const cost::Configuration& c, const model::Slice& slice,
                            int64_t in_flight) const override {
    const double held =
        static_cast<double>(slice.layers) + (slice.embedding ? 0.5 : 0) + (slice.head ? 0.5 : 0);
    const double kept = c.recompute == model::Recompute::kFull ? 0 : 1;
    const auto t = static_cast<double>(c.tensor);
    cost::DeviceMemory m;
    m.parameters = Bytes{1e9 * held / t};
    m.activations = Bytes{1e9 * kept * held * static_cast<double>(in_flight * c.micro_batch) / t};
    return m;
  }
  cost::Hop hop(size_t, const cost::Configuration&) const override {
    return {0.02_s, 0.01_s, 0.02_s};
  }
};

struct Place {
  const char* device;
  int64_t nodes, devices_per_node;
  double price;  // USD per device and hour
};

// A job of 6 layers over the places, with links of `latency` in seconds between all of them.
inline plan::OpenJob job_over(const std::vector<Place>& places, double latency,
                              const std::string& rest = "") {
  std::string text = R"(
[model]
layers = 6
hidden = 64
heads = 4
vocabulary = 256
sequence = 32
[training]
global_batch = 8
)" + rest;
  for (size_t z = 0; z < places.size(); ++z) {
    text +=
        fmt::format(R"(
[[cluster.datacenter]]
name = "{}"
device = {{ name = "{}", peak = "1 TFLOPS", memory = "12 GB", memory_bandwidth = "1 GBps" }}
nodes = {}
devices_per_node = {}
scale_up = {{ domain = {}, bandwidth = "1 GBps" }}
scale_out = {{ bandwidth = "1 GBps" }}
price = "{} USD/device-hour"
)",
                    std::string(1, static_cast<char>('a' + z)), places[z].device, places[z].nodes,
                    places[z].devices_per_node, places[z].devices_per_node, places[z].price);
    for (size_t y = 0; y < z; ++y) {
      text += fmt::format(R"(
[[cluster.wan]]
between = ["{}", "{}"]
one_way_latency = "{} ms"
node_pair_limit = "1 Mbps"
price = "0.5 USD/GB"
)",
                          std::string(1, static_cast<char>('a' + y)),
                          std::string(1, static_cast<char>('a' + z)),
                          1000 * latency * static_cast<double>(1 + y));
    }
  }
  const auto open = plan::parse_open_job(text, "job.toml");
  if (!open) ADD_FAILURE() << open.error().text();
  return *open;
}

inline HandLaw law_with(std::vector<double> layer) {
  HandLaw law;
  law.layer = std::move(layer);
  return law;
}

// All compositions of `total` into `parts` positive numbers, each at most its limit.
inline void compositions(int64_t total, const std::vector<int64_t>& limits,
                         const std::function<void(const std::vector<int64_t>&)>& visit) {
  std::vector<int64_t> parts;
  const std::function<void(int64_t)> choose = [&](int64_t left) {
    if (parts.size() == limits.size()) {
      if (left == 0) visit(parts);
      return;
    }
    for (int64_t n = 1; n <= std::min(left, limits[parts.size()]); ++n) {
      parts.push_back(n);
      choose(left - n);
      parts.pop_back();
    }
  };
  choose(total);
}

}  // namespace tombolo::geo
