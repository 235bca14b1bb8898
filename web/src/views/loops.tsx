/* The loops of the project: how their last runs ended, what a run takes, and a way to start one. */

import { useState } from "preact/hooks";
import type { Created, LoopDetail, LoopRow, Loops, Server, Templates } from "../api";
import { Failure, loopPath } from "../client";
import { canDo } from "../components/actions";
import { Command, Dialog, Empty, Loading, Message, Panel, Problem, sentence, Status } from "../components/basics";
import { Strip } from "../components/endings";
import { Cancel } from "../components/fields";
import { Graph } from "../components/graph";
import { RunDialog } from "../components/run_dialog";
import { useAnswer, useClient } from "../context";
import { duration, money, percent, plural } from "../format";
import { useListStream } from "../list_stream";
import { go, hrefs } from "../router";

/** Of so few runs, a percentage would say too much. */
const FEW = 5;

export function LoopsView({ server }: { server: Server }) {
  const { data, error, reload } = useAnswer<Loops>("/api/loops");
  const [creating, setCreating] = useState(false);
  useListStream(reload);
  const create = canDo(server.can, "create");
  return (
    <>
      <header class="view-head">
        <h1 tabIndex={-1}>Loops</h1>
        {create?.allowed && (
          <button type="button" onClick={() => setCreating(true)}>
            New loop
          </button>
        )}
      </header>
      {error && <Problem failure={error} retry={() => void reload()} />}
      {!data && !error && <Loading what="loops" />}
      {data?.loops.length === 0 && (
        <Empty title="No loops yet">
          <p>A loop is a file in <code>.loops/</code>. This writes one that suits the project:</p>
          <Command text="ll-loop init" />
        </Empty>
      )}
      {data && data.loops.length > 0 && (
        <ul class="loops">
          {data.loops.map((loop) => (
            <LoopItem key={loop.key} loop={loop} projects={server.projects.length} />
          ))}
        </ul>
      )}
      {creating && <CreateDialog close={() => setCreating(false)} created={() => void reload()} />}
    </>
  );
}

function LoopItem({ loop, projects }: { loop: LoopRow; projects: number }) {
  const [starting, setStarting] = useState(false);
  const run = canDo(loop.can, "run");
  const edit = canDo(loop.can, "edit");
  return (
    <li class="loop">
      <div class="loop-name">
        <h2>
          <a href={hrefs.loop(loop.key)} class="mono name">
            <bdi>{loop.name}</bdi>
          </a>
          {loop.paradigm && <span class="tag">{loop.paradigm}</span>}
          {projects > 1 && <span class="tag">{loop.project}</span>}
        </h2>
        {loop.description && (
          <p class="muted" dir="auto">
            {loop.description}
          </p>
        )}
        {loop.problem && (
          <p class="loop-problem">
            <Status tone={loop.errors ? "bad" : "warn"} word={loop.problem} /> {loop.fix && <code>{loop.fix}</code>}
          </p>
        )}
        {loop.current.map((row) => (
          <p key={row.key} class="loop-current">
            <a href={hrefs.run(row.key)}>
              <Status tone={row.tone} word={row.word} />
            </a>
            {row.state && (
              <span class="muted">
                {" "}
                in <bdi class="mono">{row.state}</bdi>
              </span>
            )}
          </p>
        ))}
        {loop.current_count > loop.current.length && (
          <p class="loop-current">
            <a href={hrefs.runs({ loop: loop.name })}>{plural(loop.current_count - loop.current.length, "more run")}</a>
          </p>
        )}
      </div>
      <div class="loop-strip">
        <Strip endings={loop.endings} />
      </div>
      {loop.runs === 0 ? (
        <div class="loop-numbers" />
      ) : (
        <dl class="loop-numbers">
          <div>
            <dt>completed</dt>
            <dd class="number">{loop.success_rate === null ? "–" : loop.counted < FEW ? `${loop.completed} of ${loop.counted}` : percent(loop.success_rate)}</dd>
          </div>
          <div>
            <dt>median time</dt>
            <dd class="number">{loop.median_duration_ms === null ? "–" : duration(loop.median_duration_ms)}</dd>
          </div>
          <div>
            <dt>median cost</dt>
            <dd class="number">{loop.median_cost_usd ? money(loop.median_cost_usd) : "–"}</dd>
          </div>
          <div>
            <dt>runs</dt>
            <dd class="number">{loop.runs}</dd>
          </div>
        </dl>
      )}
      <div class="loop-actions">
        {run?.allowed && (
          <button type="button" onClick={() => setStarting(true)} aria-label={`Run ${loop.name}`}>
            Run
          </button>
        )}
        {edit?.allowed && (
          <a class="button" href={hrefs.edit(loop.key)} aria-label={`Edit ${loop.name}`}>
            Edit
          </a>
        )}
      </div>
      {starting && <RunDialog loopKey={loop.key} name={loop.name} close={() => setStarting(false)} />}
    </li>
  );
}

function CreateDialog(props: { close: () => void; created: () => void }) {
  const client = useClient();
  const { data, error } = useAnswer<Templates>("/api/templates");
  const [template, setTemplate] = useState("");
  const [failure, setFailure] = useState<Failure | null>(null);
  const chosen = template || data?.templates[0]?.name || "";
  async function submit(event: Event): Promise<void> {
    event.preventDefault();
    try {
      const made = await client.send<Created>("POST", "/api/loops", { template: chosen });
      props.created();
      props.close();
      go(hrefs.edit(made.key));
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      setFailure(error);
    }
  }
  return (
    <Dialog title="New loop" onClose={props.close}>
      <form onSubmit={(event) => void submit(event)}>
        {error && <Problem failure={error} />}
        <fieldset>
          <legend>Template</legend>
          {data?.templates.map((each) => (
            <label key={each.name} class="choice">
              <input type="radio" name="template" checked={each.name === chosen} onChange={() => setTemplate(each.name)} />
              <span>
                <strong>{each.title}</strong>
                <br />
                <span class="muted">{each.description}</span>
              </span>
            </label>
          ))}
        </fieldset>
        {failure && <Problem failure={failure} />}
        <footer>
          <Cancel close={props.close} />
          <button type="submit" class="primary" disabled={!chosen}>
            Create
          </button>
        </footer>
      </form>
    </Dialog>
  );
}

// ── one loop ────────────────────────────────────────────────────────────────────────────────────

export function LoopView({ loopKey }: { loopKey: string }) {
  const { data, error, reload } = useAnswer<LoopDetail>(loopPath(loopKey));
  const [starting, setStarting] = useState(false);
  useListStream(reload);
  if (error && !data) return <Problem failure={error} retry={() => void reload()} />;
  if (!data) return <Loading what="the loop" />;
  const { loop } = data;
  return (
    <>
      <header class="run-head">
        <p class="crumbs">
          <a href={hrefs.loops}>Loops</a>
        </p>
        <div class="title-line">
          <h1 tabIndex={-1} class="mono">
            <bdi>{loop.name}</bdi>
          </h1>
          {loop.paradigm && <span class="tag">{loop.paradigm}</span>}
          <div class="grow" />
          <div class="actions">
            <a class="button" href={hrefs.charts(loop.key)}>
              Charts
            </a>
            <a class="button" href={hrefs.runs({ loop: loop.name })}>
              Runs
            </a>
            {canDo(loop.can, "edit")?.allowed && (
              <a class="button" href={hrefs.edit(loop.key)}>
                Edit
              </a>
            )}
            {canDo(loop.can, "run")?.allowed && (
              <button type="button" class="primary" onClick={() => setStarting(true)}>
                Run
              </button>
            )}
          </div>
        </div>
        {loop.description && (
          <p class="final" dir="auto">
            {loop.description}
          </p>
        )}
      </header>
      {data.problems.length > 0 && (
        <Panel title="Problems" note={plural(data.problems.length, "problem")}>
          <ul class="problems" tabIndex={0} aria-label="Problems in the file">
            {data.problems.map((each, at) => (
              <li key={at}>
                <Status tone={each.severity === "error" ? "bad" : "warn"} word={`${each.severity} ${each.code}`} />
                <span>
                  <Message text={sentence(each.message)} />
                  <span class="muted">
                    {each.line && `Line ${each.line}`}
                    {each.line && each.help && ". "}
                    {each.help && <Message text={sentence(each.help)} />}
                  </span>
                </span>
              </li>
            ))}
          </ul>
        </Panel>
      )}
      <div class="columns">
        <Panel title="Machine" note={data.machine && plural(data.machine.states.length, "state")}>
          {data.machine ? <Graph machine={data.machine} /> : <p class="muted nothing">The file has errors, so there is no machine to show.</p>}
        </Panel>
        <Panel title="File" note={loop.file && <code>{loop.file}</code>}>
          {data.source === null ? (
            <p class="muted nothing">The file cannot be read as text.</p>
          ) : (
            <div class="source" tabIndex={0} role="region" aria-label="The loop file">
              <pre>
                {data.source.replace(/\n$/, "").split("\n").map((line, at) => (
                  <span key={at} class={`line${data.problems.some((each) => each.line === at + 1) ? " marked" : ""}`}>
                    {line}
                    {"\n"}
                  </span>
                ))}
              </pre>
            </div>
          )}
        </Panel>
      </div>
      {starting && <RunDialog loopKey={loop.key} name={loop.name} close={() => setStarting(false)} />}
    </>
  );
}
