#include "spec/action/action.h"

#include <algorithm>
#include <charconv>
#include <iterator>

namespace tombolo::action {
namespace {

// A non-negative number at the front of text, taken off it; false where there is none.
bool take_number(std::string_view& text, int32_t& out) {
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (ec != std::errc{} || out < 0) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return true;
}

}  // namespace

std::string to_text(const Action& action) {
  // Every node of a Graph has one, so it is made without a format string.
  std::string out;
  const auto add_number = [&](int32_t number) {
    char digits[12];
    const auto [end, ec] = std::to_chars(std::begin(digits), std::end(digits), number);
    out.append(digits, end);
  };
  add_number(action.stage);
  static constexpr auto kNames = enum_names(ActionKind{});
  const auto name = std::find_if(kNames.begin(), kNames.end(),
                                 [&](const auto& each) { return each.value == action.kind; });
  out += name == kNames.end() ? std::string_view("?") : name->name;
  if (action.microbatch >= 0) add_number(action.microbatch);
  return out;
}

Result<Action> parse_action(std::string_view text) {
  const auto wrong = [&] {
    return unusable(fmt::format("\"{}\" is not an action", text),
                    "the form stage, kind, microbatch, as in \"0F1\" or \"1SEND_B0\"");
  };
  std::string_view rest = text;
  Action action;
  if (!take_number(rest, action.stage)) return wrong();
  const size_t letters = rest.find_first_of("0123456789");
  const auto kind = from_name<ActionKind>(rest.substr(0, letters));
  if (!kind) return wrong();
  action.kind = *kind;
  if (letters != std::string_view::npos) {
    rest.remove_prefix(letters);
    if (!take_number(rest, action.microbatch) || !rest.empty()) return wrong();
  }
  return action;
}

}  // namespace tombolo::action
