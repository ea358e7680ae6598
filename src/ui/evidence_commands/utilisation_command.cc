#include <algorithm>

#include "evidence/score/catalog_utilisation.h"
#include "ui/command/answer.h"
#include "ui/evidence_commands/evidence_commands.h"

namespace tombolo::evidence_commands {
namespace {

using score::CatalogRow;
using score::CatalogTable;

std::string percent_or_dash(const std::optional<double>& share) {
  return share ? fmt::format("{:.1f}", 100 * *share) : "–";
}

// The highest published, once for all devices that it bounds.
void print_limits(std::ostream& out, const CatalogTable& table) {
  out << "| devices | published MFU in %: dense | mixture | the higher one |\n|---|---|---|---|\n";
  std::vector<std::string> runs;
  for (const score::CatalogLimit& limit : table.limits) {
    if (std::find(runs.begin(), runs.end(), limit.run) == runs.end()) runs.push_back(limit.run);
  }
  for (const std::string& run : runs) {
    const score::CatalogLimit* limit = nullptr;
    std::vector<std::string> devices;
    for (size_t r = 0; r < table.rows.size(); ++r) {
      if (table.limits[r].run != run) continue;
      limit = &table.limits[r];
      const std::string& name = table.rows[r].site.device.name;
      if (devices.empty() || devices.back() != name) devices.push_back(name);
    }
    out << fmt::format("| {} | {} | {} | {} |\n", fmt::join(devices, ", "),
                       percent_or_dash(limit->dense), percent_or_dash(limit->mixture), run);
  }
  out << "\n";
}

// As docs/laws/catalog_mfu.md has it: cells in percent, a dash where nothing fits.
void print_markdown(std::ostream& out, const CatalogTable& table) {
  out << fmt::format("| {}, MFU in % | published | {} |\n",
                     table.experts ? "mixtures of experts" : "dense models",
                     fmt::join(table.stacks, " | "));
  out << "|---|---|";
  for (size_t i = 0; i < table.stacks.size(); ++i) out << "---|";
  out << "\n";
  for (size_t r = 0; r < table.rows.size(); ++r) {
    const CatalogRow& row = table.rows[r];
    out << fmt::format("| {} on {} {} | {:.1f} |", row.model.name, row.site.devices(),
                       row.site.device.name, 100 * table.limits[r].mfu);
    for (const std::optional<score::CatalogCell>& cell : row.cells) {
      out << fmt::format(" {} |", percent_or_dash(cell ? std::optional(cell->mfu) : std::nullopt));
    }
    out << "\n";
  }
  out << "\n";
}

Value::Table to_json(const CatalogTable& table) {
  Value::Array rows;
  for (size_t r = 0; r < table.rows.size(); ++r) {
    const CatalogRow& row = table.rows[r];
    Value::Table cells;
    for (size_t s = 0; s < table.stacks.size(); ++s) {
      cells.emplace_back(table.stacks[s], row.cells[s] ? Value(row.cells[s]->mfu) : Value());
    }
    rows.push_back(Value::Table{{"device", row.site.device.name},
                                {"constants", row.constants},
                                {"model", row.model.name},
                                {"devices", row.site.devices()},
                                {"published_mfu", table.limits[r].mfu},
                                {"published_run", table.limits[r].run},
                                {"mfu", cells}});
  }
  return {{"mixtures", table.experts}, {"rows", rows}};
}

}  // namespace

Status reproduce_utilisation(const ReproduceOptions& options, std::ostream& out) {
  if (!options.data.empty() || options.rows) {
    return unusable(
        fmt::format("{}: only for reference tables", options.rows ? "--rows" : "--data"),
        "tombolo reproduce reference");
  }
  Value::Array tables;
  std::string above;
  for (const bool experts : {false, true}) {
    const CatalogTable table = TRY(score::catalog_utilisation(experts));
    if (options.json) {
      tables.push_back(to_json(table));
    } else {
      if (!experts) print_limits(out, table);
      print_markdown(out, table);
    }
    for (const score::CatalogExcess& one : score::above_published(table)) {
      above +=
          fmt::format("\n  {} on {}, stack {}: {:.1f} % for {:.1f} % ({})", one.model, one.device,
                      one.stack, 100 * one.mfu, 100 * one.limit.mfu, one.limit.run);
    }
  }
  if (options.json) command::print_json(out, {{"tables", tables}});
  if (!above.empty()) return failed("above what anyone published:" + above);
  return {};
}

}  // namespace tombolo::evidence_commands
