#include "ui/cli/man_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tombolo {
namespace {

// As roff takes it: a hyphen that is one, no escape, and no line that is a request.
std::string in_roff(std::string_view text) {
  std::string out;
  if (text.starts_with('.') || text.starts_with('\'')) out += "\\&";
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  return out;
}

// A list of values may be longer than a line: roff may break it behind a comma.
std::string breakable(const std::string& value) {
  std::string out;
  for (const char c : value) {
    out += c;
    if (c == ',') out += "\\:";
  }
  return out;
}

std::string option_entry(const command::OptionWords& option) {
  const std::string value = option.positional || option.value.empty()
                                ? ""
                                : " \\fI" + breakable(in_roff(option.value)) + "\\fR";
  return fmt::format(".TP\n\\fB{}\\fR{}\n{}\n", in_roff(option.names.front()), value,
                     in_roff(option.whole_text()));
}

std::string command_entry(const command::CommandWords& command) {
  std::string out = fmt::format(".SS {}\n{}.\n.PP\n.nf\n{}\n.fi\n",
                                in_roff(fmt::format("{}", fmt::join(command.names, ", "))),
                                in_roff(command.line), in_roff(command.usage()));
  for (const std::string& heading : command.headings()) {
    out += fmt::format(".PP\n\\fI{}\\fR\n", in_roff(heading));
    for (const command::OptionWords& option : command.options) {
      if (option.heading == heading) out += option_entry(option);
    }
  }
  return out + fmt::format(".PP\nExample:\n.PP\n.nf\n{}\n.fi\n", in_roff(command.example));
}

}  // namespace

std::string man_page(const std::vector<command::CommandWords>& commands,
                     const std::string& version) {
  std::string out = fmt::format(
      ".TH TOMBOLO 1 \"\" \"tombolo {}\" \"User Commands\"\n"
      ".SH NAME\n"
      "tombolo \\- plan, simulate and run large\\-model training across slow networks\n"
      ".SH SYNOPSIS\n\\fBtombolo\\fR \\fICOMMAND\\fR [\\fIoptions\\fR]\n"
      ".SH DESCRIPTION\n"
      "A job file says what to train and where. Commands search a Plan for it, predict the Plan,\n"
      "perform it, and compare both. Keys of job files: \\fBtombolo help job\\fR. Times, sizes "
      "and\n"
      "rates carry their unit: 30s, 1GiB, 400Gbps. Where a file is read, \\- is standard input, "
      "and\n"
      "where one is written, standard output.\n"
      ".SH COMMANDS\n",
      in_roff(version));
  for (const command::CommandWords& each : commands) out += command_entry(each);
  return out +
         ".SH EXIT STATUS\n0: done. 2: what was given cannot be used. 3: there is no feasible "
         "plan.\n"
         "1: anything else.\n";
}

}  // namespace tombolo
