// Tokens become a text, piece by piece: no piece ends within a character, and none contains what
// could be the beginning of a stop string. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tombolo::serve {

class AnswerText {
 public:
  explicit AnswerText(std::vector<std::string> stop) : stop_(std::move(stop)) {}

  // The bytes of a token. Returns what can be shown of the text now. Bytes that are not UTF-8
  // become U+FFFD, as a model may generate any bytes.
  // Without `may_stop`, stop strings are ordinary text.
  std::string add(std::string_view bytes, bool may_stop = true);
  // A stop string came: it and what follows is not part of the text, and add() gives no more.
  bool stopped() const { return stopped_; }
  // The end: returns what was held back.
  std::string finish();

 private:
  std::string release(bool all);

  std::vector<std::string> stop_;
  std::string bytes_;  // of a character that is not complete
  std::string held_;   // complete, not shown
  bool stopped_ = false;
};

// Moves complete characters from the begin of `bytes` to the end of `text`; with `all` what is left
// becomes U+FFFD.
void take_characters(std::string& bytes, std::string& text, bool all);

}  // namespace tombolo::serve
