import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "./bundle.mjs";

const { bytes, clock, count, counted, decimals, localize, money, percent, span } = await load("ui/amount.ts");

test("numbers are written as people read them", () => {
  assert.equal(count(5210), "5,210");
  assert.equal(counted(1, "event"), "1 event");
  assert.equal(counted(0, "event"), "0 events");
  assert.equal(counted(2, "entry", "entries"), "2 entries");
});

test("money says when nobody knows a price", () => {
  assert.equal(money(undefined), "price unknown");
  assert.equal(money(null), "price unknown");
  assert.equal(money(0), "$0");
  assert.equal(money(0.0031), "$0.0031");
  assert.equal(money(0.00000012), "$0.00000012");
  assert.equal(money(0.25), "$0.2500");
  assert.equal(money(12.345), "$12.35");
});

test("sizes and times have the unit that fits, also where they are rounded up to the next", () => {
  assert.equal(bytes(1), "1 byte");
  assert.equal(bytes(999), "999 bytes");
  assert.equal(bytes(1000), "1.0 kB");
  assert.equal(bytes(9960), "10 kB");
  assert.equal(bytes(999_999), "1.0 MB");
  assert.equal(bytes(16_384_000), "16 MB");
  assert.equal(span(40), "40 ms");
  assert.equal(span(999.6), "1.0 s");
  assert.equal(span(1200), "1.2 s");
  assert.equal(span(59_970), "1 min");
  assert.equal(span(180_000), "3 min");
  assert.equal(span(3_599_000), "1 h");
  assert.equal(span(4 * 3_600_000), "4 h");
  assert.equal(span(86_399_000), "1 d");
  assert.equal(span(2 * 86_400_000), "2 d");
});

test("a time of another day has its date", () => {
  const now = new Date(2026, 2, 1, 12);
  assert.equal(clock("", now), "");
  assert.equal(clock(undefined, now), "");
  assert.equal(clock(new Date(2026, 2, 1, 10, 41, 2).toISOString(), now), "10:41:02");
  assert.equal(clock(new Date(2026, 1, 28, 10, 41, 2).toISOString(), now), "28 Feb 10:41:02");
});

test("amounts are written as the language of the page has them", () => {
  const now = new Date(2026, 2, 1, 12);
  const all = () => [count(52100), decimals(0.936, 2), percent(0.4), money(0.0031), money(0), money(1234.5), bytes(1), bytes(999), bytes(1000), span(1200), clock(new Date(2026, 1, 28, 9, 4, 2).toISOString(), now)].join("|").replaceAll("\u00a0", " ");
  localize("de");
  assert.equal(all(), "52.100|0,94|40 %|0,0031 $|0 $|1.234,50 $|1 Byte|999 Byte|1,0 kB|1,2 s|28. Feb. 09:04:02");
  localize("es");
  assert.equal(all(), "52.100|0,94|40 %|0,0031 $|0 $|1234,50 $|1 byte|999 bytes|1,0 kB|1,2 s|28 feb 9:04:02");
  localize("en");
});
