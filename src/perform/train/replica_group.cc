#include "perform/train/replica_group.h"

#include <utility>

#include "perform/runtime/messenger.h"
#include "perform/train/messenger_store.h"
#include "perform/transport/address.h"
#include "spec/cluster/islands.h"

#ifdef TOMBOLO_CUDA
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#else
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#endif

namespace tombolo::train {
namespace {

// Concrete classes: their common base is ProcessGroup in 1.13 and Backend in 2.x.
#ifdef TOMBOLO_CUDA
using ProcessGroup = c10d::ProcessGroupNCCL;
constexpr at::DeviceType kDevice = at::kCUDA;  // NCCL sums there, and only there

c10::intrusive_ptr<ProcessGroup::Options> group_options(const std::string&) {
  auto options = ProcessGroup::Options::create();
  options->timeout = ReplicaGroup::kSilenceMax;
  return options;
}
#else
using ProcessGroup = c10d::ProcessGroupGloo;
constexpr at::DeviceType kDevice = at::kCPU;

c10::intrusive_ptr<ProcessGroup::Options> group_options(const std::string& address) {
  auto options = ProcessGroup::Options::create(ReplicaGroup::kSilenceMax);
  options->devices = {ProcessGroup::createDeviceForHostname(address)};
  options->threads = 1;  // one sum at a time
  return options;
}
#endif

const char* reason(const std::exception& error) {
  const auto* torch = dynamic_cast<const c10::Error*>(&error);
  return torch != nullptr ? torch->what_without_backtrace() : error.what();
}

}  // namespace

class ReplicaGroup::Backend {
 public:
  Backend(const c10::intrusive_ptr<c10d::Store>& store, const runtime::Replicas& replicas)
      : group_(store, static_cast<int>(replicas.own), static_cast<int>(replicas.ranks.size()),
               group_options(replicas.address)) {}

  void sum(at::Tensor& values) {
    std::vector<at::Tensor> there = {values.to(kDevice)};  // the very same tensor on a cpu
    group_.allreduce(there)->wait();
    if (!there[0].is_same(values)) values.copy_(there[0]);
  }

 private:
  ProcessGroup group_;
};

ReplicaGroup::ReplicaGroup(const runtime::Replicas& replicas, int32_t stage)
    : replicas_(replicas), stage_(stage) {}

ReplicaGroup::~ReplicaGroup() = default;

Result<std::unique_ptr<ReplicaGroup>> ReplicaGroup::join(const runtime::Replicas& replicas,
                                                         int32_t stage) {
  const auto islands = TRY(cluster::islands_of_environment());
  TRY(during(transport::check_stays_here(replicas.address, islands ? islands->network : ""),
             fmt::format("joining the replicas of stage {}", stage)));
  std::unique_ptr<ReplicaGroup> group(new ReplicaGroup(replicas, stage));
  TRY(group->meet());
  const auto store = c10::make_intrusive<MessengerStore>(replicas);
  try {
    group->backend_ = std::make_unique<Backend>(store, replicas);
    // Connects what is connected at the first use only, and shows that it works.
    at::Tensor one = at::ones({1}, at::kFloat);
    group->backend_->sum(one);
  } catch (const std::exception& error) {
    store->close();
    if (store->error()) return fail(*store->error());
    return fail(group->lost(reason(error)));
  }
  store->close();
  return group;
}

Status ReplicaGroup::sum(at::Tensor& values) {
  TRY(meet());
  try {
    backend_->sum(values);
    return {};
  } catch (const std::exception& error) {
    return fail(lost(reason(error)));
  }
}

Status ReplicaGroup::meet() {
  const link::Tag tag{.iteration = static_cast<uint64_t>(++meetings_),
                      .tensor = runtime::kReplicaTensor + 1};
  for (size_t i = 0; i < replicas_.ranks.size(); ++i) {
    if (i != replicas_.own) TRY(replicas_.messenger->send(replicas_.ranks[i], tag, {}));
  }
  for (size_t i = 0; i < replicas_.ranks.size(); ++i) {
    if (i != replicas_.own) TRY(replicas_.messenger->receive(replicas_.ranks[i], tag));
  }
  return {};
}

// Which of them, Gloo does not say; a connection ends at both ends.
Error ReplicaGroup::lost(const std::string& why) const {
  return {ErrorCode::kLostPeer,
          fmt::format("the replicas of stage {} (ranks {}) lost each other: {}", stage_,
                      fmt::join(replicas_.ranks, ", "), why)};
}

}  // namespace tombolo::train
