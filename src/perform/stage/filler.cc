#include "perform/stage/filler.h"

#include <algorithm>
#include <vector>

#include "perform/transport/receive_timeout.h"

namespace tombolo::stage {

Status Filler::take(const link::Payload& message) {
  return failed(fmt::format("a message of {} bytes that was not expected", message.size()));
}

SimTime FillingMessenger::end_of_piece(SimTime begin) const {
  const SimTime piece = begin + options_.piece;
  return options_.windows ? options_.windows->until(begin).value_or(piece) : piece;
}

void FillingMessenger::note_held(SimDuration by) {
  if (by.ns <= 0) return;
  ++held_.times;
  held_.sum += by;
  held_.longest = std::max(held_.longest, by);
  if (options_.windows) options_.windows->held(by);
}

Result<kernels::Messenger::Came> FillingMessenger::receive_any(std::span<const Awaited> wanted) {
  if (!filler_ || std::this_thread::get_id() != owner_)
    return kernels::EndpointMessenger::receive_any(wanted);
  std::vector<Awaited> all(wanted.begin(), wanted.end());
  if (const auto own = filler_->awaited()) all.push_back(*own);
  SimTime until = clock_.now();
  SimTime begin = until;  // of the last piece; `until`, where that was none
  for (;;) {
    auto came = endpoint_.receive_any(all, until);
    if (came && came->which == wanted.size()) {
      TRY(filler_->take(came->message.payload));
      begin = until = clock_.now();
      continue;
    }
    if (came) {
      note_held(until - std::max(begin, came->message.delivered));
      return came;
    }
    if (!transport::is_receive_timeout(came.error())) {
      came.error().code = ErrorCode::kLostPeer;
      return came;
    }
    begin = clock_.now();
    const bool filled = filler_->fill(end_of_piece(begin));
    until = clock_.now();
    if (filled) {
      filled_ += until - begin;
      ++pieces_;
    } else {
      begin = until = until + options_.glance;
    }
  }
}

}  // namespace tombolo::stage
