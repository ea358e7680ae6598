// Jobs that share one cluster: the rectangle of rails and domains that each of them gets, and how long its
// iteration takes there.
//
// A rectangle of w rails is a cluster of its own with domains of w GPUs, since no traffic leaves it; the law
// prices it like any other. A job may have a rectangle if
//
//   w times the domains is what its parallelism takes: t c d p
//   its degrees fill w, innermost first: each divides what is left, or what is left divides it
//   a tensor group lies in one domain, if a domain has as many GPUs at all
//   its expert groups lie evenly over domains
//
// Then tensor, context and data parallelism go along rails and inside domains. Experts' tokens are forwarded
// (fabric_price.h), and where some stages of a pipeline share a domain, what they hand to the next one;
// both inside the rectangle. Shapes are told apart by the time of the iteration: what a job loses in a
// slower one counts in GPUs, (T / T_fastest - 1) N.
//
// To compare with, the same on a Clos, where any GPUs will do (any_gpus.h). docs/laws/rectangles.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "decide/search/tiling.h"
#include "predict/cost/law.h"
#include "spec/plan/job.h"

namespace tombolo::search {

struct JobRectangle {
  int64_t rails = 1, domains = 1;
  int64_t stages = 1;  // of a pipeline that share a domain
  Seconds forwarding;  // of experts' tokens, in the iteration
  Seconds iteration;
};

struct TiledJob {
  std::string file, name;
  int64_t gpus = 0;
  std::vector<JobRectangle> rectangles;  // that it may have, the fastest first
  std::optional<Tile> tile;              // `shape` is that of `rectangles`
  std::string why_not;                   // it has none
  std::optional<Seconds> clos_iteration;
};

struct JobTiling {
  int64_t rails = 0, domains = 0;  // of the cluster; GPUs of a domain that is not whole stay out
  std::vector<TiledJob> jobs;
  Tiling tiling;
  int64_t clos_gpus = 0;
  std::vector<std::string> notes;

  int64_t gpus() const { return rails * domains; }
  bool all_placed() const;
};

// Unusable: no jobs, jobs of different clusters, several datacenters, tensor degrees per stage, and what the
// law refuses.
Result<JobTiling> tile_jobs(const std::vector<plan::Job>& jobs, cost::Law law);

}  // namespace tombolo::search
