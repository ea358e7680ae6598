// Messages of a chat as one prompt, in the format that a model was trained on.
//
// Templates are programs in Jinja, in tokenizer_config.json; here are the two that most models
// published since 2024 descend from, recognised by their special tokens, and a plain one for models
// that were trained on none:
//
//   chatml  <|im_start|>user\nHello<|im_end|>\n ... <|im_start|>assistant\n       Qwen and others
//   llama3  <|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nHello<|eot_id|> ...
//                                                                               Llama 3
//   plain   User: Hello\n\n ... Assistant:
//
// Special tokens come from the template alone: in a message they are encoded as text, so that no
// message can pose as another role.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "base/fields.h"
#include "perform/text/text_encoder.h"
#include "ui/serve/api_request.h"

namespace tombolo::serve {

enum class ChatTemplate { kChatml, kLlama3, kPlain };
constexpr auto enum_names(ChatTemplate) {
  return std::to_array<EnumName<ChatTemplate>>({{ChatTemplate::kChatml, "chatml"},
                                                {ChatTemplate::kLlama3, "llama3"},
                                                {ChatTemplate::kPlain, "plain"}});
}
ChatTemplate template_of(const text::TextEncoder& tokenizer);

struct ChatPrompt {
  std::vector<int64_t> tokens;
  std::vector<int64_t> stop;              // tokens that end an answer
  std::vector<std::string> stop_strings;  // of the plain template
  bool begins = false;  // the template says itself how a prompt begins: nothing is put before it
};
// Fails where a text is no UTF-8. CHECKs that the tokenizer has the template's special tokens.
Result<ChatPrompt> chat_prompt(ChatTemplate how, const std::vector<ChatMessage>& messages,
                               text::TextEncoder& tokenizer);

}  // namespace tombolo::serve
