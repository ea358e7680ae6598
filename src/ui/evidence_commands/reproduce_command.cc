#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>

#include "base/text_table.h"
#include "evidence/reproduce/reproduce.h"
#include "ui/command/answer.h"
#include "ui/command/words.h"
#include "ui/evidence_commands/evidence_commands.h"

namespace tombolo::evidence_commands {
namespace {

using reproduce::Outcome;
using reproduce::Row;
using reproduce::Table;

std::string number(double value) {
  if (std::isnan(value)) return "none";
  const bool whole = value == std::floor(value);
  return whole ? fmt::format("{:.0f}", value) : fmt::format("{:.5g}", value);
}

// Of percentages in points: 2.1 for 1.3 % is 0.8 points off, not 62 %.
std::pair<std::string, std::string> gap_and_band(const Row& row) {
  const bool points = row.unit == "%" || row.unit == "points";
  const double scale = points ? row.published : 100;
  const char* unit = points ? "pt" : "%";
  if (!row.computed()) return {"none", "none"};
  const std::string gap = fmt::format("{:+.2f} {:<2}", scale * row.relative_error(), unit);
  if (!row.not_reproduced.empty()) return {gap, "none"};
  const char* bound = row.at_most ? "<= " : row.at_least ? ">= " : "";
  const double band = row.at_least ? -row.band : row.band;
  return {gap, fmt::format("{}{:.2f} {:<2}", bound, scale * band + 0.0, unit)};
}

// What is not the paper's stands in brackets.
std::string beside(const Row& row) {
  const std::string text = number(row.published);
  return row.second.empty() ? text : "(" + text + ")";
}

struct Count {
  int64_t figures = 0, hits = 0, misses = 0, not_reproducible = 0, not_published = 0, equal = 0;
};
Count count(const std::vector<Table>& tables) {
  Count all;
  for (const Table& table : tables) {
    for (const Row& row : table.rows) {
      const Outcome outcome = row.outcome();
      ++all.figures;
      all.hits += outcome == Outcome::kHit;
      all.misses += outcome == Outcome::kMiss;
      all.not_reproducible += outcome == Outcome::kNotReproducible;
      all.not_published += outcome == Outcome::kNotPublished;
      all.equal += outcome == Outcome::kNotPublished && row.ok();
    }
  }
  return all;
}

void print_count(std::ostream& out, const Count& all) {
  out << fmt::format(
      "{} published figures: {} hits (within {:.0f} %, or of a bound no more than that beyond it), "
      "{} misses, {} not reproducible\n",
      all.figures - all.not_published, all.hits, 100 * reproduce::kHit, all.misses,
      all.not_reproducible);
  if (all.not_published == 0) return;
  out << fmt::format("{} others, in brackets, that no paper prints: {} as claimed\n",
                     all.not_published, all.equal);
}

void print_text(std::ostream& out, const std::vector<Table>& tables) {
  for (const Table& table : tables) {
    out << fmt::format("{}: {}\n  band: {}\n", table.name, table.source, table.band);
    TextTable lines({text_column(), "ours", "published", text_column(), "gap", "band"});
    for (const Row& row : table.rows) {
      const auto [gap, band] = gap_and_band(row);
      lines.row({row.name, number(row.ours), beside(row), row.unit, gap, band},
                row.fails() ? "OUTSIDE" : "");
      if (!row.not_reproduced.empty()) lines.row({""}, "not claimed: " + row.not_reproduced);
    }
    out << lines.text();
    std::string said;
    for (const Row& row : table.rows) {
      if (row.second.empty() || row.second == said) continue;
      said = row.second;
      out << "  in brackets: " << said << "\n";
    }
  }
  print_count(out, count(tables));
}

Value::Table to_json(const std::vector<Table>& tables) {
  Value::Array rows;
  bool all = true;
  for (const Table& table : tables) {
    for (const Row& row : table.rows) {
      all = all && !row.fails();
      Value::Table out{
          {"name", table.name + ": " + row.name},
          {"ours", row.ours},
          {"published", row.second.empty() ? Value(row.published) : Value()},
          {"second", row.second.empty() ? Value() : Value(row.published)},
          {"second_source", row.second.empty() ? Value() : Value(row.second)},
          {"outcome", std::string(to_name(row.outcome()))},
          {"relative_error", row.relative_error()},
          {"band", row.band},
          {"ok", row.ok()},
          {"not_reproduced", row.not_reproduced.empty() ? Value() : Value(row.not_reproduced)},
          {"unit", row.unit},
          {"table", table.name},
          {"source", table.source}};
      if (row.at_most) out.emplace_back("at_most", true);
      if (row.at_least) out.emplace_back("at_least", true);
      rows.push_back(std::move(out));
    }
  }
  const Count counted = count(tables);
  return {{"rows", rows},
          {"ok", all},
          {"hits", counted.hits},
          {"misses", counted.misses},
          {"not_reproducible", counted.not_reproducible},
          {"not_published", counted.not_published}};
}

}  // namespace

Status reproduce(const ReproduceOptions& options, std::ostream& out) {
  constexpr std::string_view kReference = "reference";
  const std::string_view paper = std::string_view(options.table).substr(0, options.table.find('/'));
  if (paper == kReference) {
    const size_t begin = std::min(kReference.size() + 1, options.table.size());
    return reproduce_reference(options, std::string_view(options.table).substr(begin), out);
  }
  if (options.table == "utilisation") return reproduce_utilisation(options, out);
  if (!options.data.empty() || options.rows) {
    return unusable(
        fmt::format("{}: only for reference tables", options.rows ? "--rows" : "--data"),
        "tombolo reproduce reference");
  }
  const std::vector<Table> tables = TRY(reproduce::reproduce(options.table));
  if (options.json) {
    command::print_json(out, to_json(tables));
  } else {
    print_text(out, tables);
  }
  std::string outside;
  for (const Table& table : tables) {
    for (const Row& row : table.rows) {
      if (row.fails()) outside += fmt::format("\n  {}: {}", table.name, row.name);
    }
  }
  if (!outside.empty()) return failed("outside the band that we claim:" + outside);
  return {};
}

command::Command add_reproduce(CLI::App& app) {
  auto options = std::make_shared<ReproduceOptions>();
  CLI::App* words =
      command::add_command(app, {"reproduce", command::kEvidence,
                                 "published tables that we claim: ours, theirs, the gap",
                                 "tombolo reproduce rail-only/table-4"});
  command::heading(words, command::kGoesIn);
  words
      ->add_option("table", options->table,
                   "rail-only/table-4, or rail-only for all of it; left out: all; "
                   "reference or reference/bloom: errors on published measurements; "
                   "utilisation: MFU over the catalog, next to the highest published")
      ->type_name("TABLE");
  words->add_option("--data", options->data, "reference: folder with other rows of these tables")
      ->type_name("FOLDER");
  command::heading(words, command::kPredicted);
  command::suggestions(words->add_option("--law", options->law, "reference: the law that predicts"),
                       {"tombolo", "rail-only"});
  command::heading(words, command::kComesOut);
  words->add_flag("--rows", options->rows, "reference: every row, too");
  command::add_json(words, options->json);
  return {words, [options](std::ostream& out) { return reproduce(*options, out); }};
}

}  // namespace tombolo::evidence_commands
