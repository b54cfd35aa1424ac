// A value that equals the previous one is replaced by the previous one. New values are
// frozen, because they can be returned many times.
import type { Draft } from "./answers.js";
import type { ViewCall, ViewNode } from "./thread.js";

type Branches = readonly (readonly ViewNode[])[];

export const nothing: readonly never[] = Object.freeze([]);

/** Returns the list, or the old one if it has the same items. */
export function keepList<T>(old: readonly T[] | undefined, list: readonly T[]): readonly T[] {
  if (old === list || (old !== undefined && sameItems(old, list))) return old!;
  return list.length === 0 ? nothing : Object.freeze(list);
}

function sameItems(a: readonly unknown[], b: readonly unknown[]): boolean {
  if (a.length !== b.length) return false;
  for (let i = a.length - 1; i >= 0; i--) { // new items are mostly at the end
    if (!Object.is(a[i], b[i])) return false;
  }
  return true;
}

function keepBranches(old: Branches | undefined, branches: Branches): Branches {
  return keepList(old, branches.map((list, i) => keepList(old?.[i], list)));
}

// keep compares members. They are values of events, texts, or lists and objects that
// were kept before. Neither object has members that are undefined.
function keep<T extends object>(old: T | undefined, made: T): T {
  if (old !== undefined) {
    const names = Object.keys(made) as (keyof T)[];
    if (names.length === Object.keys(old).length && names.every((name) => Object.is(old[name], made[name]))) return old;
  }
  return Object.freeze(made);
}

/** Returns a view node with its members in their order. */
export function keepView(old: ViewNode | undefined, view: ViewNode, calls: readonly ViewCall[], branches: Branches, alternatives: readonly string[]): ViewNode {
  const made = { id: view.id, runId: view.runId, messageId: view.messageId, role: view.role } as Draft<ViewNode>;
  if (view.agent !== undefined) made.agent = view.agent;
  if (view.text !== undefined && view.text !== "") made.text = view.text;
  if (view.content !== undefined) made.content = view.content;
  if (view.reasoning !== undefined && view.reasoning !== "") made.reasoning = view.reasoning;
  if (calls.length > 0) made.toolCalls = keepList(old?.toolCalls, calls);
  if (branches.length > 0) made.branches = keepBranches(old?.branches, branches);
  made.status = view.status;
  if (view.error !== undefined && view.error !== "") made.error = view.error;
  if (alternatives.length > 0) made.alternatives = alternatives;
  return keep(old, made);
}

/** Returns a call with its members in their order. */
export function keepCall(old: ViewCall | undefined, call: ViewCall, branches: Branches): ViewCall {
  const made = { id: call.id, name: call.name } as Draft<ViewCall>;
  if (call.input !== undefined) made.input = call.input;
  if (call.output !== undefined) made.output = call.output;
  if (call.isError !== undefined) made.isError = call.isError;
  if (call.progress !== undefined) made.progress = keepList(old?.progress, call.progress);
  if (call.approval !== undefined) made.approval = call.approval;
  if (branches.length > 0) made.branches = keepBranches(old?.branches, branches);
  made.status = call.status;
  return keep(old, made);
}
