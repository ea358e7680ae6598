#!/usr/bin/env python3
"""Opens sample reports in headless Chromium and uses them: zoom, hover, search, themes, widths.

    report_browser_test.py SAMPLE_REPORT [--keep FOLDER]

SAMPLE_REPORT is the program that writes the samples. With --keep, screenshots and pages stay in
FOLDER, to be looked at. Speaks WebDriver to chromedriver with the standard library alone; where
Chromium is missing the test is skipped, and says so.
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

SAMPLE_REPORT = None
FOLDER = None
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
         "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--disable-dev-shm-usage"]


class Browser:
    """One chromedriver and one session of it."""

    def __init__(self, width, height, *flags):
        self.profile = tempfile.mkdtemp(prefix="tombolo-browser-")
        self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, text=True)
        for line in self.driver.stdout:  # "ChromeDriver was started successfully on port 41234."
            if "successfully on port" in line:
                self.root = "http://127.0.0.1:" + line.strip().rstrip(".").split()[-1]
                break
        arguments = FLAGS + [f"--window-size={width},{height}", f"--user-data-dir={self.profile}", *flags]
        made = self.call("POST", "/session", {"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": {"args": arguments}, "goog:loggingPrefs": {"browser": "ALL"}}}})
        self.root += "/session/" + made["sessionId"]
        # Below 500 pixels a window cannot get, a phone can.
        self.chrome("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                    mobile=False)

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
        self.call("POST", "/url", {"url": "file://" + os.path.join(FOLDER, page)})

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
        with open(os.path.join(FOLDER, name), "wb") as file:
            file.write(base64.b64decode(shot["data"]))

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


class ReportTest(unittest.TestCase):
    def browse(self, page, width=1280, height=900, *flags):
        browser = Browser(width, height, *flags)
        self.addCleanup(browser.close)
        browser.open(page)
        return browser

    def test_pair_shows_both_traces_without_an_error(self):
        browser = self.browse("pair.html")
        browser.screenshot("pair.png")
        self.assertEqual([], browser.errors())
        text = browser.run("return document.body.innerText")
        for words in ("two-datacenters", "oregon", "tombolo train two-datacenters.toml --out run", "Learning rate"):
            self.assertIn(words, text)
        badges = browser.run("return [...document.querySelectorAll('.card .badge')].map((b) => b.textContent)")
        self.assertEqual(["predicted", "measured", "predicted", "measured", "measured", "measured"], badges)

    def test_hover_tells_what_a_bar_is(self):
        browser = self.browse("pair.html")
        browser.mouse(("move", *browser.place_of("measured", "0F1")))
        tip = browser.run("const t = document.getElementById('tooltip'); return t.hidden ? '' : t.innerText")
        for words in ("Forward", "measured", "0F1", "rank 0", "duration", "predicted"):
            self.assertIn(words, tip)
        browser.mouse(("move", *browser.place_of("predicted", "0SEND_F0")))
        tip = browser.run("return document.getElementById('tooltip').innerText")
        for words in ("Activations", "oregon → paris", "524 KB", "Mbps"):
            self.assertIn(words, tip)
        browser.screenshot("hover.png")
        browser.mouse(("move", 2, 2))
        self.assertTrue(browser.run("return document.getElementById('tooltip').hidden"))

    def test_wheel_drag_keys_and_buttons_move_the_view(self):
        browser = self.browse("pair.html")
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
        browser.screenshot("zoomed.png")
        browser.run("document.getElementById('gantt').focus()")
        browser.run("""document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowLeft'}))""")
        self.assertLess(browser.visible()[0], panned[0])
        browser.run("document.getElementById('zoom-in').click()")
        self.assertLess(browser.visible()[1] - browser.visible()[0], panned[1] - panned[0])
        browser.mouse(("move", 600, 60), ("down",), ("up",), ("down",), ("up",))
        self.assertEqual(whole, browser.visible())

    def test_the_strip_above_chooses_a_range(self):
        browser = self.browse("pair.html")
        top = browser.run("""return document.getElementById('overview').getBoundingClientRect().top -
                             document.getElementById('gantt').getBoundingClientRect().top""") + 20
        whole = browser.visible()
        browser.mouse(("move", 400, top), ("down",), ("move", 500, top), ("move", 600, top), ("up",))
        expected = browser.run("return [gantt.overview.scale.invert(400), gantt.overview.scale.invert(600)]")
        for wanted, got in zip(expected, browser.visible()):
            self.assertAlmostEqual(wanted, got, delta=0.01 * whole[1])
        browser.screenshot("brushed.png")

    def test_search_highlights_and_counts(self):
        browser = self.browse("pair.html")
        search = """const box = document.getElementById('search'); box.value = arguments[0];
                    box.dispatchEvent(new Event('input')); return document.getElementById('matches').value"""
        # Eight micro-batches, two stages, two Traces.
        for text, count in (("0F1", "2 matches"), ("B", "32 matches"), ("SEND", "32 matches"), ("0F", "16 matches"),
                            ("F rank:1", "16 matches"), ("nonsense", "0 matches"), ("", "")):
            self.assertEqual(count, browser.run(search, text), text)
        browser.run(search, "iteration:3 F")
        self.assertEqual("3", browser.run("return document.getElementById('iteration').value"))
        browser.run(search, "0F")
        browser.screenshot("search.png")

    def test_iterations_can_be_chosen(self):
        browser = self.browse("pair.html")
        self.assertEqual("2", browser.run("return document.getElementById('iteration').value"))
        browser.run("document.getElementById('iteration-after').click()")
        self.assertEqual("3", browser.run("return document.getElementById('iteration').value"))
        browser.run("""const s = document.getElementById('iteration'); s.value = 'all';
                       s.dispatchEvent(new Event('change'))""")
        self.assertEqual(20, browser.run("return gantt.view.groups[1].marks.length"))
        browser.screenshot("all.png")
        self.assertEqual([], browser.errors())

    def test_one_trace_says_what_is_missing(self):
        browser = self.browse("predicted.html")
        browser.screenshot("predicted.png")
        self.assertEqual([], browser.errors())
        self.assertIn("nothing to hold it against", browser.run("return document.getElementById('prediction').innerText"))
        self.assertIn("records no loss", browser.run("return document.getElementById('learning').innerText"))

    def test_large_and_hostile_stays_fluid_and_harmless(self):
        browser = self.browse("large.html")
        self.assertEqual([], browser.errors())
        self.assertEqual("large </script><b>hostile</b>", browser.run("return document.querySelector('h1').textContent"))
        self.assertEqual(0, browser.run("return document.querySelectorAll('b').length"))
        browser.run("""const s = document.getElementById('iteration'); s.value = 'all';
                       s.dispatchEvent(new Event('change'))""")
        drawn = browser.run("const t = performance.now(); for (let i = 0; i < 10; ++i) gantt.draw(); "
                            "return (performance.now() - t) / 10")
        items = browser.run("return d3.sum(gantt.view.groups, (g) => d3.sum(g.lanes, (l) => d3.sum(l.tracks, (t) => t.items.length)))")
        print(f"one drawing of {items} intervals: {drawn:.1f} ms")
        browser.screenshot("large.png")

    def test_narrow_and_dark(self):
        browser = self.browse("pair.html", 400, 900, "--blink-settings=preferredColorScheme=0")
        browser.screenshot("narrow.png")
        self.assertEqual([], browser.errors())
        self.assertLessEqual(browser.run("return document.documentElement.scrollWidth"), 400)
        ground = browser.run("return getComputedStyle(document.body).backgroundColor")
        self.assertEqual("rgb(18, 23, 28)", ground)


def main():
    global SAMPLE_REPORT, FOLDER
    arguments = sys.argv[1:]
    if not arguments:
        sys.exit(__doc__)
    if not shutil.which("chromedriver") or not (shutil.which("chromium") or shutil.which("google-chrome")):
        print("SKIPPED: chromium or chromedriver is missing (apt-get install chromium chromium-driver)")
        return
    SAMPLE_REPORT = arguments[0]
    keeps = arguments[1:2] == ["--keep"]
    FOLDER = os.path.abspath(arguments[2]) if keeps else tempfile.mkdtemp(prefix="tombolo-report-")
    os.makedirs(FOLDER, exist_ok=True)
    try:
        subprocess.run([SAMPLE_REPORT, FOLDER], check=True)
        unittest.main(argv=[sys.argv[0]] + (arguments[3:] if keeps else arguments[1:]))
    finally:
        if not keeps:
            shutil.rmtree(FOLDER, ignore_errors=True)


if __name__ == "__main__":
    main()
