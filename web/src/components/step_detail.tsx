/* One step: what ran, its verdict and why, where it led, the evidence, what changed, what was printed. */

import { useEffect, useState } from "preact/hooks";
import type { Attempt, OutputStream, RunRow, StepDetail as Detail } from "../api";
import { runPath } from "../client";
import { useAnswer, useClient } from "../context";
import { absolute, bytes, clock, count, duration, money, plural } from "../format";
import { hrefs } from "../router";
import { canDo, ForkDialog, UndoDialog } from "./actions";
import { Icon, Loading, Message, Problem, Status } from "./basics";
import { DiffView, Lines } from "./diff";
import { Output } from "./output";
import { verdictName, verdictWord } from "./steps";

export interface Growth {
  step: number;
  attempt: number;
  stdout: number;
  stderr: number;
}

export function StepView(props: { run: RunRow; loopKey: string | null; step: number; tick: number; growth: Growth | null }) {
  const { run, step } = props;
  const client = useClient();
  const { data, error, reload } = useAnswer<Detail>(runPath(run.key, `/steps/${step}`));
  const ended = data !== null && data.step.ended_ms !== null;
  const [open, setOpen] = useState<"fork" | "undo" | null>(null);
  useEffect(() => {
    if (data && !ended) void reload();
  }, [props.tick]);
  if (error && !data) return <Problem failure={error} retry={() => void reload()} />;
  if (!data) return <Loading what={`step ${step}`} />;
  const row = data.step;
  const fork = canDo(data.can, "fork");
  const undo = canDo(data.can, "undo");
  const edit = canDo(run.can, "edit");
  return (
    <article class="step-view" aria-label={`Step ${step}`}>
      <header>
        <div>
          <p class="eyebrow">
            Step {row.step} · iteration {row.iteration}
          </p>
          <h3 class="mono">
            <bdi>{row.state}</bdi>
          </h3>
        </div>
        <div class="step-side">
          {client.live && edit?.allowed && props.loopKey !== null && (
            <a class="button small" href={hrefs.edit(props.loopKey, row.state)}>
              Edit this state
            </a>
          )}
          <Status tone={row.tone} word={verdictWord(row)} big />
        </div>
      </header>
      <dl class="facts">
        <Fact name="Started">
          <time title={absolute(row.started_ms)}>{clock(row.started_ms)}</time>
        </Fact>
        {row.duration_ms > 0 && <Fact name="Took">{duration(row.duration_ms)}</Fact>}
        {row.tokens > 0 && <Fact name="Tokens">{count(row.tokens)}</Fact>}
        {row.cost_usd > 0 && <Fact name="Cost">{money(row.cost_usd)}</Fact>}
        {row.value !== null && <Fact name="Measured">{row.value}</Fact>}
        {data.transition && (
          <Fact name="Then">
            → <bdi class="mono">{data.transition.to}</bdi> <span class="muted">({data.transition.by})</span>
          </Fact>
        )}
      </dl>
      {data.verdicts.length > 0 && <Verdicts data={data} />}
      {data.evidence.length > 0 && (
        <Section title="Evidence">
          <ul class="evidence">
            {data.evidence.map((each, at) => (
              <li key={at}>
                <Message text={each.text} />
              </li>
            ))}
          </ul>
        </Section>
      )}
      {row.kind === "branches" && <Children data={data} />}
      {row.changed && row.changed.files > 0 && (
        <Section title="Changes" note={<Lines changed={row.changed} />}>
          <DiffView run={run} step={step} />
        </Section>
      )}
      {data.attempts.length > 0 && <Attempts {...props} attempts={data.attempts} failed={row.tone === "bad"} />}
      {row.kind !== "branches" && <Children data={data} />}
      <Events events={data.events} />
      {client.live && (fork?.allowed || undo?.allowed) && (
        <footer class="step-actions">
          {fork?.allowed && (
            <button type="button" onClick={() => setOpen("fork")}>
              Fork here
            </button>
          )}
          {undo?.allowed && (
            <button type="button" onClick={() => setOpen("undo")}>
              Undo to this step
            </button>
          )}
        </footer>
      )}
      {open === "fork" && <ForkDialog run={run} step={step} close={() => setOpen(null)} />}
      {open === "undo" && <UndoDialog run={run} step={step} close={() => setOpen(null)} />}
    </article>
  );
}

function Fact(props: { name: string; children: preact.ComponentChildren }) {
  return (
    <div>
      <dt>{props.name}</dt>
      <dd>{props.children}</dd>
    </div>
  );
}

function Section(props: { title: string; note?: preact.ComponentChildren; children: preact.ComponentChildren }) {
  return (
    <section class="step-section">
      <h4>
        {props.title} {props.note && <span class="note">{props.note}</span>}
      </h4>
      {props.children}
    </section>
  );
}

/** The runs that a step started: its branches, or another loop. */
function Children({ data }: { data: Detail }) {
  const client = useClient();
  if (data.children.length === 0) return null;
  // Its name within the step: that of a branch, or of the state for another loop.
  const nameOf = (child: RunRow): string => child.name.slice(child.name.lastIndexOf("/") + 1);
  return (
    <Section title={data.step.kind === "branches" ? "Branches" : "Runs that it started"}>
      <div class="table-box">
        <table class="children-table">
          <thead>
            <tr>
              <th scope="col">Run</th>
              <th scope="col">Status</th>
              <th scope="col" class="number less">Iterations</th>
              <th scope="col" class="number">Time</th>
              <th scope="col" class="number less">Cost</th>
            </tr>
          </thead>
          <tbody>
            {data.children.map((child) => (
              <tr key={child.key}>
                <th scope="row">
                  {client.live ? (
                    <a href={hrefs.run(child.key)} class="mono">
                      <bdi>{nameOf(child)}</bdi>
                    </a>
                  ) : (
                    <bdi class="mono">{nameOf(child)}</bdi>
                  )}
                </th>
                <td>
                  <Status tone={child.tone} word={child.word} />
                </td>
                <td class="number less">{child.iteration ?? "–"}</td>
                <td class="number">{child.duration_ms > 0 ? duration(child.duration_ms) : "–"}</td>
                <td class="number less">{child.cost_usd > 0 ? money(child.cost_usd) : "–"}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Section>
  );
}

function Verdicts({ data }: { data: Detail }) {
  return (
    <Section title={data.verdicts.length > 1 ? "Verdicts" : "Verdict"}>
      <ul class="verdicts">
        {data.verdicts.map((each, at) => (
          <li key={at}>
            <Icon tone={each.tone} />
            <span>
              <strong>{verdictName(each.verdict)}</strong>
              {each.reason && (
                <>
                  {": "}
                  <Message text={each.reason} />
                </>
              )}{" "}
              <span class="muted">({each.type.replaceAll("_", " ")})</span>
            </span>
          </li>
        ))}
      </ul>
    </Section>
  );
}

function Attempts(props: { run: RunRow; step: number; growth: Growth | null; attempts: Attempt[]; failed: boolean; tick: number }) {
  const { attempts, growth } = props;
  const last = attempts[attempts.length - 1]!;
  const [chosen, setChosen] = useState<number | null>(null);
  const attempt = attempts.find((each) => each.attempt === chosen) ?? last;
  const running = attempt.ended_ms === null && props.run.group === "running";
  const mine = growth && growth.step === props.step && growth.attempt === attempt.attempt ? growth : null;
  const sizes: [OutputStream, number][] = [
    ["stdout", Math.max(attempt.stdout_bytes, mine?.stdout ?? 0)],
    ["stderr", Math.max(attempt.stderr_bytes, mine?.stderr ?? 0)],
  ];
  const streams: OutputStream[] = [...(attempt.kind === "agent" ? (["agent"] as const) : []), ...sizes.filter(([name, size]) => name === "stdout" || size > 0).map(([name]) => name)];
  const [stream, setStream] = useState<OutputStream | null>(null);
  const shown = stream !== null && streams.includes(stream) ? stream : attempt.kind === "agent" ? "agent" : sizes[0]![1] === 0 && streams.includes("stderr") ? "stderr" : "stdout";
  const grows = (mine?.stdout ?? 0) + (mine?.stderr ?? 0);
  // Of an action that failed, both are shown: which of them has the reason depends on the program.
  const both = props.failed && attempt.kind !== "agent" && sizes.every(([, size]) => size > 0);
  const common = { runKey: props.run.key, step: props.step, attempt: attempt.attempt, size: 0, running, grows: grows + (running ? props.tick : 0) };
  if (attempt.kind === "branches") {
    return (
      <details class="events">
        <summary>Results of the branches, as JSON</summary>
        <Output {...common} stream="stdout" />
      </details>
    );
  }
  const action = (
    <Section
      title="Action"
      note={
        attempts.length > 1 && (
          <label>
            Attempt{" "}
            <select value={attempt.attempt} onChange={(event) => setChosen(Number(event.currentTarget.value))}>
              {attempts.map((each) => (
                <option key={each.attempt} value={each.attempt}>
                  {each.attempt} of {attempts.length}
                </option>
              ))}
            </select>
          </label>
        )
      }
    >
      <pre class="block" dir="auto" tabIndex={0}>
        {attempt.host && <span class="muted">{attempt.host}: </span>}
        {attempt.action}
      </pre>
      <p class="muted ended">{endOf(attempt, running)}</p>
    </Section>
  );
  const output = (
    <Section title="Output">
      {both &&
        (["stderr", "stdout"] as const).map((name) => (
          <div key={name} class="named-output">
            <h5>{name}</h5>
            <Output {...common} stream={name} named />
          </div>
        ))}
      {!both && streams.length > 1 && (
        <div class="tabs" role="group" aria-label="Stream">
          {streams.map((name) => (
            <button key={name} type="button" aria-pressed={name === shown} onClick={() => setStream(name)}>
              {name === "agent" ? "What the agent did" : name}
              {name !== "agent" && <small> {bytes(sizes.find(([each]) => each === name)![1])}</small>}
            </button>
          ))}
        </div>
      )}
      {!both && <Output {...common} stream={shown} />}
    </Section>
  );
  // Of an action that failed, what it printed is read first.
  return props.failed ? (
    <>
      {output}
      {action}
    </>
  ) : (
    <>
      {action}
      {output}
    </>
  );
}

function endOf(attempt: Attempt, running: boolean): string {
  const parts = [
    attempt.exit_code !== null ? `exit ${attempt.exit_code}` : "",
    attempt.signal !== null ? `signal ${attempt.signal}` : "",
    attempt.timed_out ? "timed out" : "",
    attempt.interrupted ? `interrupted (${attempt.interrupted})` : "",
    attempt.agent ? `agent: ${attempt.agent}` : "",
    attempt.place === "clean" ? "in a clean copy" : "",
    attempt.duration_ms !== null ? duration(attempt.duration_ms) : "",
    attempt.turns > 0 ? plural(attempt.turns, "turn") : "",
    attempt.tokens > 0 ? `${count(attempt.tokens)} tokens` : "",
    attempt.cost_usd > 0 ? money(attempt.cost_usd) : "",
  ].filter(Boolean);
  if (running && attempt.exit_code === null) parts.unshift("running");
  return parts.join(" · ");
}

function Events({ events }: { events: Record<string, unknown>[] }) {
  if (events.length === 0) return null;
  return (
    <details class="events">
      <summary>{plural(events.length, "event")}</summary>
      <div class="event-list">
        {events.map((event, at) => (
          <details key={at}>
            <summary>
              <span class="number muted">{String(event.seq ?? "")}</span> {typeof event.ts === "string" && <time dateTime={event.ts}>{clock(Date.parse(event.ts))}</time>} <code>{String(event.event)}</code>
            </summary>
            <pre class="block" tabIndex={0}>
              {JSON.stringify(event, null, 2)}
            </pre>
          </details>
        ))}
      </div>
    </details>
  );
}
