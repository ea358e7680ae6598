// One truth: what a search predicts of a random job, the simulator says of the Plan made from it,
// and nothing in that prediction moves or keeps more than there is. A failure prints the job.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "decide/geo/mixed.h"
#include "decide/search/best_plan.h"
#include "predict/cost/price_plan.h"
#include "predict/sim/simulate.h"
#include "predict/sim/trace_check.h"
#include "spec/plan/open_job.h"
#include "spec/plan/plan_file.h"
#include "spec/schedule/schedule.h"
#include "support/seeds.h"

namespace tombolo {
namespace {

template <class T>
const T& one_of(Random& random, const std::vector<T>& all) {
  return all[random.below(all.size())];
}

// Every draw is a statement of its own: compilers evaluate arguments in orders of their own.
//
// Models of 1B to 405B and mixtures on 1 to 5 datacenters of 1 to 3 kinds of devices. Devices in
// number as the model needs them, so that most jobs fit.
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
  const std::vector<std::string> kinds{"h100-80g", "a100-80g", "h200"};
  const bool large = model.nodes >= 16;
  const auto datacenters =
      1 + static_cast<int>(random.below(random.below(2) == 0 ? 1 : (large ? 3 : 5)));
  const int sequence = one_of<int>(random, {1024, 2048, 4096});
  std::string job =
      fmt::format("[model]\npreset = \"{}\"\nsequence = {}\n", model.preset, sequence);
  for (int d = 0; d < datacenters; ++d) {
    const std::string& kind = one_of(random, kinds);
    const int network = one_of<int>(random, {200, 400});
    job += fmt::format(
        "[[cluster.datacenter]]\nname = \"dc{}\"\ndevice = \"{}\"\nnodes = {}\n"
        "devices_per_node = 8\nprice = \"2 USD/device-hour\"\n"
        "scale_up = {{ domain = 8, bandwidth = \"450 GBps\", latency = \"1 us\" }}\n"
        "scale_out = {{ bandwidth = \"{} Gbps\", latency = \"5 us\" }}\n",
        d, kind, std::max(1, model.nodes / datacenters), network);
  }
  for (int a = 0; a < datacenters; ++a) {
    for (int b = a + 1; b < datacenters; ++b) {
      const uint64_t latency = 1 + random.below(60);
      const int pair = one_of<int>(random, {5, 10, 25, 100});
      job += fmt::format(
          "[[cluster.wan]]\nbetween = [\"dc{}\", \"dc{}\"]\none_way_latency = \"{} ms\"\n"
          "node_pair_limit = \"{} Gbps\"\nconnections = 16\n",
          a, b, latency, pair);
      if (random.below(3) == 0) {
        job += fmt::format("path_limit = \"{} Gbps\"\n", one_of<int>(random, {50, 200}));
      }
    }
  }
  const int batch = one_of<int>(random, {64, 128, 256});
  const std::string stack =
      one_of<std::string>(random, {"tombolo", "megatron", "nemo", "torchtitan"});
  job += fmt::format("[training]\nglobal_batch = {}\nprecision = \"bf16\"\nstack = \"{}\"\n", batch,
                     stack);
  job += fmt::format("micro_batch = {}\n[parallelism]\n", one_of<int>(random, {1, 1, 2, 4}));
  if (random.below(3) > 0) job += fmt::format("pipeline = {}\n", 1 << random.below(4));
  if (datacenters == 1 && random.below(3) == 0) job += "context = 2\n";
  if (datacenters > 1) job += fmt::format("data = {}\n", 1 << random.below(4));
  if (datacenters > 1 && large) job += "tensor = 8\n";  // else a search takes minutes
  job += fmt::format("zero = {}\n", random.below(datacenters == 1 ? 3 : 2));
  return job;
}

struct Predicted {
  plan::Job job;
  Seconds iteration;
  Bytes memory;
};

std::vector<Predicted> search(const plan::OpenJob& open) {
  std::vector<Predicted> out;
  if (open.job.cluster.datacenters.size() == 1) {
    const auto found = search::best_plan(open, {.top = 3, .with_band = false});
    if (!found) return out;
    for (const search::RankedPlan& plan : found->top) {
      out.push_back({plan.job, plan.candidate.time, plan.candidate.memory});
    }
    return out;
  }
  const auto found = geo::search_mixed(open, {.top = 2});
  if (!found) return out;
  for (const geo::MixedPlan& plan : found->top) {
    Bytes most;
    for (const geo::MixedStage& stage : plan.stages) most = std::max(most, stage.memory.total());
    out.push_back({geo::with_plan(open.job, plan), plan.time.iteration, most});
  }
  return out;
}

TEST(OneTruth, WhatASearchWritesTheSimulatorConfirms) {
  std::vector<double> differences;
  const uint64_t jobs = seeds(60, 300);
  uint64_t answered = 0;
  const bool show = std::getenv("TOMBOLO_SHOW") != nullptr;
  for (uint64_t seed = 0; seed < jobs; ++seed) {
    Random random(seed + 160'000);
    const std::string text = random_job(random);
    SCOPED_TRACE(fmt::format("seed {}\n{}", seed, text));
    if (show) fmt::print("seed {}\n{}", seed, text);
    const Result<plan::OpenJob> open = plan::parse_open_job(text, "job.toml");
    ASSERT_TRUE(open) << open.error().text();
    const std::vector<Predicted> predicted = search(*open);
    answered += predicted.empty() ? 0 : 1;
    for (const Predicted& p : predicted) {
      const Result<plan::Plan> priced = cost::make_plan(p.job);
      ASSERT_TRUE(priced) << priced.error().text();
      const Result<plan::Plan> plan = plan::parse_plan(plan::to_json_text(*priced), "plan.json");
      ASSERT_TRUE(plan) << plan.error().text();
      EXPECT_EQ(*plan, *priced);
      const Result<schedule::Schedule> schedule = schedule::build(*plan);
      ASSERT_TRUE(schedule) << schedule.error().text();
      const Status fits = schedule::check_memory(*plan, *schedule);
      EXPECT_TRUE(fits) << fits.error().text();
      const Result<sim::Simulation> simulated = sim::simulate(*plan);
      ASSERT_TRUE(simulated) << simulated.error().text();
      const Result<sim::Check> check = sim::check_trace(*plan, simulated->trace);
      ASSERT_TRUE(check) << check.error().text();
      for (const sim::Violation& v : check->violations) ADD_FAILURE() << v.text;
      const Bytes most =
          *std::max_element(simulated->peak_memory.begin(), simulated->peak_memory.end());
      EXPECT_NEAR(most / p.memory, 1, 1e-9) << plan->parallelism.virtual_stages;
      differences.push_back(seconds(simulated->iteration) / p.iteration - 1);
      if (show) {
        const layout::Parallelism& q = p.job.parallelism;
        fmt::print("{} {} t{} c{} d{} p{} v{} z{} e{} mb{} m{} sim {:.4g} law {:.4g}  {:+.2f} %\n",
                   seed, p.job.model->name, q.tensor, q.context, q.data, q.pipeline,
                   q.virtual_stages, q.zero, q.expert, p.job.training.micro_batch,
                   plan->microbatches(), seconds(simulated->iteration).value, p.iteration.value,
                   100 * differences.back());
      }
    }
  }
  EXPECT_GE(answered, jobs * 2 / 3);  // the property is of something
  std::vector<double> sizes;
  for (const double difference : differences) sizes.push_back(std::abs(difference));
  std::sort(sizes.begin(), sizes.end());
  EXPECT_LE(sizes[sizes.size() / 2], 0.03);
  EXPECT_LE(sizes[sizes.size() * 95 / 100], 0.10);
}

}  // namespace
}  // namespace tombolo
