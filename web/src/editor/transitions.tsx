/* The transitions of a state, as a list that is edited by keyboard or mouse. */

import { useState } from "preact/hooks";
import { plural } from "../format";
import type { Operation, OutlinedState } from "./api";
import { useChoice, type FormContext } from "./form";

/** What a transition can be for: the verdicts of the table of fields, and the words of the condition. */
export function labelsOf(context: FormContext, state: OutlinedState): string[] {
  const fields = (context.tables["state"] ?? []).filter((field) => field.group === "transitions" && field.control.type === "target");
  const condition = (state.fields["condition"] ?? state.fields["check_condition"]) as { words?: unknown } | undefined;
  const words = Array.isArray(condition?.words) ? condition.words.map(String) : [];
  const review = state.fields["outcome"] === "review" ? ["choice"] : [];
  return [...new Set([...words, ...fields.map((field) => field.name.replace(/^on_/, "")), ...review])];
}

/** The first label that has no target yet. */
export function freeLabel(context: FormContext, state: OutlinedState): string {
  const used = new Set(state.transitions.map((transition) => transition.on));
  const usual = state.fields["terminal"] === true ? ["next", "choice"] : ["pass", "fail", "error", "timeout", "next"];
  if (used.has("next")) return labelsOf(context, state).find((label) => label === "error" && !used.has(label)) ?? "error";
  return usual.find((label) => !used.has(label)) ?? labelsOf(context, state).find((label) => !used.has(label)) ?? "next";
}

export function Transitions(props: { context: FormContext; state: OutlinedState; onConnect: () => void; to?: string | null }) {
  const { context, state } = props;
  const shown = state.transitions.filter(({ target }) => !props.to || target === props.to || (target === "$current" && props.to === state.name));
  return (
    <div class="transitions">
      {shown.length === 0 && <p class="muted small-text">{state.fields["terminal"] === true ? "The run ends here." : "No transitions yet."}</p>}
      {shown.map(({ on, target }, at) => (
        <div class="transition-row" key={`${on} ${at}`}>
          <label>
            <span>{on}</span>
            <Target context={context} state={state} on={on} target={target} />
          </label>
          {context.editable && (
            <button
              type="button"
              class="quiet small"
              aria-label={`Remove the transition ${on} to ${target}`}
              onClick={() => void context.edit({ op: "disconnect", state: state.name, on, ...(on === "choice" ? { target } : {}) })}
            >
              ✕
            </button>
          )}
        </div>
      ))}
      {context.editable && (
        <button type="button" class="small" onClick={props.onConnect}>
          Connect to…
        </button>
      )}
    </div>
  );
}

function Target({ context, state, on, target }: { context: FormContext; state: OutlinedState; on: string; target: string }) {
  const { control } = useChoice(target, (next) => {
    const drop = on === "choice" ? [{ op: "disconnect", state: state.name, on, target } as const] : [];
    void context.edit(...drop, { op: "connect", state: state.name, on, target: next });
  });
  return (
    <select disabled={!context.editable} aria-label={`Target of ${on}`} {...control}>
      {[...new Set([target, ...context.states, "$current"])].map((name) => (
        <option key={name} value={name}>{name === "$current" ? "$current (again)" : name}</option>
      ))}
    </select>
  );
}

const RETRIED = ["fail", "error", "timeout"];

/** Run a state again, and name the state that follows if that does not help: one edit for both. */
export function RetryForm(props: { context: FormContext; state: OutlinedState; onDone: (operations: Operation[]) => void; onCancel: () => void }) {
  const { context, state } = props;
  const targetOf = (label: string): string | null => state.transitions.find(({ on, target }) => on === label && target !== "$current")?.target ?? null;
  const [on, setOn] = useState(RETRIED.find((label) => targetOf(label) !== null) ?? "fail");
  const [most, setMost] = useState("3");
  const [wait, setWait] = useState("");
  const [chosen, setChosen] = useState<string | null>(null);
  const next = targetOf("next");
  const others = context.states.filter((name) => name !== state.name);
  const then = next ?? chosen ?? targetOf(on) ?? others[others.length - 1] ?? "";
  function submit(event: Event): void {
    event.preventDefault();
    const { name } = state;
    props.onDone([
      { op: "connect", state: name, on, target: "$current" },
      { op: "set_field", path: ["states", name, "retry"], value: { max: Number(most), ...(wait.trim() ? { backoff: wait.trim() } : {}) } },
      ...(next === null && then ? [{ op: "connect", state: name, on: "next", target: then } as const] : []),
    ]);
  }
  return (
    <form onSubmit={submit}>
      <label class="field">
        <span>Run it again after</span>
        <select value={on} onChange={(event) => setOn(event.currentTarget.value)}>
          {RETRIED.map((label) => (
            <option key={label} value={label}>{label}</option>
          ))}
        </select>
      </label>
      <div class="fields">
        <label class="field">
          <span>
            Runs at most <small class="muted">{Number(most) >= 2 ? plural(Number(most) - 1, "retry", "retries") : ""}</small>
          </span>
          <input type="number" min="2" required value={most} onInput={(event) => setMost(event.currentTarget.value)} />
        </label>
        <label class="field">
          <span>
            Wait before <small class="muted">such as 10s</small>
          </span>
          <input type="text" value={wait} placeholder="1s" onInput={(event) => setWait(event.currentTarget.value)} />
        </label>
      </div>
      {next !== null ? (
        <p class="muted">
          If the last run does not pass either, the loop continues in <code>{next}</code>.
        </p>
      ) : (
        <label class="field">
          <span>If the last run does not pass either, go to</span>
          <select value={then} onChange={(event) => setChosen(event.currentTarget.value)}>
            {others.map((name) => (
              <option key={name} value={name}>{name}</option>
            ))}
          </select>
        </label>
      )}
      <p class="buttons">
        <button type="submit" class="primary">Add the retry</button>
        <button type="button" onClick={props.onCancel}>Cancel</button>
      </p>
    </form>
  );
}

/** Choose what a new transition is for, and where it leads. */
export function ConnectForm(props: {
  context: FormContext;
  state: OutlinedState;
  target: string | null;
  onDone: (on: string, target: string) => void;
}) {
  const { context, state } = props;
  const [on, setOn] = useState(freeLabel(context, state));
  const [target, setTarget] = useState(props.target ?? context.states.find((name) => name !== state.name) ?? state.name);
  const old = state.transitions.find((transition) => transition.on === on && on !== "choice");
  return (
    <form
      class="connect-form"
      onSubmit={(event) => {
        event.preventDefault();
        props.onDone(on, target);
      }}
    >
      <label class="field">
        <span>When</span>
        <select autofocus value={on} onChange={(event) => setOn(event.currentTarget.value)}>
          {labelsOf(context, state).map((label) => (
            <option key={label} value={label}>{label}</option>
          ))}
        </select>
      </label>
      <label class="field">
        <span>Go to</span>
        <select value={target} onChange={(event) => setTarget(event.currentTarget.value)}>
          {[...context.states, "$current"].map((name) => (
            <option key={name} value={name}>{name}</option>
          ))}
        </select>
      </label>
      {old && <p class="muted">This replaces the transition to <code>{old.target}</code>.</p>}
      <p class="buttons">
        <button type="submit" class="primary">Connect</button>
      </p>
    </form>
  );
}
