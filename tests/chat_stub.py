"""A chat endpoint on this machine: real HTTP, answers from a function of the request's body."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[dict[str, Any]], "tuple[int, str | bytes]"]


@dataclass
class Stub:
    """``seen`` holds (path, Authorization, body) of every request."""

    url: str
    seen: list[tuple[str, str | None, dict[str, Any]]] = field(default_factory=list)


def says(text: str | None) -> tuple[int, str]:
    return 200, json.dumps({"choices": [{"message": {"role": "assistant", "content": text}}]})


def calls(*called: tuple[str, str], text: str | None = None) -> tuple[int, str]:
    """An answer by ``tool_calls``: functions, and their arguments as JSON."""
    made = [{"id": "1", "type": "function", "function": {"name": name, "arguments": given}} for name, given in called]
    message = {"role": "assistant", "content": text, "tool_calls": made}
    return 200, json.dumps({"choices": [{"message": message}]})


@contextmanager
def chat_stub(answer: Answer) -> Iterator[Stub]:
    """``answer(body)`` gives status and text; the server ends with the block."""
    stub = Stub("")

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            stub.seen.append((self.path, self.headers["Authorization"], body))
            status, text = answer(body)
            with suppress(ConnectionError):  # of a client that has left
                self.send_response(status)
                self.end_headers()
                self.wfile.write(text if isinstance(text, bytes) else text.encode())

        def log_message(self, *_: object) -> None:
            """Nothing: the tests read ``seen``."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    stub.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever, args=[0.02], daemon=True)
    thread.start()
    try:
        yield stub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
