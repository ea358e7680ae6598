#include <algorithm>
#include <filesystem>

#include "base/text_table.h"
#include "evidence/score/reference_score.h"
#include "predict/cost/law.h"
#include "predict/estimate/estimate.h"
#include "predict/published/reference.h"
#include "ui/command/answer.h"
#include "ui/evidence_commands/evidence_commands.h"

namespace tombolo::evidence_commands {
namespace {

using published::ReferenceTable;
using score::ErrorSummary;
using score::Predicted;
using score::ReferenceScore;
using score::ScoredMemory;
using score::ScoredRow;

constexpr const char* kMemoryTable = "korthikanti-memory";

Result<Predicted> predict(const plan::Job& job, cost::Law law) {
  const estimate::Estimate e = TRY(estimate::estimate(job, law));
  return Predicted{.iteration = e.iteration,
                   .memory = e.memory.total(),
                   .fits = e.fits(),
                   .state = e.memory.parameters + e.memory.gradients + e.memory.optimizer,
                   .activations = e.memory.activations};
}

// What was asked for, read and scored; the scores point into the rows.
struct Answer {
  std::vector<ReferenceTable> tables;
  std::vector<ReferenceScore> scores;  // of tables[i]; empty where it has no row
  std::vector<published::ReferenceMemory> memory_rows;
  std::vector<ScoredMemory> memory;
  std::string memory_refusal;
};

// Of other data a part may be there: all tables are those that have a file.
Result<std::vector<std::string>> tables_to_read(const std::string& folder, std::string_view table) {
  if (!table.empty()) return std::vector{std::string(table)};
  std::vector<std::string> names;
  for (const std::string& name : published::reference_names()) {
    const std::string file = TRY(published::reference_file_name(name));
    std::error_code error;
    if (folder.empty() || std::filesystem::exists(folder + "/" + file, error)) {
      names.push_back(name);
    }
  }
  if (names.empty()) {
    return unusable(fmt::format("--data {}: there is none of the reference tables", folder),
                    "a folder with files named as in data/reference");
  }
  return names;
}

Result<Answer> answer(const ReproduceOptions& options, std::string_view table) {
  const cost::Law name = TRY(cost::find_law(options.law));
  const score::Predictor law = [name](const plan::Job& job) { return predict(job, name); };
  Answer out;
  if (table != kMemoryTable) {
    for (const std::string& name : TRY(tables_to_read(options.data, table))) {
      out.tables.push_back(TRY(published::read_reference_table(options.data, name)));
    }
  }
  for (const ReferenceTable& read : out.tables) {
    std::vector<ReferenceScore> scores = score::score(read.rows, law);
    out.scores.push_back(scores.empty() ? ReferenceScore{.table = read.name}
                                        : std::move(scores.front()));
  }
  if (table.empty() || table == kMemoryTable) {
    auto rows = published::read_reference_memory(options.data);
    if (!rows && table == kMemoryTable) return fail(std::move(rows.error()));
    if (rows) {
      out.memory_rows = std::move(*rows);
      auto scored = score::score_memory(out.memory_rows, law);
      if (scored) out.memory = std::move(*scored);
      if (!scored) out.memory_refusal = scored.error().message;
    }
  }
  return out;
}

ErrorSummary summary_of(const std::vector<ScoredMemory>& memory) {
  std::vector<double> errors;
  for (const ScoredMemory& row : memory) errors.push_back(row.error());
  return score::summarise(errors);
}

// --- for people -------------------------------------------------------------------------------

// A table's name, how many errors were counted, and what they were.
std::vector<std::string> errors_of(const std::string& table, const ErrorSummary& e) {
  if (e.count == 0) return {table, "-", "", "", "", ""};
  return {table,
          fmt::format("{}", e.count),
          fmt::format("{:.1f} %", 100 * e.mean),
          fmt::format("{:.1f} %", 100 * e.median),
          fmt::format("{:.1f} %", 100 * e.largest),
          command::percent(e.bias)};
}

void print_rows(std::ostream& out, const ReferenceScore& score) {
  for (const ScoredRow& scored : score.rows) {
    const auto time = scored.iteration_error();
    const auto memory = scored.memory_error();
    std::string line = fmt::format("  {}: ", scored.row->name);
    if (!scored.predicted) {
      out << line << "refused: " << scored.refusal << "\n";
      continue;
    }
    line += brief(scored.predicted->iteration);
    if (time)
      line += fmt::format(" for {} ({})", brief(*scored.row->iteration), command::percent(*time));
    if (memory) {
      line += fmt::format(", {} for {} ({})", brief(scored.predicted->memory),
                          brief(*scored.row->memory), command::percent(*memory));
    }
    if (scored.row->out_of_memory) line += ", ran out of memory";
    if (!scored.predicted->fits) line += ", predicted not to fit";
    out << line << "\n";
  }
}

void print_text(std::ostream& out, const Answer& answer, const ReproduceOptions& options) {
  out << fmt::format("law {}, predicted over measured; {}\n", options.law,
                     options.data.empty() ? "rows of data/reference" : "rows of " + options.data);
  TextTable table({text_column(), "rows", "mean", "median", "largest", "bias", "memory: mean",
                   "out of memory", "wrongly so", "tau (pairs)"});
  for (size_t i = 0; i < answer.tables.size(); ++i) {
    const ReferenceScore& s = answer.scores[i];
    const std::string memory =
        s.memory.count > 0 ? fmt::format("{}: {:.1f} %", s.memory.count, 100 * s.memory.mean) : "-";
    const std::string failed =
        s.out_of_memory > 0 ? fmt::format("{} of {}", s.out_of_memory_predicted, s.out_of_memory)
                            : "-";
    const std::string tau = s.pairs > 0 ? fmt::format("{:.3f} ({})", s.tau, s.pairs) : "-";
    std::vector<std::string> cells = errors_of(s.table, s.iteration);
    cells.insert(cells.end(), {memory, failed, fmt::format("{}", s.wrongly_out_of_memory), tau});
    table.row(std::move(cells));
  }
  if (!answer.memory.empty()) {
    table.row(errors_of(std::string(kMemoryTable), summary_of(answer.memory)));
  }
  out << table.text();
  for (size_t i = 0; i < answer.tables.size(); ++i) {
    const ReferenceScore& s = answer.scores[i];
    if (s.refused > 0) {
      const auto first = std::find_if(s.rows.begin(), s.rows.end(),
                                      [](const ScoredRow& row) { return !row.predicted; });
      out << fmt::format("{}: {} of {} rows refused, as {}\n", s.table, s.refused, s.rows.size(),
                         first->refusal);
    }
    for (const std::string& reason : answer.tables[i].left_out) {
      out << fmt::format("{}: left out: {}\n", s.table, reason);
    }
  }
  if (!answer.memory_refusal.empty()) out << fmt::format("{}\n", answer.memory_refusal);
  if (!options.rows) return;
  for (const ReferenceScore& s : answer.scores) {
    out << fmt::format("\n{}\n", s.table);
    print_rows(out, s);
  }
  if (!answer.memory.empty()) out << fmt::format("\n{}\n", kMemoryTable);
  for (const ScoredMemory& row : answer.memory) {
    out << fmt::format("  {}: {:.2f} for {:.2f} {} ({})\n", row.row->name, row.predicted,
                       row.row->published, row.row->baseline ? "%" : "GiB",
                       command::percent(row.error()));
  }
}

// --- for programs -----------------------------------------------------------------------------

Value::Table to_json(const ErrorSummary& e) {
  return {{"count", e.count},
          {"mean", e.mean},
          {"median", e.median},
          {"largest", e.largest},
          {"bias", e.bias}};
}

Value::Table to_json(const ScoredRow& scored) {
  const published::ReferenceRow& row = *scored.row;
  Value::Array assumptions;
  for (const std::string& assumption : row.assumptions) assumptions.push_back(assumption);
  Value::Table out{{"name", row.name},
                   {"source", row.job.file},
                   {"group", row.group},
                   {"out_of_memory", row.out_of_memory},
                   {"assumptions", assumptions}};
  if (row.iteration) out.emplace_back("measured_s", row.iteration->value);
  if (row.memory) out.emplace_back("measured_bytes", row.memory->value);
  if (!scored.predicted) {
    out.emplace_back("refused", scored.refusal);
    return out;
  }
  out.emplace_back("predicted_s", scored.predicted->iteration.value);
  out.emplace_back("predicted_bytes", scored.predicted->memory.value);
  out.emplace_back("fits", scored.predicted->fits);
  if (const auto error = scored.iteration_error()) out.emplace_back("relative_error", *error);
  if (const auto error = scored.memory_error()) out.emplace_back("memory_relative_error", *error);
  return out;
}

Value::Table to_json(const ReferenceTable& table, const ReferenceScore& s, bool with_rows) {
  Value::Array left_out, rows;
  for (const std::string& reason : table.left_out) left_out.push_back(reason);
  Value::Table out{{"name", "reference/" + s.table},
                   {"rows", static_cast<int64_t>(s.rows.size())},
                   {"refused", s.refused},
                   {"left_out", left_out},
                   {"iteration", to_json(s.iteration)},
                   {"memory", to_json(s.memory)},
                   {"out_of_memory", s.out_of_memory},
                   {"out_of_memory_predicted", s.out_of_memory_predicted},
                   {"wrongly_out_of_memory", s.wrongly_out_of_memory},
                   {"kendall_tau_b", s.tau},
                   {"pairs", s.pairs}};
  if (!with_rows) return out;
  for (const ScoredRow& row : s.rows) rows.push_back(to_json(row));
  out.emplace_back("row", rows);
  return out;
}

Value::Table to_json(const std::vector<ScoredMemory>& memory, bool with_rows) {
  Value::Table out{{"name", std::string("reference/") + kMemoryTable},
                   {"rows", static_cast<int64_t>(memory.size())},
                   {"memory", to_json(summary_of(memory))}};
  if (!with_rows) return out;
  Value::Array rows;
  for (const ScoredMemory& scored : memory) {
    rows.push_back(Value::Table{{"name", scored.row->name},
                                {"unit", scored.row->baseline ? "%" : "GiB"},
                                {"measured", scored.row->published},
                                {"predicted", scored.predicted},
                                {"relative_error", scored.error()}});
  }
  out.emplace_back("row", rows);
  return out;
}

}  // namespace

Status reproduce_reference(const ReproduceOptions& options, std::string_view table,
                           std::ostream& out) {
  const Answer found = TRY(answer(options, table));
  if (!options.json) {
    print_text(out, found, options);
    return {};
  }
  Value::Array tables;
  for (size_t i = 0; i < found.tables.size(); ++i) {
    tables.push_back(to_json(found.tables[i], found.scores[i], options.rows));
  }
  if (!found.memory.empty()) tables.push_back(to_json(found.memory, options.rows));
  command::print_json(out, {{"law", options.law}, {"tables", tables}});
  return {};
}

}  // namespace tombolo::evidence_commands
