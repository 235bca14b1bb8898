/* One run: the machine, the timeline, the steps, and everything about the step that is selected. */

import { useEffect, useRef, useState } from "preact/hooks";
import type { ReceiptText, RunCharts, RunDetail, RunMachine, RunRow, Timeline as TimelineAnswer, TimelineBar } from "../api";
import { query, runPath } from "../client";
import { acknowledge, Actions, Downloads } from "../components/actions";
import { Ago, Command, Lasting, Loading, Message, Panel, Problem, sentence, Status } from "../components/basics";
import { Convergence } from "../components/chart";
import { DiffView } from "../components/diff";
import { Graph } from "../components/graph";
import { StepView, type Growth } from "../components/step_detail";
import { StepList } from "../components/steps";
import { Timeline } from "../components/timeline";
import { useAnswer, useClient } from "../context";
import { absolute, clock, count, date, dayName, duration, exact, money, plural } from "../format";
import { follow, now, throttled } from "../live";
import { go, hrefs } from "../router";
import { RunItem } from "./runs";

const REFRESH_MS = 200;
const WINDOW = 500;

export function RunView(props: { runKey: string; step: number | null }) {
  const { runKey } = props;
  const client = useClient();
  const detail = useAnswer<RunDetail>(runPath(runKey));
  const machine = useAnswer<RunMachine>(runPath(runKey, "/machine"));
  const [before, setBefore] = useState<number | null>(null);
  const timeline = useAnswer<TimelineAnswer>(runPath(runKey, `/timeline${query({ before, limit: WINDOW })}`));
  const charts = useAnswer<RunCharts>(runPath(runKey, "/charts"));
  const [tick, setTick] = useState(0);
  const [growth, setGrowth] = useState<Growth | null>(null);
  const [replaced, setReplaced] = useState(false);
  const [ended, setEnded] = useState(false);
  const reloads = useRef<() => Promise<void>>(async () => undefined);
  reloads.current = async () => {
    await Promise.all([detail.reload(), machine.reload(), timeline.reload(), charts.reload()]);
  };
  const lastSeq = useRef(0);
  const run = detail.data?.run ?? null;
  const runId = run?.run ?? null;
  const known = detail.data !== null;

  useEffect(() => {
    setGrowth(null);
    setReplaced(false);
    setBefore(null);
    lastSeq.current = 0;
  }, [runKey]);

  useEffect(() => {
    if (!client.live || !known || ended) return;
    lastSeq.current = Math.max(lastSeq.current, detail.data?.last_seq ?? 0);
    const leave = new AbortController();
    const refresh = throttled(async () => {
      setTick((value) => value + 1);
      await reloads.current();
    }, REFRESH_MS);
    void follow(
      client,
      () => runPath(runKey, `/stream${query({ after: lastSeq.current, run: runId })}`),
      (item) => {
        if (item.type === "event") {
          lastSeq.current = item.seq;
          acknowledge(runKey, item.seq, String(item.event.event));
          refresh.ask();
        } else if (item.type === "run") refresh.ask();
        else if (item.type === "end") {
          setTick((value) => value + 1);
          void reloads.current();
          setEnded(true);
        }
        else if (item.type === "output") setGrowth(item);
        else if (item.type === "replaced") setReplaced(true);
      },
      leave.signal,
      { main: true, again: () => refresh.ask() },
    );
    return () => {
      leave.abort();
      refresh.cancel();
    };
  }, [client, runKey, runId, known, ended]);

  // The stream of a run ends with it; the one of the lists tells when it continues.
  useEffect(() => {
    if (!client.live || !ended) return;
    const leave = new AbortController();
    const look = (): void => void detail.reload().then(() => setEnded(false));
    void follow(
      client,
      () => "/api/stream",
      (item) => {
        if (item.type === "run" && item.run.key === runKey && (item.run.group === "queued" || (item.run.seq ?? 0) > lastSeq.current)) look();
        // It has continued and ended so soon that it is among the past runs already.
        if (item.type === "gone" && item.key === runKey) look();
      },
      leave.signal,
      { main: true, again: look },
    );
    return () => leave.abort();
  }, [client, runKey, ended]);

  const word = run?.word ?? null;
  useEffect(() => {
    if (word === null || !client.live) return;
    document.title = `${run!.name}: ${word} · ll-loop`; // so that a tab tells that its run has ended
    // The link that led here is gone, and with it the focus.
    if (document.activeElement === document.body) document.querySelector<HTMLElement>("main h1")?.focus();
  }, [runKey, word]);

  if (detail.error && !detail.data) {
    return (
      <>
        <p class="crumbs">
          <a href={hrefs.runs()}>Runs</a>
        </p>
        <h1 tabIndex={-1}>{runKey}</h1>
        <Problem failure={detail.error} retry={detail.error.status === 404 ? undefined : () => void detail.reload()} />
        {detail.error.status === 404 && (
          <a class="button" href={hrefs.runs()}>
            Show the runs
          </a>
        )}
      </>
    );
  }
  if (!detail.data || !run) return <Loading what="the run" />;

  const data = detail.data;
  const isNew = run.run === null && run.group === "queued"; // it has recorded nothing yet
  const last = lastAction(timeline.data, machine.data);
  const selected = props.step ?? data.action?.step ?? (last?.bar.step || data.steps || null);
  const isOver = run.group === "ended" || run.group === "waiting";
  const ending = isOver ? { tone: run.tone, failed: run.status === "failed" && last?.bar.tone === "bad" ? last.row : null } : null;
  const select = (step: number): void => go(hrefs.run(runKey, step), true);
  const state = timeline.data?.rows.find((row) => row.bars.some((bar) => bar.step === selected))?.name ?? null;
  function selectState(name: string): void {
    const bars = timeline.data?.rows.find((row) => row.name === name)?.bars ?? [];
    const last = bars[bars.length - 1];
    if (last) select(last.step);
  }

  return (
    <div class="run-page">
      <div class={`run-top${isNew ? " is-new" : ""}`}>
        <div class="run-summary">
          <RunHead data={data} replaced={replaced} />
          {!isNew && (
            <Panel
              class="timeline-panel"
              title="Timeline"
              note={timeline.data && <TimelineWindow data={timeline.data} setBefore={setBefore} latest={before === null} />}
            >
              {timeline.error && <Problem failure={timeline.error} />}
              {timeline.data ? (
                timeline.data.rows.length ? (
                  <Timeline data={timeline.data} selected={selected} onSelect={select} />
                ) : (
                  <p class="muted nothing">Nothing has run yet.</p>
                )
              ) : (
                !timeline.error && <Loading what="the timeline" />
              )}
            </Panel>
          )}
        </div>
        {!isNew && (
          <Panel class="machine-panel" title="Machine" note={machine.data?.machine && plural(machine.data.machine.states.length, "state")}>
            {machine.error && <Problem failure={machine.error} />}
            {machine.data?.machine ? <Graph machine={machine.data.machine} ending={ending} filling selected={state} onSelect={selectState} /> : !machine.error && <Loading what="the machine" />}
          </Panel>
        )}
      </div>
      {!isNew && (
        <div class="run-steps">
          <div class="steps-column">
            <Panel class="steps-panel" title="Steps" note={plural(data.steps, "step")}>
              <StepList runKey={runKey} tick={tick} selected={selected} onSelect={select} />
            </Panel>
          </div>
          <Panel title="Step" class="detail-panel">
            {selected === null ? (
              <p class="muted nothing">No steps yet.</p>
            ) : (
              <StepView key={`${runKey} ${selected}`} run={run} loopKey={data.loop_key} step={selected} tick={tick} growth={growth} />
            )}
          </Panel>
        </div>
      )}
      <div class="run-rest">
        {charts.data && charts.data.points.length > 0 && (
          <Panel title="Measured value">
            <Convergence data={charts.data} />
          </Panel>
        )}
        {client.live && data.has_diff && <Changes run={run} />}
        <About data={data} />
        {!client.live && <Receipt runKey={runKey} />}
      </div>
    </div>
  );
}

/** The last step in which something ran: more interesting than a terminal state. */
function lastAction(timeline: TimelineAnswer | null, machine: RunMachine | null): { row: string; bar: TimelineBar } | null {
  const ends = new Set(machine?.machine?.states.filter((state) => state.terminal && !state.action).map((state) => state.name));
  const rows = timeline?.rows.filter((row) => row.kind === "state" && !ends.has(row.name)) ?? [];
  let found: { row: string; bar: TimelineBar } | null = null;
  for (const row of rows) {
    for (const bar of row.bars) if (bar.step > (found?.bar.step ?? 0)) found = { row: row.name, bar };
  }
  return found;
}

function TimelineWindow(props: { data: TimelineAnswer; latest: boolean; setBefore: (step: number | null) => void }) {
  const { first, last, total } = props.data;
  if (total <= last - first + 1) return null;
  return (
    <span class="window">
      steps {exact(first)}–{exact(last)} of {exact(total)}
      <button type="button" class="quiet small" disabled={first <= 1} onClick={() => props.setBefore(first)}>
        Earlier
      </button>
      <button type="button" class="quiet small" disabled={props.latest} onClick={() => props.setBefore(last + WINDOW >= total ? null : last + WINDOW + 1)}>
        Later
      </button>
    </span>
  );
}

function RunHead({ data, replaced }: { data: RunDetail; replaced: boolean }) {
  const { run } = data;
  const client = useClient();
  const running = run.status === "running";
  const asks = run.group === "waiting";
  const why = asks ? null : (run.damage ?? run.error);
  return (
    <header class="run-head">
      <p class="crumbs">
        {client.live && <a href={hrefs.runs()}>Runs</a>}
        {client.live && data.parent && (
          <>
            {" / "}
            <a href={hrefs.run(data.parent.key)}>{data.parent.name}</a>
          </>
        )}
        {!client.live && <>Report · ll-loop</>}
      </p>
      <div class="title-line">
        <h1 tabIndex={-1} class="mono">
          <bdi>{run.name}</bdi>
        </h1>
        <Status tone={run.tone} word={run.word} big />
        <div class="grow" />
        <Actions run={run} detail={data} />
      </div>
      {(running || (why === null && !run.gate)) && <p class="final" dir="auto">
        {running && data.action ? (
          <>
            <bdi class="mono">{data.action.state}</bdi> is running <code class="one-line">{data.action.text.split("\n")[0]}</code>
            {data.action.last_output_ms !== null && (
              <span class="muted">
                {" "}
                · last output <Ago at={data.action.last_output_ms} />
              </span>
            )}
          </>
        ) : (
          data.final_line && <Message text={data.final_line} />
        )}
      </p>}
      {asks && (
        <div class="callout tone-waiting">
          <div>
            <h2>{run.gate ? "This run is waiting for your answer" : run.status === "awaiting_continuation" ? "This run is waiting for a fresh session" : "This run is waiting for you"}</h2>
            <p dir="auto" class="pre-wrap">
              <Message text={run.gate ? (data.gate_message ?? "") : (data.continuation ?? sentence(data.gate_message ?? run.error ?? ""))} />
            </p>
          </div>
        </div>
      )}
      {why && (
        <div class={`callout tone-${run.tone}`}>
          <div>
            <p dir="auto" class="pre-wrap">
              <Message text={sentence(why)} />
            </p>
          </div>
        </div>
      )}
      {replaced && (
        <div class="callout tone-warn" role="status">
          <div>
            <p>Another run has this name now.</p>
            <button type="button" onClick={() => location.reload()}>
              Show it
            </button>
          </div>
        </div>
      )}
      <dl class="facts big">
        <Fact name="Iterations">
          {run.iteration ?? 0}
          {data.limits.max_iterations && run.group !== "queued" ? <span class="muted"> of {exact(data.limits.max_iterations)}</span> : null}
        </Fact>
        {(run.group !== "queued" || run.run !== null) && <Fact name={running ? "Running for" : "Ran for"}>
          <Lasting ms={run.duration_ms} at={run.at_ms} running={running && client.live} />
          {data.limits.timeout_s ? <span class="muted"> of {duration(data.limits.timeout_s * 1000)}</span> : null}
        </Fact>}
        <Fact name="Cost">
          {run.cost_usd > 0 ? money(run.cost_usd) : "–"}
          {data.limits.max_cost_usd ? <span class="muted"> of {money(data.limits.max_cost_usd)}</span> : null}
        </Fact>
        <Fact name="Tokens">{run.tokens > 0 ? count(run.tokens) : "–"}</Fact>
        {run.queued_ms !== null && (
          <Fact name="Queued">
            <Ago at={run.queued_ms} />
          </Fact>
        )}
        {asks && run.updated_ms > 0 && (
          <Fact name="Waiting since">
            <Ago at={run.updated_ms} />
          </Fact>
        )}
        {run.started_ms > 0 && <Fact name="Started">
          {client.live ? <Started at={run.started_ms} /> : <time dateTime={new Date(run.started_ms).toISOString()}>{absolute(run.started_ms)}</time>}
        </Fact>}
        {data.evidence && <Fact name="Evidence" hint={EVIDENCE[data.evidence]}>{data.evidence}</Fact>}
      </dl>
    </header>
  );
}

/** When it started, as the list says it, and how long ago that is. */
function Started({ at }: { at: number }) {
  const isToday = dayName(at, now.value) === "Today";
  return (
    <>
      {isToday ? clock(at) : `${date(at)}, ${clock(at)}`}{" "}
      <span class="muted">
        <Ago at={at} />
      </span>
    </>
  );
}

/** What the words for evidence mean; others are explained by themselves. */
const EVIDENCE: Record<string, string> = {
  verified: "The last check passed on the files as they are now.",
  unchecked: "The run has no check whose pass would be evidence.",
  stale: "Files changed after the last check had passed.",
  merged: "Merged with later commits, and not checked since.",
  failed: "No check has passed.",
};

function Fact(props: { name: string; hint?: string | undefined; children: preact.ComponentChildren }) {
  return (
    <div title={props.hint}>
      <dt>{props.name}</dt>
      <dd>{props.children}</dd>
    </div>
  );
}

/** Everything that the run changed; loaded when it is opened. */
function Changes({ run }: { run: RunRow }) {
  const [open, setOpen] = useState(false);
  return (
    <Panel title="Changes">
      <details open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>What the whole run has changed</summary>
        {open && <DiffView run={run} step={null} />}
      </details>
    </Panel>
  );
}

/** In a report: what was proved, as a document that `ll-loop verify` checks. */
function Receipt({ runKey }: { runKey: string }) {
  const { data } = useAnswer<ReceiptText>(runPath(runKey, "/receipt"));
  if (!data) return null;
  return (
    <Panel title="Receipt">
      {data.text === null ? (
        <p class="muted">
          <Message text={`There is none: ${data.reason ?? ""}`} />
        </p>
      ) : (
        <details>
          <summary>Show the receipt, as JSON</summary>
          <pre class="block" tabIndex={0}>
            {data.text}
          </pre>
        </details>
      )}
    </Panel>
  );
}

function About({ data }: { data: RunDetail }) {
  const client = useClient();
  const { run } = data;
  return (
    <Panel title="About this run" note={<Downloads run={run} />}>
      <dl class="facts about">
        <Fact name="Loop">
          {client.live && data.loop_key ? (
            <a class="mono" href={hrefs.loop(data.loop_key)}>
              {run.loop}
            </a>
          ) : (
            <span class="mono">{run.loop}</span>
          )}
        </Fact>
        {run.run && (
          <Fact name="Run">
            <code>{run.run}</code>
          </Fact>
        )}
        {data.file && (
          <Fact name="File">
            <code dir="auto">{data.file}</code>
          </Fact>
        )}
        {run.started_ms > 0 && <Fact name="Started">{absolute(run.started_ms)}</Fact>}
        {data.scope.length > 0 && (
          <Fact name="Scope" hint="The files that the run may change: no other run uses them meanwhile.">
            <code dir="auto">{data.scope.join(", ")}</code>
          </Fact>
        )}
        {data.worktree && (
          <Fact name="Worktree">
            <code dir="auto">{data.worktree}</code>
          </Fact>
        )}
        {run.pid !== null && <Fact name="Process">{run.pid}</Fact>}
        {run.forked_from && (
          <Fact name="Forked from">
            {run.forked_from.name}, after step {run.forked_from.step}
          </Fact>
        )}
      </dl>
      {data.context.length > 0 && (
        <section class="context" aria-labelledby="context">
          <h3 id="context">Context</h3>
          <dl class="variables">
            {data.context.map(({ name, text }) => (
              <div key={name}>
                <dt class="mono">{name}</dt>
                <dd class="mono" dir="auto">
                  {text || <span class="muted">(empty)</span>}
                </dd>
              </div>
            ))}
          </dl>
        </section>
      )}
      {client.live && data.next_commands.length > 0 && (
        <p class="in-terminal">
          In a terminal:{" "}
          {data.next_commands.map((command, at) => (
            <span key={command}>
              {at > 0 && "or "}
              <Command text={command} />
            </span>
          ))}
        </p>
      )}
      {data.forks.length > 0 && (
        <>
          <h3>Forks</h3>
          <ul class="runs">
            {data.forks.map((fork) => (
              <RunItem key={fork.key} row={fork} projects={1} />
            ))}
          </ul>
        </>
      )}
    </Panel>
  );
}
