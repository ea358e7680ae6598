#include "perform/train/replica_group.h"

#include <cstring>
#include <utility>

#include "perform/kernels/ring_exchange.h"
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
  Backend(const c10::intrusive_ptr<c10d::Store>& store, const kernels::Replicas& replicas)
      : group_(store, static_cast<int>(replicas.own), static_cast<int>(replicas.ranks.size()),
               group_options(replicas.address)) {}

  void sum(at::Tensor& values) {
    std::vector<at::Tensor> there = {values.to(kDevice)};  // the very same tensor on a cpu
    group_.allreduce(there)->wait();
    if (!there[0].is_same(values)) values.copy_(there[0]);
  }

  void sum_at(const at::Tensor& values, size_t owner, bool own) {
    std::vector<at::Tensor> there = {values.to(kDevice)};
    c10d::ReduceOptions options;
    options.rootRank = static_cast<int64_t>(owner);
    group_.reduce(there, options)->wait();
    if (own && !there[0].is_same(values)) values.copy_(there[0]);
  }

  // As bytes: Gloo knows no bfloat16.
  void give(const at::Tensor& values, size_t owner) {
    const at::Tensor bytes = values.view({-1}).view(at::kByte);
    std::vector<at::Tensor> there = {bytes.to(kDevice)};
    c10d::BroadcastOptions options;
    options.rootRank = static_cast<int64_t>(owner);
    group_.broadcast(there, options)->wait();
    if (!there[0].is_same(bytes)) bytes.copy_(there[0]);
  }

 private:
  ProcessGroup group_;
};

ReplicaGroup::ReplicaGroup(const kernels::Replicas& replicas, int32_t stage, uint64_t tensor)
    : replicas_(replicas), stage_(stage), tensor_(tensor) {}

ReplicaGroup::~ReplicaGroup() = default;

Result<std::unique_ptr<ReplicaGroup>> ReplicaGroup::join(const kernels::Replicas& replicas,
                                                         int32_t stage, uint64_t tensor) {
  std::unique_ptr<ReplicaGroup> group(new ReplicaGroup(replicas, stage, tensor));
  const bool here =
      !replicas.lie_apart &&
      TRY(during(group->share_a_host(), fmt::format("joining the replicas of stage {}", stage)));
  if (here) TRY(group->connect());
  return group;
}

// All find the same answer, because all hear the same addresses.
Result<bool> ReplicaGroup::share_a_host() {
  const std::string& own = replicas_.address;
  const link::Tag tag{.iteration = 0, .tensor = tensor_ + 1};
  const auto* begin = reinterpret_cast<const std::byte*>(own.data());
  const kernels::Payload here(begin, begin + own.size());
  for (size_t i = 0; i < replicas_.ranks.size(); ++i) {
    if (i != replicas_.own) TRY(replicas_.messenger->send(replicas_.ranks[i], tag, here));
  }
  bool same = true;
  for (size_t i = 0; i < replicas_.ranks.size(); ++i) {
    if (i == replicas_.own) continue;
    same = TRY(replicas_.messenger->receive(replicas_.ranks[i], tag)).payload == here && same;
  }
  const auto islands = TRY(cluster::islands_of_environment());
  return same && transport::check_stays_here(own, islands ? islands->network : "").has_value();
}

Status ReplicaGroup::connect() {
  const auto store = c10::make_intrusive<MessengerStore>(replicas_, tensor_);
  try {
    backend_ = std::make_unique<Backend>(store, replicas_);
    // Connects what is connected at the first use only, and shows that it works.
    at::Tensor one = at::ones({1}, at::kFloat);
    backend_->sum(one);
  } catch (const std::exception& error) {
    store->close();
    if (store->error()) return fail(*store->error());
    return fail(lost(reason(error)));
  }
  store->close();
  return {};
}

Status ReplicaGroup::sum(at::Tensor& values) {
  if (over_links()) return sum_over_links(values);
  TRY(meet());
  try {
    backend_->sum(values);
    return {};
  } catch (const std::exception& error) {
    return fail(lost(reason(error)));
  }
}

Status ReplicaGroup::sum_over_links(at::Tensor& values) {
  at::Tensor here = values.cpu();  // the very same tensor on a cpu
  const std::span<float> numbers(here.data_ptr<float>(), static_cast<size_t>(here.numel()));
  TRY(kernels::ring_sum(replicas_, static_cast<uint64_t>(++meetings_), numbers, tensor_));
  if (!here.is_same(values)) values.copy_(here);
  return {};
}

Status ReplicaGroup::gather(std::span<const Owned> tensors) {
  if (over_links()) return gather_over_links(tensors);
  TRY(meet());
  try {
    for (const Owned& each : tensors) backend_->give(each.values, each.owner);
    return {};
  } catch (const std::exception& error) {
    return fail(lost(reason(error)));
  }
}

Status ReplicaGroup::scatter(std::span<const at::Tensor> parts) {
  CHECK(parts.size() == replicas_.ranks.size(), "{} parts for {} replicas", parts.size(),
        replicas_.ranks.size());
  if (over_links()) return scatter_over_links(parts);
  TRY(meet());
  try {
    for (size_t owner = 0; owner < parts.size(); ++owner) {
      if (parts[owner].numel() > 0) backend_->sum_at(parts[owner], owner, owner == replicas_.own);
    }
    return {};
  } catch (const std::exception& error) {
    return fail(lost(reason(error)));
  }
}

// In the ring the sum of chunk i + 1 ends at replica i.
Status ReplicaGroup::scatter_over_links(std::span<const at::Tensor> parts) {
  std::vector<at::Tensor> here;
  std::vector<std::span<float>> chunks;
  const size_t n = parts.size();
  for (size_t chunk = 0; chunk < n; ++chunk) {
    here.push_back(parts[(chunk + n - 1) % n].cpu());
    chunks.emplace_back(here.back().data_ptr<float>(), static_cast<size_t>(here.back().numel()));
  }
  TRY(kernels::ring_scatter(replicas_, static_cast<uint64_t>(++meetings_), chunks, tensor_));
  const at::Tensor& own = here[(replicas_.own + 1) % n];
  if (!own.is_same(parts[replicas_.own])) parts[replicas_.own].copy_(own);
  return {};
}

// Each link has its own order: every replica sends all its tensors first, so none waits to send.
Status ReplicaGroup::gather_over_links(std::span<const Owned> tensors) {
  const auto iteration = static_cast<uint64_t>(++meetings_);
  const auto each = [&](bool own, const auto& act) -> Status {
    for (size_t i = 0; i < tensors.size(); ++i) {
      if ((tensors[i].owner == replicas_.own) == own)
        TRY(act(tensors[i], link::Tag{iteration, tensor_ + i}));
    }
    return {};
  };
  TRY(each(true, [&](const Owned& own, const link::Tag& tag) -> Status {
    const at::Tensor here = own.values.cpu();
    const auto* bytes = static_cast<const std::byte*>(here.data_ptr());
    for (size_t r = 0; r < replicas_.ranks.size(); ++r) {
      if (r == replicas_.own) continue;
      TRY(replicas_.messenger->send(replicas_.ranks[r], tag, {bytes, bytes + here.nbytes()}));
    }
    return {};
  }));
  return each(false, [&](const Owned& other, const link::Tag& tag) -> Status {
    const link::Received got = TRY(replicas_.messenger->receive(replicas_.ranks[other.owner], tag));
    at::Tensor here = other.values.cpu();
    if (got.payload.size() != here.nbytes()) {
      return failed(
          fmt::format("a parameter of {} bytes came in {}", here.nbytes(), got.payload.size()),
          "start every rank with the same Plan");
    }
    std::memcpy(here.data_ptr(), got.payload.data(), got.payload.size());
    if (!here.is_same(other.values)) other.values.copy_(here);
    return {};
  });
}

Status ReplicaGroup::meet() {
  return kernels::barrier(replicas_, static_cast<uint64_t>(++meetings_), tensor_ + 1);
}

// Which of them, Gloo does not say; a connection ends at both ends.
Error ReplicaGroup::lost(const std::string& why) const {
  return {ErrorCode::kLostPeer,
          fmt::format("the replicas of stage {} (ranks {}) lost each other: {}", stage_,
                      fmt::join(replicas_.ranks, ", "), why)};
}

}  // namespace tombolo::train
