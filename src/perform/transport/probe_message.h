// What the two sides of a probe (probe.h) say to each other: questions and answers, in JSON of at
// most 16 KiB.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "perform/link/message.h"

namespace tombolo::transport {

constexpr int32_t kProbeCellsMax = 1000;
constexpr Seconds kProbeCellMax{60};

// The near side asks: measure this, or (connections == 0) only answer.
struct ProbeQuestion {
  int64_t cell = -1;
  uint32_t connections = 0;
  std::string congestion_control;
  bool forth = true;
  double warmup_s = 0;
  double counted_s = 0;

  bool operator==(const ProbeQuestion&) const = default;
};

struct ProbeAnswer {
  double bytes_per_second = 0;  // forth: what arrived here
  double round_trip_s = 0;      // back: TCP's here
  std::vector<std::string> congestion_controls;

  bool operator==(const ProbeAnswer&) const = default;
};

link::Payload encode(const ProbeQuestion& question);
link::Payload encode(const ProbeAnswer& answer);
// Refuses what is out of bounds.
Result<ProbeQuestion> decode_probe_question(const link::Payload& payload);
Result<ProbeAnswer> decode_probe_answer(const link::Payload& payload);

}  // namespace tombolo::transport
