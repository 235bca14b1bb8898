/*
 * What the server of `ll-loop web` answers, and how it is asked.
 *
 * This file has types and the table of routes, and no logic: the rules of the engine are in the
 * server, which also says what can be done with a run, and why not (`Can`).
 *
 * Every route needs `Authorization: Bearer TOKEN`. A route that changes something takes JSON
 * (`Content-Type: application/json`). Times are milliseconds since 1970 (`*_ms`), durations are
 * milliseconds as well, costs are US dollars.
 *
 * Keys of loops and runs are opaque: take them from an answer, and encode them with
 * `encodeURIComponent` when they become part of a URL.
 */

// ── errors ──────────────────────────────────────────────────────────────────────────────────────

/**
 * The body of every answer with a status of 400 or more.
 *
 * 400 wrong query or body · 401 no token, or a wrong one · 403 not with `--read-only`, without
 * `--edit`, or from another origin · 404 no such route, loop, run, step · 405 wrong method ·
 * 409 refused, in the words of the command, or the file has changed · 413 body too large ·
 * 415 body is not JSON · 421 wrong host name · 500 a bug, or a file that cannot be read.
 */
export interface ApiError {
  error: {
    code: string; // "refused", "unknown_run", "unknown_loop", "read_only", "changed", ...
    message: string; // as the command prints it, without "error: "
    help: string | null; // the line after "help:"
  };
}

/** Whether something can be done now. `reason` is what the command would print if it cannot. */
export interface Can {
  verb: Verb;
  allowed: boolean;
  reason: string | null;
  help: string | null;
}

export type Verb =
  | "run" | "stop" | "resume" | "approve" | "reject" | "tell" | "fork" | "undo"
  | "receipt" | "report" | "edit" | "create";

// ── the server ──────────────────────────────────────────────────────────────────────────────────

/** GET /api/server */
export interface Server {
  schema: 1;
  version: string;
  read_only: boolean;
  edit: boolean;
  live: Live;
  projects: Project[];
  can: Can[]; // "create"
}
export type Live = "inotify" | "kqueue" | "polling";
export interface Project {
  key: string;
  name: string; // its directory
  path: string;
}

// ── loops ───────────────────────────────────────────────────────────────────────────────────────

/** GET /api/loops */
export interface Loops {
  schema: 1;
  loops: LoopRow[];
}
export interface LoopRow {
  key: string;
  project: string;
  name: string;
  file: string | null; // relative to the project; null if only runs are left of it
  paradigm: string | null;
  description: string;
  problem: string | null; // "invalid (2 errors)", "same name as …", "its file no longer exists"
  fix: string | null; // the command that shows more
  errors: number;
  warnings: number;
  endings: Ending[]; // at most 20, oldest first
  runs: number; // past ones, all of them
  completed: number; // of the newest 1,000
  counted: number; // how many of them were counted
  success_rate: number | null; // 0 to 1
  median_duration_ms: number | null;
  median_cost_usd: number | null;
  median_iterations: number | null;
  current: RunRow[]; // alive or unfinished, at most 3
  current_count: number; // how many there are
  can: Can[]; // "run", "edit"
}
export interface Ending {
  key: string; // of the run
  status: Status;
  reason: string | null;
  word: string; // for people: "completed", "limit", "interrupted (crashed)"
  tone: Tone;
  started_ms: number;
  duration_ms: number;
  iterations: number;
  cost_usd: number;
}

/** GET /api/loops/LOOP */
export interface LoopDetail {
  schema: 1;
  loop: LoopRow;
  source: string | null; // the file's text; null if it cannot be read as text
  hash: string | null; // of the file's bytes, for saving
  problems: Problem[];
  machine: Machine | null; // null if the file has errors
  context: ContextField[];
  limits: Limits | null;
  scope: string[];
  worst_case: string | null;
  consent: Consent | null; // null if no agent needs one
}
export interface Problem {
  code: string;
  severity: "error" | "warning";
  message: string;
  help: string | null;
  line: number | null; // from 1
  column: number | null; // from 1
  end_line: number | null;
  end_column: number | null;
  state: string | null;
}
/** A context value is inserted into scripts as code: say so beside the field. */
export interface ContextField {
  name: string;
  value: unknown; // the default in the file
  text: string; // the same as text, for the field
}
export interface Limits {
  max_iterations: number | null;
  timeout_s: number | null;
  max_cost_usd: number | null;
  max_tokens: number | null;
  max_continuations: number | null;
}
/** Agents that skip permission prompts need consent, which is given in a terminal only. */
export interface Consent {
  given: boolean;
  command: string; // "ll-loop trust fix-types"
  agents: string[];
}

/** A state machine as a graph. */
export interface Machine {
  name: string;
  paradigm: string;
  initial: string;
  states: MachineState[];
  edges: MachineEdge[];
}
/** What a state runs. */
export type StateKind = "shell" | "agent" | "builtin" | "loop" | "branches" | "decision" | "terminal";
export type Outcome = "success" | "failure" | "review";
export interface MachineState {
  name: string;
  kind: StateKind;
  action: string | null; // the first lines, for people
  host: string | null;
  terminal: boolean;
  outcome: Outcome | null; // of a terminal state
  is_check: boolean;
  visits: number; // 0 for a loop
  current: boolean; // false for a loop
}
export interface MachineEdge {
  from: string;
  to: string;
  label: string; // "pass", "fail", "next", "error", a word
  labels: string[]; // of all transitions between these two states
  from_loop: boolean; // the loop's `on_error` and so on, which apply to all states
  taken: number; // 0 for a loop
  last_seq: number | null;
}

/** GET /api/loops/LOOP/charts?last=200 */
export interface LoopCharts {
  schema: 1;
  runs: Ending[]; // oldest first
  endings: { word: string; tone: Tone; count: number }[];
}

/** Limits of a run, by the names of the options. */
export type LimitName = "max_iterations" | "timeout" | "max_cost" | "max_tokens";
export type LimitTexts = { [name in LimitName]?: string };
/** Each a number, but for a time such as 90s, 10m. */
export type LimitsBody = { [name in LimitName]?: name extends "timeout" ? string : number };
/** POST /api/loops/LOOP/run, and with dry_run: true for the plan. */
export interface RunBody extends LimitsBody {
  context?: Record<string, string>;
  id?: string;
  queue?: boolean;
  fresh?: boolean;
  worktree?: boolean;
  dry_run?: boolean;
}
/** The plan of a dry run, as `ll-loop run --dry-run` prints it. */
export interface DryRun {
  schema: 1;
  lines: string[];
}

/** GET /api/templates */
export interface Templates {
  schema: 1;
  templates: { name: string; title: string; description: string }[];
}
/** POST /api/loops → Created. Needs `--edit`. */
export interface CreateBody {
  project?: string;
  template: string;
}
export interface Created {
  schema: 1;
  key: string;
  file: string;
  lines: string[];
}

// ── runs ────────────────────────────────────────────────────────────────────────────────────────

/**
 * GET /api/runs?status=&loop=&day=&before=
 *
 * `status` is one of `Filter`, `loop` a loop's name, `day` a day such as 2026-11-18 in the zone of
 * `zone` (minutes east of UTC, 0 by default). Without `before`, the current runs and the first 50
 * past ones; with `before` (the `next` of the page before), the next 50 past ones.
 */
export interface RunList {
  schema: 1;
  current: RunRow[]; // waiting for you first, then running, queued, and what else is unfinished
  past: RunRow[]; // newest first, at most 50
  total: number; // past runs that match
  next: string | null; // for the next page
  cost: CostTotals;
  loops: string[]; // for the filter
}
export type Filter =
  | "waiting" | "running" | "queued" | "ended" | "completed" | "failed" | "interrupted";
export interface CostTotals {
  today_usd: number;
  week_usd: number;
  estimated: boolean;
}
export interface RunRow {
  key: string;
  project: string;
  name: string; // "fix-types", "fix-types@2", "nightly/types"
  run: string | null; // the id of this run; another run may get the same name later
  loop: string;
  archived_as: string | null; // when it started, as `ll-loop history` shows it
  status: Status;
  reason: string | null;
  word: string;
  tone: Tone;
  group: Group;
  state: string | null;
  context: { name: string; text: string }[]; // what is not as in the loop's file
  iteration: number | null;
  max_iterations: number | null; // known for a single run only
  started_ms: number; // 0 if it has not started
  queued_ms: number | null; // since when it is queued
  updated_ms: number;
  duration_ms: number; // running time, until `at_ms`
  at_ms: number; // the server's clock
  cost_usd: number;
  tokens: number;
  error: string | null; // why it failed or waits, masked
  damage: string | null;
  suggested_limits: LimitTexts | null; // higher ones, by the names of `resume`; null if no limit was reached
  pid: number | null;
  gate: Gate | null;
  has_file: boolean;
  forked_from: { name: string; step: number } | null;
  has_children: boolean;
  seq: number | null; // of its last event
  can: Can[];
}
export interface Gate {
  state: string;
  seq: number;
}
/** The manual's words, and: queued, damaged, newer (written by a newer version). */
export type Status =
  | "running" | "completed" | "failed" | "interrupted" | "stopped"
  | "awaiting_continuation" | "needs_review" | "queued" | "damaged" | "newer";
export type Group = "waiting" | "running" | "queued" | "ended";
/** Never show it by colour alone. */
export type Tone = "good" | "bad" | "warn" | "running" | "waiting" | "queued" | "none";

/** GET /api/runs/RUN */
export interface RunDetail {
  schema: 1;
  run: RunRow;
  final_line: string | null; // "Loop completed: done (3 iterations, 2m 34s)"
  next_commands: string[]; // one of them is what to do now
  scope: string[];
  context: { name: string; text: string }[]; // the variables that it was started with
  limits: Limits;
  file: string | null;
  loop_key: string | null;
  continuation: string | null; // of a handoff
  gate_message: string | null;
  gate_choices: string[]; // for approve
  worktree: string | null;
  session_pid: number | null;
  evidence: string | null; // "passed on tree 9f3c, clean copy"
  steps: number; // how many there are
  has_diff: boolean; // snapshots show what it changed
  first_ms: number | null;
  last_ms: number | null;
  last_seq: number;
  action: CurrentAction | null;
  forks: RunRow[];
  parent: { key: string; name: string } | null; // the run that has started it
}
export interface CurrentAction {
  state: string;
  step: number;
  attempt: number;
  text: string;
  started_ms: number;
  last_output_ms: number | null;
}

/** In a report, beside the answers of the server: the receipt, or why there is none. */
export interface ReceiptText {
  schema: 1;
  text: string | null;
  reason: string | null;
}

/** GET /api/runs/RUN/children */
export interface Children {
  schema: 1;
  runs: RunRow[];
}

/** GET /api/runs/RUN/machine: visits of states and edges are counted over the whole run. */
export interface RunMachine {
  schema: 1;
  machine: Machine | null; // null for a new run that is queued
  counted_seq: number; // the last event that was counted
}

/**
 * GET /api/runs/RUN/steps?before=STEP or ?after=STEP, and &limit=100 (at most 500)
 *
 * Without either, the last ones. Oldest first.
 */
export interface Steps {
  schema: 1;
  steps: StepRow[];
  first: number; // of the window; 0 without steps
  last: number;
  total: number;
}
export interface StepRow {
  step: number;
  iteration: number;
  state: string;
  kind: StateKind;
  action: string | null; // its first line
  verdict: string | null; // null while it runs
  tone: Tone;
  reason: string | null; // of the verdict
  to: string | null;
  by: string | null; // "on_fail", "next"
  started_ms: number;
  ended_ms: number | null;
  duration_ms: number; // of its actions
  cost_usd: number;
  tokens: number;
  changed: Changed | null; // null if no snapshot shows it
  tree: string | null;
  decision: string | null; // of `keep: best`: "kept", "put_back"
  attempts: number;
  value: number | null; // measured
  handoff: boolean;
}
export interface Changed {
  files: number;
  added: number;
  removed: number;
  paths: string[];
}

/** GET /api/runs/RUN/steps/STEP */
export interface StepDetail {
  schema: 1;
  step: StepRow;
  attempts: Attempt[];
  verdicts: Verdict[];
  transition: { from: string; to: string; by: string } | null;
  evidence: Evidence[];
  events: Record<string, unknown>[]; // as `ll-loop logs --json` prints them
  children: RunRow[];
  can: Can[]; // fork after this step, undo to it
}
/** Where an action ran: in the project, or in a copy of what was committed or snapshotted. */
export type Place = "here" | "clean";
export interface Attempt {
  attempt: number;
  action: string; // masked, complete
  kind: StateKind;
  host: string | null;
  place: Place;
  started_ms: number;
  ended_ms: number | null;
  exit_code: number | null;
  signal: number | null;
  timed_out: boolean;
  interrupted: string | null;
  agent: string | null; // how the agent's turn ended: "success", "auth"
  duration_ms: number | null;
  cost_usd: number;
  tokens: number;
  turns: number;
  stdout_bytes: number;
  stderr_bytes: number;
}
export interface Verdict {
  verdict: string;
  tone: Tone;
  reason: string;
  type: string; // the condition, "check" or "judge"
  value: number | null;
}
export interface Evidence {
  text: string; // "passed on tree 9f3c2a, clean copy"
  verdict: string | null;
  tree: string | null;
  place: Place | null;
}

/** GET /api/runs/RUN/steps/STEP/diff, and /api/runs/RUN/diff for the whole run; `text` is like `git diff`, at most 1 MiB. */
export interface Diff {
  schema: 1;
  first: number;
  last: number;
  text: string;
  truncated: boolean;
}

/**
 * GET /api/runs/RUN/steps/STEP/output?attempt=1&stream=stdout&offset=0&limit=65536
 *
 * Text, never markup. `offset` counts bytes of the raw stream; go on at `next`. With `offset=-1`, the
 * last `limit` bytes. `stream=agent` is what an agent said and did, `offset` counts its lines.
 */
export interface Output {
  schema: 1;
  text: string; // masked
  offset: number; // where `text` begins
  next: number; // where to go on
  size: number; // so far
  done: boolean; // no more will come
}
export type OutputStream = "stdout" | "stderr" | "agent";

/** GET /api/runs/RUN/steps/STEP/search?attempt=1&stream=stdout&text=WORD&offset=0 */
export interface OutputSearch {
  schema: 1;
  hits: { offset: number; line: string; column: number }[]; // at most 200
  next: number | null; // where to go on; null at the end
}

/** GET /api/runs/RUN/timeline?before=STEP&limit=500: rows with bars, and marks. */
export interface Timeline {
  schema: 1;
  rows: TimelineRow[];
  marks: TimelineMark[];
  from_ms: number;
  to_ms: number; // now, for a run that is alive
  first: number; // steps
  last: number;
  total: number;
}
export interface TimelineRow {
  name: string; // a state, or "state/branch"
  state: string;
  kind: "state" | "branch";
  bars: TimelineBar[];
}
export interface TimelineBar {
  step: number;
  from_ms: number;
  to_ms: number | null; // null while it runs
  verdict: string | null;
  tone: Tone;
  cost_usd: number;
  key: string | null; // of the branch's run
}
export type MarkKind = "handoff" | "wait" | "stop" | "resume" | "cost" | "gate" | "fork" | "note" | "warning" | "end";
export interface TimelineMark {
  kind: MarkKind;
  at_ms: number;
  until_ms: number | null; // of a wait
  step: number;
  state: string | null;
  text: string;
}

/** GET /api/runs/RUN/charts: a convergence loop's measurements; empty for others. */
export interface RunCharts {
  schema: 1;
  points: ChartPoint[]; // at most 2,000; thinned out if there are more
  target: number | null;
  direction: "min" | "max" | null;
  costs: { iteration: number; cost_usd: number; tokens: number }[];
}
export interface ChartPoint {
  iteration: number;
  step: number;
  value: number;
  best: number | null; // kept so far
  verdict: string;
  decision: string | null;
}

/** GET /api/runs/RUN/events?after=SEQ&limit=500, as `ll-loop logs --json` prints them. */
export interface Events {
  schema: 1;
  events: Record<string, unknown>[];
  next: number; // the last seq; ask for more with it
  more: boolean;
}

// ── actions ─────────────────────────────────────────────────────────────────────────────────────

/*
 * POST /api/runs/RUN/VERB. Each does what `ll-loop VERB` does. An answer of 200 is `Done`; a refusal
 * is 409 with the words of the command. The event that acknowledges it comes with the stream.
 */
export interface Done {
  schema: 1;
  verb: Verb;
  key: string | null; // of the run that was started or changed
  lines: string[]; // what the command prints
  result: Record<string, unknown>; // what it prints with --json
}
/** POST /api/runs/RUN/stop */
export type StopBody = Record<string, never>;
/**
 * POST /api/runs/RUN/run, and with dry_run: true for the plan: its loop again, with the context,
 * limits, scope and worktree that it had, but for what is given here.
 */
export type AgainBody = LimitsBody & Pick<RunBody, "context" | "queue" | "dry_run">;
/** POST /api/runs/RUN/resume: limits count from the start of the run. */
export interface ResumeBody extends LimitsBody {
  max_continuations?: number;
  over_budget?: boolean;
  queue?: boolean;
  from?: string; // a state
  definition?: "original" | "current";
  context?: Record<string, string>;
}
/** POST /api/runs/RUN/approve */
export interface ApproveBody {
  message?: string;
  to?: string; // one of the gate's choices
  definition?: "original" | "current";
}
/** POST /api/runs/RUN/reject */
export interface RejectBody {
  message: string;
  definition?: "original" | "current";
}
/** POST /api/runs/RUN/tell; to answer a handoff: tell, then resume. */
export interface TellBody {
  text: string;
}
/** POST /api/runs/RUN/fork: in a new worktree. */
export interface ForkBody {
  at: number;
  context?: Record<string, string>;
  id?: string;
  max_iterations?: number;
  start?: boolean; // default true
}
/** POST /api/runs/RUN/undo */
export interface UndoBody {
  to?: number; // a step; without it, before the run
  dry_run?: boolean;
  force?: boolean;
}
/*
 * GET /api/runs/RUN/receipt → application/json, GET /api/runs/RUN/report?format=html|markdown:
 * files to download; fetch them with the token, and save them as blobs.
 */

// ── live ────────────────────────────────────────────────────────────────────────────────────────

/*
 * GET /api/stream                    changes in the list of runs and of loops
 * GET /api/runs/RUN/stream?after=SEQ&run=ID
 *                                    the events of a run after SEQ, and how its output grows
 *
 * Both answer application/x-ndjson: one `StreamItem` a line, until the reader leaves. Events come in
 * order of `seq`, without gaps: after a reconnect, ask with the last `seq` that arrived.
 */
export type StreamItem =
  | { type: "hello"; live: Live; at_ms: number }
  | { type: "event"; seq: number; event: Record<string, unknown> }
  | { type: "run"; run: RunRow } // it is new, or has changed
  | { type: "gone"; key: string } // it is no longer among the current runs
  | { type: "loops" } // a loop file was added, changed or removed: GET /api/loops again
  | { type: "output"; step: number; attempt: number; stdout: number; stderr: number } // sizes so far
  | { type: "replaced"; run: string | null } // another run has this name now: load the page again
  | { type: "end" } // the run has ended and nothing more will come
  | { type: "ping"; at_ms: number }; // every 15 s

// ── the editor ──────────────────────────────────────────────────────────────────────────────────

/*
 * GET  /api/loops/LOOP/source        the text with its marks and problems
 * POST /api/loops/LOOP/preview       an edit, not saved: the splice, the difference, the machine
 * PUT  /api/loops/LOOP/source        save; 409 with the difference if the file has changed
 *
 * Their types are in `editor/api.ts`. POST and PUT need `--edit`.
 */

// ── the table of routes ─────────────────────────────────────────────────────────────────────────

export const ROUTES = {
  server: "GET /api/server",
  loops: "GET /api/loops",
  create: "POST /api/loops",
  loop: "GET /api/loops/{loop}",
  loopCharts: "GET /api/loops/{loop}/charts",
  run: "POST /api/loops/{loop}/run",
  templates: "GET /api/templates",
  runs: "GET /api/runs",
  runDetail: "GET /api/runs/{run}",
  children: "GET /api/runs/{run}/children",
  machine: "GET /api/runs/{run}/machine",
  timeline: "GET /api/runs/{run}/timeline",
  steps: "GET /api/runs/{run}/steps",
  step: "GET /api/runs/{run}/steps/{step}",
  diff: "GET /api/runs/{run}/steps/{step}/diff",
  output: "GET /api/runs/{run}/steps/{step}/output",
  search: "GET /api/runs/{run}/steps/{step}/search",
  runCharts: "GET /api/runs/{run}/charts",
  events: "GET /api/runs/{run}/events",
  again: "POST /api/runs/{run}/run",
  stop: "POST /api/runs/{run}/stop",
  resume: "POST /api/runs/{run}/resume",
  approve: "POST /api/runs/{run}/approve",
  reject: "POST /api/runs/{run}/reject",
  tell: "POST /api/runs/{run}/tell",
  fork: "POST /api/runs/{run}/fork",
  undo: "POST /api/runs/{run}/undo",
  receipt: "GET /api/runs/{run}/receipt",
  report: "GET /api/runs/{run}/report",
  stream: "GET /api/stream",
  runStream: "GET /api/runs/{run}/stream",
} as const;
