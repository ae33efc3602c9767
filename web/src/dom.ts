// Elements are made, never parsed: names of runs and metrics are text, whatever they look like.

type Child = Node | string | number | null | undefined | false;
type Props = Record<string, string | number | boolean | EventListener | undefined>;

export function h(tag: string, props: Props = {}, ...children: (Child | Child[])[]): HTMLElement {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

export function replace(element: Element, ...children: (Child | Child[])[]): void {
  element.replaceChildren(...children.flat().filter((child): child is Node | string | number => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : String(child))));
}

/// Fills a table's body; rows that say the same stay the elements that they are, so that nothing jumps under a finger.
export function fillRows(body: HTMLElement, rows: (Child | Child[])[][], mark?: (index: number) => string): void {
  while (body.children.length > rows.length) body.lastElementChild!.remove();
  rows.forEach((cells, index) => {
    let row = body.children[index] as HTMLElement | undefined;
    if (!row) body.append((row = document.createElement("tr")));
    row.className = mark?.(index) ?? "";
    while (row.children.length > cells.length) row.lastElementChild!.remove();
    cells.forEach((cell, column) => {
      let box = row!.children[column] as HTMLElement | undefined;
      if (!box) row!.append((box = document.createElement("td")));
      const parts = [cell].flat();
      const text = parts.every((part) => !(part instanceof Node));
      if (text) {
        const wanted = parts.filter((part) => part !== null && part !== undefined && part !== false).join("");
        if (box.textContent !== wanted || box.childElementCount > 0) box.textContent = wanted;
        box.className = wanted.length < 24 ? "nowrap" : "";
      } else {
        replace(box, ...parts);
      }
    });
  });
}

export function table(caption: string, heads: string[], numeric: number[] = []): { root: HTMLElement; body: HTMLElement } {
  const body = h("tbody");
  const root = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    h("table", {}, h("caption", { class: "hidden" }, caption),
      h("thead", {}, h("tr", {}, heads.map((head, index) => h("th", { scope: "col", class: numeric.includes(index) ? "number" : "" }, head)))), body));
  root.style.setProperty("--columns", String(heads.length));
  return { root, body };
}

export function toast(text: string, bad = false): void {
  const place = document.getElementById("toast")!;
  place.className = bad ? "bad" : "good";
  place.textContent = text;
  window.setTimeout(() => { if (place.textContent === text) place.textContent = ""; }, 6000);
}

export function download(name: string, data: Blob): void {
  const link = h("a", { href: URL.createObjectURL(data), download: name }) as HTMLAnchorElement;
  document.body.append(link);
  link.click();
  link.remove();
  window.setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// ---- Numbers for people.

export const number = (value: number | null | undefined, digits = 4): string => {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  const size = Math.abs(value);
  if (value !== 0 && (size < 1e-4 || size >= 1e7)) return value.toExponential(2);
  return String(Number(value.toPrecision(digits)));
};
export const whole = (value: number): string => Math.round(value).toLocaleString("en");
export const percent = (share: number | null | undefined): string =>
  share === null || share === undefined || Number.isNaN(share) ? "–" : `${(100 * share).toFixed(1)} %`;
export const bytes = (value: number): string => {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) { value /= 1024; ++unit; }
  return `${value >= 100 || unit === 0 ? value.toFixed(0) : value.toFixed(1)} ${units[unit]}`;
};
export const duration = (seconds: number | null | undefined): string => {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "–";
  if (seconds < 1) return `${(1000 * seconds).toFixed(0)} ms`;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
};
export const clock = (time: number): string => new Date(1000 * time).toLocaleTimeString("en-GB");
export const day = (time: number): string => (time > 0 ? new Date(1000 * time).toLocaleString("sv-SE").slice(0, 16) : "–");
