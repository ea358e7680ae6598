#include "decide/geo/select_job.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

#include "predict/cost/collective.h"
#include "predict/cost/memory_remedy.h"
#include "predict/cost/price_plan.h"
#include "predict/ledger/plan_ledger.h"
#include "spec/plan/pipeline_ends.h"

namespace tombolo::geo {
namespace {

using plan::DatacenterOrder;
using plan::Job;

constexpr int64_t kPassesMax = 1'000'000'000;  // about a minute

const plan::Selection& selection_or_default(const Job& job) {
  static const plan::Selection kDefault;
  return job.selection ? *job.selection : kDefault;
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Status check_names(const Job& job) {
  const plan::Selection& wanted = selection_or_default(job);
  std::vector<std::string> known;
  for (const cluster::Datacenter& datacenter : job.cluster.datacenters) {
    known.push_back(datacenter.name);
  }
  for (const auto& [key, names] :
       {std::pair("must", &wanted.must), std::pair("must_not", &wanted.must_not)}) {
    for (const std::string& name : *names) {
      if (contains(known, name)) continue;
      return unusable(
          fmt::format("{}: selection.{}: there is no datacenter \"{}\"", job.file, key, name),
          one_of(name, known));
    }
  }
  for (const std::string& name : wanted.must) {
    if (!contains(wanted.must_not, name)) continue;
    return unusable(fmt::format("{}: selection: {} must and must not take part", job.file, name),
                    "one of the two");
  }
  return {};
}

Status check_parallelism(const Job& job) {
  const layout::Parallelism& p = job.parallelism;
  if (!traits_of(p.schedule).has(layout::kSelectable)) {
    return unusable(fmt::format("{}: parallelism.schedule = \"{}\": select has no law for it",
                                job.file, to_name(p.schedule)),
                    "\"1f1b\" or \"gpipe\"");
  }
  for (const auto& [key, degree] :
       {std::pair("tensor", p.tensor), std::pair("context", p.context),
        std::pair("expert", p.expert), std::pair("virtual_stages", p.virtual_stages)}) {
    if (degree == 1) continue;
    return unusable(
        fmt::format("{}: parallelism.{} = {}: select counts a GPU per partition", job.file, key,
                    degree),
        fmt::format("{} = 1, or tombolo plan, which searches over datacenters too", key));
  }
  return {};
}

std::vector<cluster::Datacenter> candidates(const Job& job) {
  std::vector<cluster::Datacenter> left;
  for (const cluster::Datacenter& datacenter : job.cluster.datacenters) {
    if (!contains(selection_or_default(job).must_not, datacenter.name)) left.push_back(datacenter);
  }
  return left;
}

void move_to_front(std::vector<cluster::Datacenter>& datacenters, const std::string& name) {
  const auto at = std::find_if(datacenters.begin(), datacenters.end(),
                               [&](const auto& each) { return each.name == name; });
  if (at != datacenters.end()) std::rotate(datacenters.begin(), at, at + 1);
}

// In the order in which they are filled; `first` in front of all, if it is given.
Result<std::vector<cluster::Datacenter>> ordered(const Job& job,
                                                 std::vector<cluster::Datacenter> left,
                                                 const std::string& first) {
  const plan::Selection& wanted = selection_or_default(job);
  if (wanted.order == DatacenterOrder::kPrice) {
    for (const cluster::Datacenter& datacenter : left) {
      if (datacenter.price.value > 0) continue;
      return unusable(fmt::format("{}: order price: {} names no price", job.file, datacenter.name),
                      "price = \"2.10 USD/device-hour\" for each, or another order");
    }
    std::stable_sort(left.begin(), left.end(),
                     [](const auto& a, const auto& b) { return a.price < b.price; });
  } else if (wanted.order != DatacenterOrder::kFile) {
    std::stable_sort(left.begin(), left.end(),
                     [](const auto& a, const auto& b) { return a.devices() > b.devices(); });
  }
  move_to_front(left, first);
  if (wanted.order != DatacenterOrder::kDistance) return left;

  const auto distance = [&](const cluster::Datacenter& a, const cluster::Datacenter& b) {
    const cluster::WanLink* link = job.cluster.link(a.name, b.name);
    return link ? link->one_way_latency.value : INFINITY;
  };
  for (size_t i = 1; i < left.size(); ++i) {
    size_t nearest = i;
    for (size_t j = i + 1; j < left.size(); ++j) {
      if (distance(left[i - 1], left[j]) < distance(left[i - 1], left[nearest])) nearest = j;
    }
    std::rotate(left.begin() + static_cast<int64_t>(i),
                left.begin() + static_cast<int64_t>(nearest),
                left.begin() + static_cast<int64_t>(nearest) + 1);
  }
  return left;
}

// Datacenters in the order in which they are filled. A pipeline begins in the first and ends in the last of
// those that [parallelism] names; these hold a stage.
struct Route {
  std::vector<cluster::Datacenter> datacenters;
  std::string first, last;  // empty: any
};

// All that begin and end where [parallelism] allows it; one, where it allows any. Infeasible: none.
Result<std::vector<Route>> routes_of(const Job& job) {
  const layout::Parallelism& p = job.parallelism;
  const std::vector<cluster::Datacenter> left = candidates(job);
  if (left.empty())
    return infeasible("no datacenter is left to choose from", "fewer names in selection.must_not");
  const auto names = [&](const std::vector<std::string>& given, const char* key) {
    std::vector<std::string> out;
    for (const cluster::Datacenter& each : left) {
      if (contains(given, each.name)) out.push_back(each.name);
    }
    if (given.empty()) out.emplace_back();
    if (!out.empty()) return Result<std::vector<std::string>>(out);
    return Result<std::vector<std::string>>(
        infeasible(fmt::format("{}: parallelism.{} = [{}]: none of these is left to choose from",
                               job.file, key, fmt::join(given, ", ")),
                   "fewer names in selection.must_not"));
  };
  std::vector<Route> routes;
  const auto add = [&](const std::string& first, const std::string& last,
                       std::vector<cluster::Datacenter> over) {
    for (const std::string& name : selection_or_default(job).must) {
      const auto is_it = [&](const auto& each) { return each.name == name; };
      if (std::none_of(over.begin(), over.end(), is_it)) return;
    }
    routes.push_back({std::move(over), first, last});
  };
  for (const std::string& first : TRY(names(p.first_stage_in, "first_stage_in"))) {
    for (const std::string& last : TRY(names(p.last_stage_in, "last_stage_in"))) {
      if (first == last && !first.empty()) continue;
      std::vector<cluster::Datacenter> inner = left;
      std::erase_if(inner, [&](const auto& each) { return each.name == last; });
      std::vector<cluster::Datacenter> order = TRY(ordered(job, std::move(inner), first));
      for (const cluster::Datacenter& each : left) {
        if (each.name == last) order.push_back(each);
      }
      add(first, last, std::move(order));
    }
  }
  // Both ends in one datacenter: along the routes above others in front of the last one are filled first.
  for (const cluster::Datacenter& each : left) {
    if (p.last_stage_in.empty() || !plan::may_begin_in(p, each.name) ||
        !plan::may_end_in(p, each.name))
      continue;
    add(each.name, each.name, {each});
  }
  if (!routes.empty()) return routes;
  return infeasible(
      fmt::format(
          "{}: selection.must: [{}] must take part, and parallelism: {} leaves no other place",
          job.file, fmt::join(selection_or_default(job).must, ", "), plan::text_of_ends(p)),
      "fewer names in selection.must");
}

// What an iteration is; and of one pipeline, how many microbatches its memory must be able to
// hold: of a shared batch, the share of as many pipelines as the job has today.
Result<int64_t> set_microbatches(const Job& job, SelectionSetting& setting) {
  const plan::Selection& wanted = selection_or_default(job);
  if (wanted.microbatches) {
    setting.microbatches = *wanted.microbatches;
    return setting.microbatches;
  }
  const plan::Training& t = job.training;
  if (t.global_batch % t.micro_batch != 0) {
    return unusable(
        fmt::format("{}: training.global_batch = {}: not a multiple of micro_batch = {}", job.file,
                    t.global_batch, t.micro_batch),
        "another batch, or selection.micro_batches, of each pipeline");
  }
  setting.microbatches_together = t.global_batch / t.micro_batch;
  return setting.microbatches_of_one(job.parallelism.data);
}

// What a pipeline of a given number of partitions costs in one datacenter.
struct Stages {
  Seconds forward, backward;  // of the slowest one
  Bytes gradients;            // of the largest one
  Bytes state, memory;        // of those that need most
};

// Without model and times, a forward pass is the unit of time.
bool times_are_units(const Job& job) { return !job.model && !job.stage_times; }

Result<Stages> price_stages(const Job& job, const cluster::Datacenter& datacenter,
                            int64_t partitions, int64_t microbatches) {
  if (times_are_units(job)) return Stages{1_s, 2_s, {}, {}, {}};
  Job one = job;
  one.cluster = {{datacenter}, {}};
  one.cluster.datacenters[0].nodes = partitions;
  one.cluster.datacenters[0].devices_per_node = 1;
  one.parallelism.pipeline = partitions;
  one.parallelism.data = 1;
  one.parallelism.zero = 0;
  one.parallelism.datacenter_per_stage.clear();
  one.parallelism.datacenter_per_replica.clear();
  one.parallelism.first_stage_in.clear();
  one.parallelism.last_stage_in.clear();
  if (one.parallelism.layers_per_stage.size() != static_cast<size_t>(partitions)) {
    one.parallelism.layers_per_stage.clear();
  }
  one.training.global_batch = one.training.micro_batch;
  const plan::Plan plan = TRY(cost::make_plan(one));
  Stages stages;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const plan::Stage& stage = plan.stages[s];
    const int64_t in_flight = traits_of(job.parallelism.schedule).has(layout::kAllForwardsFirst)
                                  ? microbatches
                                  : std::min(microbatches, partitions - static_cast<int64_t>(s));
    stages.forward = std::max(stages.forward, stage.cost.forward);
    stages.backward = std::max(stages.backward, stage.cost.backward + stage.cost.recompute);
    stages.gradients = std::max(stages.gradients, stage.gradients);
    const Bytes standing = stage.state + stage.workspace + plan.prefill_memory();
    stages.state = std::max(stages.state, standing);
    stages.memory = std::max(stages.memory, standing + real(in_flight) * stage.activations);
  }
  return stages;
}

// Smallest memory among datacenters.
const cluster::Datacenter& tightest(const std::vector<cluster::Datacenter>& datacenters) {
  return *std::min_element(
      datacenters.begin(), datacenters.end(),
      [](const auto& a, const auto& b) { return a.device.memory < b.device.memory; });
}

// The stated number of partitions; else the fewest that fit into memory.
Result<int64_t> partitions_of(const plan::OpenJob& open,
                              const std::vector<cluster::Datacenter>& datacenters,
                              int64_t microbatches, SelectionJob& out) {
  const Job& job = open.job;
  const cluster::Datacenter& tight = tightest(datacenters);
  const auto needs = [&](const std::string& what, Bytes bytes, int64_t partitions) {
    return fmt::format("{} {} with {} partitions, and {} devices have {}{}", what, brief(bytes),
                       partitions, tight.device.name, brief(tight.device.memory),
                       job.parallelism.zero > 0
                           ? fmt::format("; zero = {} is not counted", job.parallelism.zero)
                           : "");
  };
  const std::string with = job.prefill ? " with the model of [prefill]" : "";
  std::optional<int64_t> stated = selection_or_default(job).partitions;
  if (!stated) stated = open.fixed.pipeline;
  if (stated) {
    if (!job.model || job.stage_times) return *stated;
    const Stages stages = TRY(price_stages(job, tight, *stated, microbatches));
    if (stages.state > tight.device.memory) {
      return infeasible(
          needs("weights, gradients, optimizer and workspace of a stage" + with + " need",
                stages.state, *stated),
          cost::less_prefill(job) + "more selection.partitions");
    }
    if (stages.memory > tight.device.memory) {
      out.notes.push_back(
          needs("does not fit into memory with all its activations: a stage" + with + " needs",
                stages.memory, *stated));
    }
    return *stated;
  }
  if (!job.model || job.stage_times) {
    return unusable(fmt::format("{}: selection.partitions is missing", job.file),
                    "partitions = 60, or a [model] without [stage_times] to derive it from");
  }
  // With fewer, the state alone is more than all devices hold.
  const Bytes state{static_cast<double>(model::parameters(*job.model)) *
                    job.training.optimizer_bytes_per_parameter};
  const double least = std::clamp(state / tight.device.memory, 1.0, real(job.model->layers));
  Stages stages;
  for (auto partitions = static_cast<int64_t>(least); partitions <= job.model->layers;
       ++partitions) {
    stages = TRY(price_stages(job, tight, partitions, microbatches));
    if (stages.memory > tight.device.memory) continue;
    out.notes.push_back(
        fmt::format("{} partitions: the fewest whose stages fit into memory, {} of "
                    "{}",
                    partitions, brief(stages.memory), brief(tight.device.memory)));
    return partitions;
  }
  return infeasible(needs("no number of partitions fits into memory: a stage" + with + " needs",
                          stages.memory, job.model->layers),
                    cost::less_prefill(job) +
                        "recompute = \"full\", a smaller micro_batch, or devices with more memory");
}

// What one pair of nodes can have, the path left out.
BytesPerSecond pair_rate(cluster::WanLink link) {
  link.path_limit.reset();
  return cluster::flow_rate(link);
}

Bytes boundary_of(const Job& job) {
  return model::boundary_bytes(*job.model, job.training.micro_batch,
                               plan::element_bytes(job.training.precision));
}

// A transfer between one pair of nodes over the slowest link; empty: nothing joins two datacenters.
std::optional<Seconds> slowest_transfer(const Job& job,
                                        const std::vector<cluster::Datacenter>& datacenters,
                                        Bytes boundary) {
  std::optional<Seconds> slowest;
  for (size_t i = 0; i < datacenters.size(); ++i) {
    for (size_t j = i + 1; j < datacenters.size(); ++j) {
      const cluster::WanLink* link = job.cluster.link(datacenters[i].name, datacenters[j].name);
      if (!link) continue;
      const Seconds time = boundary / pair_rate(*link);
      slowest = std::max(slowest.value_or(0_s), time);
    }
  }
  return slowest;
}

// How a cell meets the WAN whose bytes and rates are known.
auto links_by_law(const Job& job, const std::vector<cluster::Datacenter>& datacenters,
                  Bytes boundary) {
  return [cluster = job.cluster, datacenters, boundary](size_t from, size_t to, int64_t pipelines,
                                                        int64_t cells) -> std::optional<CellLink> {
    const cluster::Datacenter& a = datacenters[from];
    const cluster::Datacenter& b = datacenters[to];
    const cluster::WanLink* link = cluster.link(a.name, b.name);
    if (!link) return std::nullopt;
    const double pairs = std::min(real(pipelines), real(std::min(a.nodes, b.nodes)) / real(cells));
    BytesPerSecond rate = pair_rate(*link) * pairs;
    if (link->path_limit) rate = std::min(rate, *link->path_limit / real(cells));
    return CellLink{boundary / rate, link->one_way_latency};
  };
}

// The latency that a job states instead of the link's: 0 with a ratio, which includes the latency.
std::optional<Seconds> stated_latency(const Job& job) {
  if (selection_or_default(job).communication_to_compute) return 0_s;
  return job.stage_times ? job.stage_times->latency : std::nullopt;
}

// Links whose transfers the job states: as a time, with the latency that the job states or else the
// link's, or as a ratio, which includes the latency.
auto links_as_stated(const Job& job, const std::vector<cluster::Datacenter>& datacenters,
                     Seconds transfer) {
  return [cluster = job.cluster, datacenters, transfer, latency = stated_latency(job)](
             size_t from, size_t to, int64_t pipelines, int64_t) -> std::optional<CellLink> {
    const cluster::WanLink* link = cluster.link(datacenters[from].name, datacenters[to].name);
    return CellLink{transfer / real(pipelines),
                    latency.value_or(link ? link->one_way_latency : 0_s)};
  };
}

auto all_reduce_by_law(const std::vector<cluster::Datacenter>& datacenters,
                       const std::vector<Bytes>& gradients) {
  return [datacenters, gradients](size_t site, int64_t replicas) {
    const cluster::ScaleOut& network = datacenters[site].scale_out;
    return cost::ring_all_reduce({.size = gradients[site],
                                  .ranks = replicas,
                                  .rate = network.bandwidth,
                                  .latency = network.latency});
  };
}

// All pipelines send at once, each between its own GPUs; where transfers are stated, a transfer's time
// stands for its bytes.
auto tied_by_law(const Job& job, const std::vector<cluster::Datacenter>& datacenters,
                 std::optional<Seconds> stated) {
  const Bytes tied = plan::tied_bytes(job, *job.model);
  const Bytes boundary = boundary_of(job);
  return [cluster = job.cluster, datacenters, tied, boundary, stated,
          latency = stated_latency(job)](size_t first, size_t last, int64_t pipelines) -> Seconds {
    const cluster::Datacenter &a = datacenters[first], &b = datacenters[last];
    const cluster::WanLink* link = cluster.link(a.name, b.name);
    if (!link || tied.value == 0) return 0_s;
    const Seconds after = latency.value_or(link->one_way_latency);
    if (stated) return after + *stated * (tied / boundary);
    BytesPerSecond rate = pair_rate(*link) * real(std::min({pipelines, a.nodes, b.nodes}));
    if (link->path_limit) rate = std::min(rate, *link->path_limit);
    return after + tied * real(pipelines) / rate;
  };
}

// The transfers of the WAN: stated as a ratio, stated as a time, or by the law.
Status set_links(const Job& job, const std::vector<cluster::Datacenter>& datacenters,
                 SelectionJob& out) {
  const plan::Selection& wanted = selection_or_default(job);
  Seconds forward = out.setting.sites.front().forward;
  for (const SelectionSite& site : out.setting.sites) forward = std::min(forward, site.forward);

  std::optional<Seconds> stated;
  if (wanted.communication_to_compute) {
    stated = *wanted.communication_to_compute * forward;
  } else if (job.stage_times && job.stage_times->transfer) {
    stated = *job.stage_times->transfer;
  }
  std::optional<Seconds> transfer = stated;
  if (stated) {
    out.setting.link = links_as_stated(job, datacenters, *stated);
  } else {
    if (!job.model && datacenters.size() > 1) {
      return unusable(fmt::format("{}: selection.communication_to_compute is missing", job.file),
                      "4: a WAN transfer takes four times as long as a forward pass; or [model], "
                      "or [stage_times].transfer");
    }
    const Bytes boundary = job.model ? boundary_of(job) : 0_B;
    out.setting.link = links_by_law(job, datacenters, boundary);
    transfer = slowest_transfer(job, datacenters, boundary);
  }
  if (job.model) {
    out.setting.tied = tied_by_law(job, datacenters, stated);
    out.setting.egress = [cluster = job.cluster, datacenters, boundary = boundary_of(job)](
                             size_t from, size_t to) {
      const cluster::WanLink* link = cluster.link(datacenters[from].name, datacenters[to].name);
      return link ? ledger::egress_of(*link, boundary, 1, 1) : Dollars{};
    };
    out.setting.tied_egress = [cluster = job.cluster, datacenters,
                               tied = plan::tied_bytes(job, *job.model)](size_t first, size_t last,
                                                                         int64_t pipelines) {
      return ledger::tied_egress(cluster, datacenters[first].name, datacenters[last].name, tied,
                                 pipelines);
    };
  } else if (std::any_of(job.cluster.wan.begin(), job.cluster.wan.end(),
                         [](const auto& link) { return link.price.value > 0; })) {
    out.notes.push_back("costs are without WAN traffic: no [model] says how much that is");
  }
  if (transfer) out.communication_to_compute = *transfer / forward;
  const double ratio = std::min(out.communication_to_compute, 10'000.0);
  const auto derived = std::max<int64_t>(1, static_cast<int64_t>(std::ceil(ratio - 1e-9)));
  const int64_t most = out.setting.microbatches_together.value_or(derived);
  out.setting.pipelines_per_cell = wanted.pipelines_per_cell.value_or(std::min(derived, most));
  if (!wanted.pipelines_per_cell && derived > most) {
    out.notes.push_back(fmt::format(
        "{} pipelines would keep the WAN from being the slower one, and an iteration has {} "
        "microbatches",
        derived, most));
  }
  return {};
}

// Laws that play passes count in 64 bits of nanoseconds: everything one after the other must fit.
Status check_times(const Job& job, const SelectionSetting& setting) {
  constexpr Seconds kMost{9e9};
  const int64_t pipelines = setting.pipelines_per_cell;
  const double passes =
      real(pipelines) * real(setting.microbatches_of_one(pipelines)) * real(setting.partitions);
  Seconds slowest;
  for (size_t i = 0; i < setting.sites.size(); ++i) {
    slowest = std::max(slowest, setting.sites[i].forward + setting.sites[i].backward);
    for (size_t j = i + 1; j < setting.sites.size(); ++j) {
      const auto link = setting.link(i, j, 1, 1);
      if (link) slowest = std::max(slowest, 2 * (link->occupancy + link->latency));
    }
  }
  if (slowest * passes * 2 < kMost) return {};
  return unusable(
      fmt::format("{}: a pass or a message takes {}: {:.0f} of them would span over 290 "
                  "years",
                  job.file, brief(slowest), passes),
      "other units, or fewer microbatches");
}

}  // namespace

namespace {

Result<SelectionJob> selection_along(const plan::OpenJob& open, const Route& route) {
  const Job& job = open.job;
  SelectionJob out;
  out.notes = job.notes;
  const std::vector<cluster::Datacenter>& datacenters = route.datacenters;
  out.micro_batch = job.training.micro_batch;
  const int64_t in_memory = TRY(set_microbatches(job, out.setting));
  out.setting.partitions = TRY(partitions_of(open, datacenters, in_memory, out));

  std::vector<Bytes> gradients;
  out.priced = true;
  for (const cluster::Datacenter& datacenter : datacenters) {
    const Stages stages = TRY(price_stages(job, datacenter, out.setting.partitions, in_memory));
    if (stages.forward.value <= 0 || stages.backward.value <= 0) {
      return unusable(fmt::format("{}: stage_times: select needs passes that take time", job.file),
                      "forward = \"1 ms\" and backward = \"2 ms\"");
    }
    const bool must = contains(selection_or_default(job).must, datacenter.name) ||
                      datacenter.name == route.first || datacenter.name == route.last;
    out.setting.sites.push_back({datacenter.name, datacenter.devices(), stages.forward,
                                 stages.backward, datacenter.price, must});
    gradients.push_back(stages.gradients);
    out.priced = out.priced && datacenter.price.value > 0;
  }
  TRY(set_links(job, datacenters, out));

  const bool gpipe = traits_of(job.parallelism.schedule).has(layout::kAllForwardsFirst);
  out.pipeline_law = gpipe ? "gpipe-cell" : "1f1b-cell";
  out.setting.cell_time = gpipe ? gpipe_cell : one_forward_one_backward_cell;
  if (job.stage_times && job.stage_times->reduce) {
    out.allreduce_law = "stage_times.reduce";
    out.setting.all_reduce = [time = *job.stage_times->reduce](size_t, int64_t replicas) {
      return replicas > 1 ? time : 0_s;
    };
  } else if (job.model) {
    out.allreduce_law = "ring-all-reduce";
    out.setting.all_reduce = all_reduce_by_law(datacenters, gradients);
  } else {
    out.allreduce_law = "none";
    out.setting.all_reduce = [](size_t, int64_t) { return 0_s; };
    out.notes.push_back("without a [model] the all-reduce is taken to be free");
  }
  if (times_are_units(job)) {
    out.notes.push_back(
        "neither [model] nor [stage_times]: a forward pass takes 1 s, a backward "
        "pass 2 s");
  }
  if (job.model && !job.stage_times && job.parallelism.zero > 0) {
    out.notes.push_back(
        fmt::format("left out: zero = {}; a stage is counted with the memory of zero = 0",
                    job.parallelism.zero));
  }
  TRY(check_times(job, out.setting));
  int64_t gpus = 0;
  for (const SelectionSite& site : out.setting.sites) gpus += site.gpus;
  // Of as many pipelines as there can be; fewer of them have no more passes together.
  const int64_t pipelines = std::max<int64_t>(1, gpus / out.setting.partitions);
  const int64_t microbatches = out.setting.microbatches_of_one(pipelines);
  if (!gpipe && datacenters.size() > 1 && gpus > kPassesMax / microbatches / 2) {
    return unusable(fmt::format("{}: {} GPUs x {} microbatches are too many passes to play",
                                job.file, gpus, microbatches),
                    out.setting.microbatches_together
                        ? "a smaller training.global_batch, or schedule = \"gpipe\", a closed form"
                        : "fewer selection.micro_batches, or schedule = \"gpipe\", a closed form");
  }
  return out;
}

// Of the best row, which `beyond` is where there is one; and of the chosen one.
std::pair<double, double> throughputs_of(const SelectionResult& found) {
  const double chosen = found.rows[found.chosen].throughput();
  return {found.beyond ? found.beyond->throughput() : chosen, chosen};
}

}  // namespace

Result<SelectionJob> selection_of(const plan::OpenJob& open) {
  const Job& job = open.job;
  TRY(check_names(job));
  TRY(check_parallelism(job));
  TRY(plan::check_pipelines_are_free(job));
  const std::vector<Route> routes = TRY(routes_of(job));
  if (!plan::has_fixed_ends(job.parallelism)) return selection_along(open, routes.front());
  std::optional<SelectionJob> best;
  std::pair<double, double> most;
  std::optional<Error> error;
  for (const Route& route : routes) {
    Result<SelectionJob> along = selection_along(open, route);
    const Result<SelectionResult> found =
        along ? select_datacenters(along->setting) : tl::unexpected(along.error());
    if (!found && !error) {
      error = found.error();
      const bool apart = !route.first.empty() && !route.last.empty() && route.first != route.last;
      if (apart && along && along->setting.partitions == 1)
        error->hint = "a datacenter that both name, or a larger parallelism.pipeline";
    }
    if (!found || throughputs_of(*found) <= most) continue;
    most = throughputs_of(*found);
    best = std::move(*along);
    std::string where;
    if (!route.first.empty()) where = " begin in " + route.first;
    if (!route.last.empty()) where += (where.empty() ? " end in " : " and end in ") + route.last;
    best->notes.push_back(
        fmt::format("parallelism: {}: pipelines{}", plan::text_of_ends(job.parallelism), where));
  }
  if (best) return *std::move(best);
  return fail(std::move(*error).during("selecting with " + plan::text_of_ends(job.parallelism)));
}

}  // namespace tombolo::geo
