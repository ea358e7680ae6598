#include "perform/train/measure_rates.h"

#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/quantiles.h"
#include "perform/train/blas_check.h"
#include "perform/train/cpu_features.h"
#include "perform/train/kept_memory.h"
#include "perform/train/operations.h"
#include "perform/train/stage_module.h"
#include "perform/train/threads.h"

namespace tombolo::train {
namespace {

constexpr int kLooksMin = 3;
constexpr int64_t kHeadWidth = 32;

// Medians of the looks that begin within the budget, after one that fills caches and allocator.
// Works that are compared are looked at in turns, so that what disturbs one disturbs all.
class Stopwatch {
 public:
  Stopwatch(const std::function<Seconds()>& now, Seconds budget) : now_(now), budget_(budget) {}

  template <class... Work>
  std::array<Seconds, sizeof...(Work)> medians_of(const Work&... works) const {
    (works(), ...);
    std::array<std::vector<double>, sizeof...(Work)> looks;
    const Seconds end = now_() + budget_ * real(sizeof...(Work));
    for (Seconds begin = now_(); looks[0].size() < kLooksMin || begin < end;) {
      size_t which = 0;
      const auto look = [&](const auto& work) {
        work();
        const Seconds after = now_();
        looks[which++].push_back((after - begin).value);
        begin = after;
      };
      (look(works), ...);
    }
    std::array<Seconds, sizeof...(Work)> answer;
    for (size_t i = 0; i < answer.size(); ++i) answer[i] = Seconds{median(std::move(looks[i]))};
    return answer;
  }

 private:
  const std::function<Seconds()>& now_;
  Seconds budget_;
};

plan::MeasuredProduct measure_product(const Stopwatch& watch, plan::Precision precision,
                                      int64_t rows, int64_t columns, int64_t depth) {
  const at::NoGradGuard no_gradients;
  const auto type = precision == plan::Precision::kBf16 ? at::kBFloat16 : at::kFloat;
  const at::Tensor x = at::ones({rows, depth}, type), weight = at::ones({columns, depth}, type);
  const auto [each] = watch.medians_of([&] { at::linear(x, weight); });
  return {.precision = precision,
          .rows = rows,
          .columns = columns,
          .depth = depth,
          .rate = Flops{2 * real(rows) * real(columns) * real(depth)} / each};
}

// STREAM's add (McCalpin 1995): two arrays read, one written. Write-allocation is not counted.
BytesPerSecond measure_stream(const Stopwatch& watch, Bytes array) {
  const at::NoGradGuard no_gradients;
  const auto caches = std::max<int64_t>(0, sysconf(_SC_LEVEL3_CACHE_SIZE));
  const int64_t larger = std::min<int64_t>(4 * caches, 1'000'000'000);
  const auto size = std::max(static_cast<int64_t>(array.value), larger) / 4;
  const at::Tensor a = at::ones({size}, at::kFloat), b = at::ones({size}, at::kFloat);
  at::Tensor c = at::zeros({size}, at::kFloat);
  const auto [each] = watch.medians_of([&] { at::add_out(c, a, b); });
  return Bytes{3.0 * 4.0 * real(size)} / each;
}

model::Model layer_of(int64_t hidden, int64_t sequence) {
  model::Model m{.name = "layer", .layers = 1, .hidden = hidden, .vocabulary = 256};
  m.heads = m.kv_heads =
      std::max<int64_t>(1, hidden / (hidden < 512 ? kHeadWidth : 2 * kHeadWidth));
  m.ffn = hidden * 11 / 4;
  m.sequence = sequence;
  return m;
}

Result<plan::MeasuredLayer> measure_layer(const Stopwatch& watch, const model::Model& m,
                                          int64_t rows) {
  const model::Slice slice{.first_layer = 0, .layers = 1};
  StageModule module = TRY(StageModule::create(m, slice, /*seed*/ 1));
  const auto gradient = [](const at::Tensor& like) { return at::full_like(like, 1e-3); };
  const at::Tensor input =
      at::arange(rows * m.hidden, at::kFloat).sin().view({rows, m.hidden});  // numbers in [-1, 1]
  const auto forward_and_backward = [&] {
    WeightGradients gradients;
    const at::Tensor x = input.detach();
    const at::Tensor y = module.forward(x.set_requires_grad(true), &gradients);
    torch::autograd::backward({y}, {gradient(y)});
  };
  const AttentionShape shape{.samples = rows / m.sequence,
                             .sequence = m.sequence,
                             .heads = m.heads,
                             .kv_heads = m.kv_heads,
                             .head_size = m.head_size()};
  const AttentionTables tables = attention_tables(shape, RotaryPositions{}, at::kFloat);
  const auto its_attention = [&] {
    const auto leaf = [&] { return input.detach().set_requires_grad(true); };
    const at::Tensor y = causal_attention(shape, tables, leaf(), leaf(), leaf());
    torch::autograd::backward({y}, {gradient(y)});
  };
  const auto [whole, attention] = watch.medians_of(forward_and_backward, its_attention);
  return plan::MeasuredLayer{
      .model = m, .micro_batch = shape.samples, .whole = whole, .attention = attention};
}

// As many ranks as there are cores for them share the machine's.
Bytes memory_of_rank(int64_t threads) {
  const Bytes machine{real(sysconf(_SC_PHYS_PAGES)) * real(sysconf(_SC_PAGESIZE))};
  return machine * std::min(1.0, real(threads) / real(sysconf(_SC_NPROCESSORS_ONLN)));
}

}  // namespace

Result<plan::DeviceRates> measure_rates(const RatesOptions& o,
                                        const std::function<Seconds()>& now) {
  CHECK(o.threads >= 1 && !o.hidden.empty() && o.sequence >= 1 && o.rows % o.sequence == 0,
        "{} threads, {} layers of {} rows in sequences of {}", o.threads, o.hidden.size(), o.rows,
        o.sequence);
  TRY(check_blas());
  set_threads(o.threads);
  keep_freed_memory(4_GB);  // as where training runs
  plan::DeviceRates rates{.threads = o.threads, .memory = memory_of_rank(o.threads)};
  std::vector<plan::Precision> precisions = {plan::Precision::kFp32};
  if (cpu_features().bf16_products) precisions.push_back(plan::Precision::kBf16);
  const auto layers = static_cast<int64_t>(o.hidden.size());
  const auto figures = static_cast<int64_t>(precisions.size()) * (layers + 1) + 1 + 2 * layers;
  const Stopwatch watch(now, o.budget / real(figures));
  for (const plan::Precision precision : precisions) {
    for (const int64_t hidden : o.hidden) {
      rates.products.push_back(measure_product(watch, precision, o.rows, hidden * 11 / 4, hidden));
    }
    const int64_t square = 2 * o.hidden.back();
    rates.products.push_back(measure_product(watch, precision, square, square, square));
  }
  rates.stream = measure_stream(watch, o.stream_array);
  for (const int64_t hidden : o.hidden) {
    rates.layers.push_back(TRY(measure_layer(watch, layer_of(hidden, o.sequence), o.rows)));
  }
  return rates;
}

}  // namespace tombolo::train
