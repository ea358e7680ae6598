#include "predict/cost/prefill_time.h"

#include <algorithm>

#include "base/check.h"
#include "predict/cost/configuration.h"
#include "predict/cost/constants.h"
#include "predict/cost/layer_time.h"
#include "predict/cost/roofline.h"

namespace tombolo::cost {
namespace {

constexpr double kStored = 2;  // bytes of a number at 16 bits

// The model with a sequence of `tokens` tokens.
model::Model of_length(model::Model model, int64_t tokens) {
  model.sequence = tokens;
  return model;
}

// The head sees the last token alone; its weights pass through memory once.
double head_seconds(const LayerPricer& pricer, const model::Model& model) {
  return pricer.memory(kStored * real(model.vocabulary) * real(model.hidden));
}

PrefillTime by_operators(const model::Model& model, const cluster::Datacenter& datacenter,
                         const Constants& constants, ShardHop hop) {
  const LayerPricer pricer(model, datacenter, constants, kStored, false);
  const Configuration one;
  const GroupPlacement layout = lay_out(one, datacenter.scale_up.domain);
  const model::Slice all{0, model.layers, false, false};
  const model::LayerCounts kinds = model::count_layers(model, all);
  double layer = 0;
  for (const bool experts : {false, true}) {
    if ((experts ? kinds.experts : kinds.dense) == 0) continue;
    layer = std::max(layer, pricer.layer(one, layout, experts).forward.compute);
  }
  PrefillTime time{.tokens = model.sequence};
  time.layer = std::max(Seconds{layer}, constants.stack.host_layer);
  time.ends = Seconds{pricer.embedding(one).forward.compute + head_seconds(pricer, model)};
  const double bytes = kStored * real(model.sequence) * real(model.hidden);
  const DegreeSplit grid = hop == ShardHop::kScaleUp ? DegreeSplit{2, 1} : DegreeSplit{1, 2};
  time.transfer = Seconds{pricer.transfer(bytes, grid)};
  return time;
}

PrefillTime by_roofline(const model::Model& model, const cluster::Datacenter& datacenter,
                        ShardHop hop) {
  const StageWork work{.micro_batch = 1, .element_bytes = kStored};
  const auto forward = [&](const model::Slice& slice) {
    return roofline(model, slice, datacenter.device, work).forward;
  };
  PrefillTime time{.tokens = model.sequence};
  time.layer = forward({0, 1, false, false});
  for (int64_t i = std::max<int64_t>(1, model.layers - model.layer_period()); i < model.layers; ++i)
    time.layer = std::max(time.layer, forward({i, 1, false, false}));
  time.ends = Bytes{kStored * real(model.vocabulary) * real(model.hidden)} /
              datacenter.device.memory_bandwidth;
  const Bytes bytes{kStored * real(model.sequence) * real(model.hidden)};
  time.transfer = hop == ShardHop::kScaleUp
                      ? datacenter.scale_up.latency + bytes / datacenter.scale_up.bandwidth
                      : datacenter.scale_out.latency + bytes / datacenter.scale_out.bandwidth;
  return time;
}

}  // namespace

Result<PrefillTime> prefill_time(const model::Model& model, const cluster::Datacenter& datacenter,
                                 ShardHop hop, int64_t tokens) {
  if (tokens < 1 || tokens > model.sequence) {
    return unusable(
        fmt::format("a prompt of {} tokens: {} takes 1 to {}", tokens, model.name, model.sequence));
  }
  const model::Model prompt = of_length(model, tokens);
  if (!has_constants(datacenter.device)) return by_roofline(prompt, datacenter, hop);
  const Constants constants = TRY(find_constants(datacenter, "tombolo"));
  return by_operators(prompt, datacenter, constants, hop);
}

Result<std::vector<PrefillTime>> prefill_times(const model::Model& model,
                                               const cluster::Datacenter& datacenter,
                                               ShardHop hop) {
  std::vector<int64_t> lengths;
  for (int64_t power = 1; power < model.sequence; power *= 2) {
    for (int64_t quarter = 4; quarter < 8; ++quarter) {
      if (power * quarter % 4 == 0) lengths.push_back(power * quarter / 4);
    }
  }
  std::erase_if(lengths, [&](int64_t length) { return length >= model.sequence; });
  lengths.push_back(model.sequence);
  std::vector<PrefillTime> times;
  for (const int64_t length : lengths) {
    times.push_back(TRY(prefill_time(model, datacenter, hop, length)));
    // Rounding of sizes to tiles may make a longer prompt faster; it is not taken for so.
    if (times.size() < 2) continue;
    const PrefillTime& before = times[times.size() - 2];
    times.back().layer = std::max(times.back().layer, before.layer);
    times.back().ends = std::max(times.back().ends, before.ends);
    times.back().transfer = std::max(times.back().transfer, before.transfer);
  }
  return times;
}

Seconds loading_time(Bytes weights, BytesPerSecond bus) {
  CHECK(weights.value >= 0 && bus.value > 0, "{} B over {} B/s", weights.value, bus.value);
  return weights / bus;
}

}  // namespace tombolo::cost
