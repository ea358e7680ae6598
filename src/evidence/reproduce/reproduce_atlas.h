// What Atlas says of choosing datacenters and of parallelism over a WAN, beside our figures.
//
// Algorithm 1 is arithmetic: which numbers of pipelines it finds on the lists of section 6.3 was
// worked out by hand, for the paper prints only throughputs. Its curves (figures 2, 3, 11 and 12)
// are not printed as numbers; the text quotes some, and these are the rows. What the text quotes
// and leaves too much open to be computed is a row with the reason.
//
// Source: Palak et al. 2024, Improving training time and GPU utilization in geo-distributed
// language model training, sections 3, 4.5 and 6.3 to 6.4. docs/laws/datacenter_selection.md.
#pragma once

#include <vector>

#include "evidence/reproduce/reproduce.h"
#include "predict/cost/roofline.h"

namespace tombolo::reproduce {

// How the tables name their source, before ", section ...".
inline constexpr const char* kAtlas =
    "Palak et al. 2024, Improving training time and GPU utilization in geo-distributed language "
    "model training, ";

// A layer of GPT-A (sequences of 4,096, hidden size 4,096) or GPT-B (6,144 and 8,192) on an A100
// with full recomputation, one sequence a micro-batch; heads of 128, as the paper leaves them out.
struct AtlasLayer {
  plan::StageCost cost;
  Bytes boundary;  // what one micro-batch sends to the next stage
};
AtlasLayer atlas_layer(int64_t sequence, int64_t hidden);

// algorithm-1, figure-2, figure-3, figure-11 and figure-12.
std::vector<Table> atlas_selection();

// figure-6, figure-11-gain and section-6.2: schedules, played.
std::vector<Table> atlas_schedules();

}  // namespace tombolo::reproduce
