// A backend that outlives its worker: if a worker ends that may return (a rank whose run restarts, a
// decode worker that is started again), another one is opened in its place.
//
// What becomes of a prompt then:
//
//   its reader has a part of the answer     lost, at once
//   its reader has nothing yet              asked again of the next one, if that is there within
//                                           prompt_patience; else lost
//   it comes while there is no worker       refused (busy), at once
//
// A restarted answer must give the tokens that it gave before, as equal seeds and weights do:
// they are compared and not given twice. If no worker comes within `patience`, or the one that has gone
// cannot return, this backend ends: alive() is false and end() says why.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/clock.h"
#include "ui/serve/backend.h"

namespace tombolo::serve {

struct LastingOptions {
  SimDuration patience{30'000'000'000};         // for the next one
  SimDuration prompt_patience{10'000'000'000};  // of each prompt meanwhile
  SimDuration pause{200'000'000};               // between two attempts
  // One line when the worker has gone, and when one is back; called on a thread of this object.
  std::function<void(const std::string&)> log = [](const std::string&) {};
};

class LastingBackend final : public Backend {
 public:
  // Opens the next one, within about `patience`, and gives up when the flag is set.
  using Open = std::function<Result<std::unique_ptr<Backend>>(SimDuration patience,
                                                              const std::atomic<bool>& stop)>;
  LastingBackend(std::unique_ptr<Backend> first, Open open, LastingOptions options,
                 const Clock& clock);
  // Outlives its answers.
  ~LastingBackend() override;

  tl::expected<std::unique_ptr<Answer>, generate::Refused> admit(
      generate::Request request) override;
  bool alive() const override;
  bool ready() const override;
  std::string end() const override;

 private:
  class Lasting;
  struct Place {  // the current worker; null: another one is awaited, or `over`
    std::shared_ptr<Backend> worker;
    int64_t number = 0;  // of those that have been there
    bool over = false;
  };
  Place place() const;
  // A worker other than number `than`, or the end, if either comes within `patience`.
  Place await_other(int64_t than, SimDuration patience);
  void keep();
  Result<std::unique_ptr<Backend>> reopen();
  bool pause(SimDuration span);  // false: this object is being destroyed

  const Open open_;
  const LastingOptions options_;
  const Clock& clock_;
  std::atomic<bool> stopping_{false};
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Place place_;
  std::string end_;
  std::thread keeper_;
};

}  // namespace tombolo::serve
