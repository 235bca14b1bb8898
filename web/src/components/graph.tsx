/* The machine as a graph: the current state is lit, edges say how often they were taken. */

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Machine, StateKind, Tone } from "../api";
import { useWidth } from "../context";
import { plural } from "../format";
import { SHAPES } from "./basics";
import { place, type PlacedEdge, type PlacedState } from "../graph_layout";

/** Drawn, because not every font has such characters; 12 units wide and high. */
const KINDS: Record<StateKind, { path: string; filled?: boolean }> = {
  shell: { path: "M1 2l4 4l-4 4M6 10.5h5" },
  agent: { path: "M6 0L7.5 4.5L12 6L7.5 7.5L6 12L4.5 7.5L0 6L4.5 4.5z", filled: true },
  builtin: { path: "M6 .7l4.7 2.7v5.2L6 11.3L1.3 8.6V3.4zM6 4.4v3.2" },
  loop: { path: "M10.2 6A4.2 4.2 0 1 1 8.8 2.9M9.4 .4v2.8H6.6" },
  branches: { path: "M6 11.5V7.5M6 7.5C6 5 2 5.5 2 1M6 7.5C6 5 10 5.5 10 1" },
  decision: { path: "M6 .7L11.3 6L6 11.3L.7 6z" },
  terminal: { path: "M2 2h8v8H2z", filled: true },
};
const KIND_WORDS: Record<StateKind, string> = {
  shell: "shell command",
  agent: "agent",
  builtin: "built-in action",
  loop: "another loop",
  branches: "branches",
  decision: "decision without an action",
  terminal: "terminal state",
};
const ZOOMS = [0.2, 0.35, 0.5, 0.65, 0.8, 1, 1.25, 1.6, 2];
const TALLEST = 560;

/** How a run ended: the state it ended in, and the one whose action failed last. */
export interface GraphEnding {
  tone: Tone;
  failed: string | null;
}

export function Graph(props: { machine: Machine; ending?: GraphEnding | null; filling?: boolean; selected?: string | null; onSelect?: (state: string) => void }) {
  const { machine, selected } = props;
  const shape = useMemo(() => machine.states.map((state) => state.name).join() + machine.edges.map((edge) => edge.from + edge.to + edge.labels + edge.taken).join(), [machine]);
  const placed = useMemo(() => place(machine), [shape, machine]);
  const [watch, width] = useWidth(600);
  const [zoom, setZoom] = useState<number | null>(null);
  const box = useRef<HTMLDivElement | null>(null);
  const [height, setHeight] = useState(TALLEST);
  // Where the box has a height of its own, the machine fits into that, too.
  useLayoutEffect(() => setHeight(box.current?.clientHeight ?? TALLEST));
  const room = props.filling ? (height - 4) / placed.height : 1;
  const fit = Math.min(1, Math.max(Math.min((width - 4) / placed.width, room), 0.65));
  const scale = zoom ?? fit;
  const current = machine.states.find((state) => state.current)?.name ?? null;
  const [focused, setFocused] = useState<string | null>(null);
  const stop = focused ?? current ?? machine.initial;

  useEffect(() => {
    const found = placed.states.find((each) => each.state.name === (current ?? machine.initial));
    const element = box.current;
    if (!found || !element) return;
    element.scrollTop = found.y * scale - element.clientHeight / 2 + 26;
    element.scrollLeft = found.x * scale - element.clientWidth / 2 + found.width / 2;
  }, [current, scale]);

  function move(event: KeyboardEvent, at: number): void {
    const names = placed.states;
    const by = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
    if (event.key === "Enter" || event.key === " ") props.onSelect?.(names[at]!.state.name);
    else if (by !== undefined) focus(names[(at + by + names.length) % names.length]!.state.name);
    else if (event.key === "Home") focus(names[0]!.state.name);
    else if (event.key === "End") focus(names[names.length - 1]!.state.name);
    else return;
    event.preventDefault();
  }
  function focus(name: string): void {
    setFocused(name);
    box.current?.querySelector<SVGElement>(`[data-state="${CSS.escape(name)}"]`)?.focus();
  }
  const step = (by: number): void => {
    const near = ZOOMS.findIndex((each) => each >= scale - 0.01);
    setZoom(ZOOMS[Math.min(Math.max((near < 0 ? ZOOMS.length - 1 : near) + by, 0), ZOOMS.length - 1)]!);
  };

  return (
    <div class="graph">
      <div
        class="graph-box"
        ref={(element) => {
          box.current = element;
          watch(element);
        }}
        style={{ maxHeight: `${TALLEST}px` }}
        tabIndex={placed.height * scale > TALLEST || placed.width * scale > width ? 0 : -1}
        role="group"
        aria-label={`Machine of ${machine.name}: ${plural(machine.states.length, "state")}`}
      >
        <svg
          width={placed.width * scale}
          height={placed.height * scale}
          viewBox={`0 0 ${placed.width} ${placed.height}`}
        >
          <defs>
            <marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
              <path d="M0 0.5L8 4L0 7.5z" class="arrow" />
            </marker>
            <marker id="arrow-taken" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="5" markerHeight="5" orient="auto">
              <path d="M0 0.5L8 4L0 7.5z" class="arrow taken" />
            </marker>
            <pattern id="failed" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
              <line x1="0" y1="0" x2="0" y2="7" class="failed-line" />
            </pattern>
          </defs>
          {placed.edges.map((each, at) => (
            <Edge key={at} placed={each} />
          ))}
          {placed.states.map((each, at) => (
            <StateBox
              key={each.state.name}
              placed={each}
              initial={each.state.name === machine.initial}
              selected={each.state.name === selected}
              ending={props.ending ?? null}
              seen={machine.states.some((state) => state.visits > 0)}
              tabStop={each.state.name === stop}
              onClick={() => props.onSelect?.(each.state.name)}
              onFocus={() => setFocused(each.state.name)}
              onKeyDown={(event) => move(event, at)}
            />
          ))}
        </svg>
      </div>
      <div class="graph-tools" role="group" aria-label="Zoom">
        <button type="button" class="quiet small" onClick={() => step(-1)} aria-label="Zoom out">
          −
        </button>
        <button type="button" class="quiet small" onClick={() => setZoom(null)} aria-label="Fit the width">
          Fit
        </button>
        <button type="button" class="quiet small" onClick={() => step(1)} aria-label="Zoom in">
          +
        </button>
      </div>
    </div>
  );
}

function Edge({ placed }: { placed: PlacedEdge }) {
  const { edge, path, label, x, y, width } = placed;
  const taken = edge.taken > 0;
  return (
    <g class={`edge ${taken ? "taken" : ""}`}>
      <path d={path} marker-end={taken ? "url(#arrow-taken)" : "url(#arrow)"} stroke-width={taken ? 1.6 + Math.min(Math.log2(edge.taken), 3) * 0.5 : 1.2} />
      <rect x={x - width / 2} y={y - 9} width={width} height="18" rx="4" />
      <text x={x} y={y + 4}>
        {label}
      </text>
    </g>
  );
}

function StateBox(props: {
  placed: PlacedState;
  initial: boolean;
  selected: boolean;
  seen: boolean;
  ending: GraphEnding | null;
  tabStop: boolean;
  onClick: () => void;
  onFocus: () => void;
  onKeyDown: (event: KeyboardEvent) => void;
}) {
  const { state, title, subtitle, x, y, width, height } = props.placed;
  const { ending } = props;
  const failed = ending !== null && ending.failed === state.name;
  const here = ending?.tone === "waiting" ? "waits here" : "ended here";
  const mark = failed ? ({ tone: "bad", word: "failed here" } as const) : ending && state.current ? { tone: ending.tone, word: here } : null;
  const words = [
    state.name,
    KIND_WORDS[state.kind],
    props.initial ? "initial state" : "",
    props.seen ? `entered ${plural(state.visits, "time")}` : "",
    failed ? "failed here" : "",
    state.current ? (ending ? `the run ${here}` : "current state") : "",
    state.action ?? "",
  ].filter(Boolean);
  const classes = [
    "state",
    state.terminal ? `terminal outcome-${state.outcome ?? "none"}` : "",
    state.current ? `current${ending ? " ended" : ""}` : "",
    failed ? "failed" : "",
    props.selected ? "selected" : "",
    props.seen && state.visits === 0 ? "unvisited" : "",
  ];
  return (
    <g
      class={classes.filter(Boolean).join(" ")}
      transform={`translate(${x} ${y})`}
      role="button"
      tabIndex={props.tabStop ? 0 : -1}
      aria-pressed={props.selected}
      data-state={state.name}
      onClick={props.onClick}
      onFocus={props.onFocus}
      onKeyDown={props.onKeyDown}
    >
      <title>{words.join(", ")}</title>
      {state.current && <rect class="halo" x="-5" y="-5" width={width + 10} height={height + 10} rx="14" />}
      <rect class="box" width={width} height={height} rx={state.terminal ? height / 2 : 9} />
      {failed && <rect class="hatching" x="1.5" y="1.5" width={width - 3} height={height - 3} rx="8" fill="url(#failed)" />}
      {props.initial && <path class="start" d={`M-13 ${height / 2 - 6}v12l9 -6z`} />}
      <path class={`kind${KINDS[state.kind].filled ? " filled" : ""}`} transform="translate(10 11)" d={KINDS[state.kind].path} />
      <text class="name" x={width / 2 + 4} y="22">
        {title}
      </text>
      <text class="what" x={width / 2} y="40">
        {subtitle}
      </text>
      {mark && <Mark {...mark} />}
      {state.visits > 0 && (
        <g class="visits" transform={`translate(${width - 6} 2)`}>
          <rect x={-(10 + String(state.visits).length * 7)} y="-9" width={14 + String(state.visits).length * 7} height="17" rx="8.5" />
          <text x={-(3 + String(state.visits).length * 3.5)} y="3.5">
            {state.visits}
          </text>
        </g>
      )}
    </g>
  );
}

/** A shape and two words at the corner of a state, so that how a run ended does not depend on a colour. */
function Mark({ tone, word }: { tone: Tone; word: string }) {
  const width = word.length * 6.7 + 29;
  return (
    <g class={`ending tone-${tone}`} transform="translate(-8 -12)">
      <rect width={width} height="20" rx="10" />
      <svg class="icon" x="4" y="3" width="14" height="14" viewBox="0 0 16 16">
        {SHAPES[tone]}
      </svg>
      <text x="22" y="14">
        {word}
      </text>
    </g>
  );
}
