#include "predict/prefill_sim/prefill_run.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/check.h"
#include "predict/cost/prefill_time.h"
#include "spec/trace/breakdown.h"

namespace tombolo::prefill_sim {
namespace {

using prefill::PlacedPrompt;
using prefill::PrefillSetting;
using prefill::Verdict;

Result<prefill::DurationTable> durations_of(const model::Model& model,
                                            const cluster::Datacenter& datacenter,
                                            cost::ShardHop hop) {
  std::vector<prefill::DurationTable::Row> rows;
  const std::vector<cost::PrefillTime> times = TRY(cost::prefill_times(model, datacenter, hop));
  for (const cost::PrefillTime& time : times) {
    rows.push_back({time.tokens, time.layer, time.ends, time.transfer});
  }
  return prefill::DurationTable::make(std::move(rows));
}

std::vector<std::vector<prefill::KvLine>> lines_of(const plan::Plan& plan,
                                                   const trace::Trace& trace) {
  const std::vector<cluster::Datacenter>& all = plan.cluster.datacenters;
  std::vector<std::vector<prefill::KvLine>> lines(all.size(),
                                                  std::vector<prefill::KvLine>(all.size()));
  const trace::Breakdown breakdown = trace::breakdown(trace);
  for (size_t from = 0; from < all.size(); ++from) {
    for (size_t to = 0; to < all.size(); ++to) {
      if (from == to) {
        lines[from][to] = {all[from].scale_out.bandwidth, all[from].scale_out.latency};
        continue;
      }
      const cluster::WanLink* link = plan.cluster.link(all[from].name, all[to].name);
      if (!link) continue;
      double busy = 0;
      for (const trace::WanUse& use : breakdown.wan) {
        if (use.from == all[from].name && use.to == all[to].name) busy = use.busy_fraction;
      }
      lines[from][to] = {cluster::flow_rate(*link) * std::max(0.0, 1 - busy),
                         link->one_way_latency};
    }
  }
  return lines;
}

// The requests at their scaled times, over and over until enough periods have passed: then the share
// of a period does not depend on where the trace ends.
Result<std::vector<TracedRequest>> scaled(const std::vector<TracedRequest>& requests, double scale,
                                          SimDuration period) {
  constexpr double kRequestsMax = 5e6;
  CHECK(!requests.empty() && period.ns > 0, "{} requests over periods of {} ns", requests.size(),
        period.ns);
  const double last = real(requests.back().arrival.ns) / scale;
  if (last < 1) return requests;  // all at once: when would they come again?
  // From the last one to the first one again: as between any two on average.
  const double round = last * (1 + 1 / real(std::ssize(requests)));
  const double rounds = std::ceil(real(kPeriodsMin * period.ns) / round);
  if (rounds * real(std::ssize(requests)) > kRequestsMax) {
    return unusable(
        fmt::format("a load of {} times: {:.3g} requests until {} periods of {} have passed", scale,
                    rounds * real(std::ssize(requests)), kPeriodsMin, brief(seconds(period))),
        "a lower --prefill-scale");
  }
  std::vector<TracedRequest> all;
  for (double k = 0; k < rounds; ++k) {
    for (TracedRequest request : requests) {
      request.arrival = {static_cast<int64_t>(k * round + real(request.arrival.ns) / scale)};
      all.push_back(request);
    }
  }
  return all;
}

// What came of one pass over the requests.
struct Replay {
  std::vector<PlacedPrompt> placed;
  std::vector<double> placement_us;
  std::map<Verdict, int64_t> refused;
  int64_t waiting = 0;
};

void keep_queued(Replay& out, std::map<int64_t, prefill::PrefillRequest>& queued,
                 std::vector<prefill::PrefillPlacement> placements) {
  for (prefill::PrefillPlacement& placement : placements) {
    const auto request = queued.find(placement.id);
    CHECK(request != queued.end(), "prompt {} was placed and not queued", placement.id);
    out.placed.push_back({request->second, std::move(placement)});
    queued.erase(request);
  }
}

Replay replay(PrefillSetting setting, const std::vector<TracedRequest>& requests,
              const PrefillRunOptions& options, int32_t decode, const Clock& clock) {
  const SimDuration step = setting.period;
  prefill::PrefillController controller(std::move(setting));
  Replay out;
  std::map<int64_t, prefill::PrefillRequest> queued;
  SimTime now;
  for (size_t i = 0; i < requests.size(); ++i) {
    now = requests[i].arrival;
    const prefill::PrefillRequest request{static_cast<int64_t>(i), now, requests[i].prompt_tokens,
                                          decode, options.batch};
    keep_queued(out, queued, controller.advance(now));
    const SimTime begin = clock.now();
    prefill::Admission answer = controller.submit(request, now);
    out.placement_us.push_back(real((clock.now() - begin).ns) * 1e-3);
    if (answer.verdict == Verdict::kPlaced) {
      out.placed.push_back({request, std::move(answer.placement)});
    } else if (answer.verdict == Verdict::kQueued) {
      queued.emplace(request.id, request);
    } else {
      ++out.refused[answer.verdict];
    }
  }
  // What still waits is tried again for as long as it may be worth while.
  for (int tries = 0; tries < 1000 && !queued.empty(); ++tries) {
    now = now + step;
    keep_queued(out, queued, controller.advance(now));
  }
  out.waiting = std::ssize(queued);
  return out;
}

// The fewest GPUs without training that accept as many.
int64_t dedicated_gpus(const PrefillSetting& bubbles, const std::vector<TracedRequest>& requests,
                       const PrefillRunOptions& options, int64_t accepted, int64_t at_most) {
  PrefillRunOptions interactive = options;
  interactive.batch = false;
  const int64_t layers = bubbles.pipelines[0].layers();
  const auto enough = [&](int64_t gpus) {
    PrefillSetting own;
    own.period = bubbles.period;
    own.busy.resize(static_cast<size_t>(gpus));
    own.tables = {bubbles.tables[bubbles.pipelines[0].table]};
    const size_t home = bubbles.pipelines[0].datacenter;
    own.lines = {{bubbles.lines[home][home]}};
    own.kv_per_token_and_layer = bubbles.kv_per_token_and_layer;
    own.within = bubbles.within;
    for (int32_t g = 0; g < gpus; ++g) own.pipelines.push_back({{{g, layers}}, 0, 0});
    const Replay run =
        replay(std::move(own), requests, interactive, prefill::kDecodeAtHome, ManualClock());
    return std::ssize(run.placed) >= accepted;
  };
  int64_t low = 0, high = 1;
  while (high < at_most && !enough(high)) {
    low = high;
    high *= 2;
  }
  high = std::min(high, at_most);
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    (enough(middle) ? high : low) = middle;
  }
  return high;
}

// Of one layer, of the shortest prompt on the fastest GPUs.
SimDuration shortest_layer(const PrefillSetting& setting,
                           const std::vector<TracedRequest>& requests) {
  SimDuration shortest = setting.period;
  for (const prefill::DurationTable& table : setting.tables) {
    for (const TracedRequest& request : requests) {
      if (request.prompt_tokens > table.tokens_max()) continue;
      shortest = std::min(shortest, table.at(request.prompt_tokens).layer);
    }
  }
  return shortest;
}

// The highest utilisation that prompts can reach: all GPU time but the guard of each gap, and gaps
// too short for any layer.
double ceiling_of(const PrefillSetting& setting, const std::vector<TracedRequest>& requests) {
  const SimDuration shortest = shortest_layer(setting, requests);
  int64_t lost = 0;
  for (const prefill::Busy& busy : setting.busy) {
    if (busy.empty()) continue;  // a GPU that never computes needs no guard
    for (const prefill::Span& gap : prefill::gaps_of(busy, setting.period)) {
      const bool fits = gap.length() >= setting.guard + shortest;
      lost += fits ? setting.guard.ns : gap.length().ns;
    }
  }
  return 1 - real(lost) / (real(setting.period.ns) * real(std::ssize(setting.busy)));
}

// GPU time of prompts within the span.
double prefill_share(const std::vector<PlacedPrompt>& placed, SimDuration span, int64_t gpus) {
  double busy = 0;
  for (const PlacedPrompt& prompt : placed) {
    for (const prefill::PrefillRun& run : prompt.placement.runs) {
      busy += real(std::max<int64_t>(std::min(run.end.ns, span.ns) - run.start.ns, 0));
    }
  }
  return busy / (real(span.ns) * real(gpus));
}

void count_refused(const Replay& run, PrefillReport& report) {
  const auto count = [&](Verdict verdict) {
    const auto found = run.refused.find(verdict);
    return found == run.refused.end() ? 0 : found->second;
  };
  report.no_window = count(Verdict::kNoWindow);
  report.too_long = count(Verdict::kTooLong);
  report.no_line = count(Verdict::kNoLine);
  report.waiting = run.waiting;
}

void say_times(const std::vector<PlacedPrompt>& placed, PrefillReport& report) {
  int64_t tokens = 0;
  for (const PlacedPrompt& prompt : placed) {
    const SimTime arrival = prompt.request.arrival;
    report.ttft_s.push_back(seconds(prompt.placement.first_token - arrival).value);
    report.queueing_s.push_back(seconds(prompt.placement.start() - arrival).value);
    report.handed_over_s.push_back(seconds(prompt.placement.handed_over - arrival).value);
    tokens += prompt.request.tokens;
  }
  report.tokens_per_s = real(tokens) / seconds(report.span).value;
}

Result<int32_t> decode_index(const plan::Plan& plan, const std::string& name) {
  if (name.empty()) return prefill::kDecodeAtHome;
  for (size_t d = 0; d < plan.cluster.datacenters.size(); ++d) {
    if (plan.cluster.datacenters[d].name == name) return static_cast<int32_t>(d);
  }
  std::string known;
  for (const cluster::Datacenter& each : plan.cluster.datacenters) {
    known += (known.empty() ? "" : ", ") + each.name;
  }
  return unusable(fmt::format("there is no datacenter \"{}\" to decode in", name),
                  "one of " + known);
}

}  // namespace

Result<PrefillSetting> make_setting(const plan::Plan& plan, const trace::Trace& trace,
                                    prefill::PrefillFleet& fleet) {
  if (!plan.prefill) {
    return unusable(plan.name + ": no model is said whose prompts are to be served",
                    "[prefill] with model = \"llama3-8b\" and memory = \"2 GB\"");
  }
  const prefill::Bubbles bubbles = TRY(prefill::bubbles_of(trace));
  fleet = TRY(prefill::fleet_of(plan, *plan.prefill));
  PrefillSetting setting;
  setting.period = bubbles.period;
  for (const prefill::PrefillGpu& gpu : fleet.gpus) {
    setting.busy.push_back(bubbles.busy[static_cast<size_t>(gpu.rank)]);
  }
  std::map<std::pair<size_t, bool>, size_t> tables;
  for (size_t p = 0; p < fleet.pipelines.size(); ++p) {
    prefill::PrefillPipeline& pipeline = fleet.pipelines[p];
    const auto [known, first] =
        tables.emplace(std::pair(pipeline.datacenter, fleet.one_node[p]), tables.size());
    if (first) {
      setting.tables.push_back(TRY(
          durations_of(plan.prefill->model, plan.cluster.datacenters[pipeline.datacenter],
                       fleet.one_node[p] ? cost::ShardHop::kScaleUp : cost::ShardHop::kScaleOut)));
    }
    pipeline.table = known->second;
  }
  setting.pipelines = fleet.pipelines;
  setting.lines = lines_of(plan, trace);
  setting.kv_per_token_and_layer = prefill::kv_bytes(plan.prefill->model);
  setting.within = round_to_ns(plan.prefill->ttft_max);
  setting.guard = round_to_ns(plan.prefill->guard);
  return setting;
}

Result<PrefillReport> run_prefill(const plan::Plan& plan, const trace::Trace& trace,
                                  const std::vector<TracedRequest>& once,
                                  const PrefillRunOptions& options, const Clock& clock) {
  if (!(options.scale > 0 && options.scale <= 1e6)) {
    return unusable(
        fmt::format("a load of {} times: must be positive and at most 1000000", options.scale));
  }
  const int32_t decode = TRY(decode_index(plan, options.decode));
  prefill::PrefillFleet fleet;
  PrefillSetting setting = TRY(make_setting(plan, trace, fleet));
  setting.suspension = options.suspension;
  const prefill::Bubbles bubbles = TRY(prefill::bubbles_of(trace));

  PrefillReport report;
  report.gaps = prefill::gap_lengths(bubbles);
  report.period = bubbles.period;
  report.gpus = std::ssize(fleet.gpus);
  report.pipelines = std::ssize(fleet.pipelines);
  report.shard_max = fleet.shard_max;
  report.depth_min = report.gpus;
  for (const prefill::PrefillPipeline& pipeline : fleet.pipelines) {
    report.depth_min = std::min<int64_t>(report.depth_min, std::ssize(pipeline.stages));
    report.depth_max = std::max<int64_t>(report.depth_max, std::ssize(pipeline.stages));
  }
  const std::vector<TracedRequest> requests = TRY(scaled(once, options.scale, bubbles.period));
  report.requests = std::ssize(requests);
  const int64_t periods = requests.back().arrival.ns / bubbles.period.ns;
  report.span = bubbles.period * std::max<int64_t>(periods, 1);

  Replay run = replay(setting, requests, options, decode, clock);
  if (options.check) TRY(prefill::check_placements(setting, run.placed));
  report.accepted = std::ssize(run.placed);
  count_refused(run, report);
  report.placement_us = std::move(run.placement_us);
  say_times(run.placed, report);
  report.utilization_before =
      prefill::Bubbles{bubbles.period, setting.busy}.utilization();  // of GPUs, not of ranks
  report.utilization_after =
      report.utilization_before + prefill_share(run.placed, report.span, report.gpus);
  report.ceiling = ceiling_of(setting, requests);
  if (options.dedicated && report.accepted > 0) {
    report.gpus_saved = dedicated_gpus(setting, requests, options, report.accepted, report.gpus);
  }
  return report;
}

}  // namespace tombolo::prefill_sim
