// From a body to an admitted prompt: parsed, tokenized, checked against every limit, and passed to
// the backend. Any thread may call it; bodies are processed one at a time.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>

#include "base/random.h"
#include "ui/serve/api_answer.h"
#include "ui/serve/api_request.h"
#include "ui/serve/api_server.h"
#include "ui/serve/completion.h"
#include "ui/serve/serve_metrics.h"

namespace tombolo::serve {

// One of a limited number of places, taken for as long as it lives.
class Place {
 public:
  // Null if all of them are taken.
  static std::unique_ptr<Place> take(std::atomic<int64_t>& taken, int64_t most);
  explicit Place(std::atomic<int64_t>& taken) : taken_(taken) {}
  Place(const Place&) = delete;
  ~Place() { --taken_; }

 private:
  std::atomic<int64_t>& taken_;
};

// An answer on its way, and what its objects say.
struct Admitted {
  std::unique_ptr<Place> place;
  Completion completion;
  AnswerFacts facts;
  int64_t prompt_tokens = 0;
  bool stream = false, stream_usage = false;
  SimTime arrived;
  std::optional<Piece> first = {};  // of a stream: came before its status was sent
  bool opened = false;              // a stream has begun
};

class RequestDesk {
 public:
  RequestDesk(const ServeOptions& options, Backend& backend, text::TextEncoder& tokenizer,
              const Clock& clock, ServeMetrics& metrics);

  ApiResult<std::unique_ptr<Admitted>> admit(bool chat, std::string_view body);

 private:
  struct Prompt {
    std::vector<int64_t> tokens, stop;
    std::vector<std::string> stop_strings;
  };
  ApiResult<Prompt> prompt_of(const ApiRequest& request);
  ApiResult<int64_t> tokens_max(const ApiRequest& request, bool chat, int64_t prompt) const;

  const ServeOptions& options_;
  Backend& backend_;
  text::TextEncoder& tokenizer_;
  const Clock& clock_;
  ServeMetrics& metrics_;
  std::mutex one_at_a_time_;  // parser, tokenizer and random_
  Random random_;
  std::atomic<int64_t> running_{0}, flex_{0};  // places that are taken
};

}  // namespace tombolo::serve
