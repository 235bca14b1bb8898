/* The text of the file, by CodeMirror. */

import { HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { yaml } from "@codemirror/lang-yaml";
import { lintGutter, setDiagnostics, type Diagnostic } from "@codemirror/lint";
import { Annotation, EditorState, Prec, type Text } from "@codemirror/state";
import { keymap } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { EditorView, basicSetup } from "codemirror";
import { useEffect, useRef } from "preact/hooks";
import type { Problem } from "../api";

export interface TextProps {
  text: string;
  /** Changes with the text, but not with what is typed here, which the view has already. */
  version: number;
  problems: Problem[];
  editable: boolean;
  /** A line to show, and a number that is new for each wish. */
  line: { number: number; wish: number } | null;
  onType: (text: string) => void;
  onLine: (line: number) => void;
  onUndo: () => void;
  onRedo: () => void;
  onSave: () => void;
}

const COLOURS = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--accent)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--good)" },
  { tag: [tags.number, tags.bool, tags.null, tags.atom, tags.keyword], color: "var(--waiting)" },
  { tag: tags.comment, color: "var(--muted)", fontStyle: "italic" },
  { tag: [tags.separator, tags.punctuation, tags.squareBracket, tags.brace, tags.meta], color: "var(--muted)" },
]);

const THEME = EditorView.theme({
  "&": { color: "var(--ink)", backgroundColor: "var(--surface)", fontSize: "13.5px", height: "100%" },
  "&.cm-focused": { outline: "2.5px solid var(--accent)", outlineOffset: "-2px" },
  ".cm-content": { fontFamily: "var(--mono)", caretColor: "var(--ink)", padding: "8px 0" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  ".cm-gutters": { backgroundColor: "var(--sunken)", color: "var(--muted)", border: "none", borderInlineEnd: "1px solid var(--line)" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "color-mix(in srgb, var(--accent) 9%, transparent)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
    backgroundColor: "color-mix(in srgb, var(--accent) 26%, transparent)",
  },
  ".cm-tooltip": { backgroundColor: "var(--surface)", color: "var(--ink)", border: "1px solid var(--line-strong)", borderRadius: "8px", overflow: "hidden" },
  ".cm-panels": { backgroundColor: "var(--sunken)", color: "var(--ink)" },
  ".cm-foldPlaceholder": { backgroundColor: "var(--sunken)", color: "var(--muted)", border: "1px solid var(--line)" },
  ".cm-matchingBracket, &.cm-focused .cm-matchingBracket": { backgroundColor: "var(--accent-soft)", outline: "1px solid var(--accent)" },
});

/** Marks a change that the page has made, and nobody typed. */
const OUTSIDE = Annotation.define<boolean>();

/** The nonce that the Content-Security-Policy of this page allows for styles. */
function nonce(): string {
  return document.querySelector<HTMLMetaElement>('meta[name="csp-nonce"]')?.content ?? "";
}

/** The line breaks of the file; with them, the text keeps those that are different, too. */
function separator(text: string): string {
  return text.includes("\r\n") ? "\r\n" : "\n";
}

export function TextPane(props: TextProps) {
  const home = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const current = useRef(props);
  current.current = props;

  useEffect(() => {
    const made = new EditorView({ state: stateOf(props.text, current), parent: home.current! });
    view.current = made;
    return () => made.destroy();
  }, []);

  useEffect(() => {
    const here = view.current!;
    const old = here.state.sliceDoc();
    if (old === props.text) return;
    if (separator(old) !== separator(props.text)) return here.setState(stateOf(props.text, current));
    here.dispatch({ changes: difference(here.state, old, props.text), annotations: OUTSIDE.of(true) });
  }, [props.version]);

  useEffect(() => {
    const here = view.current!;
    const found = props.problems.map((problem) => diagnostic(here.state.doc, problem)).filter((each) => each !== null);
    here.dispatch(setDiagnostics(here.state, found));
  }, [props.problems]);

  useEffect(() => {
    const here = view.current!;
    if (!props.line) return;
    const line = here.state.doc.line(Math.min(Math.max(props.line.number, 1), here.state.doc.lines));
    here.dispatch({ selection: { anchor: line.from }, effects: EditorView.scrollIntoView(line.from, { y: "center" }) });
  }, [props.line?.wish]);

  return <div class="text-pane" ref={home} />;
}

function stateOf(text: string, current: { current: TextProps }): EditorState {
  const run = (work: keyof TextProps) => (): boolean => {
    (current.current[work] as () => void)();
    return true;
  };
  return EditorState.create({
    doc: text,
    extensions: [
      // The page has one history, for the text and the drawing.
      Prec.highest(
        keymap.of([
          { key: "Mod-z", run: run("onUndo"), preventDefault: true },
          { key: "Mod-y", mac: "Mod-Shift-z", run: run("onRedo"), preventDefault: true },
          { key: "Mod-Shift-z", run: run("onRedo"), preventDefault: true },
          { key: "Mod-s", run: run("onSave"), preventDefault: true },
        ]),
      ),
      EditorState.lineSeparator.of(separator(text)),
      basicSetup,
      yaml(),
      lintGutter(),
      syntaxHighlighting(COLOURS),
      THEME,
      EditorView.cspNonce.of(nonce()),
      EditorView.lineWrapping,
      EditorView.contentAttributes.of({ "aria-label": "Text of the loop file", tabindex: "0" }),
      EditorState.readOnly.of(!current.current.editable),
      EditorView.updateListener.of((update) => {
        if (update.docChanged) {
          const outside = update.transactions.some((transaction) => transaction.annotation(OUTSIDE));
          if (!outside) current.current.onType(update.state.sliceDoc());
        }
        if (update.selectionSet && update.view.hasFocus) {
          current.current.onLine(update.state.doc.lineAt(update.state.selection.main.head).number);
        }
      }),
    ],
  });
}

/** The part that differs, so that the cursor and the view stay where they are. */
function difference(state: EditorState, old: string, text: string) {
  let start = 0;
  const least = Math.min(old.length, text.length);
  while (start < least && old[start] === text[start]) start++;
  let end = 0;
  while (end < least - start && old[old.length - 1 - end] === text[text.length - 1 - end]) end++;
  // Offsets of the document count a line break as one, and a change must not split one.
  const broken = state.lineBreak.length > 1;
  if (broken && old[start - 1] === "\r") start--;
  if (broken && end > 0 && old[old.length - end] === "\n" && old[old.length - end - 1] === "\r") end--;
  const offset = (at: number): number => (broken ? state.toText(old.slice(0, at)).length : at);
  return { from: offset(start), to: offset(old.length - end), insert: state.toText(text.slice(start, text.length - end)) };
}

function diagnostic(doc: Text, problem: Problem): Diagnostic | null {
  if (problem.line === null || problem.line > doc.lines) return null;
  const line = doc.line(problem.line);
  const at = (column: number): number => Math.min(line.from + units(line.text, column - 1), line.to);
  const from = at(problem.column ?? 1);
  const to = Math.max(at(problem.end_column ?? line.length + 1), from);
  const help = problem.help ? `\n${problem.help}` : "";
  return { from, to, severity: problem.severity, message: `${problem.message}${help}`, source: problem.code };
}

/** How many UTF-16 units the first characters of a text take. */
function units(text: string, characters: number): number {
  return [...text].slice(0, Math.max(characters, 0)).join("").length;
}
