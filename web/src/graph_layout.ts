/*
 * Where the states and transitions of a machine are drawn. The layout is computed from the machine
 * each time, and never stored.
 */

import { Graph, layout } from "@dagrejs/dagre";
import type { Machine, MachineEdge, MachineState } from "./api";

export interface PlacedState {
  state: MachineState;
  /** What is drawn: cut if it is long. */
  title: string;
  subtitle: string;
  x: number; // of the left edge
  y: number; // of the top edge
  width: number;
  height: number;
}

export interface PlacedEdge {
  edge: MachineEdge;
  path: string;
  label: string;
  x: number; // of the middle of the label
  y: number;
  width: number; // of the label
}

export interface Placed {
  states: PlacedState[];
  edges: PlacedEdge[];
  width: number;
  height: number;
}

const TITLE_CHAR = 8;
const SMALL_CHAR = 6.7;
const LABEL_CHAR = 6.4;
const LONGEST_TITLE = 26;
const LONGEST_SUBTITLE = 30;
const PADDING = 14;

/** How many columns a text takes: East Asian characters are twice as wide. */
function columns(text: string): number {
  let width = 0;
  for (const char of text) width += /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe4f\uff00-\uff60]/u.test(char) ? 2 : 1;
  return width;
}

export function cut(text: string, most: number): string {
  if (columns(text) <= most) return text;
  let kept = "";
  for (const char of text) {
    if (columns(kept + char) > most - 1) break;
    kept += char;
  }
  return `${kept}…`;
}

function subtitleOf(state: MachineState): string {
  if (state.terminal) return state.outcome ?? "end";
  const [first = ""] = (state.action ?? "").trim().split("\n");
  return cut(state.host ? `${state.host}: ${first}` : first || state.kind, LONGEST_SUBTITLE);
}

function labelOf(edge: MachineEdge): string {
  const words = cut((edge.labels.length ? edge.labels : [edge.label]).join(", "), 24);
  return edge.taken > 0 ? `${words} ×${edge.taken}` : words;
}

export function place(machine: Machine): Placed {
  const graph = new Graph({ multigraph: true });
  graph.setGraph({ rankdir: "TB", nodesep: 34, ranksep: 52, edgesep: 22, marginx: 15, marginy: 15 });
  graph.setDefaultEdgeLabel(() => ({}));
  const shown = new Map<string, { title: string; subtitle: string; width: number; height: number }>();
  for (const state of machine.states) {
    const title = cut(state.name, LONGEST_TITLE);
    const subtitle = subtitleOf(state);
    const wide = Math.max(columns(title) * TITLE_CHAR + 44, columns(subtitle) * SMALL_CHAR + 8, 96);
    const size = { title, subtitle, width: Math.round(wide + PADDING * 2), height: 52 };
    shown.set(state.name, size);
    graph.setNode(state.name, { width: size.width, height: size.height });
  }
  const drawn = machine.edges.filter((edge) => shown.has(edge.from) && shown.has(edge.to));
  const order = new Map(machine.states.map((state, at) => [state.name, at]));
  drawn.forEach((edge, at) => {
    const width = columns(labelOf(edge)) * LABEL_CHAR + 10;
    // The way through the states in the order of the file is a straight line, and others go around it.
    const weight = order.get(edge.to) === order.get(edge.from)! + 1 ? 8 : 1;
    graph.setEdge(edge.from, edge.to, { width, height: 18, labelpos: "c", weight }, String(at));
  });
  layout(graph);
  const states = machine.states.map((state) => {
    const { x, y } = graph.node(state.name) as { x: number; y: number };
    const size = shown.get(state.name)!;
    return { state, ...size, x: x - size.width / 2, y: y - size.height / 2 };
  });
  const edges = drawn.map((edge, at) => {
    const found = graph.edge(edge.from, edge.to, String(at)) as EdgePlace;
    const label = labelOf(edge);
    const path = edge.from === edge.to ? around(graph.node(edge.from) as Box, found) : smooth(found.points);
    return { edge, label, path, x: found.x, y: found.y, width: found.width };
  });
  const { width, height } = graph.graph() as { width: number; height: number };
  return { states, edges, width: Math.ceil(width), height: Math.ceil(height) };
}

interface Point {
  x: number;
  y: number;
}

interface EdgePlace extends Point {
  points: Point[];
  width: number;
}

interface Box extends Point {
  width: number;
  height: number;
}

const round = (value: number): number => Math.round(value * 10) / 10;

/** From the right side of a state back to it, with the label where the curve is furthest away. */
function around(state: Box, label: Point): string {
  const right = state.x + state.width / 2;
  const [from, to] = [state.y - state.height / 4, state.y + state.height / 4];
  const far = round(right + (label.x - right) / 0.75);
  return `M${round(right)} ${round(from)} C${far} ${round(from - 8)} ${far} ${round(to + 8)} ${round(right)} ${round(to)}`;
}

/** A curve through the middles between the points, straight at both ends. */
function smooth(points: Point[]): string {
  const [first, ...rest] = points;
  if (!first || rest.length === 0) return "";
  const last = rest[rest.length - 1]!;
  let path = `M${round(first.x)} ${round(first.y)}`;
  for (let at = 0; at < rest.length - 1; at++) {
    const here = rest[at]!;
    const next = rest[at + 1]!;
    const end = at === rest.length - 2 ? next : { x: (here.x + next.x) / 2, y: (here.y + next.y) / 2 };
    path += ` Q${round(here.x)} ${round(here.y)} ${round(end.x)} ${round(end.y)}`;
  }
  if (rest.length === 1) path += ` L${round(last.x)} ${round(last.y)}`;
  return path;
}
