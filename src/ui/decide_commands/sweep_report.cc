#include "ui/decide_commands/sweep_report.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "ui/decide_commands/decide_commands.h"

namespace tombolo::decide_commands {
namespace {

using sweep::Sweep;
using sweep::SweepRow;
using sweep::SweepStatus;

std::optional<size_t> position_of(const std::vector<std::string>& list, const std::string& name) {
  const auto found = std::find(list.begin(), list.end(), name);
  if (found == list.end()) return {};
  return static_cast<size_t>(found - list.begin());
}

std::vector<std::string> paths_of(const Sweep& sweep) {
  std::vector<std::string> paths;
  for (const sweep::SweepPath& path : sweep.paths) paths.push_back(path.text());
  return paths;
}

std::optional<double> number_of(const Value& value) {
  if (const auto* number = value.get<double>()) return *number;
  if (const auto* whole = value.get<int64_t>()) return static_cast<double>(*whole);
  return {};
}

// As the page's own scripts write figures: from a thousand on in groups.
std::string card_text(double figure) {
  const bool whole = std::abs(figure) >= 999.95 && std::abs(figure) < 1e15;
  return whole ? grouped(std::llround(figure)) : sweep_figure_text(figure);
}

bool any_knows(const Sweep& sweep, const std::vector<SweepRow>& rows, const std::string& column) {
  return best_row(sweep, rows, column, true) != nullptr;
}

// "tokens per s": column names as words.
std::string words_of(const std::string& column) {
  if (column == "cost_usd") return "Cost of an iteration (USD)";
  if (column == "cost_per_million_tokens_usd") return "Cost of a million tokens (USD)";
  if (column == "iteration_s") return "Iteration (s)";
  if (column == "mfu") return "MFU";
  std::string words = column;
  std::replace(words.begin(), words.end(), '_', ' ');
  const size_t per_s = words.rfind(" per s");
  if (per_s != std::string::npos && per_s + 6 == words.size()) words += "econd";
  words[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(words[0])));
  return words;
}

report::SweepChartAxis axis_of(const sweep::SweepAxis& axis) {
  report::SweepChartAxis out{.name = axis.path, .texts = {}, .numbers = {}, .unit = {}};
  bool numeric = true;
  for (const Value& value : axis.values) {
    out.texts.push_back(sweep::sweep_text(value));
    const auto number = sweep::sweep_number(value);
    if (!number || (!out.numbers.empty() && number->unit != out.unit)) numeric = false;
    if (!numeric) continue;
    out.unit = number->unit;
    out.numbers.push_back(number->number);
  }
  if (!numeric) out.numbers.clear();
  if (!numeric) out.unit.clear();
  return out;
}

// Status first, then every figure that some row knows, then reasons where there are any.
std::vector<report::SweepChartColumn> columns_of(const Sweep& sweep,
                                                 const std::vector<SweepRow>& rows) {
  std::vector<report::SweepChartColumn> columns;
  report::SweepChartColumn status{.name = "status", .numbers = {}, .texts = {}};
  report::SweepChartColumn reason{.name = "reason", .numbers = {}, .texts = {}};
  bool any_reason = false;
  for (const SweepRow& row : rows) {
    status.texts.emplace_back(to_name(row.status));
    reason.texts.push_back(row.reason);
    any_reason = any_reason || !row.reason.empty();
  }
  columns.push_back(std::move(status));
  const std::vector<std::string> names = sweep::sweep_columns(sweep.question);
  for (size_t i = 0; i < names.size(); ++i) {
    report::SweepChartColumn column{.name = names[i], .numbers = {}, .texts = {}};
    const bool numeric = any_knows(sweep, rows, names[i]);
    bool any = numeric;
    for (const SweepRow& row : rows) {
      const Value value = row.figures.empty() ? Value() : row.figures[i];
      any = any || !value.is_null();
      if (numeric) {
        column.numbers.push_back(number_of(value));
      } else {
        column.texts.push_back(sweep::sweep_text(value));
      }
    }
    if (any) columns.push_back(std::move(column));
  }
  if (any_reason) columns.push_back(std::move(reason));
  return columns;
}

void add_card(const Sweep& sweep, const std::vector<SweepRow>& rows, const std::string& column,
              bool largest, report::SweepChartPage& page) {
  const SweepRow* best = column.empty() ? nullptr : best_row(sweep, rows, column, largest);
  if (!best) return;
  page.cards.push_back({fmt::format("{}: {}", words_of(column), largest ? "most" : "least"),
                        card_text(*sweep_figure(sweep, *best, column)),
                        configuration_words(sweep, best->configuration)});
}

void add_chart(const std::string& column, report::SweepChartPage& page) {
  for (size_t i = 0; i < page.columns.size(); ++i) {
    if (page.columns[i].name == column && !page.columns[i].numbers.empty()) {
      page.charts.push_back({words_of(column), i});
    }
  }
}

// The first axis but this one, of those with several values if there are any.
std::optional<size_t> varying_axis(const std::vector<report::SweepChartAxis>& axes,
                                   std::optional<size_t> other) {
  std::optional<size_t> first;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (i == other) continue;
    if (axes[i].texts.size() > 1) return i;
    if (!first) first = i;
  }
  return first;
}

}  // namespace

std::string configuration_words(const Sweep& sweep, int64_t configuration) {
  std::string text;
  for (size_t axis = 0; axis < sweep.paths.size(); ++axis) {
    text += fmt::format("{}{} = {}", axis == 0 ? "" : ", ", sweep.paths[axis].text(),
                        sweep::sweep_text(sweep.grid.value(configuration, axis)));
  }
  return text;
}

std::optional<double> sweep_figure(const Sweep& sweep, const SweepRow& row,
                                   const std::string& column) {
  const auto at = position_of(sweep::sweep_columns(sweep.question), column);
  if (!at || row.figures.empty()) return {};
  return number_of(row.figures[*at]);
}

const SweepRow* best_row(const Sweep& sweep, const std::vector<SweepRow>& rows,
                         const std::string& column, bool largest) {
  const SweepRow* best = nullptr;
  double best_number = 0;
  const auto at = position_of(sweep::sweep_columns(sweep.question), column);
  for (const SweepRow& row : rows) {
    const auto number = !at || row.figures.empty() ? std::nullopt : number_of(row.figures[*at]);
    if (!number) continue;
    if (best && (largest ? *number <= best_number : *number >= best_number)) continue;
    best = &row;
    best_number = *number;
  }
  return best;
}

std::string throughput_column(const Sweep& sweep, const std::vector<SweepRow>& rows) {
  return any_knows(sweep, rows, "tokens_per_s") ? "tokens_per_s" : "sequences_per_s";
}

std::string cost_column(const Sweep& sweep, const std::vector<SweepRow>& rows) {
  for (const char* column : {"cost_per_million_tokens_usd", "cost_usd"}) {
    if (any_knows(sweep, rows, column)) return column;
  }
  return "";
}

Status check_sweep_report(const Sweep& sweep, const SweepReportOptions& options) {
  const std::vector<std::string> paths = paths_of(sweep);
  for (const auto& [flag, name] : {std::pair("--x", options.x), std::pair("--by", options.by)}) {
    if (name.empty() || position_of(paths, name)) continue;
    return unusable(fmt::format("{} {}: does not vary", flag, name),
                    fmt::format("one of {}", fmt::join(paths, ", ")));
  }
  if (!options.x.empty() && options.x == options.by) {
    return unusable(fmt::format("--by {}: is along the chart already", options.by),
                    "another path, or none");
  }
  const std::vector<std::string> columns = sweep::sweep_columns(sweep.question);
  if (!options.y.empty() && !position_of(columns, options.y)) {
    return unusable(fmt::format("--y {}: there is no such column", options.y),
                    fmt::format("one of {}", fmt::join(columns, ", ")));
  }
  if (sweep.grid.size() > report::kSweepChartMax) {
    return unusable(fmt::format("--report: {} configurations are more than the {} a page holds",
                                sweep.grid.size(), report::kSweepChartMax),
                    "--out rows.csv, or fewer values");
  }
  return {};
}

std::string sweep_figure_text(double figure) {
  const bool many_digits = std::abs(figure) >= 1e4 && std::abs(figure) < 1e15;
  return many_digits ? fmt::format("{:.0f}", figure) : fmt::format("{:.4g}", figure);
}

std::string sweep_report(const Sweep& sweep, const std::vector<SweepRow>& rows,
                         const SweepReportOptions& options) {
  report::SweepChartPage page;
  const sweep::SweepCounts counts = sweep::count_rows(rows);
  page.title = "What if: " + sweep.file;
  page.summary = fmt::format(
      "{} configurations, predicted by {}: {} ok, {} infeasible, {} unusable", rows.size(),
      to_name(sweep.question.ask), counts.ok, counts.infeasible, counts.unusable);
  for (const sweep::SweepAxis& axis : sweep.grid.axes()) page.axes.push_back(axis_of(axis));
  page.columns = columns_of(sweep, rows);
  const std::string throughput = options.y.empty() ? throughput_column(sweep, rows) : options.y;
  const std::string cost = cost_column(sweep, rows);
  add_chart(throughput, page);
  if (cost != throughput) add_chart(cost, page);
  add_card(sweep, rows, throughput_column(sweep, rows), true, page);
  add_card(sweep, rows, cost, false, page);

  const std::vector<std::string> paths = paths_of(sweep);
  page.by = position_of(paths, options.by);
  page.x = position_of(paths, options.x).value_or(varying_axis(page.axes, page.by).value_or(0));
  if (!page.by) page.by = varying_axis(page.axes, page.x);
  page.notes = sweep::sweep_note_texts(rows, sweep::kSweepNotesShown);
  if (cost.empty()) page.notes.push_back("cost is unknown: a datacenter in use names no price");
  page.command = options.command;
  page.version = command::version();
  return report::render_sweep(page);
}

}  // namespace tombolo::decide_commands
