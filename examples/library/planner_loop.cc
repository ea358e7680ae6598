// A planner in a loop: which layout is best as the network between nodes becomes slower?
//
//   planner_loop JOB.toml
//
// Asks at every rate what `tombolo plan` would answer, and says where the best layout changes.
#include <fmt/core.h>
#include <tombolo/base/text_table.h>
#include <tombolo/decide/search/best_plan.h>
#include <tombolo/spec/plan/open_job.h>

using namespace tombolo;

Status run(int argc, char** argv) {
  if (argc != 2) return unusable("no job", "planner_loop examples/planning/llama3-70b/job.toml");
  plan::OpenJob open = TRY(plan::read_open_job(argv[1]));
  TextTable table({"network", "iteration", "tokens/s", "MFU", text_column("best layout")});
  for (const double gbps : {400, 100, 25}) {
    for (cluster::Datacenter& datacenter : open.job.cluster.datacenters) {
      datacenter.scale_out.bandwidth = BytesPerSecond{gbps * 1e9 / 8};
    }
    const search::BestPlan found =
        TRY(search::best_plan(open, {.top = 1, .finals = {.candidates = search::kFinalists}}));
    const search::RankedPlan& best = found.top.front();
    table.row({fmt::format("{} Gbps", gbps), fmt::format("{:.6f} s", best.iteration().value),
               fmt::format("{:.0f}", best.tokens_per_second),
               fmt::format("{:.1f} %", 100 * best.mfu),
               search::configuration_text(best.candidate.configuration)});
  }
  fmt::print("{}", table.text());
  return {};
}

int main(int argc, char** argv) {
  const Status status = run(argc, argv);
  if (status) return 0;
  fmt::print(stderr, "planner_loop: {}\n", status.error().text());
  return status.error().exit_code();
}
