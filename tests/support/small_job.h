// A job for tests of workloads: a model so small that the graphs of all ranks fit into a test.
#pragma once

#include "spec/plan/job.h"

namespace tombolo {

// Layers of h = 64, s = 32, on nodes of 8 GPUs.
inline plan::Job job_of_small_model(int64_t layers, int64_t nodes, int64_t global_batch) {
  plan::Job job;
  job.file = "job.toml";
  model::Model m = *model::preset("gpt-22b");
  m.layers = layers;
  m.hidden = 64;
  m.heads = m.kv_heads = 8;
  m.ffn = 256;
  m.sequence = 32;
  m.positions_max.reset();
  m.vocabulary = 1024;
  job.model = m;
  cluster::Datacenter datacenter;
  datacenter.name = "oregon";
  datacenter.nodes = nodes;
  datacenter.devices_per_node = 8;
  datacenter.device = *cluster::catalog_device("a100-80g");
  datacenter.scale_up = {.domain = 8, .bandwidth = 300_GBps, .latency = 1_us};
  datacenter.scale_out = {.bandwidth = 25_GBps, .latency = 5_us};
  job.cluster.datacenters = {datacenter};
  job.training.global_batch = global_batch;
  return job;
}

}  // namespace tombolo
