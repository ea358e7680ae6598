#include "ui/serve/completion.h"

#include "base/check.h"

namespace tombolo::serve {

Piece Completion::next(SimDuration patience) {
  CHECK(answer_, "the answer has ended");
  Step step = answer_->next(patience);
  Piece out;
  switch (step.kind) {
    case StepKind::kWaiting:
      return out;
    case StepKind::kToken:
      out.first = ++tokens_ == 1;
      out.text = text_.add(tokenizer_.bytes_of(step.token), tokens_ > tokens_min_);
      if (!text_.stopped()) return out;
      out.end = StepKind::kStop;
      break;
    case StepKind::kStop:
    case StepKind::kLength:
      out.text = text_.finish();
      out.end = text_.stopped() ? StepKind::kStop : step.kind;
      break;
    case StepKind::kLost:
    case StepKind::kFailed:
      out.end = step.kind;
      out.message = std::move(step.message);
      break;
  }
  answer_.reset();
  return out;
}

}  // namespace tombolo::serve
