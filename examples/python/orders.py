"""An application that enqueues checks of its orders in its own transactions, and answers for them.

Usage: python3 orders.py COMMAND

  tables             make the tables of the shop
  place ID           place an order, and enqueue a check for a second later
  break ID           the same, in a transaction that is rolled back
  ship ID            ship it, and cancel the check
  serve [PORT]       answer for the orders that are due: an alert for each that is not shipped
  remind ID CRONTAB  let an event come at the instants of a crontab

It takes DATABASE_URL; serve also WEBHOOK_SECRET, remind SCHEDULES_URL and SCHEDULES_TOKEN.
It needs Python 3.11 and psycopg 3.
"""

import base64
import hashlib
import hmac
import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import psycopg

import schedules


def connect():
    return psycopg.connect(os.environ["DATABASE_URL"])


def tables():
    with connect() as tx:
        tx.execute("create table orders (id text primary key, shipped_at timestamptz)")
        tx.execute("create table alert (order_id text primary key)")


def place(order, broken=False):
    """The check exists if and only if the order does: leaving the block commits, an error rolls back."""
    with connect() as tx:
        tx.execute("insert into orders (id) values (%s)", [order])
        tx.execute("select prescient.enqueue('order.unshipped', 'orders', %s, check_at => now() + interval '1 second')", [order])
        if broken:
            raise RuntimeError("the transaction is rolled back")


def ship(order):
    with connect() as tx:
        tx.execute("update orders set shipped_at = now() where id = %s", [order])
        tx.execute("select prescient.cancel('order.unshipped', 'orders', %s)", [order])


def check(rows):
    """One look-up for all rows of a request. The same check may come again after a crash, so an alert is written once."""
    keys = [row["entity_key"] for row in rows]
    with connect() as tx:
        known = tx.execute("select id, shipped_at is not null from orders where id = any (%s)", [keys])
        shipped = dict(known.fetchall())
        late = [key for key in keys if shipped.get(key) is False]
        tx.execute("insert into alert select unnest(%s::text[]) on conflict do nothing", [late])
    return [
        {"id": row["id"], "next": None}
        if row["entity_key"] in shipped
        else {"id": row["id"], "error": f"there is no order {row['entity_key']}"}
        for row in rows
    ]


def is_signed(headers, body, secret):
    """Whether a request is as Standard Webhooks has it."""
    timestamp = headers.get("webhook-timestamp", "")
    if not timestamp.isdecimal() or abs(time.time() - int(timestamp)) > 300:
        return False
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{headers.get('webhook-id', '')}.{timestamp}.".encode() + body
    want = b"v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256))
    return any(hmac.compare_digest(want, got) for got in headers.get("webhook-signature", "").encode().split())


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if not is_signed(self.headers, body, os.environ["WEBHOOK_SECRET"]):
            self.send_error(401)
            return
        answer = json.dumps({"results": check(json.loads(body)["rows"])}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


def serve(port="8080"):
    if not os.environ.get("WEBHOOK_SECRET", "").startswith("whsec_"):
        sys.exit("WEBHOOK_SECRET must be set: whsec_ and base64")
    server = ThreadingHTTPServer(("127.0.0.1", int(port)), Handler)
    print(f"listening on port {server.server_port}", flush=True)
    server.serve_forever()


def remind(name, crontab):
    client = schedules.Client(os.environ.get("SCHEDULES_URL", "http://localhost:8080/api/v1"), os.environ["SCHEDULES_TOKEN"])
    try:
        schedule = client.create_schedule({"id": name, "crontab": crontab, "payload": {"order": name}})
    except schedules.ProblemError as error:
        if error.problem["status"] != 409:
            raise
        schedule = client.patch_schedule(name, {"crontab": crontab})
    print(schedule["id"], schedule["crontab"], "version", schedule["version"])


def main():
    commands = {
        "tables": tables, "place": place, "break": lambda order: place(order, broken=True), "ship": ship, "serve": serve,
        "remind": remind,
    }
    if len(sys.argv) < 2 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    commands[sys.argv[1]](*sys.argv[2:])


if __name__ == "__main__":
    main()
