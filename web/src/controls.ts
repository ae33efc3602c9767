import type { Settings } from "./chart";
import { h } from "./dom";

/// Switches for charts; `changed` is called after each change of `settings`.
export function chartControls(settings: Settings, changed: () => void): HTMLElement {
  const box = (label: string, key: "logX" | "logY") => {
    const input = h("input", { type: "checkbox", id: key, onchange: () => { settings[key] = input.checked; changed(); } }) as HTMLInputElement;
    input.checked = settings[key];
    return h("label", {}, input, label);
  };
  const shown = h("output", {}, String(settings.smoothing));
  const range = h("input", { type: "range", min: 0, max: 0.99, step: 0.01, value: settings.smoothing, "aria-label": "Smoothing", oninput: () => {
    settings.smoothing = Number(range.value);
    shown.textContent = range.value;
    changed();
  } }) as HTMLInputElement;
  const x = h("select", { "aria-label": "Horizontal axis", onchange: () => { settings.x = x.value as Settings["x"]; changed(); } },
    h("option", { value: "step" }, "by step"), h("option", { value: "time" }, "by time")) as HTMLSelectElement;
  return h("div", { class: "controls" }, box("log x", "logX"), box("log y", "logY"), h("label", {}, "smoothing", range, shown), x);
}
