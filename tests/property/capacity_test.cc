// No prediction moves more than there is: random jobs under every schedule, with cells of every
// size, several devices on a node, links and datacenters that differ, added up again by the check
// of Traces. A failure prints the job.
#include <gtest/gtest.h>

#include "base/random.h"
#include "predict/cost/price_plan.h"
#include "predict/sim/simulate.h"
#include "predict/sim/trace_check.h"
#include "spec/plan/job.h"
#include "spec/schedule/policy.h"
#include "support/seeds.h"

namespace tombolo {
namespace {

template <class T>
T one_of(Random& random, const std::vector<T>& all) {
  return all[random.below(all.size())];
}

struct Degrees {
  int64_t pipeline, data, tensor, context, cell;
};

Degrees degrees_of_any_size(Random& random, int64_t datacenters) {
  Degrees d{};
  d.pipeline = datacenters * (1 + static_cast<int64_t>(random.below(2)));
  if (d.pipeline == 1) d.pipeline = 2;
  d.data = one_of<int64_t>(random, {1, 2, 3, 4, 6, 8});
  d.tensor = one_of<int64_t>(random, {1, 1, 2, 4});
  d.context = one_of<int64_t>(random, {1, 1, 1, 2});
  d.cell = 1 + static_cast<int64_t>(random.below(static_cast<uint64_t>(d.data)));
  while (d.data % d.cell != 0) --d.cell;
  return d;
}

// A datacenter has room for its share of the stages; a node holds from one device of a rank to
// several ranks. Every draw is a statement of its own: compilers evaluate arguments in orders of
// their own.
std::string unlike_datacenters(Random& random, int64_t datacenters, const Degrees& d) {
  const int64_t devices =
      (d.pipeline + datacenters - 1) / datacenters * d.data * d.tensor * d.context;
  std::string job;
  for (int64_t i = 0; i < datacenters; ++i) {
    const int64_t per_node = one_of<int64_t>(random, {1, 2, 4, 8, 16});
    const auto device = one_of<std::string>(random, {"h100-80g", "a100-80g", "h200"});
    const int inside = one_of<int>(random, {25, 450});
    const int outside = one_of<int>(random, {1, 10, 100, 400});
    job += fmt::format(
        "[[cluster.datacenter]]\nname = \"dc{}\"\ndevice = \"{}\"\n"
        "nodes = {}\ndevices_per_node = {}\n"
        "scale_up = {{ domain = {}, bandwidth = \"{} GBps\", latency = \"1 us\" }}\n"
        "scale_out = {{ bandwidth = \"{} Gbps\", latency = \"5 us\" }}\n",
        i, device, (devices + per_node - 1) / per_node, per_node, per_node, inside, outside);
  }
  for (int64_t a = 0; a < datacenters; ++a) {
    for (int64_t b = a + 1; b < datacenters; ++b) {
      const uint64_t latency = random.below(60);
      const int pair = one_of<int>(random, {100, 1000, 5000, 40000});
      const int connections = one_of<int>(random, {1, 4, 16});
      job += fmt::format(
          "[[cluster.wan]]\nbetween = [\"dc{}\", \"dc{}\"]\none_way_latency = \"{} ms\"\n"
          "node_pair_limit = \"{} Mbps\"\nconnections = {}\n",
          a, b, latency, pair, connections);
      if (random.below(2) == 0) {
        job += fmt::format("path_limit = \"{} Mbps\"\n", one_of<int>(random, {200, 2000, 20000}));
      }
    }
  }
  return job;
}

std::string job_of_any_shape(Random& random) {
  const auto datacenters = 1 + static_cast<int64_t>(random.below(4));
  const Degrees d = degrees_of_any_size(random, datacenters);
  const int64_t microbatches = d.pipeline * (1 + static_cast<int64_t>(random.below(3)));
  const int hidden = one_of<int>(random, {256, 1024, 4096});
  const int sequence = one_of<int>(random, {512, 2048});
  const auto recompute = one_of<std::string>(random, {"none", "full"});
  const uint64_t zero = random.below(3);
  std::string job = fmt::format(
      "[model]\nlayers = {}\nhidden = {}\nheads = 8\nvocabulary = 1000\nsequence = {}\n",
      4 * d.pipeline, hidden, sequence);
  job += unlike_datacenters(random, datacenters, d);
  job += fmt::format(
      "[training]\nglobal_batch = {}\nmicro_batch = 1\nprecision = \"bf16\"\nrecompute = \"{}\"\n"
      "[parallelism]\npipeline = {}\ndata = {}\ntensor = {}\ncontext = {}\nzero = {}\n",
      microbatches * d.data, recompute, d.pipeline, d.data, d.tensor, d.context, zero);
  if (datacenters > 1 && random.below(2) == 0) {
    const auto sharing = one_of<std::string>(random, {"temporal", "spatial"});
    job += fmt::format("cell = {}\nsharing = \"{}\"\n", d.cell, sharing);
  }
  return job;
}

// With as many virtual stages as the schedule wants.
Result<plan::Plan> plan_with(const std::string& text, const std::string& schedule) {
  const int chunks =
      layout::mapping_of(*layout::find_schedule(schedule)) == layout::StageMapping::kLine ? 1 : 2;
  return plan::parse_job(
             text + fmt::format("schedule = \"{}\"\nvirtual_stages = {}\n", schedule, chunks),
             "job.toml")
      .and_then([](const plan::Job& job) { return cost::make_plan(job); });
}

TEST(Capacity, NoResourceIsOverdrawnWhateverIsScheduled) {
  const uint64_t jobs = seeds(100, 1000);
  std::map<std::string, uint64_t> simulated;
  double fullest = 0;
  for (uint64_t seed = 0; seed < jobs; ++seed) {
    Random random(seed + 42'000);
    const std::string text = job_of_any_shape(random);
    for (const std::string& schedule : layout::schedule_names()) {
      SCOPED_TRACE(fmt::format("seed {}\n{}schedule = \"{}\"", seed, text, schedule));
      const Result<plan::Plan> plan = plan_with(text, schedule);
      if (!plan) continue;  // not every schedule takes every shape; counted below
      const Result<sim::Simulation> answer = sim::simulate(*plan);
      if (!answer) continue;
      const Result<sim::Check> check = sim::check_trace(*plan, answer->trace);
      ASSERT_TRUE(check) << check.error().text();
      for (const sim::Violation& violation : check->violations) {
        if (violation.kind != sim::ViolationKind::kMemory) ADD_FAILURE() << violation.text;
      }
      for (const sim::ResourceUse& use : check->resources) {
        EXPECT_LE(use.used_share, 1) << use.name;
        fullest = std::max(fullest, use.used_share);
      }
      ++simulated[schedule];
      if (HasFailure()) return;  // the first one says enough
    }
  }
  for (const auto& [schedule, count] : simulated) EXPECT_GE(count, jobs / 4) << schedule;
  EXPECT_EQ(simulated.size(), layout::schedule_names().size());
  EXPECT_GT(fullest, 0.9);  // and there was something to overdraw
}

// Stages of pipelines anywhere, so that parts of a cell share a crossing, others cross alone or not at
// all, and sums of gradients cross as well.
std::string scattered_pipelines(Random& random) {
  const auto datacenters = 2 + static_cast<int64_t>(random.below(2));
  Degrees d = degrees_of_any_size(random, 1);
  d.pipeline = 2 + static_cast<int64_t>(random.below(3));
  d.data = one_of<int64_t>(random, {2, 3, 4, 6});
  d.cell = random.below(2) == 0 || d.data % 2 != 0 ? d.data : d.data / 2;
  d.context = 1;
  std::string places;
  for (int64_t s = 0; s < d.pipeline; ++s) {
    places += s == 0 ? "[" : ", [";
    for (int64_t r = 0; r < d.data; ++r) {
      const uint64_t where = random.below(static_cast<uint64_t>(datacenters));
      places += fmt::format("{}\"dc{}\"", r == 0 ? "" : ", ", where);
    }
    places += "]";
  }
  Degrees room = d;
  room.pipeline = d.pipeline * datacenters;
  std::string job = fmt::format(
      "[model]\nlayers = {}\nhidden = 1024\nheads = 8\nvocabulary = 1000\nsequence = 512\n",
      2 * d.pipeline);
  job += unlike_datacenters(random, datacenters, room);
  return job + fmt::format(
                   "[training]\nglobal_batch = {}\nmicro_batch = 1\nprecision = \"bf16\"\n"
                   "[parallelism]\npipeline = {}\ndata = {}\ntensor = {}\ncell = {}\n"
                   "sharing = \"temporal\"\ndatacenter_per_stage = [{}]\n",
                   2 * d.pipeline * d.data, d.pipeline, d.data, d.tensor, d.cell, places);
}

TEST(Capacity, PartsOfCellsThatShareAreNotOverdrawn) {
  const uint64_t jobs = seeds(60, 600);
  uint64_t shared = 0;
  for (uint64_t seed = 0; seed < jobs; ++seed) {
    Random random(seed + 44'000);
    const std::string text = scattered_pipelines(random);
    const auto schedule =
        one_of<std::string>(random, {"gpipe", "1f1b", "varuna", "atlas", "zb-h1"});
    const auto discipline = one_of<std::string>(random, {"strict", "released", "greedy"});
    const std::string job = text + fmt::format("discipline = \"{}\"\n", discipline);
    SCOPED_TRACE(fmt::format("seed {}\n{}schedule = \"{}\"", seed, job, schedule));
    const Result<plan::Plan> plan = plan_with(job, schedule);
    ASSERT_TRUE(plan) << plan.error().text();
    const Result<sim::Simulation> answer = sim::simulate(*plan);
    ASSERT_TRUE(answer) << answer.error().text();
    shared += schedule::shape_of(*plan).groups.empty() ? 0 : 1;
    const Result<sim::Check> check = sim::check_trace(*plan, answer->trace);
    ASSERT_TRUE(check) << check.error().text();
    for (const sim::Violation& violation : check->violations) {
      if (violation.kind != sim::ViolationKind::kMemory) ADD_FAILURE() << violation.text;
    }
    // Given as it was found, it is the same.
    plan::Plan given = *plan;
    given.given = schedule::to_given(*schedule::build(*plan));
    EXPECT_EQ(sim::simulate(given)->iteration, answer->iteration);
    if (HasFailure()) return;  // the first one says enough
  }
  EXPECT_GT(shared, jobs / 3);
}

// Whole pipelines in datacenters, whose sums cross the WAN: on few nodes, so that those of several
// stages meet on a pair of nodes, and on one path.
std::string pipelines_apart(Random& random) {
  const auto datacenters = 2 + static_cast<int64_t>(random.below(2));
  const auto pipeline = 1 + static_cast<int64_t>(random.below(4));
  const auto data = datacenters + static_cast<int64_t>(random.below(3));
  const auto tensor = one_of<int64_t>(random, {1, 1, 2});
  const auto per_node = one_of<int64_t>(random, {1, 2, 4});
  const auto alone = one_of<std::string>(random, {"200", "1000", "10000"});
  std::string job = fmt::format(
      "[model]\nlayers = {}\nhidden = 256\nheads = 8\nvocabulary = 1000\nsequence = 128\n",
      2 * pipeline);
  for (int64_t i = 0; i < datacenters; ++i) {
    job += fmt::format(
        "[[cluster.datacenter]]\nname = \"dc{}\"\ndevice = \"h100-80g\"\nnodes = {}\n"
        "devices_per_node = {}\n",
        i, pipeline * data * tensor, per_node);
    for (int64_t other = 0; other < i; ++other) {
      job += fmt::format(
          "[[cluster.wan]]\nbetween = [\"dc{}\", \"dc{}\"]\none_way_latency = \"{} ms\"\n"
          "node_pair_limit = \"{} Mbps\"\n",
          other, i, random.below(60), alone);
      if (random.below(2) == 0) job += fmt::format("path_limit = \"{} Mbps\"\n", alone);
    }
  }
  const auto any_place = [&] {
    std::string where = "[\"dc0\"";
    for (int64_t replica = 1; replica < data; ++replica) {
      where +=
          fmt::format(", \"dc{}\"", replica < datacenters ? replica : random.below(datacenters));
    }
    return where + "]";
  };
  // Whole pipelines, or pipelines that cross the WAN as well.
  std::string where = "datacenter_per_replica = " + any_place();
  if (random.below(2) == 0) {
    where = "datacenter_per_stage = [" + any_place();
    for (int64_t stage = 1; stage < pipeline; ++stage) {
      where += random.below(3) == 0 ? ", \"dc1\"" : ", " + any_place();
    }
    where += "]";
  }
  return job + fmt::format(
                   "[training]\nglobal_batch = {}\nmicro_batch = 1\n[parallelism]\n"
                   "pipeline = {}\ndata = {}\ntensor = {}\n{}\n[exchange]\noverlap = {}\n",
                   4 * data, pipeline, data, tensor, where, random.below(3) > 0);
}

TEST(Capacity, SumsAcrossDatacentersTakeNoMoreThanThereIs) {
  double fullest = 0;
  for (uint64_t seed = 0; seed < seeds(100, 1000); ++seed) {
    Random random(seed + 77'000);
    const std::string text = pipelines_apart(random);
    SCOPED_TRACE(fmt::format("seed {}\n{}", seed, text));
    const Result<plan::Plan> plan =
        plan::parse_job(text, "job.toml").and_then([](const plan::Job& job) {
          return cost::make_plan(job);
        });
    ASSERT_TRUE(plan) << plan.error().text();
    ASSERT_TRUE(plan->replicas_lie_apart());
    const sim::Simulation answer = *sim::simulate(*plan);
    const sim::Check check = *sim::check_trace(*plan, answer.trace);
    for (const sim::Violation& violation : check.violations) ADD_FAILURE() << violation.text;
    for (const sim::ResourceUse& use : check.resources) {
      EXPECT_LE(use.used_share, 1) << use.name;
      fullest = std::max(fullest, use.used_share);
    }
    // Without overlap, a sum takes at least what its law says of it alone.
    plan::Plan in_turn = *plan;
    in_turn.exchange = plan::Exchange{.overlap = false};
    Seconds slowest;
    for (const plan::Stage& stage : plan->stages) slowest = std::max(slowest, stage.cost.reduce);
    EXPECT_GT(seconds(sim::simulate(in_turn)->iteration), slowest * 0.999999);
    if (HasFailure()) return;
  }
  EXPECT_GT(fullest, 0.85);  // what is sent before the first wait and after the last counts, too
}

}  // namespace
}  // namespace tombolo
