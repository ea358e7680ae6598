// Text into HTML, safely. Names of jobs and datacenters come from untrusted files.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/value.h"

namespace tombolo::report {

Value texts(const std::vector<std::string>& list);

// For the text of elements and for quoted attributes: & < > " ' become entities.
std::string escape_html(std::string_view text);

// JSON that may stand inside <script>: as "</script>" or "<!--" would end or confuse it, every
// < > & of a string is written as an escape, and so are the two line ends JavaScript knows and JSON
// does not.
std::string script_json(const Value& value);

// Puts `parts` where the template says {{name}}. What is put in is not searched again, so a job
// named "{{data}}" stays a name. CHECKs that every name is known.
using Parts = std::vector<std::pair<std::string_view, std::string_view>>;
std::string fill_template(std::string_view text, const Parts& parts);

// A part of the page as it stands in assets/, or D3, by file name, as in asset("page.html"):
// embedded when the program is built. CHECKs that it exists. The bytes live as long as the program.
std::string_view asset(std::string_view name);

}  // namespace tombolo::report
