"""Opens a page of `ember memory view` in headless Chromium and uses it: view_in_browser.py PAGE [--shot FILE].

Zooms, points at what is drawn, searches and opens every tab, as a user does, and prints what it saw
as JSON: `first_ms` from asking for the page to its first picture; `events`, `active` and `reserved`
(at the end, and the largest), `holders`, and what stands `at` the point where most is drawn; `p50_ms`
and `p95_ms` of the time that a zoom or a movement of the mouse took until it was drawn; `errors` and
`requests` of the page. Exit status 3: there is no Chromium.
"""

import argparse
import base64
import json
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "timeline"))
from page_in_browser import Browser, find_browser  # noqa: E402

DRAWN = "new Promise((done) => requestAnimationFrame(() => setTimeout(() => done(true), 0)))"


def use(browser, size):
    middle = (size[0] * 0.6, size[1] * 0.7)
    times = []

    def timed(action):
        began = time.monotonic()
        action()
        browser.value(DRAWN)
        times.append((time.monotonic() - began) * 1e3)

    def wheel(by, **more):
        timed(lambda: browser.mouse("mouseWheel", *middle, deltaX=0, deltaY=by, **more))

    for by in (-150, 150):
        for _ in range(12):
            wheel(by)
        for _ in range(8):
            wheel(by, modifiers=8)  # shift
    for step in range(40):
        timed(lambda: browser.mouse("mouseMoved", 100 + step * (size[0] - 120) / 40, middle[1]))
    for tab in ("segments", "holders", "time"):
        timed(lambda: browser.value(f"document.getElementById('tab-{tab}').click()"))
    whole = browser.value("memory.view")
    for _ in range(6):
        wheel(-150)
    closer = browser.value("memory.view")
    if not closer["t1"] - closer["t0"] < whole["t1"] - whole["t0"]:
        raise SystemExit(f"the wheel did not zoom: {whole} to {closer}")
    browser.key("0", 48)
    browser.value(DRAWN)
    return sorted(times)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("page", type=pathlib.Path)
    parser.add_argument("--shot", type=pathlib.Path, help="a picture of the page as it opens")
    parser.add_argument("--tab", default="time", help="which tab the picture shows (time)")
    parser.add_argument("--search", default="", help="what is searched for at the end")
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
        began = time.monotonic()
        browser.open(address)
        browser.until("window.memory !== undefined && memory.drawn > 0")
        browser.value(DRAWN)
        first = (time.monotonic() - began) * 1e3
        if options.shot:
            browser.value(f"document.getElementById('tab-{options.tab}').click()")
            browser.value(DRAWN)
            shot = browser.call("Page.captureScreenshot", format="png")
            options.shot.write_bytes(base64.b64decode(shot["data"]))
            browser.value("document.getElementById('tab-time').click()")
        times = use(browser, size)
        seen = {
            "first_ms": round(first), "events": browser.value("memory.events"),
            "active": browser.value("[memory.active.at(-1), Math.max(...memory.active.slice(-1e5))]"),
            "start": browser.value("memory.active[0]"),
            "reserved": browser.value("memory.reserved.at(-1)"),
            "holders": browser.value("memory.holders.slice(0, 20)"),
            "at": browser.value("""(() => {
                for (let y = 790; y > 0; y -= 3) for (let x = 1270; x > 90; x -= 7) {
                    const seen = memory.at(x, y);
                    if (seen) return seen;
                }
                return null;
            })()"""),
            "frames": len(times), "p50_ms": round(times[len(times) // 2], 1),
            "p95_ms": round(times[len(times) * 95 // 100], 1)}
        browser.value("(() => { const box = document.getElementById('search');"
                      f"box.value = {json.dumps(options.search)}; box.dispatchEvent(new Event('input')); }})()")
        seen["found"] = browser.value("memory.holders.length")
        seen.update(browser.complaints(address))
        print(json.dumps(seen))
    finally:
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
