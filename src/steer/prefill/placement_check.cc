#include "steer/prefill/placement_check.h"

#include <algorithm>

namespace tombolo::prefill {
namespace {

// Whether [start, end) meets a span of `spans`, which repeat with the period.
bool meets(const std::vector<Span>& spans, SimDuration period, SimTime start, SimTime end) {
  const int64_t first = start.ns / period.ns - 1, last = end.ns / period.ns;
  for (int64_t k = first; k <= last; ++k) {
    for (const Span& span : spans) {
      if (span.start + period * k < end && start < span.end + period * k) return true;
    }
  }
  return false;
}

Status check_order(const PrefillSetting& setting, const PlacedPrompt& prompt) {
  const PrefillPlacement& p = prompt.placement;
  const PrefillPipeline& pipeline = setting.pipelines[static_cast<size_t>(p.pipeline)];
  const PromptTime time = setting.tables[pipeline.table].at(prompt.request.tokens);
  const auto wrong = [&](std::string_view what) {
    return failed(fmt::format("prompt {}: {}", p.id, what));
  };
  std::vector<int64_t> done(pipeline.stages.size());
  SimTime ready = prompt.request.arrival;
  int64_t layer = 0;
  for (size_t i = 0; i < p.runs.size(); ++i) {
    const PrefillRun& run = p.runs[i];
    const auto s = static_cast<size_t>(run.stage);
    if (s >= pipeline.stages.size() || pipeline.stages[s].gpu != run.gpu) {
      return wrong("a layer on a GPU that has not its weights");
    }
    if (run.first_layer != layer || run.layers < 1) return wrong("its layers are not in order");
    if (i > 0 && p.runs[i - 1].stage != run.stage) {
      ready = ready + time.transfer;
      if (!setting.suspension && done[s] > 0) return wrong("a shard is interrupted");
    }
    if (run.start < ready) return wrong("a layer begins before the one before it");
    const bool last = i + 1 == p.runs.size();
    if (run.end - run.start != time.layer * run.layers + (last ? time.ends : SimDuration{})) {
      return wrong("a run is not as long as its layers");
    }
    if (!setting.suspension && run.layers != pipeline.stages[s].layers) {
      return wrong("a shard is interrupted");
    }
    done[s] += run.layers;
    layer += run.layers;
    ready = run.end;
  }
  for (size_t s = 0; s < done.size(); ++s) {
    if (done[s] != pipeline.stages[s].layers) return wrong("a layer is missing");
  }
  if (p.first_token != ready || p.handed_over < ready) return wrong("it is over before its layers");
  if (!prompt.request.batch && p.handed_over > prompt.request.arrival + setting.within) {
    return wrong("it is over after the bound");
  }
  return {};
}

struct GpuRun {
  PrefillRun run;
  int64_t id = 0;
};

}  // namespace

Status check_placements(const PrefillSetting& setting, const std::vector<PlacedPrompt>& prompts) {
  std::vector<GpuRun> all;
  for (const PlacedPrompt& prompt : prompts) {
    if (Status order = check_order(setting, prompt); !order) return order;
    for (const PrefillRun& run : prompt.placement.runs) all.push_back({run, prompt.placement.id});
  }
  std::sort(all.begin(), all.end(), [](const GpuRun& a, const GpuRun& b) {
    return std::pair(a.run.gpu, a.run.start) < std::pair(b.run.gpu, b.run.start);
  });
  for (size_t i = 0; i < all.size(); ++i) {
    const PrefillRun& run = all[i].run;
    Busy kept = setting.busy[static_cast<size_t>(run.gpu)];
    for (Span& span : kept) span.start = span.start - setting.guard;
    if (meets(kept, setting.period, run.start, run.end)) {
      return failed(fmt::format("prompt {} meets a computation on GPU {} at {} ns", all[i].id,
                                run.gpu, run.start.ns));
    }
    if (i + 1 < all.size() && all[i + 1].run.gpu == run.gpu && all[i + 1].run.start < run.end) {
      return failed(fmt::format("prompts {} and {} overlap on GPU {} at {} ns", all[i].id,
                                all[i + 1].id, run.gpu, all[i + 1].run.start.ns));
    }
  }
  return {};
}

}  // namespace tombolo::prefill
