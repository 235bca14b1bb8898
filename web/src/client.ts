/*
 * Asking the server. The page asks through a `Client`, so that a report can answer from the data
 * it carries, without a server.
 */

import type { ApiError, Done, StreamItem, Verb } from "./api";

export interface Client {
  /** False in a report: nothing changes any more, and nothing can be done. */
  readonly live: boolean;
  get<T>(path: string, signal?: AbortSignal): Promise<T>;
  send<T>(method: "POST" | "PUT", path: string, body: unknown): Promise<T>;
  download(path: string, name: string): Promise<void>;
  stream(path: string, signal: AbortSignal): AsyncGenerator<StreamItem>;
}

/** The server refused, or could not answer; `message` and `help` are its words. */
export class Failure extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly help: string | null,
    readonly body: unknown = null,
  ) {
    super(message);
  }

  /** The server did not answer at all. */
  static offline(): Failure {
    return new Failure(0, "offline", "the server is not responding", "start it again with `ll-loop web`");
  }
}

export function serverClient(token: string, refused: () => void): Client {
  async function ask(path: string, init: RequestInit = {}): Promise<Response> {
    const headers = { ...(init.headers as Record<string, string>), Authorization: `Bearer ${token}` };
    let response: Response;
    try {
      response = await fetch(path, { ...init, headers, cache: "no-store" });
    } catch (error) {
      if (init.signal?.aborted) throw error;
      throw Failure.offline();
    }
    if (response.ok) return response;
    if (response.status === 401) refused();
    throw await failureOf(response);
  }

  return {
    live: true,
    async get<T>(path: string, signal?: AbortSignal) {
      const response = await ask(path, signal ? { signal } : {});
      return (await response.json()) as T;
    },
    async send<T>(method: "POST" | "PUT", path: string, body: unknown) {
      const headers = { "Content-Type": "application/json" };
      const response = await ask(path, { method, headers, body: JSON.stringify(body) });
      return (await response.json()) as T;
    },
    async download(path, name) {
      const response = await ask(path);
      save(await response.blob(), name);
    },
    async *stream(path, signal) {
      const response = await ask(path, { signal });
      for await (const line of linesOf(response.body!, signal)) yield JSON.parse(line) as StreamItem;
    },
  };
}

async function failureOf(response: Response): Promise<Failure> {
  try {
    const body = (await response.json()) as ApiError;
    const { code, message, help } = body.error;
    return new Failure(response.status, code, message, help, body);
  } catch {
    return new Failure(response.status, "unknown", `the server answered ${response.status}`, null);
  }
}

async function* linesOf(body: ReadableStream<Uint8Array>, signal: AbortSignal): AsyncGenerator<string> {
  const reader = body.pipeThrough(new TextDecoderStream() as TransformStream<Uint8Array, string>).getReader();
  let rest = "";
  try {
    while (!signal.aborted) {
      const { done, value } = await reader.read();
      if (done) return;
      const lines = (rest + value).split("\n");
      rest = lines.pop()!;
      for (const line of lines) if (line) yield line;
    }
  } finally {
    reader.cancel().catch(() => undefined); // the connection may be gone already
  }
}

function save(blob: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

// ── paths ───────────────────────────────────────────────────────────────────────────────────────

export function loopPath(key: string, rest = ""): string {
  return `/api/loops/${encodeURIComponent(key)}${rest}`;
}

export function runPath(key: string, rest = ""): string {
  return `/api/runs/${encodeURIComponent(key)}${rest}`;
}

export function query(values: Record<string, string | number | null | undefined>): string {
  const given = Object.entries(values).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return text ? `?${text}` : "";
}

export function act(client: Client, key: string, verb: Verb, body: object): Promise<Done> {
  return client.send<Done>("POST", runPath(key, `/${verb}`), body);
}
