#include "ui/planner/planner.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <mutex>
#include <sstream>
#include <stdexcept>

#include "base/check.h"
#include "base/parallel.h"
#include "base/piped_input.h"
#include "ui/command/caller.h"
#include "ui/command/refused_words.h"
#include "ui/command/words.h"
#include "ui/decide_commands/decide_commands.h"
#include "ui/evidence_commands/evidence_commands.h"
#include "ui/predict_commands/predict_commands.h"

namespace tombolo::planner {
namespace {

class Bug : public std::logic_error {
  using std::logic_error::logic_error;
};

std::vector<command::Command> add_commands(CLI::App& app) {
  app.name("tombolo");
  app.require_subcommand(1);
  return {decide_commands::add_plan(app),      decide_commands::add_select(app),
          decide_commands::add_sweep(app),     predict_commands::add_fabric(app),
          predict_commands::add_simulate(app), predict_commands::add_estimate(app),
          predict_commands::add_traffic(app),  predict_commands::add_strand(app),
          evidence_commands::add_report(app),  evidence_commands::add_reproduce(app)};
}

Status run(const std::vector<std::string>& words, std::ostream& out) {
  CLI::App app;
  const std::vector<command::Command> commands = add_commands(app);
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));  // CLI11 wants them so
  } catch (const CLI::ParseError& error) {
    return fail(command::refused_words(app, words, error));
  }
  for (const command::Command& each : commands) {
    if (*each.words) return each.run(out);
  }
  return {};  // not reached: one subcommand is required
}

}  // namespace

Answer ask(const Question& question, Interruption& interruption,
           std::function<void(int64_t, int64_t)> progress) {
  Answer answer;
  std::mutex one_at_a_time;
  command::Caller caller;
  if (progress) {
    caller.progress = [&](int64_t done, int64_t all) {
      const std::lock_guard lock(one_at_a_time);
      progress(done, all);
    };
  }
  const command::Caller::Called called(caller);
  const Interruption::Watched watched(&interruption);
  std::optional<GivenInput> input;
  if (!question.name.empty()) input.emplace(question.name, question.text);
  std::ostringstream out;
  try {
    if (question.fails_a_check) {
      parallel_for(2, 2, [](size_t i) { CHECK(i > 1, "a test asked for it"); });
    }
    const Status status = run(question.words, out);
    if (!status) answer.error = status.error();
    answer.stopped = interruption.heeded();
  } catch (const Interrupted&) {
    answer.ending = Ending::kInterrupted;
  } catch (const std::exception& bug) {
    answer.ending = Ending::kBug;
    answer.bug = bug.what();
  }
  answer.text = std::move(out).str();
  answer.notes = std::move(caller.notes);
  return answer;
}

void answer_bugs() {
  on_failed_check([](const std::string& text) { throw Bug(text); });
}

std::vector<std::string> command_names() {
  CLI::App app;
  std::vector<std::string> names;
  for (const command::Command& each : add_commands(app)) names.push_back(each.words->get_name());
  return names;
}

}  // namespace tombolo::planner
