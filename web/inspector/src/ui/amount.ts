// Numbers, money, sizes and times as people read them in the language of the page. The symbols of units are those of
// the SI, which all languages share.
import { texts } from "../texts.js";

let [numbers, dates] = ["en", "en-GB"];
let whole = new Intl.NumberFormat(numbers);
const formats = new Map<string, Intl.NumberFormat>();

/** Has amounts written as a language has them, such as "de-AT". */
export function localize(tag: string): void {
  [numbers, dates] = [tag, tag];
  whole = new Intl.NumberFormat(tag);
  formats.clear();
}

function format(n: number, options: Intl.NumberFormatOptions): string {
  const name = JSON.stringify(options);
  let made = formats.get(name);
  if (made === undefined) formats.set(name, (made = new Intl.NumberFormat(numbers, options)));
  return made.format(n);
}

export function count(n: number): string {
  return whole.format(n);
}

const exactly = (digits: number): Intl.NumberFormatOptions => ({ minimumFractionDigits: digits, maximumFractionDigits: digits });

/** A number with as many decimals. */
export function decimals(n: number, digits: number): string {
  return format(n, exactly(digits));
}

/** A share of 1 in percent. */
export function percent(share: number): string {
  return `${Math.round(100 * share)} %`;
}

/** "1 event", "12 events". */
export function counted(n: number, one: string, many = `${one}s`): string {
  return `${whole.format(n)} ${n === 1 ? one : many}`;
}

/** Money in dollars, or what to say where the price is unknown. */
export function money(dollars: number | null | undefined, unknown = texts.noPrice): string {
  if (dollars === null || dollars === undefined) return unknown;
  const digits = dollars === 0 ? 0 : dollars < 1 ? 4 : 2;
  const precise = dollars > 0 && dollars < 0.01 ? { minimumSignificantDigits: 2, maximumSignificantDigits: 2 } : exactly(digits);
  return format(dollars, { style: "currency", currency: "USD", currencyDisplay: "narrowSymbol", ...precise });
}

export function bytes(n: number): string {
  if (n < 1000) return format(n, { style: "unit", unit: "byte", unitDisplay: "long" });
  const units = ["kB", "MB", "GB"];
  let i = 0;
  for (n /= 1000; Math.round(n) >= 1000 && i < units.length - 1; i++) n /= 1000;
  return `${decimals(n, n < 9.95 ? 1 : 0)} ${units[i]}`;
}

/** A difference of times: 0.009 ms, 40 ms, 1.2 s, 12 s, 3 min, 4 h, 2 d. */
export function span(ms: number): string {
  if (ms > 0 && ms < 0.5) return `${format(ms, { maximumSignificantDigits: 1 })} ms`;
  if (Math.round(ms) < 1000) return `${Math.round(ms)} ms`;
  if (ms < 59_500) return `${decimals(ms / 1000, ms < 9950 ? 1 : 0)} s`;
  const units = [[60_000, 60, "min"], [3_600_000, 24, "h"]] as const;
  for (const [unit, most, name] of units) if (Math.round(ms / unit) < most) return `${Math.round(ms / unit)} ${name}`;
  return `${count(Math.round(ms / 86_400_000))} d`;
}

/** The time of day of an event, and its date if that is not today's. */
export function clock(time: string | undefined, now = new Date()): string {
  if (time === undefined || time === "") return "";
  const t = new Date(time);
  const day = t.toDateString() === now.toDateString() ? "" : `${t.toLocaleDateString(dates, { day: "numeric", month: "short" })} `;
  return day + t.toLocaleTimeString(dates);
}
