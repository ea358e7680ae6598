// A schedule of one's own: is it faster than 1F1B?
//
//   own_schedule JOB.toml [PLAN.json]
//
// 1F1B keeps as many microbatches in flight as there are stages below; where messages take their time,
// a stage waits for gradients that are still on the way. Here each stage begins with `extra` times as
// many forwards again, and has work while they travel, for the memory of their activations (Zhuang et
// al., "On Optimizing the Communication of Model Parallelism", 2022: eager 1F1B). PLAN.json gets the
// Plan with this schedule, which `tombolo simulate` and `tombolo train` take.
#include <fmt/core.h>
#include <tombolo/predict/cost/price_plan.h>
#include <tombolo/predict/sim/simulate.h>
#include <tombolo/spec/plan/plan_file.h>
#include <tombolo/spec/schedule/passes.h>
#include <tombolo/spec/schedule/policy.h>

#include <algorithm>

using namespace tombolo;

// Who computes what in which order; passes add the messages and updates that follow from it.
Result<schedule::Schedule> eager_1f1b(const schedule::PipelineShape& shape, int32_t extra) {
  std::vector<schedule::RankActions> positions(shape.stages);
  for (int32_t stage = 0; stage < shape.stages; ++stage) {
    schedule::RankActions& order = positions[stage];
    const int32_t ahead = std::min(shape.microbatches, (1 + extra) * (shape.stages - 1 - stage));
    int32_t forward = 0;
    while (forward < ahead) order.push_back({action::ActionKind::kForward, stage, forward++});
    for (int32_t backward = 0; backward < shape.microbatches; ++backward) {
      if (forward < shape.microbatches) {
        order.push_back({action::ActionKind::kForward, stage, forward++});
      }
      schedule::append_backward(shape, stage, backward, order);
    }
  }
  schedule::Schedule out{.name = fmt::format("eager 1F1B, {} extra", extra)};
  out.ranks = schedule::add_communication(schedule::replicate(positions, shape), shape);
  schedule::add_update(out.ranks, shape);
  TRY(schedule::validate(out, shape));
  return out;
}

Status print_row(const plan::Plan& plan, const schedule::Schedule& schedule) {
  const sim::Simulation simulation = TRY(sim::simulate(plan));
  fmt::print("{:22}  {:>12} ns  {:>9}\n", schedule.name, simulation.iteration.ns,
             std::ranges::max(schedule::peak_in_flight(schedule)));
  return {};
}

Status run(int argc, char** argv) {
  if (argc < 2) return unusable("no job", "own_schedule examples/toy/job.toml");
  plan::Plan plan = TRY(cost::make_plan(TRY(plan::read_job(argv[1]))));
  fmt::print("{:22}  {:>15}  in flight\n", "schedule", "iteration");
  plan.parallelism.schedule = layout::ScheduleKind::k1F1B;
  TRY(print_row(plan, TRY(schedule::build(plan))));
  for (const int32_t extra : {0, 1, 2}) {
    const schedule::Schedule own = TRY(eager_1f1b(schedule::shape_of(plan), extra));
    plan.given = schedule::to_given(own);
    TRY(print_row(plan, own));
  }
  if (argc > 2) TRY(plan::write_plan(argv[2], plan));
  return {};
}

int main(int argc, char** argv) {
  const Status status = run(argc, argv);
  if (status) return 0;
  fmt::print(stderr, "own_schedule: {}\n", status.error().text());
  return status.error().exit_code();
}
