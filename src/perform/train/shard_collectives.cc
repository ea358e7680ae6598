#include "perform/train/shard_collectives.h"

#include <algorithm>

#include "perform/kernels/kernels.h"
#include "perform/train/add_time.h"

namespace tombolo::train {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr ShardAxis kTensor = ShardAxis::kTensor, kContext = ShardAxis::kContext;

at::Tensor widened(const at::Tensor& x) {
  return x.scalar_type() == at::kBFloat16 ? x.to(at::kFloat) : x;
}

}  // namespace

int64_t count_of(const Rows& rows) {
  int64_t sum = 0;
  for (const RowRange& each : rows) sum += each.count;
  return sum;
}

at::Tensor take_rows(const at::Tensor& whole, const Rows& rows) {
  if (rows.size() == 1) return whole.narrow(0, rows[0].first, rows[0].count);
  std::vector<at::Tensor> parts;
  parts.reserve(rows.size());
  for (const RowRange& each : rows) parts.push_back(whole.narrow(0, each.first, each.count));
  return at::cat(parts);
}

ShardCollectives::ShardCollectives(ShardTeam& team, const ShardDegrees& degrees)
    : team_(team), degrees_(degrees), slots_(static_cast<size_t>(degrees.shards())) {
  CHECK(team.shards() == degrees.shards(), "{} threads for {} shards", team.shards(),
        degrees.shards());
}

std::vector<int32_t> ShardCollectives::group_of(ShardAxis axis, int32_t shard) const {
  const auto tensor = static_cast<int32_t>(degrees_.tensor);
  const int32_t first = axis == kTensor ? shard / tensor * tensor : shard % tensor;
  const int32_t step = axis == kTensor ? 1 : tensor;
  const int64_t count = axis == kTensor ? degrees_.tensor : degrees_.context;
  std::vector<int32_t> group;
  for (int64_t i = 0; i < count; ++i) group.push_back(first + static_cast<int32_t>(i) * step);
  return group;
}

// The first of a group makes room for the result, of which each computes a share. A slot is its owner's
// again once all have met for the second time.
template <class Combine>
at::Tensor ShardCollectives::combine(ShardAxis axis, int32_t shard, const at::Tensor& part,
                                     const Combine& two) {
  const std::vector<int32_t> group = group_of(axis, shard);
  if (group.size() == 1) return part;
  const AddTime time(watched(axis, shard));
  Slot& own = slots_[static_cast<size_t>(shard)];
  own.given = part.contiguous();
  if (shard == group.front()) own.common = at::empty_like(own.given);
  team_.meet();
  const at::Tensor common = slots_[static_cast<size_t>(group.front())].common;
  const auto share = kernels::share_of(common.numel(), number_on(axis, shard), std::ssize(group));
  const auto share_of = [&](const at::Tensor& x) {
    TORCH_CHECK(x.sizes() == common.sizes(), "shards combine tensors of different shapes");
    return x.view({-1}).narrow(0, share.first, share.count);
  };
  at::Tensor result = widened(share_of(slots_[static_cast<size_t>(group[0])].given));
  for (size_t i = 1; i < group.size(); ++i)
    result = two(result, widened(share_of(slots_[static_cast<size_t>(group[i])].given)));
  share_of(common).copy_(result);
  team_.meet();
  own = {};
  return common;
}

at::Tensor ShardCollectives::sum(ShardAxis axis, int32_t shard, const at::Tensor& part) {
  const at::NoGradGuard no_gradients;
  return combine(axis, shard, part, [](const at::Tensor& a, const at::Tensor& b) { return a + b; });
}

at::Tensor ShardCollectives::largest(ShardAxis axis, int32_t shard, const at::Tensor& part) {
  const at::NoGradGuard no_gradients;
  return combine(axis, shard, part,
                 [](const at::Tensor& a, const at::Tensor& b) { return at::maximum(a, b); });
}

at::Tensor ShardCollectives::gather(ShardAxis axis, int32_t shard, const at::Tensor& part,
                                    const Rows& own_rows, int64_t total) {
  const at::NoGradGuard no_gradients;
  const std::vector<int32_t> group = group_of(axis, shard);
  if (group.size() == 1) return part;
  const AddTime time(watched(axis, shard));
  Slot& own = slots_[static_cast<size_t>(shard)];
  if (shard == group.front()) {
    std::vector<int64_t> shape = part.sizes().vec();
    shape[0] = total;
    own.common = at::empty(shape, part.options());
  }
  team_.meet();
  const at::Tensor common = slots_[static_cast<size_t>(group.front())].common;
  int64_t from = 0;
  for (const RowRange& each : own_rows) {
    common.narrow(0, each.first, each.count).copy_(part.narrow(0, from, each.count));
    from += each.count;
  }
  team_.meet();
  own = {};
  return common;
}

at::Tensor ShardCollectives::scatter(ShardAxis axis, int32_t shard, const at::Tensor& whole,
                                     const Rows& own_rows) {
  const at::NoGradGuard no_gradients;
  const std::vector<int32_t> group = group_of(axis, shard);
  if (group.size() == 1) return whole;
  const AddTime time(watched(axis, shard));
  Slot& own = slots_[static_cast<size_t>(shard)];
  own.given = whole;
  team_.meet();
  at::Tensor sum = widened(take_rows(slots_[static_cast<size_t>(group[0])].given, own_rows));
  for (size_t i = 1; i < group.size(); ++i)
    sum = sum + widened(take_rows(slots_[static_cast<size_t>(group[i])].given, own_rows));
  team_.meet();
  own = {};
  return sum.to(whole.scalar_type());
}

Rows ShardPlace::own_rows(int64_t rows) const {
  const auto share = kernels::share_of(rows, tensor(), degrees().tensor);
  return {{share.first, share.count}};
}

Rows ShardPlace::own_tokens(int64_t sequence) const {
  const int64_t parts = degrees().context;
  if (parts == 1) return {{0, sequence}};
  const int64_t each = sequence / (2 * parts), early = context(), late = 2 * parts - 1 - early;
  return {{early * each, each}, {late * each, each}};
}

Rows ShardPlace::own_tokens(int64_t samples, int64_t sequence) const {
  if (degrees().context == 1) return {{0, samples * sequence}};
  Rows rows;
  for (int64_t sample = 0; sample < samples; ++sample) {
    for (const RowRange& each : own_tokens(sequence))
      rows.push_back({sample * sequence + each.first, each.count});
  }
  return rows;
}

at::Tensor bring_rows(const ShardPlace& place, const at::Tensor& x, int64_t rows) {
  if (!place.cuts_rows()) return x;
  return place.with->gather(kTensor, place.shard, x, place.own_rows(rows), rows);
}

at::Tensor sum_parts(const ShardPlace& place, const at::Tensor& partial) {
  if (!place.cuts_rows()) return place.with->sum(kTensor, place.shard, partial);
  return place.with->scatter(kTensor, place.shard, partial, place.own_rows(partial.size(0)));
}

// --- with gradients ------------------------------------------------------------------------------

namespace {

int64_t address_of(const ShardPlace& place) { return reinterpret_cast<int64_t>(&place); }
const ShardPlace& place_at(AutogradContext* context) {
  return *reinterpret_cast<const ShardPlace*>(context->saved_data["place"].toInt());
}

// Each of a tensor group makes its own of x: gradients add up. With sequence parallelism: rows of all in.
struct Enter : torch::autograd::Function<Enter> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, int64_t address,
                            int64_t rows) {
    context->saved_data["place"] = address;
    return bring_rows(place_at(context), x, rows).detach();
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {sum_parts(place_at(context), gradients[0]), at::Tensor(), at::Tensor()};
  }
};

// With sequence parallelism: the sum of one's own rows out.
struct Leave : torch::autograd::Function<Leave> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& partial, int64_t address) {
    context->saved_data["place"] = address;
    context->saved_data["rows"] = partial.size(0);
    return sum_parts(place_at(context), partial).detach();
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const int64_t rows = context->saved_data["rows"].toInt();
    return {bring_rows(place_at(context), gradients[0], rows), at::Tensor()};
  }
};

struct SumForAll : torch::autograd::Function<SumForAll> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& part, int64_t address) {
    context->saved_data["place"] = address;
    const ShardPlace& place = place_at(context);
    return place.with->sum(kTensor, place.shard, part).detach();
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const ShardPlace& place = place_at(context);
    return {place.with->sum(kTensor, place.shard, gradients[0]), at::Tensor()};
  }
};

struct GatherTokens : torch::autograd::Function<GatherTokens> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, int64_t address,
                            int64_t samples, int64_t sequence) {
    context->saved_data["place"] = address;
    context->saved_data["samples"] = samples;
    context->saved_data["sequence"] = sequence;
    const ShardPlace& place = place_at(context);
    return place.with
        ->gather(kContext, place.shard, x, place.own_tokens(samples, sequence), samples * sequence)
        .detach();
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const ShardPlace& place = place_at(context);
    const Rows own = place.own_tokens(context->saved_data["samples"].toInt(),
                                      context->saved_data["sequence"].toInt());
    return {place.with->scatter(kContext, place.shard, gradients[0], own), at::Tensor(),
            at::Tensor(), at::Tensor()};
  }
};

struct Loss : torch::autograd::Function<Loss> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& logits,
                            const at::Tensor& targets, int64_t address, int64_t first,
                            int64_t rows_in_all) {
    context->saved_data["place"] = address;
    context->saved_data["rows"] = rows_in_all;
    context->saved_data["type"] = static_cast<int64_t>(logits.scalar_type());
    const ShardPlace& place = place_at(context);
    const at::Tensor wide = widened(logits);
    const at::Tensor most = place.with->largest(kTensor, place.shard, at::amax(wide, {1}));
    const at::Tensor powers = at::exp(wide - most.unsqueeze(1));
    const at::Tensor here = at::logical_and(targets >= first, targets < first + wide.size(1));
    const at::Tensor index = at::where(here, targets - first, at::zeros_like(targets)).unsqueeze(1);
    const at::Tensor own = here.to(wide.scalar_type());
    const at::Tensor picked = wide.gather(1, index).squeeze(1) * own;
    const at::Tensor sums =
        place.with->sum(kTensor, place.shard, at::stack({powers.sum(1), picked}));
    context->save_for_backward({powers / sums[0].unsqueeze(1), index, own});
    return (at::log(sums[0]) + most - sums[1]).sum() / rows_in_all;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor weight = gradients[0] / context->saved_data["rows"].toInt();
    const at::Tensor of_logits = saved[0].scatter_add(1, saved[1], -saved[2].unsqueeze(1)) * weight;
    const auto type = static_cast<at::ScalarType>(context->saved_data["type"].toInt());
    return {of_logits.to(type), at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor enter_products(const ShardPlace& place, const at::Tensor& x, int64_t rows) {
  if (place.degrees().tensor == 1) return x;
  return Enter::apply(x, address_of(place), rows);
}

at::Tensor leave_products(const ShardPlace& place, const at::Tensor& partial) {
  if (place.degrees().tensor == 1) return partial;
  return Leave::apply(partial, address_of(place));
}

at::Tensor sum_for_all(const ShardPlace& place, const at::Tensor& part) {
  return place.degrees().tensor == 1 ? part : SumForAll::apply(part, address_of(place));
}

at::Tensor gather_tokens(const ShardPlace& place, const at::Tensor& x, int64_t samples,
                         int64_t sequence) {
  if (place.degrees().context == 1) return x;
  return GatherTokens::apply(x, address_of(place), samples, sequence);
}

at::Tensor loss_of_shards(const ShardPlace& place, const at::Tensor& logits,
                          const at::Tensor& targets, int64_t first, int64_t rows_in_all) {
  return Loss::apply(logits, targets, address_of(place), first, rows_in_all);
}

}  // namespace tombolo::train
