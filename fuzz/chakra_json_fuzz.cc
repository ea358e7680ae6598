// Chakra traces as JSON and communicator groups: any bytes give messages or one error; a message
// that was read is written and read back equal, in JSON and in protobuf.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/json.h"
#include "spec/chakra/chakra.h"
#include "spec/chakra/chakra_binary.h"
#include "spec/chakra/chakra_json.h"
#include "spec/chakra/comm_groups.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tombolo;
  using namespace tombolo::chakra;
  using namespace tombolo::graph;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto groups = parse_comm_groups(text, "input.json")) {
    const auto back = parse_comm_groups(to_json_text(*groups), "again.json");
    CHECK(back && *back == *groups, "groups changed");
  }
  if (!JsonSplitter::is_json(text)) return 0;
  auto reader = ChakraReader::over(text, "input.json");
  CHECK(reader || !reader.error().message.empty(), "refused without a word");
  if (!reader) return 0;
  ChakraNode node;
  for (;;) {
    const auto more = reader->next(node);
    CHECK(more || !more.error().message.empty(), "refused without a word");
    if (!more || !*more) break;
    const auto line = to_json_line(node);
    CHECK(line, "what came as JSON is no JSON: {}", line.error().text());
    const auto again = node_from_json(parse_json(*line, "line").value(), "line");
    CHECK(again && *again == node, "changed on the way through {}", *line);
    std::string bytes;
    encode(node, bytes);
    ChakraNode back;
    const std::string problem = decode(bytes, back);
    CHECK(problem.empty() && back == node, "changed on the way through protobuf: {}", *line);
    const auto useful = to_node(node);
    CHECK(useful || !useful.error().message.empty(), "refused without a word");
  }
  return 0;
}
