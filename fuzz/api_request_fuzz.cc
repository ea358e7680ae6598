// What a client may send: any bytes are a request for texts or for a chat, or an error object that
// says why not. Any bytes are a text, however they are cut.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/json.h"
#include "ui/serve/answer_text.h"
#include "ui/serve/api_keys.h"
#include "ui/serve/api_request.h"

namespace {

using namespace tombolo;
using namespace tombolo::serve;

void check_request(const ApiResult<ApiRequest>& got) {
  if (!got) {
    CHECK(got.error().status == 400 && !got.error().message.empty(), "an error without a word");
    const std::string object = to_json(error_object(got.error()), -1);
    CHECK(parse_json(object, "error"), "no JSON: {}", object);
    return;
  }
  CHECK(got->temperature >= 0 && got->temperature <= 2 && got->top_p > 0 && got->top_p <= 1,
        "temperature {}, top_p {}", got->temperature, got->top_p);
  CHECK(!got->tokens_max || *got->tokens_max > 0, "max_tokens {}", *got->tokens_max);
  for (const int64_t token : got->tokens) CHECK(token >= 0, "token {}", token);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  check_request(parse_completion(input));
  check_request(parse_chat(input));
  AnswerText whole({"</s>", "ab"}), cut({"</s>", "ab"});
  std::string at_once = whole.add(input), in_parts;
  at_once += whole.finish();
  for (size_t at = 0; at < size; at += 3) in_parts += cut.add(input.substr(at, 3));
  in_parts += cut.finish();
  CHECK(in_parts == at_once, "cuts make a difference");
  CHECK(parse_json(to_json(Value(Value::Table{{"text", at_once}}), -1), "text"), "no UTF-8");
  static_cast<void>(ApiKeys::parse(input, "keys"));
  return 0;
}
