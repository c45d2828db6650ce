"""A service that checks invoices for prescient: an invoice that is not paid gets a reminder a day, three at the most.

Usage: WEBHOOK_SECRET=whsec_... python3 service.py INVOICES.json [PORT]

It needs nothing but Python 3.9. INVOICES.json says which invoices are paid: {"41": true, "42": false}.
"""

import base64
import hashlib
import hmac
import json
import os
import sys
import time
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOLERANCE = 300  # seconds that a signature is good for


def verify(headers, body, secret):
    """Raises PermissionError unless the request was signed with secret, as Standard Webhooks has it."""
    message_id = headers.get("webhook-id", "")
    timestamp = headers.get("webhook-timestamp", "")
    if not timestamp.isdecimal() or abs(time.time() - int(timestamp)) > TOLERANCE:
        raise PermissionError("the timestamp is missing or not of now")
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{message_id}.{timestamp}.".encode() + body
    want = b"v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256))
    signatures = headers.get("webhook-signature", "").encode().split()
    if not any(hmac.compare_digest(want, got) for got in signatures):
        raise PermissionError("the signature does not match")


class Checks:
    """The checks. The same one may come again after a crash, so the service remembers which checks it has answered."""

    def __init__(self, path):
        self.path = path
        self.reminded = set()  # in real life: a table

    def answer(self, request):
        slot = datetime.fromisoformat(request["slot"].replace("Z", "+00:00"))
        with open(self.path, encoding="utf-8") as file:
            paid = json.load(file)  # one look-up for all rows of the request
        store = request["store"]
        return {"results": [{"id": row["id"], **self.check(store, row, slot, paid)} for row in request["rows"]]}

    def check(self, store, row, slot, paid):
        number = row["entity_key"]
        if number not in paid:
            return {"error": f"there is no invoice {number}"}
        if paid[number]:
            return {"next": None}
        check = (store, row["id"], row["enqueued_at"], row["check_count"])
        if check not in self.reminded:
            self.reminded.add(check)
            print(f"reminder {row['check_count'] + 1} for invoice {number}", flush=True)
        if row["check_count"] == 2:
            return {"next": None}
        return {"next": (slot + timedelta(days=1)).isoformat()}


def handler(checks, secret):
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            try:
                verify(self.headers, body, secret)
                self.reply(200, checks.answer(json.loads(body)))
            except PermissionError as error:
                self.reply(401, {"error": str(error)})

        def reply(self, status, answer):
            text = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_):
            pass

    return Handler


def main():
    secret = os.environ.get("WEBHOOK_SECRET", "")
    if len(sys.argv) not in (2, 3) or not secret.startswith("whsec_"):
        sys.exit(__doc__)
    port = int(sys.argv[2]) if len(sys.argv) == 3 else 8080
    server = ThreadingHTTPServer(("127.0.0.1", port), handler(Checks(sys.argv[1]), secret))
    print(f"listening on port {server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
