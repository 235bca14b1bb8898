/* When each state ran: a row per state or branch, bars by time, marks for what happened between. */

import { useMemo } from "preact/hooks";
import type { MarkKind, Timeline as TimelineData, TimelineMark, TimelineRow } from "../api";
import { useWidth } from "../context";
import { absolute, clock, date, duration, money, roundDuration, timeStep } from "../format";
import { cut } from "../graph_layout";
import { timeScale, type TimeScale } from "../time_scale";

const ROW = 26;
const AXIS = 24;
const MARKS = 24;
const LEAST_BAR = 3;

const MARK_SHAPES: Record<MarkKind, string> = {
  handoff: "M-5 -4h6V-7L7 -1L1 5V2H-5z",
  wait: "M-5 -6H5L0 0L5 6H-5L0 0z",
  stop: "M-5 -5H5V5H-5z",
  resume: "M-4 -6L6 0L-4 6z",
  cost: "M3.6 -3.4C2.6 -5.6 -3.6 -5.6 -3.6 -2.6C-3.6 .4 3.6 -.4 3.6 2.6C3.6 5.6 -2.6 5.6 -3.6 3.4M0 -7.4V7.4",
  gate: "M0 -7L7 0L0 7L-7 0z",
  fork: "M-1 6V0L-6 -6H-3L0 -2L3 -6H6L1 0V6z",
  note: "M-6 -5H6V3H0L-4 7V3H-6z",
  warning: "M0 -6L7 6H-7z",
  end: "M-5 -7H-3V7H-5zM-3 -6H6L3 -3L6 0H-3z",
};
const MARK_WORDS: Record<MarkKind, string> = {
  handoff: "handoff",
  wait: "wait",
  stop: "stop",
  resume: "resume",
  cost: "cost",
  gate: "gate",
  fork: "fork",
  note: "note",
  warning: "warning",
  end: "ending",
};

export function Timeline(props: {
  data: TimelineData;
  selected: number | null;
  onSelect: (step: number) => void;
  runKey?: string;
}) {
  const { data } = props;
  const [watch, width] = useWidth(640);
  const labels = Math.min(Math.max(...data.rows.map((row) => labelOf(row).length), 4) * 7.4 + 16, width < 520 ? 96 : 190);
  const room = Math.max(width - labels - 8, 120);
  const busy = useMemo(
    () => [
      ...data.rows.flatMap((row) => row.bars.map((bar) => ({ from: bar.from_ms, to: bar.to_ms ?? data.to_ms }))),
      ...data.marks.flatMap((mark) => (mark.until_ms === null ? [] : [{ from: mark.at_ms, to: mark.until_ms }])),
    ],
    [data],
  );
  const scale = timeScale(data.from_ms, data.to_ms, busy, room);
  const height = AXIS + data.rows.length * ROW + MARKS;
  const marks = data.marks.filter((mark) => mark.kind !== "cost" || mark.text);
  const kinds = [...new Set(marks.map((mark) => mark.kind))];

  return (
    <div class="timeline" ref={watch}>
      <svg width={labels + room + 8} height={height} role="group" aria-label="Timeline">
        <defs>
          <pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
            <line x1="0" y1="0" x2="0" y2="6" class="hatch" />
          </pattern>
        </defs>
        <Axis scale={scale} labels={labels} height={height} from={data.from_ms} room={room} />
        {data.rows.map((row, at) => (
          <Row key={row.name} row={row} y={AXIS + at * ROW} scale={scale} labels={labels} {...props} />
        ))}
        <g transform={`translate(${labels} ${height - MARKS / 2})`}>
          {marks.map((mark, at) => (
            <Mark key={at} mark={mark} x={scale.at(mark.at_ms)} until={mark.until_ms === null ? null : scale.at(mark.until_ms)} onSelect={props.onSelect} />
          ))}
        </g>
      </svg>
      {kinds.length > 0 && (
        <ul class="legend" aria-label="Marks">
          {kinds.map((kind) => (
            <li key={kind}>
              <svg width="14" height="14" viewBox="-8 -8 16 16" aria-hidden="true" class={`timeline-mark ${kind}`}>
                <path d={MARK_SHAPES[kind]} />
              </svg>
              {MARK_WORDS[kind]}
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

/** A branch is named below its state. */
function labelOf(row: TimelineRow): string {
  return row.name === row.state ? row.name : `↳ ${row.name.slice(row.state.length + 1)}`;
}

function Axis(props: { scale: TimeScale; labels: number; height: number; from: number; room: number }) {
  const { scale, labels, height } = props;
  const drawn = scale.pieces.reduce((sum, piece) => sum + piece.to - piece.from, 0);
  const step = timeStep(drawn, Math.max(Math.floor(props.room / 84), 2));
  const found: { at: number; x: number }[] = [];
  for (const piece of scale.pieces) {
    const first = props.from + Math.ceil((piece.from - props.from) / step) * step;
    for (let at = first; at <= piece.to; at += step) {
      const x = scale.at(at);
      if (x <= props.room - 14 && !found.some((each) => Math.abs(each.x - x) < 64)) found.push({ at, x });
    }
  }
  return (
    <g class="axis" aria-hidden="true">
      {found.map(({ at, x }) => (
        <g key={at} transform={`translate(${labels + x} 0)`}>
          <line y1={AXIS - 6} y2={height - MARKS} />
          <text y="13">{at === props.from ? clock(at, step < 60_000) : `+${roundDuration(at - props.from)}`}</text>
        </g>
      ))}
      {scale.gaps.map((gap) => (
        <g key={gap.from} class="gap">
          <rect x={labels + gap.x} y={AXIS - 4} width={gap.width} height={height - AXIS - MARKS + 4} />
          <text x={labels + gap.x + gap.width / 2} y={(height - MARKS + AXIS) / 2} transform={`rotate(-90 ${labels + gap.x + gap.width / 2} ${(height - MARKS + AXIS) / 2})`}>
            {height > 130 ? `${duration(gap.to - gap.from)} pause` : duration(gap.to - gap.from)}
          </text>
        </g>
      ))}
    </g>
  );
}

function Row(props: {
  row: TimelineRow;
  y: number;
  scale: TimeScale;
  labels: number;
  data: TimelineData;
  selected: number | null;
  onSelect: (step: number) => void;
}) {
  const { row, y, scale, labels } = props;
  return (
    <g transform={`translate(0 ${y})`} class={`row ${row.kind}`}>
      <line x1="0" x2="100%" y1={ROW} y2={ROW} class="rule" />
      <text x={labels - 10} y={ROW / 2 + 4} class="label">
        <title>{row.name}</title>
        {cut(labelOf(row), Math.floor((labels - 14) / 7.3))}
      </text>
      {row.bars.map((bar, at) => {
        const end = bar.to_ms ?? props.data.to_ms;
        const x = scale.at(bar.from_ms);
        const width = Math.max(scale.at(end) - x, LEAST_BAR);
        const words = `step ${bar.step}, ${row.name}: ${bar.verdict ?? "running"}, ${clock(bar.from_ms)} ${date(bar.from_ms)}, ${duration(end - bar.from_ms)}${bar.cost_usd ? `, ${money(bar.cost_usd)}` : ""}`;
        return (
          <g
            key={at}
            class={`bar tone-${bar.tone}${row.kind === "state" && bar.step === props.selected ? " selected" : ""}`}
            role="button"
            tabIndex={-1}
            aria-label={words}
            onClick={() => props.onSelect(bar.step)}
          >
            <title>{words}</title>
            <rect x={labels + x} y="5" width={width} height={ROW - 10} rx="3" class="solid" />
            {(bar.tone === "bad" || bar.tone === "warn") && width > 4 && (
              <rect x={labels + x} y="5" width={width} height={ROW - 10} rx="3" fill="url(#hatch)" />
            )}
          </g>
        );
      })}
    </g>
  );
}

function Mark(props: { mark: TimelineMark; x: number; until: number | null; onSelect: (step: number) => void }) {
  const { mark, x } = props;
  const words = `${MARK_WORDS[mark.kind]}: ${mark.text}, ${absolute(mark.at_ms)}`;
  return (
    <g class={`timeline-mark ${mark.kind}`} onClick={() => mark.step > 0 && props.onSelect(mark.step)}>
      <title>{words}</title>
      {props.until !== null && <rect x={x} y="-3" width={Math.max(props.until - x, 2)} height="6" rx="3" class="span" />}
      <path d={MARK_SHAPES[mark.kind]} transform={`translate(${x} 0) scale(.85)`} />
    </g>
  );
}
