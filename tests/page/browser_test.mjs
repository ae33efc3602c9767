// The page in a real browser, in front of real trainings: what a person would do, and see.
//
//   node browser_test.mjs TRIREME_PROGRAM WEB_FOLDER [--shots FOLDER] [--only PART]
//
// Ends with 77, and says why, where there is no browser, no playwright-core or no page in the program: tests/skips.txt.
// With --shots it leaves pictures of what it saw, in light and dark and as on a phone.
import { spawn } from "node:child_process";
import { existsSync, linkSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

const [program, web] = process.argv.slice(2, 4).map((path) => resolve(path));
const flag = (name) => (process.argv.includes(name) ? process.argv[process.argv.indexOf(name) + 1] : "");
const shots = flag("--shots") ? resolve(flag("--shots")) : "";
const patience = 60000;

function skip(why) {
  console.log(`skipped: ${why}`);
  process.exit(77);
}
const chromium = ["/usr/bin/chromium", "/usr/bin/google-chrome"].find((path) => existsSync(path));
if (!chromium) skip("there is no browser here");
const require = createRequire(join(web, "package.json"));
let playwright;
try {
  playwright = require("playwright-core");
} catch {
  skip("there are no packages of web/ here");
}

const folder = mkdtempSync(join(tmpdir(), "trireme-page-"));
const children = new Set();
process.on("exit", () => { for (const child of children) child.kill("SIGKILL"); }); // however this ends
const pageErrors = [];
let browser;

function check(condition, what) {
  if (!condition) throw new Error(`not so: ${what}`);
  console.log(`ok: ${what}`);
}

async function eventually(what, condition, within = patience) {
  const end = Date.now() + within;
  for (;;) {
    const value = await condition();
    if (value) {
      console.log(`ok: ${what}`);
      return value;
    }
    if (Date.now() > end) throw new Error(`not within ${within} ms: ${what}`);
    await new Promise((done) => setTimeout(done, 50));
  }
}

/// Starts the command; `link` is that of its page, `ended` its exit status.
function start(...args) {
  const child = spawn(program, args, { cwd: folder, env: { ...process.env, NO_COLOR: "1" } });
  children.add(child);
  let said = "";
  const job = { child, said: () => said };
  child.stdout.on("data", (data) => { said += data; });
  child.stderr.on("data", (data) => { said += data; });
  job.ended = new Promise((done) => child.on("exit", (status) => { children.delete(child); done(status); }));
  job.link = () => eventually("it prints the link of its page", () => /page: (http\S+)/.exec(said)?.[1] ?? (child.exitCode !== null && Promise.reject(new Error(said))));
  return job;
}

const training = (out, ...more) => ["train", "--data", "synthetic", "--model", "mlp", "--batch", "96", "--out", out, ...more];

async function open(link, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, acceptDownloads: true, ...options });
  context.setDefaultTimeout(patience);
  const page = await context.newPage();
  page.on("pageerror", (error) => { pageErrors.push(error); });
  const refused = [];
  page.on("console", (message) => { if (message.type() === "error" && /Content Security Policy/.test(message.text())) refused.push(message.text()); });
  page.refusedByPolicy = refused;
  await page.addInitScript(() => { // what was said, also after it has gone
    window.said = [];
    document.addEventListener("DOMContentLoaded", () => {
      const toast = document.getElementById("toast");
      if (toast) new MutationObserver(() => window.said.push(toast.textContent)).observe(toast, { childList: true });
    });
  });
  await page.goto(link);
  return page;
}

const tile = (page, name) => page.locator("#tiles .tile", { has: page.locator("dt", { hasText: new RegExp(`^${name}$`) }) }).locator("dd").textContent();
const lossText = (page) => page.locator('figure[aria-label="loss"] > p').textContent({ timeout: patience });
const lossOf = async (page) => Number(/train: (\S+) at/.exec(await lossText(page))?.[1]);
const stepOf = async (page) => Number(/train: \S+ at step (\d+)/.exec(await lossText(page))?.[1] ?? 0);

async function shoot(page, name, full = false) {
  if (!shots) return;
  mkdirSync(shots, { recursive: true });
  await page.screenshot({ path: join(shots, `${name}.png`), fullPage: full });
}

async function accessible(page, what) {
  await page.evaluate(readFileSync(require.resolve("axe-core"), "utf8"));
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  check(violations.length === 0, `axe finds nothing in ${what} ${violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.html).slice(0, 3).join(" ")}`).join("; ")}`);
}

async function download(page, figure, kind) {
  const [file] = await Promise.all([page.waitForEvent("download"), page.locator(`figure[aria-label="${figure}"] button`, { hasText: kind }).click()]);
  return readFileSync(await file.path());
}

/// A training that is watched, disturbed and scaled.
async function watchTraining() {
  const job = start(...training("first", "-w", "3", "-s", "2", "--lanes", "6", "--steps", "100000", "--step-ms", "15", "--log-every", "5", "--checkpoint-every", "100", "--lr", "0.02"));
  const link = await job.link();
  check(/^http:\/\/127\.0\.0\.1:\d+\/#token=[0-9a-f]{32}$/.test(link), "the link is one of loopback, with the token behind the #");
  const page = await open(link);
  await eventually("the first rows come in live", async () => (await stepOf(page)) > 10);
  const first = { loss: await lossOf(page), step: await stepOf(page) };
  await eventually("the loss falls, without a reload", async () => (await stepOf(page)) > first.step + 50 && (await lossOf(page)) < first.loss);
  check(!(await page.evaluate(() => location.hash)).includes("token"), "the token does not stay in the address");
  await eventually("each worker's speed is shown", async () => /worker 2/.test(await page.locator('figure[aria-label="samples/s per worker"] > p').textContent()));
  await eventually("where the time goes is said in a word", async () => /compute|waiting|network|data|update/.test(await tile(page, "bound by")));
  await eventually("a checkpoint is listed", async () => (await page.locator("#s-history").textContent()).includes("100"));
  await shoot(page, "run-light", true);
  await accessible(page, "the page of a run");

  await page.locator("#record").click();
  await eventually("a timeline of the last steps is drawn, on one clock", async () => {
    const said = await page.locator("#timeline-said").textContent();
    if (/no answer from/.test(said)) await page.locator("#record").click(); // the page waits 3 s: all are asked once more
    return /5 processes, \d+ spans, steps \d+ to \d+; clocks agree to ±0/.test(said);
  });
  const shown = async () => (await page.locator("#s-timeline .card").getAttribute("data-shown")).split(" ").map(Number);
  const [from, to] = await shown();
  await page.locator("#timeline").press("+");
  await page.locator("#timeline").press("ArrowRight");
  const [nearer, end] = await shown();
  check(nearer > from && Math.abs((end - nearer) / (to - from) - 0.5) < 0.01, "the timeline is zoomed and moved by keys");
  await page.locator("#s-timeline").scrollIntoViewIfNeeded();
  await shoot(page, "timeline-light");
  const [trace] = await Promise.all([page.waitForEvent("download"), page.locator("#perfetto").click()]);
  const events = JSON.parse(readFileSync(await trace.path(), "utf8")).traceEvents;
  check(["worker 2", "server 1"].every((name) => events.some((event) => event.name === "process_name" && event.args.name.startsWith(name))) && events.some((event) => event.name === "backward" && event.dur > 0), "it can be downloaded for Perfetto");
  await page.locator("#checkpoint").click();
  await eventually("the button makes a checkpoint", async () => /asked by the page/.test(await page.locator("#s-history").textContent()));
  await eventually("members say what they hold", async () => /lanes \d–\d/.test(await page.locator("#s-members").textContent()) && /shards \d/.test(await page.locator("#s-members").textContent()));

  const stranger = await open(link.replace(/#.*/, ""));
  await eventually("the page opens without the token", async () => (await tile(stranger, "step").catch(() => "")) !== "");
  await stranger.locator("#scale-workers").fill("2");
  await stranger.locator("#scale").click();
  const saidToStranger = () => stranger.evaluate(() => window.said);
  await eventually("without the token nothing is done", async () => (await saidToStranger()).some((text) => text.includes("token")))
    .catch(async (late) => { throw new Error(`${late.message}; it said ${JSON.stringify(await saidToStranger())}`); });
  await stranger.context().close();

  await page.locator("#note").fill("<b>tried</b> with 3 workers");
  await page.locator("#annotate").click();
  await eventually("a note is shown as text", async () => (await page.locator("#notes").textContent()).includes("<b>tried</b>"));

  const pid = async (member) => Number(await page.locator("#s-members tbody tr", { hasText: member }).first().locator("td").nth(1).textContent());
  const stopped = await pid("worker 1");
  await page.evaluate(() => { // all alerts: two seconds later the others go on without it, and this one is gone
    const alert = document.getElementById("alert");
    window.alerts = [];
    new MutationObserver(() => window.alerts.push(alert.textContent)).observe(alert, { childList: true });
  });
  process.kill(stopped, "SIGSTOP");
  await eventually("a worker that is stopped is named", () => page.evaluate(() => window.alerts.some((text) => /stands still.*worker 1/s.test(text))));
  await shoot(page, "run-hang");
  await page.locator("#ask-stacks").click();
  await eventually("the stacks of the others are shown", async () => /worker 0, pid \d+: \d+ threads/.test(await page.locator("#stacks").textContent()));
  check((await page.locator("#stacks").textContent()).includes("trireme::"), "the stacks have names of functions");
  await eventually("the others go on without it", async () => /hangs|was silent/.test(await page.locator("#s-history").textContent()));
  process.kill(stopped, "SIGCONT");
  await eventually("all three are back", async () => (await tile(page, "workers")) === "3 / 3");

  const recoveries = Number(await tile(page, "recoveries"));
  process.kill(await pid("server 1"), "SIGKILL");
  await eventually("a server that was killed is told of, with the reason", async () => /server 1 \(pid \d+\) died/.test(await page.locator("#s-history").textContent()));
  await eventually("the recovery is counted", async () => Number(await tile(page, "recoveries")) > recoveries);
  await eventually("its seconds are shown", async () => /\d (m?s)/.test(await page.locator("#s-history .two .card").first().locator("tbody tr").first().textContent()));
  await eventually("both servers are back", async () => (await tile(page, "servers")) === "2 / 2");
  if (shots) { // the picture in README.md and docs/dashboard.md
    await eventually("nothing covers the page", async () => (await page.locator("#toast").textContent()) === "");
    await page.setViewportSize({ width: 1180, height: 1080 });
    await page.evaluate(() => scrollTo(0, 0));
    await shoot(page, "run");
    await page.setViewportSize({ width: 1280, height: 900 });
  }

  await page.locator("#scale-workers").fill("2");
  await page.locator("#scale").click();
  await eventually("the button scales, with the token", async () => (await tile(page, "workers")) === "2 / 2");

  page.on("dialog", (dialog) => void dialog.accept());
  await page.locator("#stop").click();
  check((await job.ended) === 0, "the button stops the run after a step");
  check(page.refusedByPolicy.length === 0, "the page needs nothing that its policy forbids");
  await page.context().close();
}

/// What was stopped goes on, and its curve has no zigzag.
async function resumeWithoutZigzag() {
  const rows = () => readFileSync(join(folder, "first", "metrics.jsonl"), "utf8").trim().split("\n").map((line) => JSON.parse(line));
  const before = rows().filter((row) => row.kind === "train").at(-1).step;
  const job = start("resume", "first", "-w", "2"); // until it was seen, however long the browser takes
  const page = await open(await job.link());
  await eventually("the resumed run is shown from its beginning", async () => (await stepOf(page)) > 0);
  await eventually("the resumed run goes on", async () => (await stepOf(page)) > before + 50);
  job.child.kill("SIGTERM");
  check((await job.ended) === 0, "the resumed run ends well");
  await page.context().close();
}

/// The same page from files: all runs, comparison, export.
async function lookAtFiles() {
  start(...training("second", "-w", "1", "-s", "0", "--strategy", "allreduce", "--steps", "60", "--log-every", "5", "--lr", "0.1"));
  const hostile = "<img src=x onerror=alert(1)>";
  mkdirSync(join(folder, hostile, "logs"), { recursive: true });
  writeFileSync(join(folder, hostile, "config.toml"), 'model = "<script>alert(2)</script>"\n');
  writeFileSync(join(folder, hostile, "metrics.jsonl"), [
    { kind: "train", step: 1, loss: 2, "<b>x</b>": 1 }, { kind: "train", step: 2, loss: null, not_finite: { loss: "nan" }, "<b>x</b>": 2 },
    { kind: "train", step: 3, loss: null, not_finite: { loss: "inf" }, "<b>x</b>": 3 }, { kind: "train", step: 4, loss: 1, "<b>x</b>": 4 },
  ].map((row) => JSON.stringify(row)).join("\n") + "\n");
  const dash = start("dash", ".");
  const link = await dash.link();
  const page = await open(link);
  await eventually("all runs are listed", async () => (await page.locator("#runs tbody tr").count()) === 3);
  await eventually("the second run ends", async () => (await page.locator("#runs tbody tr", { hasText: "second" }).textContent()).includes("finished"));
  check((await page.locator("#runs").textContent()).includes(hostile), "a hostile name is shown as text");
  await accessible(page, "the table of runs");
  await page.locator("#filter").fill("lr=0.1");
  check((await page.locator("#runs tbody tr").count()) === 1, "the filter knows flags");
  await page.locator("#filter").fill("");
  await page.locator('th[data-column="run"] button').click();
  check((await page.locator('th[data-column="run"]').getAttribute("aria-sort")) === "descending", "a click on a head sorts");
  await page.locator('input[aria-label="Compare first"]').check();
  await page.locator('input[aria-label="Compare second"]').check();
  await page.locator("button", { hasText: "Compare 2" }).click();
  await eventually("two runs lie over each other", async () => /first train.*second train/s.test(await page.locator('figure[aria-label="loss"] > p').textContent()));
  await eventually("the flags that differ are listed", async () => /lr/.test(await page.locator("main").textContent()));
  await shoot(page, "compare-light", true);

  await page.goto(`${link.replace(/#.*/, "")}?run=first`);
  await eventually("a finished run opens from its files", async () => (await page.locator("#link").textContent()) === "from files" && (await stepOf(page)) > 0);
  const csv = (await download(page, "loss", "CSV")).toString().trim().split("\n").slice(1).map((line) => line.split(","));
  const steps = csv.filter(([series]) => series === "train").map(([, step]) => Number(step));
  check(steps.length > 20 && steps.every((step, index) => index === 0 || step > steps[index - 1]), "after a resume the curve has no zigzag");
  check((await download(page, "loss", "PNG")).subarray(1, 4).toString() === "PNG", "a chart is exported as PNG");
  await page.locator("#logX").check();
  await page.locator("#logY").check();
  await page.locator("#expression").fill("exp(loss) / 2");
  await page.locator("button", { hasText: "Add" }).click();
  await eventually("a derived metric is a chart", async () => (await page.locator('figure[aria-label="exp(loss) / 2"]').count()) === 1);
  await page.locator("#s-log button", { hasText: "Load" }).click();
  await eventually("the logs are merged", async () => /\[master\][\s\S]*\[worker 0\]/.test(await page.locator("#log").textContent()));
  await page.keyboard.press("Escape");
  await page.locator("h1").click();
  await page.keyboard.press("t");
  await shoot(page, "run-dark", true);
  await accessible(page, "the dark page");

  await page.goto(`${link.replace(/#.*/, "")}?run=${encodeURIComponent(hostile)}`);
  await eventually("NaN and Inf are marks", async () => (await page.locator('figure[aria-label="loss"]').getAttribute("data-marks")) === "2");
  check((await page.locator("img").count()) === 0, "no name becomes an element");
  await page.context().close();

  const phone = await open(`${link.replace(/#.*/, "")}?run=first`, { viewport: { width: 380, height: 760 }, isMobile: true });
  await eventually("it opens on a phone", async () => (await stepOf(phone)) > 0);
  check(await phone.evaluate(() => document.documentElement.scrollWidth <= innerWidth + 1), "nothing is wider than a phone");
  await shoot(phone, "run-phone", true);
  await phone.context().close();
  dash.child.kill("SIGTERM");
  check((await dash.ended) === 0, "dash ends when it is asked to");
}

/// A thousand runs: figures for the report, not a test of this machine's speed.
async function manyRuns() {
  const many = join(folder, "many");
  const row = (step) => JSON.stringify({ kind: "train", step, loss: 1 / step, accuracy: 0.5, samples_per_s: 1000, seconds: step });
  const rows = Array.from({ length: 10000 }, (_, index) => row(index + 1)).join("\n") + "\n";
  for (let index = 0; index < 1000; ++index) {
    const run = join(many, `run-${String(index).padStart(4, "0")}`);
    mkdirSync(run, { recursive: true });
    writeFileSync(join(run, "config.toml"), `model = "mlp"\nlr = ${index / 1000}\nseed = ${index}\n`);
    if (index === 0) writeFileSync(join(run, "metrics.jsonl"), rows);
    else linkSync(join(many, "run-0000", "metrics.jsonl"), join(run, "metrics.jsonl"));
    writeFileSync(join(run, "outcome.json"), '{"status": 0, "failure": "", "result": {"steps": 10000}}');
  }
  const dash = start("dash", many);
  const link = await dash.link();
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
  context.setDefaultTimeout(patience);
  const page = await context.newPage();
  const began = Date.now();
  await page.goto(link);
  await eventually("a thousand runs are listed", async () => (await page.locator("#runs tbody tr").count()) === 1000);
  const first = Date.now() - began;
  const paint = await eventually("it is painted", () => page.evaluate(() => performance.getEntriesByType("paint").at(-1)?.startTime ?? 0));
  const filter = await page.evaluate(() => {
    const input = document.getElementById("filter");
    const start = performance.now();
    input.value = "run-09";
    input.dispatchEvent(new Event("input"));
    document.body.getBoundingClientRect();
    return performance.now() - start;
  });
  check((await page.locator("#runs tbody tr").count()) === 100, "a thousand runs are filtered");
  console.log(`figure: 1000 runs of 10000 rows: first paint after ${paint.toFixed(0)} ms, all listed after ${first} ms, filtered in ${filter.toFixed(0)} ms`);
  await page.locator("#filter").fill("");
  await shoot(page, "runs-light");
  await context.close();
  dash.child.kill("SIGTERM");
  await dash.ended;
}

/// Sixty-four workers, of which one is slow and one waits for it, from a feed that is made up.
async function manyWorkers() {
  mkdirSync(join(folder, "crowd", "logs"), { recursive: true });
  writeFileSync(join(folder, "crowd", "config.toml"), 'model = "resnet20"\nworkers = 64\n');
  const dash = start("dash", join(folder, "crowd"));
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
  context.setDefaultTimeout(patience);
  const page = await context.newPage();
  const worker = (slot, tick) => ({
    slot, pid: 1000 + slot, host: `10.0.0.${slot}`, silent_s: 0, clock: 100 + tick, lane_s: 0.01, lanes: 1, primary: 0, copies: 0,
    samples_per_s: (slot === 7 ? 400 : 1000) + 40 * Math.sin(tick / 3 + slot),
    phases: slot === 7 ? [tick, 40 + 3 * tick, 60 + 5 * tick, 1, 2, 2, 0] : [1, 20 + tick, 30 + 2 * tick, 50 + 6 * tick, 3, 2, 0],
    activity: { what: slot === 7 ? "backward" : "wait", step: 100 + tick, for_s: 0.2 },
    load: { name: `node${slot >> 3}`, cores: 16, load: 7.5, memory: 128 * 2 ** 30, free: 90 * 2 ** 30, resident: 3 * 2 ** 30, cpu_s: 100 + tick },
  });
  const news = (tick) => ({
    reset: tick === 0,
    rows: [{ kind: "train", step: 10 * tick + 10, loss: 2 / (tick + 1), accuracy: 1 - 1 / (tick + 1), samples_per_s: 63000, time: 1.79e9 + tick, seconds: tick }],
    run: {
      name: "crowd", state: "running", started: 1.79e9, step: 10 * tick, seconds: tick, failure: "", flags: { workers: "64" }, train: null, test: null, result: null, notes: [],
      now: 1.79e9 + tick, goodput: 0.987, live: true, timeline: false, phases: ["data", "forward", "backward", "wait", "network", "update", "other"],
      status: {
        state: "running", reason: "view 3: 64 workers", view: 3, steps_per_s: 15.5, spread_max: 0, clocks: [],
        plan: { steps: 1000, batch: 4096, lanes: 64, strategy: "allreduce", leased: false, elastic: true, steps_per_epoch: 100 },
        now: { step: 10 * tick, epoch: 1, samples: 1e6, loss: 2 / (tick + 1), samples_per_s: 63000, lr: 0.1, metrics: [{ name: "accuracy", value: 0.9 }], clock_min: 1, clock_max: 1 },
        averages: {}, workers: Array.from({ length: 64 }, (_, slot) => worker(slot, tick)), servers: [], others: [],
        stragglers: [{ slot: 7, factor: 2.5, for_s: 12 + tick }], wanted_workers: 64, wanted_servers: 0, counters: { failures: {}, recovering_s: 0 },
      },
      hang: { hangs: false, summary: "", waiting: [], culprits: [] },
      history: { views: [{ time: 1.79e9, view: 3, workers: 64, servers: 0, reason: "worker 9 (pid 1009) died: its connection to the master ended", recovery_s: 1.25 }], checkpoints: [], events: [], lost_s: 3, recoveries: 2, began: 1.79e9 - 300, ended: 0 },
    },
  });
  await page.routeWebSocket(/api\/feed/, (socket) => {
    let tick = 0;
    const timer = setInterval(() => { for (let i = 0; i < 5; ++i) socket.send(JSON.stringify(news(tick++))); }, 100);
    socket.onClose(() => clearInterval(timer));
  });
  await page.goto(await dash.link());
  await eventually("the slow one of 64 is named", async () => (await page.locator("#alert").textContent()).includes("worker 7 takes 2.5 times as long"));
  await eventually("all 64 are listed", async () => (await page.locator("#s-members tbody").first().locator("tr").count()) === 64);
  await eventually("what waits is said to wait", async () => (await tile(page, "bound by")) === "waiting");
  const heap = () => page.evaluate(() => { globalThis.gc?.(); return performance.memory.usedJSHeapSize / 2 ** 20; });
  const before = await heap();
  await eventually("an hour of news passes", async () => Number((await tile(page, "step")).split(" ")[0].replace(",", "")) > 2500);
  console.log(`figure: page of 64 workers: ${before.toFixed(0)} MiB of heap at first, ${(await heap()).toFixed(0)} MiB after ${await tile(page, "step")} steps of news`);
  await shoot(page, "crowd-light", true);
  await page.locator("#theme").click();
  await shoot(page, "crowd-dark");
  await context.close();
  dash.child.kill("SIGTERM");
  await dash.ended;
}

/// Beyond this machine there is TLS, and nothing to read without the token.
async function fromElsewhere() {
  const dash = start("dash", ".", "--listen", "0.0.0.0:0");
  const link = (await dash.link()).replace(/https:\/\/[^:]+/, "https://127.0.0.1");
  check(/^https:/.test(link) && /SHA-256: ([0-9A-F]{2}:){31}/.test(dash.said()), "the link is https, with the certificate's fingerprint");
  const options = { ignoreHTTPSErrors: true };
  const stranger = await open(link.replace(/#.*/, ""), options);
  check((await stranger.locator("#token").count()) === 1 && !(await stranger.content()).includes("first"), "without the token there is no page");
  check((await stranger.evaluate(() => fetch("/api/runs").then((reply) => reply.status))) === 403, "and nothing to read");
  await stranger.locator("#token").fill("0123456789abcdef0123456789abcdef");
  await stranger.locator("button").click();
  await eventually("a wrong token is refused", async () => (await stranger.locator("#why").textContent()).includes("not the token"));
  await stranger.context().close();
  const page = await open(link, options);
  await eventually("with the token it opens", async () => (await page.locator("#runs tbody tr").count().catch(() => 0)) >= 1); // it loads once more when it has the pass
  check(!(await page.evaluate(() => document.cookie)).includes("trireme"), "no script sees the pass");
  await page.goto(`${link.replace(/#.*/, "")}?run=first`);
  await eventually("and is fed", async () => (await page.locator("#link").textContent()) === "from files" && (await stepOf(page)) > 0);
  check(page.refusedByPolicy.length === 0, "the page needs nothing that its policy forbids");
  await page.context().close();
  dash.child.kill("SIGTERM");
  await dash.ended;
}

let status = 0;
try {
  browser = await playwright.chromium.launch({
    executablePath: chromium,
    timeout: patience,
    args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
  const probe = start("dash", folder);
  const left_out = await fetch((await probe.link()).replace(/#.*/, "")).then((reply) => reply.text());
  probe.child.kill("SIGTERM");
  await probe.ended;
  if (left_out.includes("left out of this build")) {
    await browser.close();
    rmSync(folder, { recursive: true });
    skip("the page was left out of this build");
  }
  const parts = { watchTraining, resumeWithoutZigzag, lookAtFiles, fromElsewhere, manyRuns, manyWorkers };
  for (const [name, part] of Object.entries(parts)) {
    if (flag("--only") && flag("--only") !== name) continue;
    console.log(`-- ${name}`);
    await part();
    if (pageErrors.length > 0) throw pageErrors[0];
  }
} catch (problem) {
  console.log(`failed: ${problem.stack}`);
  status = 1;
} finally {
  await browser?.close();
  for (const child of children) child.kill("SIGTERM");
  await Promise.race([Promise.all([...children].map((child) => new Promise((done) => child.on("exit", done)))), new Promise((done) => setTimeout(done, 15000))]);
  for (const child of children) child.kill("SIGKILL");
  if (status === 0 || !process.env.TRIREME_KEEP) rmSync(folder, { recursive: true, force: true });
}
process.exit(status);
