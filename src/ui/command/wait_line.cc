#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <iostream>
#include <mutex>
#include <streambuf>
#include <thread>

#include "base/parallel.h"
#include "ui/command/progress.h"

namespace tombolo::command {
namespace {

constexpr std::chrono::seconds kSilence{2};
constexpr std::chrono::seconds kBetweenLines{1};

void write_to_stderr(std::string_view text) {
  const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
  static_cast<void>(written);  // a terminal that has gone needs no line
}

}  // namespace

class WaitLine::Shown {
 public:
  explicit Shown(const std::string& what)
      : what_(what),
        out_(*this, std::cout.rdbuf(), false),
        err_(*this, std::cerr.rdbuf(), true),
        thread_(start_without_signals([this] { tell(); })) {
    std::cout.rdbuf(&out_);
    std::cerr.rdbuf(&err_);
  }

  ~Shown() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
      clear();
    }
    changed_.notify_one();
    thread_.join();
    std::cout.rdbuf(out_.inner());
    std::cerr.rdbuf(err_.inner());
  }

 private:
  using Clock = std::chrono::steady_clock;

  // Hands everything on, once the line is gone.
  class Watched : public std::streambuf {
   public:
    Watched(Shown& shown, std::streambuf* inner, bool may_open)
        : shown_(shown), inner_(inner), may_open_(may_open) {}
    std::streambuf* inner() const { return inner_; }

   protected:
    int_type overflow(int_type c) override {
      if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
      const char byte = traits_type::to_char_type(c);
      return xsputn(&byte, 1) == 1 ? c : traits_type::eof();
    }
    std::streamsize xsputn(const char* text, std::streamsize size) override {
      const std::lock_guard lock(shown_.mutex_);
      if (size > 0) shown_.wrote(may_open_ && text[size - 1] != '\n');
      return inner_->sputn(text, size);
    }
    int sync() override { return inner_->pubsync(); }

   private:
    Shown& shown_;
    std::streambuf* const inner_;
    const bool may_open_;
  };

  void wrote(bool line_is_open) {
    clear();
    other_line_ = line_is_open;
    silent_since_ = Clock::now();
  }

  void clear() {
    if (drawn_) write_to_stderr("\r\033[K");
    drawn_ = false;
  }

  void tell() {
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, kBetweenLines, [this] { return over_; })) {
      const auto now = Clock::now();
      if (other_line_ || now - silent_since_ < kSilence) continue;
      const auto at_work = std::chrono::duration_cast<std::chrono::seconds>(now - begin_);
      write_to_stderr(fmt::format("\r\033[K{}: at work for {} s", what_, at_work.count()));
      drawn_ = true;
    }
  }

  const std::string what_;
  const Clock::time_point begin_ = Clock::now();
  std::mutex mutex_;
  std::condition_variable changed_;
  Clock::time_point silent_since_ = begin_;
  bool other_line_ = false;  // stderr's last line was begun by another
  bool drawn_ = false;
  bool over_ = false;
  Watched out_, err_;
  std::thread thread_;
};

WaitLine::WaitLine(const std::string& what) {
  if (isatty(STDERR_FILENO) != 0) shown_ = std::make_unique<Shown>(what);
}

WaitLine::~WaitLine() = default;

}  // namespace tombolo::command
