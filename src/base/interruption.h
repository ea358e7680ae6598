// Stopping a computation from another thread, in a program that keeps running: code inside a Python interpreter, whose
// user pressed Ctrl-C. (The program `tombolo` has no Interruption: a signal ends it, or stop_signals.h keeps it.)
//
//   Interruption interruption;
//   std::thread worker([&] {
//     const Interruption::Watched watched(&interruption);
//     answer = search();  // throws Interrupted, or answers with the best so far
//   });
//   interruption.ask();
//
// Where a search can answer with the best so far, it says so by an Interruption::Heeded and looks at asked(). All other work ends
// by an exception at the next place that calls stop_if_interrupted(): loops that threads share, simulations. A second ask() ends
// searches in the same way.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <type_traits>

namespace tombolo {

struct Interrupted {};  // thrown

class Interruption {
 public:
  void ask() { ++asked_; }
  bool asked() const { return asked_ > 0; }
  // Some search was asked, and has answered with the best so far.
  bool heeded() const { return heeded_; }

  static Interruption* of_this_thread();  // null: none

  // For as long as it lives this thread's work, and the loops that it shares with others, may be interrupted.
  class Watched {
   public:
    explicit Watched(Interruption* interruption);  // null: by nothing
    ~Watched();
    Watched(const Watched&) = delete;
    Watched& operator=(const Watched&) = delete;

   private:
    Interruption* const before_;
  };

  // Marks a search that answers with the best so far when it is asked to stop; that answer settles the request. With
  // null it does nothing.
  class Heeded {
   public:
    explicit Heeded(Interruption* interruption);
    ~Heeded();
    Heeded(const Heeded&) = delete;
    Heeded& operator=(const Heeded&) = delete;
    bool asked() const { return interruption_ != nullptr && interruption_->asked(); }

   private:
    Interruption* const interruption_;
  };

 private:
  friend void stop_if_interrupted();
  std::atomic<int> asked_{0};
  std::atomic<int> searches_{0};  // that heed it
  std::atomic<bool> heeded_{false};
};

struct OutOfTime {};  // thrown

// While it lives, this thread's work, and the loops that it shares with others, end by OutOfTime as soon as
// `ended` returns true; it is called wherever work can be interrupted. A limit inside another one also ends
// when the outer one does.
class WorkLimit {
 public:
  explicit WorkLimit(const std::function<bool()>& ended);
  ~WorkLimit();
  WorkLimit(const WorkLimit&) = delete;
  WorkLimit& operator=(const WorkLimit&) = delete;

  static const WorkLimit* of_this_thread();  // null: none
  bool is_over() const { return ended_() || (before_ && before_->is_over()); }

  // Applies the limit of the thread that this one helps.
  class Shared {
   public:
    explicit Shared(const WorkLimit* limit);
    ~Shared();
    Shared(const Shared&) = delete;
    Shared& operator=(const Shared&) = delete;

   private:
    const WorkLimit* const before_;
  };

 private:
  const std::function<bool()>& ended_;
  const WorkLimit* const before_;
};

// What `work` returns; nullopt if `ended` returned true first. Without `ended` there is no limit.
template <class Work>
std::optional<std::invoke_result_t<const Work&>> unless(const std::function<bool()>& ended,
                                                        const Work& work) {
  if (!ended) return work();
  const WorkLimit limit(ended);
  try {
    return work();
  } catch (const OutOfTime&) {
    return std::nullopt;
  }
}

// Throws Interrupted where this thread's work is asked to stop, and no search heeds that; OutOfTime
// where one of its limits has ended.
void stop_if_interrupted();

}  // namespace tombolo
