/* What the server answers about the text of a loop file. The operations are those of `authoring/edits/operations.py`. */

import type { Machine, Problem } from "../api";

/** A text, and what it means. */
export interface Described {
  schema: 1;
  file: string;
  text: string;
  outline: Outline | null; // null if the text is not a mapping in YAML
  problems: Problem[];
  machine: Machine | null; // null if there are errors
  form: string; // the name of the table with the loop's fields
}
/** GET /api/loops/LOOP/source, and the answer of PUT, which takes `{text, hash}`. */
export interface Source extends Described {
  hash: string;
}
/** POST /api/loops/LOOP/preview, which takes `{text, operations}`. */
export interface Preview extends Described {
  diff: string; // from the file to this text
  splices: { start: number; end: number; text: string }[]; // of the last operation
}
/** The body of a 409 of PUT, beside `error`. */
export interface Changed {
  diff: string;
  hash: string;
  text: string;
}
/** POST /api/loops/LOOP/convert */
export interface Converted {
  schema: 1;
  key: string;
  file: string;
}

export interface Outline {
  fields: Fields;
  lines: Record<string, number>;
  states: OutlinedState[] | null; // null if the loop is not written with states
}
export interface OutlinedState {
  name: string;
  line: number;
  end_line: number;
  fields: Fields;
  transitions: OutlinedTransition[];
}
export interface OutlinedTransition {
  on: string;
  target: string;
  line: number;
}
export type Fields = Record<string, unknown>;

export type Operation =
  | { op: "add_state"; name: string; fields: Fields; after?: string }
  | { op: "rename_state"; state: string; to: string }
  | { op: "delete_state"; state: string }
  | { op: "connect"; state: string; on: string; target: string }
  | { op: "disconnect"; state: string; on: string; target?: string }
  | { op: "set_initial"; state: string }
  | { op: "set_field"; path: Path; value: unknown }
  | { op: "set_field"; path: Path; yaml: string }
  | { op: "remove_field"; path: Path };
export type Path = (string | number)[];

/** GET /api/fields */
export interface Forms {
  schema: 1;
  tables: Record<string, Field[]>;
}
export interface Field {
  name: string;
  help: string;
  default: string | null;
  example: string | null;
  required: boolean;
  group: "drawn" | "transitions" | "fields";
  control: Control;
}
export type Control =
  | { type: "text" | "lines" | "time" | "flag" | "variables" | "yaml" }
  | { type: "number" | "choice" | "target"; words: string[] }
  | { type: "list"; item: Control }
  | { type: "record"; table: string; short?: string; flag?: boolean }
  | { type: "variant"; key: string; default: string; tables: Record<string, string> };
