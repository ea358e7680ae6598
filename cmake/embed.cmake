# Writes a .cc that holds files as bytes, under the names they have on disk.
#   cmake -DOUT=assets.cc "-DFILES=page.html;page.css" -DHEADER=report/assets.h -DMODULE=report
#         -DFUNCTION=asset -P embed.cmake
# The header declares `std::string_view FUNCTION(std::string_view name);` in namespace
# tombolo::MODULE; with -DNAMES=asset_names also `std::vector<std::string_view> NAMES();`, sorted.
set(entries "")
foreach(file ${FILES})
  get_filename_component(name "${file}" NAME)
  # As numbers: compilers limit the length of string literals, and HEX keeps every byte as it is.
  file(READ "${file}" hex HEX)
  string(LENGTH "${hex}" length)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  math(EXPR size "${length} / 2")
  string(MAKE_C_IDENTIFIER "k_${name}" symbol)
  string(APPEND arrays "const unsigned char ${symbol}[] = {${bytes}0};\n")
  string(APPEND names "\"${name}\", ")
  string(APPEND entries "    {\"${name}\", {reinterpret_cast<const char*>(${symbol}), ${size}}},\n")
endforeach()
if(NAMES)
  set(names_function "\nstd::vector<std::string_view> ${NAMES}() { return {${names}}; }\n")
endif()
file(WRITE "${OUT}" "// Made by cmake/embed.cmake.
#include \"${HEADER}\"

#include <utility>
#include <vector>

#include \"base/check.h\"

namespace tombolo::${MODULE} {
namespace {
${arrays}
const std::pair<std::string_view, std::string_view> kFiles[] = {
${entries}};
}  // namespace

std::string_view ${FUNCTION}(std::string_view name) {
  for (const auto& [known, text] : kFiles) {
    if (known == name) return text;
  }
  CHECK(false, \"no file named {} is embedded\", name);
}
${names_function}}  // namespace tombolo::${MODULE}
")
