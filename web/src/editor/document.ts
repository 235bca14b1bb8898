/*
 * The text that is edited: its history, what the server says it means, and saving it.
 *
 * There is one truth, the text. An operation goes to the server with the text and comes back as a
 * new text; typing changes the text at once and asks what it means a moment later.
 */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Failure, loopPath, type Client } from "../client";
import type { Changed, Described, Operation, Preview, Source } from "./api";

const TYPING_PAUSE_MS = 350;
const ONE_BURST_MS = 1000;
const LONGEST_HISTORY = 500;

export interface Doc {
  described: Described;
  text: string; // newer than `described.text` while somebody types
  version: number; // of the text, without what is typed into it
  hash: string;
  saved: string; // the text of the file
  past: string[];
  future: string[];
  failure: Failure | null;
  busy: boolean;
}

export interface DocActions {
  edit(...operations: Operation[]): Promise<boolean>;
  type(text: string): void;
  undo(): void;
  redo(): void;
  preview(): Promise<Preview | null>;
  /** Write a text that was shown before. */
  save(text: string): Promise<Changed | null>;
  /** Continue with the file as it is on disk; Undo brings the own text back. */
  load(changed: Changed): Promise<void>;
  dismiss(): void;
}

export function useDocument(client: Client, loopKey: string): [Doc | null, Failure | null, DocActions] {
  const [doc, setDoc] = useState<Doc | null>(null);
  const [failure, setFailure] = useState<Failure | null>(null);
  const latest = useRef<Doc | null>(null);
  const actions = useMemo(() => actionsOf(client, loopKey, latest, setDoc), [client, loopKey]);

  useEffect(() => {
    const aborting = new AbortController();
    client.get<Source>(loopPath(loopKey, "/source"), aborting.signal).then(
      (source) => {
        const found: Doc = {
          described: source, text: source.text, version: 0, hash: source.hash, saved: source.text,
          past: [], future: [], failure: null, busy: false,
        };
        latest.current = found;
        setDoc(found);
      },
      (error: unknown) => {
        if (!aborting.signal.aborted && error instanceof Failure) setFailure(error);
      },
    );
    return () => aborting.abort();
  }, [client, loopKey]);

  return [doc, failure, actions];
}

function actionsOf(
  client: Client,
  loopKey: string,
  latest: { current: Doc | null },
  show: (doc: Doc) => void,
): DocActions {
  let queue: Promise<unknown> = Promise.resolve();
  let waiting = 0;
  let timer = 0;
  let typedAt = 0;

  const update = (change: Partial<Doc>): void => {
    latest.current = { ...latest.current!, ...change };
    show(latest.current);
  };
  const ask = (text: string, operations: Operation[] = []): Promise<Preview> =>
    client.send<Preview>("POST", loopPath(loopKey, "/preview"), { text, operations });
  /** One request after another, so that each begins with the text that the one before it made. */
  const inTurn = <T>(work: () => Promise<T>): Promise<T> => {
    const next = queue.then(work);
    queue = next.catch(() => undefined);
    return next;
  };
  const remembered = (doc: Doc): Partial<Doc> => ({ past: [...doc.past, doc.text].slice(-LONGEST_HISTORY), future: [] });

  async function guarded<T>(work: () => Promise<T>): Promise<T | null> {
    waiting++;
    update({ busy: true });
    try {
      return await inTurn(work);
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      update({ failure: error });
      return null;
    } finally {
      update({ busy: --waiting > 0 });
    }
  }

  /** Ask what the text means now, unless it changes again meanwhile. */
  function describe(): void {
    clearTimeout(timer);
    void guarded(async () => {
      const { text } = latest.current!;
      const described = await ask(text);
      if (latest.current!.text === text) update({ described });
    });
  }

  function replace(text: string, change: Partial<Doc>): void {
    typedAt = 0;
    update({ ...change, text, version: latest.current!.version + 1, failure: null });
    describe();
  }

  return {
    async edit(...operations) {
      const done = await guarded(async () => {
        let before = latest.current!;
        let described = await ask(before.text, operations);
        while (latest.current!.text !== before.text) {
          before = latest.current!; // somebody has typed meanwhile
          described = await ask(before.text, operations);
        }
        const { text } = described;
        if (text !== before.text) update({ ...remembered(before), described, text, version: before.version + 1 });
        update({ failure: null });
        return true;
      });
      typedAt = 0;
      return done ?? false;
    },
    type(text) {
      const doc = latest.current!;
      if (text === doc.text) return;
      const burst = Date.now() - typedAt < ONE_BURST_MS;
      typedAt = Date.now();
      update({ ...(burst ? { future: [] } : remembered(doc)), text });
      clearTimeout(timer);
      timer = window.setTimeout(describe, TYPING_PAUSE_MS);
    },
    // After the edits that are on their way: the last of them is undone.
    undo() {
      void inTurn(async () => {
        const { past, future, text } = latest.current!;
        const before = past[past.length - 1];
        if (before !== undefined) replace(before, { past: past.slice(0, -1), future: [text, ...future] });
      });
    },
    redo() {
      void inTurn(async () => {
        const { past, future, text } = latest.current!;
        const [next, ...rest] = future;
        if (next !== undefined) replace(next, { past: [...past, text], future: rest });
      });
    },
    preview: () => guarded(() => ask(latest.current!.text)),
    async save(text) {
      const put = (): Promise<Source> => client.send("PUT", loopPath(loopKey, "/source"), { text, hash: latest.current!.hash });
      try {
        const source = await inTurn(put);
        update({ hash: source.hash, saved: text, failure: null });
      } catch (error) {
        if (!(error instanceof Failure)) throw error;
        if (error.code === "changed") return error.body as Changed;
        update({ failure: error });
      }
      return null;
    },
    async load(changed) {
      replace(changed.text, { ...remembered(latest.current!), hash: changed.hash, saved: changed.text });
    },
    dismiss: () => update({ failure: null }),
  };
}
