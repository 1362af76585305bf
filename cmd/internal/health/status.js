// Keeps the page up to date: fetches it, and replaces the parts that changed.
"use strict";
(() => {
  const every = 3000;
  const pause = document.getElementById("pause");
  let paused = false;
  let timer;

  // Inserts only elements of the same page. The policy forbids them to run scripts.
  function replace(fresh) {
    for (const old of document.querySelectorAll("[data-live]")) {
      const now = fresh.getElementById(old.id);
      if (!now || now.outerHTML === old.outerHTML) continue;
      const focused = old.contains(document.activeElement) ? path(old, document.activeElement) : null;
      const scrolled = [...old.querySelectorAll(".scroll")].map((e) => e.scrollLeft);
      old.className = now.className;
      old.hidden = now.hidden;
      old.replaceChildren(...document.importNode(now, true).childNodes);
      old.querySelectorAll(".scroll").forEach((e, i) => { e.scrollLeft = scrolled[i] || 0; });
      if (focused) follow(old, focused)?.focus({preventScroll: true});
    }
    document.title = fresh.title;
  }

  // Finds the focused element again, by its ID or by its position.
  function path(root, element) {
    if (element.id) return {id: element.id};
    const steps = [];
    for (let e = element; e !== root; e = e.parentElement) steps.unshift([...e.parentElement.children].indexOf(e));
    return {steps};
  }
  function follow(root, where) {
    if (where.id) return document.getElementById(where.id);
    return where.steps.reduce((e, i) => e && e.children[i], root);
  }

  async function refresh() {
    try {
      const answer = await fetch(location.pathname + location.search, {cache: "no-store", signal: AbortSignal.timeout(15000)});
      if (answer.status === 503) return plan(); // too many viewers
      if (!answer.ok) throw new Error(await answer.text());
      replace(new DOMParser().parseFromString(await answer.text(), "text/html"));
      document.body.classList.remove("stale");
    } catch (failure) {
      document.body.classList.add("stale");
      const summary = document.getElementById("summary");
      summary.className = "summary warning";
      summary.textContent = "This process does not answer; the data shown is old";
    }
    plan();
  }

  function plan() {
    clearTimeout(timer);
    if (!paused && !document.hidden) timer = setTimeout(refresh, every);
  }

  pause.hidden = false;
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.textContent = paused ? "Resume" : "Pause";
    plan();
  });
  document.addEventListener("visibilitychange", plan);
  plan();
})();
