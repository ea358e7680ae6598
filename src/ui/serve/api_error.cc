#include "ui/serve/api_error.h"

#include <fmt/format.h>

namespace tombolo::serve {
namespace {

Value text_or_null(const std::string& text) { return text.empty() ? Value() : Value(text); }

}  // namespace

ApiError invalid_key() {
  return {.status = 401,
          .message = "Incorrect API key: send a known one as \"Authorization: Bearer KEY\".",
          .code = "invalid_api_key"};
}

ApiError unknown_model(const std::string& name) {
  return {
      .status = 404,
      .message = fmt::format("The model `{}` does not exist here; GET /v1/models lists what does.",
                             name.substr(0, 100)),
      .param = "model",
      .code = "model_not_found"};
}

ApiError too_long(std::string message) {
  return {.message = std::move(message), .param = "prompt", .code = "context_length_exceeded"};
}

ApiError too_many_requests() {
  return {.status = 429,
          .message = "Too many requests at once: try again, or elsewhere.",
          .type = "rate_limit_error",
          .code = "rate_limit_exceeded",
          .retry_after_s = 1};
}

ApiError overloaded(const std::string& why) {
  return {.status = 503,
          .message = fmt::format("The server has no room for this prompt now: {}.", why),
          .type = "server_error",
          .code = "overloaded",
          .retry_after_s = 1};
}

ApiError server_error(const std::string& message) {
  return {.status = 500, .message = message, .type = "server_error"};
}

ApiError lost(const std::string& message) {
  return {.status = 503,
          .message = message,
          .type = "server_error",
          .code = "overloaded",
          .retry_after_s = 1};
}

ApiError of_status(int status) {
  switch (status) {
    case 403:
      return {.status = status,
              .message =
                  "Pages of this origin may not ask: a server without keys answers those of "
                  "its own machine alone."};
    case 404:
      return {.status = status, .message = "There is no such path."};
    case 411:
    case 413:
      return {.status = status, .message = "The request is larger than this server takes."};
    case 414:
      return {.status = status, .message = "The path is too long."};
    case 415:
      return {.status = status, .message = "Send JSON, neither compressed nor in parts."};
    case 400:
      return {.status = status, .message = "This is no HTTP request that this server understands."};
    default:
      return {.status = status,
              .message = fmt::format("HTTP status {}.", status),
              .type = status >= 500 ? "server_error" : "invalid_request_error"};
  }
}

Value error_object(const ApiError& error) {
  return Value::Table{{"error", Value::Table{{"message", error.message},
                                             {"type", error.type},
                                             {"param", text_or_null(error.param)},
                                             {"code", text_or_null(error.code)}}}};
}

}  // namespace tombolo::serve
