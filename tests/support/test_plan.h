// Small Plans for the tests of runtime and worker: emulated stages in a row of datacenters.
#pragma once

#include <string>

#include "base/check.h"
#include "spec/plan/job.h"

namespace tombolo {

struct TestPlan {
  int stages = 2;
  int microbatches = 2;  // of each pipeline
  int replicas = 1;
  int steps = 3;
  std::string forward = "1 ms";
  std::string backward = "2 ms";
  std::string transfer = "1 ms";
  std::string reduce;  // empty: takes no time
  std::string pair;    // of a forward beside a backward; empty: one after the other
  std::string pair_forward;
  std::string schedule = "1f1b";
  int virtual_stages = 1;
  std::string sharing = "spatial";
  std::string checkpoints;  // directory; empty: none
  int every = 0;
  double byte_scale = 1;
  bool ring = false;  // a link from the last datacenter to the first one
  // Whole pipelines in a datacenter each, with layers of 2 MB of gradients: two a stage.
  bool apart = false;
  std::string
      places;  // of [parallelism], as "datacenter_per_stage = ..."; every datacenter has room
};

// One datacenter per stage, or per pipeline, named oregon, paris, tokyo, sydney; WAN links between
// neighbours.
inline plan::Plan make_test_plan(const TestPlan& wanted) {
  const char* names[] = {"oregon", "paris", "tokyo", "sydney"};
  const int places = wanted.apart ? wanted.replicas : wanted.stages;
  CHECK(places <= 4, "{} datacenters", places);
  std::string where = wanted.places;
  for (int i = 0; wanted.apart && i < places; ++i)
    where += fmt::format("{}\"{}\"", i == 0 ? "datacenter_per_replica = [" : ", ", names[i]);
  if (wanted.apart) {
    where += fmt::format(
        "]\n[model]\nlayers = {}\nhidden = 208\nheads = 4\nffn = 832\nvocabulary = 64\n"
        "sequence = 256\n",
        2 * wanted.stages * wanted.virtual_stages);
  }
  std::string job = fmt::format(
      "name = \"test\"\n[training]\nglobal_batch = {}\nprecision = \"fp32\"\n"
      "[parallelism]\npipeline = {}\ndata = {}\nschedule = \"{}\"\nvirtual_stages = {}\n"
      "sharing = \"{}\"\n{}"
      "[run]\nsteps = {}\nseed = 7\nbyte_scale = {}\n"
      "[stage_times]\nforward = \"{}\"\nbackward = \"{}\"\ntransfer = \"{}\"\nlatency = \"0 ms\"\n",
      wanted.microbatches * wanted.replicas, wanted.stages, wanted.replicas, wanted.schedule,
      wanted.virtual_stages, wanted.sharing, where, wanted.steps, wanted.byte_scale, wanted.forward,
      wanted.backward, wanted.transfer);
  if (!wanted.reduce.empty()) job += fmt::format("reduce = \"{}\"\n", wanted.reduce);
  if (!wanted.pair.empty()) job += fmt::format("pair = \"{}\"\n", wanted.pair);
  if (!wanted.pair_forward.empty()) {
    job += fmt::format("pair_forward = \"{}\"\n", wanted.pair_forward);
  }
  if (!wanted.checkpoints.empty()) {
    job += fmt::format("[checkpoint]\ndirectory = \"{}\"\nevery = {}\n", wanted.checkpoints,
                       wanted.every);
  }
  for (int s = 0; s < places; ++s) {
    job += fmt::format(
        "[[cluster.datacenter]]\nname = \"{}\"\ndevice = \"emulated:a100-80g\"\n"
        "devices_per_node = {}\n"
        "scale_up = {{ domain = 8, bandwidth = \"300 GBps\", latency = \"1 us\" }}\n"
        "scale_out = {{ bandwidth = \"200 Gbps\", latency = \"5 us\" }}\n",
        names[s],
        !wanted.places.empty() ? wanted.stages * wanted.replicas
        : wanted.apart         ? wanted.stages
                               : wanted.replicas);
  }
  for (int s = 0; s + (wanted.ring && places > 2 ? 0 : 1) < places; ++s) {
    job += fmt::format(
        "[[cluster.wan]]\nbetween = [\"{}\", \"{}\"]\none_way_latency = \"2 ms\"\n"
        "node_pair_limit = \"1 Gbps\"\n",
        names[s], names[(s + 1) % places]);
  }
  const auto parsed = plan::parse_job(job, "/test/job.toml");
  CHECK(parsed, "{}", parsed.error().text());
  auto plan = plan::lay_out(*parsed);
  CHECK(plan, "{}", plan.error().text());
  return std::move(*plan);
}

}  // namespace tombolo
