// A whole run in one process: its ranks in threads, each performing its actions of the schedule.
#pragma once

#include <gtest/gtest.h>

#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "perform/kernels/neighbours.h"
#include "perform/stage/perform.h"
#include "perform/state/checkpoint.h"
#include "perform/state/resharded_state.h"
#include "perform/train/torch_kernels.h"
#include "spec/schedule/schedule.h"
#include "support/memory_messenger.h"
#include "support/tiny_plan.h"

namespace tombolo::train {

// What the ranks of a run did together.
struct Story {
  std::map<int64_t, double> losses;              // by step: mean over all samples
  std::map<int64_t, double> norms;               // by step: of the gradients
  std::vector<int64_t> skipped;                  // steps whose update was left out
  std::vector<kernels::NamedTensor> checkpoint;  // of all that write one, after the last step
  std::vector<int64_t> state_bytes;              // by rank
  std::vector<std::string> digests;              // by rank
  // By step, and stage where they are of one rank each: what replicas held, as far as it differed.
  std::map<std::pair<int64_t, int32_t>, std::set<std::string>> compared;
  std::optional<double> evaluation;  // held-out text, after the last step
  std::vector<Status> ends;          // by rank
};

// Where it begins: empty, with the first values that a Plan's seed draws.
struct From {
  std::vector<kernels::NamedTensor> checkpoint;
  int64_t first = 1;
  // The batch is divided so from these iterations on, as a launcher would order it.
  std::map<int64_t, std::vector<int64_t>> divided = {};
  bool pair_by_pair = true;  // passes that the schedule pairs at once, and else one after the other
};

inline Story live_together(const plan::Plan& plan, const From& from = {}) {
  const auto schedule = schedule::build(plan);
  CHECK(schedule.has_value(), "{}", schedule.error().text());
  MemoryHub hub;
  std::mutex mutex;
  Story story;
  SystemClock clock;
  const auto note = [&](int32_t rank, const stage::IterationReport& report) -> Status {
    const std::lock_guard lock(mutex);
    if (report.weights_digest)
      story.compared[{report.iteration, plan.ranks[rank].stage}].insert(*report.weights_digest);
    const int64_t microbatches =
        report.batch ? report.batch->microbatches : plan.microbatches_of(plan.ranks[rank].replica);
    const int64_t samples = microbatches * plan.training.micro_batch;
    if (report.loss) {
      story.losses[report.iteration] += *report.loss * static_cast<double>(samples) /
                                        static_cast<double>(plan.training.global_batch);
    }
    if (report.gradient_norm) story.norms[report.iteration] = *report.gradient_norm;
    if (report.update_skipped &&
        (story.skipped.empty() || story.skipped.back() != report.iteration))
      story.skipped.push_back(report.iteration);
    return {};
  };
  const auto evaluated = [&](const stage::Evaluation& evaluation) -> Status {
    const std::lock_guard lock(mutex);
    if (!story.evaluation) story.evaluation = evaluation.loss;
    return {};
  };
  std::vector<std::unique_ptr<kernels::Kernels>> kernels;
  for (const layout::Placement& place : plan.ranks) {
    auto made = make_torch_kernels(plan, place.rank, {.bf16_products = true});
    CHECK(made.has_value(), "{}", made.error().text());
    kernels.push_back(std::move(*made));
  }
  const auto live = [&](int32_t rank) -> Status {
    const layout::Placement& own = plan.ranks[rank];
    MemoryMessenger messenger(hub, rank);
    const stage::Hooks hooks{
        .iteration = [&, rank](const stage::IterationReport& report) { return note(rank, report); },
        .evaluation = evaluated};
    if (!from.checkpoint.empty()) {
      state::TensorShapes shapes;
      for (const kernels::NamedTensor& each : from.checkpoint)
        shapes.emplace(each.name, each.shape);
      state::ReshardedState fitted(plan, rank, std::move(shapes), source_of(from.checkpoint));
      TRY(kernels[rank]->load([&](const std::string& name) { return fitted.read(name); }));
    }
    if (plan.replicas() > 1) {
      TRY(kernels[rank]->join_replicas({.ranks = plan.replicas_of(own.stage),
                                        .own = static_cast<size_t>(own.replica),
                                        .messenger = &messenger,
                                        .lie_apart = plan.replicas_lie_apart(own.stage),
                                        .address = "127.0.0.1"}));
    }
    stage::PerformOptions options{.rank = rank, .first_iteration = from.first};
    stage::BatchSchedule batch(clock);
    int64_t orders = 0;
    for (const auto& [first, each] : from.divided) {
      CHECK(batch.ask(++orders, first, each)->in_time, "it has begun");
      TRY(batch.decide(orders, true));
    }
    if (!from.divided.empty()) options.batch = &batch;
    if (from.pair_by_pair && !schedule->pairs.empty()) options.pairs = schedule->pairs[rank];
    TRY(stage::perform(plan, schedule->ranks[rank], options, *kernels[rank], messenger, clock,
                       hooks));
    return {};
  };
  std::vector<std::future<Status>> ranks;
  for (const layout::Placement& place : plan.ranks) {
    ranks.push_back(std::async(std::launch::async, [&, rank = place.rank] {
      const Status status = live(rank);
      if (!status) hub.lose(rank);
      return status;
    }));
  }
  for (auto& rank : ranks) story.ends.push_back(rank.get());
  for (const layout::Placement& place : plan.ranks) {
    story.digests.push_back(*kernels[place.rank]->weights_digest());
    story.state_bytes.push_back(kernels[place.rank]->state_bytes());
    if (!state::writes_shard(plan, place.rank)) continue;
    auto part = kernels[place.rank]->save();
    for (kernels::NamedTensor& tensor : *part) story.checkpoint.push_back(std::move(tensor));
  }
  return story;
}

// The same, where nothing may go wrong.
inline Story train(const plan::Plan& plan, const From& from = {}) {
  Story story = live_together(plan, from);
  for (const Status& end : story.ends) EXPECT_TRUE(end) << end.error().text();
  return story;
}

// Replicas of a stage, of which each rank holds one.
inline void expect_equal_replicas(const plan::Plan& plan, const Story& story) {
  for (const layout::Placement& place : plan.ranks)
    EXPECT_EQ(story.digests[place.rank], story.digests[plan.rank_of(place.stage, 0)])
        << "rank " << place.rank;
}

inline plan::Plan with_steps(plan::Plan plan, int64_t steps) {
  plan.run.steps = steps;
  return plan;
}

}  // namespace tombolo::train
