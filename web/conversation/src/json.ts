// Functions for JSON as text, for what JSON.parse does not tell.

/**
 * Returns the members of a JSON object, as they are written, by name. If a name occurs
 * twice, the last one counts. The text must be one JSON object.
 */
export function members(text: string): Map<string, string> {
  const found = new Map<string, string>();
  let i = skip(text, 0, " \t\r\n") + 1; // after the brace
  for (;;) {
    i = skip(text, i, " \t\r\n,");
    if (text[i] === "}") return found;
    let end = valueEnd(text, i);
    const name = JSON.parse(text.slice(i, end)) as string;
    i = skip(text, end, " \t\r\n:");
    end = valueEnd(text, i);
    found.set(name, compact(text.slice(i, end)));
    i = end;
  }
}

/** Reports whether JSON has more than limit levels of arrays and objects. */
export function deeper(text: string, limit: number): boolean {
  if (text.length <= 2 * limit) return false;
  let depth = 0;
  let inString = false;
  for (let i = 0; i < text.length; i++) {
    const c = text[i];
    if (inString && c === "\\") {
      i++;
    } else if (c === '"') {
      inString = !inString;
    } else if (!inString && (c === "[" || c === "{")) {
      if (++depth > limit) return true;
    } else if (!inString && (c === "]" || c === "}")) {
      depth--;
    }
  }
  return false;
}

/** Reports the same for a value. */
export function isDeeper(value: unknown, limit: number): boolean {
  if (typeof value !== "object" || value === null) return false;
  if (limit === 0) return true;
  if (Array.isArray(value)) return value.some((inner) => isDeeper(inner, limit - 1));
  for (const name in value) { // takes half the time of Object.values, without garbage
    const inner = (value as Readonly<Record<string, unknown>>)[name];
    if (typeof inner === "object" && isDeeper(inner, limit - 1)) return true;
  }
  return false;
}

function skip(text: string, i: number, what: string): number {
  while (what.includes(text[i]!)) i++;
  return i;
}

function stringEnd(text: string, i: number): number {
  for (i++; text[i] !== '"'; i++) {
    if (text[i] === "\\") i++;
  }
  return i + 1;
}

// valueEnd returns the index after the value that begins at i.
function valueEnd(text: string, i: number): number {
  let depth = 0;
  while (i < text.length) {
    switch (text[i]) {
      case '"':
        i = stringEnd(text, i);
        if (depth === 0) return i;
        continue;
      case "{":
      case "[":
        depth++;
        break;
      case "}":
      case "]":
        if (depth === 0) return i;
        if (--depth === 0) return i + 1;
        break;
      case ",":
      case ":":
      case " ":
      case "\t":
      case "\r":
      case "\n":
        if (depth === 0) return i;
        break;
    }
    i++;
  }
  return i;
}

// compact removes white space between values.
function compact(text: string): string {
  let out = "";
  let from = 0;
  for (let i = 0; i < text.length; ) {
    const c = text[i];
    if (c === '"') {
      i = stringEnd(text, i);
    } else if (c === " " || c === "\t" || c === "\r" || c === "\n") {
      out += text.slice(from, i);
      from = ++i;
    } else {
      i++;
    }
  }
  return from === 0 ? text : out + text.slice(from);
}

/** Returns a string as JSON, as the command arbor writes it. */
export function quote(s: string): string {
  return JSON.stringify(wellFormed(s)).replace(/[\u2028\u2029]/g, (c) => (c === "\u2028" ? "\\u2028" : "\\u2029"));
}

/** Returns a string with U+FFFD in place of each unpaired surrogate. */
export function wellFormed(s: string): string {
  return /[\ud800-\udfff]/.test(s) ? s.replace(/\p{Surrogate}/gu, "\ufffd") : s;
}

/** Reports whether a value is a JSON object. */
export function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
