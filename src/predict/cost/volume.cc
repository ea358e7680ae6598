#include "predict/cost/volume.h"

#include <algorithm>

#include "base/check.h"

namespace tombolo::cost {

MicrobatchVolume microbatch_volume(const model::Model& model, const Configuration& c,
                                   double element_bytes) {
  CHECK(c.tensor >= 1 && c.context >= 1, "a stage on {} x {} devices", c.tensor, c.context);
  const double tokens = real(c.micro_batch) * real(model.sequence);
  const double t = real(c.tensor);
  MicrobatchVolume out;
  out.hidden = tokens / real(c.context) * real(model.hidden) * element_bytes;
  if (model.latent_attention) {
    const model::LatentAttention& l = *model.latent_attention;
    const int64_t of_head = l.nope_dim + l.rope_dim + l.value_dim;
    out.keys_values = tokens * real(model.heads * of_head) / t * element_bytes;
  } else {
    // More tensor ranks than heads of keys: each rank has a whole one.
    const double split = real(std::min(c.tensor, model.kv_heads));
    // Layers of linear attention pass on their states, which are small compared with these.
    out.keys_values = model.full_attention_share() * tokens * 2 *
                      real(model.kv_heads * model.head_size()) / split * element_bytes;
  }
  if (model.experts) {
    const double mine = c.sequence_parallel ? out.hidden / t : out.hidden;
    out.copies = mine * real(model.experts->per_token);
  }
  return out;
}

HeldParameters held_parameters(const model::Model& model, const Configuration& c,
                               const model::Slice& slice) {
  const double t = real(c.tensor), e = real(c.expert);
  const auto experts = real(model::expert_parameters(model, slice));
  return {(real(model::parameters(model, slice)) - experts) / t, experts / (t * e)};
}

}  // namespace tombolo::cost
