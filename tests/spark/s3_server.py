"""An S3 server in this process: what pyarrow's client asks of one bucket, counted, and refused outside of one prefix.

It keeps objects in memory and looks at no signature. ``faults`` are answered first: one status for each request, or
``CUT``: the connection ends without an answer, or ``LOST``: what was asked is done, and then it ends.
"""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

CUT, LOST = 0, 1
_TIME = "2026-01-01T00:00:00.000Z"


class S3Server:
    """``with S3Server("state/q1") as server``: only keys below that prefix may be touched, and listed."""

    def __init__(self, prefix: str) -> None:
        self.prefix, self.objects = prefix, dict[str, bytes]()
        self.parts: dict[str, dict[int, bytes]] = {}
        self.requests: list[tuple[str, str]] = []
        self.refused: list[tuple[str, str]] = []
        self.faults: list[int] = []
        self.lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())

    @property
    def uri(self) -> str:
        where = f"127.0.0.1:{self._server.server_address[1]}"
        return f"s3://key:secret@bucket/{self.prefix}?scheme=http&endpoint_override={where}&region=us-east-1"

    def __enter__(self) -> S3Server:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answered(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        """The status and body of an answer."""
        at = urlsplit(path)
        asked = {name: values[0] for name, values in parse_qs(at.query, keep_blank_values=True).items()}
        key = unquote(at.path).removeprefix("/bucket").lstrip("/")
        listing = "list-type" in asked
        touched = asked.get("prefix", "") if listing else key
        with self.lock:
            self.requests.append(("LIST" if listing else method, touched))
            fault = self.faults.pop(0) if self.faults else None
            if fault is not None and fault != LOST:
                return fault, b""
            status, answer = self._done(method, key, touched, asked, body)
            return (CUT, b"") if fault == LOST else (status, answer)

    def _done(self, method: str, key: str, touched: str, asked: dict[str, str], body: bytes) -> tuple[int, bytes]:
        """What is asked, done."""
        if not f"{touched}/".startswith(f"{self.prefix}/"):
            self.refused.append((method, touched))
            return 403, b"<Error><Code>AccessDenied</Code><Message>outside of the prefix</Message></Error>"
        if "list-type" in asked:
            return 200, self._listed(touched, asked.get("delimiter", ""))
        if "uploads" in asked:  # in parts, as pyarrow 18 writes each file
            return 200, b"<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>"
        if "partNumber" in asked:
            self.parts.setdefault(key, {})[int(asked["partNumber"])] = body
        elif "uploadId" in asked:
            parts = self.parts.pop(key, {})
            if method == "POST":  # complete; a DELETE gives it up
                self.objects[key] = b"".join(parts[number] for number in sorted(parts))
            return 200, b"<CompleteMultipartUploadResult><ETag>x</ETag></CompleteMultipartUploadResult>"
        elif method == "PUT":
            self.objects[key] = body
        elif method == "DELETE":
            self.objects.pop(key, None)
            return 204, b""
        elif key not in self.objects:
            return 404, b"<Error><Code>NoSuchKey</Code><Message>it is not there</Message></Error>"
        return 200, b"" if method == "PUT" else self.objects[key]

    def _listed(self, prefix: str, delimiter: str) -> bytes:
        found, folders = [], set()
        for key in sorted(k for k in self.objects if k.startswith(prefix)):
            rest = key[len(prefix) :]
            if delimiter and delimiter in rest:
                folders.add(prefix + rest.split(delimiter)[0] + delimiter)
            else:
                size = len(self.objects[key])
                found.append(
                    f"<Contents><Key>{escape(key)}</Key><LastModified>{_TIME}</LastModified>"
                    f'<ETag>"x"</ETag><Size>{size}</Size></Contents>'
                )
        below = (f"<CommonPrefixes><Prefix>{escape(f)}</Prefix></CommonPrefixes>" for f in sorted(folders))
        count = len(found) + len(folders)
        return (
            '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
            f"<Name>bucket</Name><KeyCount>{count}</KeyCount><IsTruncated>false</IsTruncated>"
            f"{''.join(found)}{''.join(below)}</ListBucketResult>"
        ).encode()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _any(self) -> None:
                status, body = outer.answered(self.command, self.path, self._body())
                if status == CUT:
                    self.close_connection = True
                    return
                self.send_response(status)
                self.send_header("ETag", '"x"')
                self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _any  # noqa: N815

            def _body(self) -> bytes:
                """As it was sent: in pieces of HTTP, these in pieces of S3 with a checksum behind them."""
                if self.headers.get("Transfer-Encoding") != "chunked":
                    data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                else:
                    data = b""
                    while size := int(self.rfile.readline().split(b";")[0], 16):
                        data += self.rfile.read(size)
                        self.rfile.readline()
                    self.rfile.readline()
                return _unchunked(data) if "aws-chunked" in self.headers.get("Content-Encoding", "") else data

            def log_message(self, format: str, *args: object) -> None: ...

        return Handler


def _unchunked(data: bytes) -> bytes:
    out, at = b"", 0
    while True:
        end = data.index(b"\r\n", at)
        size = int(data[at:end].split(b";")[0], 16)
        if size == 0:
            return out
        out += data[end + 2 : end + 2 + size]
        at = end + 2 + size + 2
