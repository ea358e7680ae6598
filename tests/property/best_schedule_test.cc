// What --policy best says, against the simulator: of Plans whose pipelines share node pairs, of
// several sizes of nodes, with a model or imagined times. A failure prints its seed and its job.
#include "decide/schedule_search/best_schedule.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "predict/cost/price_plan.h"
#include "predict/sim/simulate.h"
#include "spec/plan/job.h"
#include "spec/plan/plan_file.h"
#include "spec/schedule/schedule.h"
#include "support/seeds.h"

namespace tombolo {
namespace {

std::string random_job(Random& random) {
  const auto one_to = [&](uint64_t most) { return 1 + random.below(most); };
  const uint64_t datacenters = one_to(3);
  const uint64_t positions = datacenters * one_to(2);
  const uint64_t data = one_to(4);
  const uint64_t per_node = one_to(4);
  const bool has_model = random.below(3) > 0;
  std::string text;
  if (has_model) {
    text += fmt::format(
        "[model]\nlayers = {}\nhidden = 1024\nheads = 8\nvocabulary = 1000\nsequence = 512\n",
        positions * one_to(3));
  }
  for (uint64_t d = 0; d < datacenters; ++d) {
    text += fmt::format(
        "[[cluster.datacenter]]\nname = \"dc-{}\"\ndevice = \"a100-80g\"\nnodes = 8\n"
        "devices_per_node = {}\n",
        d, per_node);
  }
  for (uint64_t d = 1; d < datacenters; ++d) {
    text += fmt::format(
        "[[cluster.wan]]\nbetween = [\"dc-{}\", \"dc-{}\"]\none_way_latency = \"{} ms\"\n"
        "node_pair_limit = \"{} Gbps\"\n",
        d - 1, d, random.below(20), one_to(20));
  }
  text += fmt::format("[training]\nglobal_batch = {}\nmicro_batch = 1\n", data * one_to(6));
  if (has_model && random.below(3) == 0) text += "recompute = \"full\"\n";
  text += fmt::format("[parallelism]\npipeline = {}\ndata = {}\n", positions, data);
  const char* schedules[] = {"gpipe", "1f1b", "varuna", "atlas", "zb-h1"};
  text += fmt::format("schedule = \"{}\"\n", schedules[random.below(5)]);
  if (datacenters > 1 && random.below(3) == 0) text += "sharing = \"temporal\"\n";
  if (!has_model) {
    text += fmt::format(
        "[stage_times]\nforward = \"{} ms\"\nbackward = \"{} ms\"\ntransfer = \"{} ms\"\n"
        "latency = \"{} ms\"\nin_flight = {}\n",
        one_to(4), one_to(8), random.below(6), random.below(6), one_to(8));
  }
  return text;
}

TEST(BestScheduleProperty, NoPublishedScheduleSimulatesShorterAndThePlanTakesAsLongAsItSays) {
  int searched = 0, shared = 0;
  for (uint64_t seed = 0; seed < seeds(20, 1000); ++seed) {
    Random random = Random(seed).stream("best-schedule");
    const std::string text = random_job(random);
    SCOPED_TRACE(fmt::format("seed {}\n{}", seed, text));
    const auto job = plan::parse_job(text, "job.toml");
    ASSERT_TRUE(job) << job.error().text();
    const auto plan = cost::make_plan(*job);
    ASSERT_TRUE(plan) << plan.error().text();

    std::optional<SimDuration> shortest;
    const auto simulate = [&](const Result<plan::Plan>& other) {
      if (!other) return;  // a layout that this Plan does not have
      const auto schedule = schedule::build(*other);
      if (!schedule || !schedule::check_memory(*other, *schedule)) return;
      const auto simulation = sim::simulate(*other);
      ASSERT_TRUE(simulation) << simulation.error().text();
      if (!shortest || simulation->iteration < *shortest) shortest = simulation->iteration;
    };
    for (const std::string& name : layout::schedule_names()) {
      simulate(schedule_search::with_schedule(*plan, *layout::find_schedule(name)));
    }
    simulate(*plan);

    const auto best = schedule_search::best_schedule(*plan, {.passes_max = 20'000});
    if (!best) {
      EXPECT_FALSE(shortest) << best.error().text();
      continue;
    }
    ++searched;
    if (shortest) {
      ASSERT_TRUE(best->baseline());
      EXPECT_LE(*best->baseline()->iteration, *shortest) << best->baseline()->name;
    }
    for (const schedule_search::ScheduleCandidate& candidate : best->candidates) {
      EXPECT_EQ(candidate.iteration.has_value(), candidate.obstacle.empty()) << candidate.name;
      EXPECT_EQ(candidate.iteration.has_value(), candidate.makespan.has_value());
      if (!candidate.iteration) continue;
      EXPECT_LE(best->iteration(), *candidate.iteration) << candidate.name;
      // Links that others use, too, only delay: by its own clock a schedule is never later.
      EXPECT_LE(*candidate.makespan, *candidate.iteration) << candidate.name;
      shared += *candidate.makespan < *candidate.iteration;
    }
    const auto written = plan::parse_plan(plan::to_json_text(best->plan), "plan.json");
    ASSERT_TRUE(written) << written.error().text();
    EXPECT_TRUE(schedule::check_memory(*written, *schedule::build(*written)));
    const auto again = sim::simulate(*written);
    ASSERT_TRUE(again) << again.error().text();
    EXPECT_EQ(again->iteration, best->iteration()) << best->winner().name;
  }
  EXPECT_GT(searched, 10);
  EXPECT_GT(shared, 20);
}

}  // namespace
}  // namespace tombolo
