// What the server says, and how it is asked.

export interface Activity { what: string; step: number; for_s: number }
export interface GpuLoad { name: string; use: number; memory: number; used: number }
export interface HostLoad { name: string; cores: number; load: number; memory: number; free: number; resident: number; cpu_s: number; gpus?: GpuLoad[] }
export interface Member {
  slot: number; pid: number; host: string; silent_s: number; clock: number; samples_per_s: number; lane_s: number;
  lanes: number; phases: number[]; activity: Activity; load: HostLoad; primary: number; copies: number; holds?: string;
}
export interface Status {
  state: string; reason: string; view: number; steps_per_s: number; spread_max: number; clocks: number[];
  plan: { steps: number; batch: number; lanes: number; strategy: string; leased: boolean; elastic: boolean; steps_per_epoch: number };
  now: { step: number; epoch: number; samples: number; loss: number | null; samples_per_s: number; lr: number; metrics: { name: string; value: number }[]; clock_min: number; clock_max: number };
  averages: Record<string, number>;
  workers: Member[]; servers: Member[]; others: Member[];
  stragglers: { slot: number; factor: number; for_s: number }[];
  wanted_workers: number; wanted_servers: number;
  counters: { failures: Record<string, number>; recovering_s: number };
}
export interface ViewFormed { time: number; view: number; workers: number; servers: number; reason: string; recovery_s: number | null }
export interface Checkpoint { time: number; step: number; bytes: number; pause_s: number; seconds: number; failure: string }
export interface LogEvent { time: number; process: string; level: string; event: string; message: string; fields: Record<string, string> }
export interface History { views: ViewFormed[]; checkpoints: Checkpoint[]; events: LogEvent[]; lost_s: number; recoveries: number; began: number; ended: number }
export interface Hang { hangs: boolean; summary: string; waiting: string[]; culprits: { who: string; what: string; since_s: number }[] }
export type Row = Record<string, unknown> & { step: number };
export interface Summary {
  name: string; state: string; started: number; step: number; seconds: number; failure: string;
  flags: Record<string, string>; train: Row | null; test: Row | null; result: Record<string, unknown> | null;
  notes: { time: number; text: string }[];
}
export interface Run extends Summary {
  now: number; goodput: number | null; live: boolean; status: Status | null; hang: Hang | null; history: History; timeline: boolean; phases: string[];
}
export interface RunsReply { folder: string; single: boolean; runs: Summary[] }
export interface Stack { process: string; pid: number; host: string; threads: { id: number; name: string; state: string; frames: string[] }[] }
export type RecordedSpan = [name: string, begin: number, length: number, step: number | null];
export interface Recorded {
  missing: string[]; error_us: number | null; contradiction: boolean; begin: number;
  processes: { process: string; pid: number; host: string; error_us: number | null; left_out: number; threads: { name: string; spans: RecordedSpan[] }[] }[];
}
export interface LogLine { time: number; process: string; level: string; text: string }

/// The token comes behind the # of the link, stays in this tab, and is never part of an address that is asked for.
function takeToken(): string {
  const match = /(?:^#|&)token=([0-9a-f]+)/.exec(location.hash);
  if (match) {
    sessionStorage.setItem("trireme-token", match[1]!);
    history.replaceState(null, "", location.pathname + location.search + location.hash.replace(/(^#|&)token=[0-9a-f]+/, "$1").replace(/^#&?$/, ""));
  }
  return sessionStorage.getItem("trireme-token") ?? "";
}
let token = takeToken();
addEventListener("hashchange", () => { token = takeToken(); });
export const hasToken = () => token !== "";

async function answer<T>(reply: Response): Promise<T> {
  const text = await reply.text();
  if (!reply.ok) {
    let why = text;
    try { why = (JSON.parse(text) as { error?: string }).error ?? text; } catch { /* as it is */ }
    throw new Error(why || `status ${reply.status}`);
  }
  return JSON.parse(text) as T;
}

const query = (name: string, more: Record<string, string> = {}) => new URLSearchParams({ name, ...more }).toString();

export const getRuns = async () => answer<RunsReply>(await fetch("/api/runs"));
export const getRun = async (name: string) => answer<Run>(await fetch(`/api/run?${query(name)}`));
export const getRows = async (name: string) => answer<Row[]>(await fetch(`/api/rows?${query(name)}`));
export const getLog = async (name: string, level: string, process: string) =>
  answer<LogLine[]>(await fetch(`/api/log?${query(name, { level, process, last: "500" })}`));

export const recordedAddress = (name: string, request: number, reader = "") => `/api/recorded?${query(name, { request: String(request), for: reader })}`;
export const recordedSpans = async (name: string, request: number) => answer<Recorded>(await fetch(recordedAddress(name, request)));

export async function post<T>(action: string, name: string, body: object = {}): Promise<T> {
  return answer<T>(await fetch(`/api/${action}?${query(name)}`, {
    method: "POST",
    headers: { "Content-Type": "application/json", Authorization: `Bearer ${token}` },
    body: JSON.stringify(body),
  }));
}

export interface News { reset: boolean; rows: Row[]; run: Run | null }

/// Listens until `close` is called; connects again, ever more slowly, when the connection is lost.
export function listen(name: string, onNews: (news: News) => void, onState: (open: boolean) => void): { close(): void } {
  let socket: WebSocket | null = null;
  let closed = false;
  let pause = 500;
  let timer = 0;
  const connect = () => {
    socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/api/feed?${query(name)}`);
    let first = true;
    socket.onopen = () => { pause = 500; onState(true); };
    socket.onmessage = (message) => {
      const news = JSON.parse(message.data as string) as News;
      if (first) news.reset = true; // after a gap the rows come from the beginning
      first = false;
      onNews(news);
    };
    socket.onclose = () => {
      onState(false);
      if (closed) return;
      timer = window.setTimeout(connect, pause);
      pause = Math.min(2 * pause, 8000);
    };
  };
  connect();
  return { close() { closed = true; clearTimeout(timer); socket?.close(); } };
}
