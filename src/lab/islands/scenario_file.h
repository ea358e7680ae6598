// The input of `tools/islands` and `tools/wanem`: a cluster file, a job or a Plan.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "lab/wanem/scenario.h"
#include "spec/cluster/cluster.h"
#include "spec/cluster/islands.h"

namespace tombolo::islands {

struct Emulation {
  std::string file;
  cluster::Cluster cluster;
  double byte_scale = 1;
  std::vector<cluster::Host> hosts;  // layout.h
  wanem::Scenario scenario;
};

// byte_scale: from the command line; left out: the job's or Plan's own, or 1.
Result<Emulation> read_emulation(const std::string& file, std::optional<double> byte_scale);

// Unusable where `after` differs in more than the conditions of links: hosts and the pairs that are
// linked must stay.
Status check_reload(const Emulation& before, const Emulation& after);

}  // namespace tombolo::islands
