#include "perform/board/board.h"

#include <charconv>
#include <cmath>
#include <fstream>

#include "base/check.h"
#include "base/file.h"
#include "base/json.h"
#include "perform/board/event_file.h"

namespace tombolo::board {
namespace {

std::optional<int64_t> leading_number(std::string_view text) {
  int64_t step = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), step);
  return error == std::errc() && end != text.data() ? std::optional(step) : std::nullopt;
}

std::optional<int64_t> step_of_json(std::string_view line) {
  constexpr std::string_view kBegin = "{\"step\":";
  return line.starts_with(kBegin) ? leading_number(line.substr(kBegin.size())) : std::nullopt;
}

std::string csv_header(const std::vector<std::string>& columns) {
  return fmt::format("step,time,provenance,{}", fmt::join(columns, ","));
}

// Reports a full disk, too: the stream is checked at every record.
Status append_to(const std::string& path, const std::string& bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::app);
  out << bytes << std::flush;
  if (out) return {};
  return unusable(path + ": cannot write to it",
                  "a folder that this user can write to, with space left");
}

}  // namespace

Result<Board> Board::open(const Options& options) {
  CHECK(!options.columns.empty(), "a board that shows nothing");
  TRY(make_directories(options.folder));
  const std::string csv_path = options.folder + "/steps.csv";
  LineFile csv = TRY(LineFile::open(csv_path, leading_number));
  const std::string header = csv_header(options.columns);
  if (!csv.first_line().empty() && csv.first_line() != header) {
    return unusable(fmt::format("{}: it has other columns than \"{}\"", csv_path, header),
                    "another folder, or removing what is there");
  }
  LineFile json = TRY(LineFile::open(options.folder + "/steps.jsonl", step_of_json));
  if (csv.first_line().empty()) TRY(csv.append(header, 0));
  const std::string events =
      fmt::format("{}/events.out.tfevents.{:010.0f}.{}.{}", options.folder,
                  std::floor(options.wall_time), options.host, options.process);
  TRY(append_to(events, version_record(options.wall_time)));
  return Board(options.provenance, options.columns, std::move(json), std::move(csv), events);
}

Status Board::add(int64_t step, double wall_time, std::span<const std::optional<double>> values) {
  CHECK(step > 0 && values.size() == columns_.size(), "step {} with {} values for {} columns", step,
        values.size(), columns_.size());
  Value::Table row{{"step", step}, {"time", wall_time}, {"provenance", provenance_}};
  std::string cells = fmt::format("{},{:.3f},{}", step, wall_time, provenance_);
  for (size_t i = 0; i < values.size(); ++i) {
    const bool known = values[i] && std::isfinite(*values[i]);
    row.emplace_back(columns_[i], known ? Value(*values[i]) : Value());
    cells += known ? fmt::format(",{}", *values[i]) : ",";
  }
  TRY(json_.rewind(step));
  TRY(json_.append(to_json(Value(std::move(row)), -1), step));
  TRY(csv_.rewind(step));
  TRY(csv_.append(cells, step));
  return add_event(step, wall_time, values);
}

Status Board::add_event(int64_t step, double wall_time,
                        std::span<const std::optional<double>> values) {
  std::string bytes;
  if (step != last_step_ + 1 || step == 1) bytes = start_record(wall_time, step);
  last_step_ = step;
  std::vector<Scalar> known;
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i]) known.push_back({provenance_ + "/" + columns_[i], *values[i]});
  }
  return append_to(events_path_, bytes + scalars_record(wall_time, step, known));
}

}  // namespace tombolo::board
