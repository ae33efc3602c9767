// One run: is it learning, how fast, what is slow, who died and what happened then.

import { getLog, hasToken, listen, post, type LogEvent, type Member, type News, type Run, type Stack } from "./api";
import { Chart, type Settings } from "./chart";
import { chartControls } from "./controls";
import { bytes, clock, day, duration, fillRows, h, number, percent, replace, table, toast, whole } from "./dom";
import type { View } from "./main";
import { Rows, parseExpression, type Point } from "./rows";
import { TimelineView } from "./timeline_view";

const mostPoints = 1200; // of the speed of each worker, kept by this page
const mostLines = 64;

/// Where most of a worker's time goes, in a word.
export function boundBy(names: string[], phases: number[]): string {
  if (phases.length === 0 || phases.every((value) => value <= 0)) return "–";
  const of = (name: string) => phases[names.indexOf(name)] ?? 0;
  const shares: [string, number][] = [["compute", of("forward") + of("backward")], ...["data", "wait", "network", "update"].map((name): [string, number] => [name, of(name)])];
  return shares.sort((a, b) => b[1] - a[1])[0]![0];
}

const words: Record<string, string> = { wait: "waiting", data: "data", network: "network", update: "the update", compute: "compute" };

export class RunView implements View {
  private run: Run | null = null;
  private newRun = false;
  private newRows = false;
  private drawing = 0; // the frame that was asked for; 0 = none
  private rows = new Rows();
  private settings: Settings = { logX: false, logY: false, smoothing: 0, x: "step" };
  private charts = new Map<string, Chart>();
  private derived: string[] = [];
  private speeds = new Map<string, Point[]>();
  private earlier: { time: number; phases: Map<string, number[]> }[] = [];
  private feed: { close(): void };
  private speedSettings: Settings = { logX: false, logY: false, smoothing: 0, x: "time" };

  private alert = h("div", { id: "alert", role: "alert" });
  private tiles = h("dl", { class: "tiles", id: "tiles" });
  private chartBox = h("div", { class: "charts", id: "charts" });
  private speedChart = new Chart("samples/s per worker", this.speedSettings, 220);
  private speedBox = h("div");
  private slow = h("p", { id: "slow", class: "muted" });
  private phases = table("Where the time goes", ["worker", "bound by", "share of the time"]);
  private phaseLegend = h("ul", { class: "legend" });
  private recording: TimelineView;
  private members = table("Members", ["member", "pid", "host", "holds", "step", "samples/s", "doing", "memory", "CPU"]);
  private hosts = table("Hosts", ["host", "cores", "load", "memory", "free", "GPUs", "processes"]);
  private views = table("Views", ["view", "time", "workers", "servers", "reason", "recovery"]);
  private checkpoints = table("Checkpoints", ["step", "time", "size", "pause", "written in"]);
  private events = table("Events", ["time", "process", "what", "details"]);
  private hang = h("div", { id: "hang" });
  private stacks = h("div", { id: "stacks" });
  private log = h("pre", { id: "log", tabindex: 0, role: "log", "aria-label": "Log" });
  private notes = h("ul", { id: "notes" });
  private flags = table("Flags", ["flag", "value"]);
  private actions = h("div", { class: "controls", id: "actions" });
  private timeline = h("a", { hidden: true, download: "timeline.json" }, "timeline.json for Perfetto");
  private expression = h("input", { type: "text", id: "expression", placeholder: "exp(loss)", "aria-label": "Derived metric" }) as HTMLInputElement;
  private level = h("select", { "aria-label": "Least level", onchange: () => void this.showLog() }, ["info", "debug", "warning", "error"].map((name) => h("option", { value: name }, name))) as HTMLSelectElement;
  private process = h("select", { "aria-label": "Process", onchange: () => void this.showLog() }, h("option", { value: "" }, "all processes"), ["master", "worker", "server"].map((name) => h("option", { value: name }, name))) as HTMLSelectElement;

  constructor(private place: HTMLElement, private name: string, private onState: (run: Run | null, open: boolean) => void) {
    const section = (id: string, title: string, ...children: Node[]) => h("section", { id: `s-${id}`, "aria-label": title }, h("h2", {}, title), ...children);
    this.speedBox.append(this.speedChart.root);
    this.recording = new TimelineView(name);
    for (const one of [this.phases, this.members, this.hosts, this.flags]) one.root.classList.add("tall");
    this.checkpoints.root.classList.add("tall");
    this.views.root.classList.add("tall");
    this.events.root.classList.add("tall");
    this.log.classList.add("scroll", "tall");
    replace(place, this.alert,
      h("nav", { class: "sections", "aria-label": "Sections" }, [["metrics", "Metrics"], ["speed", "Speed"], ["timeline", "Timeline"], ["members", "Members"], ["history", "History"], ["hang", "Hang"], ["log", "Log"], ["about", "Flags and notes"]].map(([id, title]) => h("a", { href: `#s-${id}` }, title!))),
      this.tiles,
      section("metrics", "Metrics", h("div", { class: "row" }, chartControls(this.settings, () => this.showCharts()),
        h("form", { class: "controls", onsubmit: (event) => { event.preventDefault(); this.addDerived(); } }, h("label", {}, "Derived metric ", this.expression), h("button", { type: "submit" }, "Add"))),
        this.chartBox),
      section("speed", "Speed and where the time goes", this.slow, h("div", { class: "two" }, this.speedBox, h("div", { class: "card" }, h("h3", {}, "Where the time goes, over the last half minute"), this.phaseLegend, this.phases.root))),
      section("timeline", "Timeline of the last steps", this.recording.root),
      section("members", "Members and hosts", h("div", { class: "card" }, this.members.root), h("p", {}), h("div", { class: "card" }, this.hosts.root)),
      section("history", "Views, recoveries, checkpoints", h("div", { class: "two" }, h("div", { class: "card" }, h("h3", {}, "Views"), this.views.root), h("div", { class: "card" }, h("h3", {}, "Checkpoints"), this.checkpoints.root)), h("p", {}), h("div", { class: "card" }, h("h3", {}, "Events"), this.events.root)),
      section("hang", "Is it stuck?", h("div", { class: "card" }, this.hang, h("div", { class: "controls" }, h("button", { type: "button", id: "ask-stacks", onclick: () => void this.showStacks() }, "Stacks of all threads")), this.stacks)),
      section("log", "Log", h("div", { class: "card" }, h("div", { class: "controls" }, this.level, this.process, h("button", { type: "button", onclick: () => void this.showLog() }, "Load")), this.log)),
      section("about", "Flags, notes, actions", this.actions, h("div", { class: "two" }, h("div", { class: "card" }, h("h3", {}, "Notes"), this.notes), h("div", { class: "card" }, h("h3", {}, "Flags"), this.flags.root))));
    this.timeline.setAttribute("href", `/api/timeline?name=${encodeURIComponent(name)}`);
    this.makeActions();
    this.feed = listen(name, (news) => this.take(news), (open) => { this.onState(this.run, open); });
  }

  private take(news: News): void {
    if (news.reset) this.rows.clear();
    this.rows.add(news.rows);
    if (news.run) {
      this.run = news.run;
      this.noteSpeeds(news.run);
    }
    this.newRows ||= news.reset || news.rows.length > 0;
    this.newRun ||= news.run !== null;
    if (this.drawing === 0) this.drawing = requestAnimationFrame(() => this.draw());
    this.onState(this.run, true);
  }

  /// Shows what came since the last time, however much that was; not at all while nobody looks at the tab.
  private draw(): void {
    this.drawing = 0;
    if (this.newRun && this.run) this.show(this.run);
    if (this.newRows) this.showCharts();
    this.newRun = this.newRows = false;
  }

  // ---- Metrics.

  private showCharts(): void {
    const wanted: [string, { name: string; points: Point[] }[]][] = this.rows.names().map((name) => [name, this.rows.kinds(name).map((kind) => ({ name: kind, points: this.rows.line(name, kind) }))]);
    for (const expression of this.derived) wanted.push([expression, [{ name: "train", points: this.rows.derived(expression, "train") }, { name: "test", points: this.rows.derived(expression, "test") }].filter((line) => line.points.some((point) => !Number.isNaN(point.value)))]);
    for (const [name, lines] of wanted) {
      let chart = this.charts.get(name);
      if (!chart) {
        chart = new Chart(name, this.settings);
        this.charts.set(name, chart);
        this.chartBox.append(chart.root);
      }
      chart.set(lines, this.settings);
      chart.root.dataset["marks"] = String(chart.markCount());
    }
    if (wanted.length === 0) replace(this.chartBox, h("p", { class: "muted" }, "No rows of metrics yet."));
    else this.chartBox.querySelector(":scope > p")?.remove();
  }

  private addDerived(): void {
    const text = this.expression.value.trim();
    try {
      parseExpression(text);
    } catch (problem) {
      toast(`${text}: ${(problem as Error).message}`, true);
      return;
    }
    if (!this.derived.includes(text)) this.derived.push(text);
    this.expression.value = "";
    this.showCharts();
  }

  // ---- What the master says.

  private noteSpeeds(run: Run): void {
    if (!run.status) return;
    for (const worker of run.status.workers) {
      const name = `worker ${worker.slot}`;
      const points = this.speeds.get(name) ?? [];
      this.speeds.set(name, points);
      points.push({ step: run.status.now.step, time: run.now, seconds: run.now, value: worker.samples_per_s });
      if (points.length > mostPoints) points.splice(0, points.length, ...points.filter((_, index) => index % 2 === 1));
    }
    this.earlier.push({ time: run.now, phases: new Map(run.status.workers.map((worker) => [`worker ${worker.slot}`, worker.phases])) });
    while (this.earlier.length > 2 && this.earlier[1]!.time < run.now - 30) this.earlier.shift();
  }

  private show(run: Run): void {
    const status = run.status;
    this.showAlert(run);
    const tile = (name: string, value: string): [string, string] => [name, value];
    const last = run.train ?? ({} as Record<string, unknown>);
    const loss = status ? status.now.loss : (last["loss"] as number | undefined);
    const tiles = [
      tile("step", status ? (status.plan.steps > 0 ? `${whole(status.now.step)} / ${whole(status.plan.steps)}` : whole(status.now.step)) : whole(run.step)),
      tile("loss", number(loss)),
      ...(status ? [
        ...status.now.metrics.slice(0, 2).map((metric) => tile(metric.name, number(metric.value))),
        ...Object.entries(status.averages).slice(0, 3).map(([name, value]) => tile(name, number(value))),
        tile("samples/s", whole(status.now.samples_per_s)), tile("steps/s", number(status.steps_per_s, 3)),
        tile("workers", `${status.workers.length} / ${status.wanted_workers}`),
        ...(status.wanted_servers > 0 ? [tile("servers", `${status.servers.length} / ${status.wanted_servers}`)] : []),
        tile("view", String(status.view)),
        tile("bound by", this.boundByAll(run)),
      ] : [tile("time", duration(run.seconds))]),
      ...(!status && run.test ? Object.entries(run.test).filter(([name, value]) => typeof value === "number" && !["step", "time"].includes(name)).map(([name, value]) => tile(`test ${name}`, number(value as number))) : []),
      tile("goodput", percent(run.goodput)),
      tile("recoveries", String(run.history.recoveries)),
    ];
    this.showTiles(tiles);
    this.showSpeed(run);
    this.showMembers(run);
    this.showHistory(run);
    this.showHang(run);
    fillRows(this.flags.body, Object.entries(run.flags).filter(([, value]) => value !== "").sort(([a], [b]) => a.localeCompare(b)).map(([flag, value]) => [flag, value]));
    replace(this.notes, run.notes.length > 0 ? run.notes.map((note) => h("li", {}, `${day(note.time)}: ${note.text}`)) : h("li", { class: "muted" }, "none"));
    this.timeline.hidden = !run.timeline;
    for (const button of this.place.querySelectorAll<HTMLButtonElement>("[data-live]")) button.disabled = !run.live;
  }

  /// Numbers change in place, so that a reader's selection, or a screen reader, stays where it is.
  private showTiles(tiles: [string, string][]): void {
    const names = tiles.map(([name]) => name).join("\n");
    if (this.tiles.dataset["names"] !== names) {
      this.tiles.dataset["names"] = names;
      replace(this.tiles, tiles.map(([name]) => h("div", { class: "tile" }, h("dt", {}, name), h("dd"))));
    }
    tiles.forEach(([, value], index) => {
      const place = this.tiles.children[index]!.lastElementChild!;
      if (place.textContent !== value) place.textContent = value;
    });
  }

  private showAlert(run: Run): void {
    const lines: Node[] = [];
    if (run.hang?.hangs) {
      lines.push(h("div", { class: "alert" }, h("strong", {}, "It stands still: "), run.hang.summary, run.hang.culprits.length > 1 || run.hang.waiting.length > 0 ? h("ul", {}, run.hang.culprits.map((culprit) => h("li", {}, `${culprit.who}: ${culprit.what}`))) : null));
    }
    const slow = run.status?.stragglers ?? [];
    if (slow.length > 0) {
      lines.push(h("div", { class: "alert warn" }, h("strong", {}, "Slow: "), slow.map((one) => `worker ${one.slot} takes ${one.factor.toFixed(1)} times as long as the median, for ${duration(one.for_s)}`).join("; ")));
    }
    const failure = run.state === "failed" ? run.failure : run.status?.state === "failed" ? run.status.reason : "";
    if (failure) lines.push(h("div", { class: "alert" }, h("strong", {}, "It failed: "), failure));
    const text = lines.map((line) => line.textContent).join("\n");
    if (this.alert.dataset["text"] !== text) {
      this.alert.dataset["text"] = text;
      replace(this.alert, lines);
    }
  }

  private recentPhases(name: string, now: number[]): number[] {
    const before = this.earlier[0]?.phases.get(name);
    if (!before || before.length !== now.length) return now;
    const since = now.map((value, index) => value - before[index]!);
    return since.some((value) => value < 0) || since.every((value) => value === 0) ? now : since;
  }

  private boundByAll(run: Run): string {
    const sums = new Array<number>(run.phases.length).fill(0);
    for (const worker of run.status?.workers ?? []) this.recentPhases(`worker ${worker.slot}`, worker.phases).forEach((value, index) => { sums[index]! += value; });
    const word = boundBy(run.phases, sums);
    return words[word] ?? word;
  }

  private showSpeed(run: Run): void {
    const workers = run.status?.workers ?? [];
    document.getElementById("s-speed")!.hidden = workers.length === 0;
    if (workers.length === 0) return;
    let names = [...this.speeds.keys()];
    if (names.length > mostLines) { // the slowest are of interest
      const slowest = [...workers].sort((a, b) => a.samples_per_s - b.samples_per_s).slice(0, 16).map((worker) => `worker ${worker.slot}`);
      names = names.filter((name) => slowest.includes(name));
    }
    this.speedChart.set(names.map((name) => ({ name, points: this.speeds.get(name)! })), this.speedSettings);
    const slow = run.status!.stragglers;
    this.slow.textContent = slow.length === 0 ? "No worker is much slower than the others."
      : slow.map((one) => `worker ${one.slot} is slow: ${one.factor.toFixed(1)} times the median, for ${duration(one.for_s)}`).join("; ");
    replace(this.phaseLegend, run.phases.map((name, index) => { const mark = h("i"); mark.style.background = `var(--p${index})`; return h("li", {}, mark, name); }));
    fillRows(this.phases.body, workers.map((worker) => {
      const phases = this.recentPhases(`worker ${worker.slot}`, worker.phases);
      const all = phases.reduce((sum, value) => sum + value, 0);
      const shares = run.phases.map((name, index) => `${name} ${percent(all > 0 ? phases[index]! / all : 0)}`).join(", ");
      const bar = h("div", { class: "bar", role: "img", "aria-label": shares, title: shares }, phases.map((value, index) => {
        const part = h("i");
        part.style.width = `${all > 0 ? (100 * value) / all : 0}%`;
        part.style.background = `var(--p${index})`;
        return part;
      }));
      const word = boundBy(run.phases, phases);
      return [`worker ${worker.slot}`, words[word] ?? word, bar];
    }), (index) => (slow.some((one) => one.slot === workers[index]!.slot) ? "warn" : ""));
  }

  private showMembers(run: Run): void {
    const status = run.status;
    document.getElementById("s-members")!.hidden = !status;
    if (!status) return;
    const all: [string, Member, string][] = [
      ...status.workers.map((one): [string, Member, string] => ["worker", one, status.plan.leased ? "leased" : one.holds || `${one.lanes} lanes`]),
      ...status.others.map((one): [string, Member, string] => ["worker", one, "catches up, or in reserve"]),
      ...status.servers.map((one): [string, Member, string] => ["server", one, one.holds || `${one.primary} shards, ${one.copies} copies`]),
    ];
    fillRows(this.members.body, all.map(([role, one, holds]) => [`${role} ${one.slot}`, String(one.pid), one.load.name || one.host, holds,
      role === "worker" ? String(one.clock) : "", role === "worker" ? whole(one.samples_per_s) : "",
      one.silent_s >= 1 ? `silent for ${duration(one.silent_s)}` : one.activity.what ? `${one.activity.what}, step ${one.activity.step}` : "",
      one.load.cores > 0 ? bytes(one.load.resident) : "", one.load.cores > 0 ? duration(one.load.cpu_s) : ""]),
      (index) => (all[index]![1].silent_s >= 1 ? "bad" : ""));
    const hosts = new Map<string, { one: Member; count: number }>();
    for (const [, one] of all) if (one.load.cores > 0) hosts.set(one.load.name, { one, count: (hosts.get(one.load.name)?.count ?? 0) + 1 });
    fillRows(this.hosts.body, [...hosts].map(([name, { one, count }]) => [name, String(one.load.cores), number(one.load.load, 3), bytes(one.load.memory), bytes(one.load.free), (one.load.gpus ?? []).map((gpu) => `${gpu.name} ${percent(gpu.use)}, ${bytes(gpu.used)} of ${bytes(gpu.memory)}`).join("; ") || "none", String(count)]));
  }

  private showHistory(run: Run): void {
    fillRows(this.views.body, [...run.history.views].reverse().slice(0, 200).map((view) => [String(view.view), clock(view.time), String(view.workers), String(view.servers), view.reason, view.recovery_s === null ? "" : duration(view.recovery_s)]));
    fillRows(this.checkpoints.body, [...run.history.checkpoints].reverse().slice(0, 200).map((one) => one.failure ? [String(one.step), clock(one.time), "failed", "", one.failure] : [String(one.step), clock(one.time), bytes(one.bytes), duration(one.pause_s), duration(one.seconds)]));
    const details = (event: LogEvent) => event.fields["reason"] ?? Object.entries(event.fields).filter(([, value]) => value !== "").map(([name, value]) => `${name} ${value}`).join(", ");
    const events = [...run.history.events].reverse().slice(0, 200);
    fillRows(this.events.body, events.map((event) => [clock(event.time), event.process, event.message, details(event)]), (index) => (events[index]!.level === "error" ? "bad" : events[index]!.level === "warning" ? "warn" : ""));
  }

  // ---- When it hangs.

  private showHang(run: Run): void {
    const hang = run.hang;
    document.getElementById("s-hang")!.hidden = !run.live;
    document.getElementById("s-timeline")!.hidden = !run.live;
    if (!hang) return;
    if (!hang.hangs) replace(this.hang, h("p", {}, "No: steps are made, and every process was heard of within the last second."));
    else replace(this.hang, h("p", {}, h("strong", {}, hang.summary)),
      hang.culprits.length > 1 || hang.waiting.length > 0 ? h("ul", {}, hang.culprits.map((one) => h("li", {}, `${one.who}: ${one.what}`))) : null,
      hang.waiting.length > 0 ? h("p", {}, "Waiting meanwhile:") : null,
      hang.waiting.length > 0 ? h("ul", {}, hang.waiting.map((one) => h("li", {}, one))) : null);
  }

  private async showStacks(): Promise<void> {
    replace(this.stacks, h("p", { class: "muted" }, "asking all processes …"));
    try {
      const all = await post<Stack[]>("stacks", this.name);
      replace(this.stacks, all.map((process) => {
        const answered = process.threads.some((thread) => thread.frames.length > 0);
        const text = process.threads.map((thread) => `thread ${thread.id} ${thread.name} (${thread.state})\n${thread.frames.map((frame) => `    ${frame}`).join("\n")}`).join("\n");
        return h("details", { class: "stack" }, h("summary", {}, `${process.process}, pid ${process.pid}: ${process.threads.length} threads${process.threads.length === 0 ? ", on another host or gone" : answered ? "" : ", does not answer"}`), h("pre", {}, text));
      }));
    } catch (problem) {
      replace(this.stacks);
      toast((problem as Error).message, true);
    }
  }

  private async showLog(): Promise<void> {
    try {
      const lines = await getLog(this.name, this.level.value, this.process.value);
      this.log.textContent = lines.map((line) => (line.level ? line.text : `[${line.process}] ${line.text}`)).join("\n") || "nothing";
      this.log.scrollTop = this.log.scrollHeight;
    } catch (problem) {
      toast((problem as Error).message, true);
    }
  }

  // ---- Actions.

  private makeActions(): void {
    const workers = h("input", { type: "number", min: 1, id: "scale-workers", "aria-label": "Number of workers" }) as HTMLInputElement;
    const note = h("input", { type: "text", id: "note", maxlength: 1000, placeholder: "what was tried here", "aria-label": "Note" }) as HTMLInputElement;
    const act = async (action: string, body: object, done: string) => {
      try {
        await post(action, this.name, body);
        toast(done);
        return true;
      } catch (problem) {
        toast((problem as Error).message, true);
        return false;
      }
    };
    replace(this.actions,
      h("label", {}, "Workers ", workers), h("button", { type: "button", id: "scale", "data-live": true, onclick: () => void act("scale", { workers: Number(workers.value) }, `asked for ${workers.value} workers`) }, "Scale"),
      h("label", {}, "Note ", note), h("button", { type: "button", id: "annotate", onclick: () => void act("annotate", { text: note.value }, "noted").then((done) => { if (done) note.value = ""; }) }, "Annotate"),
      h("button", { type: "button", id: "checkpoint", "data-live": true, onclick: () => void act("checkpoint", {}, "asked for a checkpoint: it will be listed in the history") }, "Checkpoint now"),
      h("button", { type: "button", id: "stop", "data-live": true, onclick: () => { if (confirm("End the run after this step? It can be resumed.")) void act("stop", {}, "it ends after this step"); } }, "Stop after this step"),
      this.timeline,
      hasToken() ? null : h("span", { class: "muted" }, "Actions need the token: open the link that trireme printed."));
  }

  recolour(): void { this.recording.draw(); this.speedChart.recolour(); for (const chart of this.charts.values()) chart.recolour(); }

  close(): void {
    this.feed.close();
    cancelAnimationFrame(this.drawing);
    this.speedChart.destroy();
    this.recording.close();
    for (const chart of this.charts.values()) chart.destroy();
    this.place.replaceChildren();
  }
}
