/* Fields and buttons that several dialogs have. */

import type { LimitName, Limits, LimitTexts } from "../api";
import { Failure } from "../client";
import { Problem } from "./basics";

/** Whether the command suggests to wait for the run that is in the way. */
export function canQueue(failure: Failure): boolean {
  return failure.help?.includes("--queue") ?? false;
}

/** Why something was refused; where the command names its options, what can be done here. */
export function Refusal({ failure }: { failure: Failure }) {
  const help = "Queue it, and it starts by itself when that run has ended. Or stop that run first.";
  return <Problem failure={canQueue(failure) ? new Failure(failure.status, failure.code, failure.message, help) : failure} />;
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

function Field(props: { label: string; hint?: string | undefined; value: string; onInput: (value: string) => void; placeholder: string; numeric: boolean }) {
  return (
    <label class="field">
      <span>
        {props.label}
        {props.hint && <small class="muted"> {props.hint}</small>}
      </span>
      <input
        type="text"
        inputMode={props.numeric ? "decimal" : "text"}
        {...(props.numeric ? { pattern: "\\s*\\d*[.]?\\d*\\s*", title: "a number" } : {})}
        value={props.value}
        placeholder={props.placeholder}
        onInput={(event) => props.onInput(event.currentTarget.value)}
      />
    </label>
  );
}

type Known = { [field in keyof Limits]?: Limits[field] };
interface LimitField {
  label: string;
  hint?: string;
  now: (limits: Known) => number | string | null | undefined;
}
const LIMITS: Record<LimitName, LimitField> = {
  max_iterations: { label: "Iterations", now: (limits) => limits.max_iterations },
  timeout: { label: "Time", hint: "such as 90s, 10m, 2h", now: (limits) => limits.timeout_s && `${limits.timeout_s}s` },
  max_cost: { label: "Cost in $", now: (limits) => limits.max_cost_usd },
  max_tokens: { label: "Tokens", now: (limits) => limits.max_tokens },
};
const NAMES = Object.keys(LIMITS) as LimitName[];

export function LimitFields(props: {
  /** Those of the run or loop; null if they are not known here. */
  limits: Known | null;
  values: LimitTexts;
  set: (values: LimitTexts) => void;
}) {
  const { limits, values } = props;
  const now = (field: LimitField): string => {
    if (limits === null) return "as it is";
    const value = field.now(limits);
    return value ? `now ${value}` : "no limit";
  };
  return (
    <div class="fields">
      {NAMES.map((name) => (
        <Field
          key={name}
          label={LIMITS[name].label}
          hint={values[name] && limits !== null ? now(LIMITS[name]) : LIMITS[name].hint}
          numeric={name !== "timeout"}
          placeholder={now(LIMITS[name])}
          value={values[name] ?? ""}
          onInput={(text) => props.set({ ...values, [name]: text })}
        />
      ))}
    </div>
  );
}

export function limitsOf(values: LimitTexts): object {
  return given(Object.fromEntries(NAMES.map((name) => [name, name === "timeout" ? values[name]?.trim() : numberOf(values[name] ?? "")])));
}
