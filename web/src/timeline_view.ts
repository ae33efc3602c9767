// The last steps of all processes on one clock: what each did when. Zoom by wheel, keys or dragging; a click tells more.

import { post, recordedAddress, recordedSpans, type Recorded } from "./api";
import { h, replace, toast } from "./dom";

const rowHeight = 18;
const headHeight = 20;
const labelWidth = 128;
const answerWithin = 3000; // of the processes: they are asked with their next heartbeat

/// `gap` is the longest part of it before `covered` in which nothing else lies: room for its name.
interface Box { name: string; begin: number; end: number; step: number | null; row: number; depth: number; gap: [number, number]; covered: number }
interface RowInfo { label: string; process: boolean }

const css = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const colours: Record<string, string> = { data: "--p0", forward: "--p1", backward: "--p2", wait: "--p3", push: "--p4", pull: "--p4", ask: "--p4", average: "--p4", update: "--p5", step: "--line" };
const colourOf = (name: string) => css(colours[name] ?? (name.startsWith("all-reduce") ? "--p4" : "--p6"));

const longer = (one: [number, number], other: [number, number]): [number, number] => (other[1] - other[0] > one[1] - one[0] ? other : one);

/// Microseconds for people.
export function micro(value: number): string {
  const size = Math.abs(value);
  if (size >= 1e6) return `${(value / 1e6).toFixed(3)} s`;
  if (size >= 1000) return `${(value / 1000).toFixed(size >= 1e5 ? 0 : 2)} ms`;
  return `${value.toFixed(size >= 100 ? 0 : 1)} µs`;
}

export class TimelineView {
  readonly root: HTMLElement;
  private canvas = h("canvas", { tabindex: 0, role: "img", id: "timeline", "aria-label": "Timeline" }) as HTMLCanvasElement;
  private said = h("p", { class: "muted", id: "timeline-said", role: "status" }, "Every process remembers its last steps. Ask for them, and see who did what when.");
  private chosen = h("p", { id: "timeline-chosen", class: "muted" });
  private steps = h("input", { type: "number", min: 1, max: 100, value: 3, id: "record-steps", "aria-label": "How many of the last steps" }) as HTMLInputElement;
  private perfetto = h("a", { hidden: true, id: "perfetto", download: "timeline.json" }, "Download for Perfetto");
  private box = h("div", { class: "scroll tall", hidden: true }, this.canvas);
  private boxes: Box[] = [];
  private rows: RowInfo[] = [];
  private end = 1; // of all, in microseconds
  private from = 0;
  private to = 1; // what is shown
  private dragFrom: number | null = null;
  private drawing = 0;
  private waiting = 0;

  constructor(private run: string) {
    const ask = h("button", { type: "button", id: "record", "data-live": true, onclick: () => void this.record() }, "Record");
    const zoom = (label: string, factor: number) => h("button", { type: "button", title: label, "aria-label": label, onclick: () => this.zoom(factor, 0.5) }, factor < 1 ? "+" : "−");
    this.root = h("div", { class: "card" },
      h("div", { class: "controls" }, h("label", {}, "Steps ", this.steps), ask, zoom("Zoom in", 0.5), zoom("Zoom out", 2),
        h("button", { type: "button", onclick: () => this.show(0, this.end) }, "All"), this.perfetto),
      this.said, this.box, this.chosen);
    this.canvas.addEventListener("wheel", (event) => {
      const sideways = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
      if (!event.ctrlKey && !sideways) return; // the page scrolls
      event.preventDefault();
      if (sideways) this.move(((event.deltaX || event.deltaY) / this.width()) * (this.to - this.from));
      else this.zoom(event.deltaY > 0 ? 1.25 : 0.8, (this.timeAt(event.offsetX) - this.from) / (this.to - this.from));
    }, { passive: false });
    this.canvas.addEventListener("pointerdown", (event) => { this.dragFrom = event.offsetX; this.canvas.setPointerCapture(event.pointerId); });
    this.canvas.addEventListener("pointermove", (event) => {
      if (this.dragFrom === null) { this.canvas.title = this.describe(this.find(event.offsetX, event.offsetY)); return; }
      this.move(((this.dragFrom - event.offsetX) / this.width()) * (this.to - this.from));
      this.dragFrom = event.offsetX;
    });
    this.canvas.addEventListener("pointerup", (event) => { this.dragFrom = null; this.choose(this.find(event.offsetX, event.offsetY)); });
    this.canvas.addEventListener("dblclick", () => this.show(0, this.end));
    this.canvas.addEventListener("keydown", (event) => {
      const span = this.to - this.from;
      const keys: Record<string, () => void> = {
        "+": () => this.zoom(0.5, 0.5), "=": () => this.zoom(0.5, 0.5), w: () => this.zoom(0.5, 0.5), "-": () => this.zoom(2, 0.5), s: () => this.zoom(2, 0.5),
        ArrowLeft: () => this.move(-0.2 * span), a: () => this.move(-0.2 * span), ArrowRight: () => this.move(0.2 * span), d: () => this.move(0.2 * span), 0: () => this.show(0, this.end),
      };
      const action = keys[event.key];
      if (action && !event.ctrlKey && !event.metaKey) { action(); event.preventDefault(); event.stopPropagation(); }
    });
    new ResizeObserver(() => this.draw()).observe(this.box);
  }

  private async record(): Promise<void> {
    try {
      const { request } = await post<{ request: number }>("record", this.run, { steps: Number(this.steps.value) || 3 });
      this.said.textContent = "asking all processes …";
      const began = Date.now();
      const look = async (): Promise<void> => {
        const recorded = await recordedSpans(this.run, request);
        if (recorded.missing.length > 0 && Date.now() - began < answerWithin) {
          this.waiting = window.setTimeout(() => void look().catch(failed), 150);
          return;
        }
        this.take(recorded);
        this.perfetto.hidden = false;
        this.perfetto.setAttribute("href", recordedAddress(this.run, request, "perfetto"));
      };
      const failed = (problem: unknown) => { this.said.textContent = ""; toast((problem as Error).message, true); };
      await look().catch(failed);
    } catch (problem) {
      toast((problem as Error).message, true);
    }
  }

  private take(recorded: Recorded): void {
    this.rows = [];
    this.boxes = [];
    this.end = 1;
    for (const process of recorded.processes) {
      this.rows.push({ label: process.process, process: true });
      for (const thread of process.threads) {
        this.rows.push({ label: thread.name, process: false });
        const row = this.rows.length - 1;
        const open: Box[] = []; // those around it
        const spans = [...thread.spans].sort((a, b) => a[1] - b[1] || b[2] - a[2]);
        for (const [name, begin, length, step] of spans) {
          const end = begin + length;
          while (open.length > 0 && open[open.length - 1]!.end <= begin + 0.0005) open.pop();
          const around = open[open.length - 1];
          if (around) {
            around.gap = longer(around.gap, [around.covered, begin]);
            around.covered = end;
          }
          const box: Box = { name, begin, end, step, row, depth: open.length, gap: [begin, begin], covered: begin };
          this.boxes.push(box);
          open.push(box);
          this.end = Math.max(this.end, end);
        }
      }
    }
    const steps = [...new Set(this.boxes.map((one) => one.step).filter((step): step is number => step !== null))].sort((a, b) => a - b);
    const error = recorded.error_us === null ? "of some processes the clock is not known" : `clocks agree to ±${micro(recorded.error_us)}`;
    this.said.textContent = `${recorded.processes.length} processes, ${this.boxes.length} spans${steps.length > 0 ? `, steps ${steps[0]} to ${steps[steps.length - 1]}` : ""}; ${error}${recorded.contradiction ? " (and contradict each other)" : ""}${recorded.missing.length > 0 ? `; no answer from ${recorded.missing.join(", ")}` : ""}`;
    this.canvas.setAttribute("aria-label", `Timeline: ${this.said.textContent}`);
    this.box.hidden = false;
    this.choose(null);
    this.show(0, this.end);
  }

  private width(): number { return Math.max(50, this.canvas.clientWidth - labelWidth); }
  private timeAt(x: number): number { return this.from + ((x - labelWidth) / this.width()) * (this.to - this.from); }

  private show(from: number, to: number): void {
    const least = Math.min(0.5, this.end);
    const span = Math.min(this.end, Math.max(least, to - from));
    this.from = Math.max(0, Math.min(this.end - span, from));
    this.to = this.from + span;
    this.root.dataset["shown"] = `${this.from.toFixed(1)} ${this.to.toFixed(1)}`;
    if (this.drawing === 0) this.drawing = requestAnimationFrame(() => { this.drawing = 0; this.draw(); });
  }

  private zoom(factor: number, around: number): void {
    const span = (this.to - this.from) * factor;
    const centre = this.from + around * (this.to - this.from);
    this.show(centre - around * span, centre + (1 - around) * span);
  }
  private move(by: number): void { this.show(this.from + by, this.to + by); }

  private find(x: number, y: number): Box | null {
    const time = this.timeAt(x);
    const row = Math.floor((y - headHeight) / rowHeight);
    const hits = this.boxes.filter((one) => one.row === row && one.begin <= time && time <= one.end);
    return hits.sort((a, b) => b.depth - a.depth)[0] ?? null;
  }
  private processOf(row: number): string {
    while (row > 0 && !this.rows[row]!.process) --row;
    return this.rows[row]?.label ?? "";
  }
  private describe(one: Box | null): string {
    return one ? `${one.name}${one.step === null ? "" : ` of step ${one.step}`}: ${micro(one.end - one.begin)}, from ${micro(one.begin)} on (${this.processOf(one.row)}, ${this.rows[one.row]!.label})` : "";
  }
  private choose(one: Box | null): void { this.chosen.textContent = one ? this.describe(one) : "Click on a span for its name and time. Ctrl and wheel, or + and −: zoom; drag, or arrow keys: move."; }

  draw(): void {
    if (this.boxes.length === 0 || this.box.hidden) return;
    const scale = devicePixelRatio;
    const width = this.box.clientWidth;
    const height = headHeight + this.rows.length * rowHeight + 2;
    if (this.canvas.width !== Math.round(width * scale) || this.canvas.height !== Math.round(height * scale)) {
      this.canvas.width = Math.round(width * scale);
      this.canvas.height = Math.round(height * scale);
      this.canvas.style.width = `${width}px`;
      this.canvas.style.height = `${height}px`;
    }
    const ctx = this.canvas.getContext("2d")!;
    ctx.setTransform(scale, 0, 0, scale, 0, 0);
    ctx.clearRect(0, 0, width, height);
    const place = (time: number) => labelWidth + ((time - this.from) / (this.to - this.from)) * (width - labelWidth);
    this.drawAxis(ctx, height, width, place);
    ctx.font = "11px system-ui, sans-serif";
    ctx.textBaseline = "middle";
    for (const one of this.boxes) {
      if (one.end < this.from || one.begin > this.to) continue;
      const left = Math.max(labelWidth, place(one.begin));
      const right = Math.min(width, place(one.end));
      const inset = Math.min(3 * one.depth, rowHeight / 2 - 3);
      const top = headHeight + one.row * rowHeight + inset;
      ctx.fillStyle = colourOf(one.name);
      ctx.fillRect(left, top, Math.max(1, right - left - 0.5), rowHeight - 2 - inset);
      const [gapBegin, gapEnd] = longer(one.gap, [one.covered, one.end]);
      const from = Math.max(labelWidth, place(gapBegin));
      const room = Math.min(width, place(gapEnd)) - from;
      if (room > 30) {
        ctx.save();
        ctx.beginPath();
        ctx.rect(from, top, room - 2, rowHeight);
        ctx.clip();
        ctx.fillStyle = one.name === "step" ? css("--text") : css("--card");
        ctx.fillText(one.name === "step" ? `step ${one.step}` : one.name, from + 3, top + (rowHeight - 2 - inset) / 2);
        ctx.restore();
      }
    }
    ctx.textAlign = "left";
    this.rows.forEach((row, index) => {
      ctx.fillStyle = row.process ? css("--text") : css("--text-2");
      ctx.font = `${row.process ? "600 " : ""}12px system-ui, sans-serif`;
      ctx.fillText(row.label, row.process ? 2 : 12, headHeight + (index + 0.5) * rowHeight, labelWidth - 14);
    });
  }

  private drawAxis(ctx: CanvasRenderingContext2D, height: number, width: number, place: (time: number) => number): void {
    const span = this.to - this.from;
    const rough = span / Math.max(2, (width - labelWidth) / 110);
    const power = 10 ** Math.floor(Math.log10(rough));
    const tick = [1, 2, 5, 10].map((times) => times * power).find((one) => one >= rough)!;
    ctx.font = "11px system-ui, sans-serif";
    ctx.textBaseline = "middle";
    for (let time = Math.ceil(this.from / tick) * tick; time <= this.to; time += tick) {
      const x = Math.round(place(time)) + 0.5;
      ctx.fillStyle = css("--line");
      ctx.fillRect(x, headHeight - 4, 1, height);
      ctx.fillStyle = css("--text-2");
      ctx.textAlign = x > width - 40 ? "right" : "left";
      ctx.fillText(micro(time), x, headHeight / 2 - 2);
    }
    ctx.textAlign = "left";
  }

  close(): void { clearTimeout(this.waiting); cancelAnimationFrame(this.drawing); replace(this.root); }
}
