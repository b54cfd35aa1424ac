/** Says whether a text is no JSON object. */
export function unreadable(text) {
  try {
    const value = JSON.parse(text);
    return typeof value !== "object" || value === null || Array.isArray(value);
  } catch {
    return true;
  }
}

/**
 * Compares JSON data as JavaScript knows it: numbers are equal if they are the
 * same double, and the order of members is of no account. Returns "" or where the
 * first difference is.
 */
export function difference(want, got, path = "$") {
  if (typeof want !== "object" || want === null || typeof got !== "object" || got === null) {
    return Object.is(want, got) ? "" : `${path}: ${JSON.stringify(want)} is wanted, ${JSON.stringify(got)} is there`;
  }
  if (Array.isArray(want) !== Array.isArray(got)) return `${path}: a list and an object`;
  const names = new Set([...Object.keys(want), ...Object.keys(got)]);
  for (const name of names) {
    if (!Object.hasOwn(want, name) || !Object.hasOwn(got, name)) return `${path}: ${JSON.stringify(name)} is in one of both only`;
    const found = difference(want[name], got[name], `${path}.${name}`);
    if (found !== "") return found;
  }
  return "";
}
