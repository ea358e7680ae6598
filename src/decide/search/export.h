// A plan in the words of other programs: arguments of Megatron-LM, a configuration of torchtitan.
//
// Names as of Megatron-LM d98e8a64 of August 2026 (megatron/training/arguments.py and
// megatron/core/transformer/transformer_config.py) and torchtitan 0.2.2 of February 2026
// (torchtitan/config/job_config.py), the last release that reads TOML. What one of them cannot say,
// or says differently, is left out and listed in `notes`.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "spec/plan/job.h"

namespace tombolo::search {

struct Export {
  std::string text;
  std::vector<std::string> notes;  // one sentence each
};

// One argument per line, for `pretrain_gpt.py $(cat arguments)`: parallelism, batch, recomputation,
// precision and the shape of the model. Data, tokenizer and learning rates are the user's.
Export to_megatron(const plan::Job& job);

// TOML with [training], [parallelism] and [activation_checkpoint]. The model's flavor is the
// user's.
Export to_torchtitan(const plan::Job& job);

// "megatron" or "torchtitan" for an explicit job. Unusable: any other; a job without a model, over
// several datacenters or with tensor degrees per stage; what no law can price (cost/law.h).
Result<Export> export_job(const plan::Job& job, const std::string& format);

}  // namespace tombolo::search
