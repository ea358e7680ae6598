#include <iostream>

#include "base/clock.h"
#include "base/file.h"
#include "cli/answer.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cost/price_plan.h"
#include "plan/hardware.h"
#include "runtime/launcher.h"
#include "runtime/profile.h"

namespace tombolo::cli {

Status profile(const ProfileOptions& options, std::ostream& out) {
  const plan::Job job = TRY(load_job(options.in));
  const plan::Plan plan = TRY(cost::make_plan(job));
  TRY(runtime::check_performable(plan));
  std::cerr << fmt::format("measuring {} stages at once for {}, then the links\n",
                           plan.stages.size(), brief(Seconds{options.seconds}));
  SystemClock clock;
  const plan::Hardware hardware =
      TRY(runtime::profile(plan,
                           {.budget = Seconds{options.seconds},
                            .worker_program = options.worker,
                            .command = command_line("profile", options.in)},
                           clock));
  TRY(write_file(options.out, plan::to_json_text(hardware)));
  if (options.json) {
    out << plan::to_json_text(hardware);
    return {};
  }
  out << fmt::format("measured on {}\n", hardware.machine);
  for (size_t s = 0; s < hardware.stages.size(); ++s) {
    const plan::MeasuredStage& stage = hardware.stages[s];
    out << fmt::format(
        "  stage {}: forward {} (+- {}), backward {} (+- {}), of it weights {}, update {}; {} "
        "micro-batches\n",
        s, brief(stage.cost.forward), brief(0.5 * stage.forward_spread), brief(stage.cost.backward),
        brief(0.5 * stage.backward_spread), brief(stage.cost.backward_weight.value_or(0_s)),
        brief(stage.cost.update), stage.samples);
  }
  for (const plan::MeasuredLink& link : hardware.links) {
    out << fmt::format("  link {} - {}: {} one way, {} per flow\n", link.between[0],
                       link.between[1], brief(link.one_way_latency), brief(link.rate));
  }
  out << "hardware file: " << options.out << "\n";
  return {};
}

}  // namespace tombolo::cli
