/* The frame of the page: navigation, state of the connection, and the view that the URL names. */

import { useEffect, useRef, useState } from "preact/hooks";
import type { ComponentType } from "preact";
import type { Server } from "./api";
import { Failure, type Client } from "./client";
import { Empty, Icon, Loading, Problem } from "./components/basics";
import { ClientContext, useAnswer, useClient } from "./context";
import { announcement, connection, type Connection } from "./live";
import { useListStream } from "./list_stream";
import { hrefs, route, type Route } from "./router";
import { ChartsView } from "./views/charts";
import { LoopsView, LoopView } from "./views/loops";
import { RunView } from "./views/run";
import { RunsView } from "./views/runs";

const TABS = [
  { title: "Runs", href: hrefs.runs(), views: ["runs", "run"] },
  { title: "Loops", href: hrefs.loops, views: ["loops", "loop", "edit"] },
  { title: "Charts", href: hrefs.charts(), views: ["charts"] },
] as const;

export function App({ client }: { client: Client }) {
  return (
    <ClientContext.Provider value={client}>
      <Page />
    </ClientContext.Provider>
  );
}

function Page() {
  const server = useAnswer<Server>("/api/server");
  const current = route.value;
  const main = useRef<HTMLElement>(null);
  const first = useRef(true);
  const place = placeOf(current);

  useEffect(() => {
    document.title = `${titleOf(current)} · ll-loop`;
    // A new view begins at its heading, for the keyboard and for screen readers.
    if (!first.current) {
      scrollTo(0, 0);
      main.current?.querySelector<HTMLElement>("h1")?.focus();
    }
    first.current = false;
  }, [place]);

  return (
    <>
      <a
        class="skip"
        href="#main"
        onClick={(event) => {
          event.preventDefault();
          main.current?.focus();
        }}
      >
        Skip to the content
      </a>
      <header class="top">
        <a class="brand" href={hrefs.runs()} aria-label="ll-loop, runs">
          <svg viewBox="0 0 32 32" width="22" height="22" aria-hidden="true">
            <path d="M22.5 10A9 9 0 1 0 25 16" />
            <path d="M23 4v6.4h-6.4" />
          </svg>
          <span>ll-loop</span>
        </a>
        <nav aria-label="Views">
          {TABS.map((tab) => (
            <a key={tab.title} href={tab.href} aria-current={(tab.views as readonly string[]).includes(current.view) ? "page" : undefined}>
              {tab.title}
            </a>
          ))}
        </nav>
        <span class="grow" />
        {server.data && (
          <span class="project" title={server.data.projects.map((project) => project.path).join("\n")}>
            <bdi>{server.data.projects.map((project) => project.name).join(", ")}</bdi>
          </span>
        )}
        {server.data?.read_only && <span class="tag">read-only</span>}
        <ConnectionState value={connection.value} />
      </header>
      <main ref={main} tabIndex={-1} id="main">
        {connection.value === "offline" && (
          <div class="callout tone-bad">
            <Icon tone="bad" />
            <div>
              <p>
                The server is not responding, so what you see may be old. The page tries again by itself; your runs go on without it. <code>ll-loop web</code> starts
                the server again.
              </p>
            </div>
          </div>
        )}
        {server.error && !server.data && <Problem failure={server.error} retry={() => void server.reload()} />}
        {!server.data && !server.error && <Loading what="the page" />}
        {server.data && <View route={current} server={server.data} />}
      </main>
      <p class="visually-hidden" role="status" aria-live="polite">
        {announcement.value}
      </p>
    </>
  );
}

const CONNECTIONS: Record<Connection, { tone: "good" | "running" | "warn" | "bad"; word: string; title: string }> = {
  connecting: { tone: "running", word: "connecting", title: "Connecting to the server" },
  live: { tone: "good", word: "live", title: "Changes are shown as they happen" },
  polling: { tone: "warn", word: "polling", title: "The server looks for changes four times a second" },
  offline: { tone: "bad", word: "offline", title: "The server is not responding; what you see may be old. Trying again…" },
};

function ConnectionState({ value }: { value: Connection }) {
  const { tone, word, title } = CONNECTIONS[value];
  return (
    <span class={`connection tone-${tone}`} title={title} role="status">
      <Icon tone={tone} />
      <span>{word}</span>
    </span>
  );
}

function View({ route: current, server }: { route: Route; server: Server }) {
  const projects = server.projects.length;
  switch (current.view) {
    case "runs":
      return <RunsView filter={current.query} projects={projects} />;
    case "run":
      return <RunView key={current.key} runKey={current.key} step={current.step} />;
    case "loops":
      return <LoopsView server={server} />;
    case "loop":
      return <LoopView key={current.key} loopKey={current.key} />;
    case "charts":
      return <ChartsView loopKey={current.key} />;
    case "edit":
      return <EditView key={current.key} loopKey={current.key} state={current.state} server={server} />;
    case "unknown":
      return (
        <Empty title="There is nothing at this address">
          <p>
            <a href={hrefs.runs()}>Show the runs</a>
          </p>
        </Empty>
      );
  }
}

/** The editor is large, and few readers need it: it is loaded when it is opened. */
function EditView({ loopKey, state, server }: { loopKey: string; state: string | null; server: Server }) {
  const client = useClient();
  const [editor, setEditor] = useState<{ Editor: ComponentType<EditorProps> } | null>(null);
  const [failure, setFailure] = useState<Failure | null>(null);
  useListStream(async () => undefined); // what is edited stays as it is; this shows whether the server is there
  useEffect(() => {
    import("./editor/index").then(setEditor, () => setFailure(Failure.offline()));
  }, []);
  if (failure) return <Problem failure={failure} />;
  if (!editor) return <Loading what="the editor" />;
  return <editor.Editor loopKey={loopKey} state={state} client={client} server={server} />;
}

export interface EditorProps {
  loopKey: string;
  state: string | null; // the one to begin with
  client: Client;
  server: Server;
}

function titleOf(current: Route): string {
  switch (current.view) {
    case "run":
    case "loop":
    case "edit":
      return current.key.replace(/^.*?:/, "").replace(/~.*/, "");
    case "charts":
      return "Charts";
    case "loops":
      return "Loops";
    case "runs":
      return "Runs";
    case "unknown":
      return "Not found";
  }
}

/** What a change of the route must keep, if the view stays the same. */
function placeOf(current: Route): string {
  return "key" in current ? `${current.view} ${current.key}` : current.view;
}

export function NoToken() {
  return (
    <main class="alone">
      <Empty title="This tab has no token">
        <p>
          Open the URL that <code>ll-loop web</code> printed in its terminal: the token is at its end, after <code>#token=</code>. If the
          server was started again, it has a new one.
        </p>
      </Empty>
    </main>
  );
}
