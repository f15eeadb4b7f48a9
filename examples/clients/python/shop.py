"""A small shop that has its unpaid orders closed by duewheel. Its orders are in memory; in a real one the same steps run in the database.

    SHOP_DUEWHEEL=http://127.0.0.1:8480 SHOP_TOKEN=... SHOP_WEBHOOK_SECRET=whsec_... python3 shop.py 127.0.0.1:8088

    curl -X PUT   127.0.0.1:8088/orders/A17    # an order, unpaid; duewheel is told
    curl -X PATCH 127.0.0.1:8088/orders/A17    # the payment; duewheel is told
    curl          127.0.0.1:8088/orders        # all of them
"""

import json
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import duewheel

WINDOW = float(os.environ.get("SHOP_WINDOW_SECONDS", "1800"))


class Orders:
    """What the shop knows: status, the highest fence that was seen, and which call closed it."""

    def __init__(self):
        self._lock, self._orders = threading.Lock(), {}

    def place(self, order):
        with self._lock:
            self._orders[order] = {"status": "unpaid", "fence": 0, "closed_by": None}

    def pay(self, order):
        with self._lock:
            row = self._orders.get(order)
            if row is None:
                return 404, {}
            if row["status"] != "unpaid":
                return 409, {"status": row["status"]}
            row["status"] = "paid"
            return 200, {"status": "paid"}

    def all(self):
        with self._lock:
            return {order: row["status"] for order, row in self._orders.items()}

    def close(self, webhook_id, data):
        """The conditional update, and what the order is where it did not apply."""
        with self._lock:
            row = self._orders.get(data["id"])
            if row is None:
                return 404, {"verdict": "gone", "reason": "no such order"}
            # A worker that was frozen beyond its lease: another one has the order now and gets the answer.
            if data["fence"] < row["fence"]:
                return 409, {"verdict": "failed", "reason": "a later claim was seen"}
            row["fence"] = data["fence"]
            if row["status"] == "unpaid":
                row.update(status="closed", closed_by=webhook_id)
                return 200, {"verdict": "closed"}
            # The answer to the first call was lost: the same call gets the same answer.
            if row["status"] == "closed":
                return 200, {"verdict": "closed" if row["closed_by"] == webhook_id else "already_closed"}
            return 200, {"verdict": "skipped", "state": row["status"]}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # duewheel keeps idle connections for four seconds; whoever closes first should be duewheel.
    timeout = 30
    orders, verifier, clients = Orders(), None, threading.local()

    def do_PUT(self):
        order = self._order()
        # First the order, then its deadline: a crash in between leaves an order that a sweep finds, never a deadline without one.
        # The moment is the order's own, so that a repeated call means the same one.
        close_at = time.time() + WINDOW
        self.orders.place(order)
        try:
            self._duewheel().enqueue(order, close_at, {"shop": "python"})
        except (duewheel.Refused, duewheel.Unavailable) as e:
            return self._answer(503, {"status": "unpaid", "deadline": str(e)})
        self._answer(201, {"status": "unpaid"})

    def do_PATCH(self):
        order = self._order()
        status, answer = self.orders.pay(order)
        if status == 200:
            try:
                self._duewheel().cancel(order)
            except (duewheel.Refused, duewheel.Unavailable) as e:
                # The payment stands. The close will find it and be skipped.
                answer["deadline"] = str(e)
        self._answer(status, answer)

    def do_GET(self):
        self._answer(200, self.orders.all())

    def do_POST(self):
        body = self._body()
        if self.path != "/hooks/close":
            return self._answer(404, {})
        try:
            message = self.verifier.verify(self.headers, body)
        except duewheel.Forged as e:
            return self._answer(401, {"error": str(e)})
        if message["type"] != "order.close_due":
            # A reminder: tell the buyer here. It closes nothing.
            return self._answer(200, {"verdict": "closed"})
        self._answer(*self.orders.close(self.headers["webhook-id"], message["data"]))

    def _duewheel(self):
        if not hasattr(self.clients, "client"):
            self.clients.client = duewheel.Client(
                os.environ["SHOP_DUEWHEEL"], os.environ["SHOP_TOKEN"], os.environ.get("SHOP_WHEEL", "orders")
            )
        return self.clients.client

    def _order(self):
        self._body()
        return self.path.removeprefix("/orders/")

    def _body(self):
        return self.rfile.read(int(self.headers.get("content-length") or 0))

    def _answer(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def main():
    host, _, port = (sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:8088").rpartition(":")
    Handler.verifier = duewheel.Verifier(*os.environ["SHOP_WEBHOOK_SECRET"].split())
    server = ThreadingHTTPServer((host, int(port)), Handler)
    server.daemon_threads = True
    print(f"listening on {host}:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
