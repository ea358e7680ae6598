#include <algorithm>

#include "spec/chakra/byte_source.h"
#include "spec/chakra/chakra.h"
#include "spec/chakra/chakra_json.h"

namespace tombolo::chakra {
namespace {

constexpr size_t kEnough = 4096;

// The first key of the object that a text begins with; "" if it has none.
std::string_view first_key(std::string_view text) {
  const size_t open = text.find('"');
  const size_t brace = text.find('}');
  if (open == std::string_view::npos || brace < open) return "";
  const size_t close = text.find('"', open + 1);
  return close == std::string_view::npos ? "" : text.substr(open + 1, close - open - 1);
}

}  // namespace

TraceFormat format_of(std::string_view beginning) {
  beginning = beginning.substr(0, kEnough);
  if (JsonSplitter::is_json(beginning)) {
    const std::string_view key = first_key(beginning);
    if (key == "schema") return TraceFormat::kPytorch;
    for (const std::string_view ours : {"", "version", "attr", "workload_graph"}) {
      if (key == ours) return TraceFormat::kChakra;
    }
    return TraceFormat::kOther;
  }
  // Texts have no such bytes; a frame has some in its first few.
  const bool binary = std::any_of(beginning.begin(), beginning.end(), [](char c) {
    return static_cast<uint8_t>(c) < 0x20 && c != '\n' && c != '\r' && c != '\t';
  });
  return binary ? TraceFormat::kChakra : TraceFormat::kOther;
}

Result<TraceFormat> read_format(const std::string& path) {
  ByteSource source = TRY(ByteSource::open(path));
  source.want(kEnough);
  if (!source.problem().empty()) return unusable(fmt::format("{}: {}", path, source.problem()));
  return format_of(source.visible());
}

}  // namespace tombolo::chakra
