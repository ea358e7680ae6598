#include "ui/perform_commands/progress_line.h"

#include <fmt/format.h>

#include "ui/command/progress.h"

namespace tombolo::perform_commands {
namespace {

constexpr SimDuration kLogPause{5'000'000'000};  // between two lines of a log
constexpr int kBarWidth = 24;

std::string thousands(double n) {
  return n >= 9999.5 ? fmt::format("{:.1f} k", n / 1000) : fmt::format("{:.0f}", n);
}

}  // namespace

std::string progress_text(const observe::Progress& progress) {
  std::string out = fmt::format("step {}/{}", progress.step, progress.steps);
  if (progress.loss) out += fmt::format("  loss {:.4f}", *progress.loss);
  if (progress.evaluation_loss) {
    out += fmt::format("  evaluation loss {:.4f}", *progress.evaluation_loss);
  }
  if (progress.tokens_per_s) out += fmt::format("  {} tokens/s", thousands(*progress.tokens_per_s));
  out +=
      fmt::format("  {}/iteration  {} to go", brief(progress.iteration), brief(progress.remaining));
  return out;
}

void ProgressLine::show(const observe::Progress& progress) {
  const bool last = progress.step == progress.steps;
  if (terminal_) {
    out_ << "\r\033[K" << command::progress_bar(progress.step, progress.steps, kBarWidth) << " "
         << progress_text(progress) << std::flush;
    open_ = true;
    if (last) finish();
    return;
  }
  const SimTime now = clock_.now();
  if (shown_ && !last && now - *shown_ < kLogPause) return;
  shown_ = now;
  out_ << progress_text(progress) << "\n" << std::flush;
}

void ProgressLine::note(const std::string& text) {
  finish();
  out_ << text << "\n" << std::flush;
}

void ProgressLine::finish() {
  if (open_) out_ << "\n" << std::flush;
  open_ = false;
}

}  // namespace tombolo::perform_commands
