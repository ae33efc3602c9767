// A chart of lines: zoom by dragging, back by a double click; logarithmic axes, smoothing, marks for NaN and Inf, export.

import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { download, h, number } from "./dom";
import { smooth, type Point } from "./rows";

export interface Line { name: string; points: Point[] }
export interface Settings { logX: boolean; logY: boolean; smoothing: number; x: "step" | "time" }

const palette = ["--c0", "--c1", "--c2", "--c3", "--c4", "--c5", "--c6", "--c7"];
const css = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const colour = (index: number) => css(palette[index % palette.length]!);

export class Chart {
  readonly root: HTMLElement;
  private box = h("div", { class: "plot" });
  private plot: uPlot | null = null;
  private lines: Line[] = [];
  private marks: { x: number; line: number; what: string }[] = [];
  private data: uPlot.AlignedData = [[]];
  private shape = "";
  private heading: HTMLElement;
  private alternative = h("p", { class: "hidden" });

  constructor(private title: string, private settings: Settings, private height = 240, private unit = "") {
    this.heading = h("h3", {}, title);
    this.root = h("figure", { class: "card chart", "aria-label": title },
      h("figcaption", {}, this.heading,
        h("span", { class: "tools" },
          h("button", { type: "button", title: `${title} as CSV`, onclick: () => this.csv() }, "CSV"),
          h("button", { type: "button", title: `${title} as PNG`, onclick: () => void this.png() }, "PNG"))),
      this.box, this.alternative);
    new ResizeObserver(() => this.resize()).observe(this.box);
  }

  set(lines: Line[], settings: Settings): void {
    this.lines = lines;
    this.settings = settings;
    this.align();
    const shape = JSON.stringify([lines.map((line) => line.name), settings.logX, settings.logY, settings.x, document.documentElement.dataset["theme"]]);
    if (shape !== this.shape || !this.plot) {
      this.shape = shape;
      this.make();
    } else {
      const zoomed = this.zoomed();
      this.plot.setData(this.data, !zoomed);
      if (zoomed) this.plot.redraw();
    }
    this.alternative.textContent = lines.map((line) => {
      const last = line.points[line.points.length - 1];
      return last ? `${line.name}: ${number(last.value)} at step ${last.step}` : "";
    }).join("; ");
  }

  /// Redraws with the colours of the theme that is on now.
  recolour(): void { this.shape = ""; if (this.lines.length > 0) this.set(this.lines, this.settings); }

  /// uPlot wants one x for all lines: gaps are undefined, what cannot be drawn is null.
  private align(): void {
    const byStep = this.settings.x === "step";
    const place = new Map<number, number>();
    const xOf = (point: Point) => (byStep ? point.step : point.time);
    for (const line of this.lines) for (const point of line.points) {
      const x = xOf(point);
      if (!this.settings.logX || x > 0) place.set(x, 0);
    }
    const xs = [...place.keys()].sort((a, b) => a - b);
    xs.forEach((x, index) => place.set(x, index));
    this.marks = [];
    const columns = this.lines.map((line, index) => {
      const values = new Array<number | null | undefined>(xs.length).fill(undefined);
      const raw = line.points.map((point) => (Number.isFinite(point.value) && (!this.settings.logY || point.value > 0) ? point.value : null));
      const smoothed = smooth(raw, this.settings.smoothing);
      line.points.forEach((point, i) => {
        const at = place.get(xOf(point));
        if (at === undefined) return;
        values[at] = smoothed[i];
        if (!Number.isFinite(point.value)) this.marks.push({ x: xOf(point), line: index, what: number(point.value) });
      });
      return values;
    });
    this.data = [xs, ...columns] as uPlot.AlignedData;
  }

  private zoomed(): boolean {
    const scale = this.plot?.scales["x"];
    const xs = this.plot?.data[0];
    if (!scale || !xs || xs.length < 2) return false;
    return scale.min! > xs[0]! || scale.max! < xs[xs.length - 1]!;
  }

  private make(): void {
    this.plot?.destroy();
    const text = css("--text-2");
    const grid = { stroke: css("--line"), width: 1 };
    const axis = { stroke: text, grid, ticks: grid, font: "12px system-ui, sans-serif" };
    const time = this.settings.x === "time";
    const options: uPlot.Options = {
      width: Math.max(200, this.box.clientWidth || 400), height: this.height,
      scales: { x: { time, distr: this.settings.logX && !time ? 3 : 1 }, y: { distr: this.settings.logY ? 3 : 1 } },
      axes: [
        { ...axis, values: time ? undefined : (_, ticks) => ticks.map((tick) => (tick === null ? "" : number(tick))) },
        { ...axis, size: 72, values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : number(tick, 5) + this.unit)) },
      ],
      series: [
        { label: time ? "time" : "step", value: time ? undefined : (_, value) => (value === null ? "–" : String(value)) },
        ...this.lines.map((line, index) => ({
          label: line.name, stroke: colour(index), width: 1.5, spanGaps: false,
          points: { show: line.points.length < 3, size: 6 },
          gaps: (_: uPlot, __: number, ___: number, ____: number, gaps: [number, number][]) => gaps,
          value: (_: uPlot, value: number | null) => number(value, 5) + (value === null ? "" : this.unit),
        })),
      ],
      legend: { live: true },
      cursor: { drag: { x: true, y: false }, focus: { prox: 24 } },
      hooks: { draw: [(plot) => this.drawMarks(plot)] },
    };
    this.box.replaceChildren();
    this.plot = new uPlot(options, this.data, this.box);
    // With many lines the legend would be longer than the chart.
    this.root.classList.toggle("many", this.lines.length > 8);
  }

  /// Where a value is NaN or infinite there is nothing to draw a line to: a triangle on the axis says that it was there.
  private drawMarks(plot: uPlot): void {
    const { ctx } = plot;
    const bottom = plot.bbox.top + plot.bbox.height;
    const size = 5 * devicePixelRatio;
    ctx.save();
    for (const mark of this.marks) {
      const x = plot.valToPos(mark.x, "x", true);
      if (x < plot.bbox.left || x > plot.bbox.left + plot.bbox.width) continue;
      ctx.fillStyle = colour(mark.line);
      ctx.beginPath();
      ctx.moveTo(x, bottom - 2.2 * size);
      ctx.lineTo(x + size, bottom);
      ctx.lineTo(x - size, bottom);
      ctx.closePath();
      ctx.fill();
      ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
      ctx.textAlign = "center";
      ctx.fillText(mark.what === "–" ? "NaN" : mark.what, x, bottom - 2.8 * size);
    }
    ctx.restore();
  }

  /// How many marks there are: for people who cannot see them, and for tests.
  markCount(): number { return this.marks.length; }

  private resize(): void {
    if (this.plot && this.box.clientWidth > 0 && this.plot.width !== this.box.clientWidth) this.plot.setSize({ width: this.box.clientWidth, height: this.height });
  }

  private fileName(ending: string): string { return `${this.title.replace(/[^A-Za-z0-9_-]+/g, "-")}.${ending}`; }

  csv(): void {
    const quote = (text: string) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
    // A cell that begins like a formula would be one in a spreadsheet.
    const safe = (text: string) => quote(/^[=+\-@\t]/.test(text) ? `'${text}` : text);
    const rows = ["series,step,time,value"];
    for (const line of this.lines) for (const point of line.points) rows.push(`${safe(line.name)},${point.step},${point.time},${point.value}`);
    download(this.fileName("csv"), new Blob([rows.join("\n") + "\n"], { type: "text/csv" }));
  }

  async png(): Promise<void> {
    if (!this.plot) return;
    const from = this.plot.ctx.canvas;
    const scale = devicePixelRatio;
    const head = 30 * scale;
    const foot = 22 * scale * Math.ceil(Math.min(this.lines.length, 8) / 4);
    const canvas = document.createElement("canvas");
    canvas.width = from.width;
    canvas.height = from.height + head + foot;
    const ctx = canvas.getContext("2d")!;
    ctx.fillStyle = css("--card");
    ctx.fillRect(0, 0, canvas.width, canvas.height);
    ctx.drawImage(from, 0, head);
    ctx.fillStyle = css("--text");
    ctx.font = `600 ${14 * scale}px system-ui, sans-serif`;
    ctx.fillText(this.title, 12 * scale, 20 * scale);
    ctx.font = `${12 * scale}px system-ui, sans-serif`;
    this.lines.slice(0, 8).forEach((line, index) => {
      ctx.fillStyle = colour(index);
      ctx.fillText(`— ${line.name}`.slice(0, 40), 12 * scale + ((index % 4) * canvas.width) / 4, head + from.height + (16 + 22 * Math.floor(index / 4)) * scale);
    });
    const blob = await new Promise<Blob | null>((done) => canvas.toBlob(done, "image/png"));
    if (blob) download(this.fileName("png"), blob);
  }

  destroy(): void { this.plot?.destroy(); this.plot = null; }
}
