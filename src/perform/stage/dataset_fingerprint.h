// What ranks must agree on before they train: the data.
//
// The ranks of the first and of the last stage of every pipeline read it, perhaps from copies in
// several datacenters. Pipelines that read the same files (all of them, unless [[data.share]] says
// otherwise) divide their samples, so copies that differ would silently train another model than
// the one asked for. Ranks between the ends read nothing, but must know how many held-out batches
// will pass.
//
// So each pipeline's first position sends its facts to those of the other pipelines that read the
// same files, if it is the first of them, and each position sends them down its pipeline. Cost: a
// message of about 100 bytes for each file and link.
#pragma once

#include "base/result.h"
#include "perform/kernels/kernels.h"
#include "perform/kernels/messenger.h"
#include "spec/plan/plan.h"

namespace tombolo::stage {

// Called by all ranks of a Plan, with the same iteration. Does nothing if the Plan names no data,
// or emulated devices in its pipeline read none. Waits only for ranks before this one.
// Unusable, naming both ranks and the first file that differs.
Status agree_on_data(const plan::Plan& plan, int32_t rank, int64_t first_iteration,
                     kernels::Kernels& kernels, kernels::Messenger& messenger);

// The encoding between ranks.
kernels::Payload encode(const kernels::DataFacts& facts);
Result<kernels::DataFacts> decode_data_facts(const kernels::Payload& payload);

}  // namespace tombolo::stage
