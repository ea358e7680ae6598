#include "perform/exchange/sparse_updates.h"

#include "base/check.h"
#include "perform/compress/top_k.h"
#include "perform/compress/update_code.h"

namespace tombolo::exchange {

compress::CompressOptions compress_options(const plan::Exchange& exchange) {
  const auto values = [&] {
    if (exchange.selects_top_k())
      return compress::Values::kBf16;  // of blocks, which it does not send
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

bool selects_numbers(const plan::Exchange& exchange) {
  return exchange.selects_chunks() || exchange.selects_top_k();
}

Result<link::Payload> compress_numbers(const plan::Exchange& exchange,
                                       std::span<const float> gradient, std::span<float> residual) {
  const double density = exchange.density_in_use(), decay = exchange.decay_in_use();
  if (exchange.selects_top_k())
    return compress::compress_top_k({.density = density, .decay = decay}, gradient, residual);
  return compress::compress_chunks({.per_chunk = compress::numbers_of_chunk(density),
                                    .values = compress_options(exchange).values,
                                    .decay = decay},
                                   gradient, residual);
}

Result<compress::ChosenNumbers> decode_numbers(const plan::Exchange& exchange,
                                               const link::Payload& update, int64_t elements) {
  return exchange.selects_top_k() ? compress::decode_coordinates(update, elements)
                                  : compress::decode_chunks(update, elements);
}

plan::Exchange with_density(plan::Exchange exchange, double density) {
  exchange.density = density;
  return exchange;
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
  const auto diverged = [&](const std::string& what) {
    return failed(fmt::format("{} in iteration {}: training diverged", what, options_.iteration),
                  "a smaller learning_rate, or more warmup_steps");
  };
  if (selects_numbers(options_.exchange)) {
    const auto update = compress_numbers(options_.exchange, gradient_, residual_);
    if (!update) return diverged("of gradients " + update.error().message);
    return take(options_.own, *update);
  }
  compress::SelectionState state =
      selection_state(compress_options(options_.exchange), options_.iteration);
  compress::PackedBlocks packed;
  compressor_.set_density(options_.exchange.density_in_use());
  const compress::Selected done = compressor_.compress(gradient_, residual_, state, packed);
  if (done.not_finite > 0)
    return diverged(fmt::format("{} blocks of gradients are no finite numbers", done.not_finite));
  return take(options_.own, compress::encode(packed));
}

Result<compress::Blocks> SparseUpdates::decoded(const link::Payload& update) const {
  const auto length = static_cast<int64_t>(gradient_.size());
  if (selects_numbers(options_.exchange))
    return compress::blocks_around(TRY(decode_numbers(options_.exchange, update, length)));
  compress::Blocks blocks;
  compress::unpack(TRY(compress::decode(update, length, compress::blocks_of(length))), blocks);
  return blocks;
}

Status SparseUpdates::take(size_t datacenter, const link::Payload& update) {
  CHECK(!unpacked_.at(datacenter), "a second update of datacenter {}", datacenter);
  unpacked_[datacenter] = TRY(during(
      decoded(update), fmt::format("reading the sparse update of datacenter {}", datacenter)));
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

}  // namespace tombolo::exchange
