#include "predict/network/link_queues.h"

namespace tombolo::network {

bool LinkQueues::offer(int64_t link, int32_t message) {
  Link& l = links_[static_cast<size_t>(link)];
  if (!l.busy) {
    l.busy = true;
    return true;
  }
  const auto m = static_cast<size_t>(message);
  if (m >= next_.size()) next_.resize(m + 1 + m / 2);
  next_[m] = -1;
  (l.first < 0 ? l.first : next_[static_cast<size_t>(l.last)]) = message;
  l.last = message;
  return false;
}

int32_t LinkQueues::release(int64_t link) {
  Link& l = links_[static_cast<size_t>(link)];
  const int32_t message = l.first;
  if (message < 0) {
    l.busy = false;
  } else {
    l.first = next_[static_cast<size_t>(message)];
  }
  return message;
}

}  // namespace tombolo::network
