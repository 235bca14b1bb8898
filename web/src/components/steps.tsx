/* The steps of a run: rows on demand, so that a run with very many opens at once. */

import { useEffect, useRef, useState } from "preact/hooks";
import type { StepRow, Steps as StepsAnswer } from "../api";
import { Failure, query, runPath } from "../client";
import { useClient } from "../context";
import { duration, money, plural } from "../format";
import { useRows } from "../virtual";
import { Lines } from "./diff";
import { Icon, Problem } from "./basics";

const ROW = 48;
const PAGE = 100;
const MOST_VISIBLE = 14;

interface Known {
  total: number;
  rows: Map<number, StepRow>;
}

/** Steps by number; pages that the reader scrolls to are loaded. */
export function useSteps(runKey: string, tick: number) {
  const client = useClient();
  const [known, setKnown] = useState<Known>({ total: 0, rows: new Map() });
  const [failure, setFailure] = useState<Failure | null>(null);
  const [loaded, setLoaded] = useState(false);
  const asked = useRef(new Set<number>());
  const key = useRef(runKey);

  async function load(words: Record<string, number>): Promise<void> {
    try {
      const answer = await client.get<StepsAnswer>(runPath(runKey, `/steps${query({ ...words, limit: PAGE })}`));
      if (key.current !== runKey) return;
      setKnown((before) => {
        const rows = new Map(before.rows);
        for (const row of answer.steps) rows.set(row.step, row);
        return { total: answer.total, rows };
      });
      setLoaded(true);
      setFailure(null);
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      setFailure(error);
    }
  }

  useEffect(() => {
    if (key.current !== runKey) {
      key.current = runKey;
      asked.current.clear();
      setKnown({ total: 0, rows: new Map() });
      setLoaded(false);
    }
    void load({});
  }, [runKey, tick]);

  function want(first: number, last: number): void {
    for (let page = Math.floor((first - 1) / PAGE); page * PAGE < last; page++) {
      const missing = !known.rows.has(Math.min(page * PAGE + 1, known.total)) || !known.rows.has(Math.min((page + 1) * PAGE, known.total));
      if (!missing || page < 0 || asked.current.has(page)) continue;
      asked.current.add(page);
      void load({ after: page * PAGE }).finally(() => asked.current.delete(page));
    }
  }
  return { known, failure, loaded, want };
}

export function StepList(props: {
  runKey: string;
  tick: number;
  selected: number | null;
  onSelect: (step: number) => void;
}) {
  const { known, failure, loaded, want } = useSteps(props.runKey, props.tick);
  const { total, rows } = known;
  const { element, window } = useRows(ROW, total);
  const [following, setFollowing] = useState(true);

  useEffect(() => {
    if (total > 0) want(window.first + 1, window.last);
  }, [window.first, window.last, total]);

  useEffect(() => {
    const box = element.current;
    if (box && following && props.selected === null) box.scrollTop = box.scrollHeight;
  }, [total, following]);

  useEffect(() => {
    const box = element.current;
    if (!box || props.selected === null) return;
    const top = (props.selected - 1) * ROW;
    if (top < box.scrollTop || top + ROW > box.scrollTop + box.clientHeight) box.scrollTop = top - box.clientHeight / 2 + ROW / 2;
  }, [props.selected, loaded]);

  function move(event: KeyboardEvent): void {
    const by = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -total, End: total }[event.key];
    if (by === undefined || total === 0) return;
    event.preventDefault();
    props.onSelect(Math.min(Math.max((props.selected ?? total) + by, 1), total));
  }

  if (failure && total === 0) return <Problem failure={failure} />;
  if (loaded && total === 0) return <p class="muted nothing">No steps yet: the first state has not been entered.</p>;
  const shown = [];
  for (let step = window.first + 1; step <= window.last; step++) shown.push(step);
  return (
    <div
      class="steps"
      ref={element}
      style={{ height: `${Math.min(Math.max(total, 1), MOST_VISIBLE) * ROW + 2}px` }}
      role="listbox"
      aria-label={plural(total, "step")}
      // Only the rows on the screen are in the document.
      aria-activedescendant={props.selected !== null && shown.includes(props.selected) ? `step-${props.selected}` : undefined}
      tabIndex={0}
      onKeyDown={move}
      onScroll={(event) => {
        const box = event.currentTarget;
        setFollowing(box.scrollTop + box.clientHeight > box.scrollHeight - ROW);
      }}
    >
      <div class="steps-all" role="presentation" style={{ height: `${total * ROW}px` }}>
        <div role="presentation" style={{ transform: `translateY(${window.first * ROW}px)` }}>
          {shown.map((step) => (
            <StepLine key={step} number={step} row={rows.get(step) ?? null} before={rows.get(step - 1) ?? null} total={total} selected={step === props.selected} onSelect={props.onSelect} />
          ))}
        </div>
      </div>
    </div>
  );
}

/** A terminal state without an action has no verdict. */
export function verdictWord(row: StepRow): string {
  if (row.verdict !== null) return verdictName(row.verdict);
  return row.kind === "terminal" || row.ended_ms !== null ? "end" : "running";
}

const NAMES: Record<string, string> = { handoff: "handed off", review: "waiting for you" };

export function verdictName(verdict: string): string {
  return NAMES[verdict] ?? verdict.replaceAll("_", " ");
}

/** What tells a step from others: the files that an agent's turn changed, else why its verdict is what it is. */
function whatOf(row: StepRow): string {
  const paths = row.changed?.paths ?? [];
  if (row.kind === "agent" && row.tone === "good" && paths.length > 0) return paths.join(", ");
  return row.reason || row.action || "";
}

function StepLine(props: { number: number; row: StepRow | null; before: StepRow | null; total: number; selected: boolean; onSelect: (step: number) => void }) {
  const { row, number } = props;
  const common = {
    id: `step-${number}`,
    role: "option",
    "aria-selected": props.selected,
    "aria-setsize": props.total,
    "aria-posinset": number,
    class: `step${props.selected ? " selected" : ""}`,
    onClick: () => props.onSelect(number),
  } as const;
  if (row === null) {
    return (
      <div {...common}>
        <span class="step-number number">{number}</span>
        <span class="muted">…</span>
      </div>
    );
  }
  return (
    <div {...common}>
      <span class="step-number number">{number}</span>
      <Icon tone={row.tone} />
      <span class="step-main">
        <span class="step-title">
          <bdi class="mono name">{row.state}</bdi>
          <span class={`verdict tone-${row.tone}`}>{verdictWord(row)}</span>
        </span>
        <span class="step-what muted" dir="auto">
          {(row.iteration !== props.before?.iteration || row.kind === "agent") && row.kind !== "terminal" && <span class="tag">iteration {row.iteration}</span>}
          {row.attempts > 1 && <span class="tag">{row.attempts} attempts</span>}
          {row.handoff && row.verdict !== "handoff" && <span class="tag">handoff</span>}
          {row.decision && <span class="tag">{row.decision.replace("_", " ")}</span>}
          {whatOf(row)}
        </span>
      </span>
      <span class="step-facts number">
        <span>{row.duration_ms === 0 ? "" : duration(row.duration_ms)}</span>
        <span class="muted">
          {row.changed && row.changed.files > 0 ? <Lines changed={row.changed} /> : null}
          {row.cost_usd > 0 ? ` ${money(row.cost_usd)}` : ""}
        </span>
      </span>
    </div>
  );
}
