#include "perform/runtime/sparse_updates.h"

#include "base/check.h"
#include "perform/compress/update_code.h"

namespace tombolo::runtime {

compress::CompressOptions compress_options(const plan::Exchange& exchange) {
  const auto values = [&] {
    switch (exchange.values_in_use()) {
      case plan::SentValues::kBf16:
        return compress::Values::kBf16;
      case plan::SentValues::kInt8:
        return compress::Values::kInt8;
      case plan::SentValues::kInt4:
        return compress::Values::kInt4;
      case plan::SentValues::kTwoBit:
        return compress::Values::kTwoBit;
      case plan::SentValues::kFp32:
        break;
    }
    CHECK(false, "values {}", static_cast<int>(exchange.values_in_use()));
  };
  return {
      .density = exchange.density_in_use(), .values = values(), .decay = exchange.decay_in_use()};
}

compress::SelectionState selection_state(const compress::CompressOptions& options,
                                         int64_t iteration) {
  return {.step = iteration - 1, .since_exact = (iteration - 1) % options.exact_every};
}

SparseUpdates::SparseUpdates(const Options& options, std::span<const float> gradient,
                             std::span<float> residual, compress::BlockCompressor& compressor)
    : options_(options),
      gradient_(gradient),
      residual_(residual),
      compressor_(compressor),
      bytes_(options.datacenters),
      unpacked_(options.datacenters) {
  CHECK(options.own < options.datacenters, "datacenter {} of {}", options.own, options.datacenters);
  CHECK(residual.empty() || residual.size() == gradient.size(), "a residual of {} numbers for {}",
        residual.size(), gradient.size());
}

Result<link::Payload> SparseUpdates::give(size_t datacenter) {
  if (datacenter == options_.own && !residual_.empty() && !made_) TRY(make());
  CHECK(unpacked_.at(datacenter), "the update of datacenter {} is handed on before it is there",
        datacenter);
  return bytes_[datacenter];
}

Status SparseUpdates::make() {
  made_ = true;
  compress::SelectionState state = selection_state(options_.compress, options_.iteration);
  compress::PackedBlocks packed;
  const compress::Selected done = compressor_.compress(gradient_, residual_, state, packed);
  if (done.not_finite > 0) {
    return failed(fmt::format("{} blocks of gradients are no finite numbers in iteration {}: "
                              "training diverged",
                              done.not_finite, options_.iteration),
                  "a smaller learning_rate, or more warmup_steps");
  }
  return take(options_.own, compress::encode(packed));
}

Status SparseUpdates::take(size_t datacenter, const link::Payload& update) {
  const auto length = static_cast<int64_t>(gradient_.size());
  const compress::PackedBlocks packed =
      TRY(during(compress::decode(update, length, compress::blocks_of(length)),
                 fmt::format("reading the sparse update of datacenter {}", datacenter)));
  CHECK(!unpacked_.at(datacenter), "a second update of datacenter {}", datacenter);
  compress::unpack(packed, unpacked_[datacenter].emplace());
  bytes_[datacenter] = update;
  return {};
}

compress::Merged SparseUpdates::merged() const {
  std::vector<compress::Blocks> all;
  for (const auto& each : unpacked_) {
    CHECK(each, "updates are merged before all {} are there", unpacked_.size());
    all.push_back(*each);
  }
  compress::Merged out;
  compress::merge(all, {}, out);
  return out;
}

}  // namespace tombolo::runtime
