#include "perform/train/sharded_stage.h"

#include <set>
#include <tuple>

namespace tombolo::train {

Result<std::unique_ptr<ShardedStage>> ShardedStage::create(StageModule& whole,
                                                           std::span<const Strand> strands,
                                                           int64_t samples) {
  std::unique_ptr<ShardedStage> out(new ShardedStage(whole, strands, samples));
  for (size_t strand = 0; strand < strands.size(); ++strand) {
    if (!out->is_cut()) {
      if (strand > 0)
        out->modules_.push_back(
            std::make_unique<StageModule>(whole.of_strand(strands[strand].experts)));
      continue;
    }
    ShardCollectives* const with = strands[strand].with;
    for (int32_t shard = 0; shard < with->shards(); ++shard) {
      out->places_.push_back(std::make_unique<ShardPlace>(ShardPlace{with, shard}));
      out->modules_.push_back(std::make_unique<StageModule>(
          TRY(whole.of_strand(strands[strand].experts).shard(*out->places_.back(), samples))));
    }
  }
  if (!out->is_cut()) return out;
  std::set<std::tuple<size_t, int64_t, int64_t>> taken;  // parts of the whole gradients
  for (int32_t shard = 0; shard < out->shards(); ++shard) {
    const StageModule& module = out->module(shard);
    for (size_t i = 0; i < module.parameters().size(); ++i) {
      if (!module.parameters()[i].value.requires_grad()) continue;
      const ParameterCut& cut = module.cuts()[i];
      if (!taken.insert({i, cut.first, cut.count}).second) out->copies_.push_back({shard, i});
    }
  }
  return out;
}

const StageModule& ShardedStage::module(int32_t shard, int32_t strand) const {
  if (is_cut()) return *modules_[static_cast<size_t>(strand * shards() + shard)];
  return strand == 0 ? whole_ : *modules_[static_cast<size_t>(strand - 1)];
}

// Modes of gradients are a thread's own.
void ShardedStage::for_each(const ShardTeam::Work& work, int32_t strand) const {
  if (!is_cut()) return work(0);
  const bool grad_mode = at::GradMode::is_enabled();
  strands_[static_cast<size_t>(strand)].with->team().run([&](int32_t shard) {
    const at::AutoGradMode mode(grad_mode);
    work(shard);
  });
}

at::Tensor ShardedStage::tokens_of(int32_t shard, const at::Tensor& tokens) const {
  if (!is_cut() || places_.front()->degrees().context == 1) return tokens;
  const Rows own = places_[static_cast<size_t>(shard)]->own_tokens(tokens.size(1));
  return take_rows(tokens.t(), own).t().contiguous();
}

// Of the rows that a context group shares out, those that sequence parallelism leaves a shard.
Rows ShardedStage::rows_of(int32_t shard, int64_t rows) const {
  const ShardPlace& place = *places_[static_cast<size_t>(shard)];
  const Rows tokens = place.own_tokens(samples_, rows / samples_);
  if (!place.cuts_rows()) return tokens;
  const RowRange own = place.own_rows(count_of(tokens)).front();
  Rows out;
  int64_t before = 0;
  for (const RowRange& each : tokens) {
    const int64_t first = std::max(own.first, before);
    const int64_t end = std::min(own.first + own.count, before + each.count);
    if (first < end) out.push_back({each.first + first - before, end - first});
    before += each.count;
  }
  return out;
}

at::Tensor ShardedStage::hidden_of(int32_t shard, const at::Tensor& hidden) const {
  return is_cut() ? take_rows(hidden, rows_of(shard, hidden.size(0))) : hidden;
}

at::Tensor ShardedStage::join_hidden(std::span<const at::Tensor> parts) const {
  if (!is_cut() || places_.front()->degrees().context * (places_.front()->cuts_rows() ? 2 : 1) == 1)
    return parts.front();
  const at::NoGradGuard no_gradients;
  const int64_t rows = samples_ * whole_.sequence();
  at::Tensor all = at::empty({rows, parts.front().size(1)}, parts.front().options());
  for (int32_t shard = 0; shard < shards(); ++shard) {
    const ShardPlace& place = *places_[static_cast<size_t>(shard)];
    if (!place.cuts_rows() && place.tensor() > 0) continue;
    int64_t from = 0;
    for (const RowRange& each : rows_of(shard, rows)) {
      all.narrow(0, each.first, each.count)
          .copy_(parts[static_cast<size_t>(shard)].narrow(0, from, each.count));
      from += each.count;
    }
  }
  return all;
}

double ShardedStage::join_loss(std::span<const double> parts) const {
  if (!is_cut()) return parts.front();
  double sum = 0;
  for (int32_t shard = 0; shard < shards(); ++shard) {
    if (places_[static_cast<size_t>(shard)]->tensor() == 0)
      sum += parts[static_cast<size_t>(shard)];
  }
  return sum;
}

at::Tensor ShardedStage::part_of(const at::Tensor& all, int32_t shard, size_t parameter) const {
  const ParameterCut& cut = module(shard).cuts()[parameter];
  return cut.whole ? all : all.narrow(cut.axis, cut.first, cut.count);
}

void ShardedStage::begin_gradients() {
  if (!is_cut()) return;
  const at::NoGradGuard no_gradients;
  for (Parameter& each : whole_.parameters())
    each.value.mutable_grad() = at::zeros_like(each.value);
  for (size_t module = 0; module < modules_.size(); ++module) {
    const auto shard = static_cast<int32_t>(module) % shards();
    std::vector<Parameter>& own = modules_[module]->parameters();
    for (size_t i = 0; i < own.size(); ++i) {
      own[i].value.mutable_grad() = own[i].value.requires_grad()
                                        ? part_of(whole_.parameters()[i].value.grad(), shard, i)
                                        : at::Tensor();
    }
  }
  for (Copy& copy : copies_) {
    const at::Tensor& value = module(copy.shard).parameters()[copy.parameter].value;
    if (copy.sum.defined()) {
      copy.sum.zero_();
    } else {
      copy.sum = at::zeros(value.sizes(), value.options().requires_grad(false));
    }
    for (size_t strand = 0; strand < strands_.size(); ++strand)
      modules_[strand * static_cast<size_t>(shards()) + static_cast<size_t>(copy.shard)]
          ->parameters()[copy.parameter]
          .value.mutable_grad() = copy.sum;
  }
}

// Parameter by parameter, so that of each one the copies come in order.
void ShardedStage::fold(int32_t strand) {
  if (copies_.empty()) return;
  const at::NoGradGuard no_gradients;
  for_each(
      [&](int32_t shard) {
        for (Copy& copy : copies_) {
          if (static_cast<int32_t>(copy.parameter) % shards() != shard) continue;
          part_of(whole_.parameters()[copy.parameter].value.grad(), copy.shard, copy.parameter)
              .add_(copy.sum);
          copy.sum.zero_();
        }
      },
      strand);
}

int64_t ShardedStage::bytes() const {
  size_t sum = 0;
  for (const Copy& copy : copies_) sum += copy.sum.defined() ? copy.sum.nbytes() : 0;
  return static_cast<int64_t>(sum);
}

}  // namespace tombolo::train
