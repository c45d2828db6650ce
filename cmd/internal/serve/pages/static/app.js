// Keeps a visible page up to date. It asks the server for the parts that change, and replaces those that have changed, by id.
// The server answers 304 while nothing has changed. Without this script a page stays as it was loaded.
(() => {
  "use strict";
  const state = document.getElementById("live");
  const every = 2000; // ms
  const shown = {}; // the parts by id
  let tag = ""; // their ETag
  let asking = false;
  let timer;
  let told = Date.now(); // when the server last answered
  const patience = 10000; // ms without an answer until the verdict is not shown any more
  const before = new Map(); // what the verdicts said, while they are not shown

  function swap(id, html) {
    const part = document.getElementById(id);
    if (!part) return;
    const focused = part.contains(document.activeElement) && document.activeElement.getAttribute("href");
    const open = new Set(Array.from(part.querySelectorAll("details[open][id]"), (d) => d.id));
    part.innerHTML = html;
    before.delete(part);
    delete part.dataset.why;
    for (const d of part.querySelectorAll("details[id]")) d.open = open.has(d.id);
    if (id === "state") title(part.querySelector("[data-problems]"));
    refresh();
    if (focused) part.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  }

  // The title has the number of problems.
  function title(mark) {
    const n = Number(mark?.dataset.problems);
    document.title = (n > 0 ? `(${n}) ` : "") + document.title.replace(/^\(\d+\) /, "");
  }

  // The clock of the page is that of the server. Ago is spoken.Ago of the server.
  const ahead = document.body.dataset.now ? Date.parse(document.body.dataset.now) - Date.now() : undefined;
  const clock = document.getElementById("clock");

  function span(s) {
    if (s < 120) return `${s} s`;
    if (s < 7200) return `${Math.floor(s / 60)} min`;
    if (s < 172800) return `${Math.floor(s / 3600)} h`;
    return undefined; // which changes too slowly
  }

  function refresh() {
    if (ahead === undefined) return;
    const now = Date.now() + ahead;
    if (clock) clock.textContent = clock.dateTime = new Date(now).toISOString().slice(0, 19) + "Z";
    for (const ago of document.querySelectorAll(".ago")) {
      const s = (now - Date.parse(ago.previousElementSibling.dateTime)) / 1000;
      const text = span(Math.floor(Math.abs(s)));
      if (text) ago.textContent = Math.abs(s) < 1 ? "now" : s > 0 ? `${text} ago` : `in ${text}`;
    }
  }

  // An instant, and a slot of a chart, says the local time under the pointer.
  function local(event) {
    const time = event.target.closest?.("time[datetime]");
    const bar = event.target.closest?.(".chart a");
    const of = bar && new URL(bar.href.baseVal, location.href).searchParams;
    const at = time ? time.dateTime : of && (of.get("at") ?? of.get("from"));
    if (!at) return;
    const text = new Date(at).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "long" });
    if (time) time.title = text;
    const title = bar?.querySelector("title");
    if (title && !title.textContent.endsWith(text)) title.textContent += `; ${text}`;
  }

  addEventListener("pointerover", local);

  function say(text) {
    if (state && state.textContent !== text) state.textContent = text;
  }

  // A verdict that may no longer be true is grey and says since when.
  function hide(why, login) {
    const since = span(Math.floor((Date.now() - told) / 1000)) ?? "days";
    const text = `The state is unknown for ${since}`;
    for (const part of document.querySelectorAll("#verdict, #state")) {
      if (!before.has(part)) before.set(part, part.innerHTML);
      if (part.dataset.why !== why) {
        part.dataset.why = why;
        part.replaceChildren(part.id === "state" ? mark() : box(`${why} Before that: ${said(before.get(part))}.`, login));
      }
      part.querySelector("h1, .mark").textContent = text; // the rest stays, with a link that may have the focus
    }
    title();
    say(`not updated for ${since}: ${why}`);
  }

  function said(html) {
    const was = document.createElement("template");
    was.innerHTML = html;
    return (was.content.querySelector("h1") ?? was.content.firstElementChild)?.textContent ?? "nothing";
  }

  function mark() {
    const made = document.createElement("span");
    made.className = "mark idle";
    return made;
  }

  function box(detail, login) {
    const made = document.createElement("div");
    made.className = "verdict idle";
    const [sign, inner, head, line] = ["span", "div", "h1", "p"].map((name) => document.createElement(name));
    line.textContent = detail;
    inner.append(head, line);
    if (login) {
      const link = document.createElement("a");
      [link.href, link.textContent, link.className] = [document.body.dataset.login, "Log in again", "button"];
      inner.append(link);
    }
    made.append(sign, inner);
    return made;
  }

  function reveal() {
    told = Date.now();
    for (const [part, html] of before) {
      delete part.dataset.why;
      part.innerHTML = html;
      if (part.id === "state") title(part.querySelector("[data-problems]"));
    }
    before.clear();
    say("updates every 2 seconds");
  }

  const silent = "The server does not answer.";
  const loggedOut = "You are logged out.";
  let why = silent;

  function tick() {
    refresh();
    if (!document.hidden && (before.size > 0 || Date.now() - told > patience)) hide(why, why === loggedOut);
  }

  setInterval(tick, 1000);

  async function ask() {
    const headers = tag ? { "If-None-Match": tag } : {};
    const signal = AbortSignal.timeout(patience);
    const answer = await fetch(document.body.dataset.live, { cache: "no-store", redirect: "error", headers, signal });
    if (answer.status === 304) return;
    if (answer.status === 401) why = loggedOut;
    if (!answer.ok) throw new Error(answer.statusText);
    for (const [id, html] of Object.entries(await answer.json())) {
      if (shown[id] !== html) swap(id, html);
      shown[id] = html;
    }
    tag = answer.headers.get("ETag");
  }

  async function watch() {
    clearTimeout(timer);
    if (document.hidden || asking) return;
    asking = true;
    try {
      why = silent;
      await ask();
      reveal();
    } catch {
      hide(why, why === loggedOut);
    }
    asking = false;
    timer = setTimeout(watch, every);
  }

  document.addEventListener("visibilitychange", () => {
    tick();
    watch();
  });
  addEventListener("pagehide", () => clearTimeout(timer));
  addEventListener("pageshow", (event) => { if (event.persisted) watch(); });
  watch();
})();
