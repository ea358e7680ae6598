#include "spec/schedule/exchange_memory.h"

#include <cmath>

#include "spec/plan/gradient_groups.h"
#include "spec/schedule/sparse_exchange.h"

namespace tombolo::schedule {
namespace {

constexpr double kFloat = 4, kBlockOfNumbers = 16;

}  // namespace

ExchangeMemory exchange_memory(const plan::Plan& plan, int32_t rank, int32_t stage) {
  ExchangeMemory out;
  const plan::Exchange exchange = plan.exchange.value_or(plan::Exchange{});
  if (exchange.mode == plan::ExchangeMode::kDense || !plan.exchanges_gradients(stage)) return out;
  const plan::Stage& here = plan.stages[static_cast<size_t>(stage)];
  const double parameters = real(model::parameters(plan.model, here.slice)) /
                            real(plan.parallelism.tensor_at(plan.position_of(stage)));
  int32_t number = 0;
  for (const plan::GradientGroup& group : plan::gradient_groups(plan, stage)) {
    const double elements = std::round(parameters * (group.bytes / here.gradients));
    const Bytes one{kFloat * elements};
    const bool leads = sparse_role(plan, rank, stage, number++).leads;
    if (exchange.keeps_residuals() && leads) out.residuals += one;
    if (exchange.is_sparse())
      out.last_steps += Bytes{kFloat * std::ceil(elements / kBlockOfNumbers)};
    if (!exchange.is_local()) continue;
    out.anchor += one;
    if (exchange.outer_momentum_in_use() > 0) out.momentum += one;
    if (exchange.delay_in_use() > 0) out.arrived += one;
  }
  return out;
}

}  // namespace tombolo::schedule
