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
    if (focused) part.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  }

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
