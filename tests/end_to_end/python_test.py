"""The Python package `tombolo`: its answers are the commands' answers, its errors the commands' errors, and it is a good guest."""
import ast
import contextlib
import doctest
import html
import inspect
import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock

from program import BUILD, ROOT, Case

PACKAGE = BUILD.joinpath("python")
sys.path[:0] = [str(ROOT / "tests" / "recorded"), str(PACKAGE)]
import answers_test  # noqa: E402
import figures  # noqa: E402
import messages_test  # noqa: E402
import notes_test  # noqa: E402

try:
    import tombolo
    from tombolo import _ask, _jobs, _tombolo
    MISSING = ""
except ImportError as error:  # built without TOMBOLO_PYTHON, or without pybind11, or for another Python
    tombolo, MISSING = None, f"the Python package was not built ({error})"

TOY = ROOT / "examples" / "toy" / "job.toml"
LLAMA = ROOT / "examples" / "planning" / "llama3-70b" / "job.toml"
COMMANDS = ("plan", "estimate", "simulate", "select", "sweep", "strand", "traffic", "fabric", "reproduce")
needs_package = unittest.skipIf(MISSING, MISSING)


def asked(words):
    """The function of the words of a command, called with keyword arguments; what it has no argument for, as words."""
    command, *rest = map(str, words)
    function = getattr(tombolo, command)
    known = inspect.signature(function).parameters
    positional, options = [], {}
    while rest:
        word = rest.pop(0)
        if not word.startswith("--"):
            positional.append(word)
            continue
        name, given, value = word[2:].partition("=")
        name = name.replace("-", "_")
        if name == "json":
            continue
        if name not in known or name == "gpus":
            return _ask.run([*map(str, words), "--json"], kind=tombolo.Answer)
        if known[name].default is False:
            options[name] = True
        elif name in ("vary", "copies", "sm_shares"):
            options.setdefault(name, []).append(value if given else rest.pop(0))
        else:
            options[name] = value if given else rest.pop(0)
    return function(*positional, **options)


def printed(words):
    """(exit code, what the command would write to stdout, and to stderr) by the package."""
    try:
        answer, error, code = asked(words), "", 0
    except tombolo.TomboloError as raised:
        answer, error, code = raised.answer, f"{raised}\n", raised.exit_code
        notes = raised.notes
    document = answer.to_dict() if answer else None
    if not error:
        notes = [note for note in answer.notes if note not in (document.get("notes") or [])]
    stdout = json.dumps(document, indent=2) + "\n" if answer else ""
    return code, stdout, "".join(f"note: {note}\n" for note in notes) + error


def without_wall(answer):
    return {key: value for key, value in answer.to_dict().items() if key != "wall_s"}


def resident():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS"))


@needs_package
class Python(Case):
    def compare_recorded(self, *wanted):
        """Recorded --json answers of these commands, asked again from Python: each third one, all with TOMBOLO_LONG=1."""
        compared = 0
        os.chdir(ROOT)
        asked = []
        for name, (line, _) in answers_test.commands().items():
            *before, last = line.split(" && ")
            words = shlex.split(last)
            if words[0] in wanted and "--json" in words:
                asked.append((name, line, before, words))
        for name, line, before, words in asked if os.environ.get("TOMBOLO_LONG") else asked[::3]:
            with self.subTest(name=name), tempfile.TemporaryDirectory(prefix="tombolo-answers-") as out:
                for arguments in before:
                    self.assertEqual(answers_test.run(arguments, out).returncode, 0)
                code, stdout, stderr = printed([word.replace("OUT", out) for word in words])
                text = f"$ tombolo {line}\nexit code {code}\n{answers_test.masked(stdout, out, False)}"
                if stderr:
                    text += f"--- stderr\n{answers_test.masked(stderr, out, False)}"
                then = answers_test.unfolded((ROOT / "tests" / "recorded" / "answers" / f"{name}.txt").read_text())
                self.assertEqual(figures.differences(then, text, False), [])
            compared += 1
        self.assertGreater(compared, 0)
        print(f"{compared} answers of {', '.join(wanted)}")

    def test_plans_as_recorded(self):
        self.compare_recorded("plan")

    def test_simulates_as_recorded(self):
        self.compare_recorded("simulate")

    def test_estimates_selects_and_sweeps_as_recorded(self):
        self.compare_recorded("estimate", "select", "sweep")

    def test_strands_traffic_and_fabrics_as_recorded(self):
        self.compare_recorded("strand", "traffic", "fabric")

    def test_reproduces_as_recorded(self):
        self.compare_recorded("reproduce")

    def test_a_dict_a_text_and_a_path_are_one_job(self):
        text = TOY.read_text()
        tomllib = __import__("tomllib") if sys.version_info >= (3, 11) else self.skipTest("tomllib came with Python 3.11")
        answers = [without_wall(tombolo.simulate(job)) for job in (TOY, str(TOY), text, tomllib.loads(text))]
        self.assertEqual(answers, [answers[0]] * 4)
        every = {"a key": "\"quotes\" and \\", "list": [1, 2.5, True, {"x": "y", "z": [[]]}], "none": None,
                 "section": {"deep": {"deeper": {"text": "ä\n\t\x01\x7f"}}, "tables": [{"a": 1}, {"b": 1e300}]}, "empty": {}}
        read = tomllib.loads(_jobs.toml_text(every))
        del every["none"]
        self.assertEqual(read, every)
        with self.assertRaisesRegex(TypeError, "training.global_batch: .*not object"):
            tombolo.simulate({"training": {"global_batch": object()}})

    def test_the_commands_that_the_module_has(self):
        self.assertEqual(set(_tombolo.command_names()), {*COMMANDS, "report"})
        for command in COMMANDS:
            options = {word[2:].replace("-", "_") for line in self.ok(command, "--help").splitlines()
                       for word in line.split()[:1] if word.startswith("--")}
            # Not of a process at a terminal: --json, a drawing. A second job is another question.
            options -= {"json", "ascii", "beside"}
            self.assertEqual(options, set(inspect.signature(getattr(tombolo, command)).parameters) - {"job", "progress", "table"} |
                             ({"job"} if command == "fabric" else set()), command)

    def test_importing_is_fast(self):
        times = []
        for _ in range(5):
            begin = time.monotonic()
            subprocess.run([sys.executable, "-c", "import tombolo"], check=True, env={**os.environ, "PYTHONPATH": str(PACKAGE)})
            middle = time.monotonic()
            subprocess.run([sys.executable, "-c", ""], check=True)
            times.append((middle - begin) - (time.monotonic() - middle))
        print(f"import tombolo: {1000 * min(times):.0f} ms more than Python itself (wanted: 200 at most)")

    def test_wrong_inputs_raise_the_words_of_the_command(self):
        test, compared = self, []

        class Asked(messages_test.Messages):
            def refused(self, code, words, *arguments, **options):
                said = super().refused(code, words, *arguments, **options)
                if arguments and arguments[0] in COMMANDS and len(arguments) > 1:
                    os.chdir(self.folder)
                    with test.assertRaises(tombolo.TomboloError) as raised:
                        asked(arguments)
                    os.chdir(ROOT)
                    error = raised.exception
                    test.assertIs(type(error), {2: tombolo.JobError, 3: tombolo.NoFeasiblePlan}[code])
                    test.assertEqual((str(error) + "\n", error.exit_code), (said[said.index(str(error)):], code))
                    test.assertNotIn("\n", error.message)
                    compared.append(error)
                return said

            def refuses(self, name):
                self.setUp()
                try:
                    getattr(self, name)()
                finally:
                    self.doCleanups()

        # Not those that start processes.
        source = {name: inspect.getsource(getattr(Asked, name)) for name in dir(Asked) if name.startswith("test_")}
        for name, text in source.items():
            if "self.refused(" in text and '"train"' not in text:
                with self.subTest(name=name):
                    Asked(name).refuses(name)
        self.assertGreater(len(compared), 15)
        placed = [error for error in compared if getattr(error, "key", None)]
        self.assertGreater(len(placed), 6)
        for error in placed:
            if error.line:
                self.assertTrue(error.message.startswith(f"{error.file}:{error.line}: {error.key}"), error.message)

    def test_an_error_says_where(self):
        text = TOY.read_text().replace('"5 Gbps"', '"5 Gbs"')
        with self.assertRaises(tombolo.JobError) as raised:
            tombolo.simulate(text)
        error = raised.exception
        self.assertEqual((error.file, error.line, error.key, error.value), ("<job>", 18, "cluster.wan[0].node_pair_limit", '"5 Gbs"'))
        self.assertEqual(str(error), f"{error.message}\n  try {error.try_}")
        self.assertIsInstance(error, ValueError)
        toy = {"cluster": {"datacenter": [{"name": "here", "device": "a100-80g"}]}, "parallelism": {"pipeline": 1},
               "stage_times": {"forward": "1 ms", "backward": "2 ms"}}
        self.assertEqual(tombolo.simulate({**toy, "training": {"global_batch": 4}}).iteration_s, 0.012)
        with self.assertRaises(tombolo.JobError) as raised:
            tombolo.simulate({**toy, "training": {"global_batch": 4, "micro_bach": 1}})
        error = raised.exception
        self.assertEqual((error.line, error.key, error.value), (None, "training.micro_bach", "1"))
        self.assertTrue(str(error).startswith("<job>: training.micro_bach = 1: unknown key"), error)
        with self.assertRaises(tombolo.JobError) as raised:
            tombolo.plan("nowhere.toml")
        self.assertEqual((raised.exception.file, raised.exception.line), ("nowhere.toml", None))

    def test_what_fits_nowhere(self):
        with self.assertRaises(tombolo.NoFeasiblePlan) as raised:
            tombolo.simulate(TOY.read_text().replace("pipeline = 3", "pipeline = 4"))
        self.assertIn("4 stages need 4 devices, the cluster has 3", str(raised.exception))
        # What was found all the same.
        with self.assertRaises(tombolo.NoFeasiblePlan) as raised:
            tombolo.sweep(TOY, {"parallelism.pipeline": [4, 5]})
        self.assertEqual([row["status"] for row in raised.exception.answer.rows], ["infeasible"] * 2)

    def test_a_bug_is_an_exception(self):
        with self.assertRaisesRegex(tombolo.InternalError, "does not hold: a test asked for it"):
            _ask.run(["simulate", str(TOY)], fails_a_check=True)
        self.assertEqual(tombolo.simulate(TOY).iteration_ns, 25_000_000)

    def test_notes_are_part_of_the_answer(self):
        job = self.write("job.toml", notes_test.V100.format(precision="bf16"))
        done = self.tombolo("simulate", job, "--json")
        said = [line.removeprefix("note: ") for line in done.stderr.splitlines()]
        self.assertNotEqual(said, [])
        self.assertEqual(list(tombolo.simulate(job).notes), said)

    def test_nothing_goes_to_stdout_or_stderr(self):
        script = f"import tombolo; tombolo.plan({str(LLAMA)!r}, simulate_for=0); tombolo.simulate({str(TOY)!r}, policy='best')"
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=240,
                              env={**os.environ, "PYTHONPATH": str(PACKAGE)})
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_two_threads_at_once(self):
        jobs = [path.read_text() for path in (TOY, ROOT / "examples" / "replicas" / "job.toml")]
        alone = [without_wall(tombolo.simulate(job)) for job in jobs]
        self.assertNotEqual(alone[0], alone[1])
        plan = without_wall(tombolo.plan(LLAMA, simulate_for=0))
        wrong = []

        def many(i):
            for _ in range(20):
                if without_wall(tombolo.simulate(jobs[i % 2])) != alone[i % 2]:
                    wrong.append(i)

        def search():
            if without_wall(tombolo.plan(LLAMA, simulate_for=0)) != plan:
                wrong.append("plan")

        threads = [threading.Thread(target=many, args=(i,)) for i in range(4)] + [threading.Thread(target=search) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_other_threads_run_while_it_computes(self):
        turns, done = 0, threading.Event()

        def search():
            tombolo.plan(LLAMA)
            done.set()

        thread = threading.Thread(target=search)
        thread.start()
        while not done.wait(0.001):
            turns += 1
        thread.join()
        self.assertGreater(turns, 10)  # each waited for the lock of the interpreter; a search takes hundreds of milliseconds

    def test_a_hundred_calls_leave_nothing_behind(self):
        text = LLAMA.read_text()
        os.chdir(LLAMA.parent)  # what the text names is looked for here
        self.addCleanup(os.chdir, ROOT)

        def turn():
            tombolo.simulate(TOY)
            tombolo.plan(text, simulate_for=0, threads=1)
            with self.assertRaises(tombolo.JobError):
                tombolo.simulate("[training]\nglobal_bach = 1\n")

        for _ in range(10):
            turn()
        before, files = resident(), len(os.listdir("/proc/self/fd"))
        for _ in range(33):
            turn()
        grown = resident() - before
        print(f"99 calls: {grown / 1024:.0f} KiB more")
        self.assertEqual(len(os.listdir("/proc/self/fd")), files)
        self.assertLess(grown, 8 << 20)

    def interrupted(self, script):
        """stdout of a script that gets SIGINT once it has printed "ready" and 0.3 s have passed."""
        with subprocess.Popen([sys.executable, "-u", "-c", f"import sys, threading, time, tombolo\n{script}"], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(PACKAGE)}) as process:
            self.assertEqual(process.stdout.readline(), "ready\n", process.stderr)
            time.sleep(0.3)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=240)
            self.assertEqual((process.returncode, err), (0, ""))
            return out

    def test_ctrl_c_answers_with_the_best_so_far(self):
        # Some layout is known soon: of one datacenter alone, by its closed form.
        out = self.interrupted(f"""
begun = []
def tell(done, of):
    if not begun: print("ready")
    begun.append(done)
answer = tombolo.plan({str(ROOT / 'examples/planning/five-zones-job.toml')!r}, no_pruning=True, simulate_for=0, progress=tell)
print(answer.stopped, answer.best.iteration_s > 0)
print(tombolo.simulate({str(TOY)!r}).iteration_ns)
""")
        self.assertEqual(out, "True True\n25000000\n")

    def test_ctrl_c_ends_what_has_no_best_so_far(self):
        out = self.interrupted(f"""
print("ready")
try:
    tombolo.simulate({str(ROOT / 'examples/atlas/gpt-a.toml')!r}, iterations=20000)
except KeyboardInterrupt:
    print("interrupted")
print(tombolo.simulate({str(TOY)!r}).iteration_ns)
""")
        self.assertEqual(out, "interrupted\n25000000\n")

    def test_progress_is_told_and_may_stop_it(self):
        seen = []
        vary = {"cluster.wan.*.connections": "1..200", "cluster.wan.*.one_way_latency": ["10 ms", "20 ms"]}
        job = ROOT / "examples" / "what-if" / "job.toml"
        answer = tombolo.sweep(job, vary, progress=lambda done, of: seen.append((done, of)))
        self.assertEqual(len(answer.rows), 400)
        self.assertTrue(all(0 < done <= of == 400 for done, of in seen), seen)

        def enough(done, of):
            raise RuntimeError("enough")

        # Looked at every 50 ms.
        with self.assertRaisesRegex(RuntimeError, "enough"):
            tombolo.sweep(job, {**vary, "training.global_batch": "32..3200/100"}, progress=enough)

    def test_pages_are_those_of_the_command(self):
        for function, job, words in ((tombolo.plan, LLAMA, {}), (tombolo.select, ROOT / "examples" / "atlas" / "select.toml", {}),
                                     (tombolo.estimate, ROOT / "examples" / "rail-only" / "table4-175b.toml", {})):
            path = self.folder / "page.html"
            self.ok(function.__name__, job, "--report", path)
            answer = function(job, **words)
            page = answer.page()
            self.assertTrue(page.startswith("<!doctype html>"), page[:80])
            self.assertLess(abs(len(page) - len(path.read_text())), 0.01 * len(page))
            shown = answer._repr_html_()
            self.assertIn("<iframe srcdoc=", shown)
            self.assertIn(html.escape('<head><base href="about:srcdoc">'), shown)  # its links stay within it
            self.assertLess(len(repr(answer)), 1000)
            self.assertIn(html.escape(repr(answer)), shown)  # where frames are taken out
        simulation = tombolo.simulate(TOY)
        self.assertIn("<!doctype html>", simulation.page()[:100])
        self.ok("simulate", TOY, "--out", self.folder / "t.jsonl")
        self.assertEqual(len(simulation.trace().splitlines()), len((self.folder / "t.jsonl").read_text().splitlines()))
        self.assertIsNone(tombolo.reproduce("rail-only/appendix-a")._repr_html_())

    def test_rows_are_frames(self):
        script = f"""
import pandas, tombolo
frame = tombolo.sweep({str(ROOT / 'examples/what-if/job.toml')!r}, {{"cluster.wan.*.connections": [1, 4]}}).to_frame()
assert isinstance(frame, pandas.DataFrame)
print(list(frame["cluster.wan.*.connections"]), len(tombolo.plan({str(LLAMA)!r}, top=3).to_frame()),
      list(tombolo.traffic({str(ROOT / 'examples/rail-only/table4-22b.toml')!r}).to_frame()["kind"])[0])
"""
        environment = {**os.environ, "PYTHONPATH": str(PACKAGE)}
        for python in (sys.executable, "/usr/bin/python3"):  # Debian's has Debian's pandas
            if subprocess.run([python, "-c", "import pandas, tombolo"], env=environment, capture_output=True).returncode == 0:
                done = subprocess.run([python, "-c", script], env=environment, capture_output=True, text=True, timeout=240)
                self.assertEqual((done.returncode, done.stdout), (0, "[1, 4] 3 tensor\n"), done.stderr)
                return
        self.skipTest("pandas is not installed (python3-pandas)")

    def test_the_guide_is_what_happens(self):
        """Each >>> of docs/guide/python.md, in a folder that has examples/."""
        text = (ROOT / "docs" / "guide" / "python.md").read_text(encoding="utf-8")
        self.assertGreater(text.count("\n>>> "), 10)
        os.symlink(ROOT / "examples", self.folder / "examples")
        os.chdir(self.folder)
        self.addCleanup(os.chdir, ROOT)
        session = doctest.DocTestParser().get_doctest(re.sub("(?m)^```.*$", "", text), {}, "python.md", "docs/guide/python.md", 0)
        said = []
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
        self.assertEqual(runner.run(session, out=said.append).failed, 0, "".join(said))

    def test_the_notebook_runs(self):
        """Cell by cell, as a kernel does, and what a cell ends with is shown."""
        path = ROOT / "examples" / "python" / "planning.ipynb"
        os.chdir(path.parent)
        self.addCleanup(os.chdir, ROOT)
        names, pages = {}, 0
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            if cell["cell_type"] != "code":
                continue
            self.assertEqual((cell["outputs"], cell["execution_count"]), ([], None), "outputs are not kept")
            body = ast.parse("".join(cell["source"])).body
            last = body.pop() if isinstance(body[-1], ast.Expr) else None
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(ast.Module(body, []), str(path), "exec"), names)
                shown = eval(compile(ast.Expression(last.value), str(path), "eval"), names) if last else None
            if isinstance(shown, tombolo.Answer):
                self.assertIn("<iframe srcdoc=", shown._repr_html_())
                pages += 1
        self.assertEqual(pages, 4)

    def test_a_notebook_gets_its_page_with_the_answer(self):
        with unittest.mock.patch.object(_ask, "in_notebook", lambda: True):
            answer = tombolo.plan(LLAMA, simulate_for=0, progress=False)
        page = answer._page[0]
        self.assertTrue(page.startswith("<!doctype html>"), page[:80])
        with unittest.mock.patch.object(_tombolo, "ask", None):  # asks no more
            self.assertEqual(answer.page(), page)

    def test_bytes_that_are_no_text(self):
        job = self.folder / "job.toml"
        job.write_bytes(TOY.read_bytes().replace(b'"gpipe"', b'"gp\xffipe"'))
        with self.assertRaises(tombolo.JobError):
            tombolo.simulate(job)

    def script(self, text, *words, python=sys.executable):
        """A program's (exit code, stdout, stderr)."""
        path = self.folder / "script.py"
        path.write_text(text)
        done = subprocess.run([python, path, *map(str, words)], capture_output=True, text=True, timeout=240,
                              env={**os.environ, "PYTHONPATH": str(PACKAGE)})
        return done.returncode, done.stdout, done.stderr

    def test_what_is_no_job_and_no_option(self):
        for job in (None, [TOY], 3, TOY.open()):
            with self.subTest(job=job), self.assertRaisesRegex(TypeError, "a job is a path, TOML text or a dict, not "):
                tombolo.simulate(job)
            if not isinstance(job, (list, int, type(None))):
                job.close()
        sweep = ROOT / "examples" / "what-if" / "job.toml"
        for function, words in ((lambda: tombolo.plan(LLAMA, top={}), "top: wanted a text, a number or a list of them, not dict"),
                                (lambda: tombolo.plan(LLAMA, progress="yes"), "progress: wanted True, False or a function, not str"),
                                (lambda: tombolo.sweep(sweep, None), "vary: wanted a dict of paths and their values, or texts, not NoneType"),
                                (lambda: tombolo.sweep(sweep, {"training.global_batch": [{}]}), "training.global_batch: .*not dict"),
                                (lambda: tombolo.fabric(job={}), "job: .*not dict")):
            with self.subTest(words=words), self.assertRaisesRegex(TypeError, words):
                function()
        with self.assertRaisesRegex(ValueError, "null character"):
            tombolo.simulate("job\0.toml")

    def test_names_of_files_that_are_no_text(self):
        path = os.path.join(os.fsencode(self.folder), b"\xff.toml")
        with open(path, "wb") as file:
            file.write(TOY.read_bytes())
        for job in (path, os.fsdecode(path)):
            self.assertEqual(tombolo.simulate(job).iteration_ns, 25_000_000)
        for text in ('a = "\ud800"\n', "a = 1\n\0\n"):
            with self.assertRaises(tombolo.JobError):
                tombolo.simulate(text)

    def test_numbers_of_numpy(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("numpy is not installed (python3-pandas brings it)")
        job = ROOT / "examples" / "what-if" / "job.toml"
        rows = tombolo.sweep(job, {"cluster.wan.*.connections": [1, 2]}).rows
        for values in (numpy.arange(1, 3), (numpy.int64(1), numpy.float64(2).astype(int)), range(1, 3)):
            self.assertEqual(tombolo.sweep(job, {"cluster.wan.*.connections": values}).rows, rows)
        self.assertEqual(tombolo.sweep(job, {"cluster.wan.*.connections": numpy.int64(1)}).rows, rows[:1])
        answer = tombolo.plan(LLAMA, simulate_for=numpy.float32(0), top=numpy.int64(2), no_pruning=numpy.bool_(True))
        self.assertEqual(len(answer.top), 2)

    def test_other_processes(self):
        """Answers and errors come back from processes, however they were started."""
        self.assertEqual(self.script(f"""
import concurrent.futures, multiprocessing, tombolo

def bad(key):
    with open({str(TOY)!r}) as file:
        return tombolo.simulate(file.read().replace("global_batch", key))

if __name__ == "__main__":
    here = tombolo.simulate({str(TOY)!r})
    for how in ("spawn", "fork", "forkserver"):
        with concurrent.futures.ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(how)) as pool:
            print(*(answer.iteration_ns for answer in pool.map(tombolo.simulate, [{str(TOY)!r}] * 3)))
            error = pool.submit(bad, "global_bach").exception()
            print(type(error).__name__, error.key, error.try_)
"""), (0, '25000000 25000000 25000000\nJobError training.global_batch "global_batch" instead of "global_bach"\n' * 3, ""))

    def test_the_end_of_the_interpreter(self):
        """A thread that nobody waits for asks something long: the program ends all the same, and not by a signal."""
        for i in range(3):
            self.assertEqual(self.script(f"""
import threading, time, tombolo

def ask():
    tombolo.plan({str(ROOT / 'examples/planning/five-zones-job.toml')!r}, no_pruning=True)

threading.Thread(target=ask, daemon=True).start()
time.sleep(0.1 + 0.2 * {i})
print("end")
"""), (0, "end\n", ""))

    def test_more_threads_than_there_can_be(self):
        code, out, err = self.script(f"""
import resource, tombolo
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))  # stacks of 8 MiB
print(tombolo.plan({str(LLAMA)!r}, simulate_for=0, threads=1000).best.devices)
""")
        self.assertEqual((code, out), (0, "128\n"), err)

    def test_the_scripts_run(self):
        for script, words in (("line_rates", ["5 Gbps"]), ("which_device", ["h100-80g"]), ("best_schedule", ["17.00 ms, 71 %"])):
            done = subprocess.run([sys.executable, ROOT / "examples" / "python" / f"{script}.py"], capture_output=True, text=True, timeout=240,
                                  cwd=self.folder, env={**os.environ, "PYTHONPATH": str(PACKAGE)})
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            for word in words:
                self.assertIn(word, done.stdout)

    def test_it_links_nothing_that_performs(self):
        libraries = subprocess.run(["ldd", _tombolo.__file__], capture_output=True, text=True, check=True).stdout
        self.assertIn("libc.so", libraries)
        for word in ("ssl", "crypto", "torch", "prometheus", "httplib"):
            self.assertNotIn(word, libraries)


if __name__ == "__main__":
    unittest.main()
