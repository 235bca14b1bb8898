import assert from "node:assert/strict";
import { test } from "node:test";
import { duration, medianOf, money, ticks } from "../src/format";
import { filesOf } from "../src/components/diff";
import { parseRoute } from "../src/router";
import { timeScale } from "../src/time_scale";
import { visibleRows } from "../src/virtual";

const DURATIONS: [number, string][] = [
  [0, "0.0s"],
  [40, "<0.1s"],
  [2345, "2.3s"],
  [45_000, "45s"],
  [154_000, "2m 34s"],
  [3_720_000, "1h 02m"],
  [3 * 86_400_000, "3d 0h"],
];
for (const [ms, text] of DURATIONS) test(`${ms} ms is ${text}`, () => assert.equal(duration(ms), text));

test("small amounts of money keep their digits", () => {
  assert.deepEqual([0, 0.0042, 0.36, 12].map(money), ["$0.00", "$0.0042", "$0.36", "$12.00"]);
});

test("the median of an even number of values is the mean of the two in the middle", () => {
  assert.deepEqual([[], [3], [3, 1], [5, 1, 3]].map(medianOf), [0, 3, 2, 3]);
});

test("ticks are round and cover the range", () => assert.deepEqual(ticks(90, 350, 4), [100, 200, 300]));

test("a difference is split into files", () => {
  const text = "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-old\n+new\n";
  assert.deepEqual(
    filesOf(text).map(({ path, added, removed, lines }) => [path, added, removed, lines.map((line) => line.kind)]),
    [["x.py", 1, 1, ["hunk", "remove", "add"]]],
  );
});

test("an address names a view", () => {
  assert.deepEqual(parseRoute("#/loops/a%2Fb"), { view: "loop", key: "a/b" });
  assert.equal(parseRoute("#/runs/x/steps/3").view, "run");
  assert.equal(parseRoute("#/%E0%A4%A").view, "unknown");
});

test("a long pause is shortened, and the order of times stays", () => {
  const night = { from: 0, to: 10_000 };
  const scale = timeScale(0, 1_010_000, [night, { from: 1_000_000, to: 1_010_000 }], 500);
  assert.equal(scale.gaps.length, 1);
  const places = [0, 5000, 10_000, 500_000, 1_000_000, 1_010_000].map(scale.at);
  assert.deepEqual(places, [...places].sort((a, b) => a - b));
  assert.equal(Math.round(places[5]!), 500);
});

test("only the rows on the screen are drawn", () => {
  assert.deepEqual(visibleRows(48_000, 480, 48, 12_501, 8), { first: 992, last: 1018 });
  assert.deepEqual(visibleRows(0, 480, 48, 3, 8), { first: 0, last: 3 });
});
