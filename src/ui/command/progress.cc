#include "ui/command/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "base/check.h"

namespace tombolo::command {

std::string progress_bar(int64_t done, int64_t all, int width) {
  CHECK(width >= 0, "a bar of {} characters", width);
  const int64_t filled = all > 0 ? std::clamp<int64_t>(done * width / all, 0, width) : 0;
  return "[" + std::string(filled, '#') + std::string(width - filled, '.') + "]";
}

SearchBar::SearchBar()
    : caller_(Caller::of_this_thread()), terminal_(!caller_ && isatty(STDERR_FILENO) != 0) {}

SearchBar::~SearchBar() {
  if (shown_) std::cerr << "\r\033[K" << std::flush;
}

void SearchBar::show(int64_t done, int64_t all) {
  if (caller_ && caller_->progress) caller_->progress(done, all);
  if (!terminal_) return;
  std::cerr << "\r\033[K" << progress_bar(done, all, 32) << fmt::format(" {} of {}", done, all)
            << std::flush;
  shown_ = true;
}

}  // namespace tombolo::command
