// What replicas tell each other so that a process group can come up: a c10d::Store over a
// Messenger.
//
// A process group publishes its addresses under keys, and looks up those of the others. PyTorch's
// own stores use a server for that, which trusts any client that finds its port. Here the replicas
// use the links that they have anyway, which know each peer: set() sends key and value to all,
// wait() blocks until they have arrived. So every replica has a copy, and operations that change a
// key later (add, compareSet, deleteKey) cannot work; no process group that we use needs them to
// come up.
//
// One thread per peer listens, until that peer says that nothing more comes.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "perform/kernels/kernels.h"
#include "perform/kernels/messenger.h"
#include "perform/train/torch_compat.h"

namespace tombolo::train {

class MessengerStore : public c10d::Store {
 public:
  // Messages are tagged 0, `tensor`.
  explicit MessengerStore(const kernels::Replicas& replicas,
                          uint64_t tensor = kernels::kReplicaTensor);
  ~MessengerStore() override { close(); }

  // Says that nothing more comes, and waits until every other replica has said so or is lost.
  // What was received stays readable. Nothing can be set afterwards.
  void close();

  // Why nothing can be sent or received: a replica was lost, or sent a malformed message.
  std::optional<Error> error() const;

  // Of c10d::Store. They throw, as c10d expects: after an error(), and when a wait takes too long.
  void set(const std::string& key, const std::vector<uint8_t>& value) override;
  std::vector<uint8_t> get(const std::string& key) override;
  void wait(const std::vector<std::string>& keys) override { wait(keys, timeout_); }
  void wait(const std::vector<std::string>& keys,
            const std::chrono::milliseconds& timeout) override;
  bool check(const std::vector<std::string>& keys) override;
  int64_t getNumKeys() override;
  int64_t add(const std::string& key, int64_t value) override;  // throws
  bool deleteKey(const std::string& key) override;              // throws
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 8)
  // For other threads, which this one serves as well.
  c10::intrusive_ptr<c10d::Store> clone() override {
    return c10::intrusive_ptr<c10d::Store>::reclaim_copy(this);
  }
#endif

 private:
  void listen(int32_t peer);
  void tell_all(const kernels::Payload& message);
  void fail_with(Error error);
  bool has(const std::vector<std::string>& keys) const;  // with the lock

  const kernels::Replicas replicas_;
  const link::Tag tag_;
  std::vector<std::thread> listeners_;
  bool closed_ = false;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::vector<uint8_t>> values_;
  std::optional<Error> error_;
};

}  // namespace tombolo::train
