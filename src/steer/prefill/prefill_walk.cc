// A prompt through the windows of one pipeline, and its KV cache to the decode worker.
#include <algorithm>

#include "base/check.h"
#include "base/clock.h"
#include "steer/prefill/prefill_controller.h"

namespace tombolo::prefill {
namespace {

// Layers of one shard, from `t` on, as early as they fit; where the last one ends, or kNever.
// `pass` says what runs; the caller fills in where.
struct StagePass {
  SimDuration layer, tail;  // the tail follows the last layer
  int64_t layers = 0;
  bool suspension = true;
  SimTime latest;
};

template <class Emit>
SimTime pass_stage(const FreeWindows& windows, SimTime t, const StagePass& pass, const Emit& emit) {
  int64_t left = pass.layers;
  SimDuration whole = pass.layer * left + pass.tail;
  SimTime start_max = pass.latest - whole;
  for (const Span* window = windows.first_after(t); window != windows.end(); ++window) {
    const SimTime start = std::max(t, window->start);
    if (start > start_max) return kNever;
    const SimDuration room = window->end - start;
    if (room >= whole) {
      emit(left, start, start + whole);
      return start + whole;
    }
    if (room < pass.layer || !pass.suspension || left == 1) continue;
    const int64_t fit = std::min(room.ns / pass.layer.ns, left - 1);
    t = start + pass.layer * fit;
    emit(fit, start, t);
    left -= fit;
    whole = pass.layer * left + pass.tail;
    start_max = pass.latest - whole;
  }
  return kNever;
}

}  // namespace

// The windows of a GPU from `t` on: where nothing is taken behind it, those that it shares with all
// that are busy at the same times, which are made already.
FreeWindows& PrefillController::windows_at(std::vector<FreeWindows>& gpus, int32_t gpu, SimTime t) {
  FreeWindows& own = gpus[static_cast<size_t>(gpu)];
  if (&gpus == &patterns_ || own.taken_until() > t) return own;
  const int32_t pattern = pattern_of_[static_cast<size_t>(gpu)];
  return pattern == kNoKind ? own : patterns_[static_cast<size_t>(pattern)];
}

bool PrefillController::walk(std::vector<FreeWindows>& gpus, const PrefillPipeline& pipeline,
                             const PromptTime& time, Progress at, SimTime latest, SimTime now) {
  runs_.clear();
  int64_t behind = -at.done;  // layers to come
  for (size_t s = at.stage; s < pipeline.stages.size(); ++s) behind += pipeline.stages[s].layers;
  for (; at.stage < pipeline.stages.size(); ++at.stage, at.done = 0) {
    const PipelineStage& stage = pipeline.stages[at.stage];
    const bool last = at.stage + 1 == pipeline.stages.size();
    FreeWindows& windows = windows_at(gpus, stage.gpu, at.ready);
    windows.reach(now, latest);
    const int64_t left = stage.layers - at.done;
    behind -= left;
    // What is to come after this shard takes at least so long.
    const SimDuration after = last ? SimDuration{}
                                   : time.layer * behind + time.ends +
                                         time.transfer * (std::ssize(pipeline.stages) - 1 -
                                                          static_cast<int64_t>(at.stage));
    const StagePass pass{time.layer, last ? time.ends : SimDuration{}, left, setting_.suspension,
                         latest - after};
    const SimTime end =
        pass_stage(windows, at.ready, pass, [&](int64_t fit, SimTime from, SimTime to) {
          runs_.push_back(
              {stage.gpu, static_cast<int32_t>(at.stage), at.first_layer, fit, from, to});
          at.first_layer += fit;
        });
    if (end == kNever) return false;
    at.ready = end + time.transfer;
  }
  return true;
}

// Each layer's keys and values leave as soon as they are there.
SimTime PrefillController::hand_over(const PrefillPipeline& pipeline, const PrefillRequest& request,
                                     const PromptTime& time,
                                     const std::vector<PrefillRun>& runs) const {
  const size_t from = pipeline.datacenter;
  const size_t to = request.decode == kDecodeAtHome ? from : static_cast<size_t>(request.decode);
  const KvLine& line = setting_.lines[from][to];
  const Bytes layer = setting_.kv_per_token_and_layer * real(request.tokens);
  const auto takes = [&](int64_t layers) { return round_to_ns(layer * real(layers) / line.rate); };
  SimTime handed = runs.back().end;
  if (from != to) {
    const SimTime begin = std::max(line_free_[from][to], runs.front().start + time.layer);
    handed = std::max(begin + takes(pipeline.layers()), handed + takes(1));
    return handed + round_to_ns(line.latency);
  }
  for (size_t i = 0; i < runs.size(); ++i) {
    const bool first_of_stage = i == 0 || runs[i - 1].stage != runs[i].stage;
    if (!first_of_stage) continue;
    const int64_t layers = pipeline.stages[static_cast<size_t>(runs[i].stage)].layers;
    handed = std::max(handed, runs[i].start + time.layer + takes(layers));
  }
  handed = std::max(handed, runs.back().end + takes(1));
  return handed + round_to_ns(line.latency);
}

}  // namespace tombolo::prefill
