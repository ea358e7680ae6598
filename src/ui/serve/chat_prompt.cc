#include "ui/serve/chat_prompt.h"

#include "base/check.h"

namespace tombolo::serve {
namespace {

// Texts between special tokens, each tokenized as a whole.
class PromptWriter {
 public:
  explicit PromptWriter(text::TextEncoder& tokenizer) : tokenizer_(tokenizer) {}

  Status special(const char* token) {
    TRY(flush());
    tokens.push_back(id_of(token));
    return {};
  }
  void text(const std::string& words) { pending_ += words; }
  Status flush() {
    const std::vector<int64_t> ids = TRY(tokenizer_.encode_plain(pending_));
    tokens.insert(tokens.end(), ids.begin(), ids.end());
    pending_.clear();
    return {};
  }
  int64_t id_of(const char* token) const {
    const auto id = tokenizer_.id_of(token);
    CHECK(id.has_value(), "the tokenizer has no {}", token);
    return *id;
  }

  std::vector<int64_t> tokens;

 private:
  text::TextEncoder& tokenizer_;
  std::string pending_;
};

// Newer clients call the system's role so.
std::string role_of(const ChatMessage& message) {
  return message.role == "developer" ? "system" : message.role;
}

std::string trimmed(const std::string& text) {
  constexpr const char* kSpaces = " \t\r\n";
  const size_t begin = text.find_first_not_of(kSpaces);
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(kSpaces) - begin + 1);
}

Status write_chatml(PromptWriter& out, const std::vector<ChatMessage>& messages) {
  for (const ChatMessage& message : messages) {
    TRY(out.special("<|im_start|>"));
    out.text(role_of(message) + "\n" + message.content);
    TRY(out.special("<|im_end|>"));
    out.text("\n");
  }
  TRY(out.special("<|im_start|>"));
  out.text("assistant\n");
  return out.flush();
}

Status write_llama3(PromptWriter& out, const std::vector<ChatMessage>& messages) {
  const auto header = [&](const std::string& role) -> Status {
    TRY(out.special("<|start_header_id|>"));
    out.text(role);
    TRY(out.special("<|end_header_id|>"));
    out.text("\n\n");
    return {};
  };
  for (const ChatMessage& message : messages) {
    TRY(header(role_of(message)));
    out.text(trimmed(message.content));
    TRY(out.special("<|eot_id|>"));
  }
  TRY(header("assistant"));
  return out.flush();
}

Status write_plain(PromptWriter& out, const std::vector<ChatMessage>& messages) {
  for (const ChatMessage& message : messages) {
    std::string role = role_of(message);
    role.front() = static_cast<char>(role.front() - 'a' + 'A');
    out.text(role + ": " + trimmed(message.content) + "\n\n");
  }
  out.text("Assistant:");
  return out.flush();
}

}  // namespace

ChatTemplate template_of(const text::TextEncoder& tokenizer) {
  const auto has = [&](const char* token) { return tokenizer.id_of(token).has_value(); };
  if (has("<|im_start|>") && has("<|im_end|>")) return ChatTemplate::kChatml;
  const bool llama = has("<|start_header_id|>") && has("<|end_header_id|>") && has("<|eot_id|>");
  return llama ? ChatTemplate::kLlama3 : ChatTemplate::kPlain;
}

Result<ChatPrompt> chat_prompt(ChatTemplate how, const std::vector<ChatMessage>& messages,
                               text::TextEncoder& tokenizer) {
  PromptWriter writer(tokenizer);
  ChatPrompt out;
  switch (how) {
    case ChatTemplate::kChatml:
      TRY(write_chatml(writer, messages));
      out.stop = {writer.id_of("<|im_end|>")};
      out.begins = true;
      break;
    case ChatTemplate::kLlama3:
      out.begins = tokenizer.id_of("<|begin_of_text|>").has_value();
      if (out.begins) TRY(writer.special("<|begin_of_text|>"));
      TRY(write_llama3(writer, messages));
      out.stop = {writer.id_of("<|eot_id|>")};
      break;
    case ChatTemplate::kPlain:
      TRY(write_plain(writer, messages));
      out.stop_strings = {"\n\nUser:"};
      break;
  }
  out.tokens = std::move(writer.tokens);
  return out;
}

}  // namespace tombolo::serve
