// Numbers as people read them.
const whole = new Intl.NumberFormat("en");
const small = new Intl.NumberFormat("en", { minimumSignificantDigits: 2, maximumSignificantDigits: 2 });

export function count(n: number): string {
  return whole.format(n);
}

/** "1 event", "12 events". */
export function counted(n: number, one: string, many = `${one}s`): string {
  return `${whole.format(n)} ${n === 1 ? one : many}`;
}

/** Money in dollars, or what to say where the price is unknown. */
export function money(dollars: number | null | undefined, unknown = "price unknown"): string {
  if (dollars === null || dollars === undefined) return unknown;
  if (dollars === 0) return "$0";
  return `$${dollars < 0.01 ? small.format(dollars) : dollars.toFixed(dollars < 1 ? 4 : 2)}`;
}

export function bytes(n: number): string {
  if (n < 1000) return counted(n, "byte");
  const units = ["KB", "MB", "GB"];
  let i = 0;
  for (n /= 1000; Math.round(n) >= 1000 && i < units.length - 1; i++) n /= 1000;
  return `${n < 9.95 ? n.toFixed(1) : Math.round(n)} ${units[i]}`;
}

/** A difference of times: 0.009 ms, 40 ms, 1.2 s, 12 s, 3 min, 4 h, 2 d. */
export function span(ms: number): string {
  if (ms > 0 && ms < 0.5) return `${ms.toPrecision(1)} ms`;
  if (Math.round(ms) < 1000) return `${Math.round(ms)} ms`;
  if (ms < 59_500) return `${(ms / 1000).toFixed(ms < 9950 ? 1 : 0)} s`;
  const units = [[60_000, 60, "min"], [3_600_000, 24, "h"]] as const;
  for (const [unit, most, name] of units) if (Math.round(ms / unit) < most) return `${Math.round(ms / unit)} ${name}`;
  return `${Math.round(ms / 86_400_000)} d`;
}

/** The time of day of an event, and its date if that is not today's. */
export function clock(time: string | undefined, now = new Date()): string {
  if (time === undefined || time === "") return "";
  const t = new Date(time);
  const day = t.toDateString() === now.toDateString() ? "" : `${t.toLocaleDateString("en-GB", { day: "numeric", month: "short" })} `;
  return day + t.toLocaleTimeString("en-GB");
}
