#include "perform/transport/receive_timeout.h"

namespace tombolo::transport {
namespace {

constexpr const char* kEnd = " in time";

}  // namespace

Error receive_timeout(int32_t peer, link::Tag tag) {
  return {ErrorCode::kFailed,
          fmt::format("rank {} did not send {}{}", peer, link::text(tag), kEnd),
          {},
          ""};
}

bool is_receive_timeout(const Error& error) {
  return error.code == ErrorCode::kFailed && error.message.starts_with("rank ") &&
         error.message.ends_with(kEnd);
}

}  // namespace tombolo::transport
