// Refusals as OpenAI's clients read them: an HTTP status, and {"error": {"message": ..., "type":
// ..., "param": ..., "code": ...}}. Messages never repeat what was sent but names of fields and
// models, so that no key or prompt gets into a log.
#pragma once

#include <string>
#include <tl/expected.hpp>

#include "base/value.h"

namespace tombolo::serve {

struct ApiError {
  int status = 400;
  std::string message;
  std::string type = "invalid_request_error";
  std::string param = {};  // empty: null
  std::string code = {};   // empty: null
  int retry_after_s = 0;   // 0: no Retry-After
};

template <typename T>
using ApiResult = tl::expected<T, ApiError>;

inline tl::unexpected<ApiError> bad_request(std::string param, std::string message) {
  return tl::unexpected(ApiError{.message = std::move(message), .param = std::move(param)});
}

ApiError invalid_key();
ApiError unknown_model(const std::string& name);
ApiError too_long(std::string message);
ApiError too_many_requests();                 // 429: this server's own limit
ApiError overloaded(const std::string& why);  // 503: the backend has no room, or has gone
ApiError server_error(const std::string& message);
ApiError lost(const std::string& message);  // 503: the worker has gone, so ask again
// For what the HTTP library answers automatically: 404, 413, and so on.
ApiError of_status(int status);

Value error_object(const ApiError& error);

}  // namespace tombolo::serve
