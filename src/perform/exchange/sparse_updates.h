// What the datacenters send each other of one group of gradients in one iteration instead of the group: a sparse update
// of each, and the merge of all.
//
//   update of a datacenter   of what it has not sent yet, the blocks with the largest norms, or the
//                            largest numbers of each chunk, or of all (perform/compress); the rest
//                            is its residual, which its leader keeps from iteration to iteration
//   the merge                the sum of all, block by block, in the order of the datacenters
//
// Knows neither ranks nor links (group_sum.h sends and receives). All ranks decode the same bytes, those of their own
// datacenter included, so all replicas merge the same bits. Cost: for a leader one pass over the group, 12 bytes an
// element; for every rank O(blocks) for each datacenter.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "perform/compress/chunks.h"
#include "perform/compress/compressor.h"
#include "perform/compress/merge.h"
#include "perform/exchange/datacenter_updates.h"
#include "spec/plan/exchange_settings.h"

namespace tombolo::exchange {

// The options for blocks that the Plan specifies.
compress::CompressOptions compress_options(const plan::Exchange& exchange);
// Whether single numbers are chosen and not blocks; below: how such an update is made and decoded. Both fail if numbers
// are not finite.
bool selects_numbers(const plan::Exchange& exchange);
Result<link::Payload> compress_numbers(const plan::Exchange& exchange,
                                       std::span<const float> gradient, std::span<float> residual);
Result<compress::ChosenNumbers> decode_numbers(const plan::Exchange& exchange,
                                               const link::Payload& update, int64_t elements);
// The Plan's settings with another density.
plan::Exchange with_density(plan::Exchange exchange, double density);

// The state of a selection in this iteration, or outer step: a function of its number alone, so it need not be in a
// checkpoint.
compress::SelectionState selection_state(const compress::CompressOptions& options,
                                         int64_t iteration);

class SparseUpdates final : public DatacenterUpdates {
 public:
  struct Options {
    size_t datacenters = 2;
    size_t own = 0;
    int64_t iteration = 1;
    plan::Exchange exchange;
  };
  // `gradient` must hold the datacenter's sum when its update is asked for; `residual` is as long, or empty if another
  // replica leads. `compressor` is made with the same settings; its density is set to theirs. All outlive it, the
  // gradient until is_taken().
  SparseUpdates(const Options& options, std::span<const float> gradient, std::span<float> residual,
                compress::BlockCompressor& compressor);

  // Fails if a gradient is not finite.
  Result<link::Payload> give(size_t datacenter) override;
  Status take(size_t datacenter, const link::Payload& update) override;

  // The gradient is not read any more.
  bool is_taken() const { return residual_.empty() || made_; }
  // Once all updates are there.
  compress::Merged merged() const;

 private:
  Status make();
  Result<compress::Blocks> decoded(const link::Payload& update) const;

  const Options options_;
  const std::span<const float> gradient_;
  const std::span<float> residual_;
  compress::BlockCompressor& compressor_;
  bool made_ = false;
  std::vector<link::Payload> bytes_;                       // by datacenter
  std::vector<std::optional<compress::Blocks>> unpacked_;  // the same
};

}  // namespace tombolo::exchange
