#include <algorithm>
#include <cmath>

#include "cli/answer.h"
#include "cli/commands.h"
#include "planner/reproduce.h"

namespace tombolo::cli {
namespace {

using planner::Row;
using planner::Table;

std::string number(double value) {
  const bool whole = value == std::floor(value);
  return whole ? fmt::format("{:.0f}", value) : fmt::format("{:.5g}", value);
}

void print_text(std::ostream& out, const std::vector<Table>& tables) {
  for (const Table& table : tables) {
    size_t width = 0;
    for (const Row& row : table.rows) width = std::max(width, row.name.size());
    out << fmt::format("{}: {}\n  band: {}\n", table.name, table.source, table.band);
    out << fmt::format("  {:<{}}  {:>12}  {:>12}  {:<10}  {:>9}  {:>8}\n", "", width, "ours",
                       "published", "", "gap", "band");
    for (const Row& row : table.rows) {
      out << fmt::format("  {:<{}}  {:>12}  {:>12}  {:<10}  {:>+7.2f} %  {:>6.2f} %{}\n", row.name,
                         width, number(row.ours), number(row.published), row.unit,
                         100 * row.relative_error(), 100 * row.band, row.ok() ? "" : "  OUTSIDE");
    }
  }
}

Value::Table to_json(const std::vector<Table>& tables) {
  Value::Array rows;
  bool all = true;
  for (const Table& table : tables) {
    for (const Row& row : table.rows) {
      all = all && row.ok();
      rows.push_back(Value::Table{{"name", table.name + ": " + row.name},
                                  {"ours", row.ours},
                                  {"published", row.published},
                                  {"relative_error", row.relative_error()},
                                  {"band", row.band},
                                  {"ok", row.ok()},
                                  {"unit", row.unit},
                                  {"table", table.name},
                                  {"source", table.source}});
    }
  }
  return {{"rows", rows}, {"ok", all}};
}

}  // namespace

Status reproduce(const ReproduceOptions& options, std::ostream& out) {
  const std::vector<Table> tables = TRY(planner::reproduce(options.table));
  if (options.json) {
    print_json(out, to_json(tables));
  } else {
    print_text(out, tables);
  }
  std::string outside;
  for (const Table& table : tables) {
    for (const Row& row : table.rows) {
      if (!row.ok()) outside += fmt::format("\n  {}: {}", table.name, row.name);
    }
  }
  if (!outside.empty()) return failed("outside the band that we claim:" + outside);
  return {};
}

}  // namespace tombolo::cli
