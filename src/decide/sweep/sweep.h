// Many what-ifs of one job: every configuration of a grid, answered in parallel.
//
//   std::vector<SweepAxis> axes = {TRY(parse_sweep_axis("training.micro_batch=1,2,4"))};
//   const Sweep sweep = TRY(make_sweep("job.toml", std::move(axes), {.ask = SweepAsk::kEstimate}));
//   const std::vector<SweepRow> rows = run_sweep(sweep, {.threads = 2});
//   const std::string csv = sweep_csv(sweep, rows);
//
// The job is read once, with the files that it names: its cluster stands in it as if it had been
// written there, so that a path reaches it, and its config.json becomes the fields of [model]. A
// configuration is a copy of it with values replaced (sweep_path.h), read by the ordinary reader.
// One that is infeasible or cannot be used is a row that says why, not the end of the sweep.
//
// Rows come in the order of the grid (sweep_axis.h) and are the same for any number of threads and
// processes. Cost: one answer per configuration, and some 50 us to copy and read the job.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/fields.h"
#include "base/result.h"
#include "base/value.h"
#include "decide/sweep/sweep_answer.h"
#include "decide/sweep/sweep_axis.h"
#include "decide/sweep/sweep_path.h"

namespace tombolo::sweep {

struct Sweep {
  std::string file;  // of the job
  Value job;         // as the file says it, with what it names; without lines
  SweepGrid grid;
  std::vector<SweepPath> paths;  // one per axis
  SweepQuestion question;
};

// Reads the job. Unusable: a file that cannot be read, a path that leads nowhere, a new key that
// the format does not have.
Result<Sweep> make_sweep(const std::string& job, std::vector<SweepAxis> axes,
                         const SweepQuestion& question);

// The same from what another process has read, without a look at any file.
Result<Sweep> sweep_of_value(std::string file, Value job, std::vector<SweepAxis> axes,
                             const SweepQuestion& question);

// The job of one configuration.
Result<Value> sweep_job(const Sweep& sweep, int64_t configuration);

enum class SweepStatus { kOk, kInfeasible, kUnusable };
constexpr auto enum_names(SweepStatus) {
  return std::to_array<EnumName<SweepStatus>>({{SweepStatus::kOk, "ok"},
                                               {SweepStatus::kInfeasible, "infeasible"},
                                               {SweepStatus::kUnusable, "unusable"}});
}

struct SweepRow {
  int64_t configuration = 0;
  SweepStatus status = SweepStatus::kOk;
  std::string reason;                   // on one line; empty where ok
  std::vector<Value> figures;           // as sweep_columns; empty where not ok
  std::vector<std::string> notes = {};  // of the answer; where not ok, of the job

  bool operator==(const SweepRow&) const = default;
};

struct SweepRunOptions {
  int threads = 1;
  // Of several processes, each answers every `processes`-th configuration, from `process` on.
  int64_t process = 0;
  int64_t processes = 1;
  // Called by the calling thread now and then, with configurations done and all of this process.
  std::function<void(int64_t done, int64_t all)> progress;
};
std::vector<SweepRow> run_sweep(const Sweep& sweep, const SweepRunOptions& options);

// Rows as text for another process, and back, without loss.
std::string pack_sweep_rows(const std::vector<SweepRow>& rows);
Result<std::vector<SweepRow>> unpack_sweep_rows(std::string_view text);

struct SweepCounts {
  int64_t ok = 0;
  int64_t infeasible = 0;
  int64_t unusable = 0;
};
SweepCounts count_rows(const std::vector<SweepRow>& rows);
// Nothing where a row is ok; else the first row's reason: infeasible where one row is that.
Status sweep_outcome(const std::vector<SweepRow>& rows);

// What is noted of rows, in the order of the first of them; notes that differ in figures alone are
// one.
struct SweepNote {
  std::string text;  // the first row's
  int64_t rows = 0;
  bool alike = false;  // whether others have other figures

  bool operator==(const SweepNote&) const = default;
};
std::vector<SweepNote> sweep_notes(const std::vector<SweepRow>& rows);
// The same as sentences; those of fewer than all rows say of how many. Of more than `most`
// the first ones, and how many are left.
inline constexpr size_t kSweepNotesShown = 12;  // to people
std::vector<std::string> sweep_note_texts(const std::vector<SweepRow>& rows,
                                          size_t most = std::numeric_limits<size_t>::max());

// The columns of a table: the paths, provenance ("predicted"), status, the figures, reason.
std::vector<std::string> sweep_header(const Sweep& sweep);
// One row as {column: value}; what is not known is null.
Value sweep_record(const Sweep& sweep, const SweepRow& row);
// A line of columns and a line per row; cells that hold commas or quotes stand in quotes.
std::string sweep_csv(const Sweep& sweep, const std::vector<SweepRow>& rows);
// One JSON document per line.
std::string sweep_json_lines(const Sweep& sweep, const std::vector<SweepRow>& rows);

}  // namespace tombolo::sweep
