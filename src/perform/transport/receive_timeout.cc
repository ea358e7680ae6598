#include "perform/transport/receive_timeout.h"

namespace tombolo::transport {

Error receive_timeout(int32_t peer, link::Tag tag) {
  return {.message = fmt::format("rank {} did not send {} in time", peer, link::text(tag)),
          .cause = ErrorCause::kReceiveTimeout};
}

bool is_receive_timeout(const Error& error) { return error.cause == ErrorCause::kReceiveTimeout; }

}  // namespace tombolo::transport
