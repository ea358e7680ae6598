// The hardware file: what `tombolo profile` measured on this machine, for `simulate` and `train`.
//
// A measurement speaks only for what was measured: the file names the model, the microbatch and
// the slices, and a job that asks for anything else is refused with the command that measures it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/fields.h"
#include "base/result.h"
#include "base/units.h"
#include "spec/model/model.h"
#include "spec/plan/stage_cost.h"

namespace tombolo::plan {

struct MeasuredStage {
  model::Slice slice;
  std::string device;      // as the cluster names it
  StageCost cost;          // medians
  int64_t samples = 0;     // how many microbatches were timed
  Seconds forward_spread;  // interquartile range
  Seconds backward_spread;

  bool operator==(const MeasuredStage&) const = default;
};

struct MeasuredLink {
  std::vector<std::string> between;  // two datacenters
  Seconds one_way_latency;
  BytesPerSecond rate;  // of one flow

  bool operator==(const MeasuredLink&) const = default;
};

struct Hardware {
  std::string machine;  // processor, cores, BLAS: what the figures belong to
  std::string command;  // that measured
  model::Model model;
  int64_t micro_batch = 0;
  std::string precision;
  model::Recompute recompute = model::Recompute::kNone;
  std::vector<MeasuredStage> stages;
  std::vector<MeasuredLink> links;

  const MeasuredStage* find(const model::Slice& slice, const std::string& device) const;
  bool operator==(const Hardware&) const = default;
};

inline constexpr int kHardwareVersion = 1;

std::string to_json_text(const Hardware& hardware);
Result<Hardware> parse_hardware(std::string_view text, const std::string& name);
Result<Hardware> read_hardware(const std::string& path);
std::vector<KeyEntry> hardware_keys();

// Also embedded in Plans.
template <class Archive>
void describe(Archive& a, MeasuredLink& link) {
  a.required("between", link.between, "two datacenters");
  a.required("one_way_latency", link.one_way_latency, "measured");
  a.required("rate", link.rate, "of one flow");
  a.check(link.between.size() == 2, "between", "wanted two datacenters");
  a.check(link.rate.value > 0, "rate", "must be positive");
}

}  // namespace tombolo::plan
