/* Charts over the runs of a loop: how they ended, how long they took, what they cost. */

import type { LoopCharts, LoopRow, Loops, RunCharts } from "../api";
import { loopPath, runPath } from "../client";
import { Empty, Loading, Panel, Problem, Status } from "../components/basics";
import { Convergence, RunBars } from "../components/chart";
import { Strip } from "../components/endings";
import { useAnswer } from "../context";
import { count, duration, money, percent, plural } from "../format";
import { useListStream } from "../list_stream";
import { go, hrefs } from "../router";

export function ChartsView({ loopKey }: { loopKey: string | null }) {
  const loops = useAnswer<Loops>("/api/loops");
  useListStream(loops.reload);
  const known = loops.data?.loops ?? [];
  const chosen = loopKey === null ? latest(known) : known.find((loop) => loop.key === loopKey);
  return (
    <>
      <header class="view-head">
        <h1 tabIndex={-1}>Charts</h1>
        {known.length > 0 && (
          <label class="inline">
            <span>Loop</span>
            <select value={chosen?.key ?? ""} onChange={(event) => go(hrefs.charts(event.currentTarget.value))}>
              {known.map((loop) => (
                <option key={loop.key} value={loop.key}>
                  {loop.name}
                </option>
              ))}
            </select>
          </label>
        )}
      </header>
      {loops.error && <Problem failure={loops.error} retry={() => void loops.reload()} />}
      {!loops.data && !loops.error && <Loading what="loops" />}
      {loops.data && known.length === 0 && <Empty title="No loops yet" />}
      {loops.data && known.length > 0 && !chosen && <Empty title="No such loop" />}
      {chosen && <LoopChartsView key={chosen.key} loop={chosen} />}
    </>
  );
}

/** The loop of the newest run that has ended; without any, the first loop. */
function latest(loops: LoopRow[]): LoopRow | undefined {
  const at = (loop: LoopRow): number => loop.endings[loop.endings.length - 1]?.started_ms ?? 0;
  return loops.reduce<LoopRow | undefined>((best, loop) => (best === undefined || at(loop) > at(best) ? loop : best), undefined);
}

function LoopChartsView({ loop }: { loop: LoopRow }) {
  const { data, error, reload } = useAnswer<LoopCharts>(loopPath(loop.key, "/charts?last=200"));
  if (error) return <Problem failure={error} retry={() => void reload()} />;
  if (!data) return <Loading what="charts" />;
  if (data.runs.length === 0) {
    return (
      <Empty title="No run of this loop has ended yet">
        <p>
          <a href={hrefs.loop(loop.key)}>Show the loop</a>
        </p>
      </Empty>
    );
  }
  const last = data.runs[data.runs.length - 1]!;
  const all = data.runs.length;
  return (
    <>
      <Panel title="Endings" note={plural(all, "run")}>
        <Strip endings={data.runs.slice(-20)} />
        <ul class="shares">
          {data.endings.map((each) => (
            <li key={each.word}>
              <Status tone={each.tone} word={each.word} />
              <span class="share-bar">
                <span class={`tone-${each.tone}`} style={{ width: `${(each.count / all) * 100}%` }} />
              </span>
              <span class="number">
                {each.count} <span class="muted">({percent(each.count / all)})</span>
              </span>
            </li>
          ))}
        </ul>
      </Panel>
      <LastMeasured runKey={last.key} />
      <Panel title="Runs" note="oldest first; a bar opens its run, a cross marks a failed one">
        <div class="bar-grid">
          <RunBars title="Iterations" runs={data.runs} value={(run) => run.iterations} text={(value) => count(value)} />
          <RunBars title="Duration" runs={data.runs} value={(run) => run.duration_ms} text={duration} />
          {data.runs.some((run) => run.cost_usd > 0) && <RunBars title="Cost" runs={data.runs} value={(run) => run.cost_usd} text={money} />}
        </div>
      </Panel>
    </>
  );
}

function LastMeasured({ runKey }: { runKey: string }) {
  const { data } = useAnswer<RunCharts>(runPath(runKey, "/charts"));
  if (!data || data.points.length === 0) return null;
  return (
    <Panel title="Measured value" note={<a href={hrefs.run(runKey)}>the last run</a>}>
      <Convergence data={data} />
    </Panel>
  );
}
