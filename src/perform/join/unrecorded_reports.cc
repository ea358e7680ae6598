#include "perform/join/unrecorded_reports.h"

#include <cstring>
#include <filesystem>
#include <optional>

#include "base/file.h"

namespace tombolo::join {
namespace {

// Of reports that are kept; nothing of any other message.
std::optional<int64_t> step_of(const ControlMessage& message) {
  if (const auto* progress = std::get_if<ProgressReport>(&message))
    return progress->report.iteration;
  if (const auto* evaluation = std::get_if<EvaluationReport>(&message))
    return evaluation->evaluation.step;
  return std::nullopt;
}

void remove(const std::string& path) {
  std::error_code ec;
  std::filesystem::remove(path, ec);
}

}  // namespace

std::string UnrecordedReports::path(const std::string& output, int32_t rank) {
  return fmt::format("{}/reports-rank-{}.jsonl", output, rank);
}

std::vector<ControlMessage> UnrecordedReports::take_over(const std::string& path,
                                                         int64_t first_iteration) {
  std::vector<ControlMessage> out;
  std::error_code ec;
  const auto text = std::filesystem::exists(path, ec) ? read_file(path) : Result<std::string>("");
  const std::lock_guard lock(mutex_);
  path_ = path;
  size_t at = 0;
  // A line without an end is one that a kill cut off.
  for (size_t end = 0; text && (end = text->find('\n', at)) != std::string::npos; at = end + 1) {
    link::Payload line(end - at);
    std::memcpy(line.data(), text->data() + at, line.size());
    const auto message = decode(line);
    const auto step = message ? step_of(*message) : std::nullopt;
    if (!step || *step >= first_iteration) continue;
    keep(*step, *message);
    out.push_back(*message);
  }
  return out;
}

void UnrecordedReports::begin(const std::string& path) {
  const std::lock_guard lock(mutex_);
  path_ = path;
  remove(path);
}

void UnrecordedReports::add(int64_t step, const ControlMessage& report) {
  const std::lock_guard lock(mutex_);
  if (over_ || path_.empty()) return;
  keep(step, report);
  if (file_.is_open()) write(report);
}

void UnrecordedReports::recorded(int64_t step) {
  const std::lock_guard lock(mutex_);
  std::erase_if(kept_, [&](const auto& report) { return report.first <= step; });
}

void UnrecordedReports::leave() {
  const std::lock_guard lock(mutex_);
  if (over_ || path_.empty() || file_.is_open()) return;
  file_.open(path_, std::ios::binary | std::ios::trunc);
  for (const auto& [step, report] : kept_) write(report);
}

void UnrecordedReports::forget() {
  const std::lock_guard lock(mutex_);
  over_ = true;
  kept_.clear();
  if (file_.is_open()) file_.close();
  if (!path_.empty()) remove(path_);
}

size_t UnrecordedReports::size() const {
  const std::lock_guard lock(mutex_);
  return kept_.size();
}

void UnrecordedReports::keep(int64_t step, const ControlMessage& report) {
  kept_.emplace_back(step, report);
  if (kept_.size() > most_) kept_.pop_front();
}

void UnrecordedReports::write(const ControlMessage& report) {
  const link::Payload bytes = encode(report);
  file_.write(reinterpret_cast<const char*>(bytes.data()),
              static_cast<std::streamsize>(bytes.size()));
  file_ << '\n' << std::flush;
}

}  // namespace tombolo::join
