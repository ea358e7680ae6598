// API keys from a file, one a line; empty lines and lines that begin with # are skipped.
//
// A key is compared with all of them, in a time that depends on the length of what was sent and on
// nothing that is secret. Keys are held in memory, and stand in no message, log or answer.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tombolo::serve {

class ApiKeys {
 public:
  // Unusable if a key is shorter than 16 characters, as it could be guessed, or has characters
  // other than printable ASCII, as it could not be sent. Messages name the file (`name`) and the
  // line, never the key.
  static Result<ApiKeys> parse(std::string_view text, const std::string& name);
  // Unusable also where others may read the file.
  static Result<ApiKeys> read(const std::string& path);

  bool empty() const { return keys_.empty(); }  // any client may ask
  // `authorization`: the header, "Bearer KEY".
  bool allow(std::string_view authorization) const;

 private:
  std::vector<std::string> keys_;
};

}  // namespace tombolo::serve
