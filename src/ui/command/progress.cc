#include "ui/command/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "base/check.h"

namespace tombolo::command {
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

std::string progress_bar(int64_t done, int64_t all, int width) {
  CHECK(width >= 0, "a bar of {} characters", width);
  const int64_t filled = all > 0 ? std::clamp<int64_t>(done * width / all, 0, width) : 0;
  return "[" + std::string(filled, '#') + std::string(width - filled, '.') + "]";
}

void ProgressLine::show(const observe::Progress& progress) {
  const bool last = progress.step == progress.steps;
  if (terminal_) {
    out_ << "\r\033[K" << progress_bar(progress.step, progress.steps, kBarWidth) << " "
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

SearchBar::SearchBar() : terminal_(isatty(STDERR_FILENO) != 0) {}

SearchBar::~SearchBar() {
  if (shown_) std::cerr << "\r\033[K" << std::flush;
}

void SearchBar::show(int64_t done, int64_t all) {
  if (!terminal_) return;
  std::cerr << "\r\033[K" << progress_bar(done, all, 32) << fmt::format(" {} of {}", done, all)
            << std::flush;
  shown_ = true;
}

}  // namespace tombolo::command
