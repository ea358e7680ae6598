// [selection]: what a person tells `tombolo select` about the choice of datacenters. What is left
// out is derived from the model, the devices and the links.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/fields.h"

namespace tombolo::plan {

// In which order datacenters are filled with stages.
enum class DatacenterOrder {
  kAvailability,  // most GPUs first
  kPrice,         // cheapest GPUs first
  kDistance,      // the largest first, then always the one nearest to the last, by latency
  kFile,          // as the cluster file names them
};
constexpr auto enum_names(DatacenterOrder) {
  return std::to_array<EnumName<DatacenterOrder>>({{DatacenterOrder::kAvailability, "availability"},
                                                   {DatacenterOrder::kPrice, "price"},
                                                   {DatacenterOrder::kDistance, "distance"},
                                                   {DatacenterOrder::kFile, "file"}});
}

// The letters are those of Atlas (Palak et al. 2024, section 4.5).
struct Selection {
  std::optional<int64_t> partitions;               // P: stages of a pipeline, a GPU each
  std::optional<int64_t> micro_batches;            // M: of one pipeline per iteration
  std::optional<double> communication_to_compute;  // C: a WAN transfer over a forward pass
  std::optional<int64_t> pipelines_per_cell;       // left out: C, rounded up
  DatacenterOrder order = DatacenterOrder::kAvailability;
  std::vector<std::string> must;      // datacenters that hold at least one partition
  std::vector<std::string> must_not;  // datacenters that hold none

  bool operator==(const Selection&) const = default;
};

template <class Archive>
void describe(Archive& a, Selection& s) {
  a.optional("partitions", s.partitions);
  a.optional("micro_batches", s.micro_batches);
  a.optional("communication_to_compute", s.communication_to_compute);
  a.optional("pipelines_per_cell", s.pipelines_per_cell);
  a.optional("order", s.order);
  a.optional("must", s.must);
  a.optional("must_not", s.must_not);
  const auto within = [](const std::optional<int64_t>& number, int64_t max) {
    return !number || (*number >= 1 && *number <= max);
  };
  a.check(within(s.partitions, 100'000), "partitions", "must lie between 1 and 100000");
  a.check(within(s.micro_batches, 1'000'000), "micro_batches", "must lie between 1 and 1000000");
  a.check(!s.communication_to_compute ||
              (*s.communication_to_compute > 0 && *s.communication_to_compute <= 10'000),
          "communication_to_compute", "must lie in (0, 10000]",
          "4: a WAN transfer takes four times as long as a forward pass");
  a.check(within(s.pipelines_per_cell, 10'000), "pipelines_per_cell",
          "must lie between 1 and 10000");
}

}  // namespace tombolo::plan
