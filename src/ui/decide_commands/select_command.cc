#include <CLI/CLI.hpp>
#include <chrono>

#include "base/text_table.h"
#include "decide/geo/select_job.h"
#include "ui/command/answer.h"
#include "ui/command/input.h"
#include "ui/command/words.h"
#include "ui/decide_commands/decide_commands.h"
#include "ui/decide_commands/decision_pages.h"

namespace tombolo::decide_commands {
namespace {

using geo::SelectionJob;
using geo::SelectionResult;
using geo::SelectionRow;
using geo::SelectionSetting;

constexpr size_t kRowsShown = 40;

// ---- text ----

// "oregon 30, iowa 30".
std::string partitions_text(const SelectionSetting& setting, const SelectionRow& row) {
  std::string text;
  for (size_t i = 0; i < setting.sites.size(); ++i) {
    if (row.partitions[i] == 0) continue;
    text +=
        fmt::format("{}{} {}", text.empty() ? "" : ", ", setting.sites[i].name, row.partitions[i]);
  }
  return text.empty() ? "none" : text;
}

double sequences_per_s(const SelectionJob& job, const SelectionRow& row) {
  return row.throughput() * static_cast<double>(job.micro_batch);
}

// What an iteration is, in every row.
std::string batch_text(const SelectionJob& job) {
  const SelectionSetting& setting = job.setting;
  if (!setting.microbatches_together) {
    return fmt::format("{} microbatches per pipeline", setting.microbatches);
  }
  return fmt::format("{} sequences per iteration",
                     *setting.microbatches_together * job.micro_batch);
}

void add_row(TextTable& table, const SelectionJob& job, const SelectionRow& row, const char* mark) {
  const std::string partitions = partitions_text(job.setting, row);
  if (!row.feasible) {
    table.row({mark, fmt::format("{}", row.cells), fmt::format("{}", row.pipelines)},
              fmt::format("infeasible: {} ({})", row.obstacle, partitions));
    return;
  }
  const std::string cost = job.priced ? brief(row.cost) : std::string("-");
  table.row({mark, fmt::format("{}", row.cells), fmt::format("{}", row.pipelines),
             fmt::format("{}", row.microbatches), brief(row.pipeline), brief(row.all_reduce),
             brief(row.total()), fmt::format("{:.4g}", sequences_per_s(job, row)),
             fmt::format("{}", row.used_gpus), fmt::format("{}", row.unused_gpus), cost,
             partitions});
}

void print_text(std::ostream& out, const std::string& name, const SelectionJob& job,
                const SelectionResult& found, double wall) {
  const SelectionSetting& setting = job.setting;
  int64_t gpus = 0;
  for (const geo::SelectionSite& site : setting.sites) gpus += site.gpus;
  const SelectionRow& chosen = found.rows[found.chosen];
  out << fmt::format(
      "{}: {} partitions, {}, {} pipelines per DP-cell, {} GPUs in {} "
      "datacenters\n",
      name, setting.partitions, batch_text(job), setting.pipelines_per_cell, gpus,
      setting.sites.size());
  out << fmt::format("chosen: {} DP-cells, {} pipelines; predicted iteration {}\n", chosen.cells,
                     chosen.pipelines, brief(chosen.total()));
  out << fmt::format("  partitions: {}\n", partitions_text(setting, chosen));
  if (chosen.unused_gpus > 0) {
    out << fmt::format(
        "  {} GPUs stay unused: algorithm 1 takes whole DP-cells of {} GPUs, and whole partitions "
        "per datacenter\n",
        chosen.unused_gpus, setting.partitions * setting.pipelines_per_cell);
  }
  if (found.beyond) {
    const SelectionRow& beyond = *found.beyond;
    out << fmt::format(
        "beyond algorithm 1: {} pipelines in {} cells of at most {}, throughput {}, {} GPUs "
        "unused\n",
        beyond.pipelines, beyond.cells, setting.pipelines_per_cell,
        command::percent(beyond.throughput() / chosen.throughput() - 1), beyond.unused_gpus);
  } else {
    out << "beyond algorithm 1: nothing better\n";
  }
  TextTable table({"", "cells", "pipelines", "M", "pipeline", "allreduce", "total", "per s", "GPUs",
                   "unused", "cost", text_column("partitions")},
                  "");
  const size_t skipped = found.rows.size() > kRowsShown ? found.rows.size() - kRowsShown : 0;
  for (size_t i = skipped; i < found.rows.size(); ++i) {
    add_row(table, job, found.rows[i], i == found.chosen ? "*" : "");
  }
  if (found.beyond) add_row(table, job, *found.beyond, "+");
  out << table.text();
  if (skipped > 0) out << fmt::format("  {} rows of fewer cells: --json\n", skipped);
  out << fmt::format("  laws: {}, {}; M: microbatches of a pipeline; per s: sequences; {:.0f} ms\n",
                     job.pipeline_law, job.allreduce_law, 1000 * wall);
  for (const std::string& note : job.notes) out << "  note: " << note << "\n";
}

// ---- JSON ----

Value::Table row_json(const SelectionJob& job, const SelectionRow& row) {
  Value::Table partitions;
  for (size_t i = 0; i < job.setting.sites.size(); ++i) {
    partitions.emplace_back(job.setting.sites[i].name, row.partitions[i]);
  }
  const auto if_feasible = [&](double number) { return row.feasible ? Value(number) : Value(); };
  Value::Table out{{"cells", row.cells},
                   {"pipelines", row.pipelines},
                   {"micro_batches", row.microbatches},
                   {"sequences", row.all_microbatches * job.micro_batch},
                   {"partitions", partitions},
                   {"pipeline_s", if_feasible(row.pipeline.value)},
                   {"allreduce_s", if_feasible(row.all_reduce.value)},
                   {"total_s", if_feasible(row.total().value)},
                   {"sequences_per_s", sequences_per_s(job, row)},
                   {"used_gpus", row.used_gpus},
                   {"unused_gpus", row.unused_gpus},
                   {"cost_usd", row.feasible && job.priced ? Value(row.cost.value) : Value()}};
  if (!row.feasible) out.emplace_back("obstacle", row.obstacle);
  return out;
}

Value::Table to_json(const SelectionJob& job, const SelectionResult& found, double wall) {
  Value::Array rows, order, notes;
  for (const SelectionRow& row : found.rows) rows.push_back(row_json(job, row));
  for (const geo::SelectionSite& site : job.setting.sites) order.push_back(site.name);
  for (const std::string& note : job.notes) notes.push_back(note);
  const SelectionRow& chosen = found.rows[found.chosen];
  // One of the two is the same in all rows.
  const std::optional<int64_t> together = job.setting.microbatches_together;
  const Value global_batch = together ? Value(*together * job.micro_batch) : Value();
  const Value each = together ? Value() : Value(job.setting.microbatches);
  return {{"provenance", "predicted"},
          {"partitions", job.setting.partitions},
          {"global_batch", global_batch},
          {"micro_batches", each},
          {"communication_to_compute", job.communication_to_compute},
          {"pipelines_per_cell", job.setting.pipelines_per_cell},
          {"order", order},
          {"pipeline_law", job.pipeline_law},
          {"allreduce_law", job.allreduce_law},
          {"rows", rows},
          {"chosen", chosen.cells},
          {"chosen_row", row_json(job, chosen)},
          {"beyond", found.beyond ? Value(row_json(job, *found.beyond)) : Value()},
          {"notes", notes},
          {"wall_s", wall}};
}

}  // namespace

Status select(const SelectCommandOptions& options, std::ostream& out) {
  const auto begin = std::chrono::steady_clock::now();
  plan::OpenJob open = TRY(plan::read_setting(options.job));
  if (!options.order.empty()) {
    const auto order = from_name<plan::DatacenterOrder>(options.order);
    if (!order) {
      return unusable(fmt::format("--order {}: is not one of the known orders", options.order),
                      "one of availability, price, distance, file");
    }
    if (!open.job.selection) open.job.selection.emplace();
    open.job.selection->order = *order;
  }
  command::note_lost_strands(open.job);
  SelectionJob job = TRY(geo::selection_of(open));
  if (!job.priced) job.notes.push_back("costs are left out: a datacenter names no price");
  const SelectionResult found = TRY(geo::select_datacenters(job.setting));
  if (!found.subsets_tried) {
    job.notes.push_back(
        "beyond algorithm 1 only the datacenters in their order were tried: their "
        "subsets are too many");
  }
  const SelectionRow& chosen = found.rows[found.chosen];
  if (chosen.all_microbatches % chosen.pipelines != 0) {
    job.notes.push_back(fmt::format("{} microbatches over {} pipelines: some run {}, the others {}",
                                    chosen.all_microbatches, chosen.pipelines, chosen.microbatches,
                                    chosen.microbatches - 1));
  }
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
  const Value::Table answer = to_json(job, found, wall.count());
  command::OutputFiles files;
  if (!options.report.empty())
    TRY(files.add(options.report, select_page(answer, open.job, options.command)));
  TRY(files.commit());
  if (options.json) {
    command::print_json(out, answer);
  } else {
    print_text(out, open.job.name, job, found, wall.count());
    if (!options.report.empty()) out << "wrote " << options.report << "\n";
  }
  return {};
}

command::Command add_select(CLI::App& app) {
  auto options = std::make_shared<SelectCommandOptions>();
  CLI::App* words = command::add_command(
      app, {"select", command::kPlanning, "which datacenters to use, and how many pipelines",
            "tombolo select examples/atlas/select.toml"});
  command::add_job(words, options->job,
                   "job file (TOML); of a Plan (JSON) its model, cluster and training");
  command::heading(words, "How it is searched");
  command::suggestions(
      words->add_option("--order", options->order,
                        "in which datacenters are filled; left out: [selection].order"),
      {"availability", "price", "distance", "file"});
  command::heading(words, command::kComesOut);
  command::add_report(words, options->report, "map, times, costs and rows");
  command::add_json(words, options->json);
  return {words, [options, words](std::ostream& out) {
            options->command = command::line_given(*words);
            return select(*options, out);
          }};
}

}  // namespace tombolo::decide_commands
