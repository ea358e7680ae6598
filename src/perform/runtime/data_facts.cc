#include "perform/runtime/data_facts.h"

#include <utility>

namespace tombolo::runtime {
namespace {

// The rank at a position of the pipeline, as ranks are numbered (layout::Placement).
int32_t rank_at(const plan::Plan& plan, int32_t position, int32_t replica) {
  return position * plan.replicas() + replica;
}

bool whole_pipeline_computes(const plan::Plan& plan, int32_t replica) {
  for (int32_t position = 0; position < plan.parallelism.pipeline; ++position) {
    const cluster::Device& device = plan.device_of(rank_at(plan, position, replica));
    if (device.kind == cluster::DeviceKind::kEmulated) return false;
  }
  return true;
}

}  // namespace

Status agree_on_data(const plan::Plan& plan, int32_t rank, int64_t first_iteration,
                     Kernels& kernels, Messenger& messenger) {
  const layout::Placement& own = plan.ranks[static_cast<size_t>(rank)];
  if (!plan.data || !whole_pipeline_computes(plan, own.replica)) return {};
  const link::Tag tag{static_cast<uint64_t>(first_iteration), kDataTensor};
  Payload facts;
  if (own.stage > 0) {
    const int32_t before = rank_at(plan, own.stage - 1, own.replica);
    facts = TRY(messenger.receive(before, tag)).payload;
  }
  facts = TRY(kernels.agree_on_data(std::move(facts)));
  if (own.stage + 1 >= plan.parallelism.pipeline) return {};
  return messenger.send(rank_at(plan, own.stage + 1, own.replica), tag, std::move(facts));
}

}  // namespace tombolo::runtime
