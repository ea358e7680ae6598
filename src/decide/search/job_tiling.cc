#include "decide/search/job_tiling.h"

#include <algorithm>
#include <map>

#include "decide/search/any_gpus.h"
#include "decide/search/fabric_price.h"
#include "predict/estimate/estimate.h"

namespace tombolo::search {
namespace {

constexpr size_t kJobsMax = 500;

const cluster::Datacenter& datacenter(const plan::Job& job) { return job.cluster.datacenters[0]; }

// What differs, for the message.
std::string difference(const cluster::Datacenter& a, const cluster::Datacenter& b) {
  const auto differ = [](const char* key, auto mine, auto first) {
    return mine == first ? std::string() : fmt::format("{} = {}, not {}", key, mine, first);
  };
  for (const std::string& each :
       {differ("device", a.device.name, b.device.name), differ("nodes", a.nodes, b.nodes),
        differ("devices_per_node", a.devices_per_node, b.devices_per_node),
        differ("scale_up.domain", a.scale_up.domain, b.scale_up.domain),
        differ("scale_up.bandwidth", brief(a.scale_up.bandwidth), brief(b.scale_up.bandwidth)),
        differ("scale_out.bandwidth", brief(a.scale_out.bandwidth),
               brief(b.scale_out.bandwidth))}) {
    if (!each.empty()) return each;
  }
  return fmt::format("name = \"{}\", or a latency, fabric or price", a.name);
}

Status check(const std::vector<plan::Job>& jobs) {
  if (jobs.empty()) return unusable("--jobs is empty", "--jobs a.toml,b.toml");
  if (jobs.size() > kJobsMax) {
    return unusable(fmt::format("--jobs: {} jobs; at most {}", jobs.size(), kJobsMax));
  }
  for (const plan::Job& job : jobs) {
    if (job.cluster.datacenters.size() != 1) {
      return unusable(fmt::format("{}: cluster: {} datacenters; a fabric joins the GPUs of one",
                                  job.file, job.cluster.datacenters.size()),
                      "one [[cluster.datacenter]]");
    }
    if (!job.parallelism.tensor_per_stage.empty()) {
      return unusable(fmt::format("{}: parallelism.tensor_per_stage: a rectangle holds one tensor "
                                  "degree",
                                  job.file),
                      "tensor = 8 for all stages");
    }
    if (!(datacenter(job) == datacenter(jobs[0]))) {
      return unusable(
          fmt::format("{}: cluster.datacenter[0].{} as in {}: jobs that share a cluster describe "
                      "the same one",
                      job.file, difference(datacenter(job), datacenter(jobs[0])), jobs[0].file),
          "[cluster] file = \"cluster.toml\" in each of them");
    }
  }
  return {};
}

// How many stages of a pipeline share a domain part of `rails` GPUs that the degrees fill, innermost first;
// nothing: they do not fill it.
std::optional<int64_t> stages_of_domain(const layout::Parallelism& p,
                                        const layout::DimensionOrder& order, int64_t rails) {
  const std::map<layout::Dimension, int64_t> degrees = {
      {layout::Dimension::kTensor, p.tensor},
      {layout::Dimension::kContext, p.context},
      {layout::Dimension::kData, p.data},
      {layout::Dimension::kPipeline, p.pipeline},
      {layout::Dimension::kExpert, 1}};  // among those of context and data
  int64_t left = rails, stages = 1;
  for (const layout::Dimension dimension : order) {
    const int64_t degree = degrees.at(dimension);
    if (left % degree != 0 && degree % left != 0) return std::nullopt;
    const int64_t inside = std::min(left, degree);
    if (dimension == layout::Dimension::kPipeline) stages = inside;
    left /= inside;
  }
  return left == 1 ? std::optional(stages) : std::nullopt;
}

// The job on a cluster that is its rectangle.
plan::Job inside(plan::Job job, int64_t rails, int64_t domains) {
  cluster::Datacenter& here = job.cluster.datacenters[0];
  here.scale_up.domain = rails;
  here.devices_per_node = rails;
  here.nodes = domains;
  return job;
}

class Rectangles {
 public:
  Rectangles(int64_t rails, cost::Law law) : rails_(rails), law_(law) {}

  // Those of a job, the fastest first, also such as have too many domains.
  Result<std::vector<JobRectangle>> of(const plan::Job& job, int64_t gpus, bool& fits) const {
    const layout::Parallelism& p = job.parallelism;
    const layout::DimensionOrder order = TRY(layout::dimension_order(p, job.file));
    std::vector<JobRectangle> out;
    for (int64_t rails = std::min(gpus, rails_); rails >= 1; --rails) {
      if (gpus % rails != 0) continue;
      const std::optional<int64_t> stages = stages_of_domain(p, order, rails);
      if (!stages) continue;
      if (rails % p.tensor != 0 && p.tensor <= rails_) continue;
      const plan::Job part = inside(job, rails, gpus / rails);
      if (p.expert > 1 && !expert_grid(part)) continue;
      const auto estimate = TRY(during(
          estimate::estimate(part, law_),
          fmt::format("estimating {} on {} rails of {} domains", job.file, rails, gpus / rails)));
      const Seconds forwarded = TRY(forwarding(part));
      out.push_back({.rails = rails,
                     .domains = gpus / rails,
                     .stages = *stages,
                     .forwarding = forwarded,
                     .iteration = estimate.iteration + forwarded});
      fits = estimate.fits();  // in all of them or in none
    }
    std::ranges::stable_sort(out, {}, &JobRectangle::iteration);
    return out;
  }

 private:
  int64_t rails_;  // of the cluster
  cost::Law law_;
};

std::vector<RectangleShape> shapes_of(const TiledJob& job) {
  std::vector<RectangleShape> out;
  for (const JobRectangle& each : job.rectangles) {
    const double slower = each.iteration / job.rectangles[0].iteration - 1;
    out.push_back({each.rails, each.domains, slower * static_cast<double>(job.gpus)});
  }
  return out;
}

std::string shapes_text(const TiledJob& job) {
  constexpr size_t kShown = 4;
  std::string out;
  for (size_t i = 0; i < std::min(kShown, job.rectangles.size()); ++i) {
    out += fmt::format("{}{} x {}", i == 0 ? "" : ", ", job.rectangles[i].rails,
                       job.rectangles[i].domains);
  }
  return out + (job.rectangles.size() > kShown ? ", ..." : "");
}

// Why a job has no place, once the others have theirs.
std::string why_not(const TiledJob& job, const JobTiling& all) {
  const int64_t left = all.gpus() - all.tiling.gpus;
  if (job.gpus > all.gpus()) {
    return fmt::format("takes {} GPUs, {} more than the cluster has", job.gpus,
                       job.gpus - all.gpus());
  }
  if (job.rectangles.empty()) {
    return fmt::format(
        "no rectangle of {} GPUs on {} rails of {} domains keeps its groups on rails "
        "and in domains",
        job.gpus, all.rails, all.domains);
  }
  if (left == 0) return fmt::format("takes {} GPUs, and none is left over", job.gpus);
  if (job.gpus > left) {
    return fmt::format("takes {} GPUs, {} more than the {} left over", job.gpus, job.gpus - left,
                       left);
  }
  return fmt::format("{} GPUs are left over, none of them a rectangle of {}", left,
                     shapes_text(job));
}

// Stages that share a domain, while others lie elsewhere, hand on to another rail at its edge.
void note_edges(const std::vector<plan::Job>& jobs, JobTiling& all) {
  std::string names;
  for (size_t i = 0; i < jobs.size(); ++i) {
    const TiledJob& job = all.jobs[i];
    if (!job.tile) continue;
    const int64_t stages = job.rectangles[job.tile->shape].stages;
    if (stages > 1 && stages < jobs[i].parallelism.pipeline) {
      names += (names.empty() ? "" : ", ") + job.name;
    }
  }
  if (names.empty()) return;
  all.notes.push_back(fmt::format(
      "left out: some stages of a pipeline share a domain ({}); from the last of them to the next "
      "domain's first, activations are for another rail and are forwarded inside the rectangle",
      names));
}

// The same jobs where any GPU reaches any other: nothing is forwarded, and a job that has different
// numbers of GPUs in its domains is priced in parts that divide them all.
void place_on_clos(const std::vector<plan::Job>& jobs,
                   const std::vector<std::vector<JobRectangle>>& rectangles, JobTiling& all) {
  std::vector<PieceJob> pieces;
  for (size_t i = 0; i < jobs.size(); ++i) {
    const int64_t tensor = jobs[i].parallelism.tensor;
    pieces.push_back({all.jobs[i].gpus, tensor <= all.rails ? tensor : 1});
  }
  const AnyGpus anywhere = place_anywhere(all.rails, all.domains, pieces);
  all.clos_gpus = std::max(anywhere.gpus, all.tiling.gpus);
  for (size_t i = 0; i < jobs.size(); ++i) {
    TiledJob& job = all.jobs[i];
    if (anywhere.gpus <= all.tiling.gpus) {  // the tiling is one for a Clos, too
      if (!job.tile) continue;
      const JobRectangle& rectangle = job.rectangles[job.tile->shape];
      job.clos_iteration = rectangle.iteration - rectangle.forwarding;
      continue;
    }
    if (!anywhere.of_domain[i]) continue;
    for (const JobRectangle& each : rectangles[i]) {
      if (*anywhere.of_domain[i] % each.rails != 0) continue;
      const Seconds time = each.iteration - each.forwarding;
      if (!job.clos_iteration || time < *job.clos_iteration) job.clos_iteration = time;
    }
  }
}

}  // namespace

bool JobTiling::all_placed() const {
  return std::ranges::all_of(jobs, [](const TiledJob& job) { return job.tile.has_value(); });
}

Result<JobTiling> tile_jobs(const std::vector<plan::Job>& jobs, cost::Law law) {
  TRY(check(jobs));
  JobTiling out;
  const int64_t devices = datacenter(jobs[0]).devices();
  out.rails = std::min(datacenter(jobs[0]).scale_up.domain, devices);
  out.domains = devices / out.rails;
  if (devices % out.rails != 0) {
    out.notes.push_back(fmt::format("the last domain has {} of {} GPUs, which stay out",
                                    devices % out.rails, out.rails));
  }
  std::string too_large;
  const Rectangles known(out.rails, law);
  std::vector<std::vector<JobRectangle>> priced;
  std::vector<std::vector<RectangleShape>> shapes;
  for (const plan::Job& job : jobs) {
    TiledJob tiled{.file = job.file, .name = job.name, .gpus = job.parallelism.devices()};
    bool fits = true;
    priced.push_back(TRY(known.of(job, tiled.gpus, fits)));
    if (!fits) too_large += (too_large.empty() ? "" : ", ") + job.name;
    tiled.rectangles = priced.back();
    std::erase_if(tiled.rectangles,
                  [&](const JobRectangle& each) { return each.domains > out.domains; });
    shapes.push_back(shapes_of(tiled));
    out.jobs.push_back(std::move(tiled));
  }
  if (!too_large.empty()) {
    out.notes.push_back(fmt::format("more memory than their devices have: {}", too_large));
  }
  out.tiling = tile(out.rails, out.domains, shapes);
  for (size_t i = 0; i < jobs.size(); ++i) {
    TiledJob& job = out.jobs[i];
    job.tile = out.tiling.tiles[i];
    if (!job.tile) job.why_not = why_not(job, out);
  }
  note_edges(jobs, out);
  place_on_clos(jobs, priced, out);
  return out;
}

}  // namespace tombolo::search
