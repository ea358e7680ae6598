// What clients of OpenAI's API may ask for here: the bodies of POST /v1/completions and POST
// /v1/chat/completions. Pure; fuzzed by fuzz/api_request_fuzz.cc.
//
// Fields that would change the answer and are not implemented (several choices, log probabilities,
// tools, images, penalties, further ones of vLLM and TGI) are refused by name, unless their value
// asks for what is done anyway; so are fields that are not known here. Fields that only accompany a
// request (user, metadata) are ignored. Fields and defaults: OpenAI's API reference, version 1 of
// the API; vLLM's protocol and SamplingParams; TGI's GenerateParameters.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "perform/generate/sampling.h"
#include "ui/serve/api_error.h"

namespace tombolo::serve {

struct ChatMessage {
  std::string role;  // system, developer, user, assistant
  std::string content;
  bool operator==(const ChatMessage&) const = default;
};

struct ApiRequest {
  std::string model;
  // One of three.
  std::optional<std::string> text;
  std::vector<int64_t> tokens;
  std::vector<ChatMessage> messages;

  std::optional<int64_t> tokens_max;
  double temperature = 1;
  double top_p = 1;
  std::optional<int64_t> seed;
  std::vector<std::string> stop;  // up to four, none empty
  bool ignore_eos = false;        // the model's own ends do not end it; vLLM's, as the next one
  int64_t tokens_min = 0;         // nothing ends it before this many
  bool flex = false;              // "service_tier": "flex"
  bool stream = false;
  bool stream_usage = false;
};

ApiResult<ApiRequest> parse_completion(std::string_view body);
ApiResult<ApiRequest> parse_chat(std::string_view body);

}  // namespace tombolo::serve
