// Sends caches to a decode worker, on a thread of its own: so a rank that reads prompts in the gaps of
// a training hands a cache over and waits for nothing.
//
// Memory: what was given and has not left (the engine that admitted it counts it until then), and what
// the link holds (decode_link.h).
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "perform/generate/kv_rows.h"
#include "perform/handover/decode_link.h"

namespace tombolo::handover {

class CacheSender {
 public:
  // `reader`: which of those that share the model's layers; 0 is the first or only one.
  CacheSender(generate::DecodePlace place, HostServices host, int32_t reader = 0);
  // What has not left is dropped; the decode worker sees that this end has gone.
  ~CacheSender();

  void give(generate::HandedOver prompt);

  // What has become of it since the last call. Never waits.
  struct News {
    bool linked = false;                     // the decode worker has answered, once
    std::vector<int64_t> left = {};          // by number
    std::optional<std::string> failed = {};  // it cannot be reached (any more); nothing follows
  };
  News news();

 private:
  void run();
  Status call();
  Status send_one(const generate::HandedOver& prompt);

  const generate::DecodePlace place_;
  const int32_t rank_;
  const HostServices host_;
  std::mutex mutex_;
  const std::unique_ptr<Signal> changed_;
  std::unique_ptr<transport::Endpoint> endpoint_;
  std::deque<generate::HandedOver> waiting_;
  News news_;
  bool stopping_ = false;
  std::unique_ptr<Thread> thread_;
};

}  // namespace tombolo::handover
