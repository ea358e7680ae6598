// Exposed time: what a rank's time until its end went to, and what a network carried.
//
// Each instant counts once, for the first of these that is under way: a computation on the
// accelerator, one on the host, a transfer from or to remote memory, communication; else it is
// idle. So the parts add up to the rank's end, to the nanosecond. What a computation by roofline
// takes beyond operations / peak performance is the local memory's: that part would go with a
// faster memory.
#pragma once

#include <cstdint>
#include <string>

#include "base/time.h"

namespace tombolo::trace {

struct ExposedTime {
  SimDuration compute, host, local_memory, remote_memory, communication, idle;

  SimDuration total() const {
    return compute + host + local_memory + remote_memory + communication + idle;
  }
  bool operator==(const ExposedTime&) const = default;
};

// Of a rank, or of several as their mean: the label says which.
struct ExposedRow {
  std::string label;
  ExposedTime time;

  bool operator==(const ExposedRow&) const = default;
};

// What NPUs send along a dimension of their network until the last of them ends. An NPU has one
// link into a switch, one to every other NPU of a full mesh, two on a ring, and on a WAN its part
// of the paths that all NPUs of its datacenter share. A message over several hops is carried by as
// many links. Shares are those of all links of an NPU at their bandwidth. They may exceed 1 under
// laws that let messages share a link without slowing down.
struct DimensionUse {
  std::string label;      // "0: Ring(16), 50 * 2^30 B/s, 500 ns"
  int64_t bytes = 0;      // sent by all NPUs, each byte counted once
  double bytes_mean = 0;  // by an NPU
  int64_t bytes_max = 0;
  double busy_mean = 0;  // share of the time until the end
  double busy_max = 0;   // of the busiest NPU

  bool operator==(const DimensionUse&) const = default;
};

// One line of what a run was made from: "network", "network.yml: Ring(8) x Switch(4)".
struct InputFact {
  std::string what;
  std::string text;

  bool operator==(const InputFact&) const = default;
};

template <class Archive>
void describe(Archive& a, ExposedTime& time) {
  const auto part = [&](const char* key, SimDuration& duration) {
    a.required(key, duration.ns);
    a.check(duration.ns >= 0 && duration.ns < int64_t{1} << 60, key,
            "must lie between 0 and 36 years");
  };
  part("compute_ns", time.compute);
  part("host_ns", time.host);
  part("local_memory_ns", time.local_memory);
  part("remote_memory_ns", time.remote_memory);
  part("communication_ns", time.communication);
  part("idle_ns", time.idle);
}

template <class Archive>
void describe(Archive& a, ExposedRow& row) {
  a.required("label", row.label);
  a.required("time", row.time);
}

template <class Archive>
void describe(Archive& a, DimensionUse& use) {
  a.required("label", use.label);
  a.required("bytes", use.bytes);
  a.required("bytes_mean", use.bytes_mean);
  a.required("bytes_max", use.bytes_max);
  a.required("busy_mean", use.busy_mean);
  a.required("busy_max", use.busy_max);
}

template <class Archive>
void describe(Archive& a, InputFact& fact) {
  a.required("what", fact.what);
  a.required("text", fact.text);
}

}  // namespace tombolo::trace
