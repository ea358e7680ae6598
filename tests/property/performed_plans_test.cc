// Plans as searches write them - tensor, context and expert parallelism, virtual stages, ZeRO, several datacenters -
// predicted by the simulator and performed by emulated devices in virtual time: the same intervals, and an iteration
// that is as long. A failure prints the job.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "base/random.h"
#include "decide/geo/mixed.h"
#include "decide/search/best_plan.h"
#include "perform/run/launcher.h"
#include "predict/cost/price_plan.h"
#include "predict/sim/simulate.h"
#include "spec/plan/open_job.h"
#include "support/seeds.h"
#include "support/virtual_run.h"

namespace tombolo {
namespace {

constexpr int32_t kRanksMax = 96;  // each is a thread
constexpr int kSteps = 2;

template <class T>
const T& one_of(Random& random, const std::vector<T>& all) {
  return all[random.below(all.size())];
}

std::string datacenter(const std::string& name, const std::string& device, int nodes) {
  return fmt::format(
      "[[cluster.datacenter]]\nname = \"{}\"\ndevice = \"emulated:{}\"\nnodes = "
      "{}\ndevices_per_node = 8\n"
      "scale_up = {{ domain = 8, bandwidth = \"450 GBps\", latency = \"1 us\" }}\n"
      "scale_out = {{ bandwidth = \"400 Gbps\", latency = \"5 us\" }}\n",
      name, device, nodes);
}

// Every draw is a statement of its own: compilers evaluate arguments in orders of their own.
std::string random_job(Random& random) {
  struct Known {
    const char* preset;
    int nodes;  // about so many nodes of 8 devices
  };
  const Known model = one_of<Known>(random, {{"gpt2", 1},
                                             {"llama3-8b", 2},
                                             {"llama2-7b", 2},
                                             {"mixtral-8x7b", 8},
                                             {"llama3-70b", 16},
                                             {"llama3-405b", 48}});
  const std::string device = one_of<std::string>(random, {"h100-80g", "a100-80g", "h200"});
  const int sequence = one_of<int>(random, {1024, 2048, 8192});
  const bool two = random.below(4) == 0;
  std::string job =
      fmt::format("[model]\npreset = \"{}\"\nsequence = {}\n", model.preset, sequence);
  job += datacenter("here", device, std::max(1, model.nodes / (two ? 2 : 1)));
  if (two) {
    const std::string other = one_of<std::string>(random, {"h100-80g", "a100-80g"});
    job += datacenter("there", other, std::max(1, model.nodes / 2));
    job +=
        "[[cluster.wan]]\nbetween = [\"here\", \"there\"]\none_way_latency = \"10 ms\"\n"
        "node_pair_limit = \"25 Gbps\"\nconnections = 16\n";
  }
  const int batch = one_of<int>(random, {64, 128, 256});
  job += fmt::format(
      "[training]\nglobal_batch = {}\nprecision = \"bf16\"\nstack = \"{}\"\n[parallelism]\n", batch,
      one_of<std::string>(random, {"tombolo", "megatron", "nemo", "torchtitan"}));
  const uint64_t asked = random.below(6);
  if (asked == 0) job += "tensor = 8\n";
  if (asked == 1 && !two) job += "context = 2\n";
  if (asked == 2) job += "pipeline = 4\n";
  if (asked == 3 && !two) job += "pipeline = 2\nvirtual_stages = 2\n";
  if (asked == 4) job += "tensor = 2\n";
  if (two) job += "data = 2\n";
  const uint64_t zero = random.below(two ? 2 : 4);
  job += fmt::format("zero = {}\n", zero);
  return job;
}

std::vector<plan::Job> search(const plan::OpenJob& open) {
  std::vector<plan::Job> out;
  if (open.job.cluster.datacenters.size() == 1) {
    const auto found = search::best_plan(open, {.top = 1, .with_band = false});
    if (found) out.push_back(found->top.front().job);
    return out;
  }
  const auto found = geo::search_mixed(open, {.top = 1});
  if (found) out.push_back(geo::with_plan(open.job, found->top.front()));
  return out;
}

// What one iteration has of everything, and when it ends.
struct Iteration {
  std::map<std::tuple<int, int32_t, int32_t, std::string, int32_t>, int> intervals;
  int64_t end = 0;
};

Iteration last_of(std::span<const trace::Trace> traces) {
  Iteration out;
  for (const trace::Trace& trace : traces) {
    for (const trace::Interval& i : trace.intervals) {
      out.end = std::max(out.end, i.end.ns);
      if (i.iteration != kSteps) continue;
      ++out.intervals[{static_cast<int>(i.lane), i.rank, i.peer, action::to_text(i.action),
                       i.part}];
    }
  }
  return out;
}

// So that a message has at least 64 KiB: rounded to bytes, it lasts as long as it should.
double scale_for(const plan::Plan& plan) {
  return std::clamp(std::floor(plan.boundary.value / 65536), 1.0, 1e6);
}

TEST(PerformedPlans, WhatASearchWritesIsPerformedAsPredicted) {
  const uint64_t jobs = seeds(60, 400);
  int performed = 0;
  std::set<std::string> seen;
  for (uint64_t seed = 0; seed < jobs; ++seed) {
    Random random(seed + 53'000);
    const std::string text = random_job(random);
    SCOPED_TRACE(fmt::format("seed {}\n{}", seed, text));
    const Result<plan::OpenJob> open = plan::parse_open_job(text, "job.toml");
    ASSERT_TRUE(open) << open.error().text();
    for (const plan::Job& job : search(*open)) {
      Result<plan::Plan> plan = cost::make_plan(job);
      ASSERT_TRUE(plan) << plan.error().text();
      plan->run.steps = kSteps;
      plan->run.byte_scale = scale_for(*plan);
      if (std::ssize(plan->ranks) > kRanksMax || plan->exchanges_gradients()) continue;
      const Status performable = run::check_performable(*plan);
      ASSERT_TRUE(performable) << performable.error().text();
      const auto predicted = sim::simulate(*plan, {.iterations = kSteps});
      ASSERT_TRUE(predicted) << predicted.error().text();
      const auto parts = stage::perform_virtually(*plan);
      ASSERT_TRUE(parts) << parts.error().text();
      const Iteration expected = last_of({&predicted->trace, 1}), found = last_of(*parts);
      EXPECT_EQ(found.intervals, expected.intervals);
      EXPECT_NEAR(real(found.end) / real(expected.end), 1,
                  plan->cluster.datacenters.size() > 1 ? 0.05 : 0.005);
      ++performed;
      const layout::Parallelism& p = plan->parallelism;
      if (std::getenv("TOMBOLO_SHOW")) {
        fmt::print("{} {} ranks {} t{} c{} d{} p{} v{} e{} z{} sp{} m{} {:.6g} {:+.4f} %\n", seed,
                   plan->model.name, plan->ranks.size(), p.tensor, p.context, p.data, p.pipeline,
                   p.virtual_stages, p.expert, p.zero, p.sequence_parallel, plan->microbatches(),
                   real(expected.end) * 1e-9, 100 * (real(found.end) / real(expected.end) - 1));
      }
      for (const auto& [degree, name] :
           {std::pair{p.tensor, "tensor"}, std::pair{p.context, "context"},
            std::pair{p.expert, "expert"}, std::pair{p.data, "data"},
            std::pair{p.pipeline, "pipeline"}, std::pair{p.virtual_stages, "virtual"}}) {
        if (degree > 1) seen.insert(name);
      }
      if (!p.tensor_per_stage.empty()) seen.insert("tensor by stage");
      seen.insert(fmt::format("zero {}", p.zero));
    }
  }
  EXPECT_GE(performed, static_cast<int>(jobs) / 2);  // the property is of something
  for (const char* each : {"tensor", "context", "expert", "data", "pipeline", "virtual", "zero 0",
                           "zero 1", "zero 2", "zero 3"}) {
    EXPECT_TRUE(seen.contains(each)) << each;
  }
}

}  // namespace
}  // namespace tombolo
