#include "decide/sweep/sweep.h"

#include <algorithm>
#include <atomic>
#include <set>
#include <thread>
#include <unordered_map>

#include "base/check.h"
#include "base/csv.h"
#include "base/file.h"
#include "base/json.h"
#include "base/parallel.h"
#include "base/toml.h"
#include "spec/model/model.h"
#include "spec/plan/job_value.h"
#include "spec/plan/open_job.h"

namespace tombolo::sweep {
namespace {

constexpr int64_t kFileMax = 1 << 24;

bool varies(const std::vector<SweepAxis>& axes, std::initializer_list<std::string_view> paths) {
  return std::any_of(axes.begin(), axes.end(), [&](const SweepAxis& axis) {
    return std::find(paths.begin(), paths.end(), axis.path) != paths.end();
  });
}

// The cluster file, laid into the job.
Status embed_cluster(Value& job, const std::string& file) {
  const Value* section = job.find("cluster");
  const Value* path = section ? section->find("file") : nullptr;
  const auto* name = path ? path->get<std::string>() : nullptr;
  if (!name || section->get<Value::Table>()->size() != 1) return {};  // for the reader to judge
  const std::string where = sibling_path(file, *name);
  const std::string doing = fmt::format("reading cluster.file = \"{}\" of {}", *name, file);
  const std::string text = TRY(during(read_file(where, kFileMax), doing));
  job.set("cluster", TRY(during(parse_toml(text, where), doing)));
  return {};
}

// The fields of the config.json, laid into the job.
Status embed_model(Value& job, const std::string& file) {
  const Value* section = job.find("model");
  if (!section || !section->get<Value::Table>() || !section->find("config")) return {};
  const model::ModelSection read = TRY(model::read_model(*section, file, "model"));
  job.set("model", write_fields(read.model));
  return {};
}

Result<plan::Job> read_job_of(const Value& job, const Sweep& sweep) {
  const bool open =
      sweep.question.ask == SweepAsk::kPlan || sweep.question.ask == SweepAsk::kSelect;
  if (!open) return plan::job_from_value(job, sweep.file);
  return std::move(TRY(plan::open_job_from_value(job, sweep.file)).job);
}

// Every path leads somewhere. What a path adds to a job that can be read must be known to the
// reader, with at least one of its values.
Status check_paths(const Sweep& sweep) {
  const bool readable = read_job_of(sweep.job, sweep).has_value();
  for (size_t i = 0; i < sweep.paths.size(); ++i) {
    std::optional<Error> first;
    for (const Value& value : sweep.grid.axes()[i].values) {
      Value job = sweep.job;
      const int64_t added = TRY(sweep.paths[i].put(job, value));
      if (added == 0 || !readable) {
        first.reset();
        break;
      }
      Result<plan::Job> read = read_job_of(job, sweep);
      if (read) {
        first.reset();
        break;
      }
      if (!first) first = std::move(read.error());
    }
    if (first) return fail(std::move(*first).during("varying " + sweep.paths[i].text()));
  }
  return {};
}

SweepRow row_of(const Sweep& sweep, int64_t configuration) {
  SweepRow row{.configuration = configuration, .status = {}, .reason = {}, .figures = {}};
  Result<SweepAnswer> answer = [&]() -> Result<SweepAnswer> {
    return answer_sweep(TRY(sweep_job(sweep, configuration)), sweep.file, sweep.question);
  }();
  if (answer) {
    row.figures = std::move(answer->figures);
    for (std::string& note : answer->notes) {
      if (std::find(row.notes.begin(), row.notes.end(), note) == row.notes.end())
        row.notes.push_back(std::move(note));
    }
    return row;
  }
  // A row without an answer has what is noted of its job.
  if (const Result<Value> value = sweep_job(sweep, configuration)) {
    if (Result<plan::Job> job = read_job_of(*value, sweep)) row.notes = std::move(job->notes);
  }
  const Error& error = answer.error();
  row.status =
      error.code == ErrorCode::kInfeasible ? SweepStatus::kInfeasible : SweepStatus::kUnusable;
  row.reason = error.message;
  for (const std::string& doing : error.context) row.reason += ", while " + doing;
  if (!error.hint.empty()) row.reason += "; try " + error.hint;
  std::replace(row.reason.begin(), row.reason.end(), '\n', ' ');
  return row;
}

// The cells of a row, in the order of sweep_header.
std::vector<Value> cells_of(const Sweep& sweep, const SweepRow& row, size_t figures) {
  std::vector<Value> cells;
  for (size_t axis = 0; axis < sweep.paths.size(); ++axis) {
    cells.push_back(sweep.grid.value(row.configuration, axis));
  }
  cells.emplace_back("predicted");
  cells.emplace_back(std::string(to_name(row.status)));
  for (size_t i = 0; i < figures; ++i) {
    cells.push_back(row.figures.empty() ? Value() : row.figures[i]);
  }
  cells.push_back(row.reason.empty() ? Value() : Value(row.reason));
  return cells;
}

// The job that configurations are made of. Of a Plan, questions that search for a new layout (plan,
// select) take the setting only.
Result<Value> start_of(const std::string& file, const SweepQuestion& question) {
  plan::JobValue job = TRY(plan::read_job_value(file));
  if (question.ask == SweepAsk::kPlan || question.ask == SweepAsk::kSelect) {
    return plan::setting_of(std::move(job));
  }
  if (job.given_schedule && question.ask == SweepAsk::kSimulate && question.policy.empty()) {
    return unusable(fmt::format("{}: given: its schedule was found for this Plan, and no "
                                "other configuration has one",
                                file),
                    "--policy best, which searches at every point, or --policy 1f1b");
  }
  return std::move(job.value);
}

}  // namespace

Result<Sweep> sweep_of_value(std::string file, Value job, std::vector<SweepAxis> axes,
                             const SweepQuestion& question) {
  Sweep sweep;
  sweep.file = std::move(file);
  sweep.job = std::move(job);
  sweep.grid = TRY(SweepGrid::make(std::move(axes)));
  for (const SweepAxis& axis : sweep.grid.axes()) {
    sweep.paths.push_back(TRY(SweepPath::parse(axis.path)));
  }
  sweep.question = question;
  return sweep;
}

Result<Sweep> make_sweep(const std::string& job, std::vector<SweepAxis> axes,
                         const SweepQuestion& question) {
  Value value = TRY(start_of(job, question));
  if (!varies(axes, {"cluster.file"})) TRY(embed_cluster(value, job));
  // Other widths change what the reader derives from them, which only the file says.
  if (!varies(axes, {"model.config", "model.preset", "model.hidden", "model.heads"})) {
    TRY(embed_model(value, job));
  }
  forget_lines(value);
  const Sweep sweep = TRY(sweep_of_value(job, std::move(value), std::move(axes), question));
  TRY(check_paths(sweep));
  return sweep;
}

Result<Value> sweep_job(const Sweep& sweep, int64_t configuration) {
  CHECK(configuration >= 0 && configuration < sweep.grid.size(), "configuration {} of {}",
        configuration, sweep.grid.size());
  CHECK(sweep.paths.size() == sweep.grid.axes().size(), "{} paths for {} axes", sweep.paths.size(),
        sweep.grid.axes().size());
  Value job = sweep.job;
  for (size_t axis = 0; axis < sweep.paths.size(); ++axis) {
    TRY(sweep.paths[axis].put(job, sweep.grid.value(configuration, axis)));
  }
  return job;
}

std::vector<SweepRow> run_sweep(const Sweep& sweep, const SweepRunOptions& options) {
  CHECK(options.process >= 0 && options.process < options.processes, "process {} of {}",
        options.process, options.processes);
  const int64_t size = sweep.grid.size();
  const int64_t mine =
      options.process < size ? (size - 1 - options.process) / options.processes + 1 : 0;
  std::vector<SweepRow> rows(static_cast<size_t>(mine));
  std::atomic<int64_t> done{0};
  const auto caller = std::this_thread::get_id();  // which alone shows progress
  int64_t shown = -1;
  parallel_for(rows.size(), options.threads, [&](size_t i) {
    rows[i] = row_of(sweep, options.process + static_cast<int64_t>(i) * options.processes);
    const int64_t now = ++done;
    if (!options.progress || std::this_thread::get_id() != caller) return;
    if (now * 200 / mine == shown) return;
    shown = now * 200 / mine;
    options.progress(now, mine);
  });
  return rows;
}

std::string pack_sweep_rows(const std::vector<SweepRow>& rows) {
  Value::Array out;
  for (const SweepRow& row : rows) {
    CHECK((row.status == SweepStatus::kOk) == !row.figures.empty(),
          "row {} is {}, and has {} figures", row.configuration, to_name(row.status),
          row.figures.size());
    out.push_back(Value::Array{row.configuration, static_cast<int64_t>(row.status), row.reason,
                               Value(row.figures),
                               Value::Array(row.notes.begin(), row.notes.end())});
  }
  return to_json(Value(std::move(out)), -1);
}

Result<std::vector<SweepRow>> unpack_sweep_rows(std::string_view text) {
  const Value value = TRY(parse_json(text, "the rows of another process", 0));
  const auto* array = value.get<Value::Array>();
  std::vector<SweepRow> rows;
  for (size_t i = 0; array && i < array->size(); ++i) {
    const auto* entry = (*array)[i].get<Value::Array>();
    if (!entry || entry->size() != 5) return failed("rows of another process are damaged");
    const auto* configuration = (*entry)[0].get<int64_t>();
    const auto* status = (*entry)[1].get<int64_t>();
    const auto* reason = (*entry)[2].get<std::string>();
    const auto* figures = (*entry)[3].get<Value::Array>();
    const auto* notes = (*entry)[4].get<Value::Array>();
    if (!configuration || !status || *status < 0 || *status > 2 || !reason || !figures || !notes) {
      return failed("rows of another process are damaged");
    }
    SweepRow row{*configuration, static_cast<SweepStatus>(*status), *reason, *figures, {}};
    for (const Value& note : *notes) {
      if (!note.get<std::string>()) return failed("rows of another process are damaged");
      row.notes.push_back(*note.get<std::string>());
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

SweepCounts count_rows(const std::vector<SweepRow>& rows) {
  SweepCounts counts;
  for (const SweepRow& row : rows) {
    (row.status == SweepStatus::kOk           ? counts.ok
     : row.status == SweepStatus::kInfeasible ? counts.infeasible
                                              : counts.unusable) += 1;
  }
  return counts;
}

Status sweep_outcome(const std::vector<SweepRow>& rows) {
  CHECK(!rows.empty(), "a sweep without a row");
  const SweepCounts counts = count_rows(rows);
  if (counts.ok > 0) return {};
  const SweepStatus wanted =
      counts.infeasible > 0 ? SweepStatus::kInfeasible : SweepStatus::kUnusable;
  for (const SweepRow& row : rows) {
    if (row.status != wanted) continue;
    const std::string message = fmt::format("none of {} configurations is ok; number {}: {}",
                                            rows.size(), row.configuration + 1, row.reason);
    if (wanted == SweepStatus::kInfeasible) return infeasible(message);
    return unusable(message);
  }
  return {};
}

namespace {

// The note without its figures and their units: "needs 84.9 GB" and "needs 790 MB" say one thing.
std::string without_figures(std::string_view note) {
  constexpr size_t kUnit = 3;  // letters of the longest one
  std::string out;
  bool behind_figure = false;
  while (!note.empty()) {
    const size_t end = std::min(note.find(' '), note.size());
    const std::string_view word = note.substr(0, end);
    const bool figure = !word.empty() && word.find_first_of("0123456789") != std::string_view::npos;
    if (figure) {
      out += "# ";
    } else if (!behind_figure || word.size() > kUnit) {
      out.append(word).append(" ");
    }
    behind_figure = figure;
    note.remove_prefix(std::min(end + 1, note.size()));
  }
  return out;
}

}  // namespace

std::vector<SweepNote> sweep_notes(const std::vector<SweepRow>& rows) {
  std::vector<SweepNote> out;
  std::unordered_map<std::string, size_t> known;
  for (const SweepRow& row : rows) {
    std::set<size_t> counted;  // a row may have two that differ in figures
    for (const std::string& note : row.notes) {
      const auto [at, is_new] = known.try_emplace(without_figures(note), out.size());
      if (is_new) out.push_back({.text = note});
      SweepNote& of = out[at->second];
      if (counted.insert(at->second).second) ++of.rows;
      of.alike = of.alike || of.text != note;
    }
  }
  return out;
}

std::vector<std::string> sweep_note_texts(const std::vector<SweepRow>& rows, size_t most) {
  const auto all = static_cast<int64_t>(rows.size());
  const std::vector<SweepNote> notes = sweep_notes(rows);
  std::vector<std::string> out;
  for (const SweepNote& note : notes) {
    if (out.size() == most) {
      out.push_back(fmt::format("{} more notes with --json", notes.size() - most));
      break;
    }
    const char* alike = note.alike ? "; with other figures, too" : "";
    out.push_back(note.rows == all ? note.text + alike
                                   : fmt::format("{} ({} of {} configurations{})", note.text,
                                                 note.rows, all, alike));
  }
  return out;
}

std::vector<std::string> sweep_header(const Sweep& sweep) {
  std::vector<std::string> header;
  for (const SweepPath& path : sweep.paths) header.push_back(path.text());
  header.emplace_back("provenance");
  header.emplace_back("status");
  for (std::string& column : sweep_columns(sweep.question)) header.push_back(std::move(column));
  header.emplace_back("reason");
  return header;
}

Value sweep_record(const Sweep& sweep, const SweepRow& row) {
  const std::vector<std::string> header = sweep_header(sweep);
  std::vector<Value> cells = cells_of(sweep, row, sweep_columns(sweep.question).size());
  Value::Table record;
  for (size_t i = 0; i < header.size(); ++i) record.emplace_back(header[i], std::move(cells[i]));
  return record;
}

std::string sweep_csv(const Sweep& sweep, const std::vector<SweepRow>& rows) {
  std::string out = csv_line(sweep_header(sweep));
  const size_t figures = sweep_columns(sweep.question).size();
  for (const SweepRow& row : rows) {
    std::vector<std::string> cells;
    for (const Value& cell : cells_of(sweep, row, figures)) cells.push_back(sweep_text(cell));
    out += csv_line(cells);
  }
  return out;
}

std::string sweep_json_lines(const Sweep& sweep, const std::vector<SweepRow>& rows) {
  std::string out;
  for (const SweepRow& row : rows) out += to_json(sweep_record(sweep, row), -1) + "\n";
  return out;
}

}  // namespace tombolo::sweep
