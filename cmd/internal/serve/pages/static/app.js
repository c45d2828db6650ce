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

  function swap(id, html) {
    const part = document.getElementById(id);
    if (!part) return;
    const focused = part.contains(document.activeElement) && document.activeElement.getAttribute("href");
    const open = new Set(Array.from(part.querySelectorAll("details[open][id]"), (d) => d.id));
    part.innerHTML = html;
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

  setInterval(refresh, 1000);

  function say(text) {
    if (state && state.textContent !== text) state.textContent = text;
  }

  async function ask() {
    const headers = tag ? { "If-None-Match": tag } : {};
    const answer = await fetch(document.body.dataset.live, { cache: "no-store", redirect: "error", headers });
    if (answer.status === 304) return;
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
      await ask();
      say("updates every 2 seconds");
    } catch {
      say("not updated: the server does not answer");
    }
    asking = false;
    timer = setTimeout(watch, every);
  }

  document.addEventListener("visibilitychange", watch);
  addEventListener("pagehide", () => clearTimeout(timer));
  addEventListener("pageshow", (event) => { if (event.persisted) watch(); });
  watch();
})();
