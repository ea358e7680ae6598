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

// How PyTorch writes a forward and a backward that are co-executed: "(0F4;3B1)OVERLAP_F_B".
constexpr std::string_view kOverlap = "OVERLAP_F_B";

// The actions of a cell; two of a pair.
Result<std::vector<action::Action>> parse_cell(std::string_view cell) {
  if (!cell.ends_with(kOverlap)) return std::vector{TRY(action::parse_action(cell))};
  std::string_view inside = trimmed(cell.substr(0, cell.size() - kOverlap.size()));
  if (inside.size() < 2 || inside.front() != '(' || inside.back() != ')') {
    return unusable(fmt::format("\"{}\" is no pair", cell), "\"(0F4;3B1)OVERLAP_F_B\"");
  }
  inside = inside.substr(1, inside.size() - 2);
  const action::Action forward = TRY(action::parse_action(trimmed(take(inside, ';'))));
  const action::Action backward = TRY(action::parse_action(trimmed(inside)));
  return std::vector{forward, backward};
}

}  // namespace

std::string to_csv(const Schedule& schedule, CsvContent content) {
  std::string out;
  for (size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    const RankActions& order = schedule.ranks[rank];
    const std::vector<Pair> pairs =
        schedule.pairs.empty() ? std::vector<Pair>{} : schedule.pairs[rank];
    size_t next_pair = 0;
    bool first = true;
    for (size_t i = 0; i < order.size(); ++i) {
      if (content == CsvContent::kComputations && action::is_communication(order[i].kind)) continue;
      if (!first) out += ',';
      first = false;
      if (next_pair < pairs.size() && i + 1 < order.size() &&
          pairs[next_pair] == Pair{order[i], order[i + 1]}) {
        out += fmt::format("({};{}){}", action::to_text(order[i]), action::to_text(order[i + 1]),
                           kOverlap);
        ++next_pair;
        ++i;
      } else {
        out += action::to_text(order[i]);
      }
    }
    out += '\n';
  }
  return out;
}

Result<Schedule> parse_csv(std::string_view text, const std::string& name) {
  Schedule schedule{name, {}};
  std::vector<std::vector<Pair>> all_pairs;
  bool any_pair = false;
  while (!text.empty()) {
    std::string_view row = take(text, '\n');
    RankActions order;
    std::vector<Pair> pairs;
    while (!row.empty()) {
      const std::string_view cell = trimmed(take(row, ','));
      if (cell.empty()) continue;
      Result<std::vector<action::Action>> actions = parse_cell(cell);
      if (!actions) {
        actions.error().message =
            fmt::format("{}:{}: {}", name, schedule.ranks.size() + 1, actions.error().message);
        return fail(actions.error());
      }
      order.insert(order.end(), actions->begin(), actions->end());
      if (actions->size() == 2) pairs.push_back({order.end()[-2], order.back()});
    }
    schedule.ranks.push_back(std::move(order));
    all_pairs.push_back(std::move(pairs));
    any_pair = any_pair || !all_pairs.back().empty();
  }
  if (any_pair) schedule.pairs = std::move(all_pairs);
  return schedule;
}

}  // namespace tombolo::schedule
