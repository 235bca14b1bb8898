/*
 * A report: the page of one run, frozen in a file. It has its data in the file and asks no server;
 * the browser keeps it from the network.
 */

import { render } from "preact";
import "../app.css";
import { Failure, type Client } from "../client";
import { ClientContext } from "../context";
import { go, route, startRouter } from "../router";
import { RunView } from "../views/run";

interface Frozen {
  key: string;
  made_at: string;
  answers: Record<string, unknown>; // by path
}

const frozen = JSON.parse(document.getElementById("data")!.textContent!) as Frozen;

/** Answers from the file: the paths are those that the page asks a server for. */
const client: Client = {
  live: false,
  get<T>(path: string): Promise<T> {
    const found = frozen.answers[path];
    if (found !== undefined) return Promise.resolve(found as T);
    return Promise.reject(new Failure(404, "left_out", "this is left out of the report", "`ll-loop web` shows it"));
  },
  send: () => Promise.reject(Failure.offline()),
  download: () => Promise.reject(Failure.offline()),
  async *stream() {
    // Nothing happens any more.
  },
};

function Report() {
  const current = route.value;
  return (
    <ClientContext.Provider value={client}>
      <main>
        <RunView runKey={frozen.key} step={current.view === "run" ? current.step : null} />
        <p class="muted small-text">Made by ll-loop on {frozen.made_at}. Secrets are masked.</p>
      </main>
    </ClientContext.Provider>
  );
}

startRouter();
if (route.value.view !== "run") go(`#/runs/${encodeURIComponent(frozen.key)}`, true);
render(<Report />, document.getElementById("app")!);
