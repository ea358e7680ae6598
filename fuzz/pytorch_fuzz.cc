// PyTorch's two traces, one behind a zero byte: any bytes give nodes that can be written and used,
// or one error.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/json.h"
#include "spec/chakra/chakra_binary.h"
#include "spec/chakra/comm_groups.h"
#include "spec/chakra/outline.h"
#include "spec/chakra/pytorch.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tombolo;
  using namespace tombolo::chakra;
  using namespace tombolo::graph;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t cut = std::min(text.find('\0'), text.size());
  const auto trace = parse_json(text.substr(0, cut), "et.json");
  const auto kineto = parse_json(text.substr(std::min(cut + 1, text.size())), "kineto.json");
  if (!trace || !kineto) return 0;
  const auto joined = join_pytorch(*trace, "et.json", *kineto, "kineto.json");
  CHECK(joined || !joined.error().message.empty(), "refused without a word");
  if (!joined) return 0;
  Outline outline;
  for (const ChakraNode& message : joined->nodes) {
    std::string bytes;
    encode(message, bytes);
    ChakraNode back;
    CHECK(decode(bytes, back).empty() && back == message, "node {} changed", message.id);
    const auto node = to_node(message);
    CHECK(node, "{}", node.error().text());
    (void)process_groups_of(*node, "et.json");
    outline.add(*node);
  }
  const auto verdict = outline.examine();
  CHECK(verdict || !verdict.error().message.empty(), "refused without a word");
  return 0;
}
