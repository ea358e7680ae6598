#include "perform/observe/step_record.h"

#include <filesystem>

#include "base/fields.h"
#include "base/file.h"
#include "base/json.h"

namespace tombolo::observe {
namespace {

struct Line {
  int64_t step = 0;
  std::optional<double> loss;
};

template <class Archive>
void describe(Archive& a, Line& line) {
  a.required("step", line.step);
  a.optional("loss", line.loss);
  a.check(line.step >= 1, "step", "must be at least 1");
}

}  // namespace

// A line that cannot be read does not stop the run: its step then has no loss.
Result<StepRecord> StepRecord::open(const std::string& path, bool goes_on) {
  StepRecord out;
  out.path_ = path;
  std::error_code ec;
  if (goes_on && std::filesystem::exists(path, ec)) {
    const std::string text = TRY(read_file(path));
    size_t at = 0;
    for (size_t end = 0; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
      const auto value = parse_json(text.substr(at, end - at), path, 0);
      const auto line = value ? read_fields<Line>(*value, path) : Result<Line>(Line{});
      if (!line || line->step < 1) continue;
      out.last_ = line->step;
      if (line->loss) out.losses_[line->step] = *line->loss;
    }
    if (at < text.size()) std::filesystem::resize_file(path, at, ec);
  }
  const auto mode = std::ios::binary | (goes_on ? std::ios::app : std::ios::trunc);
  out.file_.open(path, mode | std::ios::out);
  if (!out.file_) {
    return unusable(fmt::format("{}: cannot write to it", path),
                    "a folder that this user can write to, with space left");
  }
  return out;
}

Status StepRecord::add(int64_t step, std::optional<double> loss) {
  last_ = step;
  if (loss) losses_[step] = *loss;
  if (path_.empty()) return {};
  file_ << to_json(write_fields(Line{step, loss}), -1) + "\n" << std::flush;
  if (file_) return {};
  return unusable(fmt::format("{}: cannot write to it", path_), "freeing space");
}

void StepRecord::remove() {
  if (path_.empty()) return;
  file_.close();
  std::error_code ec;
  std::filesystem::remove(path_, ec);
}

}  // namespace tombolo::observe
