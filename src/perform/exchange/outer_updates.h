// What the datacenters send each other in an outer step of one group of parameters: an update of each,
// with the change of its parameters (update/outer.h), and the mean of all.
//
//   mode = "local"         All numbers (compress/dense_code.h). The mean is over all datacenters.
//   mode = "sparse-local"  (SparseLoCo: Sarfi et al. 2025) The change is added to `decay` times the
//                          residual, and the blocks with the largest norms are sent, quantised. An
//                          update whose norm is above the median of all is scaled down to the median.
//                          The mean of a block is over the datacenters that sent it. Or single
//                          numbers of chunks (compress/chunks.h), of each the same mean.
//
// Knows neither ranks nor links. All ranks decode the same bytes, those of their own datacenter
// included, and add them in the order of the datacenters, so all replicas have the same bits. Memory: an
// update of each datacenter, decoded, until mean().
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "perform/compress/chunks.h"
#include "perform/compress/compressor.h"
#include "perform/exchange/datacenter_updates.h"
#include "spec/plan/exchange_settings.h"

namespace tombolo::exchange {

class OuterUpdates final : public DatacenterUpdates {
 public:
  struct Options {
    size_t datacenters = 2;
    size_t own = 0;
    int64_t number = 1;  // of the group's outer steps
    plan::Exchange exchange;
  };
  // `change`: anchor - parameters, of a leader. `residual`: as many numbers, of a leader that sends
  // blocks; outlives it, as does `compressor`, which is needed for blocks.
  OuterUpdates(const Options& options, int64_t elements, std::vector<float> change,
               std::span<float> residual, compress::BlockCompressor* compressor);

  // Fails where a parameter is no finite number.
  Result<link::Payload> give(size_t datacenter) override;
  Status take(size_t datacenter, const link::Payload& update) override;
  // Once all updates are there.
  std::vector<float> mean() const;

 private:
  struct Update {
    link::Payload bytes;
    std::vector<float> numbers;      // all, or:
    compress::Blocks blocks;         // or:
    compress::ChosenNumbers chosen;  // of updates of single numbers
  };
  Result<link::Payload> make();
  Result<Update> decoded(const link::Payload& bytes) const;
  std::vector<float> mean_of_all() const;
  std::vector<float> mean_of_blocks() const;
  std::vector<float> mean_of_numbers() const;

  const Options options_;
  const int64_t elements_;
  std::vector<float> change_;
  const std::span<float> residual_;
  compress::BlockCompressor* const compressor_;
  std::vector<std::optional<Update>> updates_;  // by datacenter
};

// The factor of each update: 1, or median / norm if its norm is above the median of all. Of an even
// number the lower one of the middle two is the median.
std::vector<float> clipped_to_median(std::span<const double> norms);

}  // namespace tombolo::exchange
