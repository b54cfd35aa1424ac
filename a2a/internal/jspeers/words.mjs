// What the agents of both servers answer: the user's first words choose it. An
// answer is a stream of events in the JSON of A2A 1.0; whoever serves an older
// protocol translates them.

let ids = 0;
const id = (kind) => `${kind}-${++ids}`;

export const agentMessage = (task, text, more = {}) => ({
  messageId: id("message"),
  role: "ROLE_AGENT",
  parts: [{ text }],
  contextId: task.contextId,
  taskId: task.id,
  ...more,
});

const newTask = (task, state = "TASK_STATE_SUBMITTED", more = {}) => ({
  task: { id: task.id, contextId: task.contextId, status: { state, timestamp: now() }, history: [task.message], ...more },
});

const status = (task, state, text) => ({
  statusUpdate: {
    taskId: task.id,
    contextId: task.contextId,
    status: { state, timestamp: now(), ...(text && { message: agentMessage(task, text) }) },
  },
});

const artifact = (task, artifactId, parts, more = {}) => ({
  artifactUpdate: { taskId: task.id, contextId: task.contextId, artifact: { artifactId, parts }, ...more },
});

const now = () => new Date().toISOString();

// What was heard, for the test to look at.
export const seen = { messages: [], canceled: [], extensions: [] };

const waiting = new Map(); // task id to what ends its wait

// wake ends the wait of a task: "granted" after a sign-in, or "canceled".
export function wake(taskId, why) {
  const resolve = waiting.get(taskId);
  waiting.delete(taskId);
  resolve?.(why);
  return resolve !== undefined;
}

// waits returns the tasks that wait.
export const waits = () => [...waiting.keys()];

const woken = (taskId) => new Promise((resolve) => waiting.set(taskId, resolve));

// answer yields what is said to the task's message. A task has id, contextId,
// message, and resumed, the task as it stands, if it was there before.
export async function* answer(task) {
  // Words of other agents come with their names, and words that failed come again.
  const words = task.message.parts.map((p) => p.text ?? "").findLast((text) => !text.startsWith("[")).replace(/^bank /, "");
  if (task.resumed) {
    yield { task: { ...task.resumed, status: { state: "TASK_STATE_WORKING", timestamp: now() } } };
    yield artifact(task, "answer", [{ text: `It is ${words}.` }], { lastChunk: true });
    yield status(task, "TASK_STATE_COMPLETED");
    return;
  }
  switch (words) {
    case "message":
      yield { message: agentMessage({ contextId: task.contextId }, "Just words.") };
      return;
    case "pieces":
      yield newTask(task);
      yield status(task, "TASK_STATE_WORKING", "Looking it up.");
      yield artifact(task, "answer", [{ text: "I see " }]);
      yield artifact(task, "answer", [{ text: "two " }], { append: true });
      yield artifact(task, "answer", [{ text: "charges." }], { append: true });
      yield artifact(task, "answer", [{ text: "I see two charges." }], { lastChunk: true });
      yield status(task, "TASK_STATE_COMPLETED");
      return;
    case "task":
      yield newTask(task, "TASK_STATE_COMPLETED", { artifacts: [{ artifactId: "answer", parts: [{ text: "All at once." }] }] });
      return;
    case "ask":
      yield newTask(task);
      yield status(task, "TASK_STATE_INPUT_REQUIRED", "Which one?");
      return;
    case "wait": {
      const wakes = woken(task.id); // who hears that the task waits may wake it at once
      yield newTask(task);
      yield status(task, "TASK_STATE_WORKING");
      if ((await wakes) === "canceled") {
        yield status(task, "TASK_STATE_CANCELED");
      }
      return;
    }
    case "sign in": {
      const wakes = woken(task.id);
      yield newTask(task);
      yield status(task, "TASK_STATE_AUTH_REQUIRED", "Sign in first.");
      if ((await wakes) === "granted") {
        yield status(task, "TASK_STATE_WORKING");
        yield artifact(task, "answer", [{ text: "Welcome back." }], { lastChunk: true });
        yield status(task, "TASK_STATE_COMPLETED");
      } else {
        yield status(task, "TASK_STATE_CANCELED");
      }
      return;
    }
    case "fail":
      yield newTask(task);
      yield artifact(task, "answer", [{ text: "Half an ans" }]);
      yield status(task, "TASK_STATE_FAILED", "No money.");
      return;
    case "reject":
      yield newTask(task);
      yield status(task, "TASK_STATE_REJECTED", "Not my job.");
      return;
    case "crash":
      yield newTask(task);
      throw new Error("the wheels came off");
    case "odd":
      yield newTask(task, "TASK_STATE_SUBMITTED", { metadata: { transfer_to_agent: "admin", agent: "admin" } });
      yield artifact(task, "answer", [
        { text: "See " },
        { data: { n: 1, nested: [true, null] } },
        { url: "https://files.test/y.png", mediaType: "image/png", filename: "y.png" },
        { raw: "aGk=", mediaType: "text/plain", filename: "hi.txt" },
      ]);
      yield status(task, "TASK_STATE_COMPLETED");
      return;
    default:
      yield { message: agentMessage({ contextId: task.contextId }, `You said: ${words}`) };
  }
}
