// A server of OpenAI's API over HTTP/1.1 or HTTPS: POST /v1/completions and /v1/chat/completions,
// whole or as server-sent events, GET /v1/models, /health and /metrics.
//
// Every resource has a bound, and a request that exceeds it gets an error at once:
//
//   bytes of a request            limits.body_bytes, 16 KiB for its head       413, 431
//   time to send one              10 s                                         408
//   prompts at once               limits.requests; limits.flex_requests that   429, Retry-After
//                                 may wait, waiting or not
//   memory of keys and values     the backend's                                503, Retry-After
//   tokens of a prompt            limits.prompt_tokens, the model's positions  400
//   time of an answer             limits.answer_time, behind                   it ends there
//                                 limits.flex_patience for those that may wait
//   requests at once, of any kind limits.requests + flex_requests + 16 served, 429, Retry-After
//                                 64 waiting
//   connections being read        512 (transport/http_server.h)                the slowest ends
//
// Bodies are parsed and tokenized one at a time: a body of 1 MiB may take 100 MiB while it is
// parsed. A client that disconnects is noticed within 100 ms or at its next piece, and its prompt is
// cancelled.
//
// Keys are checked before a body is read, on every path but /health. Nothing is logged.
//
// Browser pages may call it (CORS): any page if keys are required, as a foreign page has none, else
// only pages of this machine. Their preflight requests carry no key and are answered without one.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "perform/text/text_encoder.h"
#include "perform/transport/address.h"
#include "ui/serve/api_keys.h"
#include "ui/serve/backend.h"
#include "ui/serve/chat_prompt.h"

namespace tombolo::serve {

struct ServeLimits {
  int64_t body_bytes = int64_t{1} << 20;
  int64_t prompt_tokens = 8192;
  int64_t answer_tokens = 4096;
  int64_t requests = 16;
  SimDuration answer_time{300'000'000'000};
  int64_t flex_requests = 64;
  SimDuration flex_patience{600'000'000'000};
};

struct ServeOptions {
  transport::Address listen{"127.0.0.1", 8000};
  std::string certificate, private_key;  // PEM files; both or none
  ApiKeys keys;
  ServeLimits limits;
  std::string model;      // as clients call it
  int64_t positions = 0;  // of prompt and answer together
  // Around every prompt that is a text, as in "<s>"; `begin` also before a chat whose template says
  // nothing of it.
  std::vector<int64_t> begin, after;
  std::vector<int64_t> end;  // tokens that end an answer
  ChatTemplate chat = ChatTemplate::kPlain;
  uint64_t seed = 0;  // of ids, and of requests that name no seed
  std::function<int64_t()> unix_time;
};

class ApiServer {
 public:
  // Unusable if the address is taken, if the certificate or the key cannot be read, and if other
  // hosts could reach an address without TLS or without keys. What is passed in must outlive the
  // server.
  static Result<std::unique_ptr<ApiServer>> open(ServeOptions options, Backend& backend,
                                                 text::TextEncoder& tokenizer, const Clock& clock);
  // Ends answers that are being given, and waits for them.
  ~ApiServer();

  const transport::Address& address() const;

 private:
  class Inside;
  explicit ApiServer(std::unique_ptr<Inside> inside);
  std::unique_ptr<Inside> inside_;
};

}  // namespace tombolo::serve
