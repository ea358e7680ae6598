// Kineto's traces: what PyTorch's profiler saw, as events of the Chrome trace format.
//
// Of all events those are kept that say when something ran: operators on the host, calls of the
// CUDA runtime, kernels and copies on devices. Times are microseconds with a fraction and become
// nanoseconds here, rounded to the nearest.
//
// Reference: pytorch/kineto, output_json.cpp; Chrome's Trace Event Format.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "base/value.h"

namespace tombolo::chakra {

enum class KinetoKind : uint8_t { kOperator, kRuntime, kDevice };

struct KinetoEvent {
  KinetoKind kind = KinetoKind::kOperator;
  std::string name;
  int64_t thread = 0;  // of the host; meaningless on devices
  SimTime start;
  SimTime end;
  int64_t record = -1;       // "Record function id": the rf_id of an execution trace
  int64_t correlation = -1;  // ties a runtime call to what it started on the device
  int64_t external = -1;     // "External id": ties it to the operator, too
  int64_t device = -1, stream = -1;
  // Of communication kernels, in newer versions.
  std::string collective, group, dtype;
  int64_t elements_in = -1, peer = -1;
};

// By start, the longer first, then in the order of the file. Unusable: no "traceEvents", a negative
// duration, a time beyond 63 bits of nanoseconds.
Result<std::vector<KinetoEvent>> kineto_events(const Value& trace, const std::string& name);

}  // namespace tombolo::chakra
