// The links between a front, the processes that read its prompts and the one that answers them. All of them
// are ranks of a job of their own, which is no run and has no Plan:
//
//   rank 0   the decode worker, which listens
//   rank 1   the front: requests and tokens (generate/front_message.h), a message each
//   rank 2   reads the prompts: keys and values (generate/kv_rows.h); where several ranks of a run share
//            the model's layers, ranks 2, 3 and so on with those of theirs each
//
// They share a token. TLS with credentials; plain TCP on this machine, or where it was asked for by name
// (transport/endpoint.h). A connection that is silent for kDecodeSilence is lost, as where a process is
// stopped or a path drops everything; a link outlives a lost connection for kDecodeGrace. Then the process at
// its other end counts as gone. As long as a connection of a front is there, another front is refused.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "perform/generate/front_message.h"
#include "perform/transport/address.h"
#include "perform/transport/endpoint.h"

namespace tombolo::handover {

inline constexpr int32_t kDecodeRank = 0, kFrontRank = 1, kPrefillRank = 2;
inline constexpr int32_t kReadersMax = 1024;
inline constexpr link::Tag kDecodeTag{.iteration = 0, .tensor = 1};
inline constexpr SimDuration kDecodeGrace{3'000'000'000};
inline constexpr SimDuration kDecodeSilence{5'000'000'000};

// What such a rank has of its host; a test brings its own.
struct HostServices {
  Threads& threads;
  transport::Sockets& sockets = transport::system_sockets();
  // Where the other side finds this host.
  std::function<Result<std::string>(const std::string& host)> own_address =
      transport::own_address_towards;
};

// Of such a rank. How much may be on its way between two of them is bounded. Unusable where token or
// credentials are.
Result<transport::Endpoint::Options> endpoint_options(const generate::DecodePlace& place,
                                                      int32_t rank);

// The endpoint of a rank that calls; `place` has an address, not a name.
Result<std::unique_ptr<transport::Endpoint>> open_endpoint(const generate::DecodePlace& place,
                                                           int32_t rank, const HostServices& host);
// Calls the decode worker, which has 5 s to answer. Another thread may abort the endpoint meanwhile. Readers
// have place.connections each, the front one. Where another process has that rank already, it may be one that
// died unnoticed: the call is then repeated until that would have been noticed. Unusable where it stays.
Status call_decode_worker(transport::Endpoint& endpoint, const generate::DecodePlace& place,
                          int32_t rank, Clock& clock);

link::Payload to_payload(const std::string& line);
std::string to_text(const link::Payload& payload);

}  // namespace tombolo::handover
