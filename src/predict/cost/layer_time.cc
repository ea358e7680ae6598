#include "predict/cost/layer_time.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "predict/cost/volume.h"

namespace tombolo::cost {
LayerPricer::LayerPricer(const model::Model& model, const cluster::Datacenter& datacenter,
                         const Constants& constants, double element_bytes, bool fp8)
    : m_(model),
      device_(constants.device),
      stack_(constants.stack),
      up_(constants.scale_up),
      out_(constants.scale_out),
      element_(element_bytes),
      fp8_(fp8 && datacenter.device.peak_fp8.has_value()) {
  const cluster::Device& d = datacenter.device;
  CHECK(d.peak.value > 0 && d.memory_bandwidth.value > 0, "{} does {} FLOPS and reads {} B/s",
        d.name, d.peak.value, d.memory_bandwidth.value);
  CHECK(datacenter.scale_up.bandwidth.value > 0 && datacenter.scale_out.bandwidth.value > 0,
        "{} is joined by {} and {} B/s", datacenter.name, datacenter.scale_up.bandwidth.value,
        datacenter.scale_out.bandwidth.value);
  const model::LayerCounts layers = model::count_layers(m_, {0, m_.layers, false, false});
  const double windowed = m_.layers > 0 ? real(layers.windowed) / real(m_.layers) : 0;
  score_share_ = 1 - windowed * (1 - m_.window_share());
  // Full precision runs at half the rate of 16 bits on accelerators; a CPU's peak is that of it.
  peak_ = d.peak.value * (element_bytes > 2 && has_constants(d) ? 0.5 : 1);
  rate16_ = peak_ * device_.matmul_efficiency;
  rate8_ = fp8_ ? d.peak_fp8->value * device_.fp8_efficiency : rate16_;
  memory_rate_ = d.memory_bandwidth.value * device_.memory_efficiency;
  up_rate_ = datacenter.scale_up.bandwidth.value * up_.efficiency;
  up_single_ = datacenter.scale_up.bandwidth.value * up_.single_efficiency;
  out_rate_ = datacenter.scale_out.bandwidth.value * out_.efficiency;
  out_single_ = datacenter.scale_out.bandwidth.value * out_.single_efficiency;
}

// 2 m n k at what the sizes reach of peak, or its operands through memory.
double LayerPricer::product(double m, double n, double k, bool eight_bits) const {
  const double ramps =
      (1 + device_.half_rows / m) * (1 + device_.half_columns / n) * (1 + device_.half_depth / k);
  const auto aligned = [](double width) {
    return width < 64 || static_cast<int64_t>(width) % 64 == 0;
  };
  const double tiles = aligned(n) && aligned(k) ? 1 : device_.unaligned_product;
  const double arithmetic = 2 * m * n * k * ramps * tiles / (eight_bits ? rate8_ : rate16_);
  const double traffic = element_ * (m * n + n * k + m * k) / memory_rate_;
  return std::max({arithmetic, traffic, device_.kernel.value});
}

// Of a model with linear attention a layer stands for the mean of both kinds (model::Model).
double LayerPricer::mean(double full, double linear) const {
  const double share = m_.full_attention_share();
  return share * full + (1 - share) * linear;
}

// The states' products with all tokens, at the rate of fused attention, and the convolution.
double LayerPricer::linear_core(const Configuration& c) const {
  const model::LinearAttention& l = *m_.linear_attention;
  const double tokens = real(c.micro_batch) * real(m_.sequence) / real(c.context);
  const double t = real(c.tensor);
  const double flops = 6 * tokens * real(l.key_dim) * real(l.value_width()) / t;
  const double states = std::max(flops / (peak_ * device_.flash_efficiency * stack_.flash_speed),
                                 device_.kernel.value);
  return states + memory(2 * tokens * real(l.mixed_width()) / t * element_);
}

// Scores, softmax and their product with the values: all that selective recomputation does again
// where they are not fused.
double LayerPricer::attention_core(const Configuration& c) const {
  const double batch = real(c.micro_batch), sequence = real(m_.sequence);
  const double heads = real(m_.heads) / real(c.tensor);
  const double query = sequence / real(c.context);
  double depth = real(m_.head_size()), value = depth;
  if (m_.latent_attention) {
    depth = real(m_.latent_attention->nope_dim + m_.latent_attention->rope_dim);
    value = real(m_.latent_attention->value_dim);
  }
  const double flops = 2 * batch * heads * query * sequence * (depth + value);
  if (stack_.attention == Attention::kFlash) {
    const double ramps =
        (1 + device_.flash_half_sequence / query) * (1 + device_.flash_half_head / depth);
    // Blocks outside of a window are left out as those above the diagonal are.
    const double causal = c.context > 1 ? stack_.context_causal_share : stack_.causal_share;
    const double share = causal * score_share_;
    return std::max(flops * share * ramps / (peak_ * device_.flash_efficiency * stack_.flash_speed),
                    device_.kernel.value);
  }
  // Two batched products, and passes over the matrix of scores between them.
  const bool unaligned = m_.head_size() % 8 != 0;
  const double products = flops * (1 + device_.half_depth / depth) /
                          (peak_ * device_.scores_efficiency) *
                          (unaligned ? device_.unaligned_head : 1);
  const double passes = memory(batch * heads * query * sequence * stack_.score_bytes);
  return products + passes + 5 * device_.kernel.value;
}

// The matrices around attention.
void LayerPricer::attention_block(const Configuration& c, LayerOperators& o) const {
  const double tokens = real(c.micro_batch) * real(m_.sequence) / real(c.context);
  const double h = real(m_.hidden), t = real(c.tensor);
  double width = 0;
  if (m_.latent_attention) {
    const model::LatentAttention& l = *m_.latent_attention;
    const double q = real(l.query_rank), kv = real(l.kv_rank), heads = real(m_.heads) / t;
    const double query = heads * real(l.nope_dim + l.rope_dim);
    const double keys = heads * real(l.nope_dim + l.value_dim);
    if (q > 0) o.query_down = product(tokens, q, h, fp8_);
    o.query = product(tokens, query, q > 0 ? q : h, fp8_);
    o.key_down = product(tokens, kv + real(l.rope_dim), h, fp8_);
    o.key = product(tokens, keys, kv, fp8_);
    o.projection = product(tokens, h, heads * real(l.value_dim), fp8_);
    width = 2 * query + keys + q + kv;
  } else {
    const double a = real(m_.attention_width()) / t, query = real(m_.query_width()) / t;
    const double kv = real(m_.kv_heads * m_.head_size()) / std::min(t, real(m_.kv_heads));
    o.query = product(tokens, query + 2 * kv, h, fp8_);
    o.projection = product(tokens, h, a, fp8_);
    width = query + 2 * kv;
    if (m_.linear_attention) {
      const model::LinearAttention& l = *m_.linear_attention;
      const double values = real(l.value_width()) / t, mixed = real(l.mixed_width()) / t;
      o.query = mean(o.query, product(tokens, mixed + values, h, fp8_) +
                                  product(tokens, 2 * real(l.value_heads) / t, h, false));
      o.projection = mean(o.projection, product(tokens, h, values, fp8_));
      width = mean(width, mixed + values);
    }
  }
  o.attention_passes = memory(tokens * width * element_ * stack_.mlp_passes / 2);
}

// `tokens` rows through an MLP of `width`, both already divided by what divides them.
LayerOperators::Mlp LayerPricer::mlp_block(double width, double tokens) const {
  const double h = real(m_.hidden);
  const bool gated = m_.gated_mlp();
  return {.up = product(tokens, (gated ? 2 : 1) * width, h, fp8_),
          .down = product(tokens, h, width, fp8_),
          .passes = memory(tokens * width * element_ * stack_.mlp_passes * (gated ? 1.5 : 1))};
}

LayerOperators LayerPricer::operators(const Configuration& c, const GroupPlacement& layout,
                                      bool experts) const {
  const double tokens = real(c.micro_batch) * real(m_.sequence) / real(c.context);
  const double h = real(m_.hidden), t = real(c.tensor);
  const double divided = c.sequence_parallel ? t : 1;
  const MicrobatchVolume moved = microbatch_volume(m_, c, element_);

  LayerOperators o;
  attention_block(c, o);
  if (experts) {
    const model::Experts& e = *m_.experts;
    // A device's experts see the tokens of all ranks of their group: as many copies as it sends.
    const double copies = tokens * real(e.per_token);
    const double local = std::max(1.0, real(e.count) / real(c.expert));
    const double rows = std::max(1.0, copies / local);
    o.mlp = mlp_block(real(e.ffn) / t, rows);
    o.experts = local;
    if (e.shared_ffn > 0) o.shared = mlp_block(real(e.shared_ffn) / t, tokens);
    o.router = product(tokens / divided, real(e.count), h, false);
    // Copies of tokens: permuted, sent, and summed with their weights.
    o.permute = memory(copies / divided * h * element_ * stack_.expert_passes);
    if (c.expert > 1) o.exchange = all_to_all(moved.copies, layout.expert);
  } else {
    o.mlp = mlp_block(real(m_.ffn) / t, tokens);
  }
  o.norms = memory(tokens / divided * h * element_ * stack_.layer_passes);
  o.casts = fp8_ ? memory(tokens * h * stack_.fp8_passes) : 0;
  o.pass_backward = stack_.backward_passes;
  o.attention = attention_core(c);
  if (m_.linear_attention) o.attention = mean(o.attention, linear_core(c));
  o.attention_backward = (stack_.attention == Attention::kFlash ? 2.5 : 2.0) * o.attention;
  if (c.tensor > 1) o.gather = all_gather(moved.hidden, layout.tensor);
  if (c.context > 1) o.keys = all_gather(moved.keys_values, layout.context);
  o.all_again = c.recompute == model::Recompute::kFull;
  if (c.recompute == model::Recompute::kSelective) {
    if (stack_.selective == SelectiveRecompute::kOperators) {
      o.again = (layer_of(o).forward.compute - o.attention) / 2;
    } else if (stack_.attention == Attention::kUnfused) {
      o.again = o.attention;
    }
  }
  return o;
}

double LayerOperators::attention_block() const {
  return query_down + query + key_down + key + projection + attention_passes;
}

double LayerOperators::matrices() const {
  return attention_block() + mlp.total() * experts.value_or(1) + shared.total() + router;
}

// Sums in one fixed order, so that equal operators give equal bits.
LayerTime layer_of(const LayerOperators& o) {
  const double matrices = o.matrices();
  LayerPass forward;
  forward.attention = o.attention;
  forward.compute = o.permute + (matrices + o.attention + o.norms + o.casts);
  forward.tensor = 4 * o.gather;
  forward.context = o.keys;
  forward.expert = 2 * o.exchange;

  LayerPass backward;
  backward.attention = o.attention_backward;
  backward.compute = 2 * matrices + backward.attention +
                     o.pass_backward * (forward.compute - matrices - forward.attention);
  backward.tensor = forward.tensor;
  backward.context = 2 * forward.context;
  backward.expert = forward.expert;
  backward.compute += o.again;
  if (o.all_again) backward += forward;
  return {forward, backward};
}

LayerTime LayerPricer::head(const Configuration& c, const GroupPlacement& layout) const {
  const double tokens = real(c.micro_batch) * real(m_.sequence) / real(c.context);
  const double v = real(m_.vocabulary) / real(c.tensor), h = real(m_.hidden);
  const double logits = product(tokens, v, h, false);
  const double passes = memory(tokens * v * stack_.logit_bytes);
  LayerTime time;
  time.forward.compute = logits + passes / 2;
  time.backward.compute = 2 * logits + passes / 2;
  if (c.tensor > 1) {
    // The gradient of the head's input is summed; the forward pass sums two numbers per token.
    time.forward.tensor = 2 * all_reduce(tokens * 4, layout.tensor);
    time.backward.tensor = all_reduce(microbatch_volume(m_, c, element_).hidden, layout.tensor);
  }
  return time;
}

LayerTime LayerPricer::embedding(const Configuration& c) const {
  const double tokens = real(c.micro_batch) * real(m_.sequence) / real(c.context);
  const double bytes = tokens * real(m_.hidden) * element_;
  LayerTime time;
  time.forward.compute = memory(3 * bytes);
  time.backward.compute = memory(6 * bytes);
  return time;
}

double LayerPricer::all_gather(double bytes, const DegreeSplit& grid) const {
  const double n = real(grid.degree());
  if (grid.degree() <= 1) return 0;
  if (grid.network == 1) {
    return up_.startup.value + (n - 1) * up_.latency.value + bytes * (n - 1) / n / up_rate_;
  }
  // A ring enters and leaves each domain through the ports of all its members there.
  const double rate = std::min(up_rate_, out_rate_ * real(grid.domain));
  const double steps =
      real(grid.domain - 1) * up_.latency.value +
      std::min(real(grid.network - 1), 2 * std::log2(real(grid.network))) * out_.latency.value;
  return out_.startup.value + steps + bytes * (n - 1) / n / rate;
}

double LayerPricer::all_to_all(double bytes, const DegreeSplit& grid) const {
  const double n = real(grid.degree());
  if (grid.degree() <= 1) return 0;
  const double inside = bytes * real(grid.domain - 1) / n / up_rate_;
  if (grid.network == 1) return up_.startup.value + inside;
  const double outside = bytes * (n - real(grid.domain)) / n / out_rate_;
  return out_.startup.value + std::max(inside, outside);
}

double LayerPricer::transfer(double bytes, const DegreeSplit& grid) const {
  if (grid.degree() <= 1) return 0;
  if (grid.network == 1) return up_.startup.value + bytes / up_single_;
  return out_.startup.value + bytes / out_single_;
}

}  // namespace tombolo::cost
