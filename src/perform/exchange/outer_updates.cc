#include "perform/exchange/outer_updates.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "perform/compress/dense_code.h"
#include "perform/compress/merge.h"
#include "perform/compress/update_code.h"
#include "perform/exchange/sparse_updates.h"

namespace tombolo::exchange {
namespace {

std::optional<compress::Values> dense_values(const plan::Exchange& exchange) {
  if (exchange.values_in_use() == plan::SentValues::kFp32) return std::nullopt;
  return compress_options(exchange).values;
}

double norm_of(std::span<const float> numbers) {
  double sum = 0;
  for (const float each : numbers) sum += static_cast<double>(each) * each;
  return std::sqrt(sum);
}

}  // namespace

std::vector<float> clipped_to_median(std::span<const double> norms) {
  std::vector<double> sorted(norms.begin(), norms.end());
  std::sort(sorted.begin(), sorted.end());
  const double median = sorted.empty() ? 0 : sorted[(sorted.size() - 1) / 2];
  std::vector<float> factors;
  for (const double norm : norms)
    factors.push_back(norm > median ? static_cast<float>(median / norm) : 1.0f);
  return factors;
}

OuterUpdates::OuterUpdates(const Options& options, int64_t elements, std::vector<float> change,
                           std::span<float> residual, compress::BlockCompressor* compressor)
    : options_(options),
      elements_(elements),
      change_(std::move(change)),
      residual_(residual),
      compressor_(compressor),
      updates_(options.datacenters) {
  CHECK(options.own < options.datacenters, "datacenter {} of {}", options.own, options.datacenters);
  CHECK(change_.empty() || std::ssize(change_) == elements, "{} numbers of {} changed",
        change_.size(), elements);
  CHECK(change_.empty() || !options.exchange.is_sparse_local() ||
            (residual.size() == change_.size() && compressor),
        "a residual of {} numbers for {}", residual.size(), change_.size());
}

Result<link::Payload> OuterUpdates::give(size_t datacenter) {
  if (datacenter == options_.own && !updates_[datacenter]) TRY(take(datacenter, TRY(make())));
  CHECK(updates_.at(datacenter), "the update of datacenter {} is handed on before it is there",
        datacenter);
  return updates_[datacenter]->bytes;
}

Result<link::Payload> OuterUpdates::make() {
  CHECK(!change_.empty() || elements_ == 0, "an update of who does not lead");
  const std::vector<float> change = std::exchange(change_, {});
  const auto diverged = [](const std::string& what) {
    return failed(what + ": training diverged", "a smaller learning_rate, or more warmup_steps");
  };
  if (!options_.exchange.is_sparse_local()) {
    auto bytes = compress::encode_dense(change, dense_values(options_.exchange));
    if (!bytes) return diverged("of the parameters' changes " + bytes.error().message);
    return link::Payload(bytes->begin(), bytes->end());
  }
  if (selects_numbers(options_.exchange)) {
    auto bytes = compress_numbers(options_.exchange, change, residual_);
    if (!bytes) return diverged("of the parameters' changes " + bytes.error().message);
    return std::move(*bytes);
  }
  const compress::CompressOptions how = compress_options(options_.exchange);
  compress::SelectionState state = selection_state(how, options_.number);
  compress::PackedBlocks packed;
  const compress::Selected done = compressor_->compress(change, residual_, state, packed);
  if (done.not_finite > 0)
    return diverged(fmt::format("{} blocks of parameters are no finite numbers", done.not_finite));
  return compress::encode(packed);
}

Result<OuterUpdates::Update> OuterUpdates::decoded(const link::Payload& bytes) const {
  Update update{.bytes = bytes, .numbers = {}, .blocks = {}, .chosen = {}};
  if (!options_.exchange.is_sparse_local()) {
    update.numbers = TRY(compress::decode_dense(bytes, elements_));
  } else if (selects_numbers(options_.exchange)) {
    update.chosen = TRY(decode_numbers(options_.exchange, bytes, elements_));
  } else {
    compress::unpack(TRY(compress::decode(bytes, elements_, compress::blocks_of(elements_))),
                     update.blocks);
  }
  return update;
}

Status OuterUpdates::take(size_t datacenter, const link::Payload& bytes) {
  CHECK(!updates_.at(datacenter), "a second update of datacenter {}", datacenter);
  updates_[datacenter] = TRY(
      during(decoded(bytes), fmt::format("reading the outer update of datacenter {}", datacenter)));
  return {};
}

std::vector<float> OuterUpdates::mean() const {
  for (const auto& each : updates_)
    CHECK(each, "a mean of {} updates before all are there", updates_.size());
  if (!options_.exchange.is_sparse_local()) return mean_of_all();
  return selects_numbers(options_.exchange) ? mean_of_numbers() : mean_of_blocks();
}

std::vector<float> OuterUpdates::mean_of_all() const {
  std::vector<float> sum = updates_[0]->numbers;
  for (size_t d = 1; d < updates_.size(); ++d) {
    const std::vector<float>& its = updates_[d]->numbers;
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += its[i];
  }
  const auto count = static_cast<float>(updates_.size());
  for (float& each : sum) each /= count;
  return sum;
}

std::vector<float> OuterUpdates::mean_of_blocks() const {
  std::vector<compress::Blocks> all;
  std::vector<double> norms;
  for (const auto& each : updates_) {
    all.push_back(each->blocks);
    norms.push_back(norm_of(each->blocks.values));
  }
  compress::Merged merged;
  compress::merge(all, clipped_to_median(norms), merged);
  compress::divide_by_senders(merged);
  return merged.blocks.dense();
}

std::vector<float> OuterUpdates::mean_of_numbers() const {
  std::vector<compress::ChosenNumbers> all;
  std::vector<double> norms;
  for (const auto& each : updates_) {
    all.push_back(each->chosen);
    norms.push_back(norm_of(each->chosen.values));
  }
  return compress::mean_over_senders(all, clipped_to_median(norms));
}

}  // namespace tombolo::exchange
