#!/usr/bin/env python3
"""Opens sample reports in headless Chromium and uses them: zoom, hover, search, themes, widths.

    report_browser_test.py SAMPLE_REPORT [--artifacts FOLDER] [TEST...]

SAMPLE_REPORT is the program that writes the samples. Screenshots stay in FOLDER (left out: artifacts/
beside the program) as report-*.png, the pages below it; a test that fails leaves one more, of the
page as it was then. Speaks WebDriver to chromedriver with the standard library alone; where Chromium
is missing the test is skipped, and says so.
"""
import os
import subprocess
import sys
import unittest

from browser import Browser, missing

ARTIFACTS = None


class ReportBrowser(Browser):
    """With a page below ARTIFACTS, which a test that fails leaves a picture of."""

    def __init__(self, test, page, width, height, *flags, hash=""):
        super().__init__(width, height, *flags, on_error=lambda self: self.keep("FAILED-" + test))
        self.show(page, hash)

    def show(self, page, hash=""):
        self.open(os.path.join(ARTIFACTS, "report-pages", page), hash)

    def keep(self, name):
        path = os.path.join(ARTIFACTS, f"report-{name}.png")
        self.screenshot(path)
        print("screenshot:", path)

    def mouse(self, *actions):
        """("move", x, y), ("down",), ("up",): relative to the timeline's canvas."""
        self.run("document.getElementById('gantt').scrollIntoView({block: 'center', behavior: 'instant'})")
        # One that is higher than the window: with the first place in the middle.
        self.run("""const {top, height} = document.getElementById('gantt').getBoundingClientRect();
                    if (height > innerHeight) scrollBy({top: top + arguments[0] - innerHeight / 2, behavior: 'instant'})""",
                 next((place[1] for kind, *place in actions if kind == "move"), 0))
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
              for (const entry of group.lanes) for (const [t, track] of entry.tracks.entries()) {
                const i = track.actions.findIndex((action) => group.trace.actions[action].text === arguments[1]);
                const item = i < 0 ? null : track.item(i);
                if (item) return [gantt.scale((item.start + item.end) / 2), entry.top + (t + 0.5) * entry.row];
              }
            }""", provenance, action)


SEARCH = """const box = document.getElementById('search'); box.value = arguments[0];
            box.dispatchEvent(new Event('input')); return document.getElementById('matches').value"""
ITEMS = "return d3.sum(gantt.view.groups, (g) => d3.sum(g.lanes, (l) => d3.sum(l.tracks, (t) => t.length)))"
# How many rectangles one drawing fills.
BARS = """const pen = document.getElementById('gantt').getContext('2d'), fill = pen.fillRect;
          let count = 0;
          pen.fillRect = function (...box) { ++count; fill.apply(this, box); };
          gantt.draw();
          delete pen.fillRect;
          return count"""


# Of each card: what, badge, figure, detail.
CARDS = """return [...document.querySelectorAll('.card')].map((card) => [card.querySelector('.what span').textContent,
            card.querySelector('.what .badge')?.textContent, ...['.figure', '.detail'].map((part) => card.querySelector(part).textContent)])"""
SECTIONS = "return [...document.querySelectorAll('main > section')].map((section) => section.id)"
# Labels of the rows of the first Trace.
ROWS = "return gantt.view.groups[0].lanes.map(({lane}) => lane.label + ' ' + lane.detail)"
# Where the n-th folded row begins: the left end of its plot, and its middle.
FOLD = """const entry = gantt.view.groups[0].lanes.filter((row) => row.opens)[arguments[0]];
          return [gantt.gutter, entry.top + entry.height / 2]"""
# What is written on the timeline for labels: [text, left, y, width].
TEXTS = """const pen = document.getElementById('gantt').getContext('2d'), write = pen.fillText, out = [];
           const draw = gantt.draw_label;
           gantt.draw_label = function (pen, entry) {
             pen.fillText = function (text, x, y) { out.push([text, x, y, pen.measureText(text).width]); };
             draw.call(this, pen, entry);
             delete pen.fillText;
           };
           gantt.draw();
           delete gantt.draw_label;
           return out.filter(([text]) => text !== '')"""
# Texts of the page that reach over the edge of it, but for what scrolls.
HANGING = """return [...document.querySelectorAll('body *')].filter((node) => !node.closest('.scroll, svg, pre') && node.offsetParent &&
             (node.getBoundingClientRect().right > innerWidth + 1 || node.getBoundingClientRect().left < -1)).map((node) => node.outerHTML.slice(0, 80))"""


class PageTest(unittest.TestCase):
    def wait(self, browser, condition):
        """Until the page says so; how long that takes decides nothing."""
        browser.run("""const met = new Function(arguments[0]);
            return new Promise((done) => { const look = () => met() ? done() : setTimeout(look, 20); look(); })""", condition)


class ReportTest(PageTest):
    def browse(self, page, width=1280, height=900, *flags, hash=""):
        return ReportBrowser(self.id().split(".")[-1], page, width, height, *flags, hash=hash)

    def test_pair_shows_both_traces_without_an_error(self):
        with self.browse("pair.html") as browser:
            browser.keep("pair")
            self.assertEqual([], browser.errors())
            text = browser.run("return document.body.innerText")
            for words in ("two-datacenters", "oregon", "tombolo train two-datacenters.toml --out run", "Learning rate"):
                self.assertIn(words, text)
            badges = browser.run("return [...document.querySelectorAll('.card .badge')].map((b) => b.textContent)")
            # Two iteration times, an error of both; throughput and MFU, the prediction's below each; memory; cost, devices, loss.
            self.assertEqual(["predicted", "measured", "predicted", "measured", "measured", "predicted", "measured", "predicted",
                              "predicted", "measured", "measured", "measured"], badges)

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
            browser.keep("hover")
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
            browser.keep("zoomed")
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
            browser.keep("brushed")

    def test_search_highlights_and_counts(self):
        with self.browse("pair.html") as browser:
            # Eight microbatches, two stages, two Traces.
            for text, count in (("0F1", "2 matches"), ("B", "32 matches"), ("SEND", "32 matches"), ("0F", "16 matches"),
                                ("F rank:1", "16 matches"), ("nonsense", "0 matches"), ("", "")):
                self.assertEqual(count, browser.run(SEARCH, text), text)
            browser.run(SEARCH, "iteration:3 F")
            self.assertEqual("3", browser.run("return document.getElementById('iteration').value"))
            browser.run(SEARCH, "0F")
            browser.keep("search")

    def test_iterations_can_be_chosen(self):
        with self.browse("pair.html") as browser:
            self.assertEqual("2", browser.run("return document.getElementById('iteration').value"))
            browser.run("document.getElementById('iteration-after').click()")
            self.assertEqual("3", browser.run("return document.getElementById('iteration').value"))
            browser.run("""const s = document.getElementById('iteration'); s.value = 'all';
                           s.dispatchEvent(new Event('change'))""")
            self.assertEqual(20, browser.run("return gantt.view.groups[1].marks.length"))
            browser.keep("all")
            self.assertEqual([], browser.errors())

    def test_cards_state_the_figures_of_the_commands(self):
        with self.browse("pair.html") as browser:
            cards = browser.run(CARDS)
            # Of the measured Trace, and the prediction's below; without a price, a dash.
            self.assertEqual(["Throughput", "1,750 tokens/s", "predicted 1,900 tokens/s"], cards[3][::2] + [cards[3][3]])
            self.assertEqual(["MFU", "31.0 %", "predicted 31.0 %"], cards[4][::2] + [cards[4][3]])
            self.assertEqual(["Memory peak", "predicted", "2.00 GB", "of 8.00 GB (25 %), on rank 1"], cards[5])
            self.assertEqual(["Cost per iteration", "measured", "–", "a datacenter names no price"], cards[6])
            self.assertEqual(["Devices", "measured", "2", "one for each rank"], cards[7])
            self.assertEqual("nats/token", cards[8][2].split(" ")[1])
        with self.browse("folded.html") as browser:
            cards = {card[0]: card[1:] for card in browser.run(CARDS)}
            scaled = "emulated · bytes\u00a0÷\u00a0100"
            self.assertEqual([scaled, "$0.0123", "predicted $0.0123"], cards["Cost per iteration"])
            self.assertEqual([scaled, "768", "in 96 ranks"], cards["Devices"])
            self.assertEqual([scaled, "2,345,678 tokens/s", "predicted 2,345,678 tokens/s"], cards["Throughput"])
            self.assertEqual([scaled, "59 %"], cards["Machine busy"][:2])  # the last record: 0.55 + 2 x 0.02
            self.assertEqual(0, browser.run("return document.querySelectorAll('.card.warns').length"))
        with self.browse("replicas_once.html") as browser:
            self.assertIn("too busy", browser.run("return document.querySelector('.card.warns').innerText"))

    def test_what_has_nothing_to_show_is_left_out(self):
        with self.browse("predicted.html") as browser:
            browser.keep("predicted")
            self.assertEqual([], browser.errors())
            self.assertEqual(["timeline", "breakdown", "inputs"], browser.run(SECTIONS))
            links = browser.run("return [...document.querySelectorAll('.contents a')].map((a) => a.hash)")
            self.assertEqual(["#timeline", "#breakdown", "#inputs"], links)

    def test_many_ranks_are_folded_and_open(self):
        with self.browse("folded.html") as browser:
            browser.keep("folded")
            self.assertEqual([], browser.errors())
            stages = [f"stage {s} 24 ranks · {place}" for s, place in enumerate(("oregon", "oregon", "iowa", "virginia"))]
            links = [f"stage {a} → {b} 24 links" for a in range(3) for b in (a + 1,)]
            self.assertEqual(stages, browser.run(ROWS)[:4])
            self.assertEqual(10, len(browser.run(ROWS)))
            for text in links:
                self.assertIn(text, browser.run(ROWS))
            # Every interval of all ranks is counted, shown or not: 24 pipelines of 4 stages and 16 microbatches, in two Traces.
            self.assertEqual(f"{2 * 24 * 4 * 16:,} matches", browser.run(SEARCH, "F"))
            self.assertEqual("32 matches", browser.run(SEARCH, "rank:30 F"))
            browser.run(SEARCH, "")
            # What the row says is what its ranks do: at the start, all of stage 0 run the first forward.
            x, y = browser.run(FOLD, 0)
            browser.mouse(("move", x + 3, y))
            tip = browser.run("return document.getElementById('tooltip').innerText")
            for words in ("stage 0", "predicted", "24 ranks · oregon", "Forward", "100 %", "open 24 rows"):
                self.assertIn(words, tip)
            browser.mouse(("move", x - 20, y), ("down",), ("up",))
            rows = browser.run(ROWS)
            self.assertEqual(34, len(rows))
            self.assertEqual([f"rank {rank} stage 0 · pipeline {rank} · oregon" for rank in range(24)], rows[1:25])
            self.assertEqual(34, browser.run("return gantt.view.groups[1].lanes.length"))  # in both Traces
            browser.keep("folded-open")
            browser.mouse(("move", *browser.place_of("predicted", "0F3")))
            tip = browser.run("return document.getElementById('tooltip').innerText")
            for words in ("Forward", "0F3", "rank 0"):
                self.assertIn(words, tip)
            x, y = browser.run(FOLD, 0)
            browser.mouse(("move", x - 20, y), ("down",), ("up",))
            self.assertEqual(10, len(browser.run(ROWS)))
            browser.run("const r = document.getElementById('rows'); r.value = 'pipeline'; r.dispatchEvent(new Event('change'))")
            self.assertEqual("pipeline 0 4 ranks · oregon, iowa, virginia", browser.run(ROWS)[0])
            self.assertEqual(24, len(browser.run(ROWS)))

    def test_the_height_of_a_folded_row_is_the_share_of_its_ranks(self):
        with self.browse("folded.html") as browser:
            # Over the whole iteration, what the columns add up to is what the breakdown says of the same ranks.
            shares = browser.run("""const stack = gantt.view.groups[0].lanes[2].stack, [from, to] = gantt.scale.domain();
                const sum = d3.sum(stack.kinds, (kind) => d3.sum(stack.shares.get(kind))) / gantt.plot_width;
                const ranks = d3.range(48, 72).map((rank) => data.traces[0].breakdown.find((row) => row.rank === rank).compute_ns);
                const sums = d3.sum(gantt.view.groups[0].lanes[2].members, ({tracks}) => d3.sum(tracks, (track) => d3.sum(track.starts,
                  (start, i) => ['REDUCE_GRAD'].includes(track.item(i).action.kind) ? 0 : track.ends[i] - start))) / 24;
                return [sum, d3.mean(ranks) / (to - from), sums / (to - from)]""")
            self.assertAlmostEqual(shares[1], shares[2], delta=0.001)
            self.assertGreaterEqual(shares[0] + 0.002, shares[1])  # and sums of gradients

    def test_links_to_other_stages_than_the_next_are_rows_of_their_own(self):
        with self.browse("folded.html") as browser:
            # Three stages of two replicas: to the next stage, from end to end as for a tied embedding, between replicas.
            labels = browser.run("""
                const lane = (kind, rank, peer) => ({tracks: [], lane: {kind, rank, stage: Math.floor(rank / 2), replica: rank % 2, peer}});
                const group = {all: [...d3.range(6).map((rank) => lane('compute', rank)),
                                     ...[[0, 2], [1, 3], [2, 0], [3, 1], [0, 4], [1, 5], [0, 1], [1, 0]].map((pair) => lane('link', ...pair))]};
                arrange_group(group, {by: 'stage', links: true, open: new Set()});
                return group.lanes.map((row) => row.lane.label)""")
            self.assertEqual(["stage 0", "stage 1", "stage 2", "stage 0 → 0", "stage 0 → 1", "stage 0 → 2", "stage 1 → 0"], labels)

    def test_keys_open_folded_rows(self):
        with self.browse("folded.html") as browser:
            browser.tab_to("gantt")
            browser.press("ArrowDown", "ArrowDown", "Enter")
            rows = browser.run(ROWS)
            self.assertEqual("rank 24 stage 1 · pipeline 0 · oregon", rows[2])
            browser.press("Enter")
            self.assertEqual(10, len(browser.run(ROWS)))

    def test_the_breakdown_folds_too(self):
        with self.browse("folded.html") as browser:
            lines = "return document.querySelectorAll('#breakdown tbody tr').length"
            self.assertEqual(4 * 2, browser.run(lines))
            browser.run("document.querySelector('#breakdown button.opener').click()")
            self.assertEqual(4 * 2 + 24 * 2, browser.run(lines))
            self.assertIn("rank 23", browser.run("return document.getElementById('breakdown').innerText"))
            browser.run("document.querySelector('#breakdown button.opener').click()")
            self.assertEqual(4 * 2, browser.run(lines))

    def test_a_banner_says_where_a_timeline_is_cut(self):
        with self.browse("cut.html") as browser:
            browser.keep("cut")
            self.assertEqual([], browser.errors())
            banner = browser.run("return document.querySelector('#cuts .notice').innerText")
            cut, whole = browser.run("const [mark] = gantt.view.groups[0].marks; return [mark.cut, mark.end]")
            self.assertTrue(0 < cut < whole)
            shown = browser.run("return data.traces[0].timeline.intervals")
            for words in ("This timeline is cut", f"the first {cut * 1e-9:.0f} of ", f"{shown:,} of 15,000 intervals", "of iteration 1"):
                self.assertIn(words, banner)
            # Behind the cut nothing is said to be there or not to be there.
            x = browser.run("return gantt.scale((gantt.view.groups[0].marks[0].cut + gantt.view.end) / 2)")
            y = browser.run("const [entry] = gantt.view.groups[0].lanes; return entry.top + entry.height / 2")
            browser.mouse(("move", x, y))
            self.assertTrue(browser.run("return document.getElementById('tooltip').hidden"))
            ground = "return [...document.getElementById('gantt').getContext('2d').getImageData(arguments[0], arguments[1], 1, 40).data].join()"
            idle = browser.run(ground, 2, 2)
            self.assertNotEqual(idle, browser.run(ground, round(x), round(y) - 12))
        with self.browse("pair.html") as browser:
            self.assertEqual(0, browser.run("return document.getElementById('cuts').childElementCount"))

    def test_the_address_restores_the_view(self):
        with self.browse("folded.html") as browser:
            x, y = browser.run(FOLD, 2)
            browser.mouse(("move", x - 20, y), ("down",), ("up",))
            browser.run("gantt.show(1e9, 2e9)")
            browser.run(SEARCH, "rank:50 B")
            browser.run("document.getElementById('iteration').value = '1'; document.getElementById('iteration').dispatchEvent(new Event('change'))")
            browser.run("gantt.show(1e9, 2e9); scrollTo({top: 700, behavior: 'instant'})")
            state = "return [gantt.scale.domain(), gantt.view.choice, document.getElementById('search').value, Math.round(scrollY), arguments[0]]"
            seen, rows = browser.run(state), browser.run(ROWS)
            self.assertEqual(34, len(rows))
            self.wait(browser, "return location.hash.includes('y=700') && location.hash.includes('from=')")
            address = browser.run("return location.hash")
            for part in ("iteration=1", "from=1000000000", "to=2000000000", "open=0.2.0", "find=rank%3A50%20B"):
                self.assertIn(part, address)
        with self.browse("folded.html", hash=address) as browser:
            self.wait(browser, "return scrollY > 600")
            self.assertEqual([seen, rows], [browser.run(state), browser.run(ROWS)])
            self.assertEqual([], browser.errors())
            # A link to a section moves the page and keeps the view.
            browser.run("document.querySelector('.contents a[href=\"#inputs\"]').click()")
            self.wait(browser, "return location.hash.includes('from=1000000000') && scrollY > 1000")
            self.assertEqual(seen[0], browser.visible())

    def test_an_address_that_means_nothing_opens_the_page(self):
        for hash in ("#nonsense", "#iteration=99&from=x&to=-1&open=7.7&rows=up&y=%", "#breakdown&from=5&to=1", "#%E0%A4%A"):
            with self.browse("folded.html", hash=hash) as browser:
                self.assertEqual([], browser.errors(), hash)
                self.assertEqual(10, len(browser.run(ROWS)), hash)
                self.assertEqual(0, browser.visible()[0], hash)

    def test_a_section_in_the_address_is_scrolled_to(self):
        with self.browse("replicas.html", hash="#prediction&from=1000000000&to=2000000000") as browser:
            self.wait(browser, "return Math.abs(document.getElementById('prediction').getBoundingClientRect().top) < 60")
            self.assertEqual([1e9, 2e9], browser.visible())

    def test_labels_stay_beside_their_rows(self):
        # A label of a datacenter with a long name, and its detail: neither over the other, nor over the bars.
        for width in (600, 900, 1280):
            with self.browse("long_names.html", width) as browser:
                browser.keep(f"long-names-{width}")
                drawn = browser.run(TEXTS)
                self.assertEqual([], browser.errors())
                self.assertGreater(len(drawn), 8)
                room = browser.run("return gantt.narrow ? gantt.canvas.clientWidth : gantt.gutter")
                for text, left, y, size in drawn:
                    self.assertLessEqual(left + size, room + 1, text)
                for a in drawn:
                    for b in drawn:
                        if a is not b and abs(a[2] - b[2]) < 5:
                            self.assertTrue(a[1] + a[3] <= b[1] + 1 or b[1] + b[3] <= a[1] + 1, f"{a} over {b}")

    def test_nothing_hangs_out_at_600_pixels(self):
        for page in ("pair", "folded", "cut", "replicas", "graphs", "heat_map", "streams", "sweep", "planner", "long_names", "line", "batch"):
            with self.browse(page + ".html", 600) as browser:
                browser.keep("600-" + page)
                self.assertEqual([], browser.errors(), page)
                self.assertEqual(0, browser.run("return Math.max(0, document.documentElement.scrollWidth - innerWidth)"), page)
                self.assertEqual([], browser.run(HANGING), page)

    def test_the_line_and_what_was_sent_stand_below_one_another(self):
        charts = "return [...document.querySelectorAll('#line .chart')].map((chart) => chart.querySelector(arguments[0])?.textContent)"
        for width, *flags in ((1400,), (600,), (1400, "--blink-settings=preferredColorScheme=0"), (600, "--blink-settings=preferredColorScheme=0")):
            with self.browse("line.html", width, 1000, *flags) as browser:
                browser.run("document.documentElement.style.scrollBehavior = 'auto'; document.getElementById('line').scrollIntoView()")
                browser.keep(f"line-{width}" + ("-dark" if flags else ""))
                self.assertEqual([], browser.errors())
                self.assertEqual(["Rate of the line", "Share of gradients that is sent", "Iteration time",
                                  "Share of parameters that were up to date", "Loss (nats per token)"], browser.run(charts, "h3"))
                self.assertEqual(["emulated · bytes\u00a0÷\u00a010"] * 5, browser.run(charts, ".badge"))
                plots = browser.run("""return [...document.querySelectorAll('#line .chart .axis.x')].map((axis) => {
                    const {left, right} = axis.querySelector('path').getBoundingClientRect(); return Math.round(left) + ' ' + Math.round(right)})""")
                self.assertEqual(1, len(set(plots)), plots)
        with self.browse("line.html", 1400, 1000) as browser:
            loose = browser.run("return [...document.querySelectorAll('#learning h3')].map((h) => h.textContent)")
            self.assertEqual(["Loss (nats per token)"], loose)
            decisions = browser.run("return data.traces[0].decisions")
            self.assertGreater(decisions["reasons"], 20)
            newest = decisions["newest"]
            self.assertEqual(len(newest), browser.run("return document.querySelectorAll('#line .mark').length"))
            self.assertIn(f"The newest 20 of {decisions['reasons']} decisions", browser.run("return document.getElementById('line').innerText"))
            rows = browser.run("return [...document.querySelectorAll('.decisions tbody tr')].map((row) => row.lastChild.textContent)")
            self.assertEqual([each["reason"] for each in newest[:-21:-1]], rows)
            # What is pointed at in one chart is read in all, and why.
            svg = "const svg = document.querySelectorAll('#line .chart svg')[arguments[0]]; "
            point = svg + """const box = svg.getBoundingClientRect(), axis = svg.querySelector('.axis.x path').getBoundingClientRect();
                const x = axis.left + (arguments[1] - 1) / 399 * axis.width;
                svg.dispatchEvent(new MouseEvent('mousemove', {clientX: x, clientY: box.top + 40}))"""
            why = "return document.querySelector('#line .why').textContent"
            each, following = newest[3], newest[4]["iteration"]
            for at in (each["iteration"], following - 1):
                browser.run(point, 2, at)
                for reading in browser.run(charts, ".reading"):
                    self.assertIn(f"iteration {at}: ", reading)
                self.assertEqual(f"From iteration {each['iteration']} on: {each['reason']}", browser.run(why))
                self.assertEqual([3], browser.run("return [...document.querySelectorAll('#line .mark')].flatMap((mark, i) => mark.classList.contains('holds') ? [i] : [])"))
            browser.run("document.getElementById('line').scrollIntoView()")
            browser.keep("line-hover")
            browser.run(point, 0, 1)
            self.assertIn("began with", browser.run(why))
            browser.run(svg + "svg.dispatchEvent(new MouseEvent('mouseleave'))", 0)
            self.assertIn(newest[-1]["reason"], browser.run(why))
            # Keys do the same.
            browser.run(svg + "svg.focus({preventScroll: true})", 1)
            browser.press("ArrowLeft", "ArrowLeft")
            for reading in browser.run(charts, ".reading"):
                self.assertIn("iteration 398: ", reading)
            self.assertEqual([], browser.errors())
        with self.browse("line_silent.html") as browser:
            self.assertEqual([], browser.errors())
            self.assertEqual(4, browser.run("return document.querySelectorAll('#line .chart').length"))  # no rate
            self.assertIn("the Trace does not say why", browser.run("return document.getElementById('line').innerText"))
            self.assertEqual(0, browser.run("return document.querySelectorAll('#line .why, #line table').length"))

    def test_a_batch_that_is_divided_anew_shows_to_whom_and_why(self):
        with self.browse("batch.html", 1400, 1000) as browser:
            browser.run("document.getElementById('batch').scrollIntoView()")
            browser.keep("batch")
            self.assertEqual([], browser.errors())
            batch = browser.run("return data.traces[0].batch")
            self.assertEqual([7, 8, 8], batch["pipelines"][0])
            self.assertEqual([7, 4, 4], batch["pipelines"][3])
            self.assertEqual(1, browser.run("return document.querySelectorAll('#batch .chart').length"))
            row = browser.run("return [...document.querySelectorAll('#batch tbody tr')].map((row) => [...row.children].map((cell) => cell.textContent))")
            self.assertEqual([[f"iteration {batch['newest'][0]['iteration']}", "7,7,7,7 → 8,8,8,4", batch["newest"][0]["reason"]]], row)
            self.assertEqual(0, browser.run("return [...document.querySelectorAll('#learning h3')].filter((h) => h.textContent === 'microbatches').length"))

    def test_a_run_of_graphs_shows_names_and_where_time_goes(self):
        with self.browse("graphs.html") as browser:
            browser.keep("graphs")
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
            browser.keep("graphs-hover")

    def test_a_rank_that_stands_for_all_says_so(self):
        with self.browse("graphs_once.html", 390) as browser:
            browser.keep("graphs-narrow")
            self.assertEqual([], browser.errors())
            self.assertIn("accelerator · for 16 ranks", browser.run("return gantt.view.groups[0].lanes[1].lane.detail"))
            self.assertEqual(0, browser.run("return Math.max(0, document.documentElement.scrollWidth - innerWidth)"))
        with self.browse("graphs.html", 1280, 900, "--force-dark-mode", "--blink-settings=preferredColorScheme=0") as browser:
            browser.keep("graphs-dark")

    def test_replicas_are_told_apart(self):
        with self.browse("replicas.html") as browser:
            browser.keep("replicas")
            self.assertEqual([], browser.errors())
            text = browser.run("return document.body.innerText")
            for words in ("3 pipelines of 4 stages on oregon, iowa, virginia", "16 microbatches each", "Gradient all-reduce",
                          "stage 2 · pipeline 1 · iowa", "busy 62 % on average, 67 % at most", "waits ended late by 4.00 ms", "with real-time scheduling", "not too busy"):
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
            browser.keep("replicas-by-pipeline")
            browser.run("document.getElementById('links').click()")
            self.assertEqual(12, browser.run("return gantt.view.groups[1].lanes.length"))
            self.assertEqual(whole[0], 0)

    def test_every_figure_says_emulated_and_its_scale(self):
        with self.browse("replicas.html") as browser:
            badges = """return [...document.querySelectorAll(arguments[0] + ' .badge.emulated')].map((b) => b.textContent)"""
            whole = "emulated · bytes\u00a0÷\u00a0100"
            for figure, count in ((".card", 3), ("#machine", 1), ("#breakdown .legend", 1), ("#prediction th", 1),
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
            for words in ("Gradient all-reduce", "emulated · bytes\u00a0÷\u00a0100", "2REDUCE_GRAD", "stage 2 · pipeline 0 · iowa",
                          "from this rank's arrival", "each rank adds", "predicted"):
                self.assertIn(words, tip)
            self.assertNotIn("bps", tip)
            browser.keep("sums")

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
            browser.keep("keys")
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
            browser.keep("replicas-all")
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
            browser.keep("large")

    def test_narrow_and_dark(self):
        for page in ("pair", "replicas"):
            with self.browse(page + ".html", 390, 844, "--blink-settings=preferredColorScheme=0") as browser:
                browser.keep("narrow-" + page)
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


class HeatMapTest(PageTest):
    def browse(self, width=1280, hash=""):
        return ReportBrowser(self.id().split(".")[-1], "heat_map.html", width, 900, hash=hash)

    def test_a_cell_tells_who_sends_how_much(self):
        with self.browse() as browser:
            browser.keep("heat-map")
            self.assertEqual([], browser.errors())
            self.assertEqual("GPU 0 → GPU 1: tensor 8.00 KB", browser.run(POINT, 1, 0))
            self.assertEqual("GPU 2 → GPU 6: data 100 B", browser.run(POINT, 6, 2))
            self.assertEqual("GPU 6 → GPU 2: nothing", browser.run(POINT, 2, 6))

    def test_one_kind_can_be_shown_alone(self):
        with self.browse() as browser:
            self.assertEqual(3, browser.run(COLOURS))  # empty, tensor, data
            browser.run("const s = document.getElementById('layer'); s.value = '1'; s.dispatchEvent(new Event('change'))")
            self.assertEqual(2, browser.run(COLOURS))

    def test_the_address_restores_the_kind(self):
        with self.browse() as browser:
            browser.run("const s = document.getElementById('layer'); s.value = '1'; s.dispatchEvent(new Event('change'))")
            self.wait(browser, "return location.hash === '#show=data'")
        with self.browse(hash="#show=data&y=300") as browser:
            self.assertEqual(["1", 2], [browser.run("return document.getElementById('layer').value"), browser.run(COLOURS)])
            self.wait(browser, "return scrollY > 250")
        for hash in ("#show=nonsense", "#show", "#nonsense&show=%"):
            with self.browse(hash=hash) as browser:
                self.assertEqual([], browser.errors(), hash)
                self.assertEqual(["-1", 3], [browser.run("return document.getElementById('layer').value"), browser.run(COLOURS)], hash)

    def test_a_phone_shows_all_of_it(self):
        with self.browse(width=390) as browser:
            browser.keep("heat-map-narrow")
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


class StreamsTest(PageTest):
    def browse(self, width=1280, *flags):
        return ReportBrowser(self.id().split(".")[-1], "streams.html", width, 900, *flags)

    def test_a_block_tells_when_its_operator_runs(self):
        with self.browse() as browser:
            browser.keep("streams")
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
            browser.keep("streams-dark")
        with self.browse(390) as browser:
            browser.keep("streams-narrow")
            self.assertEqual("0.00 ms 1.00 ms 2.00 ms", browser.run(AXIS))
            self.assertEqual(0, browser.run("return Math.max(0, document.documentElement.scrollWidth - innerWidth)"))


# Moves over a chart of the page of what-ifs, to a place between 0 (left) and 1 (right); what it then reads.
HOVER = """const svg = document.querySelectorAll('#charts svg')[arguments[0]], box = svg.getBoundingClientRect();
           const x = box.left + 74 + arguments[1] * (box.width - 74 - 14);
           svg.dispatchEvent(new MouseEvent('mousemove', {clientX: x, clientY: box.top + 50}));
           return document.querySelectorAll('#charts .reading')[arguments[0]].textContent"""
# How many points the lines of a chart have.
POINTS = "return document.querySelectorAll('#charts svg')[arguments[0]].querySelectorAll('circle').length"


class SweepTest(PageTest):
    def browse(self, width=1280, *flags, hash=""):
        return ReportBrowser(self.id().split(".")[-1], "sweep.html", width, 900, *flags, hash=hash)

    def test_a_line_per_schedule_tells_its_values(self):
        with self.browse() as browser:
            browser.keep("sweep")
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

    def test_the_address_restores_what_was_chosen(self):
        with self.browse() as browser:
            browser.run("const s = document.querySelector('#controls select'); s.value = '1'; s.dispatchEvent(new Event('change'))")
            self.wait(browser, "return location.hash === '#connections=4'")
        with self.browse(600, hash="#configurations&connections=4") as browser:
            self.assertEqual(["1", 8], [browser.run("return document.querySelector('#controls select').value"), browser.run(POINTS, 0)])
            self.wait(browser, "return document.getElementById('configurations').getBoundingClientRect().top < 400 && scrollY > 200")
            self.assertEqual([], browser.errors())
            browser.run("location.hash = '#connections=1'")  # a link of the same page
            self.wait(browser, "return document.querySelector('#controls select').value === '0'")
            self.assertEqual(7, browser.run(POINTS, 0))
        for hash in ("#connections=3", "#nonsense", "#connections&%=%"):
            with self.browse(hash=hash) as browser:
                self.assertEqual([], browser.errors(), hash)
                self.assertEqual(7, browser.run(POINTS, 0), hash)

    def test_large_figures_are_in_groups(self):
        with self.browse() as browser:
            self.assertEqual(["0", "0.7187", "13.75", "999.9", "1,000", "3,834", "-71,068"],
                             browser.run("return [0, 0.71871, 13.754, 999.94, 999.96, 3834.2, -71068.4].map(figure_text)"))
            self.assertEqual(["1.000e-5", "12", "1,234,568", "1.000e+15"],
                             browser.run("return [1e-5, 12, 1234567.8, 1e15].map(cell_text)"))

    def test_dark_and_on_a_phone(self):
        with self.browse(1280, "--force-dark-mode", "--blink-settings=preferredColorScheme=0") as browser:
            browser.keep("sweep-dark")
        with self.browse(390) as browser:
            browser.keep("sweep-narrow")
            self.assertEqual(0, browser.run("return Math.max(0, document.documentElement.scrollWidth - innerWidth)"))


# Of the map: boxes of datacenters and labels of links, each [left, top, right, bottom].
MAP_BOXES = """const around = (node) => { const {left, top, right, bottom} = node.getBoundingClientRect(); return [left, top, right, bottom]; };
               return [[...document.querySelectorAll('.place')].map(around), [...document.querySelectorAll('.label rect')].map(around)]"""
# Moves over the chart to the dot of a row; what it then reads.
TOUCH = """const svg = document.querySelector('#chart svg'), box = svg.getBoundingClientRect();
           const [x, y] = answer_chart.place(answer_chart.points.find(({row}) => row === arguments[0]));
           svg.dispatchEvent(new MouseEvent('mousemove', {clientX: box.left + x, clientY: box.top + y}));
           if (arguments[1]) svg.dispatchEvent(new MouseEvent('click', {clientX: box.left + x, clientY: box.top + y}));
           return document.querySelector('#chart .reading').textContent"""
CHOSEN = "return [...document.querySelectorAll('.chosen')].map((node) => node.dataset.row)"


class PlannerTest(PageTest):
    def browse(self, width=1400, *flags, hash=""):
        return ReportBrowser(self.id().split(".")[-1], "planner.html", width, 900, *flags, hash=hash)

    def assert_apart(self, boxes):
        for i, a in enumerate(boxes):
            for b in boxes[:i]:
                self.assertTrue(a[2] <= b[0] + 0.5 or b[2] <= a[0] + 0.5 or a[3] <= b[1] + 0.5 or b[3] <= a[1] + 0.5, f"{a} over {b}")

    def test_all_sections_show_without_an_error(self):
        for width in (1400, 600):
            with self.browse(width) as browser:
                browser.keep(f"planner-{width}")
                self.assertEqual([], browser.errors())
                sections = browser.run("return [...document.querySelectorAll('main section')].filter((s) => !s.hidden).map((s) => s.id)")
                self.assertEqual(["places", "answers", "breakdown", "break-even", "table-0", "inputs"], sections)
                text = browser.run("return document.body.innerText")
                for words in ("predicted", "oregon", "recommended", "tombolo plan sample.toml --across", "<b>hostile</b>",
                              "0.0300 (300 Mbps) to 0.0320 (320 Mbps): 1. way 1", "none within the limits", "below 0.400: 2. way 2"):
                    self.assertIn(words, text)
                axes = browser.run("return [...document.querySelectorAll('#chart .axis-name')].map((n) => n.textContent)")
                self.assertEqual(["Time to the target (h), predicted", "Cost to the target (USD), predicted"], axes)
                self.assertEqual(0, browser.run("return Math.max(0, document.documentElement.scrollWidth - innerWidth)"))

    def test_ten_datacenters_and_their_labels_keep_apart(self):
        for width in (1400, 600, 390):
            with self.browse(width) as browser:
                browser.keep(f"planner-map-{width}")
                places, labels = browser.run(MAP_BOXES)
                self.assertEqual(10, len(places))
                self.assertGreater(len(labels), 0)
                self.assert_apart(places + labels)
                self.assertEqual(45, browser.run("return document.querySelectorAll('.wan').length"))
                # What has no room for a label is said, and read where one points.
                reading = browser.run("return document.querySelector('#map .reading').textContent")
                self.assertIn(f"{45 - len(labels)} of 45 links without a label", reading or "0 of 45 links without a label")
                self.assertEqual("oregon – mumbai: 5 Gbps a node pair, 80 ms one way", browser.run("""
                    const link = document.querySelectorAll('.wan')[7];
                    link.dispatchEvent(new FocusEvent('focus'));
                    return document.querySelector('#map .reading').textContent"""))

    def test_a_dot_tells_its_row(self):
        with self.browse() as browser:
            reading = lambda row, click=False: browser.run(TOUCH, row, click).replace("\u00a0", " ")
            self.assertEqual("1. way 1: 1.000 h, 1,200 USD, on the Pareto front predicted", reading(1))
            self.assertEqual("12. way 12: 12.00 h, 200.0 USD predicted", reading(12))
            at_rest = browser.run("""document.querySelector('#chart svg').dispatchEvent(new MouseEvent('mouseleave'));
                                     return document.querySelector('#chart .reading').textContent""")
            self.assertIn("2. way 2", at_rest)
            self.assertIn("recommended", at_rest)
            numbers = browser.run("""return [...document.querySelectorAll('#chart .row-number')].map((node) => {
                const {left, top, right, bottom} = node.getBBox ? node.getBoundingClientRect() : {}; return [left, top, right, bottom]; })""")
            self.assertGreaterEqual(len(numbers), 11)
            self.assert_apart([[left, top + 2, right, bottom - 2] for left, top, right, bottom in numbers])

    def test_keys_walk_from_dot_to_dot(self):
        with self.browse() as browser:
            walked = browser.run("""const svg = document.querySelector('#chart svg'), out = [];
                svg.dispatchEvent(new FocusEvent('focus'));
                for (const key of ['ArrowRight', 'ArrowRight', 'ArrowLeft']) {
                  svg.dispatchEvent(new KeyboardEvent('keydown', {key}));
                  out.push(document.querySelector('#chart .reading').textContent.split(':')[0]);
                }
                return out""")
            self.assertEqual(["2. way 2", "3. way 3", "2. way 2"], walked)

    def test_a_chosen_row_is_marked_everywhere_and_in_the_address(self):
        with self.browse() as browser:
            self.assertEqual([], browser.run(CHOSEN))
            browser.run(TOUCH, 3, True)
            self.wait(browser, "return location.hash === '#row=3'")
            self.assertEqual(["3"] * 3, browser.run(CHOSEN))  # its bar, its range, its row of the table
            browser.run("document.querySelectorAll('#table-0 tbody tr')[2].click()")  # once more: none
            self.wait(browser, "return location.hash === ''")
            self.assertEqual([], browser.run(CHOSEN))
        with self.browse(600, hash="#break-even&row=12") as browser:
            self.assertEqual(["12"] * 3, browser.run(CHOSEN))
            self.wait(browser, "return scrollY > 200")
            self.assertEqual([], browser.errors())
        for hash in ("#row=99", "#row=x", "#nonsense&%=%"):
            with self.browse(hash=hash) as browser:
                self.assertEqual([], browser.errors(), hash)
                self.assertEqual([], browser.run(CHOSEN), hash)

    def test_units_follow_the_largest(self):
        with self.browse() as browser:
            units = browser.run("""return [[1, 'time'], [600, 'time'], [7300, 'time'], [2e6, 'time'], [0.0021, 'time'], [84e9, 'bytes'], [0.24, 'money']]
                .map(([value, kind]) => unit_text(value, unit_of(kind, value)))""")
            self.assertEqual(["1.000 s", "10.00 min", "2.028 h", "23.15 days", "2.100 ms", "84.00 GB", "0.2400 USD"],
                             [text.replace("\u00a0", " ") for text in units])

    def test_dark_and_on_a_phone(self):
        with self.browse(1280, "--force-dark-mode", "--blink-settings=preferredColorScheme=0") as browser:
            browser.keep("planner-dark")
            self.assertEqual([], browser.errors())
        with self.browse(390) as browser:
            browser.keep("planner-narrow")
            self.assertEqual(0, browser.run("return Math.max(0, document.documentElement.scrollWidth - innerWidth)"))
            self.assertEqual([], browser.run(HANGING))


def main():
    global ARTIFACTS
    arguments = sys.argv[1:]
    if not arguments:
        sys.exit(__doc__)
    if missing():
        print("SKIPPED: " + missing())
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
