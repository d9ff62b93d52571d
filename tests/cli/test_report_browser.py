#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""octet report --html in a real browser (chromium, headless): nothing on its console, no request, nothing cut off,
text that can be read in light and dark, and what its script adds.

The browser is spoken to through its DevTools pipe: JSON messages that end with a zero byte, to file descriptor 3,
from file descriptor 4. It has a folder of its own, no network, and a minute. Without it the test is skipped.
"""
import json
import os
import select
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time

from octet_cli import SOLO, TINY, check, contains, environment, equal, finish, octet

CHROMIUM = next((path for path in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if path), None)
if not CHROMIUM:
    print("skipped: chromium is not installed (scripts/setup ci)")
    sys.exit(77)
SECONDS = 60 * (10 if "ASAN_OPTIONS" in os.environ else 1)


class Browser:
    def __init__(self, folder):
        to_read, self.to = os.pipe()
        self.out, from_write = os.pipe()
        self.until = time.monotonic() + SECONDS
        self.buffer, self.number, self.events = b"", 0, []
        self.process = subprocess.Popen(
            ["sh", "-c", f'exec "$@" 3<&{to_read} 4>&{from_write}', "sh", CHROMIUM, "--headless", "--no-sandbox",
             "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--no-first-run", "--remote-debugging-pipe",
             "--disable-background-networking", "--disable-component-update",
             "--host-resolver-rules=MAP * ~NOTFOUND", "--user-data-dir=" + folder, "about:blank"],
            pass_fds=(to_read, from_write), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(from_write)
        self.session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    def receive(self):
        while b"\0" not in self.buffer:
            left = self.until - time.monotonic()
            ready, _, _ = select.select([self.out], [], [], max(left, 0))
            chunk = os.read(self.out, 1 << 20) if ready else b""
            if not chunk:
                raise TimeoutError(f"the browser said nothing for {SECONDS} s, or ended")
            self.buffer += chunk
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **parameters):
        self.number += 1
        request = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            request["sessionId"] = self.session
        os.write(self.to, json.dumps(request).encode() + b"\0")
        while True:
            message = self.receive()
            if message.get("id") == self.number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self.events.append(message)

    def wait(self, method):
        while not any(event.get("method") == method for event in self.events):
            self.events.append(self.receive())

    def load(self, path):
        self.events = []
        self.call("Page.navigate", url="file://" + path)
        self.wait("Page.loadEventFired")

    def look(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def complaints(self):
        """What a console would show, and requests beyond the page itself."""
        wrong = []
        for event in self.events:
            method, parameters = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                wrong.append(parameters["exceptionDetails"].get("text"))
            elif method == "Runtime.consoleAPICalled":
                wrong.append(str(parameters.get("args")))
            elif method == "Log.entryAdded":
                wrong.append(parameters["entry"]["text"])
        requests = [event["params"]["request"]["url"] for event in self.events
                    if event.get("method") == "Network.requestWillBeSent"]
        return wrong, [url for url in requests if not url.startswith("data:")]

    def close(self):
        try:
            os.close(self.to)
            os.close(self.out)
        finally:
            try:
                self.process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


# Texts of drawings that reach beyond their drawing.
CUT_OFF = """Array.from(document.querySelectorAll('figure svg text')).filter(function (text) {
    var box = text.getBoundingClientRect(), all = text.ownerSVGElement.getBoundingClientRect();
    return box.width > 0 && (box.left < all.left - 1 || box.right > all.right + 1 || box.top < all.top - 1 ||
                             box.bottom > all.bottom + 1);
}).map(function (text) { return text.textContent; })"""

# Ticks that lie upon each other, within each drawing.
OVERLAPS = """Array.from(document.querySelectorAll('figure svg')).flatMap(function (svg) {
    var texts = Array.from(svg.querySelectorAll('text.tick')).filter(function (t) { return !t.closest('.off'); });
    var boxes = texts.map(function (t) { return t.getBoundingClientRect(); }), found = [];
    for (var i = 0; i < boxes.length; i++) {
        for (var j = 0; j < i; j++) {
            var a = boxes[i], b = boxes[j];
            if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 &&
                Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 4) {
                found.push(texts[j].textContent + ' | ' + texts[i].textContent);
            }
        }
    }
    return found;
})"""

# The least contrast of a text and what is behind it, as WCAG counts it: [ratio, text].
CONTRAST = """(function () {
    function numbers(colour) { return colour.match(/[0-9.]+/g).map(Number); }
    function light(colour) {
        var part = colour.slice(0, 3).map(function (c) {
            c /= 255;
            return c <= 0.03928 ? c / 12.92 : Math.pow((c + 0.055) / 1.055, 2.4);
        });
        return 0.2126 * part[0] + 0.7152 * part[1] + 0.0722 * part[2];
    }
    function ground(element) {
        for (; element; element = element.parentElement) {
            var colour = numbers(getComputedStyle(element).backgroundColor);
            if (colour.length === 3 || colour[3] > 0) { return colour; }
        }
        return [255, 255, 255];
    }
    var worst = [99, ''], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (var node; (node = walker.nextNode());) {
        var parent = node.parentElement;
        if (!node.textContent.trim() || parent.closest('script,title,desc,g.series .off')) { continue; }
        var style = getComputedStyle(parent), isDrawn = parent.namespaceURI.indexOf('svg') > 0;
        var ink = light(numbers(isDrawn ? style.fill : style.color)), paper = light(ground(parent));
        var ratio = (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
        if (ratio < worst[0]) { worst = [ratio, node.textContent.trim().slice(0, 40)]; }
    }
    return worst;
}())"""


def look_at(browser, path, what, wanted):
    for width, scheme in ((1400, "light"), (1400, "dark"), (420, "light"), (420, "dark")):
        name = f"{what}, {width} px, {scheme}"
        browser.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        browser.load(path)
        wrong, requests = browser.complaints()
        equal(wrong, [], f"{name}: console")
        equal(requests, ["file://" + path], f"{name}: requests")
        equal(browser.look("document.documentElement.dataset.ready"), "yes", f"{name}: its script ran, and was allowed to")
        headings = browser.look("Array.from(document.querySelectorAll('h1,h2,h3')).map(function (h) "
                                "{ return h.textContent; })")
        equal([heading for heading in wanted if heading not in headings], [], f"{name}: headings that are missing", headings)
        equal(browser.look("document.documentElement.scrollWidth"), width, f"{name}: as wide as the window")
        equal(browser.look(CUT_OFF), [], f"{name}: texts cut off")
        equal(browser.look(OVERLAPS), [], f"{name}: ticks upon each other")
        ratio, text = browser.look(CONTRAST)
        check(ratio >= 4.5, f"{name}: the least contrast is {ratio:.2f} ({text!r})")
        dark = sum(browser.look("getComputedStyle(document.body).backgroundColor.match(/[0-9]+/g).map(Number)")) < 384
        equal(dark, scheme == "dark", f"{name}: a dark ground")
    equal(browser.look("[document.querySelectorAll('script').length, typeof hit, document.querySelectorAll('b').length]"),
          [1, "undefined", 0], f"{what}: labels stayed text")


with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
    db = os.path.join(folder, "runs.db")
    env = environment(XDG_STATE_HOME=folder)
    if octet("runs", "--db", db).err.find("libsqlite3-dev") >= 0:
        print("skipped: a build without SQLite")
        sys.exit(77)
    ring = [*TINY, "--nodes", "4", "--epochs", "3", "--test-samples", "16"]
    for arguments in ([*ring, "--label", "<script>hit = 1</script><b>bold</b> & more"],
                      [*ring, "--precision", "fp32", "--compress", "topk:0.9"],
                      [*SOLO, "--epochs", "1"],
                      [*ring, "--nodes", "30", "--topology", "torus", "--label", "thirty nodes"]):
        done = octet("train", *arguments, "--db", db, "--quiet", env=env)
        equal(done.code, 0, "train: exit", done)
    connection = sqlite3.connect(db)
    connection.execute("UPDATE runs SET outcome = 'IO: <script>hit = 1</script>' WHERE number = 3")
    connection.commit()
    connection.close()
    one, all_runs = os.path.join(folder, "one.html"), os.path.join(folder, "all.html")
    equal(octet("report", "1", "--db", db, "--html", one, env=env).code, 0, "report 1: exit")
    equal(octet("report", "1", "2", "3", "4", "--db", db, "--html", all_runs, env=env).code, 0, "report of four: exit")

    browser = Browser(os.path.join(folder, "browser"))
    try:
        look_at(browser, one, "one run", ["Curves", "Accuracy", "Loss", "Consensus distance", "Nodes' own models", "Graph",
                                          "Classes of the nodes", "Repeat it", "Configuration"])
        look_at(browser, all_runs, "four runs", ["Comparison of 4 runs", "Summary", "Training accuracy", "What differs", "Runs"])

        # What the script adds: numbers where one points, curves that go and come, copying.
        browser.call("Emulation.setDeviceMetricsOverride", width=1400, height=900, deviceScaleFactor=1, mobile=False)
        browser.load(all_runs)
        browser.look("document.querySelector('.chart').scrollIntoView({block: 'center'})")
        at = browser.look("(function () { var b = document.querySelector('.chart').closest('svg').getBoundingClientRect();"
                          " return [b.left + b.width / 2, b.top + b.height / 2]; }())")
        browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=at[0], y=at[1])
        tip = browser.look("(document.querySelector('.tip') || {}).textContent")
        contains(tip or "", "epoch 2", "pointing at a chart")
        contains(tip or "", " %", "pointing at a chart")
        browser.look("document.querySelector('.legend button').click()")
        equal(browser.look("[document.querySelectorAll('.series.off').length > 0, "
                           "document.querySelectorAll('.series[data-group=\"0\"]:not(.off)').length, "
                           "document.querySelectorAll('.series[data-group=\"1\"].off').length]"), [True, 0, 0],
              "a run switched off in the legend")
        browser.look("document.querySelector('.legend button').click()")
        equal(browser.look("document.querySelectorAll('.series.off').length"), 0, "and on again")
        check(browser.look("document.querySelectorAll('.command button').length") == 4, "commands can be copied")
        wrong, requests = browser.complaints()
        equal((wrong, requests), ([], ["file://" + all_runs]), "console and requests after all that")
    finally:
        browser.close()

finish()
