#include "spec/schedule/schedule_csv.h"

namespace tombolo::schedule {
namespace {

// Takes what stands before the separator off the front of text.
std::string_view take(std::string_view& text, char separator) {
  const size_t end = text.find(separator);
  const std::string_view front = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return front;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

}  // namespace

std::string to_csv(const Schedule& schedule, CsvContent content) {
  std::string out;
  for (const Order& order : schedule.ranks) {
    bool first = true;
    for (const action::Action& action : order) {
      if (content == CsvContent::kComputations && action::is_communication(action.kind)) continue;
      if (!first) out += ',';
      out += action::to_text(action);
      first = false;
    }
    out += '\n';
  }
  return out;
}

Result<Schedule> parse_csv(std::string_view text, const std::string& name) {
  Schedule schedule{name, {}};
  while (!text.empty()) {
    std::string_view row = take(text, '\n');
    Order order;
    while (!row.empty()) {
      const std::string_view cell = trimmed(take(row, ','));
      if (cell.empty()) continue;
      Result<action::Action> action = action::parse_action(cell);
      if (!action) {
        action.error().message =
            fmt::format("{}:{}: {}", name, schedule.ranks.size() + 1, action.error().message);
        return fail(action.error());
      }
      order.push_back(*action);
    }
    schedule.ranks.push_back(std::move(order));
  }
  return schedule;
}

}  // namespace tombolo::schedule
