// Result<T>: a value, or an Error whose message says what to do about it.
//
// Every layer that an Error passes adds what it was doing; the last line says what to try:
//
//   three_dc.toml:14: wan[1].node_pair_limit = "5 Gbs": unknown unit "Gbs"
//     while reading the link oregon -> paris
//     try "5 Gbps" (bits) or "625 MBps" (bytes)
//
// TRY(expression) unwraps a Result or returns its Error from the enclosing function:
//
//   std::string text = TRY(read_file(path));
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

namespace tombolo {

// Errors that a caller handles in different ways; the value is the program's exit code.
enum class ErrorCode {
  kFailed = 1,      // something else: a peer was lost, a file is corrupt
  kUnusable = 2,    // what was given cannot be used: input, option, taken port, full disk
  kInfeasible = 3,  // nothing fits; the message names the tightest constraint
  kLostPeer = 4,    // another rank went away. Exits with 1.
};

// What went wrong between two processes, where a caller handles exactly that. Also sent between
// them (perform/link/handshake.h), so a value keeps its meaning and is never reused.
enum class ErrorCause : uint8_t {
  kOther = 0,              // only the message says
  kTokenDiffers = 1,       // the two have different job tokens: one may be an earlier run's
  kDuplicateRank = 2,      // another process has this rank already
  kAboutToEnd = 3,         // the process that was called is ending; another may take its place
  kTooManyHandshakes = 4,  // it was refused unheard, for want of room or time, and may try again
  kRestarted = 5,          // the process that was called is gone; another one has its rank
  kCrossingCalls = 6,      // the two called each other at once; the other connection is kept
  kDamagedOnTheWay = 7,    // bytes arrived corrupted, which says nothing about who sent them
  kReceiveTimeout = 8,     // a message did not come before its deadline
};
constexpr ErrorCause kLastErrorCause = ErrorCause::kReceiveTimeout;

// Where in a file an error is; empty or 0 where that is not known. The message says it, too.
struct ErrorPlace {
  std::string file = {};
  int line = 0;
  std::string key = {};    // "cluster.wan[0].node_pair_limit"
  std::string value = {};  // as JSON
};

struct Error {
  ErrorCode code = ErrorCode::kFailed;
  std::string message;
  std::vector<std::string> context;  // "while reading ...", innermost first
  std::string hint;                  // what to try; empty where there is nothing to say
  ErrorPlace place = {};
  ErrorCause cause = ErrorCause::kOther;

  // Adds what the caller was doing, as a phrase that follows "while".
  Error&& during(std::string doing) && {
    context.push_back(std::move(doing));
    return std::move(*this);
  }
  // Message, context and hint on a line each, without a line feed at the end.
  std::string text() const;
  int exit_code() const { return code == ErrorCode::kLostPeer ? 1 : static_cast<int>(code); }
};

template <typename T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

inline tl::unexpected<Error> fail(Error error) { return tl::unexpected<Error>(std::move(error)); }
inline tl::unexpected<Error> failed(std::string message, std::string hint = {}) {
  return fail({ErrorCode::kFailed, std::move(message), {}, std::move(hint)});
}
inline tl::unexpected<Error> unusable(std::string message, std::string hint = {}) {
  return fail({ErrorCode::kUnusable, std::move(message), {}, std::move(hint)});
}
inline tl::unexpected<Error> infeasible(std::string message, std::string hint = {}) {
  return fail({ErrorCode::kInfeasible, std::move(message), {}, std::move(hint)});
}

// result, or its error with "while <doing>" added.
template <typename T>
Result<T> during(Result<T> result, std::string doing) {
  if (!result) return fail(std::move(result.error()).during(std::move(doing)));
  return result;
}

namespace detail {
inline void take(Status&&) {}
template <typename T>
T take(Result<T>&& result) {
  return std::move(*result);
}
}  // namespace detail

}  // namespace tombolo

// A GNU statement expression, which both g++ and clang know: TRY can stand in the middle of a line.
#define TRY(...)                                                                  \
  ({                                                                              \
    auto result_of_try = (__VA_ARGS__);                                           \
    if (!result_of_try) return ::tombolo::fail(std::move(result_of_try).error()); \
    ::tombolo::detail::take(std::move(result_of_try));                            \
  })
