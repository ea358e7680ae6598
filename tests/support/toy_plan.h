// Plans whose numbers fit in the head, for tests that cross modules.
#pragma once

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "spec/cluster/cluster.h"
#include "spec/plan/job.h"

namespace tombolo::testing {

struct Toy {
  std::string schedule = "1f1b";
  std::vector<int64_t> stages = {2};  // per datacenter
  int64_t microbatches = 4;
  std::vector<Seconds> forward = {1_ms};  // one for all stages, or one each
  std::vector<Seconds> backward = {2_ms};
  std::vector<Seconds> recompute = {};
  std::optional<Seconds> transfer = {};  // left out: latency and bytes / rate
  Seconds latency = 0_ms;                // of an imagined transfer
  // Of every pair of datacenters.
  Seconds one_way_latency = 0_ms;
  BytesPerSecond node_pair_limit = 1_Gbps;
  std::optional<BytesPerSecond> path_limit = {};
  std::optional<Bytes> tcp_window = {};
  int64_t connections = 1;
  int64_t boundary_bytes = 0;  // an even number; 0: no model
  int64_t replicas = 1;        // of the pipeline, with as many microbatches each
  std::optional<Seconds> reduce = {};
  std::optional<int64_t> in_flight = {};
  // Pipelines that share the WAN in time; 1: each by itself.
  int64_t cell = 1;
  // At most `replicas`, so that a datacenter has room for its stages and no other.
  int64_t devices_per_node = 1;
  // By stage and pipeline, instead: every datacenter has room for all.
  std::vector<std::vector<std::string>> places = {};
};

inline std::string datacenter_name(size_t i) { return "dc" + std::to_string(i); }

inline plan::Job toy_job(const Toy& toy) {
  plan::Job job;
  job.name = "toy";
  job.file = "toy.toml";
  int64_t stages = 0;
  for (size_t i = 0; i < toy.stages.size(); ++i) {
    cluster::Datacenter datacenter;
    datacenter.name = datacenter_name(i);
    datacenter.device = *cluster::catalog_device("a100-80g");
    const int64_t all = std::accumulate(toy.stages.begin(), toy.stages.end(), int64_t{0});
    const int64_t devices = (toy.places.empty() ? toy.stages[i] : all) * toy.replicas;
    datacenter.nodes = (devices + toy.devices_per_node - 1) / toy.devices_per_node;
    datacenter.devices_per_node = toy.devices_per_node;
    job.cluster.datacenters.push_back(datacenter);
    stages += toy.stages[i];
    for (size_t j = 0; j < i; ++j) {
      cluster::WanLink link;
      link.between = {datacenter_name(j), datacenter_name(i)};
      link.one_way_latency = toy.one_way_latency;
      link.node_pair_limit = toy.node_pair_limit;
      link.path_limit = toy.path_limit;
      link.tcp_window = toy.tcp_window;
      link.connections = toy.connections;
      job.cluster.wan.push_back(link);
    }
  }
  job.training.global_batch = toy.microbatches * toy.replicas;
  job.parallelism.pipeline = stages;
  job.parallelism.data = toy.replicas;
  job.parallelism.datacenter_per_stage = toy.places;
  job.parallelism.schedule = *layout::find_schedule(toy.schedule);
  if (toy.cell > 1) {
    job.parallelism.cell = toy.cell;
    job.parallelism.sharing = layout::Sharing::kTemporal;
  }
  job.stage_times = plan::StageTimes{.forward = toy.forward,
                                     .backward = toy.backward,
                                     .recompute = toy.recompute,
                                     .transfer = toy.transfer,
                                     .in_flight = toy.in_flight,
                                     .reduce = toy.reduce};
  if (toy.transfer) job.stage_times->latency = toy.latency;
  if (toy.boundary_bytes > 0) {
    // One token of bf16 numbers per sample.
    model::Model m;
    m.name = "toy";
    m.layers = stages;
    m.hidden = toy.boundary_bytes / 2;
    m.heads = m.kv_heads = m.ffn = m.vocabulary = m.sequence = 1;
    job.model = m;
  }
  return job;
}

inline plan::Plan toy_plan(const Toy& toy) {
  Result<plan::Plan> plan = plan::lay_out(toy_job(toy));
  EXPECT_TRUE(plan) << plan.error().text();
  return *plan;
}

}  // namespace tombolo::testing
