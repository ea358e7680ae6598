"""A headless Chromium, driven by WebDriver with the standard library alone: for the tests of pages, bench/page_speed.py and
tools/pictures."""
import base64
import json
import os
import shutil
import subprocess
import tempfile
import urllib.request

KEYS = {"Tab": "\ue004", "Escape": "\ue00c", "ArrowLeft": "\ue012", "ArrowUp": "\ue013", "ArrowRight": "\ue014",
        "ArrowDown": "\ue015", "Space": " ", "Enter": "\ue007"}
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
         "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--disable-dev-shm-usage"]


def missing():
    """What of a browser this machine lacks; "" where it has all."""
    if shutil.which("chromedriver") and (shutil.which("chromium") or shutil.which("google-chrome")):
        return ""
    return "chromium or chromedriver is missing (apt-get install chromium chromium-driver)"


def start_driver():
    """A chromedriver and its address. With --port=0 it takes a free port of one address family and asks for the same of the
    other, where another program may hold it: then it says so and ends, and another is started."""
    for _ in range(20):
        driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, text=True)
        for line in driver.stdout:  # "ChromeDriver was started successfully on port 41234."
            if "successfully on port" in line:
                return driver, "http://127.0.0.1:" + line.strip().rstrip(".").split()[-1]
        driver.wait()
        driver.stdout.close()
    raise RuntimeError("chromedriver ended twenty times before it had a port")


class Browser:
    """One chromedriver and one session of it, with a window of this size. Leaving it by an exception calls on_error, if there is one."""

    def __init__(self, width, height, *flags, on_error=None):
        self.on_error = on_error
        self.profile = tempfile.mkdtemp(prefix="tombolo-browser-")
        self.driver, self.root = start_driver()
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
            if kind is not None and self.on_error:
                self.on_error(self)
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

    def open(self, path, hash=""):
        self.call("POST", "/url", {"url": "file://" + os.path.abspath(path) + hash})

    def run(self, script, *arguments):
        return self.call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def errors(self):
        return [entry["message"] for entry in self.call("POST", "/se/log", {"type": "browser"})
                if entry["level"] in ("SEVERE", "WARNING")]

    def screenshot(self, path, clip=None):
        """Of the whole page, or of a part: (left, top, width, height)."""
        left, top, width, height = clip or (0, 0, *self.run("return [innerWidth, document.documentElement.scrollHeight]"))
        shot = self.chrome("Page.captureScreenshot", captureBeyondViewport=True,
                           clip={"x": left, "y": top, "width": width, "height": height, "scale": 1})
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))

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
