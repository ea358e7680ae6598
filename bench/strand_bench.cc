// How fast is the search for strands?
//
//   strand_bench
//
// A layer of Llama 3 70B on A40s: the search over pairs of order ideals with segments of up to four
// operators, at context parallelism 1, 2 and 4, then the search without barriers from its plan.
// Seconds of CPU time of one thread, the fastest of five.
//
// Sketch: a segment of up to eight operators is played in about a microsecond, and 7,000 to 16,000
// different ones are: 10 to 30 ms. Bars: 50 ms at context 1, 500 ms at context 4. Checked: repeats
// find the same plan; it is no shorter than its computation. One JSON line each.
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "predict/cost/layer_time.h"
#include "predict/strand/ideal_search.h"
#include "predict/strand/layer_strands.h"
#include "predict/strand/stream_search.h"

using namespace tombolo;
using namespace tombolo::strand;

namespace {

constexpr int kRepeats = 5;

double now() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

StrandPair layer(int64_t context) {
  const model::Model m = *model::preset("llama3-70b");
  cluster::Datacenter site;
  site.name = "a40";
  site.device = *cluster::catalog_device("a40-48g");
  site.nodes = site.devices_per_node = 8;
  site.scale_up.bandwidth = 32_GBps;
  site.scale_out.bandwidth = 1.5625_GBps;
  const cost::Constants constants = *cost::find_constants(site, "megatron");
  const cost::LayerPricer pricer(m, site, constants, 2, false);
  const cost::Configuration c{{.tensor = 8, .context = context, .sequence_parallel = true}, 1};
  const cost::GroupPlacement layout = cost::lay_out(c, 8);
  const LayerStrands strands =
      layer_strands(shape_of(c, layout, false), pricer.operators(c, layout, false));
  return {strands.forward, strands.backward, published_overlap("a40-48g").table};
}

void measure(int64_t context) {
  const StrandPair pair = layer(context);
  double segments = std::numeric_limits<double>::infinity(), streams = segments;
  SegmentPlan plan;
  StreamSchedule schedule;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    const double begin = now();
    const SegmentPlan found = search_segments(pair, {});
    const double between = now();
    schedule = search_streams(pair, found, 20'000);
    segments = std::min(segments, between - begin);
    streams = std::min(streams, now() - between);
    CHECK(repeat == 0 || found.seconds == plan.seconds, "repeats differ");
    plan = found;
  }
  CHECK(plan.seconds >= pair.stream_seconds(Stream::kCompute), "faster than its computation");
  fmt::print(
      "{{\"context\": {}, \"states\": {}, \"transitions\": {}, \"played\": {}, \"segments_ms\": "
      "{:.2f}, \"nodes\": {}, \"streams_ms\": {:.2f}}}\n",
      context, plan.states, plan.transitions, plan.played, 1e3 * segments, schedule.nodes,
      1e3 * streams);
}

}  // namespace

int main() {
  for (const int64_t context : {1, 2, 4}) measure(context);
}
