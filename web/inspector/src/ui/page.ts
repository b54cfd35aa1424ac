// The browser's tab: the title of the screen, and the mark with a dot for its state.
import { useEffect } from "preact/hooks";

export type Sign = "" | "running" | "waiting" | "failed";

const colours: Readonly<Record<Sign, string>> = { "": "", running: "#2f9e5f", waiting: "#d58a00", failed: "#d33b2c" };

function picture(sign: Sign): string {
  // A dot with a gap around it, so that it is visible next to the mark on light and dark tabs.
  const dot = `<circle cx="12" cy="12" r="3.5" fill="${colours[sign]}"/>`;
  const mark = `<g fill="none" stroke="#2f7d4f" stroke-width="1.5" stroke-linecap="round"><path d="M8 15V9M8 9 4.2 5.2M8 9l3.8-3.8"/><circle cx="3.5" cy="4.5" r="2" fill="#2f7d4f"/><circle cx="12.5" cy="4.5" r="2" fill="#2f7d4f"/></g>`;
  return `data:image/svg+xml,${encodeURIComponent(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16">${mark}${sign === "" ? "" : dot}</svg>`)}`;
}

/** Names the tab as long as the component is shown. */
export function usePage(title: string, sign: Sign = ""): void {
  useEffect(() => {
    document.title = title === "" ? "Arbor" : `${title} · Arbor`;
  }, [title]);
  useEffect(() => {
    const icon = document.querySelector<HTMLLinkElement>("link[rel=icon]");
    if (icon !== null) icon.href = sign === "" ? "/inspect/mark.svg" : picture(sign);
  }, [sign]);
}
