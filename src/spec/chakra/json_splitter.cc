#include <algorithm>

#include "base/check.h"
#include "spec/chakra/chakra_binary.h"
#include "spec/chakra/chakra_json.h"

namespace tombolo::chakra {
namespace {

constexpr std::string_view kSpace = " \t\r\n";
constexpr std::string_view kGraphKey = "\"workload_graph\"";

}  // namespace

// A binary file may begin with '{', the length 123, but what follows then is not JSON.
bool JsonSplitter::is_json(std::string_view beginning) {
  const size_t brace = beginning.find_first_not_of(kSpace);
  if (brace == std::string_view::npos || beginning[brace] != '{') return false;
  const size_t next = beginning.find_first_not_of(kSpace, brace + 1);
  return next == std::string_view::npos || beginning[next] == '"' || beginning[next] == '}';
}

// Passes over these characters; false at the end of the source.
bool JsonSplitter::skip(std::string_view characters) {
  while (source_.want(1)) {
    const std::string_view seen = source_.visible();
    const size_t at = seen.find_first_not_of(characters);
    source_.consume(std::min(at, seen.size()));
    if (at != std::string_view::npos) return true;
  }
  return false;
}

// {"workload_graph": [ is passed over; everything else is left where it is.
bool JsonSplitter::begins_workload_graph() {
  CHECK(!in_graph_ && !ended_, "asked behind byte {}, where nothing begins", source_.position());
  if (!skip(kSpace)) return false;
  source_.want(4096);
  const std::string_view seen = source_.visible();
  size_t at = seen.find_first_not_of(kSpace, 1);
  if (at == std::string_view::npos || seen.substr(at, kGraphKey.size()) != kGraphKey) return false;
  at = seen.find_first_not_of(kSpace, at + kGraphKey.size());
  if (at == std::string_view::npos || seen[at] != ':') return false;
  at = seen.find_first_not_of(kSpace, at + 1);
  if (at == std::string_view::npos || seen[at] != '[') return false;
  source_.consume(at + 1);
  in_graph_ = true;
  return true;
}

Result<std::string_view> JsonSplitter::next() {
  if (ended_) return std::string_view();
  // Between objects of a list stands a comma; some write lines with one, too.
  if (!skip(" \t\r\n,")) {
    ended_ = true;
    if (!source_.problem().empty()) return unusable(source_.problem());
    if (in_graph_) return unusable("it ends inside its list of nodes");
    return std::string_view();
  }
  if (in_graph_ && source_.visible()[0] == ']') {
    ended_ = true;  // what follows names the workload and its machine
    return std::string_view();
  }
  if (source_.visible()[0] != '{') {
    return unusable(fmt::format("byte {}: an object was expected", source_.position()));
  }
  return object();
}

Result<std::string_view> JsonSplitter::object() {
  size_t at = 0;
  int depth = 0;
  bool in_text = false;
  const uint64_t begin = source_.position();
  for (;;) {
    const std::string_view seen = source_.visible();
    for (; at < seen.size(); ++at) {
      const char c = seen[at];
      if (in_text) {
        if (c == '\\') ++at;
        if (c == '"') in_text = false;
      } else if (c == '"') {
        in_text = true;
      } else if (c == '{' || c == '[') {
        ++depth;
      } else if ((c == '}' || c == ']') && --depth == 0) {
        source_.consume(at + 1);
        return seen.substr(0, at + 1);
      }
    }
    if (seen.size() > kMessageLimit) {
      return unusable(
          fmt::format("byte {}: an object of more than {} bytes", begin, kMessageLimit));
    }
    if (!source_.want(seen.size() + 1)) {
      if (!source_.problem().empty()) return unusable(source_.problem());
      return unusable(fmt::format("it ends inside the object that begins at byte {}", begin));
    }
  }
}

}  // namespace tombolo::chakra
