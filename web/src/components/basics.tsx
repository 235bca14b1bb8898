/* Small parts that every view uses: status, times, messages, dialogs. */

import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Tone } from "../api";
import type { Failure } from "../client";
import { absolute, ago, duration } from "../format";
import { now, serverNow } from "../live";

// ── status ──────────────────────────────────────────────────────────────────────────────────────

/** Each tone has a shape of its own, so that it can be told without its colour. */
export const SHAPES: Record<Tone, ComponentChildren> = {
  good: (
    <>
      <circle cx="8" cy="8" r="7" class="fill" />
      <path d="M4.8 8.3l2.2 2.2 4.2-4.6" class="cut" />
    </>
  ),
  bad: (
    <>
      <path d="M5.2 1h5.6L15 5.2v5.6L10.8 15H5.2L1 10.8V5.2z" class="fill" />
      <path d="M5.6 5.6l4.8 4.8M10.4 5.6l-4.8 4.8" class="cut" />
    </>
  ),
  warn: (
    <>
      <path d="M8 1.4l7 12.7H1z" class="fill" stroke-linejoin="round" />
      <path d="M8 6v3.6M8 11.8v.1" class="cut" />
    </>
  ),
  running: (
    <>
      <circle cx="8" cy="8" r="6" class="track" />
      <path d="M8 2a6 6 0 0 1 6 6" class="arc" />
    </>
  ),
  waiting: (
    <>
      <path d="M8 .8L15.2 8 8 15.2.8 8z" class="fill" />
      <path d="M6.4 5.6v4.8M9.6 5.6v4.8" class="cut" />
    </>
  ),
  queued: (
    <>
      <circle cx="8" cy="8" r="6.2" class="line" />
      <path d="M8 4.4V8l2.6 1.6" class="line" />
    </>
  ),
  none: <circle cx="8" cy="8" r="6" class="track" />,
};

export function Icon({ tone }: { tone: Tone }) {
  return (
    <svg class={`icon tone-${tone}`} viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
      {SHAPES[tone]}
    </svg>
  );
}

/** An icon and a word. */
export function Status({ tone, word, big = false }: { tone: Tone; word: string; big?: boolean }) {
  return (
    <span class={`status tone-${tone}${big ? " big" : ""}`}>
      <Icon tone={tone} />
      <span class="word">{word}</span>
    </span>
  );
}

// ── times ───────────────────────────────────────────────────────────────────────────────────────

export function Ago({ at }: { at: number }) {
  return (
    <time dateTime={new Date(at).toISOString()} title={absolute(at)}>
      {ago(at, Math.max(now.value, at))}
    </time>
  );
}

/** How long something has taken: it counts on while it runs. */
export function Lasting({ ms, at, running }: { ms: number; at: number; running: boolean }) {
  const since = running ? Math.max(serverNow() - at, 0) : 0;
  return <span class="number">{duration(ms + since)}</span>;
}

// ── texts from outside ──────────────────────────────────────────────────────────────────────────

/** Text between backticks is shown as code, as in the terminal's messages. */
export function Message({ text }: { text: string }) {
  const parts = text.split(/`([^`]+)`/);
  return <bdi>{parts.map((part, at) => (at % 2 ? <code key={at}>{part}</code> : part))}</bdi>;
}

/** A command to be copied into a terminal. */
export function Command({ text }: { text: string }) {
  const [copied, setCopied] = useState(false);
  async function copy(): Promise<void> {
    await navigator.clipboard.writeText(text);
    setCopied(true);
    setTimeout(() => setCopied(false), 2000);
  }
  return (
    <span class="command">
      <code>{text}</code>
      <button type="button" class="quiet small" onClick={() => void copy()} aria-label={`Copy ${text}`}>
        {copied ? "Copied" : "Copy"}
      </button>
    </span>
  );
}

// ── what is not there ───────────────────────────────────────────────────────────────────────────

export function Loading({ what }: { what: string }) {
  return (
    <p class="loading" role="status">
      <Icon tone="running" /> Loading {what}…
    </p>
  );
}

export function Problem({ failure, retry }: { failure: Failure; retry?: (() => void) | undefined }) {
  return (
    <div class="callout tone-bad" role="alert">
      <Icon tone="bad" />
      <div>
        <p>
          <Message text={sentence(failure.message)} />
        </p>
        {failure.help && (
          <p class="muted">
            <Message text={failure.help} />
          </p>
        )}
        {retry && (
          <button type="button" onClick={retry}>
            Try again
          </button>
        )}
      </div>
    </div>
  );
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <svg viewBox="0 0 48 48" width="48" height="48" aria-hidden="true">
        <path d="M35 15.5A14 14 0 1 0 38 24" />
        <path d="M36.5 7v9.5H27" />
      </svg>
      <h2>{title}</h2>
      {children}
    </div>
  );
}

/** The first letter as a capital: messages of the command line begin in lower case. */
export function sentence(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

// ── dialogs ─────────────────────────────────────────────────────────────────────────────────────

/** Enter must not close a dialog that was just opened: its first field has the focus, or its first button. */
function focusFirst(dialog: HTMLDialogElement | null): void {
  const found = ["input, select, textarea", ".primary", "footer button"].map((words) => dialog?.querySelector<HTMLElement>(words));
  found.find(Boolean)?.focus();
}

export function Dialog(props: { title: string; onClose: () => void; children: ComponentChildren; wide?: boolean; ready?: boolean }) {
  const element = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    const before = document.activeElement;
    element.current?.showModal();
    focusFirst(element.current);
    return () => {
      // When the dialog is gone: until then, nothing outside of it can have the focus.
      if (before instanceof HTMLElement || before instanceof SVGElement) queueMicrotask(() => before.focus());
    };
  }, []);
  const { ready = true } = props;
  useEffect(() => {
    const close = element.current?.querySelector("header button");
    if (ready && (document.activeElement === close || document.activeElement === element.current)) focusFirst(element.current);
  }, [ready]);
  return (
    <dialog
      ref={element}
      class={props.wide ? "wide" : ""}
      aria-label={props.title}
      onClose={props.onClose}
      onClick={(event) => {
        if (event.target === element.current) element.current?.close();
      }}
    >
      <div class="dialog-body">
        <header>
          <h2>{props.title}</h2>
          <button type="button" class="quiet" aria-label="Close" onClick={() => element.current?.close()}>
            ✕
          </button>
        </header>
        {props.children}
      </div>
    </dialog>
  );
}

/** A heading with an optional note at its right. */
export function Panel(props: {
  title: string;
  note?: ComponentChildren;
  children: ComponentChildren;
  class?: string;
}) {
  const id = `panel-${props.title.toLowerCase().replace(/\W+/g, "-")}`;
  return (
    <section class={`panel ${props.class ?? ""}`} aria-labelledby={id}>
      <header>
        <h2 id={id}>{props.title}</h2>
        {props.note && <div class="note">{props.note}</div>}
      </header>
      {props.children}
    </section>
  );
}
