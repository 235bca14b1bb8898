/* The editor of a loop file: the drawing, the forms and the text, side by side. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Problem as FileProblem } from "../api";
import type { EditorProps } from "../app";
import { Failure, loopPath } from "../client";
import { Dialog, Icon, Loading, Message, Panel, Problem, sentence } from "../components/basics";
import { useAnswer } from "../context";
import { RunDialog } from "../components/run_dialog";
import { plural } from "../format";
import { go, hrefs } from "../router";
import type { Changed, Converted, Forms, OutlinedState, Preview } from "./api";
import { useDocument, type Doc, type DocActions } from "./document";
import { Drawing, type Selection } from "./drawing";
import { FieldsForm, isSave, type FormContext } from "./form";
import { TextPane } from "./text";
import { ConnectForm, RetryForm, Transitions } from "./transitions";

type Asked =
  | { kind: "add" }
  | { kind: "rename"; state: string }
  | { kind: "connect"; state: string; target: string | null }
  | { kind: "retry"; state: string }
  | { kind: "save"; preview: Preview }
  | { kind: "changed"; changed: Changed };

export function Editor({ loopKey, state, client, server }: EditorProps) {
  const [doc, failure, actions] = useDocument(client, loopKey);
  const forms = useAnswer<Forms>("/api/fields");
  const wrong = failure ?? forms.error;
  if (wrong) return <Problem failure={wrong} />;
  if (!doc || !forms.data) return <Loading what="the editor" />;
  const editable = server.edit && !server.read_only;
  return <Loaded loopKey={loopKey} state={state} client={client} doc={doc} actions={actions} forms={forms.data} editable={editable} />;
}

interface LoadedProps {
  loopKey: string;
  state: string | null;
  client: EditorProps["client"];
  doc: Doc;
  actions: DocActions;
  forms: Forms;
  editable: boolean;
}

function Loaded({ loopKey, state: first, client, doc, actions, forms, editable }: LoadedProps) {
  const { described } = doc;
  const isThere = described.outline?.states?.some((each) => each.name === first) ?? false;
  const [selection, setSelection] = useState<Selection>(first !== null && isThere ? { kind: "state", state: first } : { kind: "loop" });
  const [asked, setAsked] = useState<Asked | null>(null);
  const [line, setLine] = useState<{ number: number; wish: number } | null>(null);
  const [status, setStatus] = useState("");
  const wishes = useRef(0);
  const states = described.outline?.states ?? null;
  const context = useMemo<FormContext>(
    () => ({
      tables: forms.tables,
      states: (states ?? described.machine?.states ?? []).map((state) => state.name),
      editable,
      edit: actions.edit,
    }),
    [forms, states, described.machine, editable, actions],
  );
  const dirty = doc.text !== doc.saved;
  const [running, setRunning] = useState(false);
  const canRun = editable && !dirty && described.problems.every((problem) => problem.severity !== "error");
  const name = described.file.replace(/^.*\//, "").replace(/\.ya?ml$/, "");
  const selected = stateOf(selection, states);

  useEffect(() => {
    if (!dirty) return;
    const warn = (event: BeforeUnloadEvent): void => event.preventDefault();
    addEventListener("beforeunload", warn);
    return () => removeEventListener("beforeunload", warn);
  }, [dirty]);

  const show = (number: number): void => setLine({ number, wish: ++wishes.current });
  useEffect(() => {
    if (selected) show(selected.line); // the state that the URL names
  }, []);
  function select(next: Selection): void {
    setSelection(next);
    const found = stateOf(next, states);
    if (next.kind === "edge" && found) {
      const transition = found.transitions.find(({ target }) => target === next.to);
      show(transition?.line ?? found.line);
    } else if (found) show(found.line);
  }
  function remove(gone: Selection): void {
    const found = stateOf(gone, states);
    if (gone.kind === "state") void actions.edit({ op: "delete_state", state: gone.state });
    if (gone.kind === "edge" && found) {
      const leading = found.transitions.filter(({ target }) => target === gone.to || (target === "$current" && gone.to === gone.from));
      void actions.edit(...leading.map(({ on, target }) => ({ op: "disconnect" as const, state: found.name, on, ...(on === "choice" ? { target } : {}) })));
    }
    setSelection({ kind: "loop" });
  }
  async function save(): Promise<void> {
    if (!editable) return;
    const preview = await actions.preview(); // after the edits that are on their way
    if (preview && preview.text !== doc.saved) setAsked({ kind: "save", preview });
    else if (preview) setStatus("Nothing to save");
  }
  async function write({ text }: Preview): Promise<void> {
    setAsked(null);
    const changed = await actions.save(text);
    if (changed) setAsked({ kind: "changed", changed });
    else setStatus("Saved");
  }
  function keys(event: KeyboardEvent): void {
    const command = event.ctrlKey || event.metaKey;
    const key = event.key.toLowerCase();
    if (isSave(event)) void save();
    else if (typing(event.target) || !editable) return;
    else if (command && key === "z" && !event.shiftKey) actions.undo();
    else if (command && (key === "y" || (key === "z" && event.shiftKey))) actions.redo();
    else if (command || event.altKey || asked) return;
    else if (key === "a" && states) setAsked({ kind: "add" });
    else if (key === "c" && selected) setAsked({ kind: "connect", state: selected.name, target: null });
    else if (key === "r" && selected && selected.fields["terminal"] !== true) setAsked({ kind: "retry", state: selected.name });
    else if (event.key === "F2" && selected) setAsked({ kind: "rename", state: selected.name });
    else return;
    event.preventDefault();
  }

  return (
    <div class="editor" onKeyDown={keys}>
      <header class="editor-top">
        <div class="editor-title">
          <p class="crumbs"><a href={hrefs.loops}>Loops</a> / <a href={hrefs.loop(loopKey)}>{name}</a></p>
          <h1 class="mono" tabIndex={-1}><bdi>{described.file}</bdi></h1>
          <span class="muted" role="status">{doc.busy ? "Checking…" : dirty ? "Not saved" : status}</span>
        </div>
        <div class="buttons" role="toolbar" aria-label="Edit">
          {states && <button type="button" disabled={!editable} title="A" onClick={() => setAsked({ kind: "add" })}>Add a state</button>}
          <button type="button" disabled={!editable || doc.past.length === 0} title="Ctrl+Z" onClick={actions.undo}>Undo</button>
          <button type="button" disabled={!editable || doc.future.length === 0} title="Ctrl+Y" onClick={actions.redo}>Redo</button>
          <button type="button" class={dirty ? "primary" : ""} disabled={!editable} title="Ctrl+S" onClick={() => void save()}>Save…</button>
          {canRun && <button type="button" onClick={() => setRunning(true)}>Run…</button>}
        </div>
      </header>
      {running && <RunDialog loopKey={loopKey} name={name} close={() => setRunning(false)} />}
      {!editable && (
        <div class="callout tone-none"><Icon tone="none" /><div><p>You can look, but not change anything: start the page with <code>ll-loop web --edit</code>.</p></div></div>
      )}
      {doc.failure && (
        <div class="callout tone-bad" role="alert">
          <Icon tone="bad" />
          <div>
            <p><Message text={sentence(doc.failure.message)} /></p>
            {doc.failure.help && <p class="muted"><Message text={doc.failure.help} /></p>}
            <button type="button" class="small" onClick={actions.dismiss}>Close</button>
          </div>
        </div>
      )}
      <div class="editor-panes">
        <div class="editor-left">
          <Panel title="Drawing" note={states ? null : <span class="tag">read-only</span>}>
            {editable && states && (
              <StateTools state={selection.kind === "state" ? selected : null} initial={described.outline?.fields["initial"] ?? null} onAsk={setAsked} onRemove={() => remove(selection)} />
            )}
            {!states && described.outline && <Compiled loopKey={loopKey} client={client} dirty={dirty} editable={editable} />}
            <Drawing
              described={described}
              editable={editable && states !== null}
              selection={selection}
              onSelect={select}
              onConnect={(from, to) => setAsked({ kind: "connect", state: from, target: to })}
              onDelete={remove}
              onRename={() => selected && setAsked({ kind: "rename", state: selected.name })}
            />
          </Panel>
          <Inspector context={context} doc={doc} selection={selection} state={selected} onAsk={setAsked} onBack={() => setSelection({ kind: "loop" })} />
        </div>
        <div class="editor-right">
          <Panel title="Text" note={!dirty && <span class="muted small-text">What you see here is the file</span>}>
            <TextPane
              text={doc.text}
              version={doc.version}
              problems={described.problems}
              editable={editable}
              line={line}
              onType={actions.type}
              onLine={(number) => {
                const found = states?.find((state) => state.line <= number && number <= state.end_line);
                setSelection(found ? { kind: "state", state: found.name } : { kind: "loop" });
              }}
              onUndo={actions.undo}
              onRedo={actions.redo}
              onSave={() => void save()}
            />
          </Panel>
          <Problems problems={described.problems} onShow={show} />
        </div>
      </div>
      {asked && <Question asked={asked} context={context} states={states ?? []} after={selected} actions={actions} onSelect={setSelection} onClose={() => setAsked(null)} onWrite={(preview) => void write(preview)} />}
    </div>
  );
}

function typing(target: EventTarget | null): boolean {
  return target instanceof Element && target.closest("input, textarea, select, dialog, .cm-editor") !== null;
}

function stateOf(selection: Selection, states: OutlinedState[] | null): OutlinedState | null {
  const name = selection.kind === "state" ? selection.state : selection.kind === "edge" ? selection.from : null;
  return states?.find((state) => state.name === name) ?? null;
}

// ── what is selected ────────────────────────────────────────────────────────────────────────────

function Inspector(props: {
  context: FormContext;
  doc: Doc;
  selection: Selection;
  state: OutlinedState | null;
  onAsk: (asked: Asked) => void;
  onBack: () => void;
}) {
  const { context, doc, selection, state } = props;
  const { outline, form, problems } = doc.described;
  if (!outline) return null;
  if (!state) {
    return (
      <Panel title="The loop">
        <FieldsForm key={form} context={context} table={form} path={[]} values={outline.fields} />
      </Panel>
    );
  }
  const { name } = state;
  const own = problems.filter((problem) => problem.state === name);
  const edge = selection.kind === "edge" ? selection : null;
  const initial = outline.fields["initial"] === name;
  return (
    <Panel
      title={edge ? `From ${name} to ${edge.to}` : `State ${name}`}
      note={<button type="button" class="link small-text" onClick={props.onBack}>Show the loop's fields</button>}
    >
      {context.editable && !edge && (
        <div class="buttons">
          <button type="button" class="small" disabled={initial} onClick={() => void context.edit({ op: "set_initial", state: name })}>{initial ? "Is the initial state" : "Start here"}</button>
        </div>
      )}
      {own.map((problem, at) => <ProblemLine key={at} problem={problem} />)}
      <h3>Transitions</h3>
      <Transitions context={context} state={state} to={edge?.to ?? null} onConnect={() => props.onAsk({ kind: "connect", state: name, target: edge?.to ?? null })} />
      {!edge && (
        <>
          <h3>Fields</h3>
          <FieldsForm key={name} context={context} table="state" path={["states", name]} values={state.fields} />
        </>
      )}
    </Panel>
  );
}

/** What can be done with the selected state, above the drawing: it is seen without scrolling. */
function StateTools(props: { state: OutlinedState | null; initial: unknown; onAsk: (asked: Asked) => void; onRemove: () => void }) {
  const { state, onAsk } = props;
  if (!state) return <p class="state-tools muted small-text">Click a state to change it. Drag from the dot below a state to connect it.</p>;
  const { name } = state;
  const goesOn = state.fields["terminal"] !== true;
  return (
    <div class="state-tools" role="toolbar" aria-label={`State ${name}`}>
      <bdi class="mono name">{name}</bdi>
      {goesOn && <button type="button" class="small" title="R" onClick={() => onAsk({ kind: "retry", state: name })}>Retry…</button>}
      {goesOn && <button type="button" class="small" title="C" onClick={() => onAsk({ kind: "connect", state: name, target: null })}>Connect…</button>}
      <button type="button" class="small" title="F2" onClick={() => onAsk({ kind: "rename", state: name })}>Rename…</button>
      <button type="button" class="small danger" disabled={props.initial === name} title="Delete" onClick={props.onRemove}>Delete</button>
    </div>
  );
}

/** A paradigm's loop: the drawing shows what it compiles to. */
function Compiled(props: { loopKey: string; client: EditorProps["client"]; dirty: boolean; editable: boolean }) {
  const [failure, setFailure] = useState<Failure | null>(null);
  async function convert(): Promise<void> {
    try {
      const made = await props.client.send<Converted>("POST", loopPath(props.loopKey, "/convert"), {});
      go(hrefs.edit(made.key));
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      setFailure(error);
    }
  }
  return (
    <div class="compiled">
      <p class="muted">This loop is edited through its own fields, below. The drawing shows the states that it compiles to.</p>
      {props.editable && <button type="button" class="small" disabled={props.dirty} title={props.dirty ? "Save first" : ""} onClick={() => void convert()}>Convert to states (writes a copy)</button>}
      {failure && <Problem failure={failure} />}
    </div>
  );
}

// ── problems ────────────────────────────────────────────────────────────────────────────────────

function Problems({ problems, onShow }: { problems: FileProblem[]; onShow: (line: number) => void }) {
  return (
    <Panel title="Problems" note={problems.length ? plural(problems.length, "problem") : null}>
      {problems.length === 0 && <p class="muted">No problems.</p>}
      <ul class="problem-list">
        {problems.map((problem, at) => (
          <li key={at}>
            <ProblemLine problem={problem} />
            {problem.line !== null && <button type="button" class="link small-text" onClick={() => onShow(problem.line!)}>line {problem.line}</button>}
          </li>
        ))}
      </ul>
    </Panel>
  );
}

function ProblemLine({ problem }: { problem: FileProblem }) {
  return (
    <div class={`problem-line tone-${problem.severity === "error" ? "bad" : "warn"}`}>
      <Icon tone={problem.severity === "error" ? "bad" : "warn"} />
      <div>
        <p><span class="visually-hidden">{problem.severity}: </span><Message text={sentence(problem.message)} /></p>
        {problem.help && <p class="muted small-text"><Message text={problem.help} /></p>}
      </div>
    </div>
  );
}

// ── questions ───────────────────────────────────────────────────────────────────────────────────

interface QuestionProps {
  asked: Asked;
  context: FormContext;
  states: OutlinedState[];
  after: OutlinedState | null;
  actions: DocActions;
  onSelect: (selection: Selection) => void;
  onClose: () => void;
  onWrite: (preview: Preview) => void;
}

function Question(props: QuestionProps) {
  const { asked, actions, states, onClose } = props;
  const finish = (name: string | null, done: boolean): void => {
    if (done && name !== null) props.onSelect({ kind: "state", state: name });
  };
  switch (asked.kind) {
    case "add":
      return (
        <Dialog title="Add a state" onClose={onClose}>
          <AddForm onDone={(name, fields) => {
            onClose();
            const after = props.after ? { after: props.after.name } : {};
            void actions.edit({ op: "add_state", name, fields, ...after }).then((done) => finish(name, done));
          }} />
        </Dialog>
      );
    case "rename":
      return (
        <Dialog title={`Rename ${asked.state}`} onClose={onClose}>
          <NameForm name={asked.state} button="Rename" onDone={(to) => {
            onClose();
            if (to !== asked.state) void actions.edit({ op: "rename_state", state: asked.state, to }).then((done) => finish(to, done));
          }} />
        </Dialog>
      );
    case "connect": {
      const state = states.find((each) => each.name === asked.state);
      if (!state) return null;
      return (
        <Dialog title={`Connect ${asked.state}`} onClose={onClose}>
          <ConnectForm context={props.context} state={state} target={asked.target} onDone={(on, target) => {
            onClose();
            void actions.edit({ op: "connect", state: asked.state, on, target });
          }} />
        </Dialog>
      );
    }
    case "retry": {
      const state = states.find((each) => each.name === asked.state);
      if (!state) return null;
      return (
        <Dialog title={`Retry ${asked.state}`} onClose={onClose}>
          <RetryForm context={props.context} state={state} onCancel={onClose} onDone={(operations) => {
            onClose();
            void actions.edit(...operations);
          }} />
        </Dialog>
      );
    }
    case "save": {
      const errors = asked.preview.problems.filter((problem) => problem.severity === "error").length;
      return (
        <Dialog title={`Save ${asked.preview.file}?`} wide onClose={onClose}>
          <Difference text={asked.preview.diff} />
          {errors > 0 && <p class="problem-line tone-bad"><Icon tone="bad" /> <span>The loop has {plural(errors, "error")}, so it cannot be run.</span></p>}
          <p class="buttons">
            <button type="button" class="primary" autofocus onClick={() => props.onWrite(asked.preview)}>Save</button>
            <button type="button" onClick={onClose}>Continue editing</button>
          </p>
        </Dialog>
      );
    }
    case "changed":
      return (
        <Dialog title="The file has changed since you opened it" wide onClose={onClose}>
          <p>Somebody else has changed the file since you opened it, so it was not overwritten. This is how your text differs from it:</p>
          <Difference text={asked.changed.diff} />
          <p class="buttons">
            <button type="button" class="primary" onClick={() => { onClose(); void actions.load(asked.changed); }}>Load the file (Undo brings your text back)</button>
            <button type="button" onClick={onClose}>Continue editing</button>
          </p>
        </Dialog>
      );
  }
}

const NAME = "[A-Za-z_][A-Za-z0-9_\\-]{0,99}";

function NameField({ value, onName }: { value: string; onName: (name: string) => void }) {
  return (
    <label class="field">
      <span>Name</span>
      <input type="text" required autofocus pattern={NAME} title="letters, digits, _ and -" value={value} onInput={(event) => onName(event.currentTarget.value)} />
    </label>
  );
}

function NameForm({ name, button, onDone }: { name: string; button: string; onDone: (name: string) => void }) {
  const [value, setValue] = useState(name);
  return (
    <form onSubmit={(event) => { event.preventDefault(); onDone(value); }}>
      <NameField value={value} onName={setValue} />
      <p class="muted">All transitions and references to the state are renamed, too.</p>
      <p class="buttons"><button type="submit" class="primary">{button}</button></p>
    </form>
  );
}

function AddForm({ onDone }: { onDone: (name: string, fields: Record<string, unknown>) => void }) {
  const [name, setName] = useState("");
  const [action, setAction] = useState("");
  const [terminal, setTerminal] = useState(false);
  return (
    <form onSubmit={(event) => { event.preventDefault(); onDone(name, terminal ? { terminal: true } : { action }); }}>
      <NameField value={name} onName={setName} />
      <label class="check"><input type="checkbox" checked={terminal} onChange={(event) => setTerminal(event.currentTarget.checked)} /> The run ends here</label>
      {!terminal && (
        <label class="field">
          <span>Action</span>
          <textarea class="mono" rows={3} required value={action} spellcheck={false} placeholder="pytest -q" onInput={(event) => setAction(event.currentTarget.value)} />
        </label>
      )}
      <p class="buttons"><button type="submit" class="primary">Add</button></p>
    </form>
  );
}

function Difference({ text }: { text: string }) {
  if (!text) return <p class="muted">No differences.</p>;
  const lines = text.split("\n").filter((line) => !line.startsWith("---") && !line.startsWith("+++"));
  const kind = (line: string): string => (line.startsWith("+") ? "add" : line.startsWith("-") ? "remove" : line.startsWith("@@") ? "hunk" : "same");
  return (
    <pre class="edit-diff" tabIndex={0} aria-label="Difference">
      {lines.map((line, at) => (
        <div key={at} class={kind(line)}>{line || " "}</div>
      ))}
    </pre>
  );
}
