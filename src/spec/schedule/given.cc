// Schedules in the text that a Plan carries.
//
// Of a rank's order computations are enough: what must be sent, received and updated follows. One
// thing does not: where a recomputation waits for its gradient, the receive stands before it
// ("0RECV_B1 0R1 0B1"); else right before the backward, and is left out.
#include <algorithm>
#include <charconv>
#include <set>
#include <tuple>

#include "spec/schedule/passes.h"
#include "spec/schedule/schedule.h"

namespace tombolo::schedule {
namespace {

using action::Action;
using action::ActionKind;

bool is_computation(ActionKind kind) { return kind <= ActionKind::kRecompute; }

bool opens_backward(const Action& action, const Action& receive) {
  return (action.kind == ActionKind::kBackward || action.kind == ActionKind::kBackwardInput) &&
         action.stage == receive.stage && action.microbatch == receive.microbatch;
}

std::string text_of(const Order& order) {
  std::string out;
  for (size_t i = 0; i < order.size(); ++i) {
    const bool early_receive = order[i].kind == ActionKind::kReceiveGradient &&
                               i + 1 < order.size() && !opens_backward(order[i + 1], order[i]);
    if (!is_computation(order[i].kind) && !early_receive) continue;
    if (!out.empty()) out += ' ';
    out += action::to_text(order[i]);
  }
  return out;
}

std::string text_of(const LinkOrder& link) {
  std::string out = fmt::format("{} {} {}:", link.boundary, link.gradients ? 'B' : 'F', link.cell);
  for (const Transfer& transfer : link.transfers) {
    out += fmt::format(" {}.{}", transfer.replica, transfer.microbatch);
  }
  return out;
}

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

tl::unexpected<Error> wrong(const char* list, size_t index, const std::string& why,
                            const std::string& hint = {}) {
  return unusable(fmt::format("given.{}[{}]: {}", list, index, why), hint);
}

Result<Order> parse_order(std::string_view text, const Shape& shape, size_t rank) {
  const int32_t position = static_cast<int32_t>(rank) / shape.replicas;
  Order order;
  for (std::string_view word = take_word(text); !word.empty(); word = take_word(text)) {
    const Result<Action> action = action::parse_action(word);
    if (!action) {
      return wrong("ranks", rank, fmt::format("\"{}\" is not an action", shortened(word)),
                   "computations, as in \"0F0 0F1 0B0 0B1\"");
    }
    if (!is_computation(action->kind) && action->kind != ActionKind::kReceiveGradient) {
      return wrong("ranks", rank, fmt::format("{} is no computation", action::to_text(*action)),
                   "computations alone: F, B, I, W and R");
    }
    const bool here = action->stage < shape.stages && shape.position_of(action->stage) == position;
    if (!here || action->microbatch < 0 || action->microbatch >= shape.microbatches) {
      return wrong("ranks", rank,
                   fmt::format("{} is not of this rank: there are stages 0 to {} and micro-batches "
                               "0 to {}",
                               action::to_text(*action), shape.stages - 1, shape.microbatches - 1));
    }
    order.push_back(*action);
  }
  return order;
}

Result<LinkOrder> parse_link(std::string_view text, size_t index) {
  const auto broken = [&] {
    return wrong("links", index, fmt::format("\"{}\" is not the order of a link", shortened(text)),
                 "boundary, direction and cell, then pipeline.micro-batch, as in \"1 F 0: 0.0 1.0 "
                 "0.1 1.1\"");
  };
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return broken();
  std::string_view head = text.substr(0, colon);
  LinkOrder link;
  const bool has_boundary = read_number(take_word(head), link.boundary);
  const std::string_view direction = take_word(head);
  link.gradients = direction == "B";
  if (!has_boundary || (direction != "F" && direction != "B") ||
      !read_number(take_word(head), link.cell) || !take_word(head).empty()) {
    return broken();
  }
  std::string_view rest = text.substr(colon + 1);
  for (std::string_view word = take_word(rest); !word.empty(); word = take_word(rest)) {
    const size_t dot = word.find('.');
    Transfer transfer;
    if (dot == std::string_view::npos || !read_number(word.substr(0, dot), transfer.replica) ||
        !read_number(word.substr(dot + 1), transfer.microbatch)) {
      return wrong("links", index, fmt::format("\"{}\" is no transfer", shortened(word)),
                   "pipeline.micro-batch, as in \"1.0\"");
    }
    link.transfers.push_back(transfer);
  }
  return link;
}

// A receive stands where it was given, not before the backward once more.
void drop_second_receives(Order& order) {
  std::set<Action> received;
  const auto second = [&](const Action& action) {
    return action.kind == ActionKind::kReceiveGradient && !received.insert(action).second;
  };
  Order kept;
  for (const Action& action : order) {
    if (!second(action)) kept.push_back(action);
  }
  order = std::move(kept);
}

}  // namespace

plan::GivenSchedule to_given(const Schedule& schedule) {
  plan::GivenSchedule given;
  given.name = schedule.name;
  for (const Order& order : schedule.ranks) given.ranks.push_back(text_of(order));
  for (const LinkOrder& link : schedule.links) given.links.push_back(text_of(link));
  for (const SimDuration release : schedule.release) given.release.push_back(seconds(release));
  return given;
}

Result<Schedule> from_given(const plan::GivenSchedule& given, const Shape& shape) {
  constexpr int64_t kActionsPerMicrobatch = 8;  // F, R, I, W and two messages in and two out
  if (int64_t{shape.stages} * shape.replicas >
      kActionsMax / kActionsPerMicrobatch / shape.microbatches) {
    return unusable(
        fmt::format("{} stages x {} replicas x {} micro-batches are too many to schedule",
                    shape.stages, shape.replicas, shape.microbatches),
        "a larger micro_batch");
  }
  if (given.ranks.size() != static_cast<size_t>(shape.ranks())) {
    return unusable(
        fmt::format("given.ranks orders {} ranks of {}", given.ranks.size(), shape.ranks()),
        "one text per rank, rank = position x pipelines + pipeline");
  }
  Schedule schedule{given.name, {}};
  for (size_t rank = 0; rank < given.ranks.size(); ++rank) {
    schedule.ranks.push_back(TRY(parse_order(given.ranks[rank], shape, rank)));
  }
  schedule.ranks = add_communication(schedule.ranks, shape, RecomputeWhen::kAhead);
  for (Order& order : schedule.ranks) drop_second_receives(order);
  add_update(schedule.ranks, shape);
  for (size_t i = 0; i < given.links.size(); ++i) {
    schedule.links.push_back(TRY(parse_link(given.links[i], i)));
  }
  std::sort(schedule.links.begin(), schedule.links.end(), [](const auto& a, const auto& b) {
    return std::tie(a.boundary, a.gradients, a.cell) < std::tie(b.boundary, b.gradients, b.cell);
  });
  for (size_t i = 0; i < given.release.size(); ++i) {
    const double span = given.release[i].value;
    if (!(span >= 0 && span < 9e9)) {
      return wrong("release", i, fmt::format("\"{}\" cannot be", format(given.release[i])),
                   "a time from 0 on, as in \"30 ms\"");
    }
    schedule.release.push_back(round_to_ns(given.release[i]));
  }
  TRY(during(validate(schedule, shape),
             fmt::format("reading the given schedule \"{}\"", shortened(given.name))));
  return schedule;
}

}  // namespace tombolo::schedule
