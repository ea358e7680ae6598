#!/usr/bin/env python3
"""Opens sample reports in headless Chromium and uses them: zoom, hover, search, themes, widths.

    report_browser_test.py SAMPLE_REPORT [--artifacts FOLDER] [TEST...]

SAMPLE_REPORT is the program that writes the samples. Screenshots stay in FOLDER (left out: artifacts/
beside the program) as report-*.png, the pages below it; a test that fails leaves one more, of the
page as it was then. Speaks WebDriver to chromedriver with the standard library alone; where Chromium
is missing the test is skipped, and says so.
"""
import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import urllib.request

ARTIFACTS = None
KEYS = {"Tab": "\ue004", "Escape": "\ue00c", "ArrowLeft": "\ue012", "ArrowUp": "\ue013", "ArrowRight": "\ue014",
        "ArrowDown": "\ue015", "Space": " "}
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
         "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--disable-dev-shm-usage"]


class Browser:
    """One chromedriver and one session of it. Leaving it by an exception keeps what the page showed."""

    def __init__(self, test, width, height, *flags):
        self.test = test
        self.profile = tempfile.mkdtemp(prefix="tombolo-browser-")
        self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, text=True)
        for line in self.driver.stdout:  # "ChromeDriver was started successfully on port 41234."
            if "successfully on port" in line:
                self.root = "http://127.0.0.1:" + line.strip().rstrip(".").split()[-1]
                break
        try:
            self.start(width, height, flags)
        except BaseException:
            self.close()
            raise

    def start(self, width, height, flags):
        arguments = FLAGS + [f"--window-size={width},{height}", f"--user-data-dir={self.profile}", *flags]
        made = self.call("POST", "/session", {"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": {"args": arguments}, "goog:loggingPrefs": {"browser": "ALL"}}}})
        self.root += "/session/" + made["sessionId"]
        # Below 500 pixels a window cannot get, a phone can.
        self.chrome("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                    mobile=False)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        try:
            if kind is not None:
                self.screenshot("FAILED-" + self.test)
        finally:
            self.close()

    def close(self):
        try:
            self.call("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.wait()
            self.driver.stdout.close()
            shutil.rmtree(self.profile, ignore_errors=True)

    def call(self, method, path, body=None):
        data = json.dumps(body).encode() if method == "POST" else None
        request = urllib.request.Request(self.root + path, data, {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["value"]

    def chrome(self, command, **parameters):
        return self.call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def open(self, page):
        self.call("POST", "/url", {"url": "file://" + os.path.join(ARTIFACTS, "report-pages", page)})

    def run(self, script, *arguments):
        return self.call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def errors(self):
        return [entry["message"] for entry in self.call("POST", "/se/log", {"type": "browser"})
                if entry["level"] in ("SEVERE", "WARNING")]

    def screenshot(self, name):
        height = self.run("return document.documentElement.scrollHeight")
        width = self.run("return innerWidth")
        shot = self.chrome("Page.captureScreenshot", captureBeyondViewport=True,
                           clip={"x": 0, "y": 0, "width": width, "height": height, "scale": 1})
        path = os.path.join(ARTIFACTS, f"report-{name}.png")
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))
        print("screenshot:", path)

    def mouse(self, *actions):
        """("move", x, y), ("down",), ("up",): relative to the timeline's canvas."""
        self.run("document.getElementById('gantt').scrollIntoView({block: 'center', behavior: 'instant'})")
        box = self.run("const b = document.getElementById('gantt').getBoundingClientRect(); return [b.left, b.top]")
        steps = []
        for kind, *place in actions:
            if kind == "move":
                steps.append({"type": "pointerMove", "duration": 0, "x": round(box[0] + place[0]), "y": round(box[1] + place[1])})
            else:
                steps.append({"type": "pointerDown" if kind == "down" else "pointerUp", "button": 0})
        self.call("POST", "/actions", {"actions": [
            {"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": steps}]})

    def wheel(self, x, y, delta):
        box = self.run("const b = document.getElementById('gantt').getBoundingClientRect(); return [b.left, b.top]")
        self.call("POST", "/actions", {"actions": [{"type": "wheel", "id": "wheel", "actions": [
            {"type": "scroll", "duration": 0, "x": round(box[0] + x), "y": round(box[1] + y), "deltaX": 0, "deltaY": delta}]}]})

    def press(self, *keys):
        steps = [{"type": kind, "value": KEYS.get(key, key)} for key in keys for kind in ("keyDown", "keyUp")]
        self.call("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": steps}]})

    def tab_to(self, id):
        """Reaches the element as one without a mouse does."""
        self.run("document.activeElement.blur(); getSelection().collapse(document.body, 0)")
        for _ in range(30):
            self.press("Tab")
            if self.run("return document.activeElement.id") == id:
                return
        raise AssertionError(f"{id} is out of the keyboard's reach")

    # What the page's own objects say.
    def visible(self):
        return self.run("return gantt.scale.domain()")

    def place_of(self, provenance, action):
        """The middle of a bar on the canvas."""
        return self.run("""
            for (const group of gantt.view.groups) {
              if (group.trace.provenance !== arguments[0]) continue;
              for (const entry of group.lanes) for (const [t, {items}] of entry.tracks.entries()) {
                const item = items.find((i) => i.action.text === arguments[1]);
                if (item) return [gantt.scale((item.start + item.end) / 2), entry.top + (t + 0.5) * entry.row];
              }
            }""", provenance, action)


SEARCH = """const box = document.getElementById('search'); box.value = arguments[0];
            box.dispatchEvent(new Event('input')); return document.getElementById('matches').value"""
ITEMS = "return d3.sum(gantt.view.groups, (g) => d3.sum(g.lanes, (l) => d3.sum(l.tracks, (t) => t.items.length)))"
# How many rectangles one drawing fills.
BARS = """const pen = document.getElementById('gantt').getContext('2d'), fill = pen.fillRect;
          let count = 0;
          pen.fillRect = function (...box) { ++count; fill.apply(this, box); };
          gantt.draw();
          delete pen.fillRect;
          return count"""


class ReportTest(unittest.TestCase):
    def browse(self, page, width=1280, height=900, *flags):
        browser = Browser(self.id().split(".")[-1], width, height, *flags)
        browser.open(page)
        return browser

    def test_pair_shows_both_traces_without_an_error(self):
        with self.browse("pair.html") as browser:
            browser.screenshot("pair")
            self.assertEqual([], browser.errors())
            text = browser.run("return document.body.innerText")
            for words in ("two-datacenters", "oregon", "tombolo train two-datacenters.toml --out run", "Learning rate"):
                self.assertIn(words, text)
            badges = browser.run("return [...document.querySelectorAll('.card .badge')].map((b) => b.textContent)")
            self.assertEqual(["predicted", "measured", "predicted", "measured", "measured", "measured"], badges)

    def test_hover_tells_what_a_bar_is(self):
        with self.browse("pair.html") as browser:
            browser.mouse(("move", *browser.place_of("measured", "0F1")))
            tip = browser.run("const t = document.getElementById('tooltip'); return t.hidden ? '' : t.innerText")
            for words in ("Forward", "measured", "0F1", "rank 0", "duration", "predicted"):
                self.assertIn(words, tip)
            browser.mouse(("move", *browser.place_of("predicted", "0SEND_F0")))
            tip = browser.run("return document.getElementById('tooltip').innerText")
            for words in ("Activations", "oregon → paris", "524 KB", "Mbps"):
                self.assertIn(words, tip)
            browser.screenshot("hover")
            browser.mouse(("move", 2, 2))
            self.assertTrue(browser.run("return document.getElementById('tooltip').hidden"))

    def test_wheel_drag_keys_and_buttons_move_the_view(self):
        with self.browse("pair.html") as browser:
            browser.mouse(("move", 600, 60))
            whole = browser.visible()
            at = browser.run("return gantt.scale.invert(600)")
            browser.wheel(600, 60, -400)
            zoomed = browser.visible()
            self.assertLess(zoomed[1] - zoomed[0], 0.6 * (whole[1] - whole[0]))
            self.assertAlmostEqual(at, browser.run("return gantt.scale.invert(600)"), delta=0.01 * at)
            browser.mouse(("move", 600, 60), ("down",), ("move", 500, 60), ("up",))
            panned = browser.visible()
            self.assertGreater(panned[0], zoomed[0])
            self.assertAlmostEqual(panned[1] - panned[0], zoomed[1] - zoomed[0], delta=1)
            browser.screenshot("zoomed")
            browser.run("document.getElementById('gantt').focus()")
            browser.run("""document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowLeft'}))""")
            self.assertLess(browser.visible()[0], panned[0])
            browser.run("document.getElementById('zoom-in').click()")
            self.assertLess(browser.visible()[1] - browser.visible()[0], panned[1] - panned[0])
            browser.mouse(("move", 600, 60), ("down",), ("up",), ("down",), ("up",))
            self.assertEqual(whole, browser.visible())

    def test_the_strip_above_chooses_a_range(self):
        with self.browse("pair.html") as browser:
            top = browser.run("""return document.getElementById('overview').getBoundingClientRect().top -
                                 document.getElementById('gantt').getBoundingClientRect().top""") + 20
            whole = browser.visible()
            browser.mouse(("move", 400, top), ("down",), ("move", 500, top), ("move", 600, top), ("up",))
            expected = browser.run("return [gantt.overview.scale.invert(400), gantt.overview.scale.invert(600)]")
            for wanted, got in zip(expected, browser.visible()):
                self.assertAlmostEqual(wanted, got, delta=0.01 * whole[1])
            browser.screenshot("brushed")

    def test_search_highlights_and_counts(self):
        with self.browse("pair.html") as browser:
            # Eight microbatches, two stages, two Traces.
            for text, count in (("0F1", "2 matches"), ("B", "32 matches"), ("SEND", "32 matches"), ("0F", "16 matches"),
                                ("F rank:1", "16 matches"), ("nonsense", "0 matches"), ("", "")):
                self.assertEqual(count, browser.run(SEARCH, text), text)
            browser.run(SEARCH, "iteration:3 F")
            self.assertEqual("3", browser.run("return document.getElementById('iteration').value"))
            browser.run(SEARCH, "0F")
            browser.screenshot("search")

    def test_iterations_can_be_chosen(self):
        with self.browse("pair.html") as browser:
            self.assertEqual("2", browser.run("return document.getElementById('iteration').value"))
            browser.run("document.getElementById('iteration-after').click()")
            self.assertEqual("3", browser.run("return document.getElementById('iteration').value"))
            browser.run("""const s = document.getElementById('iteration'); s.value = 'all';
                           s.dispatchEvent(new Event('change'))""")
            self.assertEqual(20, browser.run("return gantt.view.groups[1].marks.length"))
            browser.screenshot("all")
            self.assertEqual([], browser.errors())

    def test_one_trace_says_what_is_missing(self):
        with self.browse("predicted.html") as browser:
            browser.screenshot("predicted")
            self.assertEqual([], browser.errors())
            self.assertIn("nothing to hold it against", browser.run("return document.getElementById('prediction').innerText"))
            self.assertIn("records no loss", browser.run("return document.getElementById('learning').innerText"))

    def test_a_run_of_graphs_shows_names_and_where_time_goes(self):
        with self.browse("graphs.html") as browser:
            browser.screenshot("graphs")
            self.assertEqual([], browser.errors())
            rows = browser.run("return gantt.view.groups[0].lanes.map((l) => l.lane.label + ' ' + l.lane.detail)")
            of_rank = ["host", "accelerator", "communicator", "receives", "dimension 0", "dimension 1"]
            self.assertEqual([f"rank {rank} {lane}" for rank in range(4) for lane in of_rank], rows)
            text = browser.run("return document.body.innerText")
            for words in ("predicted", "Ring(4) x Switch(4)", "16 NPUs", "law analytical", "system.json", "mean of 16 ranks", "Local memory",
                          "0: Ring(4), 200 * 2^30 B/s, 300 ns", "4 of 16 simulated ranks are drawn"):
                self.assertIn(words, text)
            for hidden in ("Learning", "carries no Plan", "Iteration time"):
                self.assertNotIn(hidden, text)
            # Names of strangers stay text.
            self.assertEqual("4 matches", browser.run(SEARCH, "</script><b>ffn</b>"))
            # Of one rank's second all-reduce: the node, and a phase up, one across, one down for each of 4 chunks.
            self.assertEqual("13 matches", browser.run(SEARCH, "rank:2 ALL_REDUCE ffn"))
            browser.run(SEARCH, "")
            browser.mouse(("move", *browser.place_of("predicted", "ALL_REDUCE ffn gradients")))
            tip = browser.run("return document.getElementById('tooltip').innerText")
            for words in ("Collective or send", "rank 0 · communicator", "67.1 MB", "predicted"):
                self.assertIn(words, tip)
            browser.screenshot("graphs-hover")

    def test_a_rank_that_stands_for_all_says_so(self):
        with self.browse("graphs_once.html", 390) as browser:
            browser.screenshot("graphs-narrow")
            self.assertEqual([], browser.errors())
            self.assertIn("accelerator · for 16 ranks", browser.run("return gantt.view.groups[0].lanes[1].lane.detail"))
            self.assertEqual(0, browser.run("return Math.max(0, document.documentElement.scrollWidth - innerWidth)"))
        with self.browse("graphs.html", 1280, 900, "--force-dark-mode", "--blink-settings=preferredColorScheme=0") as browser:
            browser.screenshot("graphs-dark")

    def test_replicas_are_told_apart(self):
        with self.browse("replicas.html") as browser:
            browser.screenshot("replicas")
            self.assertEqual([], browser.errors())
            text = browser.run("return document.body.innerText")
            for words in ("3 pipelines of 4 stages on oregon, iowa, virginia", "16 microbatches each", "Sum of gradients",
                          "stage 2 · pipeline 1 · iowa", "busy share 62 % on average, 67 % at most", "late 4.00 ms", "realtime yes", "too busy no"):
                self.assertIn(words, text)
            self.assertNotIn("The machine was too busy", text)
            rows = "return gantt.view.groups[1].lanes.filter((l) => l.lane.kind === 'compute').map((l) => l.lane.rank)"
            self.assertEqual(list(range(12)), browser.run(rows))
            whole = browser.visible()
            browser.run("gantt.show(1e9, 2e9)")
            browser.run("const r = document.getElementById('rows'); r.value = 'pipeline'; r.dispatchEvent(new Event('change'))")
            self.assertEqual([0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11], browser.run(rows))
            self.assertEqual([1e9, 2e9], browser.visible())
            self.assertEqual(30, browser.run("return gantt.view.groups[1].lanes.length"))
            browser.run("gantt.show(2.6e9, 3.8e9)")
            browser.screenshot("replicas-by-pipeline")
            browser.run("document.getElementById('links').click()")
            self.assertEqual(12, browser.run("return gantt.view.groups[1].lanes.length"))
            self.assertEqual(whole[0], 0)

    def test_every_figure_says_emulated_and_its_scale(self):
        with self.browse("replicas.html") as browser:
            badges = """return [...document.querySelectorAll(arguments[0] + ' .badge.emulated')].map((b) => b.textContent)"""
            whole = "emulated · bytes\u00a0÷\u00a0100"
            for figure, count in ((".card", 2), ("#machine", 1), ("#breakdown .legend", 1), ("#prediction th", 1),
                                  ("#prediction .chart", 1), (".commands", 1)):
                self.assertEqual([whole] * count, browser.run(badges, figure), figure)
            self.assertEqual(["emulated"] * 12, browser.run(badges, "#breakdown td"))
            self.assertEqual(" · bytes\u00a0÷\u00a0100", browser.run("return gantt.scale_of(gantt.view.groups[1])"))
            self.assertEqual("", browser.run("return gantt.scale_of(gantt.view.groups[0])"))

    def test_sums_of_gradients_are_found_and_explained(self):
        with self.browse("replicas.html") as browser:
            # Twelve ranks sum once, in two Traces; each of the four stages of a pipeline has 16 forwards.
            for text, count in (("REDUCE_GRAD", 24), ("reduce", 24), ("2REDUCE_GRAD", 6), ("pipeline:1 F", 2 * 4 * 16),
                                ("rank:7 REDUCE", 2), ("stage:3 pipeline:2 U", 2)):
                self.assertEqual(f"{count} matches", browser.run(SEARCH, text), text)
            browser.run(SEARCH, "REDUCE_GRAD")
            browser.mouse(("move", *browser.place_of("emulated", "2REDUCE_GRAD")))
            tip = browser.run("return document.getElementById('tooltip').innerText")
            for words in ("Sum of gradients", "emulated · bytes\u00a0÷\u00a0100", "2REDUCE_GRAD", "stage 2 · pipeline 0 · iowa",
                          "from this rank's arrival", "each rank adds", "predicted"):
                self.assertIn(words, tip)
            self.assertNotIn("bps", tip)
            browser.screenshot("sums")

    def test_a_share_of_the_loss_is_not_drawn(self):
        with self.browse("pair.html") as browser:
            charts = browser.run("return [...document.querySelectorAll('#learning h3')].map((h) => h.textContent)")
            self.assertEqual(["Loss (nats per token)", "Tokens per second", "Learning rate"], charts)

    def test_keys_alone_are_enough(self):
        with self.browse("replicas.html") as browser:
            browser.tab_to("iteration")
            browser.press("ArrowDown")
            self.assertEqual("3", browser.run("return document.getElementById('iteration').value"))
            browser.tab_to("rows")
            browser.press("ArrowDown")
            self.assertEqual(3, browser.run("return gantt.view.groups[1].lanes[1].lane.rank"))
            browser.tab_to("links")
            browser.press("Space")
            self.assertEqual(12, browser.run("return gantt.view.groups[1].lanes.length"))
            browser.tab_to("search")
            browser.press(*"reduce")
            self.assertEqual("24 matches", browser.run("return document.getElementById('matches').value"))
            browser.tab_to("gantt")
            whole = browser.visible()
            browser.press("+", "+")
            zoomed = browser.visible()
            self.assertAlmostEqual((whole[1] - whole[0]) / 1.5 ** 2, zoomed[1] - zoomed[0], delta=1)
            browser.press("ArrowRight")
            self.assertGreater(browser.visible()[0], zoomed[0])
            browser.press("ArrowLeft", "-")
            self.assertAlmostEqual((whole[1] - whole[0]) / 1.5, browser.visible()[1] - browser.visible()[0], delta=1)
            browser.screenshot("keys")
            browser.press("0")
            self.assertEqual(whole, browser.visible())

    # Not a time, which a busy machine decides, but what time is spent on: elements, pixels, strokes.
    def test_twelve_ranks_cost_no_more_than_their_pixels(self):
        elements = "return document.querySelectorAll('*').length"
        with self.browse("replicas_once.html") as browser:
            once = browser.run(elements)
            self.assertIn("The machine was too busy during the emulated run", browser.run("return document.body.innerText"))
        with self.browse("replicas.html") as browser:
            six = browser.run(elements)
            browser.run("""const s = document.getElementById('iteration'); s.value = 'all';
                           s.dispatchEvent(new Event('change'))""")
            browser.screenshot("replicas-all")
            canvases = browser.run("return [...document.querySelectorAll('canvas')].map((c) => c.width * c.height)")
            items, bars = browser.run(ITEMS), browser.run(BARS)
            print(f"{items} intervals: {six} elements ({once} of one iteration), {sum(canvases)} pixels, {bars} bars")
            # Per iteration and Trace: 12 ranks with 16 forwards and backwards, 9 of them with 16 recomputations,
            # a sum and an update; 18 channels with 16 messages.
            self.assertEqual(2 * 6 * (12 * (16 * 2 + 2) + 9 * 16 + 18 * 16), items)
            self.assertLess(six, 1100)
            self.assertLess(six - once, 60)  # choices of iterations and points of a curve, no intervals
            self.assertEqual(2, len(canvases))
            # Predicted sums begin beside the last backward: a rank's row has two tracks then.
            self.assertLess(sum(canvases), 2_600_000)
            self.assertLessEqual(bars, items + 60)  # at most one each, and the ground of 60 rows

    def test_large_and_hostile_stays_fluid_and_harmless(self):
        with self.browse("large.html") as browser:
            self.assertEqual([], browser.errors())
            self.assertEqual("large </script><b>hostile</b>", browser.run("return document.querySelector('h1').textContent"))
            self.assertEqual(0, browser.run("return document.querySelectorAll('b').length"))
            browser.run("""const s = document.getElementById('iteration'); s.value = 'all';
                           s.dispatchEvent(new Event('change'))""")
            items, bars = browser.run(ITEMS), browser.run(BARS)
            print(f"{items} intervals: {bars} bars")
            self.assertGreater(items, 200_000)
            self.assertLess(bars, 15_000)  # columns of pixels, not intervals
            browser.screenshot("large")

    def test_narrow_and_dark(self):
        for page in ("pair", "replicas"):
            with self.browse(page + ".html", 390, 844, "--blink-settings=preferredColorScheme=0") as browser:
                browser.screenshot("narrow-" + page)
                self.assertEqual([], browser.errors())
                self.assertLessEqual(browser.run("return document.documentElement.scrollWidth"), 390)
                ground = browser.run("return getComputedStyle(document.body).backgroundColor")
                self.assertEqual("rgb(18, 23, 28)", ground)
                # Nothing hangs out of its card.
                self.assertEqual(0, browser.run("""return [...document.querySelectorAll('.card .badge')].filter((badge) =>
                    badge.getBoundingClientRect().right > badge.closest('.card').getBoundingClientRect().right).length"""))


# What the pointer reads at (column, row) of the second map, in cells.
POINT = """const canvas = document.querySelectorAll('#maps canvas')[1], box = canvas.getBoundingClientRect();
           const cell = (box.width - 54) / 8;
           canvas.dispatchEvent(new PointerEvent('pointermove', {clientX: box.left + 52 + (arguments[0] + 0.5) * cell,
                                                                 clientY: box.top + 22 + (arguments[1] + 0.5) * cell}));
           return document.querySelectorAll('#maps .reading')[1].textContent"""
# How many colours the second map has where its cells are.
COLOURS = """const canvas = document.querySelectorAll('#maps canvas')[1], pen = canvas.getContext('2d');
             const cell = (canvas.clientWidth - 54) / 8, seen = new Set();
             for (let i = 0; i < 64; ++i) seen.add(String(pen.getImageData(
               52 + (i % 8 + 0.5) * cell, 22 + (Math.floor(i / 8) + 0.5) * cell, 1, 1).data));
             return seen.size"""


class HeatMapTest(unittest.TestCase):
    def browse(self, width=1280):
        browser = Browser(self.id().split(".")[-1], width, 900)
        browser.open("heat_map.html")
        return browser

    def test_a_cell_tells_who_sends_how_much(self):
        with self.browse() as browser:
            browser.screenshot("heat-map")
            self.assertEqual([], browser.errors())
            self.assertEqual("GPU 0 → GPU 1: tensor 8.00 KB", browser.run(POINT, 1, 0))
            self.assertEqual("GPU 2 → GPU 6: data 100 B", browser.run(POINT, 6, 2))
            self.assertEqual("GPU 6 → GPU 2: nothing", browser.run(POINT, 2, 6))

    def test_one_kind_can_be_shown_alone(self):
        with self.browse() as browser:
            self.assertEqual(3, browser.run(COLOURS))  # empty, tensor, data
            browser.run("const s = document.getElementById('layer'); s.value = '1'; s.dispatchEvent(new Event('change'))")
            self.assertEqual(2, browser.run(COLOURS))

    def test_a_phone_shows_all_of_it(self):
        with self.browse(width=390) as browser:
            browser.screenshot("heat-map-narrow")
            self.assertEqual(0, browser.run("return Math.max(0, document.documentElement.scrollWidth - innerWidth)"))


# Moves over the block of a page of streams that has this number; what the page then reads.
BLOCK = """const blocks = document.querySelectorAll('#streams svg rect[rx]');
           blocks[arguments[0]].dispatchEvent(new PointerEvent('pointerenter'));
           return document.querySelector('#streams .reading').textContent"""
# How far the blocks of each row lie apart, or over one another if below 0.
GAPS = """const rows = {};
          for (const b of document.querySelectorAll('#streams svg rect[rx]')) {
            const box = b.getBBox();
            (rows[box.y] ||= []).push([box.x, box.x + box.width]);
          }
          return Math.min(...Object.values(rows).flatMap((row) => row.sort((a, b) => a[0] - b[0]).slice(1)
            .map((box, i) => box[0] - row[i][1])))"""


# The times below the rows.
AXIS = """return [...document.querySelectorAll('#streams svg text')].filter((t) => / (µs|ms)$/.test(t.textContent))
            .map((t) => t.textContent).join(' ')"""


class StreamsTest(unittest.TestCase):
    def browse(self, width=1280, *flags):
        browser = Browser(self.id().split(".")[-1], width, 900, *flags)
        browser.open("streams.html")
        return browser

    def test_a_block_tells_when_its_operator_runs(self):
        with self.browse() as browser:
            browser.screenshot("streams")
            self.assertEqual([], browser.errors())
            self.assertEqual("FC2d: 0.0 µs to 500.0 µs, 500.0 µs", browser.run(BLOCK, 0))
            self.assertEqual("FC2w: 900.0 µs to 1.50 ms, 600.0 µs", browser.run(BLOCK, 4))
            self.assertEqual("LN: 2.00 ms to 2.00 ms, 0.5 µs", browser.run(BLOCK, 7))  # a pixel wide
            self.assertGreaterEqual(browser.run(GAPS), -0.01)
            text = browser.run("return document.body.innerText")
            for words in ("tombolo strand sample.toml", "<b>hostile</b>", "keys and values", "Where the time goes", "local link"):
                self.assertIn(words, text)

    def test_dark_and_on_a_phone(self):
        with self.browse(1280, "--force-dark-mode", "--blink-settings=preferredColorScheme=0") as browser:
            browser.screenshot("streams-dark")
        with self.browse(390) as browser:
            browser.screenshot("streams-narrow")
            self.assertEqual("0.0 µs 1.00 ms 2.00 ms", browser.run(AXIS))
            self.assertEqual(0, browser.run("return Math.max(0, document.documentElement.scrollWidth - innerWidth)"))


# Moves over a chart of the page of what-ifs, to a place between 0 (left) and 1 (right); what it then reads.
HOVER = """const svg = document.querySelectorAll('#charts svg')[arguments[0]], box = svg.getBoundingClientRect();
           const x = box.left + 74 + arguments[1] * (box.width - 74 - 14);
           svg.dispatchEvent(new MouseEvent('mousemove', {clientX: x, clientY: box.top + 50}));
           return document.querySelectorAll('#charts .reading')[arguments[0]].textContent"""
# How many points the lines of a chart have.
POINTS = "return document.querySelectorAll('#charts svg')[arguments[0]].querySelectorAll('circle').length"


class SweepTest(unittest.TestCase):
    def browse(self, width=1280, *flags):
        browser = Browser(self.id().split(".")[-1], width, 900, *flags)
        browser.open("sweep.html")
        return browser

    def test_a_line_per_schedule_tells_its_values(self):
        with self.browse() as browser:
            browser.screenshot("sweep")
            self.assertEqual([], browser.errors())
            self.assertEqual(2, browser.run("return document.querySelectorAll('#charts svg').length"))
            self.assertEqual(7, browser.run(POINTS, 0))  # 2 lines of 4, one value infeasible
            self.assertEqual("at 10 ms: gpipe: 100, 1f1b: 110", browser.run(HOVER, 0, 0.0).replace(".0", ""))
            self.assertEqual("at 80 ms: gpipe: –, 1f1b: 13.75", browser.run(HOVER, 0, 1.0))
            text = browser.run("return document.body.innerText")
            for words in ("predicted", "one_way_latency (ms)", "infeasible", "tombolo sweep sample.toml", "<b>hostile</b>"):
                self.assertIn(words, text)
            self.assertEqual(16, browser.run("return document.querySelectorAll('#table tbody tr').length"))

    def test_other_axes_are_chosen_from_lists(self):
        with self.browse() as browser:
            browser.run("const s = document.querySelector('#controls select'); s.value = '1'; s.dispatchEvent(new Event('change'))")
            self.assertEqual(8, browser.run(POINTS, 0))
            self.assertEqual("at 80 ms: gpipe: 50, 1f1b: 55.00", browser.run(HOVER, 0, 1.0))

    def test_dark_and_on_a_phone(self):
        with self.browse(1280, "--force-dark-mode", "--blink-settings=preferredColorScheme=0") as browser:
            browser.screenshot("sweep-dark")
        with self.browse(390) as browser:
            browser.screenshot("sweep-narrow")
            self.assertEqual(0, browser.run("return Math.max(0, document.documentElement.scrollWidth - innerWidth)"))


def main():
    global ARTIFACTS
    arguments = sys.argv[1:]
    if not arguments:
        sys.exit(__doc__)
    if not shutil.which("chromedriver") or not (shutil.which("chromium") or shutil.which("google-chrome")):
        print("SKIPPED: chromium or chromedriver is missing (apt-get install chromium chromium-driver)")
        return
    sample_report = os.path.abspath(arguments.pop(0))
    ARTIFACTS = os.path.join(os.path.dirname(sample_report), "artifacts")
    if arguments[:1] == ["--artifacts"]:
        ARTIFACTS = os.path.abspath(arguments[1])
        del arguments[:2]
    pages = os.path.join(ARTIFACTS, "report-pages")
    os.makedirs(pages, exist_ok=True)
    for name in os.listdir(ARTIFACTS):  # of runs before
        if name.startswith("report-") and name.endswith(".png"):
            os.remove(os.path.join(ARTIFACTS, name))
    subprocess.run([sample_report, pages], check=True)
    unittest.main(argv=[sys.argv[0]] + arguments)


if __name__ == "__main__":
    main()
