"""A hub of one's own: answers over HTTP as the real one does, from a folder."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@contextmanager
def serving(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Serve the data sets `owner/name/…` of a folder; yield the address and what was asked."""
    asked: list[str] = []

    class Hub(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.do_GET(body=False)

        def do_GET(self, body: bool = True) -> None:
            path = unquote(urlsplit(self.path).path).strip("/")
            asked.append(f"{self.command} {path}")
            parts = path.split("/")
            # A commit names itself, a branch the newest one.
            now = next((part for part in parts if len(part) == len(COMMIT)), COMMIT)
            if parts[0] == "api":
                repository = "/".join(parts[2:4])
                files = [p for p in sorted((folder / repository).rglob("*")) if p.is_file()]
                named = {str(p.relative_to(folder / repository)): p for p in files}
                if not named:
                    self.answer(404, b"{}", {"X-Error-Code": "RepoNotFound"}, body)
                elif "tree" in parts[4:]:
                    rows = [
                        {"type": "file", "path": name, "size": p.stat().st_size, "oid": name}
                        for name, p in named.items()
                    ]
                    self.answer(200, json.dumps(rows).encode(), {}, body)
                else:
                    siblings = [{"rfilename": name} for name in named]
                    told = {"id": repository, "sha": now, "siblings": siblings}
                    self.answer(200, json.dumps(told).encode(), {}, body)
                return
            file = folder / "/".join([*parts[1:3], *parts[5:]])
            if file.is_file():
                data = file.read_bytes()
                self.answer(200, data, {"X-Repo-Commit": now, "ETag": f'"{len(data)}"'}, body)
            else:
                self.answer(404, b"", {"X-Error-Code": "EntryNotFound"}, body)

        def answer(self, status: int, data: bytes, headers: dict[str, str], body: bool) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if body:
                self.wfile.write(data)

        def log_message(self, *args: object) -> None:
            del args

    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()
