// What is nicer with JavaScript. Every screen works without: nothing here does what a form or a link does not do, too.
// Text only ever goes into text nodes.
"use strict";
(() => {
  const all = (selector, root = document) => Array.from(root.querySelectorAll(selector));

  // The reader's own time beside UTC, where it is another.
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const pad = (n) => String(n).padStart(2, "0");
  const localize = (root) => {
    for (const time of all("time[datetime]", root)) {
      const at = new Date(time.dateTime);
      if (Number.isNaN(at.getTime()) || time.dataset.seen) continue;
      time.dataset.seen = "1";
      time.title = `${at.toString()}\n${time.dateTime}`;
      if (at.getTimezoneOffset() === 0) continue;
      const clock = `${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;
      const day = at.getDate() === at.getUTCDate() ? "" : `${pad(at.getMonth() + 1)}-${pad(at.getDate())} `;
      const local = document.createElement("span");
      local.className = "local";
      local.textContent = ` (${day}${clock})`;
      time.after(local);
    }
  };
  localize(document);
  const note = document.getElementById("zone");
  if (note && new Date().getTimezoneOffset() !== 0) note.textContent = `, in brackets ${zone}`;

  // On a narrow screen the tabs go beyond it: the current one is brought into sight.
  const current = document.querySelector(".tabs a[aria-current]");
  if (current) {
    const tabs = current.closest(".tabs");
    tabs.scrollLeft = current.offsetLeft - tabs.offsetLeft - (tabs.clientWidth - current.offsetWidth) / 2;
  }

  // Keys, wherever nothing is typed. Whoever speaks to the machine, or hits keys unawares, turns them off for this browser.
  const keys = document.getElementById("keys");
  const remembered = (() => { try { return window.localStorage; } catch { return null; } })();
  let off = Boolean(remembered && remembered.getItem("keys") === "off");
  const rows = () => all("#main td.id a, #main tbody td.wide > a");
  const step = (by) => {
    const links = rows();
    const at = links.indexOf(document.activeElement);
    const to = links[at < 0 ? (by > 0 ? 0 : links.length - 1) : at + by];
    if (to) to.focus();
    return Boolean(to);
  };
  const follow = (link) => {
    if (link) link.click();
    return Boolean(link);
  };
  const pages = () => all("#main .pages a.button");
  const acts = {
    "/": () => {
      const find = document.getElementById("find");
      if (!find) return false;
      find.focus();
      find.select();
      return true;
    },
    "?": () => {
      keys.open = !keys.open;
      if (keys.open) keys.querySelector("summary").focus();
      return true;
    },
    j: () => step(1),
    k: () => step(-1),
    x: () => {
      const row = document.activeElement && document.activeElement.closest("#main tr");
      const box = row && row.querySelector("td.pick input");
      if (box) box.click();
      return Boolean(box);
    },
    n: () => follow(pages().find((link) => link.rel === "next")),
    f: () => follow(pages().find((link) => link.rel !== "next")),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const field = event.target instanceof Element && event.target.closest("input, textarea, select");
    if (field) {
      if (event.key === "Escape") field.blur();
      // A box that is ticked takes no text.
      if (field.type !== "checkbox") return;
    }
    if (off) return;
    const digit = /^[0-9]$/.test(event.key) ? all("nav.tabs a")[(Number(event.key) + 9) % 10] : null;
    const act = Object.hasOwn(acts, event.key) && acts[event.key];
    if (digit ? follow(digit) : act && act()) event.preventDefault();
  });
  if (keys && remembered) {
    const button = document.createElement("button");
    button.type = "button";
    const say = () => { button.textContent = off ? "Turn keys on" : "Turn keys off"; };
    button.addEventListener("click", () => {
      off = !off;
      remembered.setItem("keys", off ? "off" : "on");
      say();
    });
    say();
    keys.append(button);
  }

  // Copy what a block holds.
  for (const block of all("[data-copy]")) {
    if (!navigator.clipboard) break;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(block.textContent);
        button.textContent = "Copied";
      } catch {
        button.textContent = "Not copied: the browser refused";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
    const place = document.getElementById(block.dataset.copy);
    if (place) place.append(button);
    else block.before(button);
  }

  // One box that picks all of a table.
  for (const head of all("th.pick")) {
    const boxes = all("td.pick input[type=checkbox]", head.closest("table"));
    if (boxes.length === 0) continue;
    const box = document.createElement("input");
    box.type = "checkbox";
    box.setAttribute("aria-label", "Pick all on this page");
    box.addEventListener("change", () => { for (const one of boxes) one.checked = box.checked; });
    head.replaceChildren(box);
  }

  // What is under way is looked at again until it is over.
  const watch = async () => {
    const mark = document.querySelector("[data-again-after]");
    if (!mark) return;
    await new Promise((done) => { setTimeout(done, Number(mark.dataset.againAfter) * 1000); });
    // Whoever is typing, or reads in an opened part, is not disturbed.
    const busy = document.activeElement && document.activeElement.closest("main form");
    if (!document.hidden && !busy) {
      try {
        const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        const fresh = page.getElementById("main");
        if (answer.ok && fresh) {
          document.getElementById("main").replaceChildren(...Array.from(fresh.childNodes, (node) => document.importNode(node, true)));
          localize(document);
        }
      } catch {
        // The server is away; the next look may find it.
      }
    }
    watch();
  };
  watch();

  // Numbers that go on by themselves. Where something else than numbers changed, and now and then in any case, the other parts of the
  // page that show what is are asked for again.
  const live = document.querySelector("[data-live-from]");
  if (live && window.EventSource) {
    let state = live.dataset.state;
    let asking = false;
    let turns = 0;
    const brought = (node) => Array.from(node.childNodes, (child) => document.importNode(child, true));
    // Whoever has the keyboard in a part, or has opened something there, is not disturbed.
    const busy = (part) => part.contains(document.activeElement) || part.querySelector("details[open]");
    const again = async (fresh) => {
      if (asking) return;
      asking = true;
      try {
        const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
        if (answer.status === 401) { location.reload(); return; }
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        const part = page.getElementById(live.id);
        if (part) {
          if (fresh !== state || !busy(live)) live.replaceChildren(...brought(part));
          localize(live);
          state = fresh;
          for (const old of all("[data-fresh]")) {
            const now = page.getElementById(old.id);
            if (!now || busy(old)) continue;
            old.replaceChildren(...brought(now));
            localize(old);
          }
        } else if (fresh === "away") {
          const away = document.createElement("p");
          away.className = "flash bad";
          away.textContent = "Redis does not answer. The numbers below are old.";
          live.replaceChildren(away);
          state = fresh;
        }
      } catch {
        // The server is away; the stream is opened again by itself.
      } finally {
        asking = false;
      }
    };
    const heard = (event) => {
      const told = JSON.parse(event.data);
      for (const place of all("[data-live]")) {
        const text = told.figures && told.figures[place.dataset.live];
        if (typeof text === "string" && place.textContent !== text) place.textContent = text;
      }
      turns += 1;
      // A promise that is broken is told with how long and how many, which grow.
      const due = turns % (told.state ? 5 : 15) === 0;
      if (told.state !== state || due) again(told.state);
    };
    // A page that nobody sees asks for nothing.
    let stream = null;
    const listen = () => {
      if (stream) stream.close();
      stream = null;
      if (document.hidden) return;
      stream = new EventSource(live.dataset.liveFrom);
      stream.addEventListener("message", heard);
    };
    listen();
    document.addEventListener("visibilitychange", listen);
    addEventListener("pagehide", () => { if (stream) stream.close(); });
  }
})();
