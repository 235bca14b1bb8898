/* The dialog that starts a run, for the first time or again. */

import { useState } from "preact/hooks";
import type { Done, DryRun, Limits, LimitTexts, LoopDetail, RunDetail, RunRow } from "../api";
import { Failure, loopPath, runPath } from "../client";
import { useAnswer, useClient } from "../context";
import { go, hrefs } from "../router";
import { Command, Dialog, Icon, Loading, Problem } from "./basics";
import { Cancel, canQueue, LimitFields, limitsOf, Refusal } from "./fields";

/** The run that is to be run again, and what it had. */
interface Again {
  key: string;
  context: { name: string; text: string }[];
  limits: Limits;
}

/** The same loop again, with what this run had. */
export function AgainDialog(props: { run: RunRow; detail: RunDetail | null; close: () => void }) {
  const { run } = props;
  const asked = useAnswer<RunDetail>(props.detail === null ? runPath(run.key) : null);
  const detail = props.detail ?? asked.data;
  if (detail === null || detail.loop_key === null) {
    return (
      <Dialog title={`Run ${run.name} again`} onClose={props.close} wide>
        {asked.error ? <Problem failure={asked.error} /> : <Loading what="the run" />}
      </Dialog>
    );
  }
  const again = { key: run.key, context: detail.context, limits: detail.limits };
  return <RunDialog loopKey={detail.loop_key} name={run.name} again={again} close={props.close} />;
}

/** Starts a run in the background: it outlives the page. */
export function RunDialog(props: { loopKey: string; name: string; again?: Again; close: () => void }) {
  const client = useClient();
  const { data, error, reload } = useAnswer<LoopDetail>(loopPath(props.loopKey));
  const [context, setContext] = useState<Record<string, string>>({});
  const [limits, setLimits] = useState<LimitTexts>({});
  const [plan, setPlan] = useState<DryRun | null>(null);
  const [failure, setFailure] = useState<Failure | null>(null);
  const [busy, setBusy] = useState(false);
  const consent = data?.consent ?? null;
  const { again } = props;
  const path = again ? runPath(again.key, "/run") : loopPath(props.loopKey, "/run");
  const before = new Map(again?.context.map(({ name, text }) => [name, text]));
  const blocked = consent !== null && !consent.given;

  async function send(dryRun: boolean, queue = false): Promise<void> {
    setBusy(true);
    const body = { ...limitsOf(limits), ...(queue ? { queue } : {}), ...(Object.keys(context).length ? { context } : {}), ...(dryRun ? { dry_run: true } : {}) };
    try {
      if (dryRun) setPlan(await client.send<DryRun>("POST", path, body));
      else {
        const done = await client.send<Done>("POST", path, body);
        props.close();
        if (done.key) go(hrefs.run(done.key));
      }
      setFailure(null);
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      setFailure(error);
    } finally {
      setBusy(false);
    }
  }

  return (
    <Dialog title={again ? `Run ${props.name} again` : `Run ${props.name}`} onClose={props.close} wide ready={data !== null}>
      {error && <Problem failure={error} retry={() => void reload()} />}
      {!data && !error && <Loading what="the loop" />}
      {data && (
        <form
          onSubmit={(event) => {
            event.preventDefault();
            void send(false);
          }}
        >
          {again && <p class="muted">A new run of the loop as its file is now. The values are those of the run before.</p>}
          {data.context.length > 0 && (
            <fieldset>
              <legend>Context</legend>
              <p class="muted">
                <Icon tone="warn" /> These values become part of scripts, as code. Enter only what you would type into a terminal.
              </p>
              <div class="fields">
                {data.context.map((field) => (
                  <label class="field" key={field.name}>
                    <span class="mono">{field.name}</span>
                    <input
                      type="text"
                      class="mono"
                      dir="auto"
                      value={context[field.name] ?? before.get(field.name) ?? field.text}
                      onInput={(event) => setContext({ ...context, [field.name]: event.currentTarget.value })}
                    />
                  </label>
                ))}
              </div>
            </fieldset>
          )}
          <fieldset>
            <legend>Limits</legend>
            <LimitFields limits={again?.limits ?? data.limits ?? {}} values={limits} set={setLimits} />
          </fieldset>
          {blocked && (
            <div class="callout tone-warn">
              <Icon tone="warn" />
              <div>
                <p>
                  {consent.agents.join(", ")} would work without permission prompts, and you have not agreed to that for this project. To
                  agree, run:
                </p>
                <Command text={consent.command} />
              </div>
            </div>
          )}
          {failure && <Refusal failure={failure} />}
          {plan && (
            <pre class="block plan" tabIndex={0} aria-label="What would run">
              {plan.lines.join("\n")}
            </pre>
          )}
          <footer>
            <Cancel close={props.close} />
            <button type="button" disabled={busy} onClick={() => void send(true)}>
              Dry run
            </button>
            {failure && canQueue(failure) && (
              <button type="button" class="primary" disabled={busy} onClick={() => void send(false, true)}>
                Queue it
              </button>
            )}
            {!blocked && !(failure && canQueue(failure)) && (
              <button type="submit" class="primary" disabled={busy}>
                Run
              </button>
            )}
          </footer>
        </form>
      )}
    </Dialog>
  );
}
