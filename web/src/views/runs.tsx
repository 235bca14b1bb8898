/* The runs: those that wait for the reader first, then running, queued and ended ones. */

import type { VNode } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Children, RunList, RunRow } from "../api";
import { Failure, query, runPath } from "../client";
import { Actions, acknowledgeRow } from "../components/actions";
import { Ago, Command, Empty, Icon, Lasting, Loading, Message, Problem, sentence, Status } from "../components/basics";
import { useAnswer, useClient } from "../context";
import { absolute, clock, dayName, exact, money, plural } from "../format";
import { follow, now, throttled } from "../live";
import { go, hrefs } from "../router";

const STATUSES: [value: string, word: string][] = [
  ["", "All"],
  ["waiting", "Waiting for you"],
  ["running", "Running"],
  ["queued", "Queued"],
  ["completed", "Completed"],
  ["failed", "Failed"],
  ["interrupted", "Interrupted"],
];

/** How many runs of a group are drawn at first: there may be hundreds. */
const DRAWN = 50;

/** What arrives within this time is drawn together. */
const TOGETHER_MS = 20;

/** So long after the last key, what was typed is searched for. */
const TYPING_MS = 200;

/** How many values of a run's context are in its row. */
const MOST_VALUES = 3;

export function RunsView({ filter, projects }: { filter: URLSearchParams; projects: number }) {
  const client = useClient();
  const values = { status: filter.get("status") ?? "", loop: filter.get("loop") ?? "", day: filter.get("day") ?? "", text: filter.get("text") ?? "" };
  const zone = -new Date().getTimezoneOffset();
  const base = { ...values, zone: values.day ? zone : "" };
  const { data: answer, error, reload } = useAnswer<RunList>(`/api/runs${query(base)}`);
  const shownLast = useRef<RunList | null>(null);
  if (answer) shownLast.current = answer;
  // What is shown stays until another filter has its answer.
  const data = answer ?? (error && error.code !== "offline" ? null : shownLast.current);
  const [more, setMore] = useState<{ of: string; rows: RunRow[]; next: string | null } | null>(null);
  const [failure, setFailure] = useState<Failure | null>(null);
  const [fresh, setFresh] = useState<Record<string, RunRow>>({});
  const shown = useRef(new Map<string, RunRow>());

  useEffect(() => {
    const leave = new AbortController();
    const again = throttled(reload, 300);
    let news: Record<string, RunRow> = {};
    let timer = 0;
    const show = (): void => {
      const found = news;
      news = {};
      timer = 0;
      setFresh((before) => ({ ...before, ...found }));
    };
    void follow(
      client,
      () => "/api/stream",
      (item) => {
        if (item.type === "run") {
          acknowledgeRow(item.run);
          news[item.run.key] = item.run;
          timer ||= window.setTimeout(show, TOGETHER_MS);
          // The whole list is asked for only if this run is in another place of it now, or costs more.
          const before = shown.current.get(item.run.key);
          if (before?.group !== item.run.group || before.cost_usd !== item.run.cost_usd) again.ask();
        } else if (item.type === "gone" || item.type === "loops") again.ask();
      },
      leave.signal,
      { main: true, again: () => again.ask() },
    );
    return () => {
      leave.abort();
      again.cancel();
      clearTimeout(timer);
    };
  }, [client, JSON.stringify(values)]);

  useEffect(() => setFresh({}), [data]);

  const of = JSON.stringify(values);
  const pages = more?.of === of ? more : null;
  async function next(before: string): Promise<void> {
    try {
      const answer = await client.get<RunList>(`/api/runs${query({ ...base, before })}`);
      setMore({ of, rows: [...(pages?.rows ?? []), ...answer.past], next: answer.next });
      setFailure(null);
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      setFailure(error);
    }
  }
  const set = (name: string, value: string): void => go(hrefs.runs({ ...values, [name]: value }));
  const current = (data?.current ?? []).map((row) => fresh[row.key] ?? row);
  shown.current = new Map(current.map((row) => [row.key, row]));
  const past = data ? [...data.past, ...(pages?.rows.filter((row) => !data.past.some((each) => each.key === row.key)) ?? [])] : [];
  const nextPage = pages ? pages.next : (data?.next ?? null);
  const filtered = Object.values(values).some(Boolean);
  const groups = (["waiting", "running", "queued", "ended"] as const).map((group) => current.filter((row) => row.group === group));
  const [waiting, running, queued, unfinished] = groups as [RunRow[], RunRow[], RunRow[], RunRow[]];

  return (
    <>
      <header class="view-head">
        <h1 tabIndex={-1}>Runs</h1>
        {data && (
          <p class="totals">
            <span>
              <strong class="number">{money(data.cost.today_usd)}</strong> today
            </span>
            <span>
              <strong class="number">{money(data.cost.week_usd)}</strong> this week
            </span>
            {data.cost.estimated && <span class="muted">partly estimated</span>}
          </p>
        )}
      </header>
      <form
        class="filters"
        role="search"
        aria-label="Filter"
        onSubmit={(event) => event.preventDefault()}
      >
        <label>
          <span>Status</span>
          <select value={values.status} onChange={(event) => set("status", event.currentTarget.value)}>
            {STATUSES.map(([value, word]) => (
              <option key={value} value={value}>
                {word}
              </option>
            ))}
          </select>
        </label>
        <label>
          <span>Loop</span>
          <select value={values.loop} onChange={(event) => set("loop", event.currentTarget.value)}>
            <option value="">All</option>
            {[...new Set([...(data?.loops ?? []), ...(values.loop ? [values.loop] : [])])].map((name) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </select>
        </label>
        <label>
          <span>Day</span>
          <input type="date" value={values.day} onChange={(event) => set("day", event.currentTarget.value)} />
        </label>
        <label>
          <span>Search</span>
          <SearchField value={values.text} onSearch={(text) => go(hrefs.runs({ ...values, text }), true)} />
        </label>
        {filtered && (
          <a class="button quiet" href={hrefs.runs()}>
            Clear
          </a>
        )}
      </form>
      {error && error.code !== "offline" && <Problem failure={error} retry={() => void reload()} />}
      {!data && !error && <Loading what="runs" />}
      {data && current.length + past.length === 0 && (
        filtered ? (
          <Empty title="No run matches">
            <p>
              <a href={hrefs.runs()}>Show all runs</a>
            </p>
          </Empty>
        ) : (
          <Empty title="No runs yet">
            <p>
              Start one from <a href={hrefs.loops}>Loops</a>, or in a terminal:
            </p>
            <Command text="ll-loop run NAME" />
          </Empty>
        )
      )}
      <Group title="Waiting for you" rows={waiting} projects={projects} strong />
      <Group title="Running" rows={running} projects={projects} />
      <Group title="Queued" rows={queued} projects={projects} />
      <Group title="Unfinished" rows={unfinished} projects={projects} />
      {past.length > 0 && (
        <section class="group" aria-labelledby="group-ended">
          <GroupHead id="group-ended" title="Ended" count={data!.total} />
          {byDay(past, now.value).map(([day, rows]) => (
            <div key={day}>
              <h3 class="day">{day}</h3>
              <ul class="runs">
                {rows.map((row) => (
                  <RunItem key={row.key} row={row} projects={projects} />
                ))}
              </ul>
            </div>
          ))}
          {failure && <Problem failure={failure} />}
          {nextPage && (
            <button type="button" class="more" onClick={() => void next(nextPage)}>
              Show more <span class="muted">({plural(Math.max(data!.total - past.length, 0), "more run")})</span>
            </button>
          )}
        </section>
      )}
    </>
  );
}

/** Searches while the reader types. */
function SearchField({ value, onSearch }: { value: string; onSearch: (text: string) => void }) {
  const [text, setText] = useState(value);
  const asked = useRef(value);
  const timer = useRef(0);
  // What is typed stays, unless somebody else has changed the filter: a link, or Back.
  useEffect(() => {
    if (value !== asked.current) setText(value);
    asked.current = value;
  }, [value]);
  useEffect(() => () => clearTimeout(timer.current), []);
  function type(typed: string): void {
    setText(typed);
    clearTimeout(timer.current);
    timer.current = window.setTimeout(() => {
      asked.current = typed.trim();
      onSearch(asked.current);
    }, TYPING_MS);
  }
  return <input type="search" placeholder="name, state, ending, id" value={text} onInput={(event) => type(event.currentTarget.value)} />;
}

function byDay(rows: RunRow[], today: number): [string, RunRow[]][] {
  const days = new Map<string, RunRow[]>();
  for (const row of rows) {
    const day = row.started_ms ? dayName(row.started_ms, today) : "Unknown day";
    days.set(day, [...(days.get(day) ?? []), row]);
  }
  return [...days];
}

/** Draws runs; one that has not changed is not drawn again: there may be hundreds. */
function useItems(projects: number): (row: RunRow) => VNode {
  const kept = useMemo(() => new WeakMap<RunRow, VNode>(), [projects]);
  return (row) => {
    const item = kept.get(row) ?? <RunItem key={row.key} row={row} projects={projects} />;
    kept.set(row, item);
    return item;
  };
}

function Group(props: { title: string; rows: RunRow[]; projects: number; strong?: boolean }) {
  const item = useItems(props.projects);
  const [drawn, setDrawn] = useState(DRAWN);
  if (props.rows.length === 0) return null;
  const rest = props.rows.length - drawn;
  const id = `group-${props.title.toLowerCase().replaceAll(" ", "-")}`;
  return (
    <section class={`group${props.strong ? " strong" : ""}`} aria-labelledby={id}>
      <GroupHead id={id} title={props.title} count={props.rows.length} />
      <ul class="runs">
        {props.rows.slice(0, drawn).map(item)}
      </ul>
      {rest > 0 && (
        <button type="button" class="more" onClick={() => setDrawn(drawn + 4 * DRAWN)}>
          Show more <span class="muted">({plural(rest, "more run")})</span>
        </button>
      )}
    </section>
  );
}

/** The name of a group, and above its rows what their columns are. */
function GroupHead(props: { id: string; title: string; count: number }) {
  return (
    <div class="group-head">
      <h2 id={props.id}>
        {props.title} <span class="count number">{props.count}</span>
      </h2>
      <span class="run-time muted">
        <span>Ran for</span>
        <span>{props.title === "Queued" ? "Queued" : "Started"}</span>
      </span>
      <span class="run-cost muted">Cost</span>
    </div>
  );
}

export function RunItem({ row, projects }: { row: RunRow; projects: number }) {
  const [open, setOpen] = useState(row.group === "running");
  const running = row.status === "running";
  return (
    <li class={`run tone-${row.tone}`}>
      <div class="run-line">
        <span class="run-status">
          <Status tone={row.tone} word={row.word} />
        </span>
        <span class="run-name">
          <a href={hrefs.run(row.key)} class="mono name">
            <bdi>{row.name}</bdi>
          </a>
          {projects > 1 && <span class="tag">{row.project}</span>}
          {row.forked_from && (
            <span class="tag">
              fork of {row.forked_from.name} after step {row.forked_from.step}
            </span>
          )}
          <span class="run-what muted">
            {row.state && (
              <>
                in <bdi class="mono">{row.state}</bdi>
              </>
            )}
            {row.state && row.iteration !== null && " · "}
            {row.iteration !== null && (row.group === "ended" ? plural(row.iteration, "iteration") : `iteration ${exact(row.iteration)}${row.max_iterations ? ` of ${exact(row.max_iterations)}` : ""}`)}
          </span>
          <Given row={row} />
        </span>
        <span class="run-time">
          {row.duration_ms > 0 || running ? <Lasting ms={row.duration_ms} at={row.at_ms} running={running} /> : <span>–</span>}
          <span class="muted">{row.queued_ms !== null ? <Ago at={row.queued_ms} /> : row.started_ms > 0 && <Since row={row} />}</span>
        </span>
        <span class="run-cost number">{row.cost_usd > 0 ? money(row.cost_usd) : <span class="muted">–</span>}</span>
        <span class="run-actions">
          <Actions run={row} compact />
        </span>
      </div>
      {(row.damage ?? row.error) && (
        <p class="run-why" dir="auto">
          <Message text={row.damage ?? (isQuoted(row) ? (row.error ?? "") : sentence(row.error ?? ""))} />
        </p>
      )}
      {row.has_children && (
        <>
          <button type="button" class="link small-text" aria-expanded={open} onClick={() => setOpen(!open)}>
            {open ? "▾ Hide the runs it started" : "▸ Show the runs it started"}
          </button>
          {open && <ChildRuns row={row} projects={projects} />}
        </>
      )}
    </li>
  );
}

/** When a run started: of those that have ended, which are listed by day, the time of that day. */
function Since({ row }: { row: RunRow }) {
  if (row.group !== "ended") return <Ago at={row.started_ms} />;
  return (
    <time dateTime={new Date(row.started_ms).toISOString()} title={`started ${absolute(row.started_ms)}, ended ${absolute(row.updated_ms || row.started_ms)}`}>
      {clock(row.started_ms)}
    </time>
  );
}

/** What tells the runs of one loop apart: variables with other values than in its file, and the id. */
function Given({ row }: { row: RunRow }) {
  const shown = row.context.slice(0, MOST_VALUES);
  const rest = row.context.slice(MOST_VALUES);
  return (
    <>
      {shown.map(({ name, text }) => (
        <span key={name} class="tag mono value" dir="auto" title={`${name}=${text}`}>
          {name}={text.split("\n")[0]}
        </span>
      ))}
      {rest.length > 0 && (
        <span class="muted small-text" title={rest.map(({ name, text }) => `${name}=${text}`).join("\n")}>
          {plural(rest.length, "more value")}
        </span>
      )}
      {row.run && (
        <span class="run-id muted mono" title={`run ${row.run}`}>
          #{row.run.slice(-4)}
        </span>
      )}
    </>
  );
}

/** What an agent or an author wrote stays as it is. */
function isQuoted(row: RunRow): boolean {
  return row.gate !== null || row.status === "awaiting_continuation";
}

function ChildRuns({ row, projects }: { row: RunRow; projects: number }) {
  const { data, error, reload } = useAnswer<Children>(runPath(row.key, "/children"));
  useEffect(() => {
    if (data) void reload();
  }, [row.seq]);
  if (error) return <Problem failure={error} />;
  if (!data)
    return (
      <p class="muted">
        <Icon tone="running" /> …
      </p>
    );
  return (
    <ul class="runs children">
      {data.runs.map((each) => (
        <RunItem key={each.key} row={each} projects={projects} />
      ))}
    </ul>
  );
}
