// What a pipeline can do at best, before any of its windows is walked.
#include <algorithm>
#include <bit>
#include <map>

#include "base/check.h"
#include "steer/prefill/prefill_controller.h"

namespace tombolo::prefill {
namespace {

// Lengths of prompts, eight to an octave: of two in different buckets the longer one has the higher.
constexpr size_t kBuckets = 8 * 28;

size_t bucket_of(int64_t tokens) {
  const auto whole = static_cast<uint64_t>(tokens) << 3;
  const auto octave = static_cast<size_t>(std::bit_width(whole)) - 4;
  return std::min(8 * octave + ((whole >> octave) & 7), kBuckets - 1);
}

}  // namespace

// Pipelines whose GPUs are busy at the same times, with the same layers on each: without prompts all
// of a kind end at the same time.
void PrefillController::find_kinds(SimDuration shortest) {
  std::map<std::vector<std::pair<int64_t, int64_t>>, int32_t> pattern_ids, kind_ids;
  for (const Busy& busy : setting_.busy) {
    std::vector<std::pair<int64_t, int64_t>> spans;
    for (const Span& span : busy) spans.emplace_back(span.start.ns, span.end.ns);
    const auto [known, first] = pattern_ids.emplace(spans, std::ssize(patterns_));
    if (first) patterns_.emplace_back(busy, setting_.period, setting_.guard, shortest);
    pattern_of_.push_back(known->second);
  }
  for (size_t p = 0; p < setting_.pipelines.size(); ++p) {
    const PrefillPipeline& pipeline = setting_.pipelines[p];
    std::vector<std::pair<int64_t, int64_t>> key{{static_cast<int64_t>(pipeline.table), 0}};
    PrefillPipeline unused = pipeline;
    for (PipelineStage& stage : unused.stages) {
      stage.gpu = pattern_of_[static_cast<size_t>(stage.gpu)];
      key.emplace_back(stage.gpu, stage.layers);
    }
    const auto [known, first] = kind_ids.emplace(key, std::ssize(kinds_));
    if (first) kinds_.push_back(std::move(unused));
    kind_of_.push_back(known->second);
  }
}

// Of each datacenter, what a hand-over from there takes after the first token at least: a layer's KV
// cache over the line. kNoLine where there is none. Whether there is any.
bool PrefillController::find_lines(const PrefillRequest& request) {
  const Bytes layer = setting_.kv_per_token_and_layer * real(request.tokens);
  handing_.assign(setting_.lines.size(), kNoLine);
  bool any = false;
  for (size_t from = 0; from < setting_.lines.size(); ++from) {
    const size_t to = request.decode == kDecodeAtHome ? from : static_cast<size_t>(request.decode);
    if (to >= setting_.lines.size()) continue;
    const KvLine& line = setting_.lines[from][to];
    if (line.rate.value <= 0) continue;
    handing_[from] = round_to_ns(layer / line.rate) + round_to_ns(line.latency);
    any = true;
  }
  return any;
}

// When a prompt ends on a pipeline of each kind that has no other; or after the bound.
void PrefillController::find_bounds(SimTime bound, SimTime now) {
  kind_ends_.clear();
  for (const PrefillPipeline& kind : kinds_) {
    const bool in_time = walk(patterns_, kind, times_[kind.table], {.ready = now}, bound, now);
    kind_ends_.push_back(in_time ? runs_.back().end : bound + SimDuration{1});
  }
}

// Pipelines with the earliest hand-over that they could have.
void PrefillController::find_candidates(int64_t tokens, SimTime bound, SimTime now) {
  candidates_.clear();
  const size_t bucket = bucket_of(tokens);
  for (size_t p = 0; p < setting_.pipelines.size(); ++p) {
    const PrefillPipeline& pipeline = setting_.pipelines[p];
    const SimDuration handing = handing_[pipeline.datacenter];
    if (handing == kNoLine) continue;
    SimTime at_best = std::max(now, first_free_[p]) +
                      times_[pipeline.table].total(layers_[p], std::ssize(pipeline.stages));
    if (kind_of_[p] != kNoKind) {
      at_best = std::max(at_best, kind_ends_[static_cast<size_t>(kind_of_[p])]);
    }
    if (!not_before_[p].empty()) at_best = std::max(at_best, not_before_[p][bucket]);
    if (at_best + handing <= bound) {
      candidates_.emplace_back(at_best + handing, static_cast<int32_t>(p));
    }
  }
}

// A prompt at least as long does not end before this on a pipeline: time only takes windows away.
void PrefillController::keep_from(int32_t p, int64_t tokens, SimTime end) {
  std::vector<SimTime>& known = not_before_[static_cast<size_t>(p)];
  known.resize(kBuckets);
  for (size_t b = bucket_of(tokens) + 1; b < kBuckets && known[b] < end; ++b) known[b] = end;
}

}  // namespace tombolo::prefill
