// One request in progress: tokens from a backend become pieces of text, until the answer ends or
// the client has gone.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "perform/text/text_encoder.h"
#include "ui/serve/answer_text.h"
#include "ui/serve/backend.h"

namespace tombolo::serve {

struct Piece {
  std::string text;
  bool first = false;                // the answer's first token came with it
  std::optional<StepKind> end = {};  // nothing follows: kStop, kLength, kFailed, or kLost
  std::string message = {};          // of kFailed and kLost: why

  bool failed() const { return end == StepKind::kFailed || end == StepKind::kLost; }
};

class Completion {
 public:
  // The first `tokens_min` tokens are not searched for `stop`.
  Completion(std::unique_ptr<Answer> answer, std::vector<std::string> stop,
             const text::TextEncoder& tokenizer, int64_t tokens_min = 0)
      : answer_(std::move(answer)),
        text_(std::move(stop)),
        tokenizer_(tokenizer),
        tokens_min_(tokens_min) {}

  // What there is within `patience`, perhaps nothing. CHECKs that the end has not come.
  Piece next(SimDuration patience);
  void commit() {  // the client has a part of it
    if (answer_) answer_->commit();
  }
  bool ended() const { return !answer_; }
  int64_t tokens() const { return tokens_; }  // of the answer, so far

 private:
  std::unique_ptr<Answer> answer_;  // gone when the answer has ended
  AnswerText text_;
  const text::TextEncoder& tokenizer_;
  int64_t tokens_ = 0, tokens_min_;
};

}  // namespace tombolo::serve
