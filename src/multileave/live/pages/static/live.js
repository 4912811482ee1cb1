// Refreshes the live part of an experiment's page in place. Unchanged elements stay, so focus, open details, scroll
// positions and typed text survive, and only a changed sentence is announced.
"use strict";
(() => {
  const live = document.getElementById("live");
  const note = document.getElementById("refreshed");
  const pause = document.getElementById("pause");
  if (!live || !note || !pause) return;
  const KEPT = new Set(["open", "value"]); // keep what the reader has changed
  let paused = false;
  let timer = 0;

  function attributes(old, fresh) {
    for (const { name } of Array.from(old.attributes)) {
      if (!fresh.hasAttribute(name) && !KEPT.has(name)) old.removeAttribute(name);
    }
    for (const { name, value } of Array.from(fresh.attributes)) {
      if (old.getAttribute(name) !== value && !KEPT.has(name)) old.setAttribute(name, value);
    }
  }

  function alike(old, fresh) {
    return old.nodeName === fresh.nodeName && (old.id || "") === (fresh.id || "");
  }

  function sibling(from, id) {
    for (let node = from; node && id; node = node.nextSibling) if (node.id === id) return node;
    return null;
  }

  // Elements with an id are matched by it wherever they are; the rest are paired in order.
  function children(old, fresh) {
    const wanted = new Set(Array.from(fresh.children, (child) => child.id).filter(Boolean));
    let here = old.firstChild;
    const drop = () => {
      const gone = here;
      here = here.nextSibling;
      gone.remove();
    };
    for (const child of Array.from(fresh.childNodes)) {
      const match = sibling(here, child.id);
      if (match) {
        while (here !== match && !wanted.has(here.id)) drop();
        if (here === match) here = here.nextSibling;
        else old.insertBefore(match, here);
        merge(match, child);
      } else if (here && !child.id && alike(here, child)) {
        merge(here, child);
        here = here.nextSibling;
      } else {
        old.insertBefore(child, here);
      }
    }
    while (here) drop();
  }

  function merge(old, fresh) {
    if (old.nodeType === Node.ELEMENT_NODE) {
      if (old.isEqualNode(fresh)) return;
      attributes(old, fresh);
      if (old.nodeName !== "TEXTAREA") children(old, fresh);
    } else if (old.data !== fresh.data) {
      old.data = fresh.data;
    }
  }

  async function refresh() {
    try {
      const answer = await fetch(live.dataset.live, { credentials: "same-origin", cache: "no-store" });
      if (answer.status === 401) {
        note.textContent = "You are logged out. Reload the page to log in.";
        return;
      }
      if (!answer.ok) throw new Error(String(answer.status));
      const fresh = document.createElement("template");
      fresh.innerHTML = await answer.text();
      if (!paused) {
        children(live, fresh.content);
        note.textContent = "Refreshed at " + new Date().toLocaleTimeString() + ".";
      }
    } catch {
      note.textContent = "The service does not answer. Retrying.";
    }
    later();
  }

  function seconds() {
    return Number(live.querySelector("[data-refresh]").dataset.refresh);
  }

  function later() {
    window.clearTimeout(timer);
    if (!paused && !document.hidden) timer = window.setTimeout(refresh, 1000 * seconds());
  }

  pause.addEventListener("click", () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
    note.textContent = paused ? "Paused." : "";
    if (paused) window.clearTimeout(timer);
    else refresh();
  });
  document.addEventListener("visibilitychange", () => (document.hidden || paused ? window.clearTimeout(timer) : refresh()));
  document.getElementById("refresh").hidden = false;
  later();
})();
