"""A headless Chromium that shows pages. It is controlled over the DevTools protocol on two pipes,
without a port, a network, or modules besides Python's standard library."""

import base64
import contextlib
import json
import os
import pathlib
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
PATIENCE = 60  # seconds for any answer


def find():
    """The path of the browser; None if there is none."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    """One tab. `events` are the events of the browser so far, as (method, params)."""

    def __init__(self, program):
        self.profile = tempfile.mkdtemp(dir=os.getcwd())
        # The browser reads from descriptor 3 and writes to 4.
        commands, self.commands = os.pipe()
        self.answers, answers = os.pipe()
        words = [program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                 "--hide-scrollbars", "--disable-extensions", "--remote-debugging-pipe",
                 f"--user-data-dir={self.profile}", "about:blank"]
        high = [os.dup2(commands, 203), os.dup2(answers, 204)]
        shell = ["python3", "-c", "import os, sys; os.dup2(203, 3); os.dup2(204, 4); "
                 "os.execvp(sys.argv[1], sys.argv[1:])"]
        self.process = subprocess.Popen(
            [*shell, *words], pass_fds=high, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for descriptor in (commands, answers, *high):
            os.close(descriptor)
        self.number, self.buffer, self.events, self.session = 0, b"", [], None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self):
        with contextlib.suppress(Exception):
            self.call("Browser.close")
        self.process.kill()
        self.process.wait()
        os.close(self.commands)
        os.close(self.answers)
        shutil.rmtree(self.profile, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def message(self):
        """The next message of the browser."""
        end = time.monotonic() + PATIENCE
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.answers], [], [], max(0, end - time.monotonic()))
            more = os.read(self.answers, 1 << 20) if ready else b""
            assert more, f"Chromium has said nothing for {PATIENCE} s"
            self.buffer += more
        text, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(text)

    def call(self, method, **params):
        """The result of a command of the protocol."""
        self.number += 1
        command = {"id": self.number, "method": method, "params": params}
        if self.session:
            command["sessionId"] = self.session
        os.write(self.commands, json.dumps(command).encode() + b"\0")
        while True:
            message = self.message()
            if message.get("id") == self.number:
                assert "error" not in message, message
                return message["result"]
            if "method" in message:
                self.events.append((message["method"], message.get("params", {})))

    def show(self, path, width, scheme, medium="screen"):
        """Opens a file in a window of `width` pixels, `scheme` light or dark."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900,
                  deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", media=medium,
                  features=[{"name": "prefers-color-scheme", "value": scheme}])
        before = len(self.events)
        self.call("Page.navigate", url=pathlib.Path(path).resolve().as_uri())
        end = time.monotonic() + PATIENCE
        while not any(name == "Page.loadEventFired" for name, _ in self.events[before:]):
            assert time.monotonic() < end
            self.call("Runtime.evaluate", expression="0")

    def value(self, script):
        """The value of a JavaScript expression in the page."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def picture(self, path):
        """The whole page as a PNG."""
        data = self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        pathlib.Path(path).write_bytes(base64.b64decode(data))
