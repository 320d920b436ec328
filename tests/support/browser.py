"""A headless Chromium, which the DevTools protocol controls over a pipe. It needs neither a port nor a library."""

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time

import mlk

PROGRAMS = ("chromium-headless-shell", "chromium", "google-chrome")


def program():
    return next((path for path in map(shutil.which, PROGRAMS) if path), None)


class Browser:
    """A context manager. At its end it ends all processes of Chromium, and removes the profile."""

    def __enter__(self):
        self.profile = tempfile.mkdtemp(prefix="mlk-browser-")
        ours, theirs = os.pipe(), os.pipe()
        # Chromium reads from descriptor 3 and writes to descriptor 4. Both descriptors may be in use in this process.
        inner = [fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (ours[0], theirs[1])]
        os.close(ours[0])
        os.close(theirs[1])
        self.write_to, self.read_from = ours[1], theirs[0]
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking",
                 "--no-first-run", f"--user-data-dir={self.profile}", "--remote-debugging-pipe"]
        self.process = subprocess.Popen(["bash", "-c", f'exec "$@" 3<&{inner[0]} 4>&{inner[1]}', "bash", program(), *flags, "about:blank"],
                                        pass_fds=inner, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        start_new_session=True)
        for fd in inner:
            os.close(fd)
        self.buffer, self.last, self.events = b"", 0, []
        return self

    def __exit__(self, *_):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        os.close(self.write_to)
        os.close(self.read_from)
        shutil.rmtree(self.profile, ignore_errors=True)

    def receive(self, timeout):
        """The next message, or None."""
        end = time.monotonic() + timeout
        while b"\0" not in self.buffer:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.read_from], [], [], left)[0]:
                return None
            part = os.read(self.read_from, 1 << 20)
            assert part, "the browser has ended"
            self.buffer += part
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, session=None, timeout=60, **params):
        self.last += 1
        request = {"id": self.last, "method": method, "params": params, **({"sessionId": session} if session else {})}
        os.write(self.write_to, json.dumps(request).encode() + b"\0")
        end = time.monotonic() + timeout * mlk.SLOW
        while time.monotonic() < end:
            message = self.receive(end - time.monotonic())
            if message and message.get("id") == self.last:
                assert "error" not in message, f"{method}: {message['error']}"
                return message["result"]
            if message:
                self.events.append(message)
        raise AssertionError(f"the browser did not answer {method}")

    def open(self, url, width=1200, height=900, scheme="light"):
        return Page(self, url, width, height, scheme)


class Page:
    def __init__(self, browser, url, width, height, scheme):
        self.browser = browser
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("Page.navigate", url=url)
        mlk.wait_until(lambda: self.evaluate("document.readyState") == "complete" and self.evaluate("location.href") == url, f"{url} is open", 60)
        self.settle()

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    def events(self, method):
        return [event["params"] for event in self.browser.events if event.get("sessionId") == self.session and event["method"] == method]

    def evaluate(self, expression):
        """The value of the expression, which must fit into JSON. If the expression is a promise, the value of the promise."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, f"{expression}: {answer['exceptionDetails']}"
        return answer["result"].get("value")

    def settle(self):
        """Waits until the page has drawn its content, and also the parts that it draws later."""
        self.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")

    def mouse(self, kind, x, y):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="none" if kind == "mouseMoved" else "left", clickCount=1,
                  buttons=0 if kind == "mouseReleased" else 1)

    def click(self, selector):
        """Clicks with the mouse in the middle of the element."""
        x, y = self.evaluate(f"""(() => {{
            const element = document.querySelector({json.dumps(selector)});
            element.scrollIntoView({{block: "center", inline: "center"}});
            const box = element.getBoundingClientRect();
            return [box.x + box.width / 2, box.y + box.height / 2];
        }})()""")
        self.mouse("mousePressed", x, y)
        self.mouse("mouseReleased", x, y)
        self.settle()

    def press(self, key):
        for kind in ("keyDown", "keyUp"):
            text = {"text": "\r"} if key == "Enter" and kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode={"Enter": 13}.get(key, 0), **text)
        self.settle()

    def type(self, selector, text):
        self.evaluate(f"document.querySelector({json.dumps(selector)}).focus()")
        self.call("Input.insertText", text=text)
        self.settle()

    def screenshot(self, path, whole=True):
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))
