#include "decide/across/exchange_choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/parallel.h"
#include "decide/across/way_order.h"
#include "decide/across/ways.h"
#include "predict/cost/price_plan.h"
#include "predict/sim/simulate.h"
#include "steer/tune/convergence_profile.h"

namespace tombolo::across {
namespace {

// "?": a setting that the source of its steps does not cover.
std::string figures_of(const Way& way) {
  std::string text = fmt::format("{}: {}", way.name, brief(way.iteration));
  if (way.steps.factor > 1) text += fmt::format(" x {:.2f}", way.steps.factor);
  return text + (way.steps.beyond.empty() ? "" : "?");
}

bool has_first_moment(const plan::Job& job) {
  return job.optimizer.name_in_use() == plan::OptimizerName::kAdamW && job.optimizer.beta1 > 0;
}

// The winner, and why before the others.
std::string reason_of(const std::vector<Way>& ways, const std::vector<std::string>& left_out) {
  std::vector<std::string> figures;
  for (const Way& way : ways) figures.push_back(figures_of(way));
  std::string text = fmt::format(
      "[exchange] mode = \"auto\" is {}, by the predicted iteration times the steps to "
      "the same loss: {}",
      ways[0].name, fmt::join(figures, "; "));
  const bool cheaper = ways.size() > 1 && ways[0].time_per_step() > ways[1].time_per_step();
  if (cheaper) text += fmt::format("; the first is the cheapest within {:g} %", 100 * kTie);
  if (!left_out.empty()) text += fmt::format("; not compared: {}", fmt::join(left_out, ", "));
  return text;
}

}  // namespace

Result<plan::Job> with_exchange_chosen(plan::Job job, const plan::Hardware* hardware, int threads) {
  if (!job.exchange || !job.exchange->mode_is_auto) return job;
  std::optional<tune::ConvergenceProfile> profile;
  if (const std::string& name = job.exchange->convergence_profile; !name.empty()) {
    const std::string doing = job.file + ": exchange.convergence_profile";
    const std::string text = TRY(during(read_file(name), doing));
    profile = TRY(during(tune::ConvergenceProfile::parse(text, name), doing));
    if (auto note = tune::note_on_training(profile->record().bounds, name, job))
      job.notes.push_back(*std::move(note));
  }
  const std::vector<int64_t> own_steps =
      job.exchange->steps ? std::vector<int64_t>{*job.exchange->steps} : std::vector<int64_t>{};
  job.exchange.emplace();
  if (!TRY(cost::make_plan(job, hardware)).replicas_lie_apart()) return job;
  if (!job.model)
    return unusable(
        fmt::format("{}: [exchange] mode = \"auto\" compares how many steps modes need, which "
                    "depends on the size of a [model]",
                    job.file),
        "a [model], or a mode that is named");

  std::vector<plan::Exchange> grid = exchange_grid({}, own_steps);
  if (!own_steps.empty()) {
    std::erase_if(grid, [&](const plan::Exchange& each) {
      return each.is_local() && each.steps_in_use() != own_steps.front();
    });
  }
  std::vector<std::string> left_out;
  // Steps were measured without a first moment, which error feedback takes the place of; with one, sparse
  // updates did not reach the loss at all (docs/results/thin_lines.md). A profile says what the job's own optimizer
  // makes of the selection that it was measured with.
  const auto is_measured = [&](const plan::Exchange& each) {
    return profile && each.select_in_use() == profile->record().bounds.select_in_use();
  };
  if (profile && std::none_of(grid.begin(), grid.end(), [&](const plan::Exchange& each) {
        return each.is_sparse() && is_measured(each);
      })) {
    grid.push_back(
        {.mode = plan::ExchangeMode::kSparse, .select = profile->record().bounds.select_in_use()});
  }
  if (has_first_moment(job)) {
    std::erase_if(grid, [&](const plan::Exchange& each) {
      if (!each.is_sparse() || is_measured(each)) return false;
      left_out.push_back(
          exchange_text(each) +
          " (needs [optimizer] beta1 = 0, or a convergence_profile of tombolo tune)");
      return true;
    });
  }
  std::vector<std::optional<Result<Way>>> found(grid.size());
  const WaysOptions options{.profile = profile ? &*profile : nullptr};
  parallel_for(grid.size(), threads_or_all(threads), [&](size_t i) {
    plan::Job each = job;
    each.exchange = grid[i];
    const Result<plan::Plan> plan = cost::make_plan(each, hardware);
    if (plan && sim::passes_of(*plan) > kMostPasses) return;
    found[i] = way_of(WayKind::kHomes, exchange_text(grid[i]), each, options, hardware);
  });
  std::vector<Way> ways;
  for (size_t i = 0; i < grid.size(); ++i) {
    if (found[i] && *found[i]) {
      ways.push_back(std::move(**found[i]));
    } else {
      left_out.push_back(
          fmt::format("{} ({})", exchange_text(grid[i]),
                      found[i] ? found[i]->error().message : "too large to simulate"));
    }
  }
  if (ways.empty()) {
    if (found.front()) return tl::unexpected(found.front()->error());
    return failed(fmt::format("{}: [exchange] mode = \"auto\" simulates each mode, and all are too "
                              "large for it",
                              job.file),
                  "a mode that is named; or fewer microbatches");
  }
  put_in_order(ways, search::Objective::kTime);
  job.exchange = ways.front().job.exchange;
  job.notes.push_back(reason_of(ways, left_out));
  return job;
}

}  // namespace tombolo::across
