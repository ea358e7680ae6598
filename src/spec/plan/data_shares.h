// Which pipeline trains on which files: [[data.share]].
//
// Data may have to stay where it is, by law or because the WAN is too slow. A share's files belong
// to pipelines as a whole, because two ranks of a pipeline read them: that of the first stage the
// inputs, that of the last one the targets. So both must lie in a datacenter that has the files; no
// token id travels from rank to rank. Other ranks open nothing.
//
// A pipeline reads one share: the one that names it in `pipelines`, else the one that has the
// datacenters of both its ends.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "spec/plan/plan.h"

namespace tombolo::plan {

// Files, and the pipelines that share their samples.
struct DataReaders {
  std::vector<std::string> tokens;
  std::vector<int32_t> pipelines;  // ascending
  uint64_t seed = 1;               // of the order of the samples
  std::string key;                 // "data.tokens", "data.share[1].tokens"
};

// One for each share, in their order; for data.tokens one, which all pipelines read. Share k is
// ordered by seed + k, so that shares with the same files differ. The Plan must have token files.
// Unusable, by share, rank and datacenter, where a pipeline has no share, where it lies elsewhere
// than the share that names it, and where no pipeline reads a share. Cost: O(shares x pipelines).
Result<std::vector<DataReaders>> data_readers(const Plan& plan);

// Unusable where a share names a datacenter that the cluster lacks. `file` is for messages.
Status check_share_names(const Data& data, const cluster::Cluster& cluster,
                         const std::string& file);

}  // namespace tombolo::plan
