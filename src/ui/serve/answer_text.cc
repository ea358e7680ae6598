#include "ui/serve/answer_text.h"

#include <algorithm>
#include <utility>

namespace tombolo::serve {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

struct Character {
  size_t length = 1;  // of the bytes that were looked at
  bool valid = false;
  bool complete = true;  // false: more bytes may make it one
};

// Unicode 15, table 3-7: which bytes may follow which.
Character first_of(std::string_view bytes) {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned lead = at(0);
  if (lead < 0x80) return {1, true};
  if (lead < 0xc2 || lead > 0xf4) return {1, false};
  const size_t length = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  for (size_t i = 1; i < length; ++i) {
    if (i == bytes.size()) return {i, false, false};
    unsigned least = 0x80, most = 0xbf;
    if (i == 1 && lead == 0xe0) least = 0xa0;
    if (i == 1 && lead == 0xed) most = 0x9f;
    if (i == 1 && lead == 0xf0) least = 0x90;
    if (i == 1 && lead == 0xf4) most = 0x8f;
    if (at(i) < least || at(i) > most) return {i, false};
  }
  return {length, true};
}

}  // namespace

void take_characters(std::string& bytes, std::string& text, bool all) {
  std::string_view left = bytes;
  while (!left.empty()) {
    const Character character = first_of(left);
    if (!character.complete && !all) break;
    text += character.valid ? left.substr(0, character.length) : kReplacement;
    left.remove_prefix(character.length);
  }
  bytes.erase(0, bytes.size() - left.size());
}

std::string AnswerText::add(std::string_view bytes, bool may_stop) {
  if (stopped_) return "";
  bytes_ += bytes;
  take_characters(bytes_, held_, false);
  if (!may_stop) return std::exchange(held_, {});
  return release(false);
}

std::string AnswerText::finish() {
  if (stopped_) return "";
  take_characters(bytes_, held_, true);
  return release(true);
}

std::string AnswerText::release(bool all) {
  size_t end = held_.size();
  for (const std::string& stop : stop_) end = std::min(end, held_.find(stop));
  if (end < held_.size()) {
    stopped_ = true;
    held_.resize(end);
    return std::exchange(held_, {});
  }
  // The longest end that is the begin of a stop string stays.
  size_t kept = 0;
  for (const std::string& stop : stop_) {
    for (size_t length = std::min(stop.size() - 1, held_.size()); !all && length > kept; --length) {
      if (held_.ends_with(std::string_view(stop).substr(0, length))) kept = length;
    }
  }
  std::string out = held_.substr(0, held_.size() - kept);
  held_.erase(0, out.size());
  return out;
}

}  // namespace tombolo::serve
