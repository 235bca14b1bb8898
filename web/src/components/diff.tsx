/* What a step changed, like `git diff`: a sign and a colour for each line, a heading for each file. */

import { useState } from "preact/hooks";
import type { Changed, Diff as DiffAnswer, RunRow } from "../api";
import { runPath } from "../client";
import { useAnswer } from "../context";
import { plural } from "../format";
import { Loading, Problem } from "./basics";

export interface FileDiff {
  path: string;
  added: number;
  removed: number;
  lines: { kind: "add" | "remove" | "hunk" | "same"; text: string }[];
}

/** Split the text of `git diff` into files. */
export function filesOf(text: string): FileDiff[] {
  const files: FileDiff[] = [];
  let inHead = true;
  for (const line of text.split("\n")) {
    if (line.startsWith("diff --git ")) {
      files.push({ path: pathOf(line), added: 0, removed: 0, lines: [] });
      inHead = true;
      continue;
    }
    const file = files[files.length - 1];
    if (!file) continue;
    if (line.startsWith("@@")) {
      inHead = false;
      file.lines.push({ kind: "hunk", text: line });
    } else if (inHead) {
      if (/^(new file|deleted file|rename|Binary|old mode|new mode)/.test(line)) file.lines.push({ kind: "hunk", text: line });
    } else if (line.startsWith("+")) {
      file.added++;
      file.lines.push({ kind: "add", text: line.slice(1) });
    } else if (line.startsWith("-")) {
      file.removed++;
      file.lines.push({ kind: "remove", text: line.slice(1) });
    } else if (line) {
      file.lines.push({ kind: "same", text: line.replace(/^ /, "") });
    }
  }
  return files;
}

function pathOf(line: string): string {
  const found = / "?b\/(.+?)"?$/.exec(line);
  return found ? found[1]! : line.slice("diff --git ".length);
}

export function Lines(props: { changed: Changed }) {
  const { files, added, removed } = props.changed;
  return (
    <span class="changed number">
      {plural(files, "file")} <span class="added">+{added}</span> <span class="removed">−{removed}</span>
    </span>
  );
}

const OPEN_LINES = 400;

/** What a step changed, or without one the whole run. */
export function DiffView(props: { run: RunRow; step: number | null }) {
  const { run, step } = props;
  const { data, error, reload } = useAnswer<DiffAnswer>(runPath(run.key, step === null ? "/diff" : `/steps/${step}/diff`));
  if (error) return <Problem failure={error} retry={() => void reload()} />;
  if (!data) return <Loading what="the diff" />;
  const files = filesOf(data.text);
  if (files.length === 0) return <p class="muted">{data.text || "No lines changed."}</p>;
  return (
    <div class="diff">
      {files.map((file) => (
        <FileView key={file.path} file={file} />
      ))}
      {data.truncated && <p class="muted">The rest of the diff is left out here. <code>ll-loop diff {run.name}{step === null ? "" : ` ${step}`}</code> shows it.</p>}
    </div>
  );
}

export function DiffText({ text }: { text: string }) {
  return (
    <div class="diff">
      {filesOf(text).map((file) => (
        <FileView key={file.path} file={file} />
      ))}
    </div>
  );
}

const SIGNS = { add: "+", remove: "−", hunk: " ", same: " " } as const;

function FileView({ file }: { file: FileDiff }) {
  const [most, setMost] = useState(OPEN_LINES);
  return (
    <details open={file.lines.length <= OPEN_LINES}>
      <summary>
        <code dir="auto">{file.path}</code>
        <span class="changed number">
          <span class="added">+{file.added}</span> <span class="removed">−{file.removed}</span>
        </span>
      </summary>
      <div class="diff-lines" tabIndex={0} role="region" aria-label={`Changes to ${file.path}`}>
        <pre>
          {file.lines.slice(0, most).map((line, at) => (
            <span key={at} class={`diff-line ${line.kind}`}>
              <span class="sign">{SIGNS[line.kind]}</span>
              {line.text}
              {"\n"}
            </span>
          ))}
        </pre>
        {file.lines.length > most && (
          <button type="button" class="link" onClick={() => setMost(most * 10)}>
            {plural(file.lines.length - most, "more line")}
          </button>
        )}
      </div>
    </details>
  );
}
