"""Opens a timeline's page in headless Chromium and uses it: page_in_browser.py PAGE [--shot FILE].

Zooms with the wheel, drags, and searches, as a user does, and prints what it saw as JSON: `slices`,
`arrows` and `bytes` of the page; `frames` that were drawn, and `p50_ms` and `p95_ms` of their
distances; `matches` of the search, and which one it went to (`at`); `errors` of the page, and
`requests` that it made beside being opened. Exit status 3: there is no Chromium. Speaks the DevTools
protocol through the browser's pipe, so nothing but Python and the browser is needed.
"""

import argparse
import base64
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def find_browser():
    given = os.environ.get("EMBER_TEST_BROWSER")
    return given or next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One page of a browser of its own, driven through file descriptors 3 and 4 of that one."""

    def __init__(self, program, size):
        self.profile = tempfile.TemporaryDirectory(prefix="ember-browser-")
        to_browser, self.to = os.pipe()
        self.back, from_browser = os.pipe()

        def place():  # in the child: these are the numbers that the browser expects
            os.dup2(os.dup(to_browser), 3)
            os.dup2(os.dup(from_browser), 4)
            os.set_inheritable(3, True)
            os.set_inheritable(4, True)

        # Descriptors are moved out of the way first, so that none of them is 3 or 4 itself.
        to_browser, from_browser = (self._high(each) for each in (to_browser, from_browser))
        self.to, self.back = (self._high(each) for each in (self.to, self.back))
        self.process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--hide-scrollbars", "--no-first-run", "--disable-extensions",
             "--disable-background-networking", "--disable-component-update",
             "--remote-debugging-pipe", f"--user-data-dir={self.profile.name}",
             f"--window-size={size[0]},{size[1]}", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            close_fds=False, preexec_fn=place)
        os.close(to_browser)
        os.close(from_browser)
        self.number = 0
        self.left = b""
        self.events = []
        self.session = None

    @staticmethod
    def _high(descriptor):
        import fcntl
        moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 20)
        os.close(descriptor)
        return moved

    def close(self):
        os.close(self.to)
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.back)
        # What the browser's children still write there goes with it.
        shutil.rmtree(self.profile.name, ignore_errors=True)
        self.profile._finalizer.detach()

    def _message(self):
        while b"\0" not in self.left:
            piece = os.read(self.back, 1 << 20)
            if not piece:
                raise SystemExit("the browser ended")
            self.left += piece
        text, self.left = self.left.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        text = json.dumps(message).encode() + b"\0"
        while text:
            text = text[os.write(self.to, text):]
        while True:
            answer = self._message()
            if answer.get("id") != self.number:
                self.events.append(answer)
            elif "error" in answer:
                raise SystemExit(f"{method}: {answer['error']['message']}")
            else:
                return answer["result"]

    def open(self, address):
        target = next(each["targetId"] for each in self.call("Target.getTargets")["targetInfos"]
                      if each["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(domain + ".enable")
        self.call("Page.navigate", url=address)
        self.until("document.readyState === 'complete'")

    def value(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True,
                           awaitPromise=True)
        if "exceptionDetails" in answer:
            raise SystemExit(f"{expression}: {answer['exceptionDetails']['exception']['description']}")
        return answer["result"].get("value")

    def until(self, expression):
        deadline = time.monotonic() + 60
        while not self.value(expression):
            if time.monotonic() > deadline:
                raise SystemExit(f"never true: {expression}")
            time.sleep(0.02)

    def complaints(self, address):
        """The errors of the page, and what it asked for beside its own address."""
        self.call("Runtime.evaluate", expression="0")  # what was said before has come
        return {"errors": [each["params"] for each in self.events
                           if each["method"] in ("Runtime.exceptionThrown", "Log.entryAdded")],
                "requests": [each["params"]["request"]["url"] for each in self.events
                             if each["method"] == "Network.requestWillBeSent"
                             and each["params"]["request"]["url"] != address]}

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def key(self, key, code):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key,
                      windowsVirtualKeyCode=code)


MEASURE = """
window.frameTimes = [];
(function next(before) {
  requestAnimationFrame((now) => {
    if (before !== undefined) window.frameTimes.push(now - before);
    next(now);
  });
})();
"""


def use(browser, size, wanted):
    """What a user does: in to a hundredth and more, along, out again, and to what he looks for."""
    middle = (size[0] * 0.6, size[1] * 0.4)
    whole = browser.value("timeline.view.t1 - timeline.view.t0")
    browser.value(MEASURE)

    def wheel(steps, by):
        for _ in range(steps):
            browser.mouse("mouseWheel", *middle, deltaX=0, deltaY=by)

    def drag(by):
        browser.mouse("mousePressed", *middle, button="left", buttons=1, clickCount=1)
        for step in range(1, 21):
            browser.mouse("mouseMoved", middle[0] + by * step / 20, middle[1], button="left", buttons=1)
        browser.mouse("mouseReleased", middle[0] + by, middle[1], button="left", clickCount=1)

    for _ in range(3):
        wheel(14, -150)
        drag(-300)
        drag(200)
        wheel(14, 150)
    wheel(20, -200)
    zoomed = browser.value("timeline.view.t1 - timeline.view.t0")
    if not zoomed < whole / 50:
        raise SystemExit(f"the wheel did not zoom: from {whole} to {zoomed} ns")
    before = browser.value("timeline.view.t0")
    drag(-250)
    if not browser.value("timeline.view.t0") > before:
        raise SystemExit("dragging did not move the view")
    browser.key("0", 48)
    browser.key("/", 191)
    for letter in wanted:
        browser.call("Input.insertText", text=letter)
    for _ in range(5):
        browser.key("Enter", 13)
    return browser.value("timeline.found")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("page", type=pathlib.Path)
    parser.add_argument("--search", default="copy", help="what is searched for (copy)")
    parser.add_argument("--shot", type=pathlib.Path, help="a picture of the page as it opens")
    parser.add_argument("--size", default="1280x800", help="of the window (1280x800)")
    options = parser.parse_args()
    size = tuple(map(int, options.size.split("x")))
    program = find_browser()
    if program is None:
        print("no Chromium was found", file=sys.stderr)
        return 3
    browser = Browser(program, size)
    try:
        address = options.page.resolve().as_uri()
        browser.open(address)
        browser.until("window.timeline !== undefined && timeline.drawn > 0")
        if options.shot:
            shot = browser.call("Page.captureScreenshot", format="png")
            options.shot.write_bytes(base64.b64decode(shot["data"]))
        found = use(browser, size, options.search)
        times = sorted(browser.value("window.frameTimes"))
        seen = {"slices": browser.value("timeline.slices"), "arrows": browser.value("timeline.arrows"),
                "bytes": options.page.stat().st_size, "frames": len(times),
                "p50_ms": round(times[len(times) // 2], 1),
                "p95_ms": round(times[len(times) * 95 // 100], 1),
                "matches": found["matches"], "at": found["at"],
                "chosen": browser.value("timeline.chosen")}
        seen.update(browser.complaints(address))
        print(json.dumps(seen))
    finally:
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
