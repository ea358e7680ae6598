// Configuration: one way to spread a training over devices, as the planner tries them by the
// thousand.
//
// Plain numbers in Megatron's meaning. Tensor, context, data and pipeline parallelism multiply to
// the number of devices; expert parallelism divides the experts among devices that context and data
// parallelism already count, and takes no devices of its own.
//
// Ranks are numbered innermost first: with the default order a scale-up domain is filled by tensor
// parallelism, what is left of it by context, then data, then pipeline (Layout).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/result.h"
#include "spec/model/model.h"

namespace tombolo::cost {

// A degree of parallelism as a grid: `domain` (x, subscript h) devices share a scale-up domain, in
// each of `network` (y, subscript l) domains.
struct Grid {
  int64_t domain = 1;
  int64_t network = 1;

  int64_t degree() const { return domain * network; }
  bool operator==(const Grid&) const = default;
};

// Degrees are laid over a domain one after the other, innermost first. Each takes the greatest
// common divisor of itself and of what is left, so that no group straddles domains unevenly (the
// rail-only paper's constraints 12 and 14 to 16), and leaves the rest: t = 4, d = 6 in a domain of
// 8 give t = 4 x 1 and d = 2 x 3.
Grid take_from_domain(int64_t degree, int64_t& left);

enum class Dimension : uint8_t { kTensor, kContext, kData, kPipeline };
using Order = std::array<Dimension, 4>;  // innermost first
inline constexpr Order kDefaultOrder{Dimension::kTensor, Dimension::kContext, Dimension::kData,
                                     Dimension::kPipeline};

// "tp-cp-ep-dp-pp"; each at most once, "cp" and "ep" may be left out. Experts follow the ranks that
// context and data parallelism take, so "ep" is read and needs no place of its own.
Result<Order> parse_order(std::string_view text);

struct Configuration {
  int64_t tensor = 1;
  int64_t context = 1;
  int64_t data = 1;
  int64_t pipeline = 1;
  int64_t expert = 1;          // divides data x context
  int64_t virtual_stages = 1;  // chunks of layers per device; more than 1: interleaved 1F1B
  int64_t micro_batch = 1;     // sequences
  int64_t global_batch = 1;    // sequences
  int64_t zero = 0;            // ZeRO stage
  bool sequence_parallel = false;
  bool gpipe = false;  // all forward passes first, instead of 1F1B
  model::Recompute recompute = model::Recompute::kNone;
  Order order = kDefaultOrder;

  int64_t devices() const { return tensor * context * data * pipeline; }
  int64_t micro_batches() const {  // of a pipeline
    CHECK(micro_batch > 0 && data > 0, "micro-batches of {} in {} pipelines", micro_batch, data);
    return global_batch / (micro_batch * data);
  }
  bool operator==(const Configuration&) const = default;
};

// The devices of a domain that a job fills, so that its groups do not straddle domains: 64 of the
// 72 of an NVL72 for 256 devices, all 72 for 576. Domains of a power of two are filled.
int64_t usable_domain(int64_t domain, int64_t devices);

// Where the groups of a configuration lie in scale-up domains of `domain` devices.
struct Layout {
  Grid tensor, context, data, pipeline;
  Grid expert;     // innermost ranks of context and data
  Grid gradients;  // context x data: the ranks that sum the same gradients
};
Layout lay_out(const Configuration& configuration, int64_t domain);

}  // namespace tombolo::cost
