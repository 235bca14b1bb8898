/* Fields and buttons that several dialogs have. */

import type { Failure } from "../client";

/** Whether the command suggests to wait for the run that is in the way. */
export function canQueue(failure: Failure): boolean {
  return failure.help?.includes("--queue") ?? false;
}

export function Cancel({ close }: { close: () => void }) {
  return (
    <button type="button" onClick={close}>
      Cancel
    </button>
  );
}

function numberOf(text: string): number | undefined {
  const value = Number(text);
  return text.trim() && Number.isFinite(value) ? value : undefined;
}

/** Only what was filled in. */
export function given(fields: Record<string, unknown>): object {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined && value !== ""));
}

function Field(props: { label: string; hint?: string; value: string; onInput: (value: string) => void; placeholder?: string; numeric?: boolean }) {
  return (
    <label class="field">
      <span>
        {props.label}
        {props.hint && <small class="muted"> {props.hint}</small>}
      </span>
      <input
        type="text"
        inputMode={props.numeric ? "decimal" : "text"}
        value={props.value}
        placeholder={props.placeholder ?? ""}
        onInput={(event) => props.onInput(event.currentTarget.value)}
      />
    </label>
  );
}

export function LimitFields(props: {
  /** Those of the run or loop; null if they are not known here. */
  limits: { max_iterations?: number | null; timeout_s?: number | null; max_cost_usd?: number | null; max_tokens?: number | null } | null;
  values: Record<string, string>;
  set: (name: string, value: string) => void;
}) {
  const { values, set } = props;
  const limits = props.limits ?? {};
  const now = (value: number | string | null | undefined): string =>
    props.limits === null ? "as it is" : value === null || value === undefined ? "no limit" : `now ${value}`;
  return (
    <div class="fields">
      <Field label="Iterations" numeric placeholder={now(limits.max_iterations)} value={values.max_iterations ?? ""} onInput={(text) => set("max_iterations", text)} />
      <Field label="Time" hint="such as 90s, 10m, 2h" placeholder={now(limits.timeout_s ? `${limits.timeout_s}s` : null)} value={values.timeout ?? ""} onInput={(text) => set("timeout", text)} />
      <Field label="Cost in $" numeric placeholder={now(limits.max_cost_usd)} value={values.max_cost ?? ""} onInput={(text) => set("max_cost", text)} />
      <Field label="Tokens" numeric placeholder={now(limits.max_tokens)} value={values.max_tokens ?? ""} onInput={(text) => set("max_tokens", text)} />
    </div>
  );
}

export function limitsOf(values: Record<string, string>): object {
  return given({
    max_iterations: numberOf(values.max_iterations ?? ""),
    timeout: (values.timeout ?? "").trim(),
    max_cost: numberOf(values.max_cost ?? ""),
    max_tokens: numberOf(values.max_tokens ?? ""),
  });
}
