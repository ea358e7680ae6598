#include "perform/link/frame.h"

#include <xxhash.h>

#include <algorithm>
#include <concepts>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "perform/trust/secure_stream.h"

namespace tombolo::link {
namespace {

constexpr std::array<std::byte, 4> kMagic = {std::byte{'T'}, std::byte{'M'}, std::byte{'B'},
                                             std::byte{'O'}};
constexpr size_t kChecksumAt = 88;
constexpr int64_t kStampMax = int64_t{1} << 62;  // a delay can be added without an overflow

template <std::unsigned_integral T>
void put(EncodedHeader& out, size_t at, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) out[at + i] = static_cast<std::byte>(value >> (8 * i));
}

template <std::unsigned_integral T>
T get(std::span<const std::byte> in, size_t at) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i)
    value |= static_cast<T>(static_cast<T>(in[at + i]) << (8 * i));
  return value;
}

uint64_t checksum(std::span<const std::byte> header, std::span<const std::byte> payload) {
  return XXH3_64bits_withSeed(payload.data(), payload.size(),
                              XXH3_64bits(header.data(), kChecksumAt));
}

FrameHeader parse(std::span<const std::byte> in) {
  return {.kind = static_cast<FrameKind>(in[6]),
          .sender = get<uint32_t>(in, 8),
          .epoch = get<uint32_t>(in, 12),
          .iteration = get<uint64_t>(in, 16),
          .tag = get<uint64_t>(in, 24),
          .message = get<uint64_t>(in, 32),
          .after = get<uint64_t>(in, 40),
          .offset = get<uint64_t>(in, 48),
          .total = get<uint64_t>(in, 56),
          .length = get<uint32_t>(in, 64),
          .start = {static_cast<int64_t>(get<uint64_t>(in, 72))},
          .departed = {static_cast<int64_t>(get<uint64_t>(in, 80))}};
}

auto corrupt(const std::string& what) {
  return fail({.message = fmt::format("corrupt frame: {}; {}", what, trust::kDamagedOnTheWay),
               .cause = ErrorCause::kDamagedOnTheWay});
}

// Everything that can be known from the header alone.
Status check(std::span<const std::byte> in, const FrameHeader& header, uint32_t payload_max) {
  if (header.kind < FrameKind::kHello || header.kind > FrameKind::kPing)
    return corrupt(fmt::format("unknown kind {}", static_cast<int>(header.kind)));
  if (in[7] != std::byte{0} || get<uint32_t>(in, 68) != 0) return corrupt("reserved bits are set");
  if (header.length > payload_max)
    return failed(
        fmt::format("frame of {} bytes where at most {} are allowed", header.length, payload_max));
  if (header.offset > header.total || header.length > header.total - header.offset)
    return corrupt(fmt::format("{} bytes at offset {} of a message of {} bytes", header.length,
                               header.offset, header.total));
  if (header.start.ns < 0 || header.departed < header.start || header.departed.ns > kStampMax)
    return corrupt(fmt::format("stamps {} and {} ns", header.start.ns, header.departed.ns));
  return {};
}

}  // namespace

EncodedHeader encode_header(const FrameHeader& header, std::span<const std::byte> payload) {
  CHECK(header.length == payload.size(), "header says {} bytes, payload has {}", header.length,
        payload.size());
  EncodedHeader out{};
  std::copy(kMagic.begin(), kMagic.end(), out.begin());
  put(out, 4, kProtocolVersion);
  put(out, 6, static_cast<uint8_t>(header.kind));
  put(out, 8, header.sender);
  put(out, 12, header.epoch);
  put(out, 16, header.iteration);
  put(out, 24, header.tag);
  put(out, 32, header.message);
  put(out, 40, header.after);
  put(out, 48, header.offset);
  put(out, 56, header.total);
  put(out, 64, header.length);
  put(out, 72, static_cast<uint64_t>(header.start.ns));
  put(out, 80, static_cast<uint64_t>(header.departed.ns));
  put(out, kChecksumAt, checksum(out, payload));
  return out;
}

std::vector<std::byte> encode_frame(const FrameHeader& header, std::span<const std::byte> payload) {
  const EncodedHeader head = encode_header(header, payload);
  std::vector<std::byte> out(kHeaderBytes + payload.size());
  std::copy(payload.begin(), payload.end(), std::copy(head.begin(), head.end(), out.begin()));
  return out;
}

FrameDecoder::FrameDecoder(uint32_t payload_max)
    : payload_max_(payload_max), buffer_(2 * (kHeaderBytes + payload_max)) {}

void FrameDecoder::raise_payload_max(uint32_t payload_max) {
  CHECK(payload_max >= payload_max_, "a decoder's limit sinks from {} to {}", payload_max_,
        payload_max);
  payload_max_ = payload_max;
  buffer_.resize(2 * (kHeaderBytes + payload_max));
}

std::span<std::byte> FrameDecoder::space() {
  if (begin_ > 0) {  // what is left is less than a frame, hence cheap to move
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  return std::span(buffer_).subspan(end_);
}

void FrameDecoder::commit(size_t bytes) {
  CHECK(bytes <= buffer_.size() - end_, "{} bytes committed where {} fit", bytes,
        buffer_.size() - end_);
  end_ += bytes;
}

Result<std::optional<Frame>> FrameDecoder::next() {
  if (error_) return fail(*error_);
  auto frame = decode();
  if (!frame) error_ = frame.error();
  return frame;
}

Result<std::optional<Frame>> FrameDecoder::decode() {
  const auto in = std::span<const std::byte>(buffer_).subspan(begin_, end_ - begin_);
  const size_t seen = std::min(in.size(), kMagic.size());
  if (!std::equal(in.begin(), in.begin() + seen, kMagic.begin()))
    return failed(fmt::format("not a Tombolo connection: it begins with \"{}\"",
                              printable(in.first(std::min<size_t>(in.size(), 16)))));
  if (in.size() < 6) return std::nullopt;
  if (const auto version = get<uint16_t>(in, 4); version != kProtocolVersion)
    return failed(fmt::format("the peer speaks protocol version {}, this program version {}",
                              version, kProtocolVersion),
                  "use one version of Tombolo for all ranks");
  if (in.size() < kHeaderBytes) return std::nullopt;
  const FrameHeader header = parse(in);
  TRY(check(in, header, payload_max_));
  if (in.size() - kHeaderBytes < header.length) return std::nullopt;
  const auto payload = in.subspan(kHeaderBytes, header.length);
  if (get<uint64_t>(in, kChecksumAt) != checksum(in, payload))
    return corrupt("its checksum does not match its bytes");
  begin_ += kHeaderBytes + header.length;
  return Frame{header, payload};
}

Status FrameDecoder::feed(std::span<const std::byte> bytes,
                          const std::function<Status(const Frame&)>& on_frame) {
  if (error_) return fail(*error_);
  while (!bytes.empty()) {
    const auto room = space();
    const size_t n = std::min(room.size(), bytes.size());
    std::copy_n(bytes.begin(), n, room.begin());
    commit(n);
    bytes = bytes.subspan(n);
    while (const auto frame = TRY(next())) TRY(on_frame(*frame));
  }
  return {};
}

std::string printable(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte b : bytes.first(std::min<size_t>(bytes.size(), 400))) {
    const auto c = static_cast<unsigned char>(b);
    text += c >= 0x20 && c < 0x7f ? static_cast<char>(c) : c == '\n' ? ' ' : '?';
  }
  return text;
}

}  // namespace tombolo::link
