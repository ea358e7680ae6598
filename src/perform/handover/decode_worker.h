// The decode worker: takes the keys and values of prompts that were read elsewhere, and answers them.
//
// One front and its readers of prompts at a time. When one of them is lost, or says what cannot be, everything
// of theirs is dropped and the worker waits for the next ones: it keeps no state that outlives them. What it
// holds at most: the caches that its limits allow, and a link's worth of messages of each (decode_link.h).
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "perform/generate/kv_rows.h"
#include "perform/handover/decode_link.h"

namespace tombolo::handover {

class DecodeWorker {
 public:
  // Listens from now on, at place.host; place.port 0: any that is free. `shard` is a whole model and
  // outlives the worker. `log` is called when a front or a reader has gone, and says why; it gets no
  // prompts or tokens.
  static Result<std::unique_ptr<DecodeWorker>> listen(const generate::Shard& shard,
                                                      const generate::EngineLimits& limits,
                                                      const generate::DecodePlace& place,
                                                      std::function<void(const std::string&)> log,
                                                      HostServices host);

  uint16_t port() const { return port_; }
  generate::WorkerFacts facts() const;
  // Until `stop`, which it looks at between two layers and once in 100 ms. Fails where it can no longer
  // listen.
  Status serve(const std::atomic<bool>& stop);

 private:
  DecodeWorker(const generate::Shard& shard, const generate::EngineLimits& limits,
               const generate::DecodePlace& place, std::function<void(const std::string&)> log,
               HostServices host)
      : shard_(shard),
        limits_(limits),
        place_(place),
        log_(std::move(log)),
        host_(std::move(host)),
        clock_(host_.threads) {}
  Status open();
  // Serves the front and readers until one of them is lost; returns why.
  std::string serve_those(const std::atomic<bool>& stop);
  Status take(generate::Engine& engine, generate::KvIntake& intake,
              const transport::Endpoint::News& news);
  Status take_line(generate::Engine& engine, const std::string& line);
  void say(const generate::WorkerMessage& message);

  const generate::Shard& shard_;
  const generate::EngineLimits limits_;
  const generate::DecodePlace place_;
  const std::function<void(const std::string&)> log_;
  const HostServices host_;
  Clock& clock_;
  std::unique_ptr<transport::Endpoint> endpoint_;
  uint16_t port_ = 0;
};

}  // namespace tombolo::handover
