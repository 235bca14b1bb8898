/*
 * Forms for the fields of the loop and of its parts. Which fields there are, and what they are for,
 * comes from the server; a value is set in the file when its control loses the focus.
 */

import { useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Message } from "../components/basics";
import type { Control, Field, Fields, Operation, Path } from "./api";

/** Whether a key means "save". */
export function isSave(event: KeyboardEvent): boolean {
  return (event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "s";
}

export interface FormContext {
  tables: Record<string, Field[]>;
  states: string[];
  editable: boolean;
  edit: (...operations: Operation[]) => Promise<boolean>;
}

interface FieldsProps {
  context: FormContext;
  table: string;
  path: Path;
  values: Fields;
  without?: string[];
}

/**
 * A menu whose choice counts at once if it was made with the mouse. With the keyboard, each arrow key
 * changes a menu that is closed, so the choice counts on Enter, or when the focus leaves.
 */
export function useChoice(value: string, onPick: (word: string) => void, onLeave = true) {
  const [draft, setDraft] = useState<string | null>(null);
  const byKeys = useRef(false);
  const commit = (word: string | null): void => {
    setDraft(null);
    if (word && word !== value) onPick(word);
  };
  const control = {
    value: draft ?? value,
    onPointerDown: () => {
      byKeys.current = false;
    },
    onChange: (event: Typed) => (byKeys.current ? setDraft(event.currentTarget.value) : commit(event.currentTarget.value)),
    onBlur: () => {
      if (onLeave) commit(draft);
    },
    onKeyDown: (event: KeyboardEvent) => {
      if (draft !== null && (event.key === "Enter" || isSave(event))) {
        event.preventDefault();
        commit(draft);
      } else if (event.key === "Escape") setDraft(null);
      else byKeys.current = true;
    },
  };
  return { control, draft, commit: () => commit(draft) };
}

/** The fields that are set, and a menu with the others. */
export function FieldsForm({ context, table, path, values, without = [] }: FieldsProps) {
  const [added, setAdded] = useState<string[]>([]);
  const known = (context.tables[table] ?? []).filter((field) => field.group === "fields" && !without.includes(field.name));
  const shown = known.filter((field) => field.required || values[spelled(field, values)] !== undefined || added.includes(field.name));
  const rest = known.filter((field) => !shown.includes(field));
  const menu = useChoice("", (name) => setAdded([...added, name]), false);
  return (
    <div class="fields-form">
      {shown.map((field) => (
        <FieldRow
          key={field.name}
          context={context}
          field={field}
          path={[...path, field.name]}
          value={values[spelled(field, values)]}
          fresh={added.includes(field.name)}
        />
      ))}
      {context.editable && rest.length > 0 && (
        <div class="add-row">
          <select class="add-field" aria-label="Add a field" {...menu.control}>
            <option value="">Add a field…</option>
            {rest.map((field) => (
              <option key={field.name} value={field.name}>{`${field.name}: ${field.help.replaceAll("`", "")}`}</option>
            ))}
          </select>
          {menu.draft && (
            <button type="button" class="small" onClick={menu.commit}>
              Add {menu.draft}
            </button>
          )}
        </div>
      )}
    </div>
  );
}

/** The server edits a field under the alias that the file uses. */
function spelled(field: Field, values: Fields): string {
  return field.name === "condition" && values["check_condition"] !== undefined ? "check_condition" : field.name;
}

interface RowProps {
  context: FormContext;
  field: Field;
  path: Path;
  value: unknown;
  fresh: boolean;
}

function FieldRow({ context, field, path, value, fresh }: RowProps) {
  const id = useId();
  const set = value !== undefined;
  const { control } = field;
  const nested = control.type === "record" || control.type === "variant";
  const row = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    if (fresh && !set) row.current?.querySelector<HTMLElement>("input, select, textarea")?.focus();
  }, []);
  return (
    <div class={`field-row${nested ? " nested" : ""}`} ref={row}>
      <div class="field-head">
        <label for={id}>{field.name}</label>
        {set && context.editable && !field.required && (
          <button type="button" class="link small-text" aria-label={`Remove ${field.name}`} onClick={() => void context.edit({ op: "remove_field", path })}>
            remove
          </button>
        )}
      </div>
      <ControlView id={id} context={context} control={control} path={path} value={value} field={field} />
      <p class="muted small-text" id={`${id}-help`}>
        <Message text={field.help} />
        {field.default !== null && !set && <> Default: {field.default}.</>}
      </p>
    </div>
  );
}

interface ControlProps {
  id: string;
  context: FormContext;
  control: Control;
  path: Path;
  value: unknown;
  field: Field;
}

function ControlView(props: ControlProps) {
  const { id, context, control, path, value } = props;
  const put = (next: unknown): void => void context.edit({ op: "set_field", path, value: next });
  switch (control.type) {
    case "flag":
      return <Choices {...props} words={["true", "false"]} onPick={(word) => put(word === "true")} />;
    case "choice":
      return <Choices {...props} words={control.words} onPick={put} />;
    case "target":
      return <Choices {...props} words={[...context.states, ...control.words]} onPick={put} />;
    case "list":
      if (value === undefined || isTextList(value)) {
        return <Lines {...props} text={isTextList(value) ? value.join("\n") : ""} hint="one on each line" onText={(text) => put(text.split("\n").map((line) => line.trim()).filter(Boolean))} />;
      }
      return <Yaml {...props} />;
    case "lines":
      if (value === undefined || typeof value === "string") return <Lines {...props} text={value ?? ""} onText={put} />;
      return <Yaml {...props} />;
    case "text":
    case "time":
    case "number":
      if (value === undefined || isScalar(value)) {
        const read = control.type === "text" ? (text: string): unknown => text : numeric;
        return <Line {...props} text={value === undefined ? "" : String(value)} onText={(text) => put(read(text))} />;
      }
      return <Yaml {...props} />;
    case "record":
      if (isRecord(value) || (value === undefined && !control.short && !control.flag)) {
        return <FieldsForm context={context} table={control.table} path={path} values={isRecord(value) ? value : {}} />;
      }
      return <Yaml {...props} />;
    case "variant": {
      if (value !== undefined && !isRecord(value)) return <Yaml {...props} />;
      const values = isRecord(value) ? value : {};
      const kind = String(values[control.key] ?? control.default);
      return (
        <>
          <Choices {...props} id={id} value={isRecord(value) ? kind : undefined} words={Object.keys(control.tables)} onPick={(word) => put(word === kind ? { ...values, [control.key]: word } : { [control.key]: word })} />
          {isRecord(value) && control.tables[kind] !== undefined && (
            <FieldsForm context={context} table={control.tables[kind]} path={path} values={values} without={[control.key]} />
          )}
        </>
      );
    }
    case "variables":
    case "yaml":
      return <Yaml {...props} />;
  }
}

function Choices(props: ControlProps & { words: string[]; onPick: (word: string) => void }) {
  const { value, words } = props;
  const now = value === undefined ? "" : String(value);
  const shown = now && !words.includes(now) ? [now, ...words] : words;
  const { control } = useChoice(now, props.onPick);
  return (
    <select id={props.id} aria-describedby={`${props.id}-help`} disabled={!props.context.editable} {...control}>
      {!now && <option value="">{props.field.default ? `default: ${props.field.default}` : "not set"}</option>}
      {shown.map((word) => (
        <option key={word} value={word}>{word}</option>
      ))}
    </select>
  );
}

interface TextProps extends ControlProps {
  text: string;
  onText: (text: string) => void;
}

/**
 * What is typed, until it is set: a change of the file replaces it. Not by an effect: that would run after
 * the next frame, and undo what was typed before it.
 */
function useDraft(text: string): [string, (draft: string) => void] {
  const [draft, setDraft] = useState({ typed: text, of: text });
  if (draft.of !== text) setDraft({ typed: text, of: text });
  return [draft.of === text ? draft.typed : text, (typed) => setDraft({ typed, of: text })];
}

type Typed = { currentTarget: { value: string } };

/** Set what is typed: when the control loses the focus, on Enter in a line, and before saving by keyboard. */
function useTyping({ text, onText }: TextProps, onEnter: boolean) {
  const [draft, setDraft] = useDraft(text);
  const commit = ({ currentTarget: { value } }: Typed): void => {
    if (value !== text && value.trim()) onText(value);
  };
  return {
    value: draft,
    onInput: (event: Typed) => setDraft(event.currentTarget.value),
    onBlur: commit,
    onKeyDown: (event: KeyboardEvent & Typed) => {
      if ((onEnter && event.key === "Enter") || isSave(event)) commit(event);
    },
  };
}

function Line(props: TextProps) {
  const { id, context, field } = props;
  return (
    <input
      id={id}
      type="text"
      readOnly={!context.editable}
      placeholder={field.example ?? field.default ?? ""}
      aria-describedby={`${id}-help`}
      {...useTyping(props, true)}
    />
  );
}

function Lines(props: TextProps & { hint?: string }) {
  const { id, context, field, hint } = props;
  const typing = useTyping(props, false);
  return (
    <textarea
      id={id}
      class="mono"
      rows={Math.min(Math.max(linesOf(typing.value), 2), 12)}
      readOnly={!context.editable}
      placeholder={hint ?? field.example ?? ""}
      aria-describedby={`${id}-help`}
      spellcheck={false}
      {...typing}
    />
  );
}

/** How many lines a text takes in a form, about. */
function linesOf(text: string): number {
  return text.split("\n").reduce((count, line) => count + 1 + Math.floor(line.length / 60), 0);
}

/** A value that no control fits, as YAML. */
function Yaml(props: ControlProps) {
  const text = props.value === undefined ? "" : asYaml(props.value);
  const { context, path, field } = props;
  return <Lines {...props} text={text} hint={field.example ?? "as YAML"} onText={(yaml) => void context.edit({ op: "set_field", path, yaml })} />;
}

/** JSON is YAML, too; the first level gets lines of its own. */
function asYaml(value: unknown): string {
  if (Array.isArray(value)) return value.length ? value.map((each) => `- ${JSON.stringify(each)}`).join("\n") : "[]";
  if (isRecord(value)) {
    const lines = Object.entries(value).map(([key, each]) => `${/^[A-Za-z_][\w.-]*$/.test(key) ? key : JSON.stringify(key)}: ${JSON.stringify(each)}`);
    return lines.join("\n") || "{}";
  }
  return typeof value === "string" && /^[A-Za-z/][\w ./-]*$/.test(value) ? value : JSON.stringify(value);
}

function numeric(text: string): unknown {
  return /^-?(\d+|\d*\.\d+)$/.test(text.trim()) ? Number(text) : text.trim();
}

function isRecord(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isScalar(value: unknown): value is string | number | boolean {
  return typeof value === "string" || typeof value === "number" || typeof value === "boolean";
}

function isTextList(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((each) => typeof each === "string");
}
