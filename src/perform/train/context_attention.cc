#include "perform/train/context_attention.h"

namespace tombolo::train {

at::Tensor context_attention(const ShardPlace& place, const AttentionShape& s,
                             const AttentionTables& tables, const at::Tensor& query,
                             const at::Tensor& key, const at::Tensor& value) {
  const int64_t here = s.sequence / place.degrees().context;
  const auto by_head = [&](const at::Tensor& x, int64_t tokens, int64_t heads) {
    return x.view({s.samples, tokens, heads, s.head_size}).transpose(1, 2);
  };
  const at::Tensor q = rotate(by_head(query, here, s.heads), tables);
  const int64_t width = s.kv_heads * s.head_size;
  const at::Tensor turned =
      rotate(by_head(key, here, s.kv_heads), tables).transpose(1, 2).reshape({-1, width});
  // Together: one exchange, and one order of exchanges backward.
  const at::Tensor both = gather_tokens(place, at::cat({turned, value}, 1), s.samples, s.sequence);
  const at::Tensor k = by_head(both.narrow(1, 0, width).contiguous(), s.sequence, s.kv_heads);
  const at::Tensor v = by_head(both.narrow(1, width, width).contiguous(), s.sequence, s.kv_heads);
  std::vector<at::Tensor> parts;
  int64_t from = 0;
  for (const RowRange& own : place.own_tokens(s.sequence)) {
    const int64_t seen = own.first + own.count;
    const at::Tensor mask = tables.mask.narrow(0, own.first, own.count).narrow(1, 0, seen);
    parts.push_back(
        attend(s, mask, q.narrow(2, from, own.count), k.narrow(2, 0, seen), v.narrow(2, 0, seen)));
    from += own.count;
  }
  return at::cat(parts, 1).view({s.samples * here, s.heads * s.head_size});
}

}  // namespace tombolo::train
