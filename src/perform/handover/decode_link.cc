#include "perform/handover/decode_link.h"

#include <cstring>
#include <random>

#include "perform/generate/kv_rows.h"
#include "perform/join/security.h"
#include "spec/cluster/islands.h"

namespace tombolo::handover {
namespace {

constexpr SimDuration kAnswerMax{5'000'000'000};
constexpr SimDuration kLookAgain{200'000'000};
constexpr uint64_t kLinkBytesMax = uint64_t{64} << 20;

uint64_t draw_incarnation() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device() | 1;
}

}  // namespace

Result<transport::Endpoint::Options> endpoint_options(const generate::DecodePlace& place,
                                                      int32_t rank) {
  transport::Endpoint::Options out;
  out.identity = {.rank = rank,
                  .ranks = kPrefillRank + kReadersMax,
                  .token = TRY(link::Token::parse(place.token)),
                  .incarnation = draw_incarnation()};
  out.credentials = TRY(join::credentials_of({place.credentials, place.plain_tcp}));
  out.plain_tcp = place.plain_tcp;
  if (const auto islands = TRY(cluster::islands_of_environment())) out.network = islands->network;
  out.one_clock = false;
  out.message_max = std::max<uint64_t>(generate::kKvMessageMax, generate::kLineMax) + 1;
  out.inbox_max = kLinkBytesMax;
  out.outbox_max = kLinkBytesMax;
  out.grace = kDecodeGrace;
  out.silence_max = kDecodeSilence;
  out.first_stays = true;
  return out;
}

Result<std::unique_ptr<transport::Endpoint>> open_endpoint(const generate::DecodePlace& place,
                                                           int32_t rank, const HostServices& host) {
  transport::Endpoint::Options options = TRY(endpoint_options(place, rank));
  options.listen_address =
      transport::is_loopback(place.host) ? "127.0.0.1" : TRY(host.own_address(place.host));
  return host.sockets.open(std::move(options), host.threads);
}

Status call_decode_worker(transport::Endpoint& endpoint, const generate::DecodePlace& place,
                          int32_t rank, Clock& clock) {
  const transport::Address at{place.host, static_cast<uint16_t>(place.port)};
  const link::LinkShape shape{
      .slow_network = !transport::is_loopback(place.host),
      .connections = rank >= kPrefillRank ? static_cast<uint32_t>(place.connections) : 1U};
  const auto call = [&] {
    return endpoint.connect(kDecodeRank, at.host, at.port, shape, clock.now() + kAnswerMax);
  };
  const SimTime known_by = clock.now() + kDecodeSilence + kLookAgain;
  Status called = call();
  const auto is_taken = [&] {
    return !called && called.error().cause == ErrorCause::kDuplicateRank;
  };
  while (is_taken() && clock.now() < known_by) {
    clock.sleep_until(clock.now() + kLookAgain);
    called = call();
  }
  if (is_taken()) {
    return unusable(
        fmt::format("the decode worker at {} works for another front already", at.text()),
        "a decode worker of its own for each front");
  }
  return during(std::move(called), fmt::format("calling the decode worker at {}", at.text()));
}

link::Payload to_payload(const std::string& line) {
  link::Payload out(line.size());
  std::memcpy(out.data(), line.data(), line.size());
  return out;
}

std::string to_text(const link::Payload& payload) {
  return {reinterpret_cast<const char*>(payload.data()), payload.size()};
}

}  // namespace tombolo::handover
