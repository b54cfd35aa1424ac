// The English texts of the page, a group for each screen: the frame with its menu and keys, signing in, questions and the
// conversation of a session. en-behind.tsx has those of the parts that are loaded later, and loads with them.
//
// A text with values is a function of them, so that a sentence stays one text. Names and what users wrote are given as
// they are shown.
import type { JSX } from "preact";
import { count, counted } from "../ui/amount.js";

export const screens = { sessions: "Sessions", tree: "Tree", usage: "Usage", approvals: "Approvals", desk: "Desk" };
/** A position, as a link to it. */
export const at = (seq: number): string => `at ${count(seq)}`;

/** What is new below the place that the reader sees. */
export const fresh = (n: number): string => `${count(n)} new below`;

export const you: string = "you";
export const close: string = "Close";
export const cancel: string = "Cancel";
export const noPrice: string = "price unknown";
const takeTour = "Take the tour";
const copyAddress = "Copy the address";
const allKeys = "All keys";

export const frame = {
  skip: "Skip to the content",
  loading: "Loading…",
  screen: "This screen",
  title: "The title",
  brand: "Arbor: all sessions",
  nav: "Screens",
  lost: (since: string) => `Not connected since ${since}, trying again.`,
  offline: "The offline model answers. It only compares words, and no real model is called.",
  outdated: "This page is from another version of the server.",
  notShown: (what: string, why: string) => `${what} could not be shown: ${why}`,
  partMissing: "A part of the page could not be loaded. Reload the page.",
  reload: "Reload the page",
  dismiss: "Dismiss",
  broken: (place: string, message: string) => `The agents' files cannot be used, and the tree from before still answers. ${place === "" ? "" : `${place}: `}${message}`,
  reloaded: "The agents' files have changed. The next turn uses the new tree.",
  problems: (n: number) => (n === 1 ? "Show it" : `Show all ${n} problems`),
};

export const nowhere = {
  tab: "Nothing here",
  title: "There is nothing at this address",
  sessions: "Go to the sessions",
};

export const signIn = {
  title: "Sign in",
  how: "Open the address that the server printed when it started, or enter a token.",
  token: "Token",
  enter: "Sign in",
  wrongCode: "The code of this address was not accepted: it works once, for five minutes. Enter a token.",
  wrongToken: "The token was not accepted.",
};

export const menu = {
  name: "Menu",
  title: (user: string) => `Signed in as ${user}`,
  colours: "Colours",
  schemes: { system: "As the system", light: "Light", dark: "Dark" },
  copyAddress,
  allKeys,
  takeTour,
  language: "Language",
  asBrowser: "As the browser",
  signOut: "Sign out",
  version: (version: string | undefined) => `Arbor ${version ?? ""}`,
};

export const anything = {
  title: "Go to anything",
  hint: "An agent, a session, a command, an address",
  results: "Results",
  none: "No results.",
  kinds: { screen: "screen", do: "command", agent: "agent", session: "session", position: "position", address: "address" },
  position: (n: number) => `Position ${n}`,
  colours: { system: "Colours: as the system has them", light: "Colours: light", dark: "Colours: dark" },
};

export const keys = {
  title: "Keys",
  letters: "Use single letters as keys",
  allKeys,
  copyAddress,
  takeTour,
};

/** The states of a session, by the server's names. */
export const states = { running: "at work", waiting: "waits for a person", cut_off: "cut off", done: "done", failed: "failed", canceled: "canceled" } as Readonly<Record<string, string>>;

export const newState: string = "new";

export const handed: string = "handed to a person";

export const withPerson: string = "with a person";

export const decide = {
  approveKey: "Approve the card that has the focus",
  denyKey: "Deny the card that has the focus",
  undoKey: "Undo the decision",
  runsIt: "wants to run",
  asksIt: "asks",
  runs: (tool: string) => `${tool} wants to run`,
  asks: (tool: string) => `${tool} asks`,
  agent: (agent: string) => `for ${agent}`,
  nothing: "Nothing has happened yet.",
  approve: "Approve",
  deny: "Deny",
  denyWhy: "Deny…",
  why: "Why, for the agent",
  back: "Back",
  badJSON: (why: string) => `The answer is not valid JSON: ${why}.`,
  answer: "Answer",
  words: "Your answer",
  json: "Your answer, as JSON",
  noArguments: "The call has no arguments.",
  arguments: "Arguments",
  user: "The user of this conversation has to decide this.",
  colleague: "A colleague has to approve this.",
  sending: "Sending…",
  approved: (seconds: number) => `You approved this. It is sent in ${seconds} seconds.`,
  denied: (seconds: number) => `You denied this. It is sent in ${seconds} seconds.`,
  answered: (seconds: number) => `You answered this. It is sent in ${seconds} seconds.`,
  undo: "Undo",
  nothingThen: "Nothing had happened yet.",
  waited: "It waited for a decision here.",
  declineWhy: "Decline…",
  whyModel: "Why? The model reads it.",
  by: (user: string, you: boolean) => `by ${user}${you ? " (you)" : ""}`,
  withdrawn: "Withdrawn",
  wasApproved: "✓ Approved",
  wasAnswered: "Answered",
  wasDenied: "✗ Denied",
  wasDeclined: "✗ Declined",
  noDecision: "No decision: the turn continued without it.",
  noReason: "No reason was given.",
  optional: "(optional)",
  notJSON: "This is not valid JSON yet.",
};

/** The screen of a session, around its panes. */
export const session = {
  name: "Session",
  middles: { talk: "Conversation", feed: "Feed", runs: "Runs", graph: "Graph" },
  tabs: { why: "Why", seen: "Seen", cost: "Cost", if: "What if", state: "State", files: "Files" },
  treeWidthKey: "Next width of the tree",
  detailsWidthKey: "Next width of the details",
  back: "Back",
  opening: (id: string) => `Opening ${id}…`,
  failed: "This session cannot be shown",
  missing: (id: string) => `There is no session ${id}, or it is not yours.`,
  theTree: "The tree",
  theSlider: "The slider",
  time: "Time",
  treeWidth: "Width of the tree",
  detailsWidth: "Width of the details",
  views: "Views of the session",
  view: "This view",
  details: "Details",
  asked: "What is asked",
  waits: (tool: string) => `${tool} waits: look at it`,
  talk: "Talk",
  more: "More",
  theId: "the id of the session",
  loading: "loading…",
  past: (seq: number, end: number) => `as it was at ${count(seq)} of ${count(end)}`,
  amounts: (turns: number, tokens: number) => `${counted(turns, "turn")} · ${counted(tokens, "token")}`,
  notLoaded: (seq: number, why: string) => `The events before ${count(seq)} could not be loaded. ${why}`,
};

/** The conversation: messages with their calls, and the way through them. */
export const talk = {
  next: "Next message",
  previous: "Previous message",
  open: "Open what is selected",
  edit: "Edit the selected message",
  begins: (seq: number) => `This begins at ${count(seq)}.`,
  loadingOlder: "Loading older events…",
  loadAll: "load all",
  none: "No messages yet. Write one below.",
  message: "This message",
  further: "Another session continues after this.",
  more: "More below",
  user: "The user",
  userMark: "user",
  agent: "An agent",
  notKept: (agent: string) => `${agent}, not kept`,
  transfers: (from: string, to: string, done: boolean, reason: string) => `${from} ${done ? "transfers to" : "could not transfer to"} ${to}: ${reason}`,
  stopped: "Stopped. The log does not contain this text. Reloading the page removes it.",
  editIt: "Edit",
  tokens: (n: number) => counted(n, "token"),
  asked: "is asked…",
  answers: "answers…",
  thought: "Thought",
  itFailed: "It failed.",
  part: (agent: string) => `The part of ${agent}`,
  inShort: (answers: number, calls: number) => `${counted(answers, "answer")}${calls > 0 ? ` · ${counted(calls, "call")}` : ""}`,
  failed: "failed",
  why: "Why?",
  seenBy: (agent: string) => `Seen by ${agent}`,
  tryInFork: "Try again in a fork…",
  theArguments: "the arguments",
  progress: "Progress",
  theProgress: "the progress",
  error: "Error",
  output: "Output",
  theOutput: "the output",
  cost: "What it cost",
  /** The states of a call. */
  states: { denied: "denied", failed: "failed", lost: "has no result", done: "done", waits: "waits for a person", cut: "cut off", runs: "runs" },
  inside: (messages: number) => `${counted(messages, "message")} inside`,
  moreRuns: (n: number) => `and ${counted(n, "run")} more, which the view Runs shows`,
  earlier: (n: number) => counted(n, "earlier message"),
  clipped: "Only the beginning is shown.",
  showAll: (size: string) => `show all (${size})`,
  branch: (n: number, of: number) => `Branch ${n} of ${of}`,
  previousBranch: "Previous branch",
  nextBranch: "Next branch",
};

/** The steps of a handoff to a person, by the server's names. */
export const handoffs = {
  requested: "a person is asked for",
  queued: "waits for a person",
  connected: "with a person",
  on_hold: "on hold",
  completed: "given back",
  ended: "given back",
  cancelled: "the handoff was cancelled",
  failed: "the handoff failed",
} as Readonly<Record<string, string>>;

/** The lines between the messages of a conversation. */
export const between = {
  nobody: "nobody",
  person: (status: string) => handoffs[status] ?? `a person: ${status}`,
  place: (n: number) => `place ${count(n)}`,
  about: (time: string) => `about ${time}`,
  made: (agent: string) => `${agent} made`,
  discarded: "An attempt was discarded:",
  outcomes: { rejected: "was refused", conflict: "came too late", failed: "could not start" } as Readonly<Record<string, string>>,
  back: "goes back",
  rule: (index: number | null) => (index === null ? "no rule" : `rule ${index}`),
  summary: (agent: string, before: number) => `From here, ${agent} is shown a summary instead of everything before ${count(before)}`,
  leftOut: "There is no summary: everything before was left out.",
};

export const composer = {
  write: "Write",
  send: "Send",
  stop: "Stop",
  noRight: "You can read this session. To write in it, you need the right act.",
  to: (agent: string) => `Write to ${agent || "the session"}`,
  forkAnd: (at: number) => `Fork at ${count(at)} and say`,
  forkHere: "Fork here and say",
  forkSay: "Fork and say",
  attached: "Attached",
  remove: (file: string) => `Remove ${file}`,
  files: "Files to attach",
  attach: "Attach files",
  past: (at: number, earlier: boolean) => `You see an earlier moment. Your message starts a fork after event ${count(at)}${earlier ? ", the last checkpoint" : ""}. This session stays as it is.`,
  lost: "Not connected. Your text stays here until it is sent.",
  agent: "The agent",
  waits: (agent: string) => `${agent} is still answering. Your message will be sent after the answer.`,
  busy: (agent: string) => `${agent} is answering. Your message will be sent after the answer.`,
  cut: "The turn is cut off.",
  resume: "Resume",
  cancelTurn: "Cancel the turn",
  failed: "The last turn failed.",
  again: "Try again",
  sendsAgain: "This sends your last message again.",
  elsewhere: "The turn waits for something that is done elsewhere.",
  asked: "The turn waits for a person's decision. A message withdraws the question.",
  tooLong: (name: string, size: string) => `${name} of ${size} is too long: the text of a message can have 1 MB in all.`,
  tooLarge: (name: string) => `${name} is too large: a message can have 16 MB in all, and sending a file takes a third more than its size.`,
  pasteTooLong: (size: string, most: string) => `Pasted text of ${size} is too long: a field takes ${most} at once.`,
  pasted: "pasted",
  pastedText: "Pasted text",
  notKept: (files: string) => `This page was reloaded, and the browser does not keep files. Add them again: ${files}.`,
};

/** Another text in place of a message of the user. */
export const edits = {
  loading: "Loading the whole message…",
  text: "New text",
  say: "Say this instead",
  what: "This creates a new session. This one does not change.",
};

export const actions = {
  moved: "Someone else decided first, or the question has changed. Nothing was done, and the page now shows what waits.",
  notYours: "You may not decide this: a colleague has to. Nothing was done.",
  gone: "The session no longer exists. Nothing was done.",
  instead: "Say this instead?",
  insteadWhat: "This creates a new session in which the user says something else here. This one does not change.",
  sayIt: "Say it",
  fork: "Fork",
  forkAt: (at: number) => `Fork at ${count(at)}?`,
  forkWhat: (at: number) => `This creates a new session with the first ${counted(at, "event")} of this one.`,
  forkAndSay: (at: number) => `Fork at ${count(at)} and say this?`,
  forkAndSayWhat: (at: number) => `This creates a new session with the first ${counted(at, "event")} of this one, and sends your message there.`,
  inFork: (does: string) => `${does} in this fork?`,
  inForkWhat: "This session is a fork. Its tools run again, and their effects outside of the log happen again.",
};

export const errors = {
  order: (seq: number, expected: number) => `Event ${seq} came, and ${expected} was expected. Reload the page.`,
  fewer: "The server has fewer events than before.",
  deleted: "This session was deleted while it was open.",
  unauthorized: "You may not read this session any more.",
  unreachable: "The server does not answer.",
  status: (status: number) => `The server answered ${status}.`,
  noFork: (at: number) => `The session cannot be forked at or before ${at}.`,
};

/** Small pieces: drawings, lists, values, pictures and files. */
export const pieces = {
  zoom: "Zoom",
  zoomOut: "Zoom out",
  zoomIn: "Zoom in",
  fit: "Fit",
  nextRow: "Next row",
  previousRow: "Previous row",
  openRow: "Open the row",
  table: "A table",
  inside: (n: number, array: boolean) => counted(n, array ? "item" : "member"),
  code: (language: string) => (language === "" ? "the code" : `the ${language} code`),
  formula: "the formula",
  less: "show less",
  all: (letters: number) => `show all ${count(letters)} letters`,
  more: (n: number) => `${count(n)} more`,
  show: "Show",
  hide: "Hide",
  picture: (shown: boolean, name: JSX.Element | false, host: JSX.Element) => (
    <>
      {shown ? "Hide" : "Show"} the picture {name} from {host}
    </>
  ),
  pictureFrom: (host: string) => `A picture from ${host}`,
  tab: "Open it in a tab",
  file: "a file",
  elsewhere: "elsewhere",
  download: "Download",
};

export const copies = {
  copy: (what: string) => `Copy ${what}`,
  done: "Copied",
  failed: "The browser does not let this page copy. Select the text and copy it yourself.",
  download: (name: string) => `Download ${name}`,
};
