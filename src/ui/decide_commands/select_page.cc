#include <algorithm>

#include "ui/command/command.h"
#include "ui/decide_commands/decision_pages.h"
#include "ui/report/answer_values.h"
#include "ui/report/cluster_map.h"

namespace tombolo::decide_commands {
namespace {

using namespace report;

// "oregon 21, iowa 17": partitions of a pipeline.
std::string partitions_text(const Value& row) {
  const Value& partitions = value_at(row, "partitions");
  std::string text;
  for (const auto& [name, count] : *partitions.get<Value::Table>()) {
    if (*count.get<int64_t>() == 0) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, *count.get<int64_t>());
  }
  return text.empty() ? "none" : text;
}

std::string cells_name(const Value& row) {
  return fmt::format("{} DP-cells, {} pipelines", *number_at(row, "cells"),
                     *number_at(row, "pipelines"));
}

}  // namespace

std::string select_page(const Value& answer, const plan::Job& job, const std::string& command) {
  Value::Array rows = list_at(answer, "rows");
  const Value& chosen = value_at(answer, "chosen_row");
  const size_t beyond_at = rows.size();
  const Value& beyond = value_at(answer, "beyond");
  if (!beyond.is_null()) rows.push_back(beyond);
  PlannerPage page;
  page.title = "Datacenters of " + job.name;
  page.summary = fmt::format(
      "{} partitions, {} pipelines per DP-cell, {} GPUs in {} datacenters. "
      "Recommended: {} over {}.",
      *number_at(answer, "partitions"), *number_at(answer, "pipelines_per_cell"),
      figure_of(*number_at(chosen, "used_gpus") + *number_at(chosen, "unused_gpus")),
      list_at(answer, "order").size(), cells_name(chosen), partitions_text(chosen));
  page.cards = {{"Iteration", time_of(number_at(chosen, "total_s")), cells_name(chosen)},
                {"Sequences per second", figure_of(number_at(chosen, "sequences_per_s")),
                 fmt::format("{} microbatches a pipeline", *number_at(chosen, "micro_batches"))},
                {"GPUs", figure_of(number_at(chosen, "used_gpus")),
                 figure_of(number_at(chosen, "unused_gpus")) + " unused"}};
  const bool priced = number_at(chosen, "cost_usd").has_value();
  if (priced)
    page.cards.push_back({"Cost", money_of(number_at(chosen, "cost_usd")), "of an iteration"});
  page.map = map_of(job.cluster, [&](const std::string& name) {
    std::vector<std::string> lines;
    const Value* count = value_at(chosen, "partitions").find(name);
    if (count && *count->get<int64_t>() > 0)
      lines.push_back(fmt::format("{} of {} partitions of each pipeline", *count->get<int64_t>(),
                                  *number_at(answer, "partitions")));
    return lines;
  });
  // Rows of one iteration each, whose batches may differ: what a sequence takes and costs.
  PlannerChart chart{.title = priced ? "Time against cost" : "Time against GPUs",
                     .x = {"Time of a sequence, at this throughput", PlannerKind::kTime},
                     .y = {priced ? "Cost of a sequence" : "GPUs in use",
                           priced ? PlannerKind::kMoney : PlannerKind::kCount},
                     .points = {},
                     .note =
                         "An iteration over its sequences: batches of the rows may differ. On "
                         "the dashed line, no other row is better in both."};
  PlannerBars bars{.title = "Where the time of an iteration goes",
                   .parts = {{"pipelines", "--kind-F"}, {"all-reduce", "--kind-REDUCE"}},
                   .rows = {},
                   .note = fmt::format("Laws: {}, {}.", text_at(answer, "pipeline_law"),
                                       text_at(answer, "allreduce_law"))};
  HeatMapTable table{.title = "All numbers of DP-cells",
                     .columns = {"DP-cells", "pipelines", "microbatches", "pipeline", "all-reduce",
                                 "total", "sequences/s", "GPUs", "unused", "cost", "partitions"},
                     .figures = 9,
                     .rows = {},
                     .remark = {}};
  for (size_t i = 0; i < rows.size(); ++i) {
    const Value& row = rows[i];
    const int64_t number = static_cast<int64_t>(i) + 1;
    const bool is_chosen = i < beyond_at && value_at(row, "cells") == value_at(answer, "chosen");
    std::string words = partitions_text(row);
    if (is_chosen) {
      words += "; recommended";
      chart.recommended = number;
    }
    if (i == beyond_at) words += "; beyond algorithm 1, in cells of different sizes";
    if (const Value* why = row.find("obstacle"))
      words = "infeasible: " + *why->get<std::string>() + " (" + words + ")";
    table.rows.push_back(
        {fmt::format("{}. {} cells", number, *number_at(row, "cells")),
         figure_of(number_at(row, "pipelines")), figure_of(number_at(row, "micro_batches")),
         time_of(number_at(row, "pipeline_s")), time_of(number_at(row, "allreduce_s")),
         time_of(number_at(row, "total_s")), figure_of(number_at(row, "sequences_per_s")),
         figure_of(number_at(row, "used_gpus")), figure_of(number_at(row, "unused_gpus")),
         money_of(number_at(row, "cost_usd")), words});
    const auto total = number_at(row, "total_s");
    if (!total) continue;
    const double sequences = *number_at(row, "sequences");
    bars.rows.push_back(
        {.row = number,
         .name = cells_name(row),
         .values = {*number_at(row, "pipeline_s"), *number_at(row, "allreduce_s")}});
    if (sequences <= 0) continue;
    const auto y = number_at(row, priced ? "cost_usd" : "used_gpus");
    if (!y) continue;
    chart.points.push_back({.row = number,
                            .name = cells_name(row),
                            .x = *total / sequences,
                            .y = priced ? *y / sequences : *y});
  }
  mark_front(chart.points);
  page.chart = std::move(chart);
  page.bars.push_back(std::move(bars));
  page.tables.push_back(std::move(table));
  if (!job.cluster.wan.empty()) page.tables.push_back(links_table(job.cluster));
  page.notes = texts_at(answer, "notes");
  page.command = command;
  page.version = command::version();
  return render_planner(page);
}

}  // namespace tombolo::decide_commands
