"""Any HTTP server can be an endpoint: this one is Python's own ``http.server``.

outrider deploy examples/http_server/serve.py
curl http://127.0.0.1:8080/e/hello/
"""

import subprocess
import sys

import outrider

app = outrider.App("hello")


@app.server(min_replicas=1, max_concurrency=8, startup_timeout=20)
class Server:
    """One process that listens on ``self.port``, the free port that Outrider chose."""

    port: int

    @outrider.enter()
    def start(self) -> None:
        """Start it and return; Outrider waits until the port answers."""
        self.process = subprocess.Popen([sys.executable, "-m", "http.server", str(self.port), "--bind", "127.0.0.1"])

    @outrider.exit()
    def stop(self) -> None:
        """Called when the replica is drained."""
        self.process.terminate()
        self.process.wait()
