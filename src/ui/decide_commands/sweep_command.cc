#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "base/check.h"
#include "base/file.h"
#include "base/json.h"
#include "base/parallel.h"
#include "base/text_table.h"
#include "decide/sweep/sweep.h"
#include "predict/cost/law.h"
#include "ui/command/answer.h"
#include "ui/command/progress.h"
#include "ui/command/words.h"
#include "ui/decide_commands/decide_commands.h"
#include "ui/decide_commands/process_group.h"
#include "ui/decide_commands/sweep_report.h"

namespace tombolo::decide_commands {
namespace {

using sweep::Sweep;
using sweep::SweepRow;

constexpr size_t kRowsPrinted = 30;

// What the words on the command line mean, before any file is read: the same on every process.
struct Request {
  sweep::SweepQuestion question;
  std::vector<sweep::SweepAxis> axes;
};

Result<Request> read_request(const SweepCommandOptions& options) {
  Request request;
  const auto ask = from_name<sweep::SweepAsk>(options.ask);
  if (!ask) {
    return unusable(fmt::format("--ask {}: there is no such question", options.ask),
                    "--ask simulate, estimate, plan or select");
  }
  const auto objective = from_name<search::Objective>(options.objective);
  if (!objective) {
    return unusable(fmt::format("--objective {}: there is no such objective", options.objective),
                    "--objective time, cost or throughput");
  }
  const cost::Law law = TRY(cost::find_law(options.law));
  if (!options.out.empty() && !options.out.ends_with(".csv") && !options.out.ends_with(".jsonl")) {
    return unusable(fmt::format("--out {}: neither .csv nor .jsonl", options.out),
                    "rows.csv for a table, rows.jsonl for a JSON document per row");
  }
  if (!options.policy.empty() && *ask != sweep::SweepAsk::kSimulate) {
    return unusable(
        fmt::format("--policy {}: --ask {} builds no schedule", options.policy, options.ask),
        "--ask simulate");
  }
  request.question = {.ask = *ask, .law = law, .objective = *objective, .policy = options.policy};
  for (const std::string& text : options.vary) {
    request.axes.push_back(TRY(sweep::parse_sweep_axis(text)));
  }
  return request;
}

// In single quotes where a shell would take it apart.
std::string quoted(const std::string& text) {
  return text.find_first_of(" *[]{}\"$") == std::string::npos ? text : "'" + text + "'";
}

// Names of outputs stay out of it, so that the same input gives the same bytes wherever they go.
std::string command_of(const SweepCommandOptions& options) {
  std::string out = "tombolo sweep " + quoted(options.job);
  for (const std::string& text : options.vary) out += " --vary " + quoted(text);
  out += " --ask " + options.ask;
  if (!options.policy.empty()) out += " --policy " + options.policy;
  if (options.law != "tombolo") out += " --law " + options.law;
  if (options.objective != "time") out += " --objective " + options.objective;
  if (!options.x.empty()) out += " --x " + quoted(options.x);
  if (!options.y.empty()) out += " --y " + options.y;
  if (!options.by.empty()) out += " --by " + quoted(options.by);
  return out;
}

SweepReportOptions report_options(const SweepCommandOptions& options) {
  return {.x = options.x, .y = options.y, .by = options.by, .command = command_of(options)};
}

// Outputs are opened before the work, so that a folder that is missing costs no time.
struct Outputs {
  std::optional<AtomicFile> rows, report;
};

struct Start {
  Sweep sweep;
  Outputs outputs;
};

Result<Start> begin(const SweepCommandOptions& options, Request request) {
  Start start;
  start.sweep = TRY(sweep::make_sweep(options.job, std::move(request.axes), request.question));
  TRY(check_sweep_report(start.sweep, report_options(options)));
  if (!options.out.empty()) start.outputs.rows.emplace(TRY(AtomicFile::create(options.out)));
  if (!options.report.empty())
    start.outputs.report.emplace(TRY(AtomicFile::create(options.report)));
  return start;
}

// Rank 0 reads; the others are handed what it read, or its exit code.
Result<Start> begin_together(const SweepCommandOptions& options, Request request,
                             ProcessGroup& group) {
  if (group.rank() == 0) {
    Result<Start> start = begin(options, std::move(request));
    const Value::Table message =
        start ? Value::Table{{"file", start->sweep.file}, {"job", start->sweep.job}}
              : Value::Table{{"exit", static_cast<int64_t>(start.error().code)}};
    group.broadcast(to_json(Value(message), -1));
    return start;
  }
  const Value message = TRY(parse_json(group.broadcast({}), "the job from rank 0", 0));
  if (const Value* code = message.find("exit")) {
    return fail({static_cast<ErrorCode>(*code->get<int64_t>()), "rank 0 says why", {}, {}});
  }
  Start start;
  start.sweep =
      TRY(sweep::sweep_of_value(*message.find("file")->get<std::string>(), *message.find("job"),
                                std::move(request.axes), request.question));
  return start;
}

// Several processes of mpirun on one machine share its cores.
int threads_of(const SweepCommandOptions& options) {
  if (options.threads > 0) return options.threads;
  const char* neighbours = std::getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
  const int processes = std::max(1, neighbours ? std::atoi(neighbours) : 1);
  return std::max(1, threads_or_all(0) / processes);
}

// All rows in the order of the grid, on rank 0.
Result<std::vector<SweepRow>> answer_all(const SweepCommandOptions& options, const Sweep& sweep,
                                         ProcessGroup* group) {
  sweep::SweepRunOptions run{.threads = threads_of(options), .progress = {}};
  if (group) {
    run.process = group->rank();
    run.processes = group->size();
  }
  command::SearchBar bar;
  if (run.process == 0) run.progress = [&](int64_t done, int64_t all) { bar.show(done, all); };
  std::vector<SweepRow> rows = sweep::run_sweep(sweep, run);
  if (!group) return rows;
  const std::vector<std::string> texts =
      group->gather(group->rank() == 0 ? std::string() : sweep::pack_sweep_rows(rows));
  CHECK(texts.size() == (group->rank() == 0 ? static_cast<size_t>(group->size()) : 0),
        "rank {} of {} gathered {} texts", group->rank(), group->size(), texts.size());
  for (size_t rank = 1; rank < texts.size(); ++rank) {
    std::vector<SweepRow> more = TRY(sweep::unpack_sweep_rows(texts[rank]));
    std::move(more.begin(), more.end(), std::back_inserter(rows));
  }
  std::sort(rows.begin(), rows.end(),
            [](const SweepRow& a, const SweepRow& b) { return a.configuration < b.configuration; });
  return rows;
}

// ---- the answer ----

std::string cell_text(const Sweep& sweep, const SweepRow& row, const std::string& column) {
  if (const auto number = sweep_figure(sweep, row, column)) return sweep_figure_text(*number);
  const Value record = sweep::sweep_record(sweep, row);
  const Value* value = record.find(column);
  const std::string* text = value ? value->get<std::string>() : nullptr;
  return text ? *text : "-";
}

void print_table(std::ostream& out, const Sweep& sweep, const std::vector<SweepRow>& rows) {
  std::vector<std::string> columns{"iteration_s", throughput_column(sweep, rows)};
  if (const std::string cost = cost_column(sweep, rows); !cost.empty()) columns.push_back(cost);
  if (sweep.question.policy == "best") {
    for (const char* column : {"gain", "gain_without_split", "baseline", "winner"}) {
      columns.emplace_back(column);
    }
  }
  const size_t shown = std::min(rows.size(), kRowsPrinted);
  std::vector<std::vector<std::string>> lines(shown + 1);
  for (size_t axis = 0; axis < sweep.paths.size(); ++axis) {
    lines[0].push_back(sweep.paths[axis].text());
    for (size_t i = 0; i < shown; ++i) {
      lines[i + 1].push_back(sweep::sweep_text(sweep.grid.value(rows[i].configuration, axis)));
    }
  }
  for (const std::string& column : columns) {
    lines[0].push_back(column);
    for (size_t i = 0; i < shown; ++i) lines[i + 1].push_back(cell_text(sweep, rows[i], column));
  }
  TextTable table(std::vector<TextTable::Column>(lines[0].begin(), lines[0].end()));
  for (size_t i = 0; i < shown; ++i) {
    const SweepRow& row = rows[i];
    table.row(lines[i + 1], row.reason.empty()
                                ? std::string()
                                : fmt::format("{}: {}", to_name(row.status), row.reason));
  }
  out << table.text();
  if (shown < rows.size()) {
    out << fmt::format("  ... {} more: --out rows.csv\n", rows.size() - shown);
  }
}

void print_best(std::ostream& out, const Sweep& sweep, const std::vector<SweepRow>& rows,
                const std::string& column, bool largest) {
  const SweepRow* best = column.empty() ? nullptr : best_row(sweep, rows, column, largest);
  if (!best) return;
  out << fmt::format("{} {} {}: {}\n", largest ? "most" : "least", cell_text(sweep, *best, column),
                     column, configuration_words(sweep, best->configuration));
}

void print_text(std::ostream& out, const SweepCommandOptions& options, const Sweep& sweep,
                const std::vector<SweepRow>& rows) {
  const sweep::SweepCounts counts = sweep::count_rows(rows);
  out << fmt::format("{}: {} configurations, predicted by {}: {} ok, {} infeasible, {} unusable\n",
                     options.job, rows.size(), options.ask, counts.ok, counts.infeasible,
                     counts.unusable);
  print_table(out, sweep, rows);
  print_best(out, sweep, rows, throughput_column(sweep, rows), true);
  print_best(out, sweep, rows, cost_column(sweep, rows), false);
  for (const std::string& note : sweep::sweep_note_texts(rows, sweep::kSweepNotesShown))
    out << "  note: " << note << "\n";
  for (const std::string& path : {options.out, options.report}) {
    if (!path.empty()) out << "wrote " << path << "\n";
  }
}

Value::Table to_json(const SweepCommandOptions& options, const Sweep& sweep,
                     const std::vector<SweepRow>& rows, double wall) {
  const sweep::SweepCounts counts = sweep::count_rows(rows);
  Value::Array records;
  for (const SweepRow& row : rows) records.push_back(sweep::sweep_record(sweep, row));
  Value::Table answer{{"provenance", "predicted"},
                      {"ask", options.ask},
                      {"configurations", sweep.grid.size()},
                      {"ok", counts.ok},
                      {"infeasible", counts.infeasible},
                      {"unusable", counts.unusable},
                      {"rows", records}};
  Value::Array notes;
  for (std::string& note : sweep::sweep_note_texts(rows)) notes.emplace_back(std::move(note));
  if (!notes.empty()) answer.emplace_back("notes", std::move(notes));
  answer.emplace_back("wall_s", wall);
  return answer;
}

}  // namespace

Status sweep(const SweepCommandOptions& options, std::ostream& out, ProcessGroup* group) {
  CHECK(!group || (group->rank() >= 0 && group->rank() < group->size()), "rank {} of a group of {}",
        group->rank(), group->size());
  const auto begun = std::chrono::steady_clock::now();
  Request request = TRY(read_request(options));
  Start start = TRY(group ? begin_together(options, std::move(request), *group)
                          : begin(options, std::move(request)));
  const Sweep& sweep = start.sweep;
  const std::vector<SweepRow> rows = TRY(answer_all(options, sweep, group));
  if (group && group->rank() != 0) return {};

  if (AtomicFile* file = start.outputs.rows ? &*start.outputs.rows : nullptr) {
    TRY(file->write(options.out.ends_with(".csv") ? sweep::sweep_csv(sweep, rows)
                                                  : sweep::sweep_json_lines(sweep, rows)));
    TRY(file->commit());
  }
  if (AtomicFile* file = start.outputs.report ? &*start.outputs.report : nullptr) {
    TRY(file->write(sweep_report(sweep, rows, report_options(options))));
    TRY(file->commit());
  }
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begun;
  if (options.json) {
    command::print_json(out, to_json(options, sweep, rows, wall.count()));
  } else {
    print_text(out, options, sweep, rows);
  }
  return sweep::sweep_outcome(rows);
}

command::Command add_sweep(CLI::App& app, ProcessGroup* group) {
  auto options = std::make_shared<SweepCommandOptions>();
  CLI::App* words = command::add_command(
      app,
      {"sweep", command::kPlanning, "many what-ifs of a job in parallel, as table, CSV and charts",
       "tombolo sweep examples/what-if/job.toml --vary \"cluster.wan.*.connections=1,4,16\""});
  command::add_job(words, options->job,
                   "job file (TOML) or Plan (JSON); plan and select take a Plan's model, cluster "
                   "and training alone");
  words
      ->add_option("--vary", options->vary,
                   "PATH=A,B,C of the job or its cluster, such as "
                   "\"cluster.wan.*.one_way_latency=10 ms..40 ms/4\"; several: their product")
      ->type_name("PATH=VALUES")
      ->required()
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command::heading(words, command::kPredicted);
  command::suggestions(words->add_option("--ask", options->ask, "the command that answers"),
                       {"simulate", "estimate", "plan", "select"});
  command::suggestions(
      words->add_option("--policy", options->policy,
                        "of simulate: another schedule than the job's, or best, which searches"),
      command::policies());
  command::suggestions(words->add_option("--law", options->law, "of estimate and plan"),
                       {"tombolo", "rail-only"});
  command::suggestions(words->add_option("--objective", options->objective, "of plan"),
                       {"time", "cost", "throughput"});
  command::add_threads(words, options->threads, 0);
  command::heading(words, command::kComesOut);
  words->add_option("--out", options->out, "write all rows: rows.csv or rows.jsonl")
      ->type_name("FILE");
  command::add_report(words, options->report, "with charts");
  words->add_option("--x", options->x, "path along the charts; left out: the first")
      ->type_name("PATH");
  words->add_option("--y", options->y, "column of the first chart; left out: throughput")
      ->type_name("COLUMN");
  words->add_option("--by", options->by, "path with a line per value; left out: the second")
      ->type_name("PATH");
  command::add_json(words, options->json);
  return {words, [options, group](std::ostream& out) { return sweep(*options, out, group); }};
}

}  // namespace tombolo::decide_commands
