/* Charts drawn by hand: a line over iterations, and bars over runs. Every chart has its table. */

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { Ending, RunCharts } from "../api";
import { useWidth } from "../context";
import { absolute, measured, medianOf, plural, ticks } from "../format";
import { go, hrefs } from "../router";

const HEIGHT = 214;
const LEFT = 58;
const BOTTOM = 40;
const TOP = 14;
const RIGHT = 14;

interface Scale {
  x(value: number): number;
  y(value: number): number;
}

function Frame(props: {
  label: string;
  width: number;
  low: number;
  high: number;
  text: (value: number) => string;
  children: (scale: Scale) => ComponentChildren;
  first: number;
  last: number;
  xText: (value: number) => string;
  xTitle: string;
}) {
  const { width, low, high, first, last } = props;
  const room = width - LEFT - RIGHT;
  const tall = HEIGHT - TOP - BOTTOM;
  const range = high - low || 1;
  const scale: Scale = {
    x: (value) => LEFT + ((value - first) / Math.max(last - first, 1)) * room,
    y: (value) => TOP + (1 - (value - low) / range) * tall,
  };
  return (
    <svg class="chart" width={width} height={HEIGHT} role="img" aria-label={props.label}>
      <g class="axis" aria-hidden="true">
        {ticks(low, high, 4).map((value) => (
          <g key={value}>
            <line x1={LEFT} x2={width - RIGHT} y1={scale.y(value)} y2={scale.y(value)} />
            <text x={LEFT - 8} y={scale.y(value) + 4} class="end">
              {props.text(value)}
            </text>
          </g>
        ))}
        {ticks(first, last, Math.max(Math.floor(room / 70), 2))
          .filter(Number.isInteger)
          .map((value) => (
            <text key={value} x={scale.x(value)} y={HEIGHT - 22}>
              {props.xText(value)}
            </text>
          ))}
        <text x={LEFT + room / 2} y={HEIGHT - 5}>
          {props.xTitle}
        </text>
      </g>
      {props.children(scale)}
    </svg>
  );
}

/** The measured value over the iterations, with the target and the best value kept so far. */
export function Convergence({ data }: { data: RunCharts }) {
  const [watch, width] = useWidth(520);
  const [asTable, setAsTable] = useState(false);
  const points = data.points;
  const values = points.flatMap((point) => (point.best === null ? [point.value] : [point.value, point.best]));
  if (data.target !== null) values.push(data.target);
  const low = Math.min(...values);
  const high = Math.max(...values);
  const pad = (high - low) * 0.08 || 1;
  const best = points.filter((point) => point.best !== null);
  const first = points[0]!;
  const last = points[points.length - 1]!;
  const label = `Measured value: ${measured(first.value)} at first, ${measured(last.value)} at the end, ${data.target === null ? "no target" : `target ${measured(data.target)}`}`;
  return (
    <div ref={watch}>
      <Frame label={label} width={width} low={low - pad} high={high + pad} text={measured} first={0} last={Math.max(points.length - 1, 1)} xText={(value) => String(value + 1)} xTitle="measurement">
        {({ x, y }) => (
          <>
            {data.target !== null && (
              <g class="target">
                <line x1={LEFT} x2={width - RIGHT} y1={y(data.target)} y2={y(data.target)} />
                <text x={LEFT + 8} y={y(data.target) - 6}>
                  target {measured(data.target)}
                </text>
              </g>
            )}
            {best.length > 0 && (
              <path class="best" d={points.map((point, at) => (point.best === null ? "" : `${at && points[at - 1]!.best !== null ? `H${x(at)}V` : `M${x(at)} `}${y(point.best)}`)).join("")} />
            )}
            <path class="values" d={points.map((point, at) => `${at ? "L" : "M"}${x(at)} ${y(point.value)}`).join("")} />
            {points.length <= 200 &&
              points.map((point, at) => (
                <circle key={at} class={point.decision === "put_back" ? "put-back" : "kept"} cx={x(at)} cy={y(point.value)} r="3.5">
                  <title>{`iteration ${point.iteration}, step ${point.step}: ${measured(point.value)} (${point.verdict}${point.decision ? `, ${point.decision.replace("_", " ")}` : ""})`}</title>
                </circle>
              ))}
          </>
        )}
      </Frame>
      <p class="chart-note">
        <span>
          <svg width="22" height="10" aria-hidden="true"><path d="M1 5H21" class="key-values" /></svg> measured
        </span>
        {best.length > 0 && (
          <span>
            <svg width="22" height="10" aria-hidden="true"><path d="M1 5H21" class="key-best" /></svg> best kept
          </span>
        )}
        {data.target !== null && (
          <span>
            <svg width="22" height="10" aria-hidden="true"><path d="M1 5H21" class="key-target" /></svg> target
            {data.direction && ` (${data.direction})`}
          </span>
        )}
        <button type="button" class="link" aria-expanded={asTable} onClick={() => setAsTable(!asTable)}>
          {asTable ? "Hide the table" : "As a table"}
        </button>
      </p>
      {asTable && (
        <div class="scroll-x" tabIndex={0} role="group" aria-label="Measurements">
          <table class="plain">
            <thead>
              <tr>
                <th scope="col">Iteration</th>
                <th scope="col">Step</th>
                <th scope="col" class="number">Value</th>
                <th scope="col" class="number">Best</th>
                <th scope="col">Verdict</th>
              </tr>
            </thead>
            <tbody>
              {points.map((point, at) => (
                <tr key={at}>
                  <td>{point.iteration}</td>
                  <td>{point.step}</td>
                  <td class="number">{measured(point.value)}</td>
                  <td class="number">{point.best === null ? "" : measured(point.best)}</td>
                  <td>{point.verdict}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </div>
  );
}

/** One bar per run: its height is the value, its shape says how the run ended. */
export function RunBars(props: { title: string; runs: Ending[]; value: (run: Ending) => number; text: (value: number) => string }) {
  const [watch, width] = useWidth(360);
  const { runs, text } = props;
  const values = runs.map(props.value);
  const high = Math.max(...values, 0);
  const median = medianOf(values);
  const room = width - LEFT - RIGHT;
  const each = room / Math.max(runs.length, 12);
  return (
    <figure class="bars" ref={watch}>
      <figcaption>
        <strong>{props.title}</strong>
        <span class="muted"> median {text(median)}, at most {text(high)}</span>
      </figcaption>
      <Frame label={`${props.title} of ${plural(runs.length, "run")}: median ${text(median)}, at most ${text(high)}`} width={width} low={0} high={high || 1} text={text} first={0} last={1} xText={() => ""} xTitle="runs, oldest first">
        {({ y }) => (
          <>
            {runs.map((run, at) => {
              const top = y(props.value(run));
              const bottom = HEIGHT - BOTTOM;
              return (
                <g key={run.key} class={`run-bar tone-${run.tone}`} onClick={() => go(hrefs.run(run.key))}>
                  <title>{`${run.word}, ${text(props.value(run))}, ${absolute(run.started_ms)}`}</title>
                  <rect class="hit" x={LEFT + at * each} y={TOP} width={each} height={bottom - TOP} />
                  <rect x={LEFT + at * each + each * 0.12} y={Math.min(top, bottom - 1)} width={Math.max(each * 0.76, 1)} height={Math.max(bottom - top, 1)} rx={each > 6 ? 2 : 0} />
                  {run.tone === "bad" && each > 5 && <path class="cross" d={`M${LEFT + at * each + each / 2 - 2.5} ${bottom + 6}l5 5m0 -5l-5 5`} />}
                </g>
              );
            })}
            <line class="median" x1={LEFT} x2={width - RIGHT} y1={y(median)} y2={y(median)} />
          </>
        )}
      </Frame>
    </figure>
  );
}
