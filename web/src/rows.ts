// Rows of metrics as lines of a chart.

import type { Row } from "./api";

export interface Point { step: number; time: number; seconds: number; value: number }

const notMetrics = new Set(["step", "time", "kind", "set", "not_finite", "epoch", "samples", "seconds", "interval_s", "clock_min", "clock_max"]);

/// All values of a run, by kind of row ("train", "test") and name. A later row of a step replaces all from that step on:
/// what was computed before a resume leaves no zigzag.
export class Rows {
  private lines = new Map<string, Map<string, Point[]>>();
  rows: Row[] = [];

  clear(): void { this.lines.clear(); this.rows = []; }

  add(rows: Row[]): void {
    for (const row of rows) this.addOne(row);
  }

  private addOne(row: Row): void {
    const kind = typeof row["kind"] === "string" ? (row["kind"] as string) : "train";
    this.dropReplaced(row.step, kind);
    this.rows.push(row);
    const broken = (row["not_finite"] ?? {}) as Record<string, string>;
    for (const [name, raw] of Object.entries(row)) {
      if (notMetrics.has(name)) continue;
      let value: number;
      if (typeof raw === "number") value = raw;
      else if (raw === null && name in broken) value = broken[name] === "inf" ? Infinity : broken[name] === "-inf" ? -Infinity : NaN;
      else continue;
      const byName = this.lines.get(name) ?? new Map<string, Point[]>();
      this.lines.set(name, byName);
      const line = byName.get(kind) ?? [];
      byName.set(kind, line);
      while (line.length > 0 && line[line.length - 1]!.step >= row.step) line.pop();
      line.push({ step: row.step, time: Number(row["time"] ?? 0), seconds: Number(row["seconds"] ?? 0), value });
    }
  }

  /// Rows of another kind stand between those of this one, and stay.
  private dropReplaced(step: number, kind: string): void {
    let from = this.rows.length;
    while (from > 0 && (this.rows[from - 1]!.step >= step || !this.sameKind(this.rows[from - 1]!, kind))) --from;
    const last = this.rows.splice(from);
    for (const row of last) {
      if (row.step < step || !this.sameKind(row, kind)) this.rows.push(row);
    }
  }

  private sameKind(row: Row, kind: string): boolean { return (row["kind"] ?? "train") === kind; }

  /// The loss first, then the task's metrics, speed and rate last.
  names(): string[] {
    const rank = (name: string) => (name === "loss" ? 0 : name === "lr" ? 8 : name === "samples_per_s" ? 9 : 1);
    return [...this.lines.keys()].sort((a, b) => rank(a) - rank(b) || a.localeCompare(b));
  }

  kinds(name: string): string[] { return [...(this.lines.get(name)?.keys() ?? [])].sort((a, b) => (a === "train" ? -1 : b === "train" ? 1 : a.localeCompare(b))); }
  line(name: string, kind: string): Point[] { return this.lines.get(name)?.get(kind) ?? []; }

  /// The values of an expression over the metrics of rows of one kind, such as `exp(loss)` or `loss / accuracy`.
  derived(expression: string, kind: string): Point[] {
    const compute = parseExpression(expression);
    const points: Point[] = [];
    for (const row of this.rows) {
      if (!this.sameKind(row, kind)) continue;
      const value = compute((name) => (typeof row[name] === "number" ? (row[name] as number) : NaN));
      points.push({ step: row.step, time: Number(row["time"] ?? 0), seconds: Number(row["seconds"] ?? 0), value });
    }
    return points;
  }
}

/// An exponential mean that is right from the first point on; values that are not finite do not count.
export function smooth(values: (number | null)[], weight: number): (number | null)[] {
  if (weight <= 0) return values;
  let sum = 0;
  let mass = 0;
  return values.map((value) => {
    if (value === null || !Number.isFinite(value)) return value;
    sum = weight * sum + (1 - weight) * value;
    mass = weight * mass + (1 - weight);
    return sum / mass;
  });
}

// ---- Expressions: numbers, names of metrics, + - * / ^ ( ) and a few functions. Nothing is ever evaluated as code.

type Lookup = (name: string) => number;
type Compute = (lookup: Lookup) => number;
const functions: Record<string, (...values: number[]) => number> = {
  log: Math.log, log10: Math.log10, exp: Math.exp, sqrt: Math.sqrt, abs: Math.abs, min: Math.min, max: Math.max,
};

export function parseExpression(text: string): Compute {
  const tokens = text.match(/\d+\.?\d*(?:[eE][+-]?\d+)?|[A-Za-z_][A-Za-z_0-9.\-/]*[A-Za-z_0-9]|[A-Za-z_]|[()+\-*/^,]|\S/g) ?? [];
  let at = 0;
  const fail = (): never => { throw new Error(at < tokens.length ? `'${tokens[at]}' makes no sense there` : "something is missing at the end"); };
  const take = (token: string) => { if (tokens[at] !== token) fail(); ++at; };
  const sum = (): Compute => {
    let left = product();
    while (tokens[at] === "+" || tokens[at] === "-") {
      const [before, plus] = [left, tokens[at++] === "+"];
      const right = product();
      left = (lookup) => (plus ? before(lookup) + right(lookup) : before(lookup) - right(lookup));
    }
    return left;
  };
  const product = (): Compute => {
    let left = power();
    while (tokens[at] === "*" || tokens[at] === "/") {
      const [before, times] = [left, tokens[at++] === "*"];
      const right = power();
      left = (lookup) => (times ? before(lookup) * right(lookup) : before(lookup) / right(lookup));
    }
    return left;
  };
  const power = (): Compute => {
    const base = unary();
    if (tokens[at] !== "^") return base;
    ++at;
    const exponent = power();
    return (lookup) => base(lookup) ** exponent(lookup);
  };
  const unary = (): Compute => {
    if (tokens[at] !== "-") return atom();
    ++at;
    const value = unary();
    return (lookup) => -value(lookup);
  };
  const atom = (): Compute => {
    const token = tokens[at];
    if (token === undefined) return fail();
    if (token === "(") {
      ++at;
      const inner = sum();
      take(")");
      return inner;
    }
    if (/^\d/.test(token)) { ++at; const value = Number(token); return () => value; }
    if (!/^[A-Za-z_]/.test(token)) return fail();
    ++at;
    if (tokens[at] !== "(") return (lookup) => lookup(token);
    const call = functions[token];
    if (!call) throw new Error(`there is no function '${token}': ${Object.keys(functions).join(", ")}`);
    take("(");
    const values = [sum()];
    while (tokens[at] === ",") { ++at; values.push(sum()); }
    take(")");
    return (lookup) => call(...values.map((value) => value(lookup)));
  };
  const whole = sum();
  if (at < tokens.length) fail();
  return whole;
}
