#include "perform/runtime/filler.h"

#include "perform/transport/receive_timeout.h"

namespace tombolo::runtime {

Result<Messenger::Came> FillingMessenger::receive_any(std::span<const Awaited> wanted) {
  if (!filler_ || std::this_thread::get_id() != owner_)
    return EndpointMessenger::receive_any(wanted);
  SimTime until = clock_.now();
  for (;;) {
    auto came = endpoint_.receive_any(wanted, until);
    if (came) return came;
    if (!transport::is_receive_timeout(came.error())) {
      came.error().code = ErrorCode::kLostPeer;
      return came;
    }
    const SimTime begin = clock_.now();
    const bool filled = filler_->fill(begin + options_.piece);
    until = clock_.now();
    if (filled) {
      filled_ += until - begin;
      ++pieces_;
    } else {
      until = until + options_.glance;
    }
  }
}

}  // namespace tombolo::runtime
