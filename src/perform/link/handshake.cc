#include "perform/link/handshake.h"

#include <sys/random.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "perform/trust/secure_stream.h"

namespace tombolo::link {
namespace {

constexpr std::string_view kTokenDiffers = "its job token differs";
constexpr std::string_view kDuplicate = "there is one already";
constexpr std::string_view kEnds = "is about to end";
constexpr std::string_view kCrowd = "too many handshakes at once; try again";
constexpr std::string_view kRestarted = "was started again";
constexpr std::string_view kCrossing = "this rank calls that one already";

// How builds that sent no cause end the message of a refusal. Goes with protocol version 5.
constexpr std::pair<std::string_view, ErrorCause> kWordsWithoutCause[] = {
    {kTokenDiffers, ErrorCause::kTokenDiffers},
    {kDuplicate, ErrorCause::kDuplicateRank},
    {kEnds, ErrorCause::kAboutToEnd},
    {kCrowd, ErrorCause::kTooManyHandshakes},
    {kRestarted, ErrorCause::kRestarted},
    {kCrossing, ErrorCause::kCrossingCalls},
    {trust::kDamagedOnTheWay, ErrorCause::kDamagedOnTheWay},
};

// Token, attempt, incarnation, the incarnation that it resumes, round, grace in ms.
constexpr size_t kHelloBytes = 16 + 8 + 8 + 8 + 8 + 4 + 4;
constexpr int64_t kMillisecond = 1'000'000;
constexpr SimDuration kGraceMax{24 * 3600 * (1000 * kMillisecond)};

template <typename T>
void append(std::vector<std::byte>& out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) out.push_back(static_cast<std::byte>(value >> (8 * i)));
}

template <typename T>
T extract(std::span<const std::byte>& in) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value |= static_cast<T>(in[i]) << (8 * i);
  in = in.subspan(sizeof(T));
  return value;
}

std::vector<std::byte> control_frame(const Identity& self, FrameHeader header,
                                     std::span<const std::byte> payload) {
  header.sender = static_cast<uint32_t>(self.rank);
  header.epoch = self.epoch;
  header.total = payload.size();
  header.length = static_cast<uint32_t>(payload.size());
  return encode_frame(header, payload);
}

// What the other side refused with. A cause that this build does not know, or that is a process's own, counts as none.
Error refusal_of(const Frame& frame) {
  Error error{.message = printable(frame.payload)};
  const uint64_t cause = frame.header.tag;
  if (cause > 0 && cause <= static_cast<uint64_t>(kLastSentCause))
    error.cause = static_cast<ErrorCause>(cause);
  for (const auto& [words, meant] : kWordsWithoutCause)
    if (cause == 0 && error.message.ends_with(words)) error.cause = meant;
  return error;
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

std::vector<std::byte> hello_frame(const Identity& self, int32_t called, const LinkPart& part,
                                   const Terms& terms) {
  std::vector<std::byte> payload(self.token.bytes().begin(), self.token.bytes().end());
  append(payload, part.attempt);
  append(payload, self.incarnation);
  append(payload, terms.resumes);
  append(payload, terms.window);
  append(payload, part.round);
  append(payload, static_cast<uint32_t>(std::min(terms.grace, kGraceMax).ns / kMillisecond));
  return control_frame(self,
                       {.kind = FrameKind::kHello,
                        .tag = static_cast<uint64_t>(called),
                        .message = part.connection,
                        .after = part.connections},
                       payload);
}

std::vector<std::byte> goodbye_frame(const Identity& self, uint64_t messages, uint64_t complete) {
  return control_frame(
      self, {.kind = FrameKind::kGoodbye, .iteration = complete, .message = messages}, {});
}

std::vector<std::byte> receipt_frame(const Identity& self, uint64_t message, uint64_t segments,
                                     uint64_t credit) {
  return control_frame(
      self, {.kind = FrameKind::kReceipt, .iteration = segments, .tag = credit, .message = message},
      {});
}

std::vector<std::byte> ping_frame(const Identity& self) {
  return control_frame(self, {.kind = FrameKind::kPing}, {});
}

std::vector<std::byte> failure_frame(const Identity& self, const Error& error) {
  const std::string_view reason =
      std::string_view(error.message).substr(0, kUnauthenticatedPayloadMax);
  return control_frame(self,
                       {.kind = FrameKind::kFailure, .tag = static_cast<uint64_t>(error.cause)},
                       std::as_bytes(std::span(reason.data(), reason.size())));
}

Result<Caller> check_hello(const Identity& self, const Frame& frame) {
  const FrameHeader& header = frame.header;
  if (header.kind == FrameKind::kFailure) return fail(refusal_of(frame));
  if (header.kind != FrameKind::kHello) return failed("it did not say hello first");
  const auto token = frame.payload.first(std::min<size_t>(frame.payload.size(), 16));
  if (!self.token.equals(token))
    return fail({.message = std::string(kTokenDiffers),
                 .hint = "start all ranks of a job with the same token",
                 .cause = ErrorCause::kTokenDiffers});
  if (frame.payload.size() != kHelloBytes)
    return failed(fmt::format("a hello of {} bytes", frame.payload.size()));
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
  if (header.after < 1 || header.after > kConnectionsMax || header.message >= header.after)
    return failed(
        fmt::format("it says it is connection {} of {}, counted from 0; a link has 1 to {}",
                    header.message, header.after, kConnectionsMax));
  Caller caller{.rank = static_cast<int32_t>(header.sender),
                .part = {.connection = static_cast<uint32_t>(header.message),
                         .connections = static_cast<uint32_t>(header.after)}};
  auto rest = frame.payload.subspan(16);
  caller.part.attempt = extract<uint64_t>(rest);
  caller.incarnation = extract<uint64_t>(rest);
  caller.terms.resumes = extract<uint64_t>(rest);
  caller.terms.window = extract<uint64_t>(rest);
  caller.part.round = extract<uint32_t>(rest);
  caller.terms.grace = {std::min(extract<uint32_t>(rest) * kMillisecond, kGraceMax.ns)};
  if (caller.terms.resumes != 0 && caller.terms.resumes != self.incarnation)
    return fail(was_restarted(self.rank));
  return caller;
}

// --- Gathering ----------------------------------------------------------------------------------

void Gathering::expect(uint64_t attempt, uint32_t connections) {
  CHECK(connections >= 1 && connections <= kConnectionsMax, "{} connections", connections);
  expected_ = true;
  attempt_ = attempt;
  connections_ = connections;
  incarnation_ = 0;
  here_.clear();
}

Result<Gathering::Welcome> Gathering::add(const Caller& caller, bool resumable) {
  const LinkPart& part = caller.part;
  const bool same = connections_ > 0 && part.attempt == attempt_;
  if (complete()) return add_again(caller, resumable);
  if (part.round > 0)
    return failed(fmt::format("rank {} continues a link that is not up", caller.rank));
  if (same && here_.contains(part.connection)) return fail(duplicate_rank(caller.rank));
  if (same && !here_.empty() && caller.incarnation != incarnation_)
    return fail(was_restarted(caller.rank));
  if (same && part.connections != connections_)
    return failed(
        fmt::format("its link has {} connections, and now {}", connections_, part.connections));
  if (!same && expected_)
    return fail({.message = std::string(kCrossing), .cause = ErrorCause::kCrossingCalls});
  if (same) {
    incarnation_ = caller.incarnation;
    here_.insert(part.connection);
    return Welcome::kJoined;
  }
  const bool anew = connections_ > 0;
  if (anew && part.attempt < attempt_)
    return failed(fmt::format("rank {} has called again since", caller.rank));
  attempt_ = part.attempt;
  connections_ = part.connections;
  incarnation_ = caller.incarnation;
  here_ = {part.connection};
  return anew ? Welcome::kJoinedAnew : Welcome::kJoined;
}

// The link is up. Attempts are instants of calls, so one of another process that called earlier is
// a zombie's, and ends nothing.
Result<Gathering::Welcome> Gathering::add_again(const Caller& caller, bool resumable) {
  const LinkPart& part = caller.part;
  if (caller.incarnation != incarnation_ && caller.incarnation != 0 && incarnation_ != 0) {
    if (part.attempt > attempt_) return fail(was_restarted(caller.rank));
    return failed(fmt::format("another process has been rank {} since", caller.rank));
  }
  if (!resumable || part.round == 0) return fail(duplicate_rank(caller.rank));
  if (part.attempt != attempt_ || part.connections != connections_)
    return failed(fmt::format("rank {} continues another link", caller.rank));
  uint32_t& round = rounds_[part.connection];
  if (part.round <= round)
    return failed(fmt::format("rank {} has called again for this connection since", caller.rank));
  round = part.round;
  return Welcome::kResumed;
}

Status Gathering::check_again(const Caller& caller) const {
  if (caller.incarnation != incarnation_) return fail(was_restarted(caller.rank));
  return {};
}

void Gathering::start_over() { *this = {}; }

Error about_to_end() {
  return {.message = fmt::format("this rank {}", kEnds), .cause = ErrorCause::kAboutToEnd};
}

Error crowded() {
  return {.message = std::string(kCrowd), .cause = ErrorCause::kTooManyHandshakes};
}

Error was_restarted(int32_t rank) {
  return {.code = ErrorCode::kLostPeer,
          .message = fmt::format("rank {} {}", rank, kRestarted),
          .cause = ErrorCause::kRestarted};
}

Error duplicate_rank(int32_t rank) {
  return {.message = fmt::format("duplicate rank {}: {}", rank, kDuplicate),
          .cause = ErrorCause::kDuplicateRank};
}

}  // namespace tombolo::link
