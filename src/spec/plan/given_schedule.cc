#include "spec/plan/given_schedule.h"

#include <algorithm>
#include <charconv>

namespace tombolo::plan {
namespace {

// Takes the next word off the front; "" at the end.
std::string_view take_word(std::string_view& text) {
  const size_t begin = std::min(text.find_first_not_of(' '), text.size());
  const size_t end = std::min(text.find(' ', begin), text.size());
  const std::string_view word = text.substr(begin, end - begin);
  text.remove_prefix(end);
  return word;
}

// The whole text as a number that fits.
bool read_number(std::string_view text, int32_t& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc{} && end == text.data() + text.size();
}

// The front of a text that may be long.
std::string shortened(std::string_view text) {
  constexpr size_t kMost = 40;
  return text.size() <= kMost ? std::string(text) : std::string(text.substr(0, kMost)) + "...";
}

// "2" or, of a part of the cell, "2/7".
bool read_cell(std::string_view text, LinkOrder& link) {
  const size_t slash = text.find('/');
  if (!read_number(text.substr(0, slash), link.cell)) return false;
  if (slash == std::string_view::npos) return true;
  return read_number(text.substr(slash + 1), link.first) && link.first >= 0;
}

}  // namespace

std::string order_text(const std::vector<action::Action>& order) {
  std::string out;
  for (const action::Action& action : order) {
    if (!out.empty()) out += ' ';
    out += action::to_text(action);
  }
  return out;
}

std::string link_text(const LinkOrder& link) {
  std::string out = fmt::format("{} {} {}", link.boundary, link.gradients ? 'B' : 'F', link.cell);
  if (link.first >= 0) out += fmt::format("/{}", link.first);
  out += ':';
  for (const Transfer& transfer : link.transfers) {
    out += fmt::format(" {}.{}", transfer.replica, transfer.microbatch);
  }
  return out;
}

std::string pairs_text(const std::vector<Pair>& pairs) {
  std::string out;
  for (const Pair& pair : pairs) {
    if (!out.empty()) out += ' ';
    out += action::to_text(pair.forward) + ';' + action::to_text(pair.backward);
  }
  return out;
}

Result<std::vector<action::Action>> parse_order(std::string_view text) {
  std::vector<action::Action> order;
  for (std::string_view word = take_word(text); !word.empty(); word = take_word(text)) {
    const Result<action::Action> action = action::parse_action(word);
    if (!action) {
      return unusable(fmt::format("\"{}\" is not an action", shortened(word)),
                      "computations, as in \"0F0 0F1 0B0 0B1\"");
    }
    order.push_back(*action);
  }
  return order;
}

Result<std::vector<Pair>> parse_pairs(std::string_view text) {
  std::vector<Pair> pairs;
  for (std::string_view word = take_word(text); !word.empty(); word = take_word(text)) {
    const size_t middle = std::min(word.find(';'), word.size());
    const auto forward = action::parse_action(word.substr(0, middle));
    const auto backward = action::parse_action(word.substr(std::min(middle + 1, word.size())));
    if (!forward || !backward) {
      return unusable(fmt::format("\"{}\" is no pair", shortened(word)),
                      "a forward and the backward behind it, as in \"0F4;3B1\"");
    }
    pairs.push_back({*forward, *backward});
  }
  return pairs;
}

Result<LinkOrder> parse_link(std::string_view text) {
  const auto broken = [&] {
    return unusable(fmt::format("\"{}\" is not the order of a link", shortened(text)),
                    "boundary, direction and cell, then pipeline.microbatch, as in \"1 F 0: 0.0 "
                    "1.0 0.1 1.1\"; for a part of cell 0 that begins with pipeline 1, \"1 F 0/1: "
                    "1.0 2.0\"");
  };
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return broken();
  std::string_view head = text.substr(0, colon);
  LinkOrder link;
  const bool has_boundary = read_number(take_word(head), link.boundary);
  const std::string_view direction = take_word(head);
  link.gradients = direction == "B";
  if (!has_boundary || (direction != "F" && direction != "B") ||
      !read_cell(take_word(head), link) || !take_word(head).empty()) {
    return broken();
  }
  std::string_view rest = text.substr(colon + 1);
  for (std::string_view word = take_word(rest); !word.empty(); word = take_word(rest)) {
    const size_t dot = word.find('.');
    Transfer transfer;
    if (dot == std::string_view::npos || !read_number(word.substr(0, dot), transfer.replica) ||
        !read_number(word.substr(dot + 1), transfer.microbatch)) {
      return unusable(fmt::format("\"{}\" is no transfer", shortened(word)),
                      "pipeline.microbatch, as in \"1.0\"");
    }
    link.transfers.push_back(transfer);
  }
  return link;
}

}  // namespace tombolo::plan
