#include <unistd.h>

#include "base/check.h"
#include "perform/join/rendezvous.h"
#include "perform/run/worker_placement.h"

namespace tombolo::run {

ChildOptions worker_child(const WorkerStart& start) {
  CHECK(start.token || !start.token_file.empty(), "rank {} would have no token", start.rank);
  ChildOptions child{
      .program = start.program,
      .arguments = {"run", "--rank", fmt::format("{}", start.rank), "--ranks",
                    fmt::format("{}", start.ranks), "--launcher", start.launcher.text(), "--listen",
                    start.placement.at.listen, "--join-timeout",
                    fmt::format("{}", seconds(start.join_max).value), "--lease",
                    fmt::format("{}", seconds(start.terms.floor).value), "--grace",
                    fmt::format("{}", seconds(start.terms.ceiling).value)},
      // One thread per rank: more would fight over the same cores.
      .environment = {{"OMP_NUM_THREADS", "1"}, {"OPENBLAS_NUM_THREADS", "1"}},
      .network_namespace = start.placement.network_namespace};
  if (start.token) {
    child.environment.emplace_back(join::kTokenVariable, start.token->hex());
  } else {
    child.arguments.insert(child.arguments.end(), {"--token-file", start.token_file});
  }
  if (!start.security.credentials.empty())
    child.arguments.insert(child.arguments.end(), {"--credentials", start.security.credentials});
  if (start.security.plain_tcp) child.arguments.push_back("--plain-tcp");
  const join::ListenAddress& at = start.placement.at;
  if (!at.advertised.empty())
    child.arguments.insert(child.arguments.end(), {"--advertise", at.advertised});
  if (at.ports.first > 0) {
    child.arguments.insert(child.arguments.end(),
                           {"--ports", fmt::format("{}-{}", at.ports.first, at.ports.last)});
  }
  if (at.no_inbound) child.arguments.push_back("--no-inbound");
  if (!start.output.empty()) child.arguments.insert(child.arguments.end(), {"--out", start.output});
  if (!start.checkpoints.empty())
    child.arguments.insert(child.arguments.end(), {"--checkpoints", start.checkpoints});
  if (!start.job.empty()) child.arguments.insert(child.arguments.end(), {"--job", start.job});
  if (start.returns) child.arguments.push_back("--returns");
  if (start.child)
    child.arguments.insert(child.arguments.end(), {"--child", fmt::format("{}", getpid())});
  return child;
}

}  // namespace tombolo::run
