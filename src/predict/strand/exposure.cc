#include "predict/strand/exposure.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/check.h"

namespace tombolo::strand {
namespace {

size_t cause_of(Kind kind) {
  CHECK(is_communication(kind), "{} is no communication", to_name(kind));
  return static_cast<size_t>(kind) - static_cast<size_t>(Kind::kTensor);
}

// What runs between two neighbouring instants at which something starts or ends.
void account(const StrandPair& pair, const std::vector<size_t>& running, double span, Exposure& e) {
  double pace = 1;
  bool computes = false;
  std::vector<size_t> causes;
  for (const size_t op : running) {
    if (is_communication(pair[op].kind)) {
      causes.push_back(cause_of(pair[op].kind));
      continue;
    }
    computes = true;
    for (const size_t other : running) {
      if (other != op) pace *= pair.pace(op, other);
    }
  }
  if (computes) {
    e.slowdown += span * (1 - pace);
  } else if (causes.empty()) {
    e.standing += span;
  } else {
    for (const size_t cause : causes) e.waiting[cause] += span / static_cast<double>(causes.size());
  }
}

}  // namespace

double Exposure::communication_total() const {
  return std::accumulate(communication.begin(), communication.end(), 0.0);
}

double Exposure::hidden_share() const {
  const double all = communication_total();
  return all > 0 ? 1 - exposed() / all : 0;
}

Exposure exposure_of(const StrandPair& pair, std::span<const OperatorRun> runs, double seconds) {
  Exposure e;
  e.seconds = seconds;
  e.computation = pair.stream_seconds(Stream::kCompute);
  std::vector<double> instants{0, seconds};
  for (const OperatorRun& run : runs) {
    instants.push_back(run.start);
    instants.push_back(run.end);
    const Operator& op = pair[run.op];
    if (is_communication(op.kind)) e.communication[cause_of(op.kind)] += op.seconds;
  }
  std::sort(instants.begin(), instants.end());
  for (size_t at = 1; at < instants.size(); ++at) {
    const double begin = instants[at - 1], end = instants[at];
    if (end <= begin) continue;
    std::vector<size_t> running;
    for (const OperatorRun& run : runs) {
      if (run.start <= begin && run.end >= end) running.push_back(run.op);
    }
    account(pair, running, end - begin, e);
  }
  return e;
}

}  // namespace tombolo::strand
