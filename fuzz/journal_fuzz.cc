// Journals: any bytes give records or a message; what was kept is read again as it was, and a
// record behind it is found.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/hash.h"
#include "perform/control/journal.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto text = tombolo::control::read_journal(bytes, "journal");
  CHECK(text || !text.error().message.empty(), "refused without a word");
  if (!text) return 0;
  CHECK(text->whole <= size, "{} of {} bytes are whole", text->whole, size);
  for (const std::string& record : text->records) {
    const auto entry = tombolo::control::parse_record(record, "record");
    if (!entry) continue;
    const auto back = tombolo::control::parse_record(tombolo::control::to_record(*entry), "again");
    CHECK(back && back->epoch == entry->epoch && back->kind == entry->kind, "another entry");
  }
  if (text->whole == 0) return 0;
  std::string more(bytes.substr(0, text->whole));
  more += tombolo::digest(text->last_digest + "more") + " more\n";
  const auto again = tombolo::control::read_journal(more, "journal");
  CHECK(again && again->records.size() == text->records.size() + 1, "a record was lost");
  CHECK(again->records.back() == "more", "another record");
  return 0;
}
