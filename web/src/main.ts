import "./style.css";
import { getRuns, type Run } from "./api";
import { CompareView } from "./compare_view";
import { h, replace } from "./dom";
import { RunView } from "./run_view";
import { RunsView } from "./runs_view";

export interface View {
  /// The theme has changed.
  recolour(): void;
  close(): void;
}

const top = document.getElementById("top")!;
const main = document.getElementById("main")!;
const title = h("h1", {}, "Trireme");
const badge = h("span", { class: "badge off", id: "state" });
const link = h("span", { class: "muted", id: "link", role: "status" });
let view: View | null = null;
let single = false;

// ---- Light and dark.

const preferred = matchMedia("(prefers-color-scheme: dark)");
function applyTheme(): void {
  const chosen = localStorage.getItem("trireme-theme") ?? (preferred.matches ? "dark" : "light");
  document.documentElement.dataset["theme"] = chosen;
  view?.recolour();
}
function toggleTheme(): void {
  localStorage.setItem("trireme-theme", document.documentElement.dataset["theme"] === "dark" ? "light" : "dark");
  applyTheme();
}
preferred.addEventListener("change", applyTheme);
applyTheme();

// ---- Which view.

function setState(run: Run | null, open: boolean): void {
  if (run) {
    const state = run.status ? run.status.state : run.state;
    badge.className = `badge ${state}`;
    badge.textContent = state;
    title.textContent = run.name;
    document.title = `${run.name} · Trireme`;
  }
  link.textContent = open ? (run?.live ? "live" : "from files") : "not connected: trying again";
}

async function route(): Promise<void> {
  view?.close();
  view = null;
  const query = new URLSearchParams(location.search);
  badge.textContent = "";
  badge.className = "badge off";
  title.textContent = "Trireme";
  document.title = "Trireme";
  link.textContent = "";
  const head = () => replace(top, title, badge, link, h("span", { class: "grow" }), single || location.search === "" ? null : h("a", { href: "/", "data-link": true }, "All runs"),
    h("button", { type: "button", id: "theme", title: "Light or dark (t)", "aria-label": "Light or dark", onclick: toggleTheme }, "◐"));
  head();
  try {
    const compare = query.get("compare");
    if (compare) {
      view = new CompareView(main, compare.split("/"));
      single = false;
    } else if (query.get("run") !== null) {
      view = new RunView(main, query.get("run")!, setState);
      single = false;
    } else {
      replace(main, h("p", { class: "muted" }, "Reading the runs …"));
      const reply = await getRuns();
      single = reply.single;
      view = single ? new RunView(main, reply.runs[0]?.name ?? "", setState) : new RunsView(main, reply);
      if (!single) title.textContent = reply.folder;
    }
  } catch (problem) {
    replace(main, h("div", { class: "alert" }, h("strong", {}, "Nothing to show: "), (problem as Error).message));
  }
  head();
}

document.addEventListener("click", (event) => {
  const anchor = (event.target as Element).closest?.("a[data-link]");
  if (!anchor || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  history.pushState(null, "", anchor.getAttribute("href"));
  void route();
});
addEventListener("popstate", () => { if (location.hash === "" || !location.hash.startsWith("#s-")) void route(); });

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || /^(input|textarea|select)$/i.test((event.target as Element).tagName)) return;
  if (event.key === "t") toggleTheme();
  else if (event.key === "/" && view instanceof RunsView) { view.focusFilter(); event.preventDefault(); }
  else if (event.key === "x") document.getElementById("logX")?.click();
  else if (event.key === "y") document.getElementById("logY")?.click();
});

void route();
