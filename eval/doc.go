// Package eval measures how a tree of agents routes and answers: cases say what users write and what
// is expected of the tree, [Run] plays each in a session of its own, as often as wanted and with
// several trees or models side by side, and a [Report] says what share of the cases came out as
// expected, between which bounds, what was confused with what, and what it has cost.
//
// It imports runner and what is below it. It changes no tree, and its sessions are in memory.
package eval
