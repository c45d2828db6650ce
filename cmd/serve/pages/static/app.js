// Keeps what a page shows up to date: the server sends the parts that have changed, and each takes the place of the one with
// its id. A page that nobody sees asks for nothing. Without this script the pages are the same, as of when they were loaded.
(() => {
  "use strict";
  const state = document.getElementById("live");
  let source;

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

  function watch() {
    source?.close();
    source = undefined;
    if (document.hidden) return;
    source = new EventSource(document.body.dataset.live);
    source.addEventListener("swap", (event) => {
      for (const [id, html] of Object.entries(JSON.parse(event.data))) swap(id, html);
      say("live");
    });
    source.onerror = () => say("not live: the server does not answer");
  }

  document.addEventListener("visibilitychange", watch);
  addEventListener("pagehide", () => source?.close());
  addEventListener("pageshow", (event) => { if (event.persisted) watch(); });
  watch();
})();
