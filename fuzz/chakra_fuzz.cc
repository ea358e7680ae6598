// Chakra traces in protobuf: any bytes give messages or one error; what was read is written, read
// back equal and written to the same bytes; JSON says the same; and the graph, repaired, is sound.
// corpus/chakra/all_reduce.et is from ASTRA-sim's examples (MIT); the others are made by hand.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/json.h"
#include "spec/chakra/chakra.h"
#include "spec/chakra/chakra_binary.h"
#include "spec/chakra/chakra_json.h"

namespace {

using namespace tombolo;
using namespace tombolo::chakra;
using namespace tombolo::graph;

void round_trip(const ChakraNode& node) {
  std::string bytes;
  encode(node, bytes);
  ChakraNode back;
  const std::string problem = decode(bytes, back);
  CHECK(problem.empty(), "{}", problem);
  CHECK(back == node, "node {} changed", node.id);
  const auto line = to_json_line(node);
  if (!line) return;  // not UTF-8
  const auto value = parse_json(*line, "line");
  CHECK(value, "{} in {}", value.error().text(), *line);
  const auto again = node_from_json(*value, "line");
  CHECK(again, "{} in {}", again.error().text(), *line);
  CHECK(*again == node, "changed on the way through {}", *line);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (auto reader = ChakraReader::over(bytes, "input.et")) {
    ChakraNode node;
    for (;;) {
      const auto more = reader->next(node);
      CHECK(more || !more.error().message.empty(), "refused without a word");
      if (!more || !*more) break;
      round_trip(node);
    }
  } else {
    CHECK(!reader.error().message.empty(), "refused without a word");
  }
  const auto repaired = parse_chakra(bytes, "input.et", {.repair = true});
  const auto strict = parse_chakra(bytes, "input.et");
  CHECK(repaired || !strict, "only what cannot be repaired is refused");
  CHECK(!strict || *strict == *repaired, "a sound graph was repaired");
  if (!repaired) return 0;
  Outline outline;
  for (const Node& node : repaired->nodes) outline.add(node);
  const auto verdict = outline.examine();
  CHECK(verdict && verdict->bad.empty(), "repaired, but not sound");
  return 0;
}
