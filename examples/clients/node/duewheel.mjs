// A client of duewheel's HTTP API, and the check of its calls; with nothing but Node's standard library (18 or later).

import { createHmac, timingSafeEqual } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

/** duewheel said no, and would say no again. */
export class Refused extends Error {
  constructor(status, problem) {
    super(`${status} ${problem.code ?? ""}: ${problem.detail ?? problem.title ?? ""}`);
    Object.assign(this, { status, code: problem.code, problem });
  }
}

/** No answer after all tries. Whether the last one took effect is unknown; both calls here may be repeated later. */
export class Unavailable extends Error {}

/** Places and cancels deadlines. One for the whole process: fetch keeps connections. */
export class Client {
  #base;
  #token;
  #timeout;
  #tries;

  constructor({ url, token, wheel = "orders", timeout = 5000, tries = 4 }) {
    this.#base = `${url.replace(/\/+$/, "")}/v1/wheels/${encodeURIComponent(wheel)}/deadlines/`;
    this.#token = token;
    this.#timeout = timeout;
    this.#tries = tries;
  }

  /** The order was placed: it is to be closed at `at`, in milliseconds since 1970. The same call again changes nothing. */
  enqueue(order, at, payload) {
    return this.#call("PUT", order, { at, payload });
  }

  /** The order was paid. A deadline that is unknown (then a late enqueue is refused) or has ended is no error: the answer says so. */
  async cancel(order) {
    try {
      return await this.#call("DELETE", order);
    } catch (e) {
      if (e instanceof Refused && ["absent", "ended"].includes(e.code)) return e.problem;
      throw e;
    }
  }

  async #call(method, order, body) {
    const url = this.#base + encodeURIComponent(order);
    const headers = { authorization: `Bearer ${this.#token}`, accept: "application/json" };
    if (body) headers["content-type"] = "application/json";
    let wait = 100;
    for (let attempt = 1; ; attempt++) {
      let reason, after;
      try {
        const signal = AbortSignal.timeout(this.#timeout);
        const answer = await fetch(url, { method, headers, body: body && JSON.stringify(body), signal });
        const value = object(await answer.text());
        if (answer.ok) return value;
        if (answer.status !== 408 && answer.status !== 429 && answer.status < 500) throw new Refused(answer.status, value);
        reason = `status ${answer.status}`;
        after = answer.headers.get("retry-after");
      } catch (e) {
        if (e instanceof Refused) throw e;
        reason = e.cause?.message ?? e.message;
      }
      if (attempt === this.#tries) throw new Unavailable(`${method} ${url}: ${reason}`);
      await sleep(/^\d+$/.test(after ?? "") ? Math.min(Number(after), 5) * 1000 : wait);
      wait *= 2;
    }
  }
}

function object(text) {
  try {
    const value = JSON.parse(text);
    return value !== null && typeof value === "object" ? value : {};
  } catch {
    return {};
  }
}

/** A call that duewheel did not make, or made too long ago. Answer 401 and do nothing. */
export class Forged extends Error {}

/** Checks calls by Standard Webhooks 1.0. Several secrets are valid at once while one replaces another. */
export class Verifier {
  #keys;
  #tolerance;

  constructor(secrets, { tolerance = 300 } = {}) {
    this.#keys = secrets.map(key);
    if (this.#keys.length === 0) throw new TypeError("no secret");
    this.#tolerance = tolerance;
  }

  /** The message of a call: `headers` as node:http gives them, `body` a Buffer as it came, before any parsing. */
  verify(headers, body, now = Date.now() / 1000) {
    const [id, timestamp, signatures] = ["webhook-id", "webhook-timestamp", "webhook-signature"].map((name) => headers[name] ?? "");
    if (!id || !/^\d{1,12}$/.test(timestamp)) throw new Forged("no webhook-id or webhook-timestamp");
    if (Math.abs(now - Number(timestamp)) > this.#tolerance) throw new Forged("the timestamp is too far from now");
    let fits = false;
    for (const secret of this.#keys) {
      const signature = createHmac("sha256", secret).update(`${id}.${timestamp}.`, "latin1").update(body).digest("base64");
      const expected = Buffer.from(`v1,${signature}`);
      for (const one of signatures.split(" ")) {
        const given = Buffer.from(one);
        // Only the length, which is no secret, ends a comparison early.
        if (given.length === expected.length && timingSafeEqual(given, expected)) fits = true;
      }
    }
    if (!fits) throw new Forged("no signature fits");
    return JSON.parse(body.toString("utf8"));
  }
}

function key(secret) {
  if (!secret.startsWith("whsec_")) throw new TypeError("a secret begins with whsec_");
  const bytes = Buffer.from(secret.slice("whsec_".length), "base64");
  if (bytes.length < 24 || bytes.length > 64) throw new TypeError("a secret holds 24 to 64 bytes");
  return bytes;
}
