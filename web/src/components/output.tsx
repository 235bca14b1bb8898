/*
 * What an action printed: text, never markup. The end is loaded first; earlier parts and search
 * hits are loaded on demand, and the output is followed while the action runs.
 */

import { useEffect, useRef, useState } from "preact/hooks";
import type { Output as OutputAnswer, OutputSearch, OutputStream } from "../api";
import { Failure, query, runPath, type Client } from "../client";
import { useClient } from "../context";
import { bytes, plural } from "../format";
import { useRows } from "../virtual";
import { Icon, Problem } from "./basics";

const LINE = 20;
const PIECE = 65_536;
const MOST_KEPT = 16 * 1024 * 1024;
const LEAST_VISIBLE = 1;
/** So few lines are seen at a glance. */
const SEARCHED = 12;
const MOST_VISIBLE = 24;

interface Text {
  lines: string[];
  from: number; // the offset of the first byte
  next: number; // where to go on
  size: number;
  done: boolean;
}

/** Before the first answer. */
const NOTHING: Text = { lines: [], from: 0, next: 0, size: 0, done: false };

function append(text: Text, answer: OutputAnswer): Text {
  const [first = "", ...rest] = answer.text.split("\n");
  const lines = text.lines.slice();
  lines.push((lines.pop() ?? "") + first);
  for (const line of rest) lines.push(line);
  return { ...text, lines, next: answer.next, size: answer.size, done: answer.done };
}

export interface OutputPlace {
  runKey: string;
  step: number;
  attempt: number;
  stream: OutputStream;
}

function pathOf(place: OutputPlace, offset: number, limit = PIECE): string {
  const { attempt, stream } = place;
  return runPath(place.runKey, `/steps/${place.step}/output${query({ attempt, stream, offset, limit })}`);
}

async function readFrom(client: Client, place: OutputPlace, text: Text, until: AbortSignal): Promise<Text> {
  let known = text;
  for (;;) {
    const answer = await client.get<OutputAnswer>(pathOf(place, known.next), until);
    if (answer.next === known.next) return { ...known, size: answer.size, done: answer.done };
    known = append(known, answer);
    if (known.next >= known.size || known.next - known.from > MOST_KEPT) return known;
  }
}

export function Output(props: OutputPlace & { size: number; running: boolean; grows: number; named?: boolean }) {
  const client = useClient();
  const { runKey, step, attempt, stream, running, grows } = props;
  const place = { runKey, step, attempt, stream };
  const [text, setText] = useState<Text>(NOTHING);
  const [failure, setFailure] = useState<Failure | null>(null);
  const [following, setFollowing] = useState(true); // the end says most
  const [marked, setMarked] = useState<number | null>(null);
  const known = useRef(NOTHING);
  const busy = useRef(false);
  const wanted = useRef(false);
  const gone = useRef(new AbortController());
  // A newline at the end begins no line.
  const total = text.lines.length - (text.lines[text.lines.length - 1] === "" ? 1 : 0);
  const { element, window } = useRows(LINE, total);

  function show(next: Text): void {
    known.current = next;
    setText(next);
  }

  async function guarded(work: () => Promise<void>): Promise<void> {
    try {
      await work();
      setFailure(null);
    } catch (error) {
      if (gone.current.signal.aborted) return;
      if (!(error instanceof Failure)) throw error;
      setFailure(error);
    }
  }

  async function more(): Promise<void> {
    wanted.current = true;
    if (busy.current) return;
    busy.current = true;
    await guarded(async () => {
      while (wanted.current) {
        wanted.current = false;
        show(await readFrom(client, place, known.current, gone.current.signal));
      }
    });
    busy.current = false;
  }

  async function startAt(offset: number): Promise<void> {
    await guarded(async () => {
      const answer = await client.get<OutputAnswer>(pathOf(place, offset), gone.current.signal);
      show(append({ ...NOTHING, from: answer.offset }, answer));
    });
  }

  useEffect(() => {
    gone.current = new AbortController();
    known.current = NOTHING;
    setText(NOTHING);
    void startAt(running && client.live ? 0 : -1).then(() => (running ? more() : undefined));
    return () => gone.current.abort();
  }, [runKey, step, attempt, stream]);

  useEffect(() => {
    if (known.current !== NOTHING) void more();
  }, [grows, running]);

  useEffect(() => {
    const box = element.current;
    if (following && box) box.scrollTop = box.scrollHeight;
  }, [text, following]);

  async function jump(offset: number): Promise<void> {
    setFollowing(false);
    const start = Math.max(offset - PIECE / 4, 0);
    if (offset < known.current.from || offset >= known.current.next) await startAt(start);
    const before = await lineAt(known.current, offset);
    setMarked(before);
    const box = element.current;
    if (box) box.scrollTop = Math.max(before * LINE - box.clientHeight / 2, 0);
  }

  const loading = text === NOTHING && failure === null;
  const tall = Math.min(Math.max(total, LEAST_VISIBLE), MOST_VISIBLE) * LINE + 16;
  const widest = text.lines.slice(window.first, window.last).reduce((most, line) => Math.max(most, line.length), 0);
  return (
    <div class="output">
      <div class="output-tools">
        {!loading && <span class="muted">
          {text.from > 0 || text.next < text.size ? `${bytes(text.next - text.from)} of ` : ""}
          {stream === "agent" ? plural(text.size, "entry", "entries") : bytes(text.size)}
        </span>}
        {client.live && text.from > 0 && (
          <button type="button" class="quiet small" onClick={() => {
              setFollowing(false);
              void startAt(0).then(() => element.current?.scrollTo(0, 0));
            }}>
            From the start
          </button>
        )}
        {client.live && text.next < text.size && !running && (
          <button type="button" class="quiet small" onClick={() => void more()}>
            Load the rest
          </button>
        )}
        {running && (
          <label class="check">
            <input type="checkbox" checked={following} onChange={(event) => setFollowing(event.currentTarget.checked)} /> Follow
          </label>
        )}
        {client.live && stream !== "agent" && (running || total > SEARCHED || text.from > 0 || text.next < text.size) && <Search place={place} label={props.named ? `Search ${stream}` : "Search the output"} onJump={(offset) => void jump(offset)} />}
      </div>
      {failure && <Problem failure={failure} />}
      <div
        class="lines"
        ref={element}
        style={{ height: `${tall}px` }}
        tabIndex={0}
        role="region"
        aria-label={`${stream === "agent" ? "What the agent did" : stream}, step ${step}`}
        onWheel={(event) => {
          if (event.deltaY < 0) setFollowing(false);
        }}
      >
        {loading ? (
          <p class="muted nothing">Loading the output…</p>
        ) : failure && text === NOTHING ? null : total <= 0 ? (
          <p class="muted nothing">{text.done || !running ? "Nothing was printed." : "Nothing has been printed yet."}</p>
        ) : (
          <div class="lines-all" style={{ height: `${total * LINE}px`, width: `calc(${widest}ch + 24px)` }}>
            <pre style={{ transform: `translateY(${window.first * LINE}px)` }}>
              {text.lines.slice(window.first, window.last).map((line, at) => (
                <span key={window.first + at} class={`line${window.first + at === marked ? " marked" : ""}`}>
                  {line}
                  {"\n"}
                </span>
              ))}
            </pre>
          </div>
        )}
      </div>
    </div>
  );
}

/** The line that contains a byte of the output. */
function lineAt(text: Text, offset: number): number {
  const encoder = new TextEncoder();
  let at = text.from;
  for (const [number, line] of text.lines.entries()) {
    at += encoder.encode(line).length + 1;
    if (at > offset) return number;
  }
  return Math.max(text.lines.length - 1, 0);
}

function Search({ place, label, onJump }: { place: OutputPlace; label: string; onJump: (offset: number) => void }) {
  const client = useClient();
  const [word, setWord] = useState("");
  const [found, setFound] = useState<OutputSearch | null>(null);
  const [failure, setFailure] = useState<Failure | null>(null);
  const [searching, setSearching] = useState(false);

  async function search(event: Event): Promise<void> {
    event.preventDefault();
    if (!word) return setFound(null);
    setSearching(true);
    try {
      const { attempt, stream } = place;
      const words = query({ attempt, stream, text: word, offset: 0 });
      setFound(await client.get<OutputSearch>(runPath(place.runKey, `/steps/${place.step}/search${words}`)));
      setFailure(null);
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      setFailure(error);
    } finally {
      setSearching(false);
    }
  }

  return (
    <div class="search">
      <form role="search" onSubmit={(event) => void search(event)}>
        <input
          type="search"
          aria-label={label}
          placeholder={label}
          value={word}
          onInput={(event) => {
            setWord(event.currentTarget.value);
            if (!event.currentTarget.value) setFound(null);
          }}
        />
        <button type="submit" class="small">
          Search
        </button>
      </form>
      {searching && <Icon tone="running" />}
      {failure && <Problem failure={failure} />}
      {found && (
        <div class="hits" role="status">
          <p class="muted">
            {found.hits.length === 0 ? "Not found." : `${found.next === null ? "" : "First "}${plural(found.hits.length, "hit")}`}
          </p>
          <ol>
            {found.hits.map((hit) => (
              <li key={`${hit.offset}-${hit.column}`}>
                <button type="button" class="link code" onClick={() => onJump(hit.offset)}>
                  {hit.line.slice(0, 200) || "(empty line)"}
                </button>
              </li>
            ))}
          </ol>
        </div>
      )}
    </div>
  );
}
