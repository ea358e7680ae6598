// Schedules that a Plan carries.
//
// Of a rank's order computations are enough: what must be sent, received and updated follows. One
// thing does not: where a recomputation waits for its gradient, the receive stands before it
// ("0RECV_B1 0R1 0B1"); else right before the backward, and is left out.
#include <algorithm>
#include <set>

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

// What a Plan carries of an order. Of a pair, the receive of its backward stands before both.
RankActions without_what_follows(const RankActions& order, const std::vector<Pair>& pairs) {
  RankActions out;
  size_t next_pair = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    while (next_pair < pairs.size() && order[i] == pairs[next_pair].backward) ++next_pair;
    const bool before_pair = next_pair < pairs.size() && i + 1 < order.size() &&
                             order[i + 1] == pairs[next_pair].forward &&
                             opens_backward(pairs[next_pair].backward, order[i]);
    const bool early_receive = order[i].kind == ActionKind::kReceiveGradient && !before_pair &&
                               i + 1 < order.size() && !opens_backward(order[i + 1], order[i]);
    if (is_computation(order[i].kind) || early_receive) out.push_back(order[i]);
  }
  return out;
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

Status check_order(const RankActions& order, const PipelineShape& shape, size_t rank) {
  const int32_t position = static_cast<int32_t>(rank) / shape.replicas;
  for (const Action& action : order) {
    if (!is_computation(action.kind) && action.kind != ActionKind::kReceiveGradient) {
      return wrong("ranks", rank, fmt::format("{} is no computation", action::to_text(action)),
                   "computations alone: F, B, I, W and R");
    }
    const bool here = action.stage >= 0 && action.stage < shape.stages &&
                      shape.position_of(action.stage) == position;
    if (!here || action.microbatch < 0 || action.microbatch >= shape.microbatches) {
      return wrong("ranks", rank,
                   fmt::format("{} is not of this rank: there are stages 0 to {} and microbatches "
                               "0 to {}",
                               action::to_text(action), shape.stages - 1, shape.microbatches - 1));
    }
  }
  return {};
}

// A receive stands where it was given, not before the backward once more.
void drop_second_receives(RankActions& order) {
  std::set<Action> received;
  const auto second = [&](const Action& action) {
    return action.kind == ActionKind::kReceiveGradient && !received.insert(action).second;
  };
  RankActions kept;
  for (const Action& action : order) {
    if (!second(action)) kept.push_back(action);
  }
  order = std::move(kept);
}

}  // namespace

plan::GivenSchedule to_given(const Schedule& schedule) {
  plan::GivenSchedule given;
  given.name = schedule.name;
  given.pairs = schedule.pairs;
  for (size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    const std::vector<Pair> pairs =
        schedule.pairs.empty() ? std::vector<Pair>{} : schedule.pairs[rank];
    given.ranks.push_back(without_what_follows(schedule.ranks[rank], pairs));
  }
  given.links = schedule.links;
  for (const SimDuration release : schedule.release) given.release.push_back(seconds(release));
  return given;
}

Result<Schedule> from_given(const plan::GivenSchedule& given, const PipelineShape& shape) {
  constexpr int64_t kActionsPerMicrobatch = 8;  // F, R, I, W and two messages in and two out
  if (int64_t{shape.stages} * shape.replicas >
      kActionsMax / kActionsPerMicrobatch / shape.microbatches) {
    return unusable(
        fmt::format("{} stages x {} replicas x {} microbatches are too many to schedule",
                    shape.stages, shape.replicas, shape.microbatches),
        "a larger micro_batch");
  }
  if (given.ranks.size() != static_cast<size_t>(shape.ranks())) {
    return unusable(
        fmt::format("given.ranks orders {} ranks of {}", given.ranks.size(), shape.ranks()),
        "one text per rank, rank = position x pipelines + pipeline");
  }
  Schedule schedule{given.name, given.ranks};
  for (size_t rank = 0; rank < given.ranks.size(); ++rank) {
    TRY(check_order(given.ranks[rank], shape, rank));
  }
  if (!given.pairs.empty() && given.pairs.size() != given.ranks.size()) {
    return unusable(
        fmt::format("given.pairs pairs {} ranks of {}", given.pairs.size(), given.ranks.size()),
        "one text per rank, or none at all");
  }
  schedule.pairs = given.pairs;
  schedule.ranks = add_communication(schedule.ranks, shape, RecomputeWhen::kAhead, schedule.pairs);
  for (RankActions& order : schedule.ranks) drop_second_receives(order);
  add_update(schedule.ranks, shape);
  schedule.links = given.links;
  std::sort(schedule.links.begin(), schedule.links.end(),
            [](const LinkOrder& a, const LinkOrder& b) { return a.key() < b.key(); });
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
