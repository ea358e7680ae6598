// The replicas of a stage sum tensors: by a PyTorch process group, c10d's Gloo on a cpu and its NCCL
// where Tombolo is built for CUDA, or over the links of the run, as pipelines do.
//
// Which one. Gloo's connections are plain, unauthenticated TCP. So they are made only
// between replicas of one address, of this machine or of an emulated island; else sums go over the
// links, which have TLS and survive lost connections (kernels/ring_exchange.h).
//
// Bits. All replicas hold the same bits after sum(), on every run. Gloo cuts a tensor into one
// chunk per replica and adds each chunk along the ring: of n replicas, chunk c is
// (x[c-1] + x[c-2]) + ... + x[c], indices modulo n. The order depends on place, n and the tensor's
// length only, never on the order of arrival; then every replica gets a copy of the chunk that was
// summed at one place. (Patarasuk & Yuan 2009 describe the ring; gloo/allreduce.cc of 2022 does this.)
// That is for one length: cut the tensor differently and the last bits may differ. Over links the
// ring turns the other way round.
//
// Lost replicas. Replicas first announce themselves through the Messenger, and only then does
// Gloo move bytes. So the long wait, for the slowest replica, ends as every receive() does: with a
// message, or when the peer is lost or the run is aborted. From then on a killed replica closes its
// connections, which fails the sum at once; one that is silent fails it after kSilenceMax.
#pragma once

#include <chrono>
#include <memory>
#include <span>

#include "base/result.h"
#include "perform/kernels/kernels.h"
#include "perform/kernels/messenger.h"
#include "perform/train/torch_compat.h"

namespace tombolo::train {

class ReplicaGroup {
 public:
  static constexpr std::chrono::milliseconds kSilenceMax{30'000};

  // All replicas of stage `stage` call it. Returns when every one of them is connected to all
  // others. kLostPeer, naming the replicas, if one is lost meanwhile. `tensor`: the first number of its
  // messages, needed if some of the replicas are in another group too.
  static Result<std::unique_ptr<ReplicaGroup>> join(const kernels::Replicas& replicas,
                                                    int32_t stage,
                                                    uint64_t tensor = kernels::kReplicaTensor);
  ~ReplicaGroup();

  // Replaces `values` by the sum over all replicas, which call this with tensors of one length in
  // the same order. fp32, contiguous. kLostPeer as above; the group is of no use afterwards.
  // Bytes: 2 (n - 1) / n of the tensor leave each replica, and as many come.
  Status sum(at::Tensor& values);

  // Every replica gets the bytes of each tensor from its owner; all call this with tensors of
  // the same sizes in the same order. Contiguous, of any type. kLostPeer as above.
  // Bytes: n - 1 times its own leave each owner.
  struct Owned {
    at::Tensor values;
    size_t owner = 0;  // of Replicas::ranks
  };
  Status gather(std::span<const Owned> tensors);

  // `parts` has one tensor for each replica, of any lengths: `parts[own]` becomes the sum over all replicas,
  // which call this with the same lengths; the other parts are undefined afterwards. fp32, contiguous.
  // kLostPeer as above.
  // Bytes: all parts but one's own leave each replica.
  Status scatter(std::span<const at::Tensor> parts);

  bool over_links() const { return !backend_; }

 private:
  class Backend;
  ReplicaGroup(const kernels::Replicas& replicas, int32_t stage, uint64_t tensor);
  Status meet();
  Result<bool> share_a_host();
  Status connect();
  Status sum_over_links(at::Tensor& values);
  Status gather_over_links(std::span<const Owned> tensors);
  Status scatter_over_links(std::span<const at::Tensor> parts);
  Error lost(const std::string& why) const;

  const kernels::Replicas replicas_;
  const int32_t stage_;
  const uint64_t tensor_;
  int64_t meetings_ = 0;
  std::unique_ptr<Backend> backend_;
};

}  // namespace tombolo::train
