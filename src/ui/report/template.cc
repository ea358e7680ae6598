#include "ui/report/template.h"

#include <algorithm>

#include "base/check.h"
#include "base/json.h"

namespace tombolo::report {
namespace {

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  if (text.find(from) == std::string::npos) return;
  std::string out;
  size_t at = 0;
  for (size_t hit; (hit = text.find(from, at)) != std::string::npos; at = hit + from.size()) {
    out.append(text, at, hit - at).append(to);
  }
  out.append(text, at);
  text = std::move(out);
}

}  // namespace

Value texts(const std::vector<std::string>& list) {
  Value::Array out;
  for (const std::string& text : list) out.push_back(text);
  return out;
}

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string script_json(const Value& value) {
  // Outside of strings JSON has none of these characters.
  std::string json = to_json(value, -1);
  replace_all(json, "<", "\\u003c");
  replace_all(json, ">", "\\u003e");
  replace_all(json, "&", "\\u0026");
  replace_all(json, "\xe2\x80\xa8", "\\u2028");
  replace_all(json, "\xe2\x80\xa9", "\\u2029");
  return json;
}

std::string fill_template(std::string_view text, const Parts& parts) {
  std::string out;
  size_t at = 0;
  for (size_t open; (open = text.find("{{", at)) != std::string_view::npos;) {
    const size_t close = text.find("}}", open);
    CHECK(close != std::string_view::npos, "{{{{ at byte {} is not closed", open);
    const std::string_view name = text.substr(open + 2, close - open - 2);
    const auto part = std::find_if(parts.begin(), parts.end(),
                                   [&](const auto& known) { return known.first == name; });
    CHECK(part != parts.end(), "the template asks for {}, which has no text", name);
    out.append(text.substr(at, open - at)).append(part->second);
    at = close + 2;
  }
  return out.append(text.substr(at));
}

}  // namespace tombolo::report
