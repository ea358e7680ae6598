#include "ui/command/stages.h"

#include <algorithm>

#include "base/text_table.h"

namespace tombolo::command {
namespace {

using cost::PlacedStage;

// Neighbouring stages that are alike but for their layers.
struct StageGroup {
  const PlacedStage* first = nullptr;
  const PlacedStage* last = nullptr;
  std::vector<int64_t> layers;
  const PlacedStage* fullest = nullptr;

  int64_t stages() const { return static_cast<int64_t>(layers.size()); }
};

std::vector<StageGroup> groups_of(const std::vector<PlacedStage>& stages) {
  std::vector<StageGroup> groups;
  for (const PlacedStage& stage : stages) {
    if (groups.empty() || groups.back().first->datacenter != stage.datacenter ||
        groups.back().last->stage + 1 != stage.stage ||
        groups.back().first->tensor != stage.tensor) {
      groups.push_back({.first = &stage, .layers = {}, .fullest = &stage});
    }
    StageGroup& group = groups.back();
    group.last = &stage;
    group.layers.push_back(stage.layers);
    if (stage.memory.total() > group.fullest->memory.total()) group.fullest = &stage;
  }
  return groups;
}

// "5 x9, 4": runs of equal numbers.
std::string layers_text(const std::vector<int64_t>& layers) {
  std::string text;
  for (size_t i = 0; i < layers.size();) {
    size_t end = i;
    while (end < layers.size() && layers[end] == layers[i]) ++end;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", layers[i]);
    if (end - i > 1) text += fmt::format(" x{}", end - i);
    i = end;
  }
  return text;
}

}  // namespace

std::string way_text(const std::vector<PlacedStage>& stages) {
  std::string text;
  for (const StageGroup& group : groups_of(stages)) {
    text +=
        fmt::format("{}{} {}", text.empty() ? "" : ", ", group.first->datacenter, group.stages());
  }
  return text;
}

std::string microbatches_text(int64_t most, const std::vector<int64_t>& each) {
  constexpr ptrdiff_t kListed = 6;
  if (each.size() < 2) return fmt::format("{}", most);
  if (std::ssize(each) > kListed) {
    return fmt::format("{} to {}", *std::min_element(each.begin(), each.end()), most);
  }
  return fmt::format("{} and {}", fmt::join(each.begin(), each.end() - 1, ", "), each.back());
}

std::string time_text(const cost::MixedIteration& time) {
  return fmt::format("{} round trip, then {} a microbatch, then {} for gradients and optimizer",
                     brief(time.round_trip), brief(time.period), brief(time.end));
}

void print_stages(std::ostream& out, const std::vector<PlacedStage>& stages) {
  TextTable table({text_column("stages"), text_column("datacenter"), text_column("device"),
                   "tensor", text_column("layers"), "forward", "backward",
                   text_column("fullest stage")});
  for (const StageGroup& group : groups_of(stages)) {
    const std::string numbers = group.stages() == 1
                                    ? fmt::format("{}", group.first->stage)
                                    : fmt::format("{}-{}", group.first->stage, group.last->stage);
    table.row({numbers, group.first->datacenter, group.first->device,
               fmt::format("{}", group.first->tensor), layers_text(group.layers),
               brief(group.first->forward), brief(group.first->backward),
               fmt::format("{} of {}", brief(group.fullest->memory.total()),
                           brief(group.fullest->memory_of_device))});
  }
  out << table.text();
}

Value::Array stages_json(const std::vector<PlacedStage>& stages) {
  Value::Array out;
  for (const PlacedStage& s : stages) {
    out.emplace_back(Value::Table{{"stage", s.stage},
                                  {"datacenter", s.datacenter},
                                  {"device", s.device},
                                  {"devices", s.devices},
                                  {"tensor", s.tensor},
                                  {"first_layer", s.first_layer},
                                  {"layers", s.layers},
                                  {"forward_s", s.forward.value},
                                  {"backward_s", s.backward.value},
                                  {"memory_bytes", s.memory.total().value},
                                  {"device_bytes", s.memory_of_device.value}});
  }
  return out;
}

Value::Table parts_json(const cost::MixedIteration& time) {
  return {{"round_trip_s", time.round_trip.value},
          {"period_s", time.period.value},
          {"end_s", time.end.value}};
}

Value egress_json(const cluster::Cluster& cluster, Dollars egress) {
  const bool priced = std::any_of(cluster.wan.begin(), cluster.wan.end(),
                                  [](const auto& link) { return link.price.value > 0; });
  return priced ? Value(egress.value) : Value();
}

}  // namespace tombolo::command
