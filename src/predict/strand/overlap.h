// How fast two operators progress when they run concurrently.
//
// An operator alone progresses at 1. Concurrently with another it progresses at a pace in (0, 1],
// which may differ from the other's: a product may lose a tenth to a gather that loses a third.
// From times measured alone (Ti, Tj) and from a common start (Fi, Fj, with Fi the first to end)
//
//   pace_i = Ti / Fi        pace_j = (Tj - (Fj - Fi)) / Fi
//
// The overlap effectiveness of Wang et al. 2024 (DHelix), equation 1,
//
//   o = (Ti + Tj - max(Fi, Fj)) / min(Ti, Tj)
//
// is the special case of equal paces 1/(2 - o). With two others the paces multiply, which is an
// assumption. Paces are clamped to at most 1 and to a sum of at least 1: whatever was measured, a
// pair is worth at least running one after the other, and no more than both at full speed.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "predict/strand/dag.h"

namespace tombolo::strand {

struct Pace {
  double first = 1;
  double second = 1;
  double error = 0;  // standard deviation of either, as a share of it

  bool operator==(const Pace&) const = default;
};

// Clamped; effectiveness 0 is one after the other, 1 is all of the shorter one hidden.
Pace pace_of_effectiveness(double effectiveness, double error);

// Times alone, and from a common start; in one unit, all above 0.
struct PairTimes {
  double first = 0, second = 0;
  double first_beside = 0, second_beside = 0;

  bool operator==(const PairTimes&) const = default;
};
Pace pace_of_times(const PairTimes& times, double error);

// What an operator goes by in tables that do not name it: its kind, or of communication "local",
// "cross", or "copy" where it takes no multiprocessors.
std::string_view class_of(const Operator& op);
bool is_class(std::string_view name);

// "FC1" of the "FC1.2" of a second layer.
std::string_view name_in_layer(const Operator& op);

class OverlapTable {
 public:
  // `first` and `second` are names of operators or of classes.
  void set(const std::string& first, const std::string& second, Pace pace);

  // By the names of both, of one and the class of the other, or the classes. What stands nowhere is
  // taken one after the other, but a copy, which hides behind anything but its own link.
  Pace pace(const Operator& first, const Operator& second) const;

 private:
  const Pace* find(std::string_view first, std::string_view second) const;

  std::map<std::pair<std::string, std::string>, Pace, std::less<>> paces_;
};

// Wang et al. 2024 (DHelix), figure 4 in the revision of February 2025: effectiveness on A40, A800
// and H100, without repeats or spread, for which `error` stands. Fused attention is measured in its
// backward pass only and taken alike forward; element-wise work is taken like products.
struct PublishedOverlap {
  std::string platform;  // "A40"
  bool nearest = false;  // the device is another one
  OverlapTable table;
};
PublishedOverlap published_overlap(std::string_view device);

}  // namespace tombolo::strand
