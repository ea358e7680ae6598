// Who computes what a server answers. The server knows texts, users and limits; a backend knows
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

// The answer to one admitted prompt, as it comes. Destroying it before its end says that nobody
// reads on: what is left is not computed, and its memory is free for others.
class Answer {
 public:
  virtual ~Answer() = default;
  virtual Step next(SimDuration patience) = 0;
  // A part of it is with its reader: from now on it cannot be begun anew.
  virtual void commit() {}
};

class Backend {
 public:
  virtual ~Backend() = default;
  // At once, or as soon as somebody who computes has a moment: never queues (flex_backend.h does, for
  // those that may wait). Gives the request an id of its own.
  virtual tl::expected<std::unique_ptr<Answer>, generate::Refused> admit(
      generate::Request request) = 0;
  virtual bool alive() const = 0;                    // false: it will never answer again
  virtual bool ready() const { return alive(); }     // false: it does not answer now
  virtual std::string end() const = 0;               // why it is not alive
  virtual int64_t waiting() const { return 0; }      // requests that are not begun
  virtual bool may_return() const { return false; }  // not alive: another one may take its place
  // Gives up all that is under way; nobody admits anything any more. Who computes hears it at once.
  virtual void hang_up() {}
};

}  // namespace tombolo::serve
