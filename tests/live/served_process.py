"""The service in processes of their own, which can be killed."""

import os
import resource
import signal
import socket
import subprocess
import sys
import time
from functools import partial

import httpx

API = "/api/v1"
SECRET = "a secret that survives restarts"
COMMAND = [sys.executable, "-c", "import sys; from multileave.cli import main; sys.exit(main())", "serve", "--open"]


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def limit_files(soft):
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


class Process:
    """A service on a database, ready when this returns."""

    def __init__(self, database, log, port=None, workers=1, soft_files=None, **settings):
        self.port = port or free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        self.http = httpx.Client(base_url=self.address, timeout=60)
        environment = {**os.environ, "MULTILEAVE_SECRET": SECRET, "MULTILEAVE_FOLD_SECONDS": "0.1"}
        environment |= {f"MULTILEAVE_{name.upper()}": str(value) for name, value in settings.items()}
        with open(log, "ab") as stream:
            self.process = subprocess.Popen(
                [*COMMAND, "--db", database, "--port", str(self.port), "--log", "warning", "--workers", str(workers)],
                env=environment, stdout=stream, stderr=stream, start_new_session=True,
                preexec_fn=None if soft_files is None else partial(limit_files, soft_files),
            )  # fmt: skip
        end = time.monotonic() + 120
        while not self._is_ready():
            assert self.process.poll() is None, "the service ended; see its log"
            assert time.monotonic() < end, "the service is not ready"
            time.sleep(0.05)

    def _is_ready(self):
        try:
            return self.http.get("/readyz").status_code == 200
        except httpx.HTTPError:
            return False

    def post(self, path, body=None):
        answer = self.http.post(f"{API}{path}", json=body)
        assert answer.status_code < 300, answer.text
        return answer.json()

    def get(self, path):
        answer = self.http.get(f"{API}{path}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def kill(self):
        """End it as a loss of power would end it, as far as a process can tell."""
        self.http.close()
        os.killpg(self.process.pid, signal.SIGKILL)  # its workers with it
        self.process.wait()

    def stop(self):
        self.http.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(30)
