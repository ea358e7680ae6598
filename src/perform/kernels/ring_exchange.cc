#include "perform/kernels/ring_exchange.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace tombolo::kernels {
namespace {

void check_joined(const Replicas& replicas) {
  CHECK(replicas.own < replicas.ranks.size() && replicas.messenger,
        "replica {} of {} has not joined the others", replicas.own, replicas.ranks.size());
}

}  // namespace

Status ring_exchange(const Replicas& ring, uint64_t iteration, const RingWork& work, uint64_t first,
                     bool sums_only) {
  check_joined(ring);
  CHECK(work.give && work.take, "a ring without work");
  const size_t n = ring.ranks.size();
  const int32_t successor = ring.ranks[(ring.own + 1) % n];
  const int32_t predecessor = ring.ranks[(ring.own + n - 1) % n];
  const size_t steps = sums_only ? n - 1 : 2 * (n - 1);
  const auto sending = [&](size_t t) {
    return RingStep{.step = static_cast<int64_t>(t),
                    .chunk = (ring.own + 2 * n - t) % n,  // t < 2 n
                    .sums = t < n - 1};
  };
  for (size_t t = 0; t < steps; ++t) {
    const link::Tag tag{iteration, first + t};
    TRY(ring.messenger->send(successor, tag, work.give(sending(t))));
    if (work.prepare && t + 1 < steps) work.prepare(sending(t + 1));
    RingStep step = sending(t);
    step.chunk = (step.chunk + n - 1) % n;
    TRY(work.take(step, TRY(ring.messenger->receive(predecessor, tag))));
  }
  return {};
}

namespace {

// `chunk` gives the present numbers of a step's chunk.
template <class Chunk>
Status exchange_floats(const Replicas& ring, uint64_t iteration, uint64_t first, bool sums_only,
                       const Chunk& chunk) {
  const auto give = [&](const RingStep& step) {
    const auto bytes = std::as_bytes(chunk(step));
    return Payload(bytes.begin(), bytes.end());
  };
  const auto take = [&](const RingStep& step, const link::Received& message) -> Status {
    const std::span<float> own = chunk(step);
    const std::byte* theirs = message.payload.data();
    if (message.payload.size() != own.size_bytes())
      return failed(fmt::format("a chunk of {} bytes where {} are summed", message.payload.size(),
                                own.size_bytes()),
                    "start every rank with the same Plan");
    if (!step.sums) {
      std::copy_n(theirs, own.size_bytes(), std::as_writable_bytes(own).data());
      return {};
    }
    for (size_t i = 0; i < own.size(); ++i) {
      float other = 0;
      std::memcpy(&other, theirs + i * sizeof other, sizeof other);
      own[i] += other;
    }
    return {};
  };
  return ring_exchange(ring, iteration, {.give = give, .take = take}, first, sums_only);
}

}  // namespace

Status ring_sum(const Replicas& ring, uint64_t iteration, std::span<float> values, uint64_t first) {
  return exchange_floats(ring, iteration, first, false, [&](const RingStep& step) {
    const Share share =
        share_of(static_cast<int64_t>(values.size()), static_cast<int64_t>(step.chunk),
                 static_cast<int64_t>(ring.ranks.size()));
    return values.subspan(static_cast<size_t>(share.first), static_cast<size_t>(share.count));
  });
}

Status ring_scatter(const Replicas& ring, uint64_t iteration,
                    std::span<const std::span<float>> chunks, uint64_t first) {
  CHECK(chunks.size() == ring.ranks.size(), "{} chunks for {} ranks", chunks.size(),
        ring.ranks.size());
  return exchange_floats(ring, iteration, first, true,
                         [&](const RingStep& step) { return chunks[step.chunk]; });
}

Status barrier(const Replicas& replicas, uint64_t iteration, uint64_t tensor) {
  check_joined(replicas);
  const link::Tag tag{iteration, tensor};
  for (size_t i = 0; i < replicas.ranks.size(); ++i) {
    if (i != replicas.own) TRY(replicas.messenger->send(replicas.ranks[i], tag, {}));
  }
  for (size_t i = 0; i < replicas.ranks.size(); ++i) {
    if (i != replicas.own) TRY(replicas.messenger->receive(replicas.ranks[i], tag));
  }
  return {};
}

}  // namespace tombolo::kernels
