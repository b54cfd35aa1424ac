// What waits for a decision of the reader, in the sessions of all users.
import { computed } from "@preact/signals";
import type { Schemas } from "../net/api.js";
import { polled } from "./polled.js";

export const waiting = polled<Schemas["Approvals"]>("/approvals", 5000);

/** The one that waits longest first, so that those that come do not move what is there. */
export const approvals = computed(() => waiting.value.value?.approvals.toSorted((a, b) => Date.parse(a.since) - Date.parse(b.since)));
