/*
 * Buttons for what can be done with a run. The server says which, and why not; each does what the
 * command of that name does. A button that was pressed waits for the event that acknowledges it,
 * and then shows that event.
 */

import { signal } from "@preact/signals";
import { useRef, useState } from "preact/hooks";
import type { Can, Done, LimitTexts, RunDetail, RunRow, Verb } from "../api";
import { act, Failure, runPath } from "../client";
import { useAnswer, useClient } from "../context";
import { announce } from "../live";
import { clock } from "../format";
import { go, hrefs } from "../router";
import { Dialog, Icon, Message, Problem, sentence } from "./basics";
import { Cancel, canQueue, given, LimitFields, limitsOf, Refusal } from "./fields";
import { AgainDialog } from "./run_dialog";

// ── acknowledgement ─────────────────────────────────────────────────────────────────────────────

interface Pending {
  verb: Verb;
  seq: number; // the last event when the button was pressed
  event: string | null; // the event that acknowledged it
  eventSeq: number;
  at: number;
}

/** By the key of the run. */
const pending = signal<Record<string, Pending>>({});

const FINAL = ["loop_complete", "loop_error", "loop_timeout", "loop_paused", "loop_interrupted", "handoff"];
const ACKNOWLEDGED_BY: Partial<Record<Verb, string[]>> = {
  stop: ["children_stop", ...FINAL],
  resume: ["resume"],
  approve: ["gate_answered"],
  reject: ["gate_answered"],
  tell: ["note_received"],
};

function setPending(key: string, value: Pending | null): void {
  const { [key]: _, ...others } = pending.value;
  pending.value = value === null ? others : { ...others, [key]: value };
}

/** An event of a run has arrived: it may be what a button waits for. */
export function acknowledge(key: string, seq: number, kind: string): void {
  const waiting = pending.value[key];
  if (!waiting || waiting.event !== null || seq <= waiting.seq) return;
  if (!ACKNOWLEDGED_BY[waiting.verb]?.includes(kind)) return;
  setPending(key, { ...waiting, event: kind, eventSeq: seq, at: Date.now() });
  announce(`${waiting.verb}: acknowledged by event ${seq}, ${kind}`);
  setTimeout(() => setPending(key, null), 8000);
}

/** In a list only the row changes: a later event with another status is the acknowledgement. */
export function acknowledgeRow(row: RunRow): void {
  const waiting = pending.value[row.key];
  if (!waiting || waiting.event !== null || row.seq === null || row.seq <= waiting.seq) return;
  const expected = { stop: row.group !== "running", resume: row.group === "running", approve: row.gate === null, reject: row.gate === null }[
    waiting.verb as "stop"
  ];
  if (expected === false) return;
  setPending(row.key, { ...waiting, event: row.word, eventSeq: row.seq, at: Date.now() });
  setTimeout(() => setPending(row.key, null), 8000);
}

// ── buttons ─────────────────────────────────────────────────────────────────────────────────────

const WORDS: Partial<Record<Verb, [idle: string, busy: string, done: string]>> = {
  stop: ["Stop", "Stopping…", "stopped"],
  resume: ["Resume", "Resuming…", "resumed"],
  run: ["Run again", "Starting…", "started"],
  approve: ["Approve", "Approving…", "approved"],
  reject: ["Reject", "Rejecting…", "rejected"],
  tell: ["Send a note", "Sending…", "sent"],
  fork: ["Fork here", "Forking…", "forked"],
  undo: ["Undo", "Undoing…", "undone"],
};

const IN_ROW: Verb[] = ["approve", "reject", "resume", "run", "stop"];
const IN_HEAD: Verb[] = ["approve", "reject", "resume", "run", "stop", "tell", "undo"];
/** At a gate, an answer is what the run waits for. */
const NOT_AT_A_GATE: Verb[] = ["resume"];

export function canDo(can: Can[], verb: Verb): Can | null {
  return can.find((each) => each.verb === verb) ?? null;
}

export function Actions(props: { run: RunRow; detail?: RunDetail | null; compact?: boolean; hidden?: boolean }) {
  const client = useClient();
  const [open, setOpen] = useState<Verb | null>(null);
  const [refused, setRefused] = useState<{ failure: Failure; verb: Verb; body: object } | null>(null);
  const { run, compact } = props;
  const pressed = useRef<Verb | null>(null);
  const waiting = pending.value[run.key];
  if (!client.live || props.hidden) return null;
  const verbs = (compact ? IN_ROW : IN_HEAD)
    .map((verb) => canDo(run.can, verb))
    .filter((can): can is Can => can !== null && can.allowed)
    .filter((can) => !run.gate || !NOT_AT_A_GATE.includes(can.verb))
    // In a list, only where it is what to do next.
    .filter((can) => can.verb !== "run" || !compact || (run.status === "failed" && !canDo(run.can, "resume")?.allowed));
  const main: Verb = verbs.some((can) => can.verb === "approve") ? "approve" : verbs.some((can) => can.verb === "resume") ? "resume" : "run";

  async function start(verb: Verb, body: object): Promise<boolean> {
    setRefused(null);
    setPending(run.key, { verb, seq: run.seq ?? 0, event: null, eventSeq: 0, at: 0 });
    try {
      const done = await act(client, run.key, verb, body);
      announce(done.result.queued ? `${run.name} is queued` : done.lines.join(" "));
      // A queued run has its place in the queue, and no event before its turn comes.
      if (ACKNOWLEDGED_BY[verb] === undefined || done.result.queued) setPending(run.key, null);
      // An event may be missed, if the run moves to the history at once.
      else setTimeout(() => pending.value[run.key]?.event === null && setPending(run.key, null), 10_000);
      if (done.result.queued && !compact && done.key !== null && done.key !== run.key) go(hrefs.run(done.key), true);
      return true;
    } catch (error) {
      setPending(run.key, null);
      if (!(error instanceof Failure)) throw error;
      setRefused({ failure: error, verb, body });
      return false;
    }
  }

  function press(verb: Verb, clicks: number): void {
    // A button that has taken the place of another one is not meant by a double click.
    if (clicks > 1 && verb !== pressed.current) return;
    pressed.current = verb;
    if (verb === "stop") void start("stop", {});
    // A run that has reached a limit would reach it again at once.
    else if (verb === "resume" && compact && run.suggested_limits === null) void start("resume", {});
    else setOpen(verb);
  }

  return (
    <div class="actions">
      {waiting && <Acknowledged pending={waiting} compact={compact ?? false} />}
      {verbs
        .filter((can) => can.verb !== waiting?.verb)
        .map((can) => (
          <button
            key={can.verb}
            type="button"
            class={`${can.verb === main && (compact ? run.group === "waiting" : run.status !== "completed") ? "primary" : ""} ${compact ? "small" : ""}`}
            onClick={(event) => press(can.verb, event.detail)}
            aria-label={can.verb === "run" ? `Run again: ${run.name}` : `${WORDS[can.verb]?.[0]} ${run.name}`}
          >
            {WORDS[can.verb]?.[0] ?? can.verb}
          </button>
        ))}
      {refused && (
        <Dialog title="Refused" onClose={() => setRefused(null)}>
          <Refusal failure={refused.failure} />
          <footer>
            {refused.verb === "resume" && canQueue(refused.failure) && (
              <button type="button" class="primary" onClick={() => void start("resume", { ...refused.body, queue: true })}>
                Queue it
              </button>
            )}
            <button type="button" onClick={() => setRefused(null)}>
              Close
            </button>
          </footer>
        </Dialog>
      )}
      {open === "resume" && <ResumeDialog run={run} detail={props.detail ?? null} start={start} close={() => setOpen(null)} />}
      {open === "approve" && <AnswerDialog run={run} detail={props.detail ?? null} verb="approve" start={start} close={() => setOpen(null)} />}
      {open === "reject" && <AnswerDialog run={run} detail={props.detail ?? null} verb="reject" start={start} close={() => setOpen(null)} />}
      {open === "tell" && <TellDialog run={run} start={start} close={() => setOpen(null)} />}
      {open === "run" && <AgainDialog run={run} detail={props.detail ?? null} close={() => setOpen(null)} />}
      {open === "undo" && <UndoDialog run={run} step={null} close={() => setOpen(null)} />}
    </div>
  );
}

function Acknowledged({ pending: { verb, event, eventSeq, at }, compact }: { pending: Pending; compact: boolean }) {
  if (event === null) {
    return (
      <span class="acknowledged" role="status">
        <Icon tone="running" /> {WORDS[verb]?.[1] ?? `${verb}…`}
      </span>
    );
  }
  const words = `${event} · event ${eventSeq} · ${clock(at)}`;
  // In a row, there is room for a word only.
  return (
    <span class="acknowledged done" role="status" title={words}>
      <Icon tone="good" /> {compact ? (WORDS[verb]?.[2] ?? event) : words}
    </span>
  );
}

type Start = (verb: Verb, body: object) => Promise<boolean>;
interface DialogProps {
  run: RunRow;
  detail: RunDetail | null;
  start: Start;
  close: () => void;
}

function ResumeDialog({ run, detail: known, start, close }: DialogProps) {
  const { data } = useAnswer<RunDetail>(known ? null : runPath(run.key));
  const detail = known ?? data;
  const [values, setValues] = useState<LimitTexts>(run.suggested_limits ?? {});
  const [note, setNote] = useState("");
  async function submit(event: Event): Promise<void> {
    event.preventDefault();
    close();
    if (note.trim() && !(await start("tell", { text: note }))) return;
    await start("resume", limitsOf(values));
  }
  return (
    <Dialog title={`Resume ${run.name}`} onClose={close}>
      <form onSubmit={(event) => void submit(event)}>
        <p class="muted">
          {run.suggested_limits && "The run has reached a limit; a higher one is filled in. "}
          Limits count from the start of the run. Leave a field empty to keep its limit.
        </p>
        <LimitFields limits={detail?.limits ?? null} values={values} set={setValues} />
        {canDo(run.can, "tell")?.allowed && (
          <label class="field">
            <span>
              For the next agent <small class="muted">optional</small>
            </span>
            <textarea rows={3} dir="auto" value={note} onInput={(event) => setNote(event.currentTarget.value)} />
          </label>
        )}
        <footer>
          <Cancel close={close} />
          <button type="submit" class="primary">
            Resume
          </button>
        </footer>
      </form>
    </Dialog>
  );
}

function AnswerDialog({ run, detail, verb, start, close }: DialogProps & { verb: "approve" | "reject" }) {
  const [message, setMessage] = useState("");
  const [to, setTo] = useState("");
  const choices = verb === "approve" ? (detail?.gate_choices ?? []) : [];
  async function submit(event: Event): Promise<void> {
    event.preventDefault();
    close();
    await start(verb, given({ message: verb === "reject" ? message : message || undefined, to }));
  }
  return (
    <Dialog title={`${sentence(verb)} ${run.name}`} onClose={close}>
      <form onSubmit={(event) => void submit(event)}>
        {(detail?.gate_message ?? run.error) && (
          <blockquote dir="auto">
            <Message text={detail?.gate_message ?? run.error ?? ""} />
          </blockquote>
        )}
        {choices.length > 1 && (
          <label class="field">
            <span>Continue in</span>
            <select value={to} onChange={(event) => setTo(event.currentTarget.value)}>
              <option value="">the state that the loop names</option>
              {choices.map((state) => (
                <option key={state} value={state}>
                  {state}
                </option>
              ))}
            </select>
          </label>
        )}
        <label class="field">
          <span>
            {verb === "reject" ? "Why, and what to do instead" : "Message"} {verb === "approve" && <small class="muted">optional</small>}
          </span>
          <textarea rows={4} dir="auto" required={verb === "reject"} value={message} onInput={(event) => setMessage(event.currentTarget.value)} />
        </label>
        <footer>
          <Cancel close={close} />
          <button type="submit" class="primary">
            {sentence(verb)}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}

function TellDialog({ run, start, close }: Omit<DialogProps, "detail">) {
  const [text, setText] = useState("");
  return (
    <Dialog title={`Send a note to ${run.name}'s next agent`} onClose={close}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          close();
          void start("tell", { text });
        }}
      >
        <label class="field">
          <span>The next agent gets this text with its prompt</span>
          <textarea rows={5} dir="auto" required value={text} onInput={(event) => setText(event.currentTarget.value)} />
        </label>
        <footer>
          <Cancel close={close} />
          <button type="submit" class="primary">
            Send
          </button>
        </footer>
      </form>
    </Dialog>
  );
}

/** Undo shows what it would do before it does it. */
export function UndoDialog(props: { run: RunRow; step: number | null; close: () => void }) {
  const client = useClient();
  const [done, setDone] = useState<Done | null>(null);
  const [plan, setPlan] = useState<Done | null>(null);
  const [failure, setFailure] = useState<Failure | null>(null);
  async function send(dryRun: boolean, force = false): Promise<void> {
    try {
      const body = given({ to: props.step ?? undefined, dry_run: dryRun || undefined, force: force || undefined });
      const answer = await act(client, props.run.key, "undo", body);
      if (dryRun) setPlan(answer);
      else setDone(answer);
      setFailure(null);
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      setFailure(error);
    }
  }
  const shown = done ?? plan;
  return (
    <Dialog title={props.step === null ? `Undo ${props.run.name}` : `Undo ${props.run.name} to step ${props.step}`} onClose={props.close}>
      <p>
        {props.step === null
          ? "Files in the scope are restored to their state before the run."
          : `Files in the scope are restored to their state after step ${props.step}.`}{" "}
        The current files are saved first, so that this can be undone.
      </p>
      {failure && <Problem failure={failure} />}
      {shown && <pre class="block">{shown.lines.join("\n")}</pre>}
      <footer>
        {done === null && (
          <>
            {plan === null && (
              <button type="button" onClick={() => void send(true)}>
                Show what would change
              </button>
            )}
            <Cancel close={props.close} />
            <button type="button" class="danger" onClick={() => void send(false)}>
              Undo
            </button>
          </>
        )}
      </footer>
    </Dialog>
  );
}

export function ForkDialog(props: { run: RunRow; step: number; close: () => void }) {
  const client = useClient();
  const [done, setDone] = useState<Done | null>(null);
  const [failure, setFailure] = useState<Failure | null>(null);
  async function submit(event: Event): Promise<void> {
    event.preventDefault();
    try {
      setDone(await act(client, props.run.key, "fork", { at: props.step }));
      setFailure(null);
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      setFailure(error);
    }
  }
  return (
    <Dialog title={`Fork ${props.run.name} after step ${props.step}`} onClose={props.close}>
      <form onSubmit={(event) => void submit(event)}>
        <p>A new run begins where this one was after step {props.step}, in a git worktree of its own. This run stays as it is.</p>
        {failure && <Problem failure={failure} />}
        {done && <pre class="block">{done.lines.join("\n")}</pre>}
        <footer>
          {done?.key ? (
            <a class="button primary" href={`#/runs/${encodeURIComponent(done.key)}`}>
              Open the fork
            </a>
          ) : (
            <>
              <Cancel close={props.close} />
              <button type="submit" class="primary">
                Fork
              </button>
            </>
          )}
        </footer>
      </form>
    </Dialog>
  );
}

/** Fetched with the token, and saved as a file. */
export function Downloads({ run }: { run: RunRow }) {
  const client = useClient();
  const [failure, setFailure] = useState<Failure | null>(null);
  if (!client.live) return null;
  async function save(path: string, name: string): Promise<void> {
    try {
      await client.download(runPath(run.key, path), name);
      setFailure(null);
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      setFailure(error);
    }
  }
  const stem = run.name.replace(/[^\w@.-]+/g, "-");
  const receipt = canDo(run.can, "receipt");
  const report = canDo(run.can, "report");
  return (
    <div class="downloads">
      {report?.allowed !== false && (
        <button type="button" class="quiet" onClick={() => void save("/report?format=html", `${stem}.html`)}>
          Download report
        </button>
      )}
      {receipt?.allowed && (
        <button type="button" class="quiet" onClick={() => void save("/receipt", `${stem}.receipt.json`)}>
          Download receipt
        </button>
      )}
      {failure && <Problem failure={failure} />}
    </div>
  );
}
