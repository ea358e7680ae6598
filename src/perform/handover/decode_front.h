// A front's link to a decode worker: requests and cancellations there, tokens back.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "perform/handover/decode_link.h"

namespace tombolo::handover {

class DecodeFront {
 public:
  // Calls, and returns when the worker has said which model it has. `hear` gets every message after that,
  // `end` the reason why no other will come, once; both on a thread of this object.
  static Result<std::unique_ptr<DecodeFront>> open(
      const generate::DecodePlace& place, std::function<void(const generate::WorkerMessage&)> hear,
      std::function<void(const std::string&)> end, HostServices host);
  ~DecodeFront();

  const generate::WorkerFacts& facts() const { return facts_; }
  // From any thread. False: the worker has gone.
  bool say(const generate::FrontMessage& message);
  // The worker sees that this front has gone; `end` has been called when this returns. Once or again.
  void hang_up();

 private:
  explicit DecodeFront(HostServices host) : host_(std::move(host)) {}
  void listen();

  const HostServices host_;
  std::function<void(const generate::WorkerMessage&)> hear_;
  std::function<void(const std::string&)> end_;
  generate::WorkerFacts facts_;
  std::unique_ptr<transport::Endpoint> endpoint_;
  std::unique_ptr<Thread> listener_;
  bool closed_ = false;
};

}  // namespace tombolo::handover
