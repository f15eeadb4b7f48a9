// A small shop that has its unpaid orders closed by duewheel. Its orders are in memory; in a real one the same steps run in the database.
//
//     SHOP_DUEWHEEL=http://127.0.0.1:8480 SHOP_TOKEN=... SHOP_WEBHOOK_SECRET=whsec_... node shop.mjs 127.0.0.1:8088
//
//     curl -X PUT   127.0.0.1:8088/orders/A17    # an order, unpaid; duewheel is told
//     curl -X PATCH 127.0.0.1:8088/orders/A17    # the payment; duewheel is told
//     curl          127.0.0.1:8088/orders        # all of them

import { createServer } from "node:http";

import { Client, Forged, Verifier } from "./duewheel.mjs";

const { SHOP_DUEWHEEL, SHOP_TOKEN, SHOP_WHEEL, SHOP_WEBHOOK_SECRET, SHOP_WINDOW_SECONDS = "1800" } = process.env;
const client = new Client({ url: SHOP_DUEWHEEL, token: SHOP_TOKEN, wheel: SHOP_WHEEL });
const verifier = new Verifier(SHOP_WEBHOOK_SECRET.split(/\s+/).filter(Boolean));

/** id -> status, the highest fence that was seen, and which call closed it. */
const orders = new Map();

async function place(order) {
  // First the order, then its deadline: a crash in between leaves an order that a sweep finds, never a deadline without one.
  // The moment is the order's own, so that a repeated call means the same one.
  const closeAt = Date.now() + Number(SHOP_WINDOW_SECONDS) * 1000;
  orders.set(order, { status: "unpaid", fence: 0, closedBy: null });
  try {
    await client.enqueue(order, closeAt, { shop: "node" });
  } catch (e) {
    return [503, { status: "unpaid", deadline: e.message }];
  }
  return [201, { status: "unpaid" }];
}

async function pay(order) {
  const row = orders.get(order);
  if (!row) return [404, {}];
  if (row.status !== "unpaid") return [409, { status: row.status }];
  row.status = "paid";
  try {
    await client.cancel(order);
  } catch (e) {
    // The payment stands. The close will find it and be skipped.
    return [200, { status: "paid", deadline: e.message }];
  }
  return [200, { status: "paid" }];
}

/** The conditional update, and what the order is where it did not apply. */
function close(webhookId, data) {
  const row = orders.get(data.id);
  if (!row) return [404, { verdict: "gone", reason: "no such order" }];
  // A worker that was frozen beyond its lease: another one has the order now and gets the answer.
  if (data.fence < row.fence) return [409, { verdict: "failed", reason: "a later claim was seen" }];
  row.fence = data.fence;
  if (row.status === "unpaid") {
    Object.assign(row, { status: "closed", closedBy: webhookId });
    return [200, { verdict: "closed" }];
  }
  // The answer to the first call was lost: the same call gets the same answer.
  if (row.status === "closed") return [200, { verdict: row.closedBy === webhookId ? "closed" : "already_closed" }];
  return [200, { verdict: "skipped", state: row.status }];
}

function hook(headers, body) {
  let message;
  try {
    message = verifier.verify(headers, body);
  } catch (e) {
    if (e instanceof Forged) return [401, { error: e.message }];
    throw e;
  }
  // A reminder: tell the buyer here. It closes nothing.
  if (message.type !== "order.close_due") return [200, { verdict: "closed" }];
  return close(headers["webhook-id"], message.data);
}

async function route(request, body) {
  const order = request.url.replace(/^\/orders\//, "");
  switch (request.method) {
    case "PUT":
      return place(order);
    case "PATCH":
      return pay(order);
    case "GET":
      return [200, Object.fromEntries([...orders].map(([id, row]) => [id, row.status]))];
    case "POST":
      return request.url === "/hooks/close" ? hook(request.headers, body) : [404, {}];
    default:
      return [405, {}];
  }
}

const server = createServer(async (request, response) => {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const [status, answer] = await route(request, Buffer.concat(chunks)).catch((e) => [500, { error: e.message }]);
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(answer));
});
// duewheel keeps idle connections for four seconds; whoever closes first should be duewheel.
server.keepAliveTimeout = 30_000;
const [, host, port] = /^(.*):(\d+)$/.exec(process.argv[2] ?? "127.0.0.1:8088");
server.listen(Number(port), host, () => console.log(`listening on ${host}:${server.address().port}`));
