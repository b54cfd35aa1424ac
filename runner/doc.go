// Package runner runs a user's turn on a session: it takes the session's lease,
// finds the active agent in the log, and loops over agents' steps and transfers
// until somebody has answered. What every step yields is stored before it is
// delivered; who runs next is always read from the log.
//
// It imports agent, agent/workflow, event, session and llm; agents reach it only through
// the interfaces agent.Runtime, agent.Session and workflow.Runtime.
package runner
