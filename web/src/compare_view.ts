// Some runs over each other: each metric as one chart, and the flags in which they differ.

import { getRows, getRuns, type Summary } from "./api";
import { Chart, type Settings } from "./chart";
import { h, replace, table, fillRows } from "./dom";
import type { View } from "./main";
import { Rows } from "./rows";
import { differing } from "./runs_view";
import { chartControls } from "./controls";

export class CompareView implements View {
  private charts = new Map<string, Chart>();
  private data: { name: string; rows: Rows }[] = [];
  private settings: Settings = { logX: false, logY: false, smoothing: 0, x: "step" };
  private box = h("div", { class: "charts" });

  constructor(private place: HTMLElement, private names: string[]) {
    replace(place, h("h2", {}, `Comparing ${names.length} runs`), chartControls(this.settings, () => this.show()), this.box);
    void this.load();
  }

  private async load(): Promise<void> {
    const { runs } = await getRuns();
    const chosen = this.names.map((name) => runs.find((run) => run.name === name)).filter((run): run is Summary => run !== undefined);
    for (const run of chosen) {
      const rows = new Rows();
      rows.add(await getRows(run.name));
      this.data.push({ name: run.name, rows });
      this.show();
    }
    const { root, body } = table("Flags in which the runs differ", ["flag", ...chosen.map((run) => run.name)]);
    const flags = differing(chosen);
    fillRows(body, flags.map((flag) => [flag, ...chosen.map((run) => run.flags[flag] ?? "–")]));
    this.place.append(h("section", { class: "card" }, h("h2", {}, "Flags that differ"), flags.length > 0 ? root : h("p", { class: "muted" }, "none")));
  }

  private show(): void {
    const names = new Set(this.data.flatMap(({ rows }) => rows.names()));
    for (const name of names) {
      let chart = this.charts.get(name);
      if (!chart) {
        chart = new Chart(name, this.settings);
        this.charts.set(name, chart);
        this.box.append(chart.root);
      }
      const lines = this.data.flatMap((run) => run.rows.kinds(name).map((kind) => ({ name: `${run.name} ${kind}`, points: run.rows.line(name, kind) })));
      chart.set(lines, this.settings);
    }
  }

  recolour(): void { for (const chart of this.charts.values()) chart.recolour(); }
  close(): void { for (const chart of this.charts.values()) chart.destroy(); this.place.replaceChildren(); }
}
