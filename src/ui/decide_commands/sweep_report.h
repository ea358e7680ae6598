// The page of a sweep: which columns become charts, and what stands on the cards.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "decide/sweep/sweep.h"
#include "ui/report/sweep_chart.h"

namespace tombolo::decide_commands {

struct SweepReportOptions {
  std::string x, y, by;  // paths, and a column for y; empty: chosen
  std::string command;
};

// Unusable: x or by is no path that varies, y no column of numbers, more configurations than a page
// holds.
Status check_sweep_report(const sweep::Sweep& sweep, const SweepReportOptions& options);

std::string sweep_report(const sweep::Sweep& sweep, const std::vector<sweep::SweepRow>& rows,
                         const SweepReportOptions& options);

// "training.micro_batch = 2, parallelism.schedule = gpipe".
std::string configuration_words(const sweep::Sweep& sweep, int64_t configuration);

// The column by which configurations compare: tokens per second where some row knows them, else
// sequences. And what a million tokens cost, else an iteration; empty where no price is known.
std::string throughput_column(const sweep::Sweep& sweep, const std::vector<sweep::SweepRow>& rows);
std::string cost_column(const sweep::Sweep& sweep, const std::vector<sweep::SweepRow>& rows);

// Where a column is largest (or smallest); empty where no row has it.
const sweep::SweepRow* best_row(const sweep::Sweep& sweep, const std::vector<sweep::SweepRow>& rows,
                                const std::string& column, bool largest);
// A figure as a number; empty where the row does not know it.
std::optional<double> sweep_figure(const sweep::Sweep& sweep, const sweep::SweepRow& row,
                                   const std::string& column);

// "61776", "0.4104": four digits, and no less than what stands before the point.
std::string sweep_figure_text(double figure);

}  // namespace tombolo::decide_commands
