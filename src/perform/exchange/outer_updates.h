// What the datacenters send each other in an outer step of one group of parameters: an update of each,
// of what its parameters changed by (update/outer.h), and the mean of all.
//
//   mode = "local"         All numbers (compress/dense_code.h). The mean is over all datacenters.
//   mode = "sparse-local"  (SparseLoCo: Sarfi et al. 2025) The change is added to `decay` times what was
//                          kept back, and the blocks with the largest norms leave, as quantised. An
//                          update whose norm is above the median of all counts less, so that its norm is
//                          the median. Of each block the mean is over those who sent it. Or single
//                          numbers of chunks (compress/chunks.h), of each the same mean.
//
// Knows neither ranks nor links. Everyone decodes the same bytes, its own datacenter's included, and
// adds them in the order of the datacenters, so all replicas have the same bits. Memory: an update of
// each datacenter, decoded, until mean().
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
  // `change`: of a leader, what its parameters lost. `residual`: as many, of a leader that sends
  // blocks; outlives it, as `compressor` does, which blocks need.
  OuterUpdates(const Options& options, int64_t elements, std::vector<float> change,
               std::span<float> residual, compress::BlockCompressor* compressor);

  // Fails where a parameter is no finite number.
  Result<link::Payload> give(size_t datacenter) override;
  Status take(size_t datacenter, const link::Payload& update) override;
  // All are there.
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

// What each counts for: 1, or where its norm is above the median of all, median / norm. Of an even
// number the lower one of the middle two is the median.
std::vector<float> clipped_to_median(std::span<const double> norms);

}  // namespace tombolo::exchange
