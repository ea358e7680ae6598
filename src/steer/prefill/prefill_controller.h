// The controller of prefill in bubbles: which pipeline takes a prompt, and when each of its layers
// runs. Decisions only, without clock, socket or file; `now` is passed in.
//
// A prefill pipeline is a row of GPUs of one datacenter, each with a shard of the model. A prompt
// passes them in order; where suspension is allowed its layers are spread over as many windows as it
// takes, one layer at a time, else a shard runs within one window. Each layer starts as early as it
// can, which no other order on these GPUs beats. The prompt goes to the pipeline that hands over
// first: the last layer done, and the KV cache at the decode worker that the request names.
//
// A prompt that no pipeline can hand over within a bound is refused at once. Batch requests wait in
// a queue instead and are tried again later.
//
// Source: BubbleTea (Palak et al. 2024, section 5.1); the KV cache in the admission is that of
// Prefill-as-a-Service (2026). Cost: pipelines in the order of what they can do at best, until none
// left can be better; each O(stages (log windows + windows passed)). docs/laws/prefill_windows.md.
#pragma once

#include <cstdint>
#include <deque>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/time.h"
#include "base/units.h"
#include "steer/prefill/bubble_windows.h"
#include "steer/prefill/durations.h"
#include "steer/prefill/free_windows.h"

namespace tombolo::prefill {

struct PipelineStage {
  int32_t gpu = 0;
  int64_t layers = 0;
};

struct PrefillPipeline {
  std::vector<PipelineStage> stages;  // every layer of the model once
  size_t datacenter = 0;
  size_t table = 0;  // of durations

  int64_t layers() const {
    int64_t sum = 0;
    for (const PipelineStage& stage : stages) sum += stage.layers;
    return sum;
  }
};

// From a datacenter to another, or from a GPU into its datacenter's network.
struct KvLine {
  BytesPerSecond rate;  // 0: there is none
  Seconds latency;
};

struct PrefillSetting {
  SimDuration period;
  std::vector<Busy> busy;  // of each GPU
  std::vector<PrefillPipeline> pipelines;
  std::vector<DurationTable> tables;
  // By datacenter of the pipeline, then of the decode worker. The diagonal is what each GPU has; the
  // others are shared by all pipelines there, first come first served.
  std::vector<std::vector<KvLine>> lines;
  Bytes kv_per_token_and_layer;
  SimDuration within;  // from arrival to the hand-over
  SimDuration guard;
  bool suspension = true;
  size_t queue_max = 10'000;  // batch requests that wait
};

inline constexpr int32_t kDecodeAtHome = -1;

struct PrefillRequest {
  int64_t id = 0;  // of the caller; unique among active ones
  SimTime arrival;
  int64_t tokens = 1;
  int32_t decode = kDecodeAtHome;  // datacenter of the decode worker
  bool batch = false;
};

// `layers` layers of a prompt, one after the other on one GPU.
struct PrefillRun {
  int32_t gpu = 0;
  int32_t stage = 0;  // of its pipeline
  int64_t first_layer = 0;
  int64_t layers = 0;
  SimTime start;
  SimTime end;

  bool operator==(const PrefillRun&) const = default;
};

struct PrefillPlacement {
  int64_t id = 0;
  int32_t pipeline = 0;
  std::vector<PrefillRun> runs;  // in order
  SimTime first_token;           // the last layer and the head are done
  SimTime handed_over;           // and the KV cache is with the decode worker

  SimTime start() const { return runs.front().start; }
  bool operator==(const PrefillPlacement&) const = default;
};

enum class Verdict {
  kPlaced,
  kQueued,    // a batch request that waits
  kTooLong,   // for the model
  kNoWindow,  // the bound would be passed
  kNoLine,    // no pipeline has a line to the decode worker
};

struct Admission {
  Verdict verdict = Verdict::kNoWindow;
  PrefillPlacement placement;  // of kPlaced
};

class PrefillController {
 public:
  // CHECKs that pipelines name existing GPUs, tables and datacenters, and each GPU once.
  explicit PrefillController(PrefillSetting setting);

  // `now` never falls from one call to the next.
  Admission submit(const PrefillRequest& request, SimTime now);
  // Places batch requests that fit now, oldest first, until one does not.
  std::vector<PrefillPlacement> advance(SimTime now);
  size_t queued() const { return queue_.size(); }

  // Training on a GPU is later than assumed by `later` (negative: earlier), with the guard learned
  // meanwhile (TrainingTracker). Runs that have begun stay. A prompt whose later runs do not fit any
  // more is placed again from its next layer on, on the same pipeline, as its KV cache is there. Its
  // bound then counts from now; if it cannot be met the prompt is given up, with first_token kNever.
  // Returns the prompts that were moved, lowest id first.
  std::vector<PrefillPlacement> shift(int32_t gpu, SimDuration later, SimDuration guard,
                                      SimTime now);

  const PrefillSetting& setting() const { return setting_; }

 private:
  // Where a prompt stands: what is done of it.
  struct Progress {
    size_t stage = 0;
    int64_t done = 0;         // layers of that stage
    int64_t first_layer = 0;  // of the model
    SimTime ready;            // for the next one
  };
  struct Booking {
    int64_t id = 0;
    PrefillRun run;
  };
  struct Active {
    PrefillRequest request;
    PrefillPlacement placement;
  };

  static constexpr SimDuration kNoLine{-1};

  bool find_lines(const PrefillRequest& request);
  void find_candidates(int64_t tokens, SimTime bound, SimTime now);
  void keep_from(int32_t pipeline, int64_t tokens, SimTime end);
  void try_pipeline(const PrefillRequest& request, int32_t pipeline, SimTime now,
                    PrefillPlacement& best);
  void find_kinds(SimDuration shortest);
  void find_bounds(SimTime bound, SimTime now);
  // Fills runs_; false: it would end after `latest`.
  bool walk(std::vector<FreeWindows>& gpus, const PrefillPipeline& pipeline, const PromptTime& time,
            Progress at, SimTime latest, SimTime now);
  SimTime hand_over(const PrefillPipeline& pipeline, const PrefillRequest& request,
                    const PromptTime& time, const std::vector<PrefillRun>& runs) const;
  Admission place(const PrefillRequest& request, SimTime now);
  void book(const PrefillRequest& request, PrefillPlacement placement, SimTime now);
  FreeWindows& windows_at(std::vector<FreeWindows>& gpus, int32_t gpu, SimTime t);
  void take_again(int32_t gpu, SimTime now, std::vector<int64_t>& displaced);
  void drop_unbegun(const Active& active, SimTime now, std::vector<int32_t>& gpus);
  PrefillPlacement go_on(Active& active, SimTime now);
  void forget(int32_t gpu, SimTime now);

  PrefillSetting setting_;
  std::vector<FreeWindows> windows_;  // by GPU
  std::vector<int64_t> layers_;       // by pipeline
  // By kind: what pipelines whose GPUs have the same busy times can do at best. A pipeline on which
  // training was shifted is of no kind.
  static constexpr int32_t kNoKind = -1;
  std::vector<FreeWindows> patterns_;  // without prompts
  std::vector<int32_t> pattern_of_;    // by GPU
  std::vector<SimTime> first_free_;    // by pipeline: before it no window of its first GPU
  std::vector<PrefillPipeline> kinds_;
  std::vector<int32_t> kind_of_;  // by pipeline
  // What was learned where a prompt did not fit: by pipeline and bucket of lengths.
  std::vector<std::vector<SimTime>> not_before_;
  std::vector<SimTime> kind_ends_;                   // of the prompt at hand
  std::vector<std::deque<Booking>> bookings_;        // by GPU, in order of start
  std::vector<std::vector<SimTime>> line_free_;      // by line
  std::unordered_map<int64_t, Active> active_;       // placed, not over
  std::deque<std::pair<SimTime, int64_t>> endings_;  // of those, about in order
  std::deque<PrefillRequest> queue_;
  std::vector<SimDuration> handing_;  // of the prompt at hand, by datacenter
  std::vector<PromptTime> times_;     // of the prompt at hand, by table
  std::vector<std::pair<SimTime, int32_t>> candidates_;
  std::vector<PrefillRun> runs_;  // of the pipeline at hand
};

}  // namespace tombolo::prefill
