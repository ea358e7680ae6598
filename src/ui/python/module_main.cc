// The Python module `_tombolo`.
//
// A question is answered on a thread of its own. The thread that asked waits without Python's lock, so that other threads of
// Python run, and looks now and then whether a signal came (KeyboardInterrupt) and how far the search is. No thread of ours
// ever takes that lock but the one that asked.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>

#include "base/parallel.h"
#include "ui/command/command.h"
#include "ui/planner/planner.h"

namespace {

namespace py = pybind11;
using namespace tombolo;

constexpr std::chrono::milliseconds kLook{50};  // between two looks at signals and progress

// Questions that are being answered; read and written with Python's lock held.
//
// The interpreter's end waits for those of daemon threads: one that came back later would be ended by Python in the midst of our
// frames, which aborts the process.
struct Questions {
  std::set<Interruption*> open;
  bool closed = false;  // set while the interpreter ends: nothing is asked any more
};

Questions& questions() {
  static auto* const questions = new Questions;  // outlives what other threads do at exit
  return *questions;
}

class Opened {
 public:
  explicit Opened(Interruption* interruption) : interruption_(interruption) {
    if (questions().closed) throw std::runtime_error("the interpreter is ending");
    questions().open.insert(interruption_);
  }
  ~Opened() { questions().open.erase(interruption_); }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;

 private:
  Interruption* const interruption_;
};

void close_questions() {
  questions().closed = true;
  for (Interruption* const each : questions().open) {
    each->ask();
    each->ask();  // no best so far
  }
  while (!questions().open.empty()) {
    const py::gil_scoped_release they_may_return;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

struct Asked {
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<planner::Answer> answer;
  std::optional<std::pair<int64_t, int64_t>> progress;  // not yet shown
};

// Whatever bytes a file brought into a message.
py::str to_python(const std::string& text) {
  PyObject* const made =
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace");
  if (!made) throw py::error_already_set();
  return py::reinterpret_steal<py::str>(made);
}

py::list to_python(const std::vector<std::string>& texts) {
  py::list out;
  for (const std::string& each : texts) out.append(to_python(each));
  return out;
}

py::dict to_python(const planner::Answer& answer) {
  py::dict out;
  out["text"] = to_python(answer.text);
  out["notes"] = to_python(answer.notes);
  out["stopped"] = answer.stopped;
  out["bug"] = to_python(answer.bug);
  out["error"] = py::none();
  if (answer.error) {
    const Error& error = *answer.error;
    py::dict said;
    said["exit_code"] = error.exit_code();
    said["text"] = to_python(error.text());
    said["message"] = to_python(error.message);
    said["context"] = to_python(error.context);
    said["try"] = to_python(error.hint);
    said["file"] = to_python(error.place.file);
    said["line"] = error.place.line;
    said["key"] = to_python(error.place.key);
    said["value"] = to_python(error.place.value);
    out["error"] = said;
  }
  return out;
}

// What a signal's handler, or `progress`, raised.
std::optional<py::error_already_set> look(Asked& asked, const py::object& progress) {
  if (PyErr_CheckSignals() != 0) return py::error_already_set();
  std::optional<std::pair<int64_t, int64_t>> news;
  {
    const std::lock_guard lock(asked.mutex);
    news = std::exchange(asked.progress, std::nullopt);
  }
  if (!news || progress.is_none()) return std::nullopt;
  try {
    progress(news->first, news->second);
  } catch (py::error_already_set& error) {
    return std::move(error);
  }
  return std::nullopt;
}

py::dict ask(std::vector<std::string> words, std::string name, std::string text,
             const py::object& progress, bool fails_a_check) {
  const planner::Question question{std::move(words), std::move(name), std::move(text),
                                   fails_a_check};
  Interruption interruption;
  const Opened opened(&interruption);
  Asked asked;
  std::optional<py::error_already_set> raised;
  {
    const py::gil_scoped_release others_may_run;
    std::thread thread = start_without_signals([&] {
      planner::Answer answer = planner::ask(question, interruption, [&](int64_t done, int64_t all) {
        const std::lock_guard lock(asked.mutex);
        asked.progress = {done, all};
      });
      const std::lock_guard lock(asked.mutex);
      asked.answer = std::move(answer);
      asked.changed.notify_one();
    });
    std::unique_lock lock(asked.mutex);
    while (!asked.changed.wait_for(lock, kLook, [&] { return asked.answer.has_value(); })) {
      lock.unlock();
      {
        const py::gil_scoped_acquire here;
        if (std::optional<py::error_already_set> now = look(asked, progress)) {
          interruption.ask();
          // Only Ctrl-C asks for the best so far, and only once.
          if (!now->matches(PyExc_KeyboardInterrupt)) interruption.ask();
          raised = std::move(now);
        }
      }
      lock.lock();
    }
    lock.unlock();
    thread.join();
  }
  const bool best_so_far = asked.answer->ending == planner::Ending::kAnswered &&
                           asked.answer->stopped && raised &&
                           raised->matches(PyExc_KeyboardInterrupt);
  if (raised && !best_so_far) throw std::move(*raised);
  if (questions().closed) {  // a thread may end with SystemExit without a message
    PyErr_SetNone(PyExc_SystemExit);
    throw py::error_already_set();
  }
  return to_python(*asked.answer);
}

}  // namespace

PYBIND11_MODULE(_tombolo, module) {
  planner::answer_bugs();
  module.doc() =
      "The planning commands of Tombolo. Use the package tombolo, which says what they mean.";
  module.attr("__version__") = command::version();
  module.def("ask", &ask, py::arg("words"), py::arg("name") = "", py::arg("text") = "",
             py::arg("progress") = py::none(), py::arg("fails_a_check") = false);
  module.def("command_names", &planner::command_names);
  py::module_::import("atexit").attr("register")(py::cpp_function(close_questions));
  // A process that was forked has none of the other threads.
  py::module_::import("os").attr("register_at_fork")(
      py::arg("after_in_child") = py::cpp_function([] { questions().open.clear(); }));
}
