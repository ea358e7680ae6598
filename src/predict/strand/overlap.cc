#include "predict/strand/overlap.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace tombolo::strand {
namespace {

constexpr double kSlowest = 1e-3;  // a pace is never 0: everything ends
constexpr double kCopy = 0.98;     // effectiveness of copies that take no multiprocessors
constexpr double kCopyError = 0.02;
constexpr double kPublishedError = 0.05;

constexpr std::array<std::string_view, 7> kClasses{
    "product", "attention", "attention-backward", "elementwise", "local", "cross", "copy"};

Pace clamped(Pace pace) {
  pace.first = std::clamp(pace.first, kSlowest, 1.0);
  pace.second = std::clamp(pace.second, kSlowest, 1.0);
  const double sum = pace.first + pace.second;
  if (sum < 1) {
    pace.first /= sum;
    pace.second /= sum;
  }
  return pace;
}

}  // namespace

Pace pace_of_effectiveness(double effectiveness, double error) {
  const double pace = 1 / (2 - std::clamp(effectiveness, 0.0, 1.0));
  return {pace, pace, error};
}

Pace pace_of_times(const PairTimes& t, double error) {
  CHECK(t.first > 0 && t.second > 0 && t.first_beside > 0 && t.second_beside > 0,
        "a pair of {} and {} together in {} and {}", t.first, t.second, t.first_beside,
        t.second_beside);
  const double together = std::min(t.first_beside, t.second_beside);
  return clamped({(t.first - (t.first_beside - together)) / together,
                  (t.second - (t.second_beside - together)) / together, error});
}

std::string_view name_in_layer(const Operator& op) {
  return std::string_view(op.name).substr(0, op.name.find('.'));
}

std::string_view class_of(const Operator& op) {
  if (!is_communication(op.kind)) return to_name(op.kind);
  return op.no_sm ? "copy" : to_name(op.stream);
}

bool is_class(std::string_view name) {
  return std::find(kClasses.begin(), kClasses.end(), name) != kClasses.end();
}

void OverlapTable::set(const std::string& first, const std::string& second, Pace pace) {
  paces_[{first, second}] = pace;
  paces_[{second, first}] = {pace.second, pace.first, pace.error};
}

const Pace* OverlapTable::find(std::string_view first, std::string_view second) const {
  const auto found = paces_.find(std::pair(std::string(first), std::string(second)));
  return found == paces_.end() ? nullptr : &found->second;
}

Pace OverlapTable::pace(const Operator& first, const Operator& second) const {
  const std::string_view names[] = {name_in_layer(first), name_in_layer(second)};
  const std::string_view classes[] = {class_of(first), class_of(second)};
  for (const auto& [a, b] : {std::pair(names[0], names[1]), std::pair(names[0], classes[1]),
                             std::pair(classes[0], names[1]), std::pair(classes[0], classes[1])}) {
    if (const Pace* found = find(a, b)) return *found;
  }
  const bool apart = first.stream != second.stream;
  if (apart && (first.no_sm || second.no_sm)) return pace_of_effectiveness(kCopy, kCopyError);
  return pace_of_effectiveness(0, 0);
}

namespace {

struct Platform {
  std::string_view name;
  std::array<std::string_view, 5> devices;  // how the catalog's names begin
  double product_local, attention_local, product_cross, attention_cross, local_cross;
};
constexpr Platform kPlatforms[] = {
    {"A40", {"a40"}, 0.89, 0.94, 0.97, 1.00, 0.37},
    {"A800", {"a800", "a100", "v100"}, 0.89, 0.70, 0.85, 0.97, 0.99},
    {"H100", {"h100", "h200", "h20", "b200", "gb"}, 0.74, 0.71, 0.89, 1.00, 1.00}};

}  // namespace

PublishedOverlap published_overlap(std::string_view device) {
  constexpr std::string_view kEmulated = "emulated:";
  if (device.starts_with(kEmulated)) device.remove_prefix(kEmulated.size());
  const Platform* platform = nullptr;
  bool same = false;
  for (const Platform& each : kPlatforms) {
    for (const std::string_view begin : each.devices) {
      if (begin.empty() || !device.starts_with(begin)) continue;
      platform = &each;
      same = begin == each.devices[0];
    }
  }
  if (!platform) platform = &kPlatforms[2];
  PublishedOverlap out{.platform = std::string(platform->name), .nearest = !same};
  const auto set = [&](const char* first, const char* second, double effectiveness) {
    out.table.set(first, second, pace_of_effectiveness(effectiveness, kPublishedError));
  };
  for (const char* work : {"product", "elementwise"}) {
    set(work, "local", platform->product_local);
    set(work, "cross", platform->product_cross);
  }
  for (const char* work : {"attention", "attention-backward"}) {
    set(work, "local", platform->attention_local);
    set(work, "cross", platform->attention_cross);
  }
  set("local", "cross", platform->local_cross);
  return out;
}

}  // namespace tombolo::strand
