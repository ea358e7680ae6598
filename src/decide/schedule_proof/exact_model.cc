#include "decide/schedule_proof/exact_model.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "spec/schedule/passes.h"

namespace tombolo::schedule_proof::detail {
namespace {

using action::ActionKind;

// Whether the pipelines of a cell can be in each other's way.
bool meet(const schedule::PipelineShape& shape, const schedule::Times& times) {
  for (int32_t boundary = 0; boundary + 1 < shape.stages; ++boundary) {
    if (shape.shares(boundary) && times.transfer_over(boundary).ns > 0) return true;
  }
  return false;
}

int64_t common_divisor(const schedule::PipelineShape& shape, const schedule::Times& times) {
  int64_t unit = 0;
  for (const schedule::StageDurations& stage : times.stages) {
    for (const SimDuration each :
         {stage.forward, stage.backward_input, stage.backward_weight, stage.recompute}) {
      unit = std::gcd(unit, each.ns);
    }
  }
  for (int32_t boundary = 0; boundary + 1 < shape.stages; ++boundary) {
    unit = std::gcd(unit, times.transfer_over(boundary).ns);
    unit = std::gcd(unit, times.latency_over(boundary).ns);
  }
  return std::max<int64_t>(unit, 1);
}

}  // namespace

ExactModel::ExactModel(const schedule::PipelineShape& shape, const schedule::Times& times,
                       const schedule::Memory& memory, const ExactOptions& options)
    : shape_(shape),
      times_(times),
      split_(options.split_backward),
      pipelines_(meet(shape, times) ? shape.cell : 1),
      unit_(common_divisor(shape, times)) {
  OfMicrobatch none;
  none.fill(-1);
  operations_.assign(static_cast<size_t>(shape.stages) * static_cast<size_t>(pipelines_) *
                         static_cast<size_t>(shape.microbatches),
                     none);
  for (int32_t m = 0; m < shape.microbatches; ++m) {
    for (int32_t c = 0; c < pipelines_; ++c) there_and_back(c, m);
  }
  keep_order_of_microbatches();
  for (int32_t position = 0; position < shape.positions(); ++position) {
    for (int32_t c = 0; c < pipelines_; ++c) {
      share_rank(position, c);
      if (options.recompute_right_before) recompute_right_before(shop_.machines.back());
      if (memory.in_flight.empty()) continue;
      limit_memory(position, c, memory.in_flight[static_cast<size_t>(position)]);
    }
  }
  share_links();
}

int32_t& ExactModel::at(Kind kind, int32_t stage, int32_t pipeline, int32_t microbatch) {
  return operations_[static_cast<size_t>((stage * pipelines_ + pipeline) * shape_.microbatches +
                                         microbatch)][kind];
}
int32_t ExactModel::at(Kind kind, int32_t stage, int32_t pipeline, int32_t microbatch) const {
  return operations_[static_cast<size_t>((stage * pipelines_ + pipeline) * shape_.microbatches +
                                         microbatch)][kind];
}
int32_t ExactModel::transfer(Way way, int32_t pipeline, int32_t microbatch) const {
  return at(way.gradients ? kSendBackward : kSendForward, way.boundary, pipeline, microbatch);
}
int32_t ExactModel::sender(Way way, int32_t pipeline, int32_t microbatch) const {
  return way.gradients ? at(kBackward, way.boundary + 1, pipeline, microbatch)
                       : at(kForward, way.boundary, pipeline, microbatch);
}
int32_t ExactModel::receiver(Way way, int32_t pipeline, int32_t microbatch) const {
  return way.gradients ? at(kBackward, way.boundary, pipeline, microbatch)
                       : at(kForward, way.boundary + 1, pipeline, microbatch);
}

// ---- which operations there are ----

void ExactModel::there_and_back(int32_t c, int32_t m) {
  int32_t sent = -1;
  for (int32_t s = 0; s < shape_.stages; ++s) {
    const schedule::StageDurations& stage = times_.stages[static_cast<size_t>(s)];
    sent = cross({s - 1, false}, c, m, sent, add(kForward, s, c, m, stage.forward));
  }
  for (int32_t s = shape_.stages - 1; s >= 0; --s) {
    const schedule::StageDurations& stage = times_.stages[static_cast<size_t>(s)];
    int32_t last = at(kForward, s, c, m);
    if (shape_.recomputes(s)) {
      const int32_t recompute = add(kRecompute, s, c, m, stage.recompute);
      shop_.precedences.push_back({last, recompute});
      last = recompute;
    }
    const int32_t backward =
        add(kBackward, s, c, m, split_ ? stage.backward_input : stage.backward());
    shop_.precedences.push_back({last, backward});
    sent = cross({s, true}, c, m, s + 1 < shape_.stages ? sent : -1, backward);
    if (!split_) continue;
    const int32_t weight = add(kWeight, s, c, m, stage.backward_weight);
    shop_.precedences.push_back({backward, weight});
  }
}

int32_t ExactModel::add(Kind kind, int32_t stage, int32_t pipeline, int32_t microbatch,
                        SimDuration duration) {
  const int32_t operation = shop_.add(duration.ns / unit_);
  at(kind, stage, pipeline, microbatch) = operation;
  const ActionKind backward = split_ ? ActionKind::kBackwardInput : ActionKind::kBackward;
  const std::array<ActionKind, kKinds> kinds{
      ActionKind::kForward,        ActionKind::kRecompute,      backward,
      ActionKind::kBackwardWeight, ActionKind::kSendActivation, ActionKind::kSendGradient};
  actions_.push_back({kinds[kind], stage, microbatch});
  owners_.push_back({pipeline, microbatch});
  return operation;
}

// `next` needs what `sent` computed: through a transfer if the boundary crosses the WAN, directly
// if it does not. sent < 0: `next` needs nothing. Returns `next`.
int32_t ExactModel::cross(Way way, int32_t pipeline, int32_t microbatch, int32_t sent,
                          int32_t next) {
  if (sent < 0) return next;
  if (!shape_.crosses(way.boundary)) {
    shop_.precedences.push_back({sent, next});
    return next;
  }
  const int32_t transfer = add(way.gradients ? kSendBackward : kSendForward, way.boundary, pipeline,
                               microbatch, times_.transfer_over(way.boundary));
  shop_.precedences.push_back({sent, transfer});
  shop_.precedences.push_back({transfer, next, times_.latency_over(way.boundary).ns / unit_});
  return next;
}

// ---- what shares what ----

void ExactModel::keep_order_of_microbatches() {
  for (int32_t s = 0; s < shape_.stages; ++s) {
    for (int32_t c = 0; c < pipelines_; ++c) {
      for (int32_t m = 0; m + 1 < shape_.microbatches; ++m) {
        for (size_t kind = 0; kind < kKinds; ++kind) {
          const int32_t operation = at(static_cast<Kind>(kind), s, c, m);
          if (operation < 0) continue;
          shop_.precedences.push_back({operation, at(static_cast<Kind>(kind), s, c, m + 1)});
        }
      }
    }
  }
}

void ExactModel::share_rank(int32_t position, int32_t pipeline) {
  std::vector<int32_t>& rank = shop_.machines.emplace_back();
  for (const int32_t s : shape_.stages_at(position)) {
    for (int32_t m = 0; m < shape_.microbatches; ++m) {
      for (const Kind kind : {kForward, kRecompute, kBackward, kWeight}) {
        if (at(kind, s, pipeline, m) >= 0) rank.push_back(at(kind, s, pipeline, m));
      }
    }
  }
}

void ExactModel::limit_memory(int32_t position, int32_t pipeline, int32_t places) {
  JobShop::Store store{.places = places};
  const Kind closing = split_ ? kWeight : kBackward;
  for (const int32_t s : shape_.stages_at(position)) {
    for (int32_t m = 0; m < shape_.microbatches; ++m) {
      store.take.push_back(at(kForward, s, pipeline, m));
      store.give.push_back(at(closing, s, pipeline, m));
      if (m < places) continue;
      shop_.precedences.push_back({at(closing, s, pipeline, m - places), store.take.back()});
    }
  }
  // Of one stage, that says it all.
  if (shape_.chunks > 1) shop_.stores.push_back(std::move(store));
}

// Whatever else the rank does is before both or after both.
void ExactModel::recompute_right_before(const std::vector<int32_t>& rank) {
  for (const int32_t recompute : rank) {
    const action::Action& action = actions_[static_cast<size_t>(recompute)];
    if (action.kind != ActionKind::kRecompute) continue;
    const int32_t pipeline = owners_[static_cast<size_t>(recompute)].replica;
    const int32_t backward = at(kBackward, action.stage, pipeline, action.microbatch);
    for (const int32_t other : rank) {
      if (other == recompute || other == backward) continue;
      shop_.alike.push_back({other, recompute, other, backward});
    }
  }
}

void ExactModel::share_links() {
  std::map<std::pair<int32_t, int32_t>, std::vector<Way>> pairs;  // by positions
  bool numbered = pipelines_ == 1;
  for (int32_t boundary = 0; boundary + 1 < shape_.stages; ++boundary) {
    if (!shape_.crosses(boundary)) continue;
    for (const bool gradients : {false, true}) {
      const Way way{boundary, gradients};
      const int32_t from = shape_.position_of(boundary + (gradients ? 1 : 0));
      const int32_t to = shape_.position_of(boundary + (gradients ? 0 : 1));
      pairs[{from, to}].push_back(way);
      if (!shape_.shares(boundary) || times_.transfer_over(boundary).ns == 0) continue;
      std::vector<int32_t>& link = shop_.machines.emplace_back();
      for (int32_t c = 0; c < pipelines_; ++c) {
        for (int32_t m = 0; m < shape_.microbatches; ++m) link.push_back(transfer(way, c, m));
      }
      for (int32_t c = 0; c + 1 < pipelines_ && !numbered; ++c) {
        shop_.precedences.push_back({transfer(way, c, 0), transfer(way, c + 1, 0)});
      }
      numbered = true;
    }
  }
  for (const auto& [positions, ways] : pairs) {
    for (int32_t c = 0; c < pipelines_; ++c) share_own_links(ways, c);
  }
}

// Messages of a directed pair of ranks travel in the order of their sends, and are received in it,
// activations and gradients each.
void ExactModel::share_own_links(const std::vector<Way>& ways, int32_t pipeline) {
  std::vector<int32_t> link;
  bool takes_time = false;
  for (const Way way : ways) {
    if (shape_.shares(way.boundary)) continue;
    takes_time = takes_time || times_.transfer_over(way.boundary).ns > 0;
    for (int32_t m = 0; m < shape_.microbatches; ++m) link.push_back(transfer(way, pipeline, m));
  }
  if (takes_time) shop_.machines.push_back(link);
  for (size_t a = 0; a < ways.size(); ++a) {
    for (size_t b = a + 1; b < ways.size(); ++b) {
      const bool same_link =
          takes_time && !shape_.shares(ways[a].boundary) && !shape_.shares(ways[b].boundary);
      for (int32_t i = 0; i < shape_.microbatches; ++i) {
        for (int32_t j = 0; j < shape_.microbatches; ++j) {
          const int32_t one = sender(ways[a], pipeline, i);
          const int32_t other = sender(ways[b], pipeline, j);
          if (same_link) {
            shop_.alike.push_back(
                {one, other, transfer(ways[a], pipeline, i), transfer(ways[b], pipeline, j)});
          }
          if (ways[a].gradients != ways[b].gradients) continue;
          shop_.alike.push_back(
              {one, other, receiver(ways[a], pipeline, i), receiver(ways[b], pipeline, j)});
        }
      }
    }
  }
}

// ---- and back ----

// What takes no time goes before what starts with it; numbers decide among those, which are an
// order that fits.
std::vector<int32_t> ExactModel::sorted(std::vector<int32_t> operations,
                                        const std::vector<int64_t>& starts) const {
  const auto key = [&](int32_t operation) {
    const auto i = static_cast<size_t>(operation);
    return std::tuple{starts[i], starts[i] + shop_.durations[i], operation};
  };
  std::sort(operations.begin(), operations.end(),
            [&](int32_t a, int32_t b) { return key(a) < key(b); });
  return operations;
}

schedule::Schedule ExactModel::schedule(const std::vector<int64_t>& starts) const {
  std::vector<schedule::RankActions> compute;
  for (int32_t rank = 0; rank < shape_.ranks(); ++rank) {
    const int32_t pipeline = rank % shape_.replicas % shape_.cell % pipelines_;
    schedule::RankActions& order = compute.emplace_back();
    // Ranks are the first machines, by position and pipeline.
    const auto machine = static_cast<size_t>(rank / shape_.replicas * pipelines_ + pipeline);
    for (const int32_t operation : sorted(shop_.machines[machine], starts)) {
      order.push_back(actions_[static_cast<size_t>(operation)]);
    }
  }
  schedule::Schedule out{
      "exact", schedule::add_communication(compute, shape_, schedule::RecomputeWhen::kAhead)};
  schedule::add_update(out.ranks, shape_);
  for (int32_t boundary = 0; boundary + 1 < shape_.stages; ++boundary) {
    if (!shape_.shares(boundary)) continue;
    for (const bool gradients : {false, true}) {
      std::vector<int32_t> transfers;
      for (int32_t c = 0; c < pipelines_; ++c) {
        for (int32_t m = 0; m < shape_.microbatches; ++m) {
          transfers.push_back(transfer({boundary, gradients}, c, m));
        }
      }
      transfers = sorted(std::move(transfers), starts);
      for (int32_t cell = 0; cell < shape_.replicas / shape_.cell; ++cell) {
        schedule::LinkOrder& link =
            out.links.emplace_back(schedule::LinkOrder{boundary, gradients, cell, {}});
        for (const int32_t operation : transfers) {
          // Where pipelines do not meet, the one that was solved stands for all.
          const schedule::Transfer& owner = owners_[static_cast<size_t>(operation)];
          for (int32_t c = 0; c < shape_.cell / pipelines_; ++c) {
            link.transfers.push_back({cell * shape_.cell + owner.replica + c, owner.microbatch});
          }
        }
      }
    }
  }
  return out;
}

}  // namespace tombolo::schedule_proof::detail
