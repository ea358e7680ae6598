#include "spec/plan/data_shares.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/fields.h"

namespace tombolo::plan {
namespace {

template <class T, class Key>
bool holds(const std::vector<T>& list, const Key& key) {
  return std::find(list.begin(), list.end(), key) != list.end();
}

// The ranks of a pipeline that read data.
struct Ends {
  int32_t pipeline = 0;
  int32_t first = 0, last = 0;  // equal where one rank has both stages
};

Ends ends_of(const Plan& plan, int32_t pipeline) {
  const auto last_stage = static_cast<int32_t>(plan.stages.size()) - 1;
  return {pipeline, plan.rank_of(0, pipeline), plan.rank_of(last_stage, pipeline)};
}

const std::string& where(const Plan& plan, int32_t rank) {
  return plan.ranks[static_cast<size_t>(rank)].datacenter;
}

// "rank 1 in oslo has its first stage, rank 3 in paris its last one"
std::string text(const Plan& plan, const Ends& ends) {
  if (ends.first == ends.last) {
    return fmt::format("rank {} in {} has its first and its last stage", ends.first,
                       where(plan, ends.first));
  }
  return fmt::format("rank {} in {} has its first stage, rank {} in {} its last one", ends.first,
                     where(plan, ends.first), ends.last, where(plan, ends.last));
}

// The first of both ends that lies where the share's files are not.
std::optional<int32_t> end_without(const Plan& plan, const DataShare& share, const Ends& ends) {
  if (share.datacenters.empty()) return std::nullopt;
  for (const int32_t rank : {ends.first, ends.last}) {
    if (!holds(share.datacenters, where(plan, rank))) return rank;
  }
  return std::nullopt;
}

constexpr const char* kTry =
    "the files in both datacenters, both named by the share; parallelism.datacenter_per_stage with "
    "the first and the last stage in one datacenter; or schedule = \"zb-v\" with virtual_stages = "
    "2, where one rank has both";

Result<size_t> share_of_pipeline(const Plan& plan, const Ends& ends) {
  const std::vector<DataShare>& shares = plan.data->share;
  for (size_t k = 0; k < shares.size(); ++k) {
    if (!holds(shares[k].pipelines, int64_t{ends.pipeline})) continue;
    const std::optional<int32_t> without = end_without(plan, shares[k], ends);
    if (!without) return k;
    return unusable(
        fmt::format("data.share[{}] names pipeline {} and lies in {}: rank {}, which "
                    "has its {} stage, is in {}",
                    k, ends.pipeline, fmt::join(shares[k].datacenters, " and "), *without,
                    *without == ends.first ? "first" : "last", where(plan, *without)),
        kTry);
  }
  for (size_t k = 0; k < shares.size(); ++k) {
    if (shares[k].pipelines.empty() && !end_without(plan, shares[k], ends)) return k;
  }
  const std::string &first = where(plan, ends.first), &last = where(plan, ends.last);
  return unusable(
      fmt::format("no data.share is for pipeline {}: {}", ends.pipeline, text(plan, ends)),
      first == last ? fmt::format("a share with datacenters = [\"{}\"], or with {} among its "
                                  "pipelines",
                                  first, ends.pipeline)
                    : kTry);
}

Status check_pipelines(const Plan& plan) {
  const std::vector<DataShare>& shares = plan.data->share;
  for (size_t k = 0; k < shares.size(); ++k) {
    for (const int64_t pipeline : shares[k].pipelines) {
      if (pipeline < plan.replicas()) continue;
      return unusable(
          fmt::format("data.share[{}].pipelines names pipeline {}: with "
                      "parallelism.data = {} they count from 0 to {}",
                      k, pipeline, plan.replicas(), plan.replicas() - 1));
    }
  }
  return {};
}

// Data that a person meant to train on is not left out in silence.
Status check_all_read(const Plan& plan, const std::vector<DataReaders>& readers) {
  for (size_t k = 0; k < readers.size(); ++k) {
    if (!readers[k].pipelines.empty()) continue;
    return unusable(fmt::format("no rank reads data.share[{}] in {}; of pipeline 0, {}", k,
                                fmt::join(plan.data->share[k].datacenters, " and "),
                                text(plan, ends_of(plan, 0))),
                    "the datacenters or the pipelines that should read it, or leaving it out");
  }
  return {};
}

}  // namespace

Result<std::vector<DataReaders>> data_readers(const Plan& plan) {
  CHECK(plan.data && plan.data->of_tokens(), "no token files in the Plan");
  const Data& data = *plan.data;
  const uint64_t seed = data.seed.value_or(plan.run.seed);
  std::vector<DataReaders> readers;
  if (data.share.empty()) {
    readers.push_back({.tokens = data.tokens, .seed = seed, .key = "data.tokens"});
    for (int32_t r = 0; r < plan.replicas(); ++r) readers.front().pipelines.push_back(r);
    return readers;
  }
  TRY(check_pipelines(plan));
  for (size_t k = 0; k < data.share.size(); ++k) {
    readers.push_back({.tokens = data.share[k].tokens,
                       .seed = seed + k,
                       .key = fmt::format("data.share[{}].tokens", k)});
  }
  for (int32_t r = 0; r < plan.replicas(); ++r) {
    readers[TRY(share_of_pipeline(plan, ends_of(plan, r)))].pipelines.push_back(r);
  }
  TRY(check_all_read(plan, readers));
  return readers;
}

Status check_share_names(const Data& data, const cluster::Cluster& cluster,
                         const std::string& file) {
  std::vector<std::string> known;
  for (const cluster::Datacenter& datacenter : cluster.datacenters)
    known.push_back(datacenter.name);
  for (size_t k = 0; k < data.share.size(); ++k) {
    for (const std::string& name : data.share[k].datacenters) {
      if (holds(known, name)) continue;
      return unusable(fmt::format("{}: data.share[{}].datacenters: there is no datacenter \"{}\"",
                                  file, k, name),
                      one_of(name, known));
    }
  }
  return {};
}

}  // namespace tombolo::plan
