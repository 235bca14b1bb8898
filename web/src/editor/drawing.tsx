/*
 * The machine as a drawing that is edited: drag from the dot below a state to another state to connect
 * them. The places of the states are computed, and never stored.
 */

import {
  Background,
  Controls,
  Handle,
  Position,
  ReactFlow,
  getViewportForBounds,
  useStore,
  useStoreApi,
  type Connection,
  type Edge,
  type EdgeProps,
  type EdgeTypes,
  type Node,
  type NodeHandle,
  type NodeProps,
  type NodeTypes,
  type ReactFlowState,
} from "@xyflow/react";

import { useLayoutEffect, useMemo, useState } from "preact/hooks";
import type { Machine, MachineState, Problem } from "../api";
import { Icon } from "../components/basics";
import { plural } from "../format";
import { place, type Placed, type PlacedEdge, type PlacedState } from "../graph_layout";
import type { Described, OutlinedState } from "./api";

export type Selection = { kind: "loop" } | { kind: "state"; state: string } | { kind: "edge"; from: string; to: string };

const FIT = { padding: 0.08, maxZoom: 1 };
const MIN_ZOOM = 0.1;
const DOT = 14; // as in the style

interface StateData extends Record<string, unknown> {
  placed: PlacedState;
  initial: boolean;
  editable: boolean;
  problems: Problem[];
}
interface EdgeData extends Record<string, unknown> {
  placed: PlacedEdge;
}
type StateNode = Node<StateData, "state">;
type TransitionEdge = Edge<EdgeData, "transition">;

export interface DrawingProps {
  described: Described;
  editable: boolean;
  selection: Selection;
  onSelect: (selection: Selection) => void;
  onConnect: (from: string, to: string) => void;
  onDelete: (selection: Selection) => void;
  onRename: () => void;
}

/** The states as the file has them, also if it has errors; else the machine that it compiles to. */
export function machineOf(described: Described): Machine | null {
  const states = described.outline?.states;
  if (!states) return described.machine;
  const known = new Map(described.machine?.states.map((state) => [state.name, state]));
  const edges = new Map<string, { from: string; to: string; labels: string[] }>();
  for (const state of states) {
    for (const { on, target } of state.transitions) {
      const to = target === "$current" ? state.name : target;
      const key = JSON.stringify([state.name, to]);
      const edge = edges.get(key) ?? { from: state.name, to, labels: [] };
      edge.labels.push(on);
      edges.set(key, edge);
    }
  }
  const initial = described.outline!.fields["initial"];
  return {
    name: described.file,
    paradigm: "fsm",
    initial: typeof initial === "string" ? initial : "",
    states: states.map((state) => known.get(state.name) ?? sketched(state)),
    edges: [...edges.values()].map((edge) => ({ ...edge, label: edge.labels.join(", "), from_loop: false, taken: 0, last_seq: null })),
  };
}

function sketched({ name, fields }: OutlinedState): MachineState {
  const action = typeof fields["action"] === "string" ? fields["action"] : null;
  const terminal = fields["terminal"] === true;
  const kind = terminal ? "terminal" : fields["loop"] !== undefined ? "loop" : action === null ? "decision" : "shell";
  return { name, kind, action, host: null, terminal, outcome: null, is_check: false, visits: 0, current: false };
}

export function Drawing(props: DrawingProps) {
  const { editable, selection } = props;
  const [described, hold] = useHeld(props.described);
  const [ready, setReady] = useState(false);
  const machine = useMemo(() => machineOf(described), [described]);
  const placed = useMemo(() => (machine ? place(machine) : null), [machine]);

  const nodes = useMemo<StateNode[]>(() => {
    if (!placed || !machine) return [];
    return placed.states.map((each) => ({
      id: each.state.name,
      type: "state" as const,
      position: { x: each.x, y: each.y },
      width: each.width,
      height: each.height,
      measured: { width: each.width, height: each.height },
      handles: handlesOf(each),
      selected: selection.kind === "state" && selection.state === each.state.name,
      ariaLabel: nameOf(each.state, each.state.name === machine.initial),
      data: {
        placed: each,
        initial: each.state.name === machine.initial,
        editable,
        problems: described.problems.filter((problem) => problem.state === each.state.name),
      },
    }));
  }, [placed, selection, described.problems, editable]);

  const edges = useMemo<TransitionEdge[]>(() => {
    if (!placed) return [];
    return placed.edges.map((each) => ({
      id: JSON.stringify([each.edge.from, each.edge.to]),
      type: "transition" as const,
      source: each.edge.from,
      target: each.edge.to,
      selected: selection.kind === "edge" && selection.from === each.edge.from && selection.to === each.edge.to,
      ariaLabel: `${each.edge.label}: from ${each.edge.from} to ${each.edge.to}`,
      data: { placed: each.edge.from === each.edge.to ? looped(each, placed.states.find(({ state }) => state.name === each.edge.from)!) : each },
    }));
  }, [placed, selection]);

  if (!placed) return <p class="muted nothing">The drawing appears when the text can be read.</p>;
  return (
    <div
      class={`drawing${ready ? "" : " placing"}`}
      role="group"
      aria-label="States and transitions"
      onPointerDownCapture={hold}
      onKeyDown={(event) => {
        if (!editable || !(event.target as Element).closest(".react-flow__node, .react-flow__edge")) return;
        if (event.key === "Delete" || event.key === "Backspace") props.onDelete(focused(event.target as Element) ?? selection);
        else if (event.key === "F2") props.onRename();
        else return;
        event.preventDefault();
        event.stopPropagation();
      }}
    >
      <ReactFlow<StateNode, TransitionEdge>
        nodes={nodes}
        edges={edges}
        nodeTypes={NODES}
        edgeTypes={EDGES}
        onNodeClick={(_, node) => props.onSelect({ kind: "state", state: node.id })}
        onEdgeClick={(_, edge) => props.onSelect({ kind: "edge", from: edge.source, to: edge.target })}
        onPaneClick={() => props.onSelect({ kind: "loop" })}
        onConnect={({ source, target }: Connection) => props.onConnect(source, target)}
        onNodesChange={(changes) => {
          // The keyboard selects by Enter or Space.
          for (const change of changes) {
            if (change.type === "select" && change.selected) props.onSelect({ kind: "state", state: change.id });
          }
        }}
        onEdgesChange={(changes) => {
          for (const change of changes) {
            if (change.type !== "select" || !change.selected) continue;
            const [from, to] = JSON.parse(change.id) as [string, string];
            props.onSelect({ kind: "edge", from, to });
          }
        }}
        nodesDraggable={false}
        nodesConnectable={editable}
        connectionRadius={30}
        deleteKeyCode={null}
        multiSelectionKeyCode={null}
        selectionKeyCode={null}
        preventScrolling={false}
        zoomOnScroll={false}
        zoomOnDoubleClick={false}
        minZoom={MIN_ZOOM}
        maxZoom={2}
        proOptions={{ hideAttribution: true }}
      >
        <Sheet nodes={nodes} edges={edges} placed={placed} onReady={() => setReady(true)} />
        <Background gap={22} size={1.4} />
        <Controls showInteractive={false} fitViewOptions={FIT} position="bottom-right" orientation="horizontal" />
        <svg class="markers" aria-hidden="true">
          <defs>
            <marker id="edit-arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">
              <path d="M0 0.5L8 4L0 7.5z" class="arrow" />
            </marker>
            <marker id="edit-arrow-selected" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto">
              <path d="M0 0.5L8 4L0 7.5z" class="arrow selected" />
            </marker>
          </defs>
        </svg>
      </ReactFlow>
    </div>
  );
}

/**
 * What the file means, but from when a mouse button was pressed in the drawing until it is released: an answer that
 * arrives meanwhile would move a state away from under the mouse. A field that is left by this press may have
 * caused it.
 */
function useHeld(described: Described): [Described, () => void] {
  const [held, setHeld] = useState<Described | null>(null);
  function hold(): void {
    setHeld(described);
    const released = new AbortController();
    const options = { capture: true, signal: released.signal };
    const release = (): void => {
      released.abort();
      setTimeout(() => setHeld(null)); // the click comes first
    };
    addEventListener("pointerup", release, options);
    addEventListener("pointercancel", release, options);
  }
  return [held ?? described, hold];
}

/**
 * Puts the states, the transitions and the part of the plane that is seen into place, all before the next frame.
 * By itself, the flow takes new states after a frame, and `fitView` before that: it would fit the states before.
 */
function Sheet({ nodes, edges, placed, onReady }: { nodes: StateNode[]; edges: TransitionEdge[]; placed: Placed; onReady: () => void }) {
  const store = useStoreApi<StateNode, TransitionEdge>();
  const { width, height } = placed;
  const started = useStore((state) => state.panZoom !== null);
  const whole = useStore((state) => isWhole(state, width, height));

  useLayoutEffect(() => {
    store.getState().setNodes(nodes);
    store.getState().setEdges(edges);
  }, [nodes, edges]);

  useLayoutEffect(() => {
    const { panZoom, domNode } = store.getState();
    if (!panZoom || !domNode) return;
    const bounds = { x: 0, y: 0, width, height };
    void panZoom.setViewport(getViewportForBounds(bounds, domNode.clientWidth, domNode.clientHeight, MIN_ZOOM, FIT.maxZoom, FIT.padding));
    onReady();
  }, [started, width, height]);

  // Near its edge, a connection moves the drawing along, which helps only to get to what is not seen.
  useLayoutEffect(() => store.setState({ autoPanOnConnect: !whole }), [whole]);
  return null;
}

/** Whether the whole drawing is seen. */
function isWhole({ transform: [x, y, zoom], domNode }: ReactFlowState, width: number, height: number): boolean {
  if (!domNode) return true;
  return x >= 0 && y >= 0 && x + width * zoom <= domNode.clientWidth && y + height * zoom <= domNode.clientHeight;
}

/**
 * Where a connection begins and ends, known before the drawing is measured: until then, a drag would do
 * nothing. A connection ends anywhere on a state.
 */
function handlesOf({ width, height }: PlacedState): NodeHandle[] {
  return [
    { type: "target", position: Position.Top, x: 0, y: 0, width, height },
    { type: "source", position: Position.Bottom, x: (width - DOT) / 2, y: height - DOT / 2, width: DOT, height: DOT },
  ];
}

/** The state or transition that has the focus. */
function focused(element: Element): Selection | null {
  const found = element.closest<HTMLElement | SVGElement>(".react-flow__node, .react-flow__edge");
  const id = found?.dataset["id"];
  if (id === undefined) return null;
  if (found!.classList.contains("react-flow__node")) return { kind: "state", state: id };
  const [from, to] = JSON.parse(id) as [string, string];
  return { kind: "edge", from, to };
}

function nameOf(state: MachineState, initial: boolean): string {
  return [`State ${state.name}`, initial ? "initial" : "", state.terminal ? "terminal" : "", state.action ?? ""].filter(Boolean).join(", ");
}

function StateView({ data, selected }: NodeProps<StateNode>) {
  const { placed, initial, editable, problems } = data;
  const { state } = placed;
  const errors = problems.filter((problem) => problem.severity === "error").length;
  const classes = ["edit-state", state.terminal ? `terminal outcome-${state.outcome ?? "none"}` : "", selected ? "selected" : ""];
  return (
    <div class={classes.filter(Boolean).join(" ")} title={state.action ?? state.name}>
      <Handle type="target" position={Position.Top} isConnectable={editable} isConnectableStart={false} />
      {initial && <span class="begin" aria-hidden="true" />}
      <strong>{placed.title}</strong>
      <small>{placed.subtitle}</small>
      {problems.length > 0 && (
        <span class="badge" title={problems.map((problem) => problem.message).join("\n")}>
          <Icon tone={errors ? "bad" : "warn"} />
          <span class="visually-hidden">{plural(problems.length, "problem")}</span>
        </span>
      )}
      <Handle type="source" position={Position.Bottom} isConnectable={editable} isConnectableEnd={false} />
    </div>
  );
}

/** A transition to the state itself is drawn at its right side. */
function looped(edge: PlacedEdge, state: PlacedState): PlacedEdge {
  const right = state.x + state.width;
  const [top, bottom] = [state.y + 14, state.y + state.height - 14];
  const path = `M${right} ${top} C${right + 30} ${top - 14} ${right + 30} ${bottom + 14} ${right + 1} ${bottom}`;
  return { ...edge, path, x: right + 26 + edge.width / 2, y: (top + bottom) / 2 };
}

function TransitionView({ data, selected }: EdgeProps<TransitionEdge>) {
  const { path, label, x, y, width } = data!.placed;
  return (
    <g class={`edit-edge${selected ? " selected" : ""}`}>
      <path class="grip" d={path} />
      <path class="line" d={path} marker-end={`url(#edit-arrow${selected ? "-selected" : ""})`} />
      <rect x={x - width / 2} y={y - 9} width={width} height="18" rx="4" />
      <text x={x} y={y + 4}>{label}</text>
    </g>
  );
}

const NODES = { state: StateView } as unknown as NodeTypes;
const EDGES = { transition: TransitionView } as unknown as EdgeTypes;
