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

enum class StepKind {
  kToken,
  kStop,     // the end: one of the request's stop tokens came
  kLength,   // the end: as many tokens as were asked for
  kFailed,   // the end: `message` says why
  kWaiting,  // nothing yet
};
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
};

class Backend {
 public:
  virtual ~Backend() = default;
  // At once, or as soon as somebody who computes has a moment: never queues. Gives the request an
  // id of its own.
  virtual tl::expected<std::unique_ptr<Answer>, generate::Refused> admit(
      generate::Request request) = 0;
  virtual bool alive() const = 0;  // false: it will never answer again
};

}  // namespace tombolo::serve
