// All runs: filter, sort, group, choose some to compare.

import { getRuns, type RunsReply, type Summary } from "./api";
import { day, duration, h, number, replace } from "./dom";
import type { View } from "./main";

const always = ["model", "strategy", "workers", "lr"];

/// Flags in which the runs differ, the most telling first.
export function differing(runs: Summary[]): string[] {
  const values = new Map<string, Set<string>>();
  for (const run of runs) for (const [flag, value] of Object.entries(run.flags)) {
    const seen = values.get(flag) ?? new Set<string>();
    seen.add(value);
    values.set(flag, seen);
  }
  const names = [...values].filter(([, seen]) => seen.size > 1).map(([flag]) => flag);
  return names.sort((a, b) => Number(always.includes(b)) - Number(always.includes(a)) || a.localeCompare(b));
}

interface Column { name: string; numeric: boolean; value: (run: Summary) => string | number; text: (run: Summary) => string }

const testNumber = (run: Summary, name: string): number => {
  const value = run.test?.[name];
  return typeof value === "number" ? value : NaN;
};

function columnsFor(runs: Summary[]): Column[] {
  const metrics = new Set<string>();
  for (const run of runs) for (const [name, value] of Object.entries(run.test ?? {})) {
    if (typeof value === "number" && !["step", "time", "epoch", "samples", "seconds"].includes(name)) metrics.add(name);
  }
  const columns: Column[] = [
    { name: "run", numeric: false, value: (run) => run.name, text: (run) => run.name },
    { name: "state", numeric: false, value: (run) => run.state, text: (run) => run.state },
    { name: "started", numeric: true, value: (run) => run.started, text: (run) => day(run.started) },
    { name: "step", numeric: true, value: (run) => run.step, text: (run) => String(run.step) },
    { name: "time", numeric: true, value: (run) => run.seconds, text: (run) => duration(run.seconds) },
    { name: "loss", numeric: true, value: (run) => Number(run.train?.["loss"] ?? NaN), text: (run) => number(run.train?.["loss"] as number | undefined) },
    ...[...metrics].sort().map((name) => ({ name: `test ${name}`, numeric: true, value: (run: Summary) => testNumber(run, name), text: (run: Summary) => number(testNumber(run, name)) })),
    ...differing(runs).slice(0, 6).map((flag) => ({ name: flag, numeric: false, value: (run: Summary) => { const text = run.flags[flag] ?? ""; return text !== "" && !Number.isNaN(Number(text)) ? Number(text) : text; }, text: (run: Summary) => run.flags[flag] ?? "" })),
    { name: "notes", numeric: false, value: (run) => run.notes.length, text: (run) => run.notes.map((note) => note.text).join(" · ").slice(0, 120) },
  ];
  return columns;
}

export class RunsView implements View {
  private runs: Summary[] = [];
  private columns: Column[] = [];
  private sortBy = "started";
  private down = true;
  private chosen = new Set<string>();
  private rows = new Map<string, { row: HTMLElement; text: string }>();
  private filter = h("input", { type: "search", id: "filter", placeholder: "name, state, lr=0.1 …", "aria-label": "Filter runs", oninput: () => this.show() }) as HTMLInputElement;
  private group = h("select", { "aria-label": "Group by", onchange: () => this.show() }) as HTMLSelectElement;
  private compare = h("button", { type: "button", class: "main", disabled: true, onclick: () => this.goCompare() }, "Compare") as HTMLButtonElement;
  private count = h("span", { class: "muted", role: "status" });
  private head = h("tr");
  private body = h("tbody");
  private timer = 0;

  constructor(private place: HTMLElement, reply: RunsReply) {
    replace(place, h("h2", {}, "Runs"),
      h("div", { class: "controls" }, h("label", {}, "Filter ", this.filter), h("label", {}, "Group by ", this.group), this.compare, this.count),
      h("div", { class: "card scroll", tabindex: 0, role: "region", "aria-label": "Runs" }, h("table", { id: "runs" }, h("caption", { class: "hidden" }, "Runs"), h("thead", {}, this.head), this.body)));
    this.take(reply.runs);
    this.timer = window.setInterval(() => void this.refresh(), 5000);
  }

  private async refresh(): Promise<void> {
    if (document.hidden) return;
    try {
      const { runs } = await getRuns();
      if (JSON.stringify(runs) !== JSON.stringify(this.runs)) this.take(runs);
    } catch { /* the header says that the server is away */ }
  }

  private take(runs: Summary[]): void {
    this.runs = runs;
    this.rows.clear();
    this.columns = columnsFor(runs);
    const group = this.group.value;
    replace(this.group, h("option", { value: "" }, "nothing"), differing(runs).map((flag) => h("option", { value: flag }, flag)));
    this.group.value = group;
    replace(this.head, h("th", { scope: "col" }, h("span", { class: "hidden" }, "Compare")), this.columns.map((column) =>
      h("th", { scope: "col", "data-column": column.name }, h("button", { type: "button", onclick: () => this.sort(column.name) }, column.name))));
    this.show();
  }

  private sort(name: string): void {
    this.down = this.sortBy === name ? !this.down : true;
    this.sortBy = name;
    this.show();
  }

  private element(run: Summary): { row: HTMLElement; text: string } {
    let known = this.rows.get(run.name);
    if (known) return known;
    const box = h("input", { type: "checkbox", "aria-label": `Compare ${run.name}`, onchange: () => this.choose(run.name, box.checked) }) as HTMLInputElement;
    box.checked = this.chosen.has(run.name);
    const row = h("tr", {}, h("td", {}, box), this.columns.map((column) => h("td", { class: column.numeric ? "nowrap" : "" },
      column.name === "run" ? h("a", { href: `/?run=${encodeURIComponent(run.name)}`, "data-link": true }, run.name)
        : column.name === "state" ? h("span", { class: `badge ${run.state}` }, run.state) : column.text(run))));
    const flags = Object.entries(run.flags).map(([flag, value]) => `${flag}=${value}`).join(" ");
    const text = `${run.name} ${run.state} ${flags} ${run.notes.map((note) => note.text).join(" ")}`.toLowerCase();
    known = { row, text };
    this.rows.set(run.name, known);
    return known;
  }

  private show(): void {
    const words = this.filter.value.toLowerCase().split(/\s+/).filter((word) => word !== "");
    const column = this.columns.find((one) => one.name === this.sortBy) ?? this.columns[0]!;
    const shown = this.runs.filter((run) => { const { text } = this.element(run); return words.every((word) => text.includes(word)); });
    const order = (a: string | number, b: string | number) => {
      if (typeof a === "number" && typeof b === "number") return Number.isNaN(a) ? (Number.isNaN(b) ? 0 : -1) : Number.isNaN(b) ? 1 : a - b;
      return String(a).localeCompare(String(b));
    };
    shown.sort((a, b) => (this.down ? -1 : 1) * order(column.value(a), column.value(b)));
    const flag = this.group.value;
    const parts: Node[] = [];
    if (flag === "") {
      for (const run of shown) parts.push(this.element(run).row);
    } else {
      const groups = new Map<string, Summary[]>();
      for (const run of shown) { const value = run.flags[flag] ?? ""; groups.set(value, [...(groups.get(value) ?? []), run]); }
      for (const [value, members] of [...groups].sort(([a], [b]) => a.localeCompare(b, undefined, { numeric: true }))) {
        parts.push(h("tr", {}, h("th", { colspan: this.columns.length + 1, scope: "rowgroup" }, `${flag} = ${value || "–"} (${members.length})`)));
        for (const run of members) parts.push(this.element(run).row);
      }
    }
    this.body.replaceChildren(...parts);
    for (const th of this.head.querySelectorAll("th[data-column]")) {
      if (th.getAttribute("data-column") === this.sortBy) th.setAttribute("aria-sort", this.down ? "descending" : "ascending");
      else th.removeAttribute("aria-sort");
    }
    this.count.textContent = `${shown.length} of ${this.runs.length}`;
  }

  private choose(name: string, on: boolean): void {
    if (on) this.chosen.add(name); else this.chosen.delete(name);
    this.compare.disabled = this.chosen.size < 2;
    this.compare.textContent = this.chosen.size > 0 ? `Compare ${this.chosen.size}` : "Compare";
  }

  private goCompare(): void {
    const query = new URLSearchParams({ compare: [...this.chosen].join("/") });
    history.pushState(null, "", `/?${query}`);
    dispatchEvent(new PopStateEvent("popstate"));
  }

  focusFilter(): void { this.filter.focus(); }
  recolour(): void { /* no charts */ }
  close(): void { clearInterval(this.timer); this.place.replaceChildren(); }
}
