#include "ui/serve/api_request.h"

#include <algorithm>
#include <array>

#include "base/json.h"

namespace tombolo::serve {
namespace {

// TRY for ApiResult.
#define API_TRY(...)                                                  \
  ({                                                                  \
    auto result_of_try = (__VA_ARGS__);                               \
    if (!result_of_try) return tl::unexpected(result_of_try.error()); \
    std::move(*result_of_try);                                        \
  })

using Maybe = const Value*;

// Nothing where the field is left out or null.
Maybe given(const Value& body, std::string_view key) {
  const Value* found = body.find(key);
  return found && !found->is_null() ? found : nullptr;
}

ApiResult<std::string> text_at(const Value& body, const char* key) {
  const Maybe found = given(body, key);
  const std::string* text = found ? found->get<std::string>() : nullptr;
  if (!text) return bad_request(key, fmt::format("`{}` must be a string.", key));
  return *text;
}

ApiResult<bool> flag_at(const Value& body, const char* key) {
  const Maybe found = given(body, key);
  if (!found) return false;
  const bool* flag = found->get<bool>();
  if (!flag) return bad_request(key, fmt::format("`{}` must be true or false.", key));
  return *flag;
}

ApiResult<double> number_at(const Value& body, const char* key, double otherwise, double most) {
  const Maybe found = given(body, key);
  if (!found) return otherwise;
  const double* real = found->get<double>();
  const int64_t* whole = found->get<int64_t>();
  const double value = real ? *real : whole ? static_cast<double>(*whole) : -1;
  if (!(value >= 0 && value <= most)) {
    return bad_request(key, fmt::format("`{}` must lie between 0 and {}.", key, most));
  }
  return value;
}

ApiResult<std::optional<int64_t>> integer_at(const Value& body, const char* key, int64_t least) {
  const Maybe found = given(body, key);
  if (!found) return std::optional<int64_t>();
  const int64_t* value = found->get<int64_t>();
  if (!value || *value < least) {
    return bad_request(key, fmt::format("`{}` must be an integer of at least {}.", key, least));
  }
  return std::optional(*value);
}

// Of numbers the value counts, not how it is written.
bool is_same(const Value& a, const Value& b) {
  const auto number = [](const Value& value) -> std::optional<double> {
    if (const double* real = value.get<double>()) return *real;
    if (const int64_t* whole = value.get<int64_t>()) return static_cast<double>(*whole);
    return std::nullopt;
  };
  return a == b || (number(a) && number(a) == number(b));
}

// A field, and the values that ask for the default behaviour.
struct NotComputed {
  std::string_view key;
  std::vector<Value> usual = {};
};

const std::vector<NotComputed>& not_computed() {
  static const Value kNone = Value::Array{}, kNothing = Value::Table{};
  static const std::vector<NotComputed> kFields = {
      {"n", {1}},
      {"best_of", {1}},
      {"echo", {false}},
      {"suffix", {""}},
      {"logprobs", {false}},
      {"top_logprobs", {0}},
      {"presence_penalty", {0}},
      {"frequency_penalty", {0}},
      {"logit_bias", {kNothing}},
      {"tools", {kNone}},
      {"tool_choice", {"none", "auto"}},
      {"functions", {kNone}},
      {"function_call", {"none", "auto"}},
      {"modalities", {Value::Array{Value("text")}}},
      {"audio"},
      {"response_format", {Value::Table{{"type", "text"}}}},
      {"reasoning_effort", {"none"}},
      {"verbosity", {"medium"}},
      {"web_search_options"},
      // vLLM's.
      {"top_k", {-1, 0}},
      {"min_p", {0}},
      {"repetition_penalty", {1}},
      {"length_penalty", {1}},
      {"use_beam_search", {false}},
      {"stop_token_ids", {kNone}},
      {"include_stop_str_in_output", {false}},
      {"skip_special_tokens", {true}},
      {"spaces_between_special_tokens", {true}},
      {"add_special_tokens"},
      {"add_generation_prompt", {true}},
      {"continue_final_message", {false}},
      {"truncate_prompt_tokens"},
      {"prompt_logprobs"},
      {"prompt_embeds"},
      {"allowed_token_ids"},
      {"bad_words", {kNone}},
      {"logits_processors", {kNone}},
      {"structured_outputs"},
      {"guided_json"},
      {"guided_regex"},
      {"guided_choice"},
      {"guided_grammar"},
      {"structural_tag"},
      {"chat_template"},
      {"chat_template_kwargs", {kNothing}},
      {"documents", {kNone}},
      {"thinking_token_budget"},
      {"return_token_ids", {false}},
      {"vllm_xargs", {kNothing}},
      {"kv_transfer_params"},
      // TGI's.
      {"max_new_tokens"},
      {"truncate"},
      {"typical_p", {1}},
      {"top_n_tokens", {0}},
      {"watermark", {false}},
      {"do_sample"},
      {"grammar"},
      {"return_full_text", {false}},
      {"details", {false}},
      {"decoder_input_details", {false}},
      {"adapter_id"},
      {"guideline"},
      {"tool_prompt"},
  };
  return kFields;
}

bool is_read_or_ignored(std::string_view key) {
  constexpr auto kRead = std::to_array<std::string_view>(
      {"model", "prompt", "messages", "max_tokens", "max_completion_tokens", "temperature", "top_p",
       "seed", "stop", "service_tier", "stream", "stream_options", "ignore_eos", "min_tokens"});
  constexpr auto kIgnored = std::to_array<std::string_view>(
      {"user", "metadata", "store", "prediction", "safety_identifier", "prompt_cache_key",
       "prompt_cache_retention", "parallel_tool_calls", "priority", "cache_salt", "request_id",
       "return_tokens_as_token_ids", "include_reasoning"});
  return std::ranges::find(kRead, key) != kRead.end() ||
         std::ranges::find(kIgnored, key) != kIgnored.end();
}

// The first field that asks for something else than is computed.
std::optional<ApiError> refusal_of_fields(const Value& body) {
  for (const auto& each : *body.get<Value::Table>()) {
    const std::string& key = each.first;
    const Value& value = each.second;
    if (value.is_null() || is_read_or_ignored(key)) continue;
    const auto field = std::ranges::find(not_computed(), key, &NotComputed::key);
    const bool known = field != not_computed().end();
    const auto same = [&](const Value& usual) { return is_same(value, usual); };
    if (known && std::ranges::any_of(field->usual, same)) continue;
    const std::string name = key.substr(0, 64);
    return ApiError{.message = fmt::format("`{}` is not {}.", name,
                                           known ? "supported here with this value" : "known here"),
                    .param = name,
                    .code = known ? "unsupported_parameter" : "unknown_parameter"};
  }
  return std::nullopt;
}

ApiResult<std::vector<std::string>> stop_of(const Value& body) {
  const Maybe found = given(body, "stop");
  std::vector<std::string> out;
  if (!found) return out;
  Value::Array single = {*found};
  const auto* list = found->get<Value::Array>();
  for (const Value& each : list ? *list : single) {
    const std::string* text = each.get<std::string>();
    if (!text || text->empty()) {
      return bad_request("stop", "`stop` must be a string or a list of strings, none empty.");
    }
    out.push_back(*text);
  }
  if (out.size() > 4) return bad_request("stop", "`stop` may have four strings.");
  return out;
}

// OpenAI's field for requests that may wait for room; a request without it does not wait.
ApiResult<bool> flex_of(const Value& body) {
  constexpr const char* kKey = "service_tier";
  if (!given(body, kKey)) return false;
  const std::string tier = API_TRY(text_at(body, kKey));
  if (tier == "flex") return true;
  if (tier == "auto" || tier == "default") return false;
  return bad_request(kKey, "`service_tier` may be \"auto\", \"default\" or \"flex\" here.");
}

ApiResult<Value> object_of(std::string_view body) {
  auto value = parse_json(body, "the body");
  if (!value) return bad_request("", "The body cannot be read: " + value.error().message);
  if (!value->get<Value::Table>()) return bad_request("", "The body must be a JSON object.");
  return std::move(*value);
}

// What both have in common.
ApiResult<ApiRequest> common(const Value& body) {
  ApiRequest out;
  out.model = API_TRY(text_at(body, "model"));
  if (auto error = refusal_of_fields(body)) return tl::unexpected(std::move(*error));
  out.tokens_max = API_TRY(integer_at(body, "max_tokens", 1));
  out.temperature = API_TRY(number_at(body, "temperature", 1, 2));
  out.top_p = API_TRY(number_at(body, "top_p", 1, 1));
  if (out.top_p == 0) out.top_p = 1e-9;  // the likeliest token alone
  out.seed = API_TRY(integer_at(body, "seed", INT64_MIN));
  out.stop = API_TRY(stop_of(body));
  out.ignore_eos = API_TRY(flag_at(body, "ignore_eos"));
  out.tokens_min = API_TRY(integer_at(body, "min_tokens", 0)).value_or(0);
  out.flex = API_TRY(flex_of(body));
  out.stream = API_TRY(flag_at(body, "stream"));
  if (const Maybe options = given(body, "stream_options")) {
    out.stream_usage = API_TRY(flag_at(*options, "include_usage"));
  }
  return out;
}

ApiResult<std::vector<int64_t>> ids_of(const Value::Array& list) {
  std::vector<int64_t> out;
  out.reserve(list.size());
  for (const Value& each : list) {
    const int64_t* id = each.get<int64_t>();
    if (!id || *id < 0) return bad_request("prompt", "`prompt`: token ids are whole numbers.");
    out.push_back(*id);
  }
  return out;
}

// A text, a list of ids, or a list of one of these.
ApiResult<ApiRequest> with_prompt(ApiRequest out, const Value& prompt, bool inside) {
  if (const std::string* text = prompt.get<std::string>()) {
    out.text = *text;
    return out;
  }
  const auto* list = prompt.get<Value::Array>();
  if (!list || list->empty()) {
    return bad_request("prompt", "`prompt` must be a string or a list of token ids.");
  }
  if (!inside && !list->front().get<int64_t>()) {
    if (list->size() > 1) return bad_request("prompt", "`prompt`: one at a time.");
    return with_prompt(std::move(out), list->front(), true);
  }
  out.tokens = API_TRY(ids_of(*list));
  return out;
}

// A text, or parts of which each is a text.
ApiResult<std::string> content_of(const Value& message, const std::string& where) {
  const Maybe content = given(message, "content");
  if (const auto* text = content ? content->get<std::string>() : nullptr) return *text;
  const auto* parts = content ? content->get<Value::Array>() : nullptr;
  if (!parts) return bad_request(where, fmt::format("`{}.content` must be a string.", where));
  std::string out;
  for (const Value& part : *parts) {
    const Maybe type = given(part, "type"), text = given(part, "text");
    const std::string* words = text ? text->get<std::string>() : nullptr;
    if (!type || *type != Value("text") || !words) {
      return bad_request(where, fmt::format("`{}.content`: only texts are supported.", where));
    }
    out += *words;
  }
  return out;
}

ApiResult<ChatMessage> message_of(const Value& message, size_t index) {
  constexpr std::array kRoles = {"system", "developer", "user", "assistant"};
  const std::string where = fmt::format("messages[{}]", index);
  const Maybe role = given(message, "role");
  const std::string* name = role ? role->get<std::string>() : nullptr;
  if (!name || std::ranges::find(kRoles, *name) == kRoles.end()) {
    return bad_request(where, fmt::format("`{}.role` must be system, user or assistant.", where));
  }
  return ChatMessage{*name, API_TRY(content_of(message, where))};
}

}  // namespace

ApiResult<ApiRequest> parse_completion(std::string_view body) {
  const Value value = API_TRY(object_of(body));
  ApiRequest out = API_TRY(common(value));
  const Maybe prompt = given(value, "prompt");
  if (!prompt) return bad_request("prompt", "`prompt` is missing.");
  return with_prompt(std::move(out), *prompt, false);
}

ApiResult<ApiRequest> parse_chat(std::string_view body) {
  const Value value = API_TRY(object_of(body));
  ApiRequest out = API_TRY(common(value));
  // The newer name of max_tokens.
  const auto most = API_TRY(integer_at(value, "max_completion_tokens", 1));
  if (most) out.tokens_max = most;
  const Maybe messages = given(value, "messages");
  const auto* list = messages ? messages->get<Value::Array>() : nullptr;
  if (!list || list->empty()) {
    return bad_request("messages", "`messages` must be a list of at least one message.");
  }
  for (size_t i = 0; i < list->size(); ++i) {
    out.messages.push_back(API_TRY(message_of((*list)[i], i)));
  }
  return out;
}

}  // namespace tombolo::serve
