// Recorded requests to a language model: when each came and how long its prompt is, as Azure
// publishes them.
//
//   TIMESTAMP,ContextTokens,GeneratedTokens
//   2023-11-16 18:17:03.9799600,4808,10
//
// Source: Azure/AzurePublicDataset, AzureLLMInferenceDataset2023 (Patel et al. 2024, Splitwise). No
// time zone, or "Z" or "+00:00"; up to nine digits of a second; rows ascend in time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace tombolo::prefill_sim {

struct TracedRequest {
  SimTime arrival;  // since the first one
  int64_t prompt_tokens = 1;
  int64_t output_tokens = 0;

  bool operator==(const TracedRequest&) const = default;
};

// Unusable, with file, line and column: another header, a cell of another kind, a prompt of no
// token or beyond 100 million, a time that is none or before the one above; no request at all.
Result<std::vector<TracedRequest>> parse_request_trace(std::string_view csv,
                                                       const std::string& file);
Result<std::vector<TracedRequest>> read_request_trace(const std::string& path);  // at most 1 GB

}  // namespace tombolo::prefill_sim
