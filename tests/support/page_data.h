// The data a page carries, as its script reads it.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "base/json.h"

namespace tombolo::report {

inline Value data_of(const std::string& html) {
  const std::string open = "<script type=\"application/json\" id=\"data\">";
  const size_t start = html.find(open) + open.size();
  const size_t end = html.find("</script>", start);
  const Result<Value> data = parse_json(std::string_view(html).substr(start, end - start), "data");
  EXPECT_TRUE(data) << data.error().text();
  return data.value_or(Value());
}

}  // namespace tombolo::report
