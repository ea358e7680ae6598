// What computes the answers of a server. The server knows texts, users and limits; a backend knows
// tokens. Any thread may call any of it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <tl/expected.hpp>

#include "base/time.h"
#include "perform/generate/engine.h"

namespace tombolo::serve {

using generate::StepKind;
struct Step {
  StepKind kind = StepKind::kWaiting;
  int64_t token = 0;
  std::string message = {};
};

// The answer to one admitted prompt, as it comes. Destroying it before its end cancels it: the rest
// is not computed, and its memory is free for others.
class Answer {
 public:
  virtual ~Answer() = default;
  virtual Step next(SimDuration patience) = 0;
  // The client has received a part of it: from now on it cannot be restarted.
  virtual void commit() {}
};

class Backend {
 public:
  virtual ~Backend() = default;
  // Returns as soon as a worker accepts or refuses; never queues (flex_backend.h does, for requests
  // that may wait). Gives the request an id of its own.
  virtual tl::expected<std::unique_ptr<Answer>, generate::Refused> admit(
      generate::Request request) = 0;
  virtual bool alive() const = 0;                    // false: it will never answer again
  virtual bool ready() const { return alive(); }     // false: it does not answer now
  virtual std::string end() const = 0;               // why it is not alive
  virtual int64_t waiting() const { return 0; }      // requests that are not begun
  virtual bool may_return() const { return false; }  // not alive: another one may take its place
  // Cancels all answers under way and admits nothing any more. Takes effect at the worker at once.
  virtual void hang_up() {}
};

}  // namespace tombolo::serve
