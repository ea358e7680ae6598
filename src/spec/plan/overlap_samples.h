// What `tombolo profile --overlap` measures here: operators of a layer alone and concurrently, repeat by
// repeat, before medians are made of them (predict/strand/profile_of_samples.h).
//
// In each repeat every operator is measured alone, twice, and each pair from a common start. All lists have one
// time for each repeat, in the same order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/fields.h"

namespace tombolo::plan {

struct OperatorSamples {
  std::string name;  // "FC1"
  std::vector<int64_t> alone_ns, again_ns;

  bool operator==(const OperatorSamples&) const = default;
};

// When each of two operators ended after a common start.
struct PairSamples {
  std::string first, second;
  std::vector<int64_t> first_ns, second_ns;

  bool operator==(const PairSamples&) const = default;
};

struct OverlapSamples {
  std::vector<OperatorSamples> operators;
  std::vector<PairSamples> pairs;  // of those

  bool operator==(const OverlapSamples&) const = default;
};

// Every operator takes some time.
inline bool are_times(const std::vector<int64_t>& ns) {
  return !ns.empty() && std::ranges::all_of(ns, [](int64_t each) { return each > 0; });
}

template <class Archive>
void describe(Archive& a, OperatorSamples& samples) {
  a.required("name", samples.name);
  a.required("alone_ns", samples.alone_ns);
  a.required("again_ns", samples.again_ns);
  a.check(are_times(samples.alone_ns), "alone_ns", "must be times above 0");
  a.check(are_times(samples.again_ns) && samples.again_ns.size() == samples.alone_ns.size(),
          "again_ns", "must be as many times above 0");
}

template <class Archive>
void describe(Archive& a, PairSamples& samples) {
  a.required("first", samples.first);
  a.required("second", samples.second);
  a.required("first_ns", samples.first_ns);
  a.required("second_ns", samples.second_ns);
  a.check(are_times(samples.first_ns), "first_ns", "must be times above 0");
  a.check(are_times(samples.second_ns) && samples.second_ns.size() == samples.first_ns.size(),
          "second_ns", "must be as many times above 0");
}

template <class Archive>
void describe(Archive& a, OverlapSamples& samples) {
  a.required("operators", samples.operators);
  a.required("pairs", samples.pairs);
  a.check(!samples.operators.empty(), "operators", "must not be empty");
}

}  // namespace tombolo::plan
