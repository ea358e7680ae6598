// tombolo-islands: emulated datacenters on this machine. tools/islands and tools/wanem call it.
#include <cstdio>

#include "lab/islands/emulate.h"

namespace tombolo::islands {
namespace {

int report(const Error& error) {
  fmt::print(stderr, "{}\n", error.text());
  return error.exit_code();
}

int main(int argc, char** argv) {
  const Result<Arguments> arguments = parse_arguments({argv + 1, argv + argc});
  if (!arguments) return report(arguments.error());
  switch (arguments->verb) {
    case Verb::kHelp:
      fmt::print("{}", arguments->text);
      return 0;
    case Verb::kTrace: {
      const Result<cluster::RateTrace> trace = wanem::stellatrain_fluctuation(arguments->trace);
      if (!trace) return report(trace.error());
      fmt::print("{}", to_csv(*trace));
      return 0;
    }
    case Verb::kExec:
      return report(become_command_on(arguments->host, arguments->command));
    case Verb::kRun:
    case Verb::kWanem: {
      const Result<Emulation> emulation = read_emulation(arguments->file, arguments->byte_scale);
      if (!emulation) return report(emulation.error());
      const Result<int> code = emulate(*arguments, *emulation);
      return code ? *code : report(code.error());
    }
  }
  return 0;
}

}  // namespace
}  // namespace tombolo::islands

int main(int argc, char** argv) { return tombolo::islands::main(argc, argv); }
