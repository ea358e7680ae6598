#include "transport/handshake.h"

#include <sys/random.h>

#include <algorithm>

namespace tombolo::transport {
namespace {

// Words that the other side recognises in a failure frame.
constexpr std::string_view kTokenDiffers = "its job token differs";
constexpr std::string_view kDuplicate = "there is one already";

std::vector<std::byte> control_frame(const Identity& self, FrameKind kind, uint64_t tag,
                                     std::span<const std::byte> payload) {
  return encode_frame({.kind = kind,
                       .sender = static_cast<uint32_t>(self.rank),
                       .epoch = self.epoch,
                       .tag = tag,
                       .total = payload.size(),
                       .length = static_cast<uint32_t>(payload.size())},
                      payload);
}

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

Result<Token> Token::random() {
  Token token;
  if (getrandom(token.bytes_.data(), token.bytes_.size(), 0) !=
      static_cast<ssize_t>(token.bytes_.size()))
    return failed("the kernel gives no random bytes for a job token");
  return token;
}

// The text itself stays out of the message: it may be the token with one slip in it.
Result<Token> Token::parse(std::string_view hex) {
  Token token;
  if (hex.size() != 2 * token.bytes_.size())
    return unusable(fmt::format("a job token has 32 hexadecimal digits, not {}", hex.size()));
  for (size_t i = 0; i < token.bytes_.size(); ++i) {
    const int high = digit(hex[2 * i]);
    const int low = digit(hex[2 * i + 1]);
    if (high < 0 || low < 0) return unusable("a job token has 32 hexadecimal digits, 0-9 and a-f");
    token.bytes_[i] = static_cast<std::byte>(high * 16 + low);
  }
  return token;
}

std::string Token::hex() const {
  std::string text;
  for (const std::byte b : bytes_) text += fmt::format("{:02x}", static_cast<unsigned>(b));
  return text;
}

bool Token::equals(std::span<const std::byte> other) const {
  if (other.size() != bytes_.size()) return false;
  volatile unsigned difference = 0;  // volatile: no compiler may leave early
  for (size_t i = 0; i < bytes_.size(); ++i)
    difference = difference | static_cast<unsigned>(bytes_[i] ^ other[i]);
  return difference == 0;
}

std::vector<std::byte> hello_frame(const Identity& self, int32_t called) {
  return control_frame(self, FrameKind::kHello, static_cast<uint64_t>(called), self.token.bytes());
}

std::vector<std::byte> goodbye_frame(const Identity& self) {
  return control_frame(self, FrameKind::kGoodbye, 0, {});
}

std::vector<std::byte> failure_frame(const Identity& self, std::string_view reason) {
  reason = reason.substr(0, kStrangerPayloadMax);
  return control_frame(self, FrameKind::kFailure, 0,
                       std::as_bytes(std::span(reason.data(), reason.size())));
}

Result<int32_t> check_hello(const Identity& self, const Frame& frame) {
  const FrameHeader& header = frame.header;
  if (header.kind == FrameKind::kFailure) return failed(printable(frame.payload));
  if (header.kind != FrameKind::kHello) return failed("it did not say hello first");
  if (!self.token.equals(frame.payload))
    return failed(std::string(kTokenDiffers), "start all ranks of a job with the same token");
  if (header.sender >= static_cast<uint32_t>(self.ranks))
    return failed(
        fmt::format("it says it is rank {}, the job has {} ranks", header.sender, self.ranks));
  if (header.sender == static_cast<uint32_t>(self.rank))
    return failed(fmt::format("duplicate rank {}: that is this rank itself", self.rank));
  if (header.tag != static_cast<uint64_t>(self.rank))
    return failed(fmt::format("it calls rank {}, this is rank {}", header.tag, self.rank));
  if (header.epoch != self.epoch)
    return failed(
        fmt::format("it is in membership epoch {}, this rank in {}", header.epoch, self.epoch));
  return static_cast<int32_t>(header.sender);
}

bool is_token_refusal(const Error& error) { return error.message.ends_with(kTokenDiffers); }
bool is_duplicate_refusal(const Error& error) { return error.message.ends_with(kDuplicate); }

Error duplicate_rank(int32_t rank) {
  return {ErrorCode::kFailed, fmt::format("duplicate rank {}: {}", rank, kDuplicate)};
}

}  // namespace tombolo::transport
